"""A second layout of the workspace, in which operands of concatenations lie inside the results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from stepwell.dialects.core.kernel_info import Concat, KernelInfo
from stepwell.dialects.core.layout import Joined, Slot
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, evaluated_if_known, symbol
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.passes.bufferize.buffers import Assignment, Buffer, callee
from stepwell.passes.bufferize.packing import Lifetime, pack, slots
from stepwell.passes.linalg.views import WHOLE_TENSOR_VIEWS


def join(
    plan: Assignment, main: ir.OpView, kernels: Mapping[str, Any], shapes: SymbolicShapes, symbols: Sequence[str]
) -> tuple[Joined | None, set[str]]:  # fmt: skip
    """Plan a second layout of the workspace, for runs in which a symbol (for example the number of images) is 1.

    Channels of several images are concatenated by copying, because each image has the channels of all operands in sequence. With one image
    the operands are contiguous in the result, so their producers can write there directly. An operand is moved only if nothing writes to it after the
    concatenation, and if only the concatenation writes to the result. `symbols` are the sizes that are known when a run begins.

    Returns the layout, for the same buffers as `plan.layout`, and the names of the kernels whose copies it saves; None if it saves none.
    """
    ops = [o.operation for o in main.regions[0].blocks[0].operations]
    calls = {op: found for op in ops if op.name == "func.call" and (found := KernelInfo(kernels[callee(op)]).concat) is not None}
    calls = {op: concat for op, concat in calls.items() if str(concat.one) in symbols}
    if not calls or not plan.layout:
        return None, set()
    one = Counter(str(concat.one) for concat in calls.values()).most_common(1)[0][0]
    joiner = _Joiner(plan, ops, one, shapes)
    names = {callee(op) for op, concat in calls.items() if str(concat.one) == one and joiner.join(op, concat)}
    return (joiner.layout(), names) if names else (None, set())


class _Joiner:
    """Moves the operands of concatenations into the results. It works on copies of the buffers, which the usual layout keeps unchanged."""

    def __init__(self, plan: Assignment, ops: list[ir.Operation], one: str, shapes: SymbolicShapes) -> None:
        self.plan, self.one, self.shapes = plan, one, shapes
        self.position = {op: i for i, op in enumerate(ops)}
        self.numbers = {root: number for number, root in enumerate(plan.laid_out)}
        self.moved = [Buffer(self._size(root.size), first=root.first, last=root.last) for root in plan.laid_out]
        self.writes: dict[Buffer, set[int]] = {root: set() for root in plan.laid_out}  # the launches that write to each
        for op in ops:
            for value in op.results:
                if value in plan.values:
                    self._written(plan.values[value], op)
            for _, target, _ in plan.copies.get(op, ()):
                self._written(target, op)

    def _written(self, buffer: Buffer, op: ir.Operation) -> None:
        root, _ = buffer.root()
        if root in self.writes and op.name not in ("tensor.empty", *WHOLE_TENSOR_VIEWS):
            self.writes[root].add(self.position[op])

    def _size(self, size: int | Size) -> int | Size:
        return evaluated_if_known(size, {self.one: 1}) if isinstance(size, Size) else size

    def join(self, op: ir.Operation, concat: Concat) -> bool:
        """Move the operands of a concatenation into its result, if all of them may be moved there."""
        launch, (result, _) = self.position[op], self.plan.values[op.results[0]].root()
        operands = [op.operands[number] for number in concat.arguments]
        parts = [self.plan.values[value].root() for value in operands]
        roots = [root for root, _ in parts]
        if self.writes.get(result) != {launch} or len({*roots, result}) <= len(roots):
            return False
        for value, (root, offset) in zip(operands, parts, strict=True):
            whole = root in self.numbers and offset == 0 and root.size == self.shapes.bytes(value)
            if not whole or self.moved[self.numbers[root]].parent is not None or max(self.writes[root], default=launch) >= launch:
                return False
        target = self.moved[self.numbers[result]]
        for root, begin in zip(roots, accumulate((self._size(root.size) for root in roots), initial=0), strict=False):
            self.moved[self.numbers[root]].put_into(target, begin)
        return True

    def layout(self) -> Joined:
        """The layout after the moves."""
        whole = [number for number, buffer in enumerate(self.moved) if buffer.parent is None]
        buffers = [self.moved[number] for number in whole]
        lifetimes = [Lifetime(self.shapes.likely(b.size), b.first, b.last) for b in buffers]
        placed = slots([b.size for b in buffers], lifetimes, pack(lifetimes)[0])
        found = {number: Slot(slot.size, tuple(whole[i] for i in slot.below)) for number, slot in zip(whole, placed, strict=True)}
        holders = {id(self.moved[number]): number for number in whole}
        for number, buffer in enumerate(self.moved):
            if number not in found:
                holder, offset = buffer.root()
                found[number] = Slot(buffer.size, (), (holders[id(holder)], offset))
        return Joined(symbol(self.one), [found[number] for number in range(len(self.moved))])
