"""Products of integers: how to recognise them, the narrow types they may read, the target's instructions, and a base class of passes."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from stepwell.dialects.core.dtypes import BYTES, NARROW
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.types import dtype_info, is_integer, is_unsigned, to_numpy, type_of
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.products import SumOfProducts
from stepwell.dialects.graph.traits import KeepsChannels
from stepwell.dialects.graph.value_range import Range
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.dialects.target.dot_products import Intrinsic, dot_products
from stepwell.passes.framework.registry import Pass, PassState
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.graph.matching import erase_unused, producer
from stepwell.passes.graph.ranges import ranges

WIDE = "i32"  # the type of sums of products of bytes
HALF, SINGLE = "bf16", "f32"  # floats that products may read, and the type of their sums


@dataclass
class ProductRewriting:
    """One run of a pass on a function. Ops that a subclass replaces are added to `replaced`, and erased at the end if they have no users."""

    state: PassState
    known: dict[ir.Value, Range]
    replaced: list[ir.Operation] = field(default_factory=list)

    def rewrite(self, op: ir.Operation) -> None:
        """Rewrite a product. Raises NoMatch, with nothing changed, if the rewriting does not apply."""
        raise NotImplementedError


class IntegerProductPass(Pass):
    """Rewrites integer products that are not in a kernel yet, one after the other."""

    done: ClassVar[str]
    """The text to report for a rewritten product."""

    def takes(self, view: ir.OpView) -> bool:
        """Whether the pass applies to an op."""
        return is_integer_product(view)

    def rewriting(self, state: PassState, known: dict[ir.Value, Range]) -> ProductRewriting:
        """The rewriting of the products of a function; `known` has the known ranges of its values."""
        raise NotImplementedError

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in functions(op):
            ops = ops_below(function)
            products = [o for o in ops if self.takes(o.opview)]
            if KernelInfo(function).is_kernel or not products:
                continue
            rewriting = self.rewriting(state, ranges(ops, state.weights))
            for inner in products:
                with state.attempt(self.name, inner):
                    rewriting.rewrite(inner)
                    state.count(self.name)
                    state.did(self.name, inner, self.done)
            erase_unused(dict.fromkeys(rewriting.replaced))


def sum_of_products(view: ir.OpView) -> SumOfProducts | None:
    """How an op sums products of its two operands; None for any other op."""
    return view.sum_of_products() if isinstance(view, GraphOp) else None


def multiplies_rows(view: ir.OpView) -> bool:
    """Whether an op multiplies rows of its first operand by matrices."""
    products = sum_of_products(view)
    return products is not None and products.multiplies_rows


def is_integer_product(view: ir.OpView) -> bool:
    """Whether an op sums products of integers."""
    return sum_of_products(view) is not None and is_integer(type_of(view.operation.results[0]).dtype)


def multiplies_narrow(view: ir.OpView) -> bool:
    """Whether an op sums products of integers, or of bf16 in f32. Blocked depthwise filters are multiplied in f32."""
    if sum_of_products(view) is None or view.has_trait(KeepsChannels):
        return False
    return is_integer_product(view) or all(_of_half(value) for value in view.operation.operands)


def _of_half(value: ir.Value) -> bool:
    cast = widened(value)
    return cast is not None and type_of(cast.x).dtype == HALF


def one_channel(view: ir.OpView) -> bool:
    """Whether each sum of an op takes elements of one channel, as in a depthwise convolution."""
    found = sum_of_products(view)
    return found is not None and found.by_channel


def sums_integers(view: ir.OpView) -> bool:
    """Whether a convolution or product of floats reads narrow integers as floats: its weights are integers too, and its sums exact."""
    image = view.operation.operands[0]
    pad = producer(image, "pad")
    cast = producer(image if pad is None else pad.x, "cast")
    return cast is not None and type_of(cast.x).dtype in NARROW


def widened(value: ir.Value) -> Any:
    """The view of the cast that widens `value` from narrower integers, or from bf16, without loss; None if there is none."""
    cast = producer(value, "cast")
    if cast is None:
        return None
    source, wide = type_of(cast.x).dtype, type_of(value).dtype
    if (source, wide) == (HALF, SINGLE):
        return cast
    if source not in NARROW or not is_integer(wide):
        return None
    return cast if to_numpy(source).itemsize < to_numpy(wide).itemsize else None


def kind_of(dtype: str) -> str:
    """A narrow type as intrinsics spell it."""
    if dtype == HALF:
        return "b16"
    return f"{'u' if is_unsigned(dtype) else 's'}{dtype_info(dtype).bits}"


def summed_in(kind: str) -> str:
    """The type in which products of a narrow type are summed."""
    return SINGLE if kind == kind_of(HALF) else WIDE


def holds(dtype: str, low: float, high: float) -> bool:
    """Whether an integer type holds all numbers of a range."""
    least, most = dtype_info(dtype).limits
    return bool(least <= low <= high <= most)


def smallest(low: float, high: float) -> str | None:
    """The smallest type that holds all numbers of a range, as intrinsics spell it; None if no narrow type does."""
    return next((kind_of(dtype) for dtype in NARROW if holds(dtype, low, high)), None)


def fastest(left: str, right: str, target: Target | None, result: str | None = None) -> Intrinsic | None:
    """The target's intrinsic that sums the most products of two types in type `result` (default: `summed_in`); None if there is none."""
    wanted = dtype_info(result or summed_in(left)).storage
    fitting = [i for i in dot_products(target or GENERIC) if i.result == wanted and i.takes(left, right) is not None]
    return max(fitting, key=speed, default=None)


def rate(left: str, right: str, target: Target | None, result: str | None = None) -> float:
    """The largest number of products of two types that an instruction of the target sums in type `result`; 0 without an intrinsic for them."""
    found = fastest(left, right, target, result)
    return 0.0 if found is None else speed(found)


def speed(intrinsic: Intrinsic) -> float:
    """Products per instruction."""
    return intrinsic.products / intrinsic.instructions


def read_as(weights: str, target: Target | None) -> tuple[str, int]:
    """The best type for the left operand of a product whose numbers fit ui8 after some shift, and the shift.

    It is the type that the target's fastest intrinsic for `weights`, a narrow type, reads: bytes of either sign, or 16 bits.
    """
    best = max(BYTES, key=lambda dtype: (rate(kind_of(dtype), kind_of(weights), target), is_unsigned(dtype)))
    shift = -128 if best == "i8" else 0
    chosen = fastest(kind_of(best), kind_of(weights), target)
    order = None if chosen is None else chosen.takes(kind_of(best), kind_of(weights))
    if chosen is None or order is None:
        return best, shift
    return next(dtype for dtype in NARROW if kind_of(dtype) == chosen.operands[order.index(0)]), shift
