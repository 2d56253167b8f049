"""Builds the ops of register tiles. The classes of the bindings would take about three times as long for each."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import ir


def value(name: str, kind: ir.Type, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute] | None = None) -> ir.Value:
    """The result of an op with this name and type, built at the current insertion point."""
    return ir.Operation.create(name, results=[kind], operands=operands, attributes=attributes).results[0]


def loaded(kind: ir.Type, memory: ir.Value, ivs: Sequence[ir.Value], address: Any) -> ir.Value:
    """The value at an address, which is an affine map of the loop variables: a scalar, or a vector of neighbours."""
    name = "affine.vector_load" if isinstance(kind, ir.VectorType) else "affine.load"
    return value(name, kind, [memory, *ivs], {"map": ir.AffineMapAttr.get(address)})


def store(stored: ir.Value, memory: ir.Value, ivs: Sequence[ir.Value], address: Any) -> None:
    """Store a scalar, or a vector of neighbours, at an address."""
    name = "affine.vector_store" if isinstance(stored.type, ir.VectorType) else "affine.store"
    ir.Operation.create(name, operands=[stored, memory, *ivs], attributes={"map": ir.AffineMapAttr.get(address)})


def prefetch(memory: ir.Value, ivs: Sequence[ir.Value], address: Any, locality: int) -> None:
    """Prefetch the cache line at an address."""
    i32 = ir.IntegerType.get_signless(32)
    attributes: dict[str, ir.Attribute] = {
        "isWrite": ir.BoolAttr.get(False), "localityHint": ir.IntegerAttr.get(i32, locality), "isDataCache": ir.BoolAttr.get(True),
        "map": ir.AffineMapAttr.get(address),
    }  # fmt: skip
    ir.Operation.create("affine.prefetch", operands=[memory, *ivs], attributes=attributes)
