"""The pass that merges loops over contiguous elements, so that short rows make long vectors."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any

from stepwell.dialects.core.mlir import ir, linalg, tensor
from stepwell.dialects.core.sizes import Dim, is_static, product
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import clone_into
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.merged_slices import Groups, insert_merged, merged, merges, merges_written
from stepwell.passes.linalg.stages import Stage, stages_on_tensors
from stepwell.passes.linalg.structured import Structured, filled


@register_pass("collapse-dimensions", level="linalg", anchor="func.func", optional=True)
class CollapseDimensions(Pass):
    """Merge neighbouring loops if every operand walks them as one contiguous run.

    rewrite: generic over (…, h, w, …)  ->  expand(generic over (…, h*w, …) of collapsed operands)

    All members of a stage (fill, root, in-place epilogues) are merged in the same way, so that it stays one nest. A 1x1 convolution on 7x7 images
    gets rows of 49, an element-wise op a single loop. Rows and columns of a slice stay separate if the slice leaves out part of a row; dimensions of
    a slice with dynamic strides are merged in the whole tensor (`merged_slices.py`).

    With `free`, the pass only merges pairs of loops one of which has a dynamic size, and only if all stages of the kernel merge them. That happens
    before loops are fused: a loop over all rows splits evenly among threads, whether batch or length is 1.
    """

    free: bool = False  # merge only loops with dynamic sizes

    def run(self, op: ir.Operation, state: PassState) -> None:
        stages = stages_on_tensors(op)
        separate = _separate_sizes(stages) if self.free else None
        for stage in stages:
            members = [Structured(m.operation) for m in stage.members]  # read again: results of earlier stages have been replaced
            first = members[0].operation
            if self.free and not any(m.free for m in members):
                continue
            with state.attempt(self.name, first):
                groups = _stage_groups(members, separate)
                if state.decisions is not None:
                    merged = {tuple(m.bounds[d] for d in group) for m, own in zip(members, groups, strict=True) for group in own if len(group) > 1}
                    text = ", ".join("×".join(map(str, sizes)) for sizes in sorted(merged, key=str))
                    state.did(self.name, first, f"loops of {text} become one each")
                _rebuild(members, groups)
                state.count(self.name)


Sizes = tuple[Dim, Dim]


def _separate_sizes(stages: list[Stage]) -> set[Sizes]:
    """The sizes of neighbouring dimensions that some stage does not write or read as one contiguous run."""
    written = {_sizes(stage.members[0].outputs[0], i) for stage in stages for i, merge in enumerate(_joined(stage.members)) if not merge}
    reads = [(member, access) for stage in stages for member in stage.members for access in member.inputs if access.is_shaped]
    read = {_sizes(access, i) for member, access in reads for i in range(len(access.dims) - 1) if not _pair_walks(member, access, i)}
    return written | read


def _sizes(access: Access, index: int) -> Sizes:
    """The sizes of dimensions `index` and `index + 1` of an operand."""
    first, second = access.exact_shape[index : index + 2]
    return first, second


def _joined(members: list[Structured]) -> list[bool]:
    """Whether each pair of neighbouring dimensions of a stage's output can be merged."""
    rank = len(members[0].outputs[0].dims)
    begin, end = _begin(members), members[-1].operation.results[0]
    return [all(_pair_walks(member, member.outputs[0], i) for member in members) and merges_written(begin, end, i) for i in range(rank - 1)]


def _begin(members: list[Structured]) -> ir.Value:
    """The tensor that the last members overwrite: the output of the last member that does not continue the previous one."""
    made = [member.operation.results[0] for member in members]
    starts = [member for number, member in enumerate(members) if not number or member.outputs[0].value != made[number - 1]]
    return starts[-1].outputs[0].value


def _stage_groups(members: list[Structured], separate: set[Sizes] | None = None) -> list[Groups]:
    """For each member, its dimensions in groups. Raises NoMatch if nothing can be merged.

    With `separate`, only pairs of output dimensions one of which is dynamic, and whose sizes are not in `separate`.
    """
    rank = len(members[0].outputs[0].dims)
    joined = _joined(members)
    if separate is not None:
        sizes = [_sizes(members[0].outputs[0], i) for i in range(rank - 1)]
        joined = [merge and not is_static(pair) and pair not in separate for merge, pair in zip(joined, sizes, strict=True)]
    result = []
    for member in members:
        if any(o.operation.name == "linalg.index" for o in member.body.operations):
            raise NoMatch("its body asks for the index of a loop")
        outputs = member.outputs[0].dims
        merged = {(outputs[i], outputs[i + 1]) for i in range(rank - 1) if joined[i]}
        inside = member.reduction_dims
        merged |= {(a, b) for a, b in pairwise(inside) if b == a + 1 and separate is None and _pair_merges(member, a)}
        groups: Groups = []
        for d in range(len(member.iterators)):
            if groups and (groups[-1][-1], d) in merged:
                groups[-1].append(d)
            else:
                groups.append([d])
        result.append(groups)
    if not any(len(g) < len(m.iterators) for g, m in zip(result, members, strict=True)):
        raise NoMatch("no two neighbouring loops go over contiguous elements of every operand")
    return result


def _pair_walks(op: Structured, access: Access, index: int) -> bool:
    """Whether the loops that walk dimensions `index` and `index + 1` of an operand can be merged."""
    first, second = access.dims[index : index + 2]
    return first >= 0 and second == first + 1 and _pair_merges(op, first)


def _pair_merges(op: Structured, dim: int) -> bool:
    """Whether loops `dim` and `dim + 1` can be merged: every operand walks both side by side, or neither."""
    if dim + 1 >= len(op.iterators) or op.iterators[dim] != op.iterators[dim + 1]:
        return False
    if any(loop.dim == dim + 1 for loop in op.fused):
        return False  # a fused loop may only absorb the dimension after it: its step then covers all of that dimension
    if op.fused and dim + 1 in op.open:
        return False  # and steps must be static
    return all(_walks_together(a, dim) for a in op.accesses if a.is_shaped)


def _walks_together(access: Access, dim: int) -> bool:
    """Whether an operand's elements for loops `dim` and `dim + 1` lie in two adjacent dimensions that are contiguous in memory."""
    involved = sum(dim in terms or dim + 1 in terms for terms in access.terms)
    if not involved:
        return True
    if involved != 2 or (dim, dim + 1) not in pairwise(access.dims):
        return False
    outer = access.dims.index(dim)
    step, inner, size = access.exact_strides[outer], access.exact_strides[outer + 1], access.exact_shape[outer + 1]
    return None not in (step, inner, size) and step == product((inner, size)) and merges(access.value, outer)


def _rebuild(members: list[Structured], groups: list[Groups]) -> None:
    """Rebuild the stage on collapsed operands; its last result is expanded to the old shape."""
    last = members[-1].operation
    begin, own = members[0].outputs[0], groups[0]
    with ir.InsertionPoint(members[0].operation), members[0].operation.location:
        window = current = _collapsed(begin, own)
    for number, (member, member_groups) in enumerate(zip(members, groups, strict=True)):
        with ir.InsertionPoint(member.operation), member.operation.location:
            before = members[number - 1].operation.results[0] if number else None
            if before is None or member.outputs[0].value == before:
                current = _rebuild_member(member, member_groups, current)
            else:  # it has elements of another type, in a tensor of its own
                begin, own = member.outputs[0], member_groups
                window = _collapsed(begin, own)
                current = _rebuild_member(member, member_groups, window, {before: current})
    reassociation = _reassociation(begin, own)
    if not reassociation or not insert_merged(begin.value, last.results[0], window, current, reassociation):
        with ir.InsertionPoint.after(last), last.location:
            shape = list(last.results[0].type.shape)
            free = [tensor.DimOp(begin.value, constant(i)).result for i, size in enumerate(shape) if size < 0] if reassociation else []
            expanded = tensor.ExpandShapeOp(last.results[0].type, current, reassociation, free, shape).result if reassociation else current
        last.results[0].replace_all_uses_with(expanded)
    for member in reversed(members):
        member.operation.erase()


def _rebuild_member(member: Structured, groups: Groups, out: ir.Value, rebuilt: Mapping[ir.Value, ir.Value] = MappingProxyType({})) -> ir.Value:
    """The member on collapsed operands, over `out`; `rebuilt` maps operands that were replaced to their replacements."""
    if member.is_fill:
        return filled(member.operation.operands[0], out)
    inputs = [rebuilt.get(a.value) or _collapsed(a, groups) for a in member.inputs]
    maps = [ir.AffineMapAttr.get(_collapsed_map(a, groups)) for a in member.accesses]
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{member.iterators[g[0]]}>") for g in groups]
    op = linalg.GenericOp([out.type], inputs, [out], ir.ArrayAttr.get(maps), ir.ArrayAttr.get(kinds))
    block = op.regions[0].blocks.append(*[a.type for a in member.body.arguments])
    mapping: dict[ir.Value, ir.Value] = dict(zip(member.body.arguments, block.arguments, strict=True))
    for inner in member.body.operations:
        clone_into(inner.operation, mapping, ir.InsertionPoint(block))
    if member.part:
        ScheduleInfo(op).part = member.part
    if member.fused:
        place = {d: i for i, g in enumerate(groups) for d in g}
        taken_in = {g[0]: prod(member.extents[d] for d in g[1:]) for g in groups}
        ScheduleInfo(op).fused = tuple(
            replace(loop, dim=place[loop.dim], step=loop.step * taken_in[loop.dim], rest=loop.rest * taken_in[loop.dim]) for loop in member.fused
        )
    return op.results[0]


def _reassociation(access: Access, groups: Groups) -> list[list[int]]:
    """The groups of the operand's dimensions, or [] if none are merged."""
    follows = {d: g[i - 1] for g in groups for i, d in enumerate(g) if i > 0}
    out: list[list[int]] = []
    positions = access.dims
    for i, d in enumerate(positions):
        if out and d >= 0 and follows.get(d, -2) == positions[i - 1]:
            out[-1].append(i)
        else:
            out.append([i])
    return out if len(out) < len(positions) else []


def _collapsed(access: Access, groups: Groups) -> ir.Value:
    if not access.is_shaped:
        return access.value
    reassociation = _reassociation(access, groups)
    if not reassociation:
        return access.value
    return merged(access.value, reassociation)


def _collapsed_map(access: Access, groups: Groups) -> Any:
    """The access's map over the merged dimensions: a merged run of results is one result."""
    place = {d: i for i, g in enumerate(groups) for d in g}
    # Unmerged dimensions keep their expressions; a merged one appears in an operand only as a whole.
    replacements = [ir.AffineDimExpr.get(place[d]) for d in range(sum(map(len, groups)))]
    inner = ir.AffineMap.get(len(groups), 0, replacements)
    results = list(access.map.results)
    kept = results if not access.is_shaped or not _reassociation(access, groups) else [results[g[0]] for g in _reassociation(access, groups)]
    return ir.AffineMap.get(len(groups), 0, [r.compose(inner) for r in kept])
