"""Nodes one by one: every operator in every version of its schema with every element type, compiled and compared with ONNX's own evaluator.

What a node is given comes from the makers of random graphs, so an operator is described once for both.
"""

import concurrent.futures
import contextlib
import functools
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import onnx
from importing import context
from onnx import defs, helper
from onnx.reference import ReferenceEvaluator
from random_graphs import families, runtime  # noqa: F401  (families fills the table of operators)
from random_graphs.net import MOST_ELEMENTS, Case, Declined, Net, Value, model_of, types_of, undefined
from random_graphs.noise import MORE_RUNS, RUNS, bounds, limits_of
from random_graphs.operators import OPERATORS
from watchdog import Watchdog

import stepwell
from stepwell.dialects.graph.numerics import narrow
from stepwell.dialects.support.errors import StepwellError
from stepwell.frontends.onnx import import_model

TRIES = 12  # draws of one combination before it counts as not drawn
TOGETHER = 24  # nodes in one model
SECONDS = 240.0  # for one model
REFUSED = ("UnsupportedError", "ElementTypeError")
FLOATS, WHOLE = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")
INTERPOLATING = ("Resize",)  # integers in f64, which rounds those that it does not have in one order or another: these get none of them
POWERS = {"f16": (9, 14, 14, -14), "bf16": (50, 60, -60)}  # of 2 by which numbers up to 3 are multiplied: f32 holds their squares
Kind = Literal["tame", "special", "ends"]
"""Ordinary values; NaN, infinities, zeros of both signs and extreme integers; or narrow floats near the ends of their range."""
KINDS: tuple[Kind, ...] = get_args(Kind)
WRONG = ("wrong", "differs", "error", "died", "timeout", "raised")


@dataclass(frozen=True, order=True)
class Combination:
    """An operator in the version that an opset gave it, with the element type of its first operand that may have several."""

    op: str
    opset: int
    dtype: str

    def __str__(self) -> str:
        return f"{self.op}-{self.opset} {self.dtype}"


@dataclass
class Result:
    """What came of a combination.

    `status` is "right" (as ONNX's evaluator or ONNX Runtime has it), "alone" (as our ops mean it, the others having nothing), "refused" (we do not
    support it), "not drawn" (no maker gives such a node), "differs" (the others have something else), "wrong" (native code has), "error", or how its
    process ended.
    """

    combination: Combination
    status: str
    text: str = ""
    case: Case | None = None


@functools.cache
def combinations() -> tuple[Combination, ...]:
    """All there are."""
    found = []
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated and schema.name in OPERATORS:
            position = main_operand(schema)
            formals, known = schema.inputs or schema.outputs, types_of(schema.name)
            found += [Combination(schema.name, schema.since_version, known[t]) for t in formals[position].types if t in known]
    return tuple(sorted(set(found)))


def main_operand(schema: Any) -> int:
    """The place of the first operand that may have several element types, 0 if none may."""
    formals, known = schema.inputs or schema.outputs, types_of(schema.name)
    return next((i for i, formal in enumerate(formals) if sum(t in known for t in formal.types) > 1), 0)


@dataclass
class Singles(Net):
    """Nodes that have nothing to do with each other, of ranks up to 5, the next of an element type that is asked for."""

    wanted: str = "f32"
    near_ends: bool = False
    """Whether narrow floats are as large, or as small, as their type has them: their sums and squares may overflow it where results do not."""
    legal: list[str] = field(default_factory=list)
    """The element types that the operator has for its main operand."""
    kept: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.chained = False

    def dtype(self, op_type: str, position: int = 0) -> str:
        legal = self.dtypes(op_type, position)
        return self.wanted if self.wanted in legal else str(self.r.choice(legal))

    def one_of(self, dtypes: Sequence[str]) -> str:
        return self.wanted if self.wanted in self.legal else super().one_of(dtypes)

    def pick(
        self, dtypes: str | Sequence[str], fits: Callable[[Value], bool] = lambda v: True, fresh: Callable[[], Sequence[int]] | None = None
    ) -> Value:
        first = not self.values and not isinstance(dtypes, str) and self.wanted in self.legal
        return super().pick(self.wanted if first or self.wanted in dtypes else dtypes, fits, fresh)

    def fresh(self, dtype: str, shape: Sequence[int], low: float = -3, high: float = 3, **options: Any) -> Value:
        value = super().fresh(dtype, shape, low, high, **options)
        if self.near_ends and dtype in POWERS and (low, high) == (-3, 3) and not options.get("tame"):
            numbers = np.abs(value.array) if self.r.boolean() else value.array  # of one sign, so that sums grow
            np.multiply(numbers, np.asarray(2.0 ** int(self.r.choice(POWERS[dtype])), numbers.dtype), out=value.array)
        return value

    def _check(self, array: np.ndarray) -> None:
        if not self.near_ends:
            super()._check(array)
        elif array.size > MOST_ELEMENTS:
            raise Declined("too large")

    def shape(self, low: int = 0, high: int = 5) -> tuple[int, ...]:
        self.r.begin()
        rank = self.r.integer(low, high + (low == 0 and high == 4))
        sizes = (1, 2, 3, 5, 8, 17) if rank < 4 else (1, 2, 3, 5)
        return tuple(0 if self.r.integer(0, 40) == 0 else int(self.r.choice(sizes)) for _ in range(rank))

    def add(self, combination: Combination) -> None:
        """Add a node. Raises Declined if that fails; then nothing was added."""
        before = len(self.nodes)
        self.values, self.wanted = [], combination.dtype
        schema = defs.get_schema(combination.op, self.opset)
        self.legal = self.dtypes(combination.op, main_operand(schema), output=not schema.inputs)
        try:
            OPERATORS[combination.op](self, combination.op)
            self._check_drawn(combination, self.nodes[before:])
        except Declined:
            del self.nodes[before:], self.made[before:]
            raise
        used = {name for node in self.nodes[before:] for name in node.input}
        self.kept += [value for value in self.values if value.name in used]

    def _check_drawn(self, combination: Combination, nodes: Sequence[onnx.NodeProto]) -> None:
        """Raise Declined unless there is one node, of what was asked for."""
        if len(nodes) != 1 or nodes[0].op_type != combination.op:
            raise Declined(f"{len(nodes)} nodes were made")
        position = main_operand(defs.get_schema(combination.op, self.opset))
        names = nodes[0].input or nodes[0].output
        if position >= len(names) or not names[position]:
            raise Declined("it has no operand of the type")
        main = next(v for v in (*self.values, *self.made[-1]) if v.name == names[position])
        if main.dtype != combination.dtype:
            raise Declined(f"a {main.dtype} was drawn")


def drawn(combination: Combination, seed: int, net: Singles) -> Result | None:
    """Add a node of a combination; why not, if that fails every time."""
    reasons: list[str] = []
    special = net.special and not (combination.op in INTERPOLATING and combination.dtype in WHOLE)
    for attempt in range(TRIES):
        net.r = Singles(seed * TRIES + attempt, special).r
        try:
            net.add(combination)
        except Declined as reason:
            reasons.append(str(reason))
            continue
        return None
    refusal = next((r for r in reasons if r.startswith(REFUSED)), None)
    if refusal is not None:
        return Result(combination, "refused", refusal.partition(": ")[2])
    return Result(combination, "not drawn", max(set(reasons), key=reasons.count))


def examine(chosen: Sequence[Combination], seed: int, kind: Kind, options: dict[str, Any]) -> list[Result]:
    """Draw a node of each combination (all of one opset), compile them as one model, and compare. Runs in a process of its own (see watchdog.py)."""
    net = Singles(seed, special=kind == "special", near_ends=kind == "ends")
    net.opset = chosen[0].opset
    found, nodes = [], []
    for i, combination in enumerate(chosen):
        failed = drawn(combination, seed * 1000 + i, net)
        if failed is None:
            nodes.append(combination)
        else:
            found.append(failed)
    if not nodes:
        return found
    results = [value for made in net.made for value in made]
    proto = model_of(net.nodes, net.kept, [(v.name, v) for v in results], net.opset)
    inputs = {v.name: v.array for v in net.kept if not v.constant and any(v.name == i.name for i in proto.graph.input)}
    case = Case(proto.SerializeToString(), inputs, strict=True)
    try:
        native = stepwell.compile(proto, cache=False, strict=True, **options).run(inputs)
    except StepwellError as error:
        if len(nodes) > 1:
            return found + [result for one in nodes for result in examine([one], seed, kind, options)]
        return [*found, Result(nodes[0], "error", f"{type(error).__name__}: {str(error)[:1000]}", case)]
    for combination, node, made in zip(nodes, net.nodes, net.made, strict=True):
        alone = case_of(net, node, made)
        status, text = compared(alone, {v.name: native[v.name] for v in made}, set_aside(combination, node, kind))
        found.append(Result(combination, status, text, alone if status in WRONG else None))
    return found


def case_of(net: Singles, node: onnx.NodeProto, made: Sequence[Value]) -> Case:
    """The model of one node of a net."""
    operands = [v for v in net.kept if v.name in node.input]
    proto = model_of([node], operands, [(v.name, v) for v in made], net.opset)
    arrays = {v.name: v.array for v in operands}
    attributes = {a.name: plain(helper.get_attribute_value(a)) for a in node.attribute}
    reason = undefined(node.op_type, [arrays.get(name) for name in node.input], attributes)
    return Case(proto.SerializeToString(), {v.name: v.array for v in operands if not v.constant}, strict=True, undefined=reason)


def plain(value: Any) -> Any:
    """The value of an attribute, with text as strings."""
    return value.decode() if isinstance(value, bytes) else [plain(v) for v in value] if isinstance(value, list) else value


def compared(case: Case, native: dict[str, np.ndarray], aside: "Aside | None") -> tuple[str, str]:
    """Native results and the evaluator's beside what a node means: a status and what differs."""
    imported = import_model(case.model, context())
    evaluator, reason = (None, aside.reason) if aside is not None else evaluated(case)

    def problem(outputs: Mapping[str, np.ndarray], *, absolute: bool) -> str:
        said = ""
        for runs in (RUNS, MORE_RUNS):
            limits = bounds(imported.module, imported.weights, case.inputs, runs, absolute=absolute, winograd=False)
            for name, error in limits.error.items():  # near 0 the last place is all there is of a number
                limits.error[name] = np.maximum(error, 4 * limits_of(limits.base[name].dtype)[1])
            said = next((text for text in (limits.problem(name, array) for name, array in outputs.items()) if text), "")
            if not said:
                break
        return said

    wrong = problem(native, absolute=False)
    if wrong:
        return "wrong", wrong
    if evaluator is not None:
        other = problem(evaluator, absolute=True)
        if not other:
            return "right", ""
        reason = f"ONNX's evaluator differs: {other}"
    others = by_onnxruntime(case) if aside is None or aside.runtime else None
    if others is None:
        return ("alone", reason) if evaluator is None else ("differs", reason)
    other = problem(others, absolute=True)
    if not other:
        return "right", f"as ONNX Runtime has it; {reason}"
    if case.undefined and evaluator is None:
        return "alone", f"{reason}; {case.undefined}"
    asked = evaluator is not None or aside is not None  # else nobody knows the operator in this version well
    return ("differs", f"{reason}; ONNX Runtime differs: {other}") if asked else ("alone", reason)


def by_onnxruntime(case: Case) -> dict[str, np.ndarray] | None:
    """What ONNX Runtime gives by output, of a narrow float that it lacks in f32, rounded once; None if it has no such node."""
    with contextlib.suppress(Exception):  # its exceptions have no common base
        return runtime.run(case.model, case.inputs)
    model = onnx.load_from_string(case.model)
    wide, kinds = in_wider(model, np.float32), {info.name: info.type.tensor_type.elem_type for info in model.graph.output}
    with contextlib.suppress(Exception), np.errstate(over="ignore"):
        found = runtime.run(wide.SerializeToString(), {name: widened(array, np.float32) for name, array in case.inputs.items()})
        return {
            name: narrow(array, helper.tensor_dtype_to_np_dtype(kinds[name])) if kinds[name] in NARROW and array.dtype == np.float32 else array
            for name, array in found.items()
        }
    return None


def evaluated(case: Case) -> tuple[dict[str, np.ndarray] | None, str]:
    """What ONNX's evaluator gives by output, or why it gives nothing of the right types.

    It rounds narrow floats after each step of an operator. They are evaluated in f64, where it has the operator in f64, and rounded once.
    """
    proto = onnx.load_from_string(case.model)
    made: Any = None
    reason = ""
    for wide, inputs in ((in_wider(proto, np.float64), {n: widened(a, np.float64) for n, a in case.inputs.items()}), (proto, dict(case.inputs))):
        try:
            with np.errstate(all="ignore"):
                made = ReferenceEvaluator(wide).run(None, inputs)
            break
        except Exception as error:  # whatever its operators raise
            reason = f"{type(error).__name__}: {str(error)[:120]}"
    if made is None:
        return None, reason
    outputs = {}
    for info, array in zip(proto.graph.output, made, strict=True):
        tensor = info.type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        array = np.asarray(array)
        if tensor.elem_type in NARROW and array.dtype in (np.float32, np.float64):
            with np.errstate(over="ignore"):
                array = narrow(array, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if array.dtype != helper.tensor_dtype_to_np_dtype(tensor.elem_type) or array.shape != shape:
            return None, f"it gives {array.dtype}{list(array.shape)}"
        outputs[info.name] = array
    return outputs, ""


NARROW = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def in_wider(model: onnx.ModelProto, dtype: type) -> onnx.ModelProto:
    """The model with a wider type in place of narrow floats: declared, stored, and asked for by attributes."""
    wide, kind = onnx.ModelProto(), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    wide.CopyFrom(model)
    graph = wide.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in NARROW:
            info.type.tensor_type.elem_type = kind
    tensors = [*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)]
    for tensor in tensors:
        if tensor.data_type in NARROW:
            tensor.CopyFrom(onnx.numpy_helper.from_array(widened(onnx.numpy_helper.to_array(tensor), dtype), tensor.name))
    for attribute in (a for node in graph.node for a in node.attribute):
        if attribute.name in ("to", "dtype", "output_dtype", "stash_type", "softmax_precision", "precision") and attribute.i in NARROW:
            attribute.i = kind
    return wide


def widened(array: np.ndarray, dtype: type) -> np.ndarray:
    """Numbers of a narrow float in a wider type; any others as they are."""
    return array.astype(dtype) if helper.np_dtype_to_tensor_dtype(array.dtype) in NARROW else array


class Aside(NamedTuple):
    """Nodes of which ONNX's evaluator has no result that could be ours. Native results are compared with our meaning alone there."""

    ops: tuple[str, ...]
    fixed: int | None
    """From which opset on it is as it should be; None for never."""
    dtypes: tuple[str, ...]
    wild: bool
    """Whether this is about values that are not tame alone."""
    reason: str
    when: Callable[[onnx.NodeProto], bool] = lambda node: True
    """The nodes that this is about."""
    runtime: bool = False
    """Whether ONNX Runtime has their results, where it has such nodes at all."""


def has(name: str, *plain: Any) -> Callable[[onnx.NodeProto], bool]:
    """Whether a node has an attribute, of another value than these."""
    return lambda node: any(a.name == name and helper.get_attribute_value(a) not in plain for a in node.attribute)


def takes(*places: int) -> Callable[[onnx.NodeProto], bool]:
    """Whether a node has an operand in one of these places."""
    return lambda node: any(i < len(node.input) and node.input[i] for i in places)


def either(*tests: Callable[[onnx.NodeProto], bool]) -> Callable[[onnx.NodeProto], bool]:
    """Whether one of the tests passes."""
    return lambda node: any(test(node) for test in tests)


RECURRENT = ("LSTM", "GRU", "RNN")
NOT_EVALUATED = either(takes(4), has("clip"), has("activations"), has("input_forget", 0))
UNORDERED = either(has("sorted", 1), has("axis"))
ASIDE = tuple(Aside(*row) for row in (
    (("Softmax", "LogSoftmax", "Hardmax"), 13, FLOATS, False, "the evaluator takes one axis where these versions take all from it on"),
    (("Selu",), 6, FLOATS, False, "the evaluator takes the constants of the next version"),
    (("Gemm",), 7, FLOATS, False, "the evaluator leaves beta out"),
    (("Erf", "Gelu"), None, ("f64", *WHOLE), False, "the evaluator's error function is of f32"),
    (("Attention",), None, ("f64",), False, "the evaluator's root of the scale is of f32", has("scale")),
    (("HardSwish",), None, ("f64",), False, "the evaluator's 1/6 is of f32"),
    (("LpPool", "GlobalLpPool"), None, ("f64",), False, "the evaluator's roots are of f32"),
    (("Attention",), None, FLOATS, True, "where all scores of a row are -inf the evaluator gives zeros, the operator's function NaN, as we do"),
    (("Resize",), None, ("f64", *WHOLE), False, "the evaluator's places are of f32, and ONNX does not say how integers are rounded"),
    (("LRN",), None, FLOATS, False, "the evaluator's sums of an even number of channels have one less"),
    (("LpNormalization",), None, FLOATS, False, "the evaluator's sums are not of absolute values"),
    (("AveragePool", "MaxPool"), 11, FLOATS, False, "the evaluator pads images to the same size otherwise, and its averages count the padding"),
    (("AveragePool", "MaxPool", "LpPool"), None, FLOATS, True, "the evaluator leaves out NaN, by which it marks the padding"),
    (("Resize", "GridSample", "RoiAlign", "DeformConv"), None, FLOATS, True, "numbers that are not finite times weights of 0, which we leave out"),
    (("PRelu",), None, FLOATS, True, "the evaluator multiplies 0 with slopes, of which some are not finite"),
    (("Resize",), None, ("f32",), False, "the evaluator's places are of f32, which weights of many pixels add up to more", has("antialias", 0), True),
    (("Resize",), None, FLOATS, False, "the evaluator's places are of f32, near others where one is whole or half", has("nearest_mode"), True),
    (("AveragePool", "MaxPool"), None, FLOATS, False, "the evaluator pads images to the same size otherwise", has("auto_pad", b"NOTSET", b"VALID")),
    (("Clip",), 11, FLOATS, True, "infinities without a bound stay ours: docs/numerics.md"),
    (("Conv",), None, FLOATS, True, "the evaluator fills the gaps of dilated filters with zeros, which make NaN of what is not finite"),
    (("ScatterElements", "ScatterND"), None, FLOATS, True, "which of NaN and a number is the greater: docs/numerics.md"),
    (("OneHot",), None, (*FLOATS, *WHOLE), False, "the evaluator computes with the values instead of choosing", lambda node: True, True),
    (("Cast", "CastLike"), None, FLOATS, True, "floats that an integer type does not have"),
    (("ReduceMean", "ReduceL2", "Gemm"), None, WHOLE, True, "integers that f64, in which the evaluator computes, does not have"),
    (("ConvTranspose",), None, FLOATS, False, "the evaluator takes other filters for each group, and one channel of each", has("group", 1), True),
    (("QuantizeLinear",), None, (*FLOATS, "i32"), True, "quotients that i32, in which the evaluator adds the zero point, does not have"),
    (RECURRENT, None, FLOATS, True, "the evaluator leaves out products of 0 with what is not finite, ONNX Runtime has no NaN"),
    (RECURRENT, None, FLOATS, False, "the evaluator knows neither lengths, clipping nor activations", NOT_EVALUATED, True),
    (("Det",), None, FLOATS, True, "the evaluator's determinants are exponentials of sums of logarithms"),
    (("DFT", "STFT"), None, FLOATS, True, "the evaluator and ONNX Runtime add what is not finite in other orders"),
    (("DynamicQuantizeLinear",), None, ("f32",), True, "the range of what is not finite"),
    (("Unique",), None, FLOATS, True, "the evaluator sorts all the same and has no order of slices with NaN, ONNX Runtime none of NaN", UNORDERED),
    (("Unique",), None, (*FLOATS, *WHOLE, "i1"), False, "the evaluator sorts all the same, or takes along the first axis", has("sorted", 1), True),
))  # fmt: skip


def set_aside(combination: Combination, node: onnx.NodeProto, kind: Kind) -> Aside | None:
    """Why ONNX's evaluator is not asked; None if it, or ONNX Runtime, must have a node's results."""
    for aside in ASIDE:
        late = aside.fixed is not None and combination.opset >= aside.fixed
        if combination.op in aside.ops and combination.dtype in aside.dtypes and not late and (kind != "tame" or not aside.wild) and aside.when(node):
            return aside
    return None


def batches(chosen: Sequence[Combination]) -> Iterator[list[Combination]]:
    """Combinations in groups of one opset."""
    by_opset: dict[int, list[Combination]] = {}
    for combination in chosen:
        by_opset.setdefault(combination.opset, []).append(combination)
    for opset in sorted(by_opset):
        group = by_opset[opset]
        for start in range(0, len(group), TOGETHER):
            yield group[start : start + TOGETHER]


def results(dogs: Sequence[Watchdog], chosen: Sequence[Combination], seed: int, kind: Kind, options: dict[str, Any]) -> Iterator[Result]:
    """What comes of combinations, in the processes of several watchdogs; of a group that ends its process, each by itself."""
    free: queue.SimpleQueue[Watchdog] = queue.SimpleQueue()
    for dog in dogs:
        free.put(dog)

    def run(group: Sequence[Combination]) -> list[Result]:
        dog = free.get()
        try:
            return list(_results(dog, group, seed, kind, options))
        finally:
            free.put(dog)

    pool = concurrent.futures.ThreadPoolExecutor(len(dogs))
    try:
        for found in pool.map(run, batches(chosen)):
            yield from found
    finally:
        pool.shutdown(cancel_futures=True)


def _results(dog: Watchdog, group: Sequence[Combination], seed: int, kind: Kind, options: dict[str, Any]) -> Iterator[Result]:
    outcome = dog.call("random_graphs.singles:examine", list(group), seed, kind, options, seconds=SECONDS)
    if outcome.kind == "returned":
        yield from outcome.value
    elif len(group) == 1:
        yield Result(group[0], outcome.kind, str(outcome)[-2000:])
    else:
        for one in group:
            yield from _results(dog, [one], seed, kind, options)
