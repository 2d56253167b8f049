"""Stages of a kernel: the structured ops over one buffer, or continuing one tensor, that become one loop nest.

An element-wise op that converts sums to another type, such as i32 sums to bytes, cannot overwrite them. It still continues the stage if it is their
only reader: then the sums stay in registers and are never stored.
"""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import defining_op, ir, ops_below, use_count, users
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import STRUCTURED, Structured, Walk, walk
from stepwell.passes.linalg.views import RESHAPES

OWN = ("memref.alloc", "memref.view")  # ops that create a kernel's own buffers


@dataclass(eq=False)
class Stage:
    """Structured ops that become one nest: an optional fill, the root, and element-wise epilogues that overwrite its result or change its type."""

    fill: Structured | None
    root: Structured
    epilogues: list[Structured]

    @property
    def members(self) -> list[Structured]:
        return [*([self.fill] if self.fill else []), self.root, *self.epilogues]

    @property
    def written(self) -> Access:
        """The stage's final output."""
        return self.members[-1].outputs[0]

    def is_inside(self, value: ir.Value) -> bool:
        """Whether a tensor or buffer is only passed between the members."""
        made = [member.operation.results[0] for member in self.members[:-1] if len(member.operation.results)]
        left = self.written.value
        return value in made or any(member.outputs[0].value == value != left for member in self.members)

    def loop(self, member: Structured, dim: int) -> int | None:
        """The loop of `member` that corresponds to loop `dim` of the root: an epilogue's loops are the results of the map of the root's output."""
        if member is self.root:
            return dim
        results = list(self.root.outputs[0].map.results)
        own = [d for d, result in enumerate(results) if isinstance(result, ir.AffineDimExpr) and result.position == dim]
        return own[0] if len(own) == 1 else None

    def walk(self, member: Structured, access: Access, dim: int) -> Walk | None:
        """How loop `dim` of the root traverses an operand of one of the ops (see `structured.walk`).

        An epilogue's access to the root's result counts as the root's own access.
        """
        if access.value == self.root.outputs[0].value:
            member, access = self.root, self.root.outputs[0]
        own = self.loop(member, dim)
        return None if own is None else walk(member, access, own)

    def moves(self, member: Structured, access: Access, dim: int) -> bool:
        """Whether an operand of one of the ops moves along loop `dim` of the root."""
        own = self.loop(member, dim)
        return own is not None and access.kind(own) != "scalar"


def stages_on_tensors(function: ir.Operation) -> list[Stage]:
    """The stages below `function`, in the order of their first ops: ops that continue each other's output are one stage."""
    started: list[list[Structured]] = []
    ends: dict[ir.Value, list[Structured]] = {}
    for operation in ops_below(function):
        if operation.name not in STRUCTURED or len(operation.results) != 1:
            continue
        member = Structured(operation)
        stage = ends.pop(operation.operands[len(operation.operands) - 1], None)
        if stage is None and (read := _retyped(member, ends)) is not None:
            stage = ends.pop(read)
        if stage is None:
            stage = []
            started.append(stage)
        stage.append(member)
        ends[operation.results[0]] = stage
    out = []
    for stage in started:
        fill = stage[0] if stage[0].is_fill and len(stage) > 1 else None
        root, *epilogues = stage[1:] if fill else stage
        out.append(Stage(fill, root, epilogues))
    return out


def stages_on_memrefs(ops: list[Structured]) -> list[Stage]:
    """Group neighbours over one output: fill + reduction + in-place element-wise ops. Each op is in exactly one stage."""
    out: list[Stage] = []
    i = 0
    while i < len(ops):
        fill: Structured | None = None
        root = ops[i]
        if root.is_fill and i + 1 < len(ops) and _initialises(root, ops[i + 1]):
            fill, root = root, ops[i + 1]
            i += 1
        i += 1
        stage = Stage(fill, root, [])
        while i < len(ops) and (_continues(stage, ops[i]) or _retypes(stage, ops[i])):
            stage.epilogues.append(ops[i])
            i += 1
        out.append(stage)
    return out


def _initialises(fill: Structured, root: Structured) -> bool:
    return (
        not root.is_fill
        and len(root.outputs) == 1
        and root.outputs[0].value == fill.outputs[0].value
        and root.outputs[0].used
        and all(a.value != fill.outputs[0].value for a in root.inputs)
        and root.operation.block == fill.operation.block
        and _covers(root)
    )


def _covers(root: Structured) -> bool:
    """Whether every element of the output is written, so that no filled element remains: its map is a permutation of whole extents."""
    out = root.outputs[0]
    return all(isinstance(r, ir.AffineDimExpr) and root.extents[r.position] == n for r, n in zip(out.map.results, out.shape, strict=True))


def _continues(stage: Stage, op: Structured) -> bool:
    """Whether `op` is element-wise in place over the stage's output, readable from the root's register tile."""
    out = stage.written
    overwrites = op.outputs[0].value == out.value and op.outputs[0].used
    return overwrites and _fits_tile(stage.root, op) and all(a.value != out.value for a in op.inputs)


def _retypes(stage: Stage, op: Structured) -> bool:
    """Whether `op` is element-wise over the stage's output in a buffer without other users, and produces elements of another type."""
    out = stage.written
    if not _sums(stage.root) or not _fits_tile(stage.root, op) or not _reads_for_another_type(op, out.value):
        return False
    own = [*(member.operation for member in stage.members), op.operation]
    value = out.value
    while all(user in own or user.name == "memref.dealloc" for user in users(value)) and (made := defining_op(value)) is not None:
        if made.name in OWN:
            return True
        if made.name not in RESHAPES:
            return False
        own, value = [made], made.operands[0]
    return False


def buffer_of(value: ir.Value) -> ir.Value:
    """The buffer behind a value, whatever its shape."""
    while (made := defining_op(value)) is not None and made.name in RESHAPES:
        value = made.operands[0]
    return value


def _retyped(op: Structured, ends: dict[ir.Value, list[Structured]]) -> ir.Value | None:
    """The result of a stage on tensors that only `op` reads, element by element, to convert it to another type; None if there is none."""
    for value in (access.value for access in op.inputs if access.value in ends and use_count(access.value) == 1):
        members = ends[value]
        root = members[1] if members[0].is_fill and len(members) > 1 else members[0]
        if _sums(root) and root.operation.block == op.operation.block and _fits_tile(root, op) and _reads_for_another_type(op, value):
            return value
    return None


def _sums(root: Structured) -> bool:
    return bool(root.reduction_dims) and len(root.outputs) == 1 and not root.is_fill


def _fits_tile(root: Structured, op: Structured) -> bool:
    """Whether `op` is element-wise, and can be computed on the root's register tile."""
    if op.is_fill or not op.is_elementwise or op.scalar_op is not None or op.reads or op.loops or len(root.outputs) != 1:
        return False
    inside = all(isinstance(r, (ir.AffineDimExpr, ir.AffineConstantExpr)) for r in root.outputs[0].map.results)
    return inside and op.operation.block == root.operation.block


def _reads_for_another_type(op: Structured, value: ir.Value) -> bool:
    """Whether `op` reads `value` once, at the elements it writes, and does not overwrite anything."""
    out = op.outputs[0]
    reads = [a for a in op.inputs if a.value == value]
    if len(reads) != 1 or out.used or out.value == value or reads[0].element_type == out.element_type:
        return False
    return bool(reads[0].map == out.map)
