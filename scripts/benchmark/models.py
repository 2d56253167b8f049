"""The networks to compare: files of the zoo, created if they are missing, and files of users; and data for their inputs."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmark.jobs import Failure, Feed, TensorSpec
from benchmark.operators import Case, select
from benchmark.results import SEVEN, TOLERANCE

if TYPE_CHECKING:
    import onnx

    from benchmark.quantised import Weights

__all__ = ["KNOWN", "OTHERS", "Network", "call_network", "feeds", "find", "find_cases", "find_int8", "find_precision", "find_weights"]

TOLERANCE_OF_INT8 = 0.2
"""The tolerance of quantised networks: with random weights, one rounding step in one layer spreads through all others."""
TOLERANCE_OF_HALVES = 2e-2
"""The tolerance of networks that are stored in f16 or computed in bf16."""
TOLERANCE_OF_ROUNDED = 0.05
"""The tolerance of networks with weights of few bits, if an engine may round the other factor to bytes."""
KNOWN = (*SEVEN, "resnet50v1", "inceptionv1", "inceptionv2", "zfnet512", "bert_layer")
"""The eleven networks of the zoo, beginning with the seven for which goals are stated, and a layer of a transformer."""
OTHERS = ("sentence_encoder", "gemv", "gemv_x8")
"""Networks that are compared only if they are named."""


@dataclass(frozen=True)
class Network:
    """A network and its file."""

    name: str
    path: Path
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes for inputs with dynamic dimensions, by name."""
    level: str | None = None
    """The level of a file of IR, which only Stepwell runs."""
    case: Case | None = None
    """The case, if it is an operator; engines may lack operators."""
    floats: Path | None = None
    """The file of the float network that it was made from, for networks of fewer bits."""
    allowed: float = TOLERANCE
    """The tolerance, unless it is an operator."""

    @property
    def tolerance(self) -> float:
        """The largest acceptable error, relative to the scale of an output."""
        return self.allowed if self.case is None else self.case.tolerance

    def feeds(self, inputs: Sequence[TensorSpec], count: int) -> list[Feed]:
        """`count` different sets of inputs."""
        return feeds(inputs, count) if self.case is None else [self.case.feed(number) for number in range(count)]

    @property
    def weights_bytes(self) -> int:
        """The size of the file, of which all but some kilobytes are weights; of IR, that of the weights beside it."""
        file = self.path if self.level is None else self.path.with_suffix(".safetensors")
        return file.stat().st_size if file.is_file() else 0


def find(
    names: Sequence[str], folder: Path, seed: int = 0, shapes: Mapping[str, tuple[int, ...]] | None = None, level: str | None = None
) -> list[Network]:
    """The networks by name or by the path of a file; `shapes` is for the files that have inputs of these names, `level` for those of IR.

    Raises Failure for what is neither, for a shape that no file has an input for, and for IR without a level.

    Those of the zoo that scripts/zoo.py has written to `folder` are taken from there. Others are written to a sub-folder that is named after the code
    that makes them, unless they are there; the tests of the networks keep theirs in the same place.
    """
    found = []
    for name in names:
        if name in (*KNOWN, *OTHERS):
            found.append(Network(name, _materialised(name, folder, seed)))
        elif Path(name).suffix == ".mlir" and Path(name).is_file():
            if level is None:
                raise Failure(f"{name}: say at which level this IR is, with --from LEVEL")
            found.append(Network(Path(name).stem, Path(name), level=level))
        elif Path(name).is_file():
            here = {key: shape for key, shape in (shapes or {}).items() if key in _inputs(Path(name))}
            found.append(Network(Path(name).stem, Path(name), here))
        else:
            raise Failure(f"'{name}' is no file and no network; the networks: {', '.join((*KNOWN, *OTHERS))}")
    unused = (shapes or {}).keys() - {key for network in found for key in network.shapes}
    if unused:
        raise Failure(f"no file has an input {', '.join(sorted(unused))} to give a shape to")
    twice = {network.name for network in found if sum(other.name == network.name for other in found) > 1}
    if twice:
        raise Failure(f"two networks have the name {', '.join(sorted(twice))}")
    return found


def find_int8(names: Sequence[str], folder: Path, seed: int = 0) -> list[Network]:
    """The networks of floats by name, quantised; their files, too, are kept in a sub-folder of `folder`. Raises as `find`."""
    from benchmark import quantised

    floats = find(names or quantised.INT8, folder, seed)
    return [_of_fewer_bits(network, "int8", quantised.quantised, folder, TOLERANCE_OF_INT8) for network in floats]


def find_weights(names: Sequence[str], how: "Weights", folder: Path, seed: int = 0) -> list[Network]:
    """The networks of floats by name, with weights of few bits; their files, too, are kept in a sub-folder of `folder`. Raises as `find`."""
    from benchmark import quantised

    floats, allowed = find(names or quantised.WEIGHTS, folder, seed), TOLERANCE_OF_ROUNDED if how.accuracy else TOLERANCE
    return [_of_fewer_bits(network, str(how), how.stored, folder, allowed) for network in floats]


def find_precision(
    names: Sequence[str], precision: str, folder: Path, seed: int = 0, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> list[Network]:  # fmt: skip
    """The networks of floats by name, to be computed in bf16; or stored in f16, their files in a sub-folder of `folder`. Raises as `find`."""
    from benchmark import quantised

    floats = find(names or KNOWN, folder, seed, shapes)
    if precision == "bf16":
        return [replace(network, allowed=TOLERANCE_OF_HALVES) for network in floats]
    return [_of_fewer_bits(network, precision, quantised.halved, folder, TOLERANCE_OF_HALVES) for network in floats]


def _of_fewer_bits(network: Network, kind: str, make: "Callable[[Path], onnx.ModelProto]", folder: Path, allowed: float) -> Network:
    """A network of floats as `make` quantises it; its file lies in a sub-folder named by `kind`, the code that makes it, and what it is made of."""
    where = folder / f"{kind}-{_digest(Path(__file__).parent)}-{hashlib.sha256(network.path.read_bytes()).hexdigest()[:16]}"
    made = _written(where / f"{network.name}.onnx", partial(make, network.path))
    return replace(network, path=made, floats=network.path, allowed=allowed)


def _inputs(path: Path) -> set[str]:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return {value.name for value in onnx.load(path, load_external_data=False).graph.input}
    except DecodeError:
        raise Failure(f"{path} is not an ONNX model") from None


def find_cases(pattern: str, folder: Path) -> list[Network]:
    """The operators that the regular expression is found in; their files, too, are written to a sub-folder of `folder`. Raises Failure for none."""
    import benchmark.operators as package

    where = folder / f"operators-{_digest(Path(package.__file__).parent)}"
    return [Network(case.name, _written(where / f"{_slug(case.name)}.onnx", case.model), case=case) for case in select(pattern)]


def _slug(name: str) -> str:
    """A file name."""
    plain = "".join(c if c.isalnum() else "_" for c in name)[:80]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _materialised(name: str, folder: Path, seed: int) -> Path:
    import networks

    if not seed and (written := folder / f"{name}.onnx").is_file():  # by scripts/zoo.py
        return written
    digest = _digest(Path(networks.__file__).parent) + (f"-seed{seed}" if seed else "")
    return _written(folder / digest / f"{name}.onnx", lambda: networks.build(name, seed))


def _digest(sources: Path) -> str:
    """A digest of the code in a folder that makes models."""
    import onnx

    digest = hashlib.sha256(onnx.__version__.encode())
    for source in sorted(sources.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _written(target: Path, build: Callable[[], "onnx.ModelProto"]) -> Path:
    """The file, made if it is not there."""
    import onnx

    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")  # somebody may be writing the same
        onnx.save(build(), partial)
        partial.replace(target)
    return target


def call_network(folder: Path) -> Network:
    """A network with almost no work, ReLU of four numbers: its time is the cost of a call."""
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "call", [x], [y])
    path = folder / "call.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return Network("call", path)


def feeds(inputs: Sequence[TensorSpec], count: int, seed: int = 0) -> list[Feed]:
    """`count` different sets of inputs: images for what has the shape of one, else standard normal; integers 0 and 1, which index anything."""
    return [{spec.name: _array(spec, [seed, number, index]) for index, spec in enumerate(inputs)} for number in range(count)]


def _array(spec: TensorSpec, seed: list[int]) -> np.ndarray:
    dtype = np.dtype(spec.dtype)
    if spec.shape == (1, 3, 224, 224) and dtype.kind == "f":
        import networks

        return networks.image(seed[0] + seed[1]).astype(dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "f":
        return random.standard_normal(spec.shape).astype(dtype)
    return random.integers(0, 2, spec.shape).astype(dtype)
