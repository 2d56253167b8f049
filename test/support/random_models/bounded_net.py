"""ONNX models that are built together with a bound of what rounding may do to each of their values."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper
from op_random import Random

from stepwell.dialects.core.types import to_numpy
from stepwell.passes.packed.use_winograd import ERRORS

OPSET = 22  # the first whose shape inference counts the windows of ceil_mode as ONNX Runtime and the graph dialect do
# How much more than the direct method, whose error is 1e-6 of the scale, Winograd's may round.
WINOGRAD = max(ERRORS.values()) / 1e-6
# ONNX Runtime's exp, erf, tanh and logistic function are approximations within a few units of the last place of 1, as ours are.
FUNCTION_ULPS = 8
# Functions that change by at most this much for each unit that their operand changes, and whose size is about 1 or that of the operand.
SLOPES = {
    "Relu": 1.0, "LeakyRelu": 1.0, "Clip": 1.0, "Sigmoid": 0.25, "Tanh": 1.0, "Erf": 1.13, "HardSwish": 1.5,
}  # fmt: skip
EXACT = ("Relu", "Clip")


@dataclass(frozen=True)
class Value:
    """A value of a model, and the value of the judge that bounds how far two computations of it may lie apart."""

    name: str
    shape: tuple[int, ...]
    error: str


Operand = str | np.ndarray | None


class BoundedNet:
    """Builds a model node by node, and beside it its judge: the model with nodes that bound the difference of two computations of it.

    A sum of n products is charged 4 ε (√n + 1) Σ|x||w|, with ε = 2u: each of the two computations has the probabilistic bound λ √n u of
    N. J. Higham and T. Mary (A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019) with λ = 4.
    Differences of the operands are carried through each node by what they can do at most.
    """

    def __init__(self, r: Random, dtype: str = "f32") -> None:
        self.r = r
        self.dtype = to_numpy(dtype)
        self.eps = float(np.finfo(self.dtype).eps)
        self.inputs: dict[str, np.ndarray] = {}
        self.values: list[Value] = []
        self._nodes: list[NodeProto] = []
        self._bounds: list[NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._bound_weights: list[onnx.TensorProto] = []

    # --- data

    def random(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Random values of both signs, without symmetry."""
        return np.asarray(self.r.generator.normal(0.1, 1.0, shape) * scale).astype(self.dtype)

    def input(self, *shape: int, scale: float = 1.0) -> Value:
        """A new input of the model."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.random(*shape, scale=scale)
        return self.leaf(name, shape)

    def constant(self, array: np.ndarray) -> Value:
        """A new initializer of the model."""
        name = self._constant(array, self._weights, "w")
        return self.leaf(name, array.shape)

    def leaf(self, name: str, shape: tuple[int, ...]) -> Value:
        """A value that is exact."""
        return Value(name, shape, self.bound("Sub", name, name))

    # --- nodes

    def node(self, op_type: str, *operands: Operand, **attributes: Any) -> str:
        """Add a node to the model (arrays become initializers); returns its output's name."""
        return self._add(self._nodes, self._weights, op_type, operands, attributes)

    def bound(self, op_type: str, *operands: Operand | float, **attributes: Any) -> str:
        """Add a node to the judge alone; numbers become constants of the model's dtype."""
        arrays = [np.asarray(o, self.dtype) if isinstance(o, float) else o for o in operands]
        return self._add(self._bounds, self._bound_weights, op_type, arrays, attributes)

    def _add(
        self, nodes: list[NodeProto], weights: list[onnx.TensorProto], op_type: str, operands: Sequence[Operand], attributes: dict[str, Any]
    ) -> str:
        kind = "n" if nodes is self._nodes else "e"
        names = ["" if o is None else o if isinstance(o, str) else self._constant(o, weights, f"{kind}w") for o in operands]
        name = f"{kind}{len(nodes)}"
        nodes.append(helper.make_node(op_type, names, [name], name=f"{op_type}_{name}", **attributes))
        return name

    def _constant(self, array: np.ndarray, weights: list[onnx.TensorProto], prefix: str) -> str:
        name = f"{prefix}{len(weights)}"
        weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    # --- bounds

    def rounding(self, terms: int) -> float:
        """What a sum of so many products is charged, as a share of the sum of their magnitudes."""
        return 4 * self.eps * (sqrt(terms) + 1)

    def blurred(self, x: Value, share: float) -> str:
        """The bound of `x` plus a share of its magnitude."""
        return self.bound("Add", x.error, self.bound("Mul", self.bound("Abs", x.name), share))

    # --- ops

    def moved(self, op_type: str, x: Value, shape: Sequence[int], *operands: Operand, **attributes: Any) -> Value:
        """An op that only moves data, or chooses among it (as max-pooling does), from `x`."""
        return Value(self.node(op_type, x.name, *operands, **attributes), tuple(shape), self.bound(op_type, x.error, *operands, **attributes))

    def conv(self, x: Value, w: Value, bias: np.ndarray | None, shape: Sequence[int], **attributes: Any) -> Value:
        """A convolution."""
        share = self.rounding(prod(w.shape[1:]) + 1)
        size = self.bound("Abs", w.name)
        error = self.bound("Conv", self.blurred(x, share), size, None if bias is None else np.abs(bias) * self.dtype.type(share), **attributes)
        if may_be_winograd(w.shape, attributes):
            whole = self.bound("Conv", self.bound("Abs", x.name), size, None if bias is None else np.abs(bias), **attributes)
            worst = self.bound("ReduceMax", whole, np.array([2, 3]), keepdims=1)
            error = self.bound("Add", error, self.bound("Mul", worst, WINOGRAD * share))
        return Value(self.node("Conv", x.name, w.name, bias, **attributes), tuple(shape), error)

    def averaged(self, op_type: str, x: Value, shape: Sequence[int], terms: int, **attributes: Any) -> Value:
        """A pooling that averages up to `terms` elements."""
        error = self.bound(op_type, self.blurred(x, self.rounding(terms)), **attributes)
        return Value(self.node(op_type, x.name, **attributes), tuple(shape), error)

    def matmul(self, a: Value, b: Value, shape: Sequence[int]) -> Value:
        """A product of matrices."""
        return Value(self.node("MatMul", a.name, b.name), tuple(shape), self._product_error(a, b, a.shape[-1], "MatMul"))

    def gemm(self, a: Value, b: Value, c: Value | None, shape: Sequence[int], alpha: float, beta: float, **transposed: int) -> Value:
        """alpha A B + beta C, with A and B transposed where the attributes say so."""
        error = self._product_error(a, b, max(max(a.shape), max(b.shape)), "Gemm", alpha=abs(alpha), **transposed)
        if c is not None:
            error = self.bound("Add", error, self.bound("Mul", self.blurred(c, self.rounding(1)), abs(beta)))
        operands = [a.name, b.name, *([c.name] if c is not None else [])]
        return Value(self.node("Gemm", *operands, alpha=alpha, beta=beta, **transposed), tuple(shape), error)

    def _product_error(self, a: Value, b: Value, terms: int, op_type: str, **attributes: Any) -> str:
        """(e_a + c|a|) (|b| + e_b) + |a| e_b."""
        sizes = [self.bound("Abs", v.name) for v in (a, b)]
        first = self.bound(op_type, self.blurred(a, self.rounding(terms)), self.bound("Add", sizes[1], b.error), **attributes)
        return self.bound("Add", first, self.bound(op_type, sizes[0], b.error, **attributes))

    def add(self, a: Value, b: Value, shape: Sequence[int], *, subtract: bool = False) -> Value:
        """A sum or a difference, operands broadcast."""
        error = self.bound("Add", self.blurred(a, self.rounding(1)), self.blurred(b, self.rounding(1)))
        return Value(self.node("Sub" if subtract else "Add", a.name, b.name), tuple(shape), error)

    def multiply(self, a: Value, b: Value, shape: Sequence[int]) -> Value:
        """A product element by element, operands broadcast."""
        return Value(self.node("Mul", a.name, b.name), tuple(shape), self._product_error(a, b, 1, "Mul"))

    def function(self, op_type: str, x: Value, *operands: Operand, **attributes: Any) -> Value:
        """One of `SLOPES`, element by element."""
        y = self.node(op_type, x.name, *operands, **attributes)
        error = self.bound("Mul", x.error, SLOPES[op_type])
        if op_type not in EXACT:
            size = self.bound("Max", self.bound("Abs", y), 1.0)
            error = self.bound("Add", error, self.bound("Mul", size, FUNCTION_ULPS * self.eps))
        return Value(y, x.shape, error)

    def batch_norm(self, x: Value) -> Value:
        """An inference batch normalisation with random statistics: k (x - mean) + bias with k = scale / √(variance + epsilon)."""
        channels = x.shape[1]
        scale, bias, mean = (self.random(channels) for _ in range(3))
        variance = np.abs(self.random(channels)) + self.dtype.type(0.5)
        y = self.node("BatchNormalization", x.name, scale, bias, mean, variance)
        slope = np.abs(scale) / np.sqrt(variance + 1e-5)
        column = (channels, *[1] * (len(x.shape) - 2))
        share = self.rounding(1)
        constant = share * (slope * np.abs(mean) + np.abs(bias))
        error = self.bound("Mul", self.blurred(x, share), slope.reshape(column).astype(self.dtype))
        return Value(y, x.shape, self.bound("Add", error, constant.reshape(column).astype(self.dtype)))

    def softmax(self, x: Value, axis: int) -> Value:
        """Softmax: an exponent that is off by d makes its result off by the factor exp(d), and so does the sum."""
        y = self.node("Softmax", x.name, axis=axis)
        size = self.bound("Add", self.bound("Mul", self.bound("Abs", x.name), 4 * self.eps), x.error)
        worst = self.bound("Mul", self.bound("ReduceMax", size, np.array([axis]), keepdims=1), 2.0)
        exponent = self.bound("Add", worst, FUNCTION_ULPS * self.eps + self.rounding(x.shape[axis]))
        # What underflows has no relative precision.
        error = self.bound("Mul", self.bound("Add", y, float(np.finfo(self.dtype).tiny)), self.bound("Sub", self.bound("Exp", exponent), 1.0))
        return Value(y, x.shape, error)

    # --- the whole

    def finish(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """The model, its outputs the last value and all that nothing reads, and the judge: an output, its bound, and so on."""
        read = {name for node in self._nodes for name in node.input}
        outputs = [v for v in self.values if v.name not in read or v is self.values[-1]]
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        inputs = [helper.make_tensor_value_info(name, kind, array.shape) for name, array in self.inputs.items()]
        typed = [helper.make_tensor_value_info(v.name, kind, v.shape) for v in outputs]
        bounds = [onnx.ValueInfoProto(name=v.error) for v in outputs]
        interleaved = [value for pair in zip(typed, bounds, strict=True) for value in pair]
        return (
            _model(self._nodes, inputs, typed, self._weights),
            _model([*self._nodes, *self._bounds], inputs, interleaved, [*self._weights, *self._bound_weights]),
        )


def may_be_winograd(filters: Sequence[int], attributes: dict[str, Any]) -> bool:
    """Whether a convolution is one that the compiler may compute by Winograd's method."""
    plain = all(set(attributes.get(name, [1])) == {1} for name in ("strides", "dilations"))
    return tuple(filters[2:]) == (3, 3) and attributes.get("group", 1) == 1 and plain


def _model(
    nodes: Sequence[NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto], weights: Sequence[onnx.TensorProto]
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "random", list(inputs), list(outputs), list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
