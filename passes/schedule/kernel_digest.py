"""Kernels by content: a digest of the computation, independent of names, ONNX nodes and schedules."""

import hashlib
from collections.abc import Iterator
from typing import Any

from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.sched.dialect import FusedAttr, NestAttr
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.passes.framework.numbered import numbered_line

DIGITS = 16  # hexadecimal digits of a digest, 64 bits
_NAMES = ("sym_name", "sym_visibility", "arg_attrs", "res_attrs", ScheduleInfo.versions.name)


def kernel_digest(function: ir.Operation) -> str:
    """The digest of a function at level linalg or scheduled; equal computations have equal digests."""
    return hashlib.sha256("\n".join(_lines(function, {})).encode()).hexdigest()[:DIGITS]


def loops_digest(function: ir.Operation) -> str:
    """The digest of the loops that are fused around the ops of such a function, which `kernel_digest` leaves out; empty if none are fused."""
    name = ScheduleInfo.fused.name
    found = [f"{place} {op.attributes[name]}" for place, op in enumerate(ops_below(function)) if name in op.attributes]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:DIGITS] if found else ""


def schedule_content(digest: str, place: int) -> str:
    """The content under which tuning records the schedule of an op: the digest of its kernel, and its index among the kernel's structured ops."""
    return f"{digest}:{place}"


def kernel_nodes(function: ir.Operation) -> list[str]:
    """The ONNX nodes that a function computes, in order. A kernel of several groups of nodes has the names of the first group."""
    return list(dict.fromkeys(name for op in ops_below(function) for name in node_names(op.location)))


def _lines(op: ir.Operation, numbers: dict[Any, int]) -> Iterator[str]:
    """Each op, with its values numbered in order."""
    yield numbered_line(op, numbers, _counts)
    for region in op.regions:
        for block in region.blocks:
            numbers.update((argument, len(numbers) + i) for i, argument in enumerate(block.arguments))
            yield f"({', '.join(str(argument.type) for argument in block.arguments)})"
            for inner in block.operations:
                yield from _lines(inner.operation, numbers)


def _counts(name: str, value: ir.Attribute) -> bool:
    return name not in _NAMES and not isinstance(value, (NestAttr, FusedAttr))
