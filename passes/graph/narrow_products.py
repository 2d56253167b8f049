"""The pass that makes integer products read narrow operands, if the target has an instruction for them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

from stepwell.dialects.core.dtypes import NARROW
from stepwell.dialects.core.mlir import defining_op, ir, users
from stepwell.dialects.core.symbolic_shapes import hints_around, likely_elements
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.traits import KeepsChannels
from stepwell.dialects.graph.value_range import Range
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import Intrinsic
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.graph.integer_products import (
    HALF,
    IntegerProductPass,
    ProductRewriting,
    fastest,
    holds,
    is_integer_product,
    kind_of,
    multiplies_narrow,
    one_channel,
    rate,
    sum_of_products,
    widened,
)
from stepwell.passes.graph.matching import derived_name, has_one_use, keeps_each_element, producer, stored, with_operands


@register_pass("narrow-products", level="graph", optional=True)
class NarrowProducts(IntegerProductPass):
    """Make integer products read i8, ui8, i16 or ui16 if all values fit, and the target has an intrinsic for these.

    rewrite: matmul(x, w)       -> matmul(cast(x'), cast(w'))     where x' and w' hold the same numbers; conv(x, w) likewise

    A widened operand is read before the widening; a known one is stored again in the narrow type. The range of others follows from the ops that
    compute them, such as a ui8 minus its zero point: these get a cast, which fuses into those ops. Products are still summed in the wide type, so the
    result is bit-identical. `fuse-operators` puts the two casts into the product's kernel, where they end up in its body: one contraction, which an
    intrinsic can compute (docs/schedules.md).
    """

    done: ClassVar[str] = "reads its operands in the narrow types that they were widened from"

    def rewriting(self, state: PassState, known: dict[ir.Value, Range]) -> ProductRewriting:
        return _Narrowing(state, known)


def broadcast_as(op: ir.Operation, chosen: Intrinsic, left: str, right: str, often: int) -> str:
    """The type in which a product reads its left operand: that of the instruction's operand, if each element is read at least `often`.

    A group of its elements is broadcast to all lanes, which a load does by itself if nothing has to be widened. Weights are widened, vector by
    vector.
    """
    order = chosen.takes(kind_of(left), kind_of(right))
    assert order is not None
    bits = int(chosen.operands[order.index(0)][1:])
    hints = hints_around(op)
    read, columns = (likely_elements(type_of(v).shape, hints) for v in (op.operands[0], op.results[0]))
    products = sum_of_products(op.opview)
    assert products is not None
    summed = products.depth if isinstance(products.depth, int) else 1
    return left if bits <= 8 * to_numpy(left).itemsize or columns * summed < often * read else f"i{bits}"


def read_narrow(root: ir.Operation, target: Target | None) -> list[ir.Operation]:
    """The casts before a product of integers or bf16 that its body can absorb, so that one intrinsic of the target computes both; else none.

    Also those of a depthwise convolution whose sums of integers are floats.
    """
    if one_channel(root.opview) and root.opview.has_trait(KeepsChannels):
        made = [cast for value in root.operands if has_one_use(value) and (cast := producer(value, "cast")) is not None]
        return [cast.operation for cast in made if type_of(cast.x).dtype in (*NARROW, HALF) and cast.operation.block == root.block]
    if not multiplies_narrow(root.opview) or one_channel(root.opview):
        return []
    casts = [cast for value in root.operands if (cast := widened(value)) is not None and has_one_use(value)]
    if len(casts) < len(root.operands) or any(cast.operation.block != root.block for cast in casts):
        return []
    left, right = (kind_of(type_of(cast.x).dtype) for cast in casts)
    return [cast.operation for cast in casts] if rate(left, right, target, type_of(root.results[0]).dtype) else []


def read_shared(root: ir.Operation) -> list[ir.Operation]:
    """The casts before a product of integers or bf16 that `read_narrow` would find if they had no other user."""
    if not multiplies_narrow(root.opview):
        return []
    found = [cast.operation for value in root.operands if (cast := widened(value)) is not None and not has_one_use(value)]
    return [cast for cast in found if cast.block == root.block]


@dataclass
class _Narrowing(ProductRewriting):
    """One run on a function."""

    made: dict[tuple[ir.Value, str], ir.Value] = field(default_factory=dict)

    def rewrite(self, op: ir.Operation) -> None:
        """Make a product read narrow operands. Raises NoMatch if it stays."""
        if one_channel(op.opview):
            raise NoMatch("it sums over the taps of one channel only, which no intrinsic pays for")
        wide = type_of(op.results[0]).dtype
        choices = [list(self.choices(value)) for value in op.operands]
        for value, found in zip(op.operands, choices, strict=True):
            if not found:
                raise NoMatch(f"the values of {type_of(value)} are not known to fit {', '.join(NARROW)}")
        for left, right in sorted(product(*choices), key=lambda pair: sum(to_numpy(d).itemsize for d in pair)):
            chosen = fastest(kind_of(left), kind_of(right), self.state.target, wide)
            if chosen is not None:
                often = self.state.machine.costs.widening_reads
                with ir.InsertionPoint(op), op.location:
                    b = GraphBuilder(self.state.weights)
                    for number, dtype in enumerate((broadcast_as(op, chosen, left, right, often), right)):
                        value = op.operands[number]
                        found = widened(value)
                        if found is None or type_of(found.x).dtype != dtype or not has_one_use(value):
                            op.operands[number] = b.cast(self.narrow(value, dtype, b), to=wide, saturate=True)
                            maker = defining_op(value)
                            self.replaced += [] if maker is None else [maker]
                return
        raise NoMatch(f"no intrinsic of the target takes {' or '.join(choices[0])} with {' or '.join(choices[1])} and sums in {wide}")

    def choices(self, value: ir.Value) -> Iterator[str]:
        """The narrow types in which a value is available without computing it twice."""
        cast = widened(value)
        if cast is not None:
            yield type_of(cast.x).dtype
            return
        array = stored(value, self.state.weights)
        if array is not None:
            least, most = (array.min().item(), array.max().item()) if array.size else (0, 0)
        elif value in self.known and all(map(self.reads_for_a_product, users(value))):
            least, most = self.known[value]
        else:
            return
        wide = to_numpy(type_of(value).dtype).itemsize
        yield from (dtype for dtype in NARROW if holds(dtype, least, most) and to_numpy(dtype).itemsize < wide)

    def reads_for_a_product(self, user: ir.Operation) -> bool:
        """Whether an op is a product, or moves or pads operands of products, or narrows a value for a product that was rewritten before."""
        if is_integer_product(user.opview) or any(result == made for result in user.results for made in self.made.values()):
            return True
        return keeps_each_element(user) and all(map(self.reads_for_a_product, users(user.results[0])))

    def narrow(self, value: ir.Value, dtype: str, b: GraphBuilder) -> ir.Value:
        """`value`, all of whose elements fit `dtype`, in that type."""
        key = (value, dtype)
        if key not in self.made:
            self.made[key] = self._narrow(value, dtype, b)
        return self.made[key]

    def _narrow(self, value: ir.Value, dtype: str, b: GraphBuilder) -> ir.Value:
        cast = widened(value)
        if cast is not None:
            source: ir.Value = cast.x
            return source if type_of(source).dtype == dtype else b.cast(source, to=dtype, saturate=True)
        array = stored(value, self.state.weights)
        if array is not None:
            return b.weight(derived_name(value), array.astype(to_numpy(dtype)))
        op = defining_op(value)
        assert op is not None  # its range is known
        with ir.InsertionPoint.after(op), op.location:  # next to its producer, in whose kernel it then is
            if not keeps_each_element(op) or defining_op(op.operands[0]) is None:
                narrow: ir.Value = b.cast(value, to=dtype, saturate=True)
            else:  # the cast goes before it, into the kernel of its producer
                narrow = with_operands(b, op, [self.narrow(op.operands[0], dtype, b)])
        return narrow
