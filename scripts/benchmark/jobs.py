"""The messages between the benchmark and its engine processes: plain data, without importing an engine."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["ENGINES", "PEERS", "Contestant", "Failure", "Feed", "Job", "KernelTime", "Loaded", "Profile", "TensorSpec", "Turn"]

Feed = dict[str, np.ndarray]
"""An array for each input, by name."""

ENGINES = {"stepwell": "stepwell", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
"""Module and title of each engine that reads ONNX files and runs in this environment."""

PEERS = {"mnn": "MNN", "ncnn": "ncnn"}
"""Name and title of those that take part where they are named: in an environment of their own, with files that are converted for them."""


class Failure(Exception):
    """An engine could not do what it was asked for; says which and why."""


@dataclass(frozen=True)
class Contestant:
    """One column of the comparison: an engine, or a variant of it with switches off."""

    engine: str
    disable: tuple[str, ...] = ()
    target: str = "host"
    """The target of stepwell; peers use all features of the machine."""
    checkout: str = ""
    """For stepwell, the folder of another checkout whose package runs instead of ours; empty for ours."""
    plugins: tuple[str, ...] = ()
    """Plugin files that stepwell loads first."""
    pipeline: str = ""
    """The pipeline for stepwell, as text or the path of a file; empty for the default one."""
    schedule: str = ""
    """The path of a schedule file for stepwell."""
    plans: str = ""
    """A folder with a plan for each network and number of threads (`tuned.plan_file`); empty for none."""
    bundled: bool = False
    """Whether stepwell runs the model as a bundle, through its interface in C."""
    copied: bool = False
    """Whether that copies the weights into memory of large pages instead of mapping their file."""
    reproducible: bool = False
    """Whether stepwell computes the same bits on every machine."""
    variant: str = ""
    """The label that distinguishes it from plain stepwell if both take part."""
    of_floats: bool = False
    """Whether it runs the float network that a network of fewer bits was made from."""
    sharing: str = ""
    """How the cores are shared out among callers: `auto` as the engine chooses, `split` one thread for each stream, `whole` one stream; empty for the
    runs of one caller."""
    precision: str = ""
    """The type in which it computes float networks, if it can be chosen: bf16; empty for f32."""

    @property
    def is_ours(self) -> bool:
        """Whether it is this checkout's stepwell, the reference of the comparison."""
        return self.engine == "stepwell" and not self.checkout and not self.variant

    @property
    def label(self) -> str:
        """Its name in tables and files."""
        own = "".join(f" without {name}" for name in self.disable) + (f" with {self.variant}" if self.variant else "")
        return self.engine + own + (f" of {Path(self.checkout).name}" if self.checkout else "")


@dataclass(frozen=True)
class Job:
    """The model that an engine process loads, and the settings of its runs."""

    contestant: Contestant
    model: str
    """The path of an ONNX file, of IR, or of the folder of a model converted for one of PEERS."""
    threads: int
    spin: bool
    """Whether idle workers of the engine wait actively, as far as the engine has a setting."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes for inputs with dynamic dimensions."""
    cache: str | None = None
    """A folder in which the engine may cache compiled models."""
    level: str | None = None
    """The level of IR; None for an ONNX file."""
    is_last: bool = True
    """Whether the process loads no further model."""
    callers: int = 1
    """The number of callers, for a contestant that shares the cores out."""

    @property
    def streams(self) -> int:
        """The number of streams of a contestant that is told how to share the cores out."""
        return self.threads if self.contestant.sharing == "split" else 1


@dataclass(frozen=True)
class TensorSpec:
    """An input: its name, shape and numpy's name of its dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Loaded:
    """A model is ready to run. Times are in seconds, memory in bytes."""

    version: str
    settings: dict[str, str]
    """The settings, in the engine's own words."""
    inputs: tuple[TensorSpec, ...]
    import_seconds: float
    load_seconds: float
    resident_before: int | None
    """Memory of the process with Python and numpy, before the engine was imported."""


@dataclass(frozen=True)
class Turn:
    """One turn of timed runs, one after the other, or of several callers."""

    seconds: list[float]
    cpu: float
    """Processor time that the process used in the turn, over all its threads, warm-up included."""
    latencies: list[float] = field(default_factory=list)
    """For several callers, the seconds from each request to its answer; `seconds` is then the time of the turn for each request."""


@dataclass(frozen=True)
class KernelTime:
    """One call of a kernel in the list of calls of a model."""

    kernel: str
    nodes: tuple[str, ...]
    seconds: float
    """The median of its runs."""
    fastest: float
    """Seconds of the fastest one."""
    flops: int | None
    """Operations that the network states, whatever the algorithm; None if unknown."""
    bytes: int
    """The bytes of all operands."""


@dataclass(frozen=True)
class Profile:
    """The time of each part of a model."""

    calls: list[KernelTime]
    whole_seconds: float
    """The median of runs of the whole model, measured beside the calls."""
    fastest_whole: float
    peak_flops: float
    """Operations per second of a loop with only fused multiply-adds in registers, on as many threads."""
