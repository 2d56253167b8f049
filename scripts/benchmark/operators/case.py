"""A case of the operator benchmark: a model of one operator or a few, the data it runs on, and how it is named."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

from benchmark.results import TOLERANCE

__all__ = [
    "F16_TOLERANCE", "F64_TOLERANCE", "STEP_TOLERANCE", "Case",
    "Fill", "Tensor", "below", "constant", "distinct", "given", "graph", "integers", "mask",
    "normal", "op", "positive", "uniform", "weight",
]  # fmt: skip

Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""Makes the values of a tensor of some shape; they are cast to the tensor's type."""

F16_TOLERANCE = 1e-2
"""For what is rounded to f16 on the way in some engines and not in others."""
F64_TOLERANCE = 1e-11
"""Some engine computes f64 in f32, which takes half the time."""
STEP_TOLERANCE = 2e-2
"""For quantised results, which may be one step apart where sums are rounded in another order."""

SHORT = {"float32": "", "float64": "f64", "float16": "f16"}
SHORT |= {f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
HIDDEN = ("pads", "hidden_size", "num_outputs", "activations", "layout")  # attributes that a name does without
LONGEST = 6  # elements of an attribute that a name shows


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal."""
    return random.standard_normal(shape)


def uniform(low: float, high: float) -> Fill:
    """Uniform in [low, high)."""
    return lambda random, shape: random.uniform(low, high, shape)


positive = uniform(0.5, 2.0)


def integers(low: int, high: int) -> Fill:
    """Uniform in low, ..., high - 1."""
    return lambda random, shape: random.integers(low, high, shape)


def below(end: int) -> Fill:
    """Indices 0, ..., end - 1, which may repeat."""
    return integers(0, end)


def distinct(end: int) -> Fill:
    """Indices 0, ..., end - 1 in random order, none twice in the last dimension."""

    def fill(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        rows = int(np.prod(shape[:-1], dtype=int))
        return np.stack([random.permutation(end)[: shape[-1]] for _ in range(rows)]).reshape(shape)

    return fill


def mask(share: float) -> Fill:
    """True in this share of the places."""
    return lambda random, shape: random.random(shape) < share


@dataclass(frozen=True)
class Tensor:
    """An input of the model: given at each run, or a constant in the file."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    fill: Fill = normal
    is_constant: bool = False

    def values(self, random: np.random.Generator) -> np.ndarray:
        """Its values."""
        return np.asarray(self.fill(random, self.shape)).astype(self.dtype)

    def __str__(self) -> str:
        return " ".join(filter(None, ("x".join(map(str, self.shape)) or "scalar", SHORT.get(self.dtype, self.dtype))))


def given(*shape: int, dtype: str = "float32", fill: Fill = normal) -> Tensor:
    """What each run is given."""
    return Tensor(shape, dtype, fill)


def weight(*shape: int, dtype: str = "float32", fill: Fill | None = None) -> Tensor:
    """A constant: by default normal, such that a product with it keeps the size of values."""
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 4
    return Tensor(shape, dtype, fill or (lambda random, s: random.standard_normal(s) / np.sqrt(fan_in)), True)


def constant(values: Any, dtype: str = "int64") -> Tensor:
    """A constant of these values."""
    array = np.asarray(values, dtype)
    return Tensor(array.shape, dtype, lambda random, shape: array, True)


@dataclass(frozen=True, eq=False)
class Case:
    """A model of one operator or a few, at a size that some network has."""

    operator: str
    origin: str
    """Where this size is from, in a word."""
    shape: str
    """Shapes and attributes, as shown."""
    nodes: tuple[onnx.NodeProto, ...]
    tensors: Mapping[str, Tensor]
    outputs: Mapping[str, str]
    """Types by name."""
    opset: int
    tolerance: float

    @property
    def name(self) -> str:
        """Tells it from all others."""
        return f"{self.operator} {self.shape}"

    def model(self) -> onnx.ModelProto:
        """The model, the same at every call."""
        value = helper.make_tensor_value_info
        types = {name: helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for name, dtype in self._types().items()}
        inputs = [value(name, types[name], t.shape) for name, t in self.tensors.items() if not t.is_constant]
        outputs = [value(name, types[name], None) for name in self.outputs]
        constants = [numpy_helper.from_array(t.values(self._random(name)), name) for name, t in self.tensors.items() if t.is_constant]
        made = helper.make_graph(list(self.nodes), "case", inputs, outputs, constants)
        domains = dict.fromkeys(node.domain for node in self.nodes)
        versions = {"": self.opset, "ai.onnx.ml": 3, "com.microsoft": 1}
        opsets = [helper.make_opsetid(domain, versions[domain]) for domain in dict.fromkeys(("", *domains))]
        return helper.make_model(made, opset_imports=opsets, ir_version=10)

    def feed(self, number: int) -> dict[str, np.ndarray]:
        """The inputs of a run; others for another number."""
        return {name: t.values(self._random(name, number)) for name, t in self.tensors.items() if not t.is_constant}

    def _types(self) -> dict[str, str]:
        return {**{name: tensor.dtype for name, tensor in self.tensors.items()}, **self.outputs}

    def _random(self, name: str, number: int = 0) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(name.encode()), number])


def op(
    operator: str, origin: str, *inputs: Tensor | None, outputs: int | Sequence[str] = 1, note: str | None = None, domain: str = "",
    opset: int = 18, title: str | None = None, tolerance: float | None = None, **attributes: Any,
) -> Case:  # fmt: skip
    """A case of one node. `outputs` are types, or how many there are, all of the type of the first input; "" leaves one out.

    `note` is shown in place of the attributes, `title` in place of the operator.
    """
    tensors = {f"x{i}": tensor for i, tensor in enumerate(inputs) if tensor is not None}
    first = next(iter(tensors.values())).dtype
    types = [first] * outputs if isinstance(outputs, int) else list(outputs)
    names = [f"y{i}" if dtype else "" for i, dtype in enumerate(types)]
    fed = ["" if tensor is None else f"x{i}" for i, tensor in enumerate(inputs)]
    node = helper.make_node(operator, fed, names, name=operator.lower(), domain=domain, **attributes)
    results = {name: dtype for name, dtype in zip(names, types, strict=True) if name}
    shown = note if note is not None else _attributes(attributes, tensors)
    return Case(title or operator, origin, _shape(tensors, shown), (node,), tensors, results, opset, _tolerance(tolerance, tensors))


def graph(
    title: str, origin: str, body: str, outputs: Mapping[str, str] | None = None, *, note: str = "", opset: int = 18,
    tolerance: float | None = None, **tensors: Tensor,
) -> Case:  # fmt: skip
    """A case of several nodes, in the text syntax of ONNX, a line each; the result is `y`, of the type of the first input, if not said."""
    nodes = tuple(onnx.parser.parse_node(line.strip()) for line in body.strip().splitlines())
    for number, node in enumerate(nodes):
        node.name = f"{node.op_type.lower()}{number}"
    results = outputs or {"y": next(iter(tensors.values())).dtype}
    return Case(title, origin, _shape(tensors, note), nodes, tensors, results, opset, _tolerance(tolerance, tensors))


def _tolerance(chosen: float | None, tensors: Mapping[str, Tensor]) -> float:
    if chosen is not None:
        return chosen
    types = {tensor.dtype for tensor in tensors.values()}
    return F16_TOLERANCE if "float16" in types else F64_TOLERANCE if "float64" in types else TOLERANCE


def _shape(tensors: Mapping[str, Tensor], note: str) -> str:
    """What each run is given, then the weights, then what else tells the case from others."""
    runs = ", ".join(str(t) for t in tensors.values() if not t.is_constant)
    weights = ", ".join(str(t) for t in tensors.values() if t.is_constant and len(t.shape) > 1)
    return " ".join(filter(None, (runs, weights and f"by {weights}", note)))


def _attributes(attributes: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    hidden = {*HIDDEN, *(("kernel_shape",) if any(t.is_constant and len(t.shape) > 2 for t in tensors.values()) else ())}
    shown = []
    for name, value in attributes.items():
        if name in hidden or (isinstance(value, list | tuple) and len(value) > LONGEST):
            continue
        text = "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        shown.append(f"{name}={text}")
    return " ".join(shown)
