"""Random graphs of any operators: each node is imported and evaluated as it is added, so that shapes and values are known."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from importing import context
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_ops import session
from op_sweep import Row, Sweep
from random_graphs import compact
from random_graphs.compact import is_float

from stepwell.dialects.core.dtypes import DTYPES, ELEMENT_TYPES as EVERY, from_numpy, is_compact
from stepwell.dialects.graph.resize import stretched
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import StepwellError
from stepwell.frontends.onnx import import_model

OPSETS = (11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
NEWER = (18, 19, 20, 21, 21, 22, 22, 23, 23, 24, 26, 28)  # of which there are more, as they have more operators
MOST_ELEMENTS = 1 << 13
MOST_NODES = 12
ORDERED = (
    "ArgMax", "ArgMin", "Max", "Min", "Clip", "Relu", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "TopK", "Hardmax", "Sign",
    "ThresholdedRelu", "PRelu", "LeakyRelu", "Elu", "Celu", "Selu", "Shrink", "HardSigmoid", "HardSwish", "Round", "ReduceLogSumExp",
)  # fmt: skip
LIMITS = {"f16": 200.0, "bf16": 1e4, "f32": 1e5, "f64": 1e6}  # of values in graphs that are to be tame
TENSORS = {"tensor(bool)": "i1", "tensor(float16)": "f16", "tensor(bfloat16)": "bf16", "tensor(float)": "f32", "tensor(double)": "f64"}
TENSORS |= {f"tensor({sign}int{bits})": f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
# Those that are only stored and moved, which the makers of these operators know.
STORED = TENSORS | {
    "tensor(float8e4m3fn)": "f8E4M3FN", "tensor(float8e4m3fnuz)": "f8E4M3FNUZ", "tensor(float8e5m2)": "f8E5M2",
    "tensor(float8e5m2fnuz)": "f8E5M2FNUZ", "tensor(float8e8m0)": "f8E8M0FNU", "tensor(float4e2m1)": "f4E2M1FN", "tensor(int4)": "i4",
    "tensor(uint4)": "ui4", "tensor(int2)": "i2", "tensor(uint2)": "ui2",
}  # fmt: skip
STORING: set[str] = set()
WITHOUT_NUMBERS = ("tanh", "sigmoid", "relu", "softsign", "softplus")  # activations of recurrent layers


class Declined(Exception):
    """A node that does not become part of the graph, and why not."""


@dataclass(frozen=True)
class Value:
    """A tensor of a graph: what it is called and what it holds."""

    name: str
    array: np.ndarray
    constant: bool
    """Whether it is known when the model is compiled."""

    @property
    def dtype(self) -> str:
        return from_numpy(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


Operand = Value | np.ndarray | None


@dataclass
class Case:
    """A model, what it is run on and how it is compiled. Pickles."""

    model: bytes
    inputs: dict[str, np.ndarray]
    target: str = "host"
    disable: tuple[str, ...] = ()
    strict: bool = False
    undefined: str = ""
    """Why other implementations may give other results; empty if they must give the same."""


@dataclass
class Net:
    """A graph being built. What is drawn comes from the seed alone."""

    seed: int
    special: bool = False
    """Whether there are NaN, infinities and extreme integers in it."""
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    made: list[list[Value]] = field(default_factory=list)
    """The results of each node."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many nodes there are, by operator and element type."""
    declined: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many nodes were not added, by operator and reason."""
    undefined: str = ""
    named: int = 0

    def __post_init__(self) -> None:
        self.r = Sweep(Row(self.seed, "f32", 2, (), self.special), largest=False, room=1 << 10)
        self.opset = int(self.r.choice([*OPSETS, *NEWER, *NEWER]))
        # Long chains, most of which become one kernel: what follows a product is then computed in place, one op after the other.
        self.chained = self.r.integer(0, 3) == 0

    # --- operands

    def dtypes(self, op_type: str, position: int = 0, output: bool = False) -> list[str]:
        """The element types that the operator's schema has for an operand."""
        try:
            schema = defs.get_schema(op_type, self.opset)
        except defs.SchemaError:
            raise Declined(f"not in opset {self.opset}") from None
        formals = schema.outputs if output else schema.inputs
        known = types_of(op_type)
        return [known[t] for t in sorted(formals[min(position, len(formals) - 1)].types) if t in known]

    def dtype(self, op_type: str, position: int = 0) -> str:
        """One of them: mostly f32, and mostly one that there is a value of."""
        legal = self.dtypes(op_type, position)
        there = [v.dtype for v in self.values if v.dtype in legal]
        common = [d for d in ("f32", "f32", "f32", "f32", "i64") if d in legal]
        return str(self.r.choice(self.r.choice([there, common, common, common, legal]) or legal))

    def one_of(self, dtypes: Sequence[str]) -> str:
        """One of the types that an operator is given."""
        return str(self.r.choice(dtypes))

    def pick(
        self, dtypes: str | Sequence[str], fits: Callable[[Value], bool] = lambda v: True, fresh: Callable[[], Sequence[int]] | None = None
    ) -> Value:
        """A value of one of the types that fits: mostly one that is there, rather one that was made late, else a new one of the shape of `fresh`."""
        wanted = [dtypes] if isinstance(dtypes, str) else list(dtypes)
        found = [v for v in self.values if v.dtype in wanted and fits(v)]
        if found and self.r.integer(0, 5):
            if self.chained:
                return found[-1]
            return found[max(self.r.integer(0, len(found) - 1), self.r.integer(0, len(found) - 1))]
        for _ in range(20):
            value = self.fresh(str(self.r.choice(wanted)), self.shape() if fresh is None else fresh(), keep=False)
            if fits(value):
                return self.keep(value)
        raise Declined("no operand that fits")

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        """Sizes that leave remainders, small ones, sometimes 0."""
        self.r.begin()
        rank = self.r.integer(low, high)
        return tuple(self.r.choice([1, 2, 3, 4, 5, 7, 8, 16, 17, self.r.size(0 if self.r.integer(0, 9) == 0 else 1)]) for _ in range(rank))

    def fresh(
        self, dtype: str, shape: Sequence[int], low: float = -3, high: float = 3, *,
        constant: bool | None = None, keep: bool = True, tame: bool = False,
    ) -> Value:  # fmt: skip
        """A new input or constant; `tame` if it must lie between the bounds."""
        shape = tuple(int(n) for n in shape)
        if int(np.prod(shape)) > MOST_ELEMENTS:
            raise Declined("too large")
        if is_compact(dtype):
            array = compact.numbers(self.r.generator, dtype, shape, self.special)
        else:
            array = self.r.within(dtype, shape, low, high) if tame else self.r.array(dtype, shape, low, high)
        if constant is None:
            constant = self.r.integer(0, 2) == 0
        if constant and array.size and self.r.integer(0, 5) == 0:
            array = np.broadcast_to(array.reshape(-1)[:1].reshape([1] * array.ndim), shape).copy()  # the same everywhere
        self.named += 1
        value = Value(f"{'c' if constant else 'x'}{self.named}", array, constant)
        return self.keep(value) if keep else value

    def keep(self, value: Value) -> Value:
        """A value that nodes to come may use."""
        if all(v.name != value.name for v in self.values):
            self.values.append(value)
        return value

    def broadcast_to(self, dtypes: str | Sequence[str], shape: Sequence[int], **options: Any) -> Value:
        """A value that broadcasts to a shape."""
        wanted = [dtypes] if isinstance(dtypes, str) else list(dtypes)
        shape = tuple(shape)

        def fits(v: Value) -> bool:
            return v.rank <= len(shape) and all(a in (1, b) for a, b in zip(v.shape[::-1], shape[::-1], strict=False))

        if not options and self.r.integer(0, 3):
            return self.pick(wanted, fits, lambda: self.smaller(shape))
        return self.fresh(str(self.r.choice(wanted)), self.smaller(shape), **options)

    def smaller(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another."""
        kept = tuple(shape)[self.r.choice([0, 0, self.r.integer(0, len(shape))]) :]
        return tuple(1 if self.r.integer(0, 4) == 0 else n for n in kept)

    def counted(self, axis: int, rank: int) -> int:
        """An axis from either end, as a node may name it: before opset 11 most operators know those from the start alone."""
        return axis - rank if self.opset >= 11 and self.r.boolean() else axis

    def axis(self, rank: int) -> int:
        """Any axis, as a node may name it."""
        return self.counted(self.r.integer(0, rank - 1), rank)

    # --- nodes

    def node(self, op_type: str, *operands: Operand, outputs: int = 1, domain: str = "", **attributes: Any) -> list[Value]:
        """Add a node; arrays become constants. Raises Declined where the importer or the evaluator does, or results are not to be used."""
        values = [Value(f"p{len(self.nodes)}_{i}", o, True) if isinstance(o, np.ndarray) else o for i, o in enumerate(operands)]
        while values and values[-1] is None:
            values.pop()
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        made = helper.make_node(op_type, [v.name if v is not None else "" for v in values], names, name=f"{op_type}_{len(self.nodes)}")
        made.attribute.extend(attribute(name, value) for name, value in attributes.items() if value is not None)
        present = list({v.name: v for v in values if v is not None}.values())
        reason = undefined(op_type, [None if v is None else v.array for v in values], {n: v for n, v in attributes.items() if v is not None})
        if op_type == "Dropout" and self.opset < 12:
            reason = "the mask of nothing left out, of which ONNX Runtime has all bits the other way than ONNX's reference"
        arrays = self._results(made, present, names)
        for array in arrays:
            self._check(array)
        constant = all(v.constant for v in present)
        results = [Value(name, array, constant) for name, array in zip(names, arrays, strict=True)]
        for value in (*(v for v in present if v.name.startswith("p")), *results):
            self.keep(value)
        self.nodes.append(made)
        self.made.append(results)
        self.counts[op_type, from_numpy(present[0].array.dtype) if present else results[0].dtype] += 1
        self.undefined = self.undefined or reason
        return results

    def _results(self, made: onnx.NodeProto, present: Sequence[Value], names: Sequence[str]) -> list[np.ndarray]:
        """What a node gives, alone: by the importer, and the references of the graph's ops."""
        proto = model_of([made], present, [(name, None) for name in names], self.opset)
        try:
            proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
        except onnx.shape_inference.InferenceError as error:
            raise Declined(f"not valid ONNX: {error}") from None
        for info in proto.graph.output:
            if not info.type.tensor_type.HasField("shape"):  # ONNX cannot tell
                info.CopyFrom(value_info(Value(info.name, self._tried(proto, present, info.name), False)))
        try:
            imported = import_model(proto, context())
            with np.errstate(all="ignore"):
                results = evaluate(imported.module, imported.weights, {v.name: v.array for v in present if not v.constant})
        except StepwellError as error:
            raise Declined(f"{type(error).__name__}: {error.args[0]}") from None
        if not all(t.is_static for _, t in imported.outputs):
            raise Declined("its size depends on data")
        return [results[name] for name in names]

    def _tried(self, proto: onnx.ModelProto, present: Sequence[Value], name: str) -> np.ndarray:
        """What ONNX's evaluator gives for an output of a model that is not complete; if nothing, ONNX Runtime; if nothing, the data."""
        inputs = {v.name: v.array for v in present if not v.constant}
        for run in (lambda: ReferenceEvaluator(proto).run([name], inputs), lambda: session(proto.SerializeToString()).run([name], inputs)):
            with np.errstate(all="ignore"), contextlib.suppress(Exception):  # whatever they raise
                (found,) = run()
                return np.asarray(found)
        return present[0].array

    def _check(self, array: np.ndarray) -> None:
        dtype = from_numpy(array.dtype)
        if array.size > MOST_ELEMENTS:
            raise Declined("too large")
        if not self.special and is_float(dtype) and array.size:
            wide = np.abs(array.astype(np.float64))
            if not np.isfinite(wide).all() or wide.max() > LIMITS[dtype]:
                raise Declined("its numbers are not tame")

    # --- the end

    def case(self, target: str, disable: Sequence[str], *, strict: bool = False) -> Case:
        """The model, with results that nothing reads as its outputs, and some others."""
        read = {name for node in self.nodes for name in node.input}
        results = [v for made in self.made for v in made]
        chosen = [v for v in results if v.name not in read or self.r.integer(0, 6) == 0]
        if len(chosen) > 1 and self.r.integer(0, 4) == 0:
            chosen.pop(self.r.integer(0, len(chosen) - 1))  # a result that nobody wants
        others = [v for v in self.values if not v.name.startswith(("v", "p"))]
        if others and self.r.integer(0, 9) == 0:
            chosen.append(self.r.choice(others))  # an output that is an input or a constant
        return Case(
            model_of(self.nodes, self.values, [(v.name, v) for v in chosen], self.opset).SerializeToString(),
            {v.name: v.array for v in self.values if not v.constant and v.name.startswith("x")}, target, tuple(disable), strict, self.undefined,
        )  # fmt: skip


def types_of(op_type: str) -> dict[str, str]:
    """The element types that nodes of an operator are drawn with, by their names in schemas."""
    return STORED if op_type in STORING else TENSORS


def attribute(name: str, value: Any) -> onnx.AttributeProto:
    """An attribute; an empty list is one of integers."""
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    return helper.make_attribute(name, value, attr_type=onnx.AttributeProto.INTS if isinstance(value, (list, tuple)) and not value else None)


def model_of(nodes: Sequence[onnx.NodeProto], values: Sequence[Value], outputs: Sequence[tuple[str, Value | None]], opset: int) -> onnx.ModelProto:
    """A model of nodes: of the values that no node makes, those that are constant are initializers and the others inputs."""
    made = {name for node in nodes for name in node.output}
    leaves = [v for v in values if v.name not in made]
    inputs = [value_info(v) for v in leaves if not v.constant]
    infos = [helper.make_empty_tensor_value_info(name) if v is None else value_info(v) for name, v in outputs]
    graph = helper.make_graph(list(nodes), "random", inputs, infos, [numpy_helper.from_array(v.array, v.name) for v in leaves if v.constant])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _nearly_whole(scales: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a size by `scales` depends on the type that it is computed in."""
    if len(scales) != len(shape):
        return False
    narrow, wide = (np.floor(np.array(shape, dtype) * scales) for dtype in (np.float32, np.float64))
    return bool(np.any(narrow != wide))


def value_info(value: Value) -> onnx.ValueInfoProto:
    """The declaration of a value."""
    return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.array.dtype), value.shape)


def undefined(op_type: str, operands: Sequence[np.ndarray | None], attributes: Any) -> str:
    """Why ONNX does not say what a node gives for its operands; empty if it does."""
    x = operands[0] if operands else None
    if x is None:
        return ""
    ordered = op_type in ORDERED or (op_type.startswith("Scatter") and attributes.get("reduction") in ("min", "max"))
    if ordered and is_float(from_numpy(x.dtype)) and any(o is not None and np.isnan(o.astype(np.float64)).any() for o in operands):
        return "which of NaN and a number is the greater, where ONNX Runtime has it either way"
    if op_type in ("Cast", "CastLike") and is_float(from_numpy(x.dtype)):
        to = attributes["to"] if op_type == "Cast" else helper.np_dtype_to_tensor_dtype(np.asarray(operands[1]).dtype)
        kind = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(to) if isinstance(to, str) else to)
        if np.dtype(kind).kind in "iu":
            info, wide = np.iinfo(kind), np.trunc(x.astype(np.float64))
            if not np.all((wide >= info.min) & (wide <= float(info.max) * (1 - 2.0**-40))):
                return "a conversion of a float that the integer type does not have"
    if op_type in ("Div", "Mod") and x.dtype.kind in "iu" and np.isin(np.asarray(operands[1]), (0, -1) if x.dtype.kind == "i" else (0,)).any():
        return "an integer divided by 0, or the least one by -1"
    if x.dtype.kind in "iu" and op_type.startswith("Reduce") and (np.square(x.astype(np.float64)).sum() >= 2.0**31 or op_type == "ReduceProd"):
        return "sums of integers that do not fit, or not into f64, in which ONNX Runtime has some"
    if op_type in ("ReduceLogSum", "ReduceLogSumExp") and x.dtype.kind in "iu":
        return "the logarithm of 0 or less as an integer"
    if op_type == "LRN" and not np.isfinite(x.astype(np.float64)).all():
        return "LRN of what is not finite, which ONNX Runtime spreads by its running sums"
    finite = all(o is None or np.isfinite(o.astype(np.float64)).all() for o in operands)
    if op_type in ("Resize", "GridSample", "RoiAlign", "DeformConv") and not finite:
        return "resampling of what is not finite with weights of 0, which we leave out and ONNX Runtime multiplies"
    if op_type in ("LSTM", "GRU", "RNN") and not finite:
        return "recurrent layers of what is not finite: ONNX Runtime makes numbers of NaN"
    if op_type in ("LSTM", "GRU", "RNN") and len(operands) > 4 and operands[4] is not None and not np.all(operands[4]):
        return "sequences of no steps, whose last state ONNX Runtime takes for 0 and not for the one that they begin with"
    takers = [name for name in map(str.lower, attributes.get("activations", ())) if name not in WITHOUT_NUMBERS]
    if "thresholdedrelu" in takers[len(attributes.get("activation_alpha", ())) :]:
        return "the threshold that ThresholdedRelu has where none is given: 1 as ONNX's operator of this name, 0 in ONNX Runtime"
    if op_type == "NonZero" and x.ndim == 0:
        return "places in a scalar: none has a coordinate, of which ONNX Runtime writes one"
    if op_type == "Attention" and x.dtype == np.float64 and attributes.get("scale") is not None:
        return "attention of f64 with a scale, of whose square root ONNX Runtime has an f32"
    if op_type == "Unique" and is_float(from_numpy(x.dtype)) and np.isnan(x.astype(np.float64)).any():
        return "which of NaN and a number is the greater, where ONNX Runtime takes them for the same"
    if op_type in ("QuantizeLinear", "DynamicQuantizeLinear") and not finite:
        return "integers for what is not finite"
    if op_type == "Resize" and len(operands) > 2 and operands[2] is not None and _nearly_whole(operands[2], x.shape):
        return "a size that is no whole number by a hair, which ONNX Runtime rounds to f32 before it is cut"
    aligned = op_type == "Resize" and attributes.get("coordinate_transformation_mode") == "align_corners"
    scales = operands[2] if aligned and len(operands) > 2 else None
    if scales is not None and not all(float(stretched(size, scale)).is_integer() for size, scale in zip(x.shape, scales.tolist(), strict=False)):
        return "corners of a size that is no whole number, which ONNX Runtime cuts first"
    if op_type == "Clip" and x.dtype.kind == "f" and np.isinf(x).any() and sum(o is not None for o in operands[1:]) + len(attributes) < 2:
        return "infinities without a bound, of which ONNX Runtime makes the largest finite number"
    if op_type == "AffineGrid" and attributes.get("align_corners") and 1 in np.asarray(operands[1])[2:]:
        return "corners of an image one position wide, of which ONNX Runtime makes 1"
    if op_type.startswith("Reduce") and x.size == 0:
        return "reductions of nothing, whose shapes and extremes ONNX Runtime has otherwise"
    if op_type in ("DFT", "STFT"):
        return "transforms, which ONNX Runtime computes in the type of the data and we in f64: zeros differ by more than their last bits"
    if op_type in ("Shrink", "HardSwish", "Gelu") and x.dtype == np.float64:
        return "functions of f64 that ONNX Runtime computes with numbers of f32"
    if str(attributes.get("auto_pad", "")).startswith("SAME") and "dilations" in attributes:
        return "windows with gaps padded to the same size, which ONNX Runtime pads as if there were none"
    if op_type == "BitShift" and operands[1] is not None and np.any(operands[1] >= 8 * x.itemsize):
        return "a shift by more bits than there are"
    if op_type == "Pow" and (x.dtype.kind in "iu" or np.asarray(operands[1]).dtype.kind in "iu"):
        return "powers of integers, which ONNX Runtime computes in f64"
    return ""


assert set(TENSORS.values()) == set(DTYPES)
assert set(STORED.values()) == set(EVERY)
