"""The pass that decides which ops become one kernel: groups of ops become `graph.fused` regions."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import create_operation, defining_op, ir, users
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import TensorType, is_float, to_numpy, type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.builder import LITERAL_ELEMENTS
from stepwell.dialects.graph.control import FusedOp, YieldOp
from stepwell.dialects.graph.shape import ExpandOp, TransposeOp
from stepwell.dialects.graph.traits import Converts, Fusion
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import clone_into, functions
from stepwell.passes.graph.fusion.categories import category
from stepwell.passes.graph.fusion.prologues import Sliced, changes_kept, is_view, read_from_start, read_in_slices, read_once, read_turned
from stepwell.passes.graph.matching import has_one_use, is_used, states, widens_nothing
from stepwell.passes.graph.narrow_products import read_narrow, read_shared

NAME = "fuse-operators"
ROOTS = (Fusion.REDUCTION, Fusion.COMPLEX)


@dataclass(eq=False)
class Group:
    """Ops that become one kernel. Only the tail, the last of them in program order, has users outside, except for views (see `is_view`)."""

    root: ir.Operation
    tail: ir.Operation
    members: set[ir.Operation] = field(default_factory=set)


class Grouping:
    """The groups of one block. Each op is visited a bounded number of times. What does not join a group is reported to `state`."""

    def __init__(self, block: ir.Block, max_ops: int, producers: bool, state: PassState) -> None:
        self.max_ops, self.state = max_ops, state
        self.ops = [o.operation for o in block.operations]
        self.position = {op: i for i, op in enumerate(self.ops)}
        self.category = {op: category(op) for op in self.ops}
        self.group_of: dict[ir.Operation, Group] = {}
        # Roots from the last to the first: if an element-wise op could join two, the later one takes it, and the earlier stays in place.
        for op in reversed(self.ops):
            if self.category[op] in ROOTS:
                group = self._new(op)
                if producers and max_ops > 2:
                    turned = read_turned(op)
                    self._join(group, turned)
                    for first in read_from_start(op, turned):
                        self._take_view(group, first)
                    self._join(group, read_narrow(op, state.target))  # first: they are no element-wise ops behind what makes their operand
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
        """All groups, by the place of their tails."""
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
        """Make the ops of another group part of a group; those that only say where elements are read may be in others as well."""
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
        """Add what makes floats of bytes, or of halves, for the group alone: to widen what it reads takes less than to have somebody store floats."""
        shape = type_of(group.tail.results[0]).shape
        for value in [value for member in group.members - {group.root} for value in member.operands]:
            op = defining_op(value)
            if op is None or not repeats_cheaply(op) or op not in self.position or op in self.group_of:
                continue
            if self._why_outside(group, op, value, shape) is None:
                self._join(group, [op])

    def _leave_wide(self, group: Group) -> None:
        """Leave the last op to a reduction that reads its result, if that has more bytes than what it takes: it is computed where it is read."""
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
        """The ops from the group's result to the first one that all its uses lead to, if all of them may join; else why not.

        In the simple case that is the only user. Paths from several users (x * sigmoid(x)) must meet again: ops are visited in program
        order, and the paths have met when nothing else is pending. Ops in between have no users elsewhere, or those would be pending.
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
            passed.append(op)
            inside.add(op)
            if not waiting:
                return passed
            if not self._wait_for_users(op, waiting):
                return NoMatch(f"its kernel ends with it: '{op.name}', which uses it, is used in a nested region, or by nothing")
        return NoMatch("its kernel ends with it: nothing uses it")

    def _wait_for_users(self, op: ir.Operation, waiting: list[int]) -> bool:
        """Add the users of an op to the heap of positions; False if one lies in a nested region, or there is none."""
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
        if None not in shape:
            return True
        for value in op.operands:
            sizes = type_of(value).shape
            aligned = dict(zip(range(len(shape) - len(sizes), len(shape)), sizes, strict=True))
            if defining_op(value) not in inside and not widens_nothing(aligned, shape):
                return False
        return True

    def _absorb(self, group: Group, pending: list[ir.Value], shape: tuple[Dim, ...], *, views: bool = False) -> None:
        """Add the element-wise ops that make `pending`, and those before them, if only the group uses them; all must have one known shape.

        With `views` also ops that only say where elements are read.
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
        """Add an op that only says where elements are read, if this is one; other groups may have it too, as nothing is computed for that."""
        taken = op in self.position and op not in self.group_of and len(group.members) < self.max_ops and is_view(op)
        if taken:
            group.members.add(op)
        return taken

    def _is_spread(self, op: ir.Operation) -> bool:
        """Whether all users of an op have it in their groups, so that nothing needs the op itself."""
        groups = [self.group_of.get(use.owner.operation) for use in op.results[0].uses]
        return bool(groups) and all(group is not None and op in group.members for group in groups)

    def _leave_alone(self, op: ir.Operation) -> None:
        """Take an op that is a kernel of its own out of all groups: they read what it makes."""
        for use in op.results[0].uses:
            if use.owner.operation in self.group_of:
                self.group_of[use.owner.operation].members.discard(op)

    def _take_parts(self, group: Group) -> None:
        """Add the groups of element-wise ops that make what an op copies: they write it where it belongs."""
        for value in copied(group.root):
            op = defining_op(value)
            maker = None if op is None or self._take_view(group, op) else self._repeats_or_computes(op)
            if maker is None:
                continue
            if not all(use.owner.operation == group.root for use in value.uses):
                self.state.decline(NAME, maker.tail, NoMatch(f"it is not computed with '{group.root.name}', which copies it: it has another user"))
            elif len(group.members) + len(maker.members) > self.max_ops:
                reason = f"it is not computed with '{group.root.name}', which copies it: there would be more than max-ops={self.max_ops} ops"
                self.state.decline(NAME, maker.tail, NoMatch(reason))
            else:
                self._merge(group, maker)

    def _take_changes(self, group: Group) -> None:
        """Add what changes elements of memory that is kept to the group of the overwrite that gives it back, so that they are written there."""
        found = changes_kept(group.root)
        if found is not None and len(group.members) + len(self.group_of[found.scatter].members) < self.max_ops:
            self._merge(group, self.group_of[found.scatter])
            self._join(group, [found.first])

    def _repeats_or_computes(self, op: ir.Operation) -> Group | None:
        """The group of element-wise ops that ends with an op; of itself alone if it is an expansion, which is in none yet."""
        found = self.group_of.get(op)
        if found is None:
            return Group(op, op, {op}) if isinstance(op.opview, ExpandOp) and op in self.position else None
        return found if found.tail == op and {self.category[found.root], self.category[op]} == {Fusion.INJECTIVE} else None

    def _why_outside(self, group: Group, op: ir.Operation, value: ir.Value, shape: tuple[Dim, ...]) -> NoMatch | None:
        """Why an element-wise op that makes `value`, an operand of the group, cannot be part of it; None if it can."""
        apart = f"it is not computed with '{group.root.name}', which reads it"
        if len(group.members) >= self.max_ops:
            return NoMatch(f"{apart}: there would be more than max-ops={self.max_ops} ops")
        if type_of(value).shape != shape:
            return NoMatch(f"{apart}: its shape is another, so that it would be done several times")
        if not all(use.owner.operation in group.members for use in value.uses):
            return NoMatch(f"{apart}: it has another user")
        return None

    def _take_producers(self, group: Group) -> None:
        """Add the ops that make the data of the group's root, if only the root uses these data and nothing is computed more often for it."""
        sliced, once = read_in_slices(group.root), read_once(group.root)
        if isinstance(once, NoMatch) and isinstance(sliced, NoMatch):
            self.state.decline(NAME, group.root, sliced)
            return
        if not isinstance(once, NoMatch):
            self._absorb(group, [once], type_of(once).shape)
        if isinstance(sliced, NoMatch):
            self.state.decline(NAME, group.root, sliced)
            return
        if isinstance(once, NoMatch):
            self._absorb(group, [sliced.operand], type_of(sliced.operand).shape)
        if defining_op(sliced.operand) in group.members:
            return
        taken = self._maker(group, sliced)
        if isinstance(taken, NoMatch):
            self.state.decline(NAME, group.root, taken)
        else:
            self._merge(group, taken)

    def _maker(self, group: Group, sliced: Sliced) -> "Group | NoMatch":
        """The group that makes what the root of another one reads slice by slice, if the two can be one kernel; or why not."""
        source = defining_op(sliced.operand)
        maker = None if source is None else self.group_of.get(source)
        if maker is None or not sliced.takes(maker.root):
            made = "an argument" if source is None else f"'{(source if maker is None else maker.root).name}'"
            return NoMatch(f"it is not fused with what makes its image: that is {made}, expected {sliced.makers}")
        if maker.tail != source:
            return NoMatch("it is not fused with what makes its image: that is read in the middle of a kernel")
        if not all(use.owner.operation == group.root for use in sliced.operand.uses):
            return NoMatch("it is not fused with what makes its image: that has another user")
        if self.category[maker.tail] == Fusion.PAD:
            return NoMatch("it is not fused with what makes its image: that ends with a pad")
        if len(group.members) + len(maker.members) > self.max_ops:
            return NoMatch(f"it is not fused with what makes its image: there would be more than max-ops={self.max_ops} ops")
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


def belongs_inside(constant: TensorType) -> bool:
    """Whether a constant is part of the computation: one number, or a few integers. Others are data: kernels that differ only in data are one."""
    return constant.elements == 1 or (not is_float(constant.dtype) and constant.elements <= LITERAL_ELEMENTS)


def own_copy(op: ir.Operation, members: Sequence[ir.Operation]) -> ir.Operation:
    """A copy of an op that only these ops use."""
    copy = clone_into(op, {}, ir.InsertionPoint(op))
    for use in list(op.results[0].uses):
        if use.owner.operation in members:
            use.owner.operands[use.operand_number] = copy.results[0]
    return copy


def repeats_cheaply(op: ir.Operation) -> bool:
    """Whether an op makes floats of what is stored in fewer bits."""
    return isinstance(op.opview, GraphOp) and op.opview.repeats_cheaply()


def copied(op: ir.Operation) -> Sequence[ir.Value]:
    """The operands that an op copies to where they belong in its result."""
    return op.opview.copied_operands() if isinstance(op.opview, GraphOp) else ()


def fuse(members: Sequence[ir.Operation], tail: ir.Operation) -> ir.Operation:
    """Move ops (in program order) into a new `graph.fused` at the place of the tail; small constants that they use are cloned into it, and
    ops before the tail that others use too."""
    shared = {op for op in members if op != tail and not all(use.owner.operation in members for result in op.results for use in result.uses)}
    members = [own_copy(op, members) if op in shared else op for op in members]
    inside = {result for op in members for result in op.results}
    constants: dict[ir.Value, ir.Operation] = {}
    inputs: dict[ir.Value, None] = {}
    for op in members:
        for value in op.operands:
            if value in inside:
                continue
            source = defining_op(value)
            if source is not None and source.name == "graph.constant" and belongs_inside(type_of(value)):
                constants[value] = source
            else:
                inputs[value] = None
    location = members[0].location if len(members) == 1 else ir.Location.fused([op.location for op in members])
    with ir.InsertionPoint(tail), location:
        fused: ir.Operation = create_operation(FusedOp, [list(inputs)], [[r.type for r in tail.results]], {}).operation
    for old, new in zip(tail.results, fused.results, strict=True):
        old.replace_all_uses_with(new)
    block = fused.regions[0].blocks.append(*[v.type for v in inputs], arg_locs=[location] * len(inputs))
    mapping: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
    with ir.InsertionPoint(block), location:
        for source in constants.values():
            clone_into(source, mapping, ir.InsertionPoint(block))
        end = create_operation(YieldOp, [list(tail.results)], [], {}).operation
    for op in members:
        op.move_before(end)
        for i, value in enumerate(op.operands):
            if value in mapping:
                op.operands[i] = mapping[value]
    return fused


@register_pass(NAME, level="graph", switches={"fuse-operators": "max-ops=1", "fuse-producers": "producers=false"})
@dataclass
class FuseOperators(Pass):
    """Group ops into `graph.fused` regions, each of which becomes one kernel.

    A root (contraction, pooling, normalisation, reduction) takes the element-wise ops after it, as long as the shape stays and one value
    comes out; a residual or bias they use comes in as an input. Other element-wise ops join each other. One constant pad may end a
    group, or follow a transposition. Every other op is a group of its own, except ops that compute nothing: constants, parameters,
    reshapes, contiguous concatenations, control flow. A group takes the place of its last op, so that all its operands come before it.

    Element-wise ops read through slices and transpositions that leave whole rows together, and concatenations that move their operands, and
    scatters, have the element-wise groups that make what they copy write it where it belongs (`producers`).

    A root also takes the producers of its data, if nothing else uses them and nothing is computed twice (`producers`):

    - element-wise ops before a reduction, or before a pooling whose windows do not overlap; they end up in its loops;
    - a convolution on blocked data before such a pooling, and element-wise ops or a depthwise convolution before a pointwise one; they stay ops
      of their own, in loops over rows that `fuse-loops` fuses;
    - before a product of integers the casts that widen its operands, if the target has an intrinsic for the narrow type; they end up in its body.
    """

    max_ops: int = 64  # the largest number of ops in a group
    producers: bool = True  # whether a root takes what makes its data

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in functions(op):
            if not KernelInfo(function).is_kernel:
                self._run_on_regions(function.operation, state)

    def _run_on_regions(self, op: ir.Operation, state: PassState) -> None:
        blocks: list[ir.Block] = []
        waiting = [op]
        while waiting:
            own = [block for region in waiting.pop().regions for block in region.blocks]
            blocks += own
            inside = [inner.operation for block in own for inner in block.operations]
            waiting += [inner for inner in inside if len(inner.regions) and inner.name != "graph.fused"]
        for block in reversed(blocks):  # those inside others first
            self._run_on_block(block, state)

    def _run_on_block(self, block: ir.Block, state: PassState) -> None:
        for op in [o.operation for o in block.operations] if self.producers else ():
            for shared in read_shared(op):  # to widen elements costs nothing where they are multiplied
                own_copy(shared, [op])
            if repeats_cheaply(op):  # and takes less than to hand on more bytes
                for reader in list(dict.fromkeys(users(op.results[0])))[1:]:
                    own_copy(op, [reader])
        grouping = Grouping(block, self.max_ops, self.producers, state)
        groups = [(grouping.members(g), g.tail) for g in grouping.groups()]
        for members, tail in groups:
            for op in members if state.decisions is not None else ():
                others = ", ".join(f"'{other.name}'" for other in members if other != op)
                state.did(self.name, op, f"computed in one kernel with {others}" if others else "a kernel of its own")
            fuse(members, tail)
        state.count(f"{self.name}.groups", len(groups))
        state.count(f"{self.name}.ops", sum(len(members) for members, _ in groups))
        for op in grouping.ops:
            if (op.name == "graph.constant" or is_view(op)) and not is_used(op.results[0]):
                op.erase()
