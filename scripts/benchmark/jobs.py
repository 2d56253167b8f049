"""What the benchmark and its engine processes say to each other: plain data, and no import of an engine."""

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
    """What stepwell compiles for; peers use what they find in the machine."""
    checkout: str = ""
    """Of stepwell: the folder of another checkout, whose package runs in place of ours; empty for ours."""
    plugins: tuple[str, ...] = ()
    """Files that stepwell loads first."""
    pipeline: str = ""
    """The pipeline that stepwell takes, as text or the path of a file; empty for the default one."""
    schedule: str = ""
    """The path of a schedule file that stepwell takes."""
    variant: str = ""
    """What tells it from stepwell as it is, where both take part."""
    of_floats: bool = False
    """Whether it runs the network of floats that one of fewer bits was made from."""
    precision: str = ""
    """What it computes networks of floats in, where it can say so: bf16; empty for f32."""

    @property
    def is_ours(self) -> bool:
        """Whether it is this checkout's stepwell, with which the others are compared."""
        return self.engine == "stepwell" and not self.checkout and not self.variant

    @property
    def label(self) -> str:
        """Its name in tables and files."""
        own = "".join(f" without {name}" for name in self.disable) + (f" with {self.variant}" if self.variant else "")
        return self.engine + own + (f" of {Path(self.checkout).name}" if self.checkout else "")


@dataclass(frozen=True)
class Job:
    """What an engine process loads, and how it runs it."""

    contestant: Contestant
    model: str
    """The path of an ONNX file, of IR, or of the folder of what was converted for one of PEERS."""
    threads: int
    spin: bool
    """Whether idle workers of the engine wait actively, as far as the engine lets us say."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes for inputs with free dimensions."""
    cache: str | None = None
    """A folder where the engine may keep what it compiled."""
    level: str | None = None
    """At which level IR is; None for an ONNX file."""
    is_last: bool = True
    """Whether the process is to load nothing after it."""


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
    """What was set, in the engine's own words."""
    inputs: tuple[TensorSpec, ...]
    import_seconds: float
    load_seconds: float
    resident_before: int | None
    """Of the process with Python and numpy, before the engine was imported."""


@dataclass(frozen=True)
class Turn:
    """One turn of timed runs, one after the other."""

    seconds: list[float]
    cpu: float
    """Processor time that the process used in the turn, over all its threads, warm-up included."""


@dataclass(frozen=True)
class KernelTime:
    """One call of a kernel in the list of calls that a model is."""

    kernel: str
    nodes: tuple[str, ...]
    seconds: float
    """The median of its runs."""
    fastest: float
    """Seconds of the fastest one."""
    flops: int | None
    """Operations of the computation as the network states it, whatever the algorithm; None if not known."""
    bytes: int
    """Of all its operands."""


@dataclass(frozen=True)
class Profile:
    """Where the time of a model goes."""

    calls: list[KernelTime]
    whole_seconds: float
    """One run of the whole model, measured beside the calls: the median."""
    fastest_whole: float
    peak_flops: float
    """Operations per second of nothing but fused multiply-adds in registers, on as many threads."""
