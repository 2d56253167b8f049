"""Files for the peers that read no ONNX: converted once by their makers' tools in the peers' environment, and stored."""

import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import environment

from benchmark.jobs import PEERS, Failure
from benchmark.models import Network, feeds
from benchmark.quantised import CALIBRATION, at_opset, inputs_of

if TYPE_CHECKING:
    import onnx

__all__ = ["SCRIPTS", "Converter"]

SCRIPTS = Path(__file__).resolve().parent.parent
SOURCES = ("convert.py", "peer_engines.py", "peers.py", "peers.txt")
"""The files of this folder that a converted model depends on."""
OPSET = 13
"""The least that they get: both read Softmax of older opsets, which flattens its input, as that of newer ones."""
TIMEOUT = 1800.0  # seconds for one conversion


class Converter:
    """Converts networks for PEERS, into folders of their own below `folder`.

    A folder holds the model in the peer's own format and `about.json`. It is named after the peer, and by a digest of the network's file,
    the sizes of its inputs, the versions of the tools and the code that calls them: what is there is not converted again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._failed: dict[Path, str] = {}

    def converted(self, engine: str, network: Network) -> Path:
        """The folder of a network for an engine; a quantised network for MNN is its network of floats, quantised by MNN's own tool.

        Raises Failure, with the last words of the tool, where the network cannot be converted; it is not tried again by this object.
        """
        int8 = network.floats is not None
        if int8 and engine != "mnn":
            raise Failure(f"{PEERS[engine]} takes part with networks of floats alone: no package of PyPI has its quantiser")
        source = network.floats or network.path
        target = self.folder / f"{engine}-{_digest(source, network.shapes, int8)}"
        if target in self._failed:
            raise Failure(self._failed[target])
        if not (target / "about.json").is_file():
            try:
                self._convert(engine, source, network.shapes, int8, target)
            except Failure as failure:
                self._failed[target] = str(failure)
                raise
        return target

    def _convert(self, engine: str, source: Path, shapes: Mapping[str, tuple[int, ...]], int8: bool, target: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{engine}-", dir=self.folder) as scratch:
            _prepare(source, shapes, int8, Path(scratch))
            _run(engine, Path(scratch))
            try:
                (Path(scratch) / "kept").rename(target)
            except OSError:
                if not (target / "about.json").is_file():  # else somebody else was faster
                    raise


def _digest(model: Path, shapes: Mapping[str, tuple[int, ...]], int8: bool) -> str:
    """A digest of everything that a converted model depends on."""
    what = [_of_file(model, model.stat().st_mtime_ns), *(_of_file(Path(__file__).parent / name) for name in SOURCES)]
    return hashlib.sha256(json.dumps([what, sorted(shapes.items()), int8]).encode()).hexdigest()[:16]


@lru_cache
def _of_file(path: Path, changed: int = 0) -> str:
    """The digest of a file; with the time of its last change it is read again when that moves."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _prepare(source: Path, shapes: Mapping[str, tuple[int, ...]], int8: bool, scratch: Path) -> None:
    """Write `model.onnx`, `about.json` and for int8 `calibration` to a folder. Raises Failure for a network that no peer takes.

    The model has the inputs `in0`, `in1`…, the outputs `out0`…, and all sizes of inputs fixed: names that every tool can have in a file's name.
    """
    import onnx

    model = at_opset(onnx.load(source), OPSET)
    stored = {tensor.name for tensor in model.graph.initializer}
    taken = [value for value in model.graph.input if value.name not in stored]
    for value in taken:
        for dimension, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dimension.dim_value = size
    specs = inputs_of(model)
    for spec in specs:
        if spec.dtype != "float32":
            raise Failure(f"input '{spec.name}' is of {spec.dtype}; expected inputs of float32 alone")
        if not all(spec.shape):
            raise Failure(f"input '{spec.name}' has free dimensions: give its shape with --shape")
    names = {value.name: f"{kind}{i}" for kind, values in (("in", taken), ("out", model.graph.output)) for i, value in enumerate(values)}
    _rename(model.graph, names)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, scratch / "model.onnx")
    about = {"inputs": [asdict(spec) for spec in specs], "outputs": [_sizes(value) for value in model.graph.output], "int8": int8}
    (scratch / "about.json").write_text(json.dumps(about))
    for number, feed in enumerate(feeds(specs, CALIBRATION, seed=1) if int8 else ()):
        sample = scratch / "calibration" / f"{number}"
        sample.mkdir(parents=True)
        for i, spec in enumerate(specs):
            feed[spec.name].tofile(sample / f"in{i}.txt", sep="\n")
        (sample / "input.json").write_text(json.dumps({"inputs": [{"name": f"in{i}", "shape": spec.shape} for i, spec in enumerate(specs)]}))


def _rename(graph: "onnx.GraphProto", names: Mapping[str, str]) -> None:
    """Give values of a graph, and of the graphs in it, other names; those that have such a name and are to keep theirs get another, too."""

    def new(name: str) -> str:
        return names.get(name) or (f"{name}_" if re.fullmatch(r"(in|out)\d+_*", name) else name)

    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = new(value.name)
    for node in graph.node:
        for uses in (node.input, node.output):
            uses[:] = map(new, uses)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)


def _sizes(value: "onnx.ValueInfoProto") -> Sequence[int]:
    """The shape of a value; 0 where it is not known."""
    return [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]


def _run(engine: str, scratch: Path) -> None:
    """Run the engine's tools on the prepared files in a folder. Raises Failure with the end of their output."""
    command = [str(environment.python(environment.PEERS)), "-m", "benchmark.convert", engine, str(scratch)]
    try:
        ended = subprocess.run(command, cwd=SCRIPTS, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"it was not converted within {TIMEOUT:g} s") from None
    if ended.returncode != 0:
        said = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
        raise Failure(f"it cannot be converted: status {ended.returncode}, having said: {' / '.join(said[-3:])}")
