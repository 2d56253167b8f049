"""The registry of lowerings from graph ops to linalg, and their adapter to the conversion driver."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, TypeAlias, TypeVar

from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import arith, defining_op, ir, tensor
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import Size, always, has_elements
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.base import IndexOperand, compatible
from stepwell.dialects.graph.emulation import needs_emulation
from stepwell.dialects.support.errors import PassError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.origins import line_of
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import CAST, Conversion, NoMatch, reinterpreted
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.plain_types import is_graph_type, plain_type

Operands: TypeAlias = Sequence[ir.Value]
Lowering: TypeAlias = Callable[[Any, Operands, LinalgBuilder], "ir.Value | Sequence[ir.Value] | NoMatch"]
L = TypeVar("L", bound=Lowering)

_CMP = arith.CmpIPredicate
_LOWERINGS: dict[str, Lowering] = {}
"""The functions by names of ops."""


def lowering(*classes: type[GraphOp]) -> Callable[[L], L]:
    """Register a function as the lowering of these op classes; a later registration replaces an earlier one.

    The function takes the op (for its attributes and its graph types, which distinguish unsigned from signed), its operands in order as signless
    tensors, and a LinalgBuilder at the op's position and location. It returns the value (or one for each result) that replaces the op, or NoMatch
    with the reason before building anything.
    """

    def add(function: L) -> L:
        for cls in classes:
            _LOWERINGS[cls.OPERATION_NAME] = function
        extension(function)
        return function

    return add


def conversions() -> list[Conversion]:
    """All registered lowerings, including those of plugins, for the conversion driver."""
    return [Conversion(function.__name__, name, _adapt(function)) for name, function in _LOWERINGS.items()]


def lowering_of(name: str) -> Lowering | None:
    """The function that lowers an op of that name; None if there is none."""
    return _LOWERINGS.get(name)


def _adapt(function: Lowering) -> Callable[[Any, Sequence[ir.Value], PassState], Any]:
    def lower(op: ir.OpView, operands: Sequence[ir.Value], state: PassState) -> Any:
        types = op.result_types()
        if needs_emulation(op):
            return NoMatch("it computes with elements that are only bytes here; run emulate-floats before")
        b = LinalgBuilder(state)
        # Results without elements need no computation, and linalg rejects some maps into no elements.
        if len(operands) and all(0 in t.shape and None not in t.shape for t in types):
            answer: Any = [b.empty(t.dtype, b.given_all(t.shape)) for t in types]
        else:
            plain = [_without_sign(v) for v in operands]
            asked = op.index_operand() if isinstance(op, GraphOp) else None
            b.has_elements = None if asked is None else _present(op, asked, plain, b)
            if asked is not None and 0 in plain[0].type.shape:  # there is nothing to read, and no valid index
                answer = [b.filled(0, t.dtype, b.given_all(t.shape)) for t in types]
            else:
                answer = function(op, plain, b)
        if isinstance(answer, NoMatch):
            return answer
        results = list(op.operation.results)
        values = [answer] if isinstance(answer, ir.Value) else list(answer) if isinstance(answer, Iterable) else None
        if values is None or not all(isinstance(value, ir.Value) for value in values):
            came = f"got {shown(answer)}{line_of(function)}"
            raise PassError(f"{_where(function, op)} must give a value for each of {len(results)} results, or NoMatch, {came}")
        if len(values) != len(results):
            raise PassError(f"{_where(function, op)} gave {len(values)} values for {len(results)} results{line_of(function)}")
        return [_with_sign(op, function, v, r.type) for v, r in zip(values, results, strict=True)]

    return lower


def _present(op: ir.OpView, asked: IndexOperand, operands: Operands, b: LinalgBuilder) -> ir.Value | None:
    """Whether the dimensions that an op's indices go along have elements, for the code to ask; None where they do, or are assumed to.

    An out-of-range index means some element of its dimension (`LinalgBuilder.place`): if there are indices there must be one, or the code is
    specialised for that size. The code only tests where no assumption is possible: for data-dependent sizes, in a branch that may exist for just that
    case, or in a loop.
    """
    shape = type_of(op.operation.operands[0]).shape
    function: Any = function_around(op.operation)
    doubtful = {dim: size for dim in asked.dims if isinstance(size := shape[dim], Size) and not always(size, ">", 0)}
    if asked.guarded and doubtful and function is not None and in_region(function):
        given = ModuleInfo(function.parent.operation).symbols
        if not all(set(given).issuperset(size.symbols) for size in doubtful.values()):
            sizes = [b.index_of(b.size(operands[0], dim)) for dim in doubtful]
            return reduce(lambda x, y: arith.AndIOp(x, y).result, [arith.CmpIOp(_CMP.sgt, size, b.index(0)).result for size in sizes])
    for dim in asked.dims:
        has_elements(shape[dim], asked.reads)
    return None


def in_region(function: Any) -> bool:
    """Whether a function is called in a branch or in a loop's body, or is one."""
    name = function.attributes["sym_name"]
    around = [f for f in function.parent.operation.regions[0].blocks[0].operations if f.operation.name in KernelInfo.on and KernelInfo(f).is_region]
    calls = (inner for f in around for inner in f.operation.regions[0].blocks[0].operations)
    return bool(KernelInfo(function).is_region) or any(
        "callee" in call.attributes and ir.FlatSymbolRefAttr(call.attributes["callee"]).value == ir.StringAttr(name).value for call in calls
    )


def _where(function: Lowering, op: Any) -> str:
    return f"lowering '{function.__name__}' of '{op.operation.name}' at {op.location}"


# The conversion driver cannot change signatures, so unsigned tensors keep their type between lowerings; casts around each lowering hide that from it,
# and `make_plain` removes them at the end.


def _without_sign(value: ir.Value) -> ir.Value:
    if not is_graph_type(value.type):
        return value
    origin = defining_op(value)
    if origin is not None and origin.name == CAST:
        return origin.operands[0]
    return reinterpreted(value, plain_type(value.type))


def _with_sign(op: Any, function: Lowering, value: ir.Value, wanted: ir.Type) -> ir.Value:
    if value.type == wanted:
        return value
    plain = plain_type(wanted)
    if value.type != plain:  # the op may know less about its shape than the lowering, or more
        given, asked = type_of(value), TensorType.from_mlir(plain)
        if not compatible(given, asked):
            said = f"for a result that is {wanted} by its `infer`{line_of(type(op).infer)}"
            raise PassError(f"{_where(function, op)} gave {value.type}{line_of(function)} {said}")
        value = tensor.CastOp(plain, value).result
    return value if plain == wanted else reinterpreted(value, wanted)
