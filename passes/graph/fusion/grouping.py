"""Groups of ops, each of which becomes one kernel."""

import heapq
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from stepwell.dialects.core.mlir import defining_op, ir, users
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.shape import ExpandOp, TransposeOp
from stepwell.dialects.graph.traits import Converts, Fusion
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.graph.fusion.prologues import Sliced, changes_kept, is_view, read_in_slices, read_once, read_prefix, read_transposed
from stepwell.passes.graph.matching import category, has_one_use, states, widens_nothing
from stepwell.passes.graph.narrow_products import read_narrow

NAME = "fuse-operators"
FUSED, APART = "fused", "apart"
"""The names in plans of an op in its neighbours' kernel, and of one that begins or ends a kernel although it could be in theirs."""
ROOTS = (Fusion.REDUCTION, Fusion.COMPLEX)


@dataclass(eq=False)
class Group:
    """Ops that become one kernel. Only the tail, the last of them in program order, has users outside, except for views (see `is_view`)."""

    root: ir.Operation
    tail: ir.Operation
    members: set[ir.Operation] = field(default_factory=set)


class Grouping:
    """The groups of one block. Each op is visited a bounded number of times. Ops that do not join a group are reported to `state`."""

    def __init__(self, block: ir.Block, max_ops: int, producers: bool, state: PassState) -> None:
        self.max_ops, self.state = max_ops, state
        self.ops = [o.operation for o in block.operations]
        self.position = {op: i for i, op in enumerate(self.ops)}
        self.category = {op: category(op) for op in self.ops}
        self.group_of: dict[ir.Operation, Group] = {}
        self._unfused: dict[tuple[str, ir.Operation], bool] = {}
        # Roots from the last to the first: if an element-wise op could join two, the later one takes it, and the earlier op stays in place.
        for op in reversed(self.ops):
            if self.category[op] in ROOTS:
                group = self._new(op)
                if producers and max_ops > 2:
                    turned = read_transposed(op)
                    self._join(group, turned)
                    for first in read_prefix(op, turned):
                        self._take_view(group, first)
                    # first, because they are not element-wise ops after the producer of their operand
                    self._join(group, read_narrow(op, state.target))
                self._grow(group)
                self._end_with_pad(group)
        for op in self.ops:
            if producers and self.category[op] in ROOTS:
                self._take_producers(self.group_of[op])
        for op in self.ops:
            if self.category[op] == Fusion.INJECTIVE and op not in self.group_of:
                group = self._new(op)
                self._grow(group)
                read = [value for member in group.members for value in member.operands]
                self._absorb(group, read, type_of(group.tail.results[0]).shape, views=producers)
                self._end_with_pad(group)
        for op in self.ops:
            if producers and self.category[op] == Fusion.OPAQUE and copied(op):
                self._take_parts(self._new(op))
                self._take_changes(self.group_of[op])
        for op in self.ops:
            if self.category[op] in (Fusion.OPAQUE, Fusion.PAD) and op not in self.group_of and not self._is_spread(op):
                self._leave_alone(op)
                group = self._new(op)
                if isinstance(op.opview, TransposeOp):
                    self._end_with_pad(group)

    def groups(self) -> list[Group]:
        """All groups, by the position of their tails."""
        return sorted(set(self.group_of.values()), key=lambda g: self.position[g.tail])

    def members(self, group: Group) -> list[ir.Operation]:
        """The ops of a group in program order."""
        return sorted(group.members, key=self.position.__getitem__)

    def _new(self, op: ir.Operation) -> Group:
        group = self.group_of[op] = Group(op, op, {op})
        return group

    def _join(self, group: Group, ops: Sequence[ir.Operation]) -> None:
        group.members.update(ops)
        self.group_of.update(dict.fromkeys(ops, group))

    def _merge(self, group: Group, other: Group) -> None:
        """Add the ops of another group to a group; views may be in other groups as well."""
        group.members.update(other.members)
        self.group_of.update(dict.fromkeys((op for op in other.members if op == other.root or op in self.group_of), group))

    def _grow(self, group: Group) -> None:
        """Add the element-wise ops after the group's result, as long as one value of the same shape comes out."""
        while not isinstance(taken := self._next(group), NoMatch):
            self._join(group, taken)
            group.tail = taken[-1]
        self.state.decline(NAME, group.tail, taken)
        self._leave_wide(group)
        self._take_widening(group)

    def _take_widening(self, group: Group) -> None:
        """Add the casts from bytes or 16-bit floats that only the group uses: widening on reading is cheaper than a kernel that stores floats."""
        shape = type_of(group.tail.results[0]).shape
        for value in [value for member in group.members - {group.root} for value in member.operands]:
            op = defining_op(value)
            if op is None or not repeats_cheaply(op) or op not in self.position or op in self.group_of:
                continue
            if self._why_outside(group, op, value, shape) is None:
                self._join(group, [op])

    def _leave_wide(self, group: Group) -> None:
        """Move the last op to the reduction that reads its result, if the result has more bytes than the op's inputs."""
        tail = group.tail
        if tail == group.root or not states(tail, Converts):
            return
        reader = users(tail.results[0])
        wide, narrow = (to_numpy(type_of(v).dtype).itemsize for v in (tail.results[0], tail.operands[0]))
        if wide <= narrow or len(reader) != 1 or self.category.get(reader[0]) != Fusion.REDUCTION or not has_one_use(tail.operands[0]):
            return
        before = defining_op(tail.operands[0])
        if before in group.members:
            group.members.discard(tail)
            del self.group_of[tail]
            group.tail = before

    def _next(self, group: Group) -> list[ir.Operation] | NoMatch:
        """The ops from the group's result to the first op at which all its uses meet, if all of them may join; otherwise why not.

        In the simple case that is the only user. Paths from several users (x * sigmoid(x)) must meet again: ops are visited in program order, and the
        paths have met when nothing else is pending. Ops in between have no users elsewhere, or those would be pending.
        """
        waiting: list[int] = []
        passed: list[ir.Operation] = []
        inside = {group.tail}
        if not self._wait_for_users(group.tail, waiting):
            return NoMatch("its kernel ends with it: it is used in a nested region, or by nothing")
        while waiting:
            op = self.ops[heapq.heappop(waiting)]
            while waiting and self.ops[waiting[0]] == op:
                heapq.heappop(waiting)
            if self.category[op] != Fusion.INJECTIVE:
                return NoMatch(f"its kernel ends with it: '{op.name}', which uses it, is not element-wise")
            if op in self.group_of:
                return NoMatch(f"its kernel ends with it: '{op.name}', which uses it, belongs to the kernel of '{self.group_of[op].root.name}'")
            if len(group.members) + len(passed) >= self.max_ops:
                return NoMatch(f"its kernel ends with it: there would be more than max-ops={self.max_ops} ops in it")
            if not self._keeps_shape(op, group.tail, inside):
                return NoMatch(f"its kernel ends with it: '{op.name}', which uses it, may give another shape")
            if self._is_unfused("fusion", op):
                return NoMatch(f"its kernel ends with it: '{op.name}', which uses it, is to be computed apart")
            passed.append(op)
            inside.add(op)
            if not waiting:
                return passed
            if not self._wait_for_users(op, waiting):
                return NoMatch(f"its kernel ends with it: '{op.name}', which uses it, is used in a nested region, or by nothing")
        return NoMatch("its kernel ends with it: nothing uses it")

    def _wait_for_users(self, op: ir.Operation, waiting: list[int]) -> bool:
        """Add the users of an op to the heap of positions; False if one is in a nested region, or there are none."""
        uses = list(op.results[0].uses)
        for use in uses:
            position = self.position.get(use.owner.operation)
            if position is None:
                return False
            heapq.heappush(waiting, position)
        return bool(uses)

    def _keeps_shape(self, op: ir.Operation, like: ir.Operation, inside: set[ir.Operation]) -> bool:
        """Whether the result of an element-wise op certainly has the shape of `like`, one of its operands."""
        shape = type_of(like.results[0]).shape
        if type_of(op.results[0]).shape != shape:
            return False
        return None not in shape or all(widens_nothing(value, shape) for value in op.operands if defining_op(value) not in inside)

    def _absorb(self, group: Group, pending: list[ir.Value], shape: tuple[Dim, ...], *, views: bool = False) -> None:
        """Add the element-wise producers of `pending`, and those before them, if only the group uses them; all must have one known shape.

        With `views`, also add views.
        """
        while pending and None not in shape:
            value = pending.pop()
            op = defining_op(value)
            if op is None or (views and self._take_view(group, op)) or self.category.get(op) != Fusion.INJECTIVE or op in self.group_of:
                continue
            reason = self._why_outside(group, op, value, shape)
            if reason is None:
                self._join(group, [op])
                pending.extend(op.operands)
            else:
                self.state.decline(NAME, op, reason)

    def _take_view(self, group: Group, op: ir.Operation) -> bool:
        """Add an op if it is a view; other groups may contain it too, because it computes nothing."""
        taken = op in self.position and op not in self.group_of and len(group.members) < self.max_ops and is_view(op)
        if taken:
            group.members.add(op)
        return taken

    def _is_spread(self, op: ir.Operation) -> bool:
        """Whether all users of an op have it in their groups, so that nothing needs the op itself."""
        groups = [self.group_of.get(use.owner.operation) for use in op.results[0].uses]
        return bool(groups) and all(group is not None and op in group.members for group in groups)

    def _leave_alone(self, op: ir.Operation) -> None:
        """Remove an op that is a kernel of its own from all groups; they read its result instead."""
        for use in op.results[0].uses:
            if use.owner.operation in self.group_of:
                self.group_of[use.owner.operation].members.discard(op)

    def _take_parts(self, group: Group) -> None:
        """Add the groups of element-wise ops that produce the operands of a copying op, so that they write directly into its result."""
        for value in copied(group.root):
            op = defining_op(value)
            maker = None if op is None or self._take_view(group, op) else self._repeats_or_computes(op)
            if maker is None:
                continue
            with self.state.attempt(NAME, maker.tail):
                outside = f"it is not computed with '{group.root.name}', which copies it"
                if not all(use.owner.operation == group.root for use in value.uses):
                    raise NoMatch(f"{outside}: it has another user")
                if len(group.members) + len(maker.members) > self.max_ops:
                    raise NoMatch(f"{outside}: there would be more than max-ops={self.max_ops} ops")
                if self._is_unfused("producers", maker.tail):
                    raise NoMatch(f"{outside}: it is to be apart")
                self._merge(group, maker)

    def _take_changes(self, group: Group) -> None:
        """Merge scatter-like updates of a persistent buffer into the group of the overwrite that returns it, so that they happen in place."""
        found = changes_kept(group.root)
        if found is not None and len(group.members) + len(self.group_of[found.scatter].members) < self.max_ops:
            self._merge(group, self.group_of[found.scatter])
            self._join(group, [found.first])

    def _repeats_or_computes(self, op: ir.Operation) -> Group | None:
        """The group of element-wise ops that ends with an op; for an expansion, which is in no group yet, the op alone."""
        found = self.group_of.get(op)
        if found is None:
            return Group(op, op, {op}) if isinstance(op.opview, ExpandOp) and op in self.position else None
        return found if found.tail == op and {self.category[found.root], self.category[op]} == {Fusion.INJECTIVE} else None

    def _why_outside(self, group: Group, op: ir.Operation, value: ir.Value, shape: tuple[Dim, ...]) -> NoMatch | None:
        """Why the element-wise producer of `value`, an operand of the group, cannot be part of the group; None if it can."""
        outside = f"it is not computed with '{group.root.name}', which reads it"
        if len(group.members) >= self.max_ops:
            return NoMatch(f"{outside}: there would be more than max-ops={self.max_ops} ops")
        if type_of(value).shape != shape:
            return NoMatch(f"{outside}: its shape is another, so that it would be done several times")
        if not all(use.owner.operation in group.members for use in value.uses):
            return NoMatch(f"{outside}: it has another user")
        return NoMatch(f"{outside}: it is to be computed apart") if self._is_unfused("fusion", op) else None

    def _is_unfused(self, kind: str, op: ir.Operation) -> bool:
        """Whether an op that could join its neighbours' kernel is chosen not to: its result, or its operand, then goes through memory.

        That changes no bit: inside a kernel, too, each op rounds its result to its type, and products and sums of different ops are not contracted.
        """
        if (kind, op) not in self._unfused:

            def candidates() -> list[Candidate]:
                results = [type_of(value) for value in op.results]
                moved = sum(kind.elements * to_numpy(kind.dtype).itemsize for kind in results if kind.is_static)
                alike, apart = "rounded to its type", self.state.machine.seconds(moved=2.0 * moved)
                return [Candidate(FUSED, 0.0, arithmetic=alike), Candidate(APART, apart, {"bytes": moved}, alike)]

            self._unfused[kind, op] = self.state.choose(kind, op, candidates, FUSED) == APART
        return self._unfused[kind, op]

    def _take_producers(self, group: Group) -> None:
        """Add the producers of the root's data, if only the root uses these data and nothing is computed more than once because of it."""
        once: ir.Value | None = None
        with suppress(NoMatch):
            once = read_once(group.root)
            self._absorb(group, [once], type_of(once).shape)
        with self.state.attempt(NAME, group.root):
            sliced = read_in_slices(group.root)
            if once is None:
                self._absorb(group, [sliced.operand], type_of(sliced.operand).shape)
            if defining_op(sliced.operand) not in group.members:
                self._merge(group, self._maker(group, sliced))

    def _maker(self, group: Group, sliced: Sliced) -> Group:
        """The group that produces the operand which another group's root reads slice by slice. Raises NoMatch if the two cannot be one kernel."""
        source = defining_op(sliced.operand)
        maker = None if source is None else self.group_of.get(source)
        if maker is None or not sliced.takes(maker.root):
            made = "an argument" if source is None else f"'{(source if maker is None else maker.root).name}'"
            raise NoMatch(f"it is not fused with what makes its image: that is {made}, expected {sliced.makers}")
        if maker.tail != source:
            raise NoMatch("it is not fused with what makes its image: that is read in the middle of a kernel")
        if not all(use.owner.operation == group.root for use in sliced.operand.uses):
            raise NoMatch("it is not fused with what makes its image: that has another user")
        if self.category[maker.tail] == Fusion.PAD:
            raise NoMatch("it is not fused with what makes its image: that ends with a pad")
        if len(group.members) + len(maker.members) > self.max_ops:
            raise NoMatch(f"it is not fused with what makes its image: there would be more than max-ops={self.max_ops} ops")
        if self._is_unfused("producers", group.root):
            raise NoMatch("it is not fused with what makes its image: it is to be computed apart")
        return maker

    def _end_with_pad(self, group: Group) -> None:
        """Add one pad to the group, if it is the only user of the group's result."""
        users = [use.owner.operation for use in group.tail.results[0].uses]
        pads = [user for user in users if self.category.get(user) == Fusion.PAD]
        if pads and len(users) == 1:
            self._join(group, pads)
            group.tail = pads[0]
        elif pads:
            self.state.decline(NAME, pads[0], NoMatch(f"it is a kernel of its own: '{group.tail.name}', which it pads, has another user"))


def copied(op: ir.Operation) -> Sequence[ir.Value]:
    """The operands that an op copies into its result."""
    return op.opview.copied_operands() if isinstance(op.opview, GraphOp) else ()


def repeats_cheaply(op: ir.Operation) -> bool:
    """Whether an op converts values stored in fewer bits to floats."""
    return isinstance(op.opview, GraphOp) and op.opview.repeats_cheaply()
