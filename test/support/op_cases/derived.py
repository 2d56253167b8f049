"""Cases of ops by their definition: its fields say what there is, its `infer` which of what is tried fits."""

from typing import Any

import numpy as np
from op_random import Case, Random, type_of_array

from op_cases.table import DOMAINS
from stepwell.dialects.core.mlir import attribute_fields, ir, operand_fields
from stepwell.dialects.core.types import BOOL, DTYPES
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.support.errors import InferenceError

A_MAKER = "a maker in test/support/op_cases"
TRIES = 24
NARROWER = [(low, high) for _ in range(12) for low, high in ((2, 2), (1, 1), (3, 3), (2, 4), (4, 4))]
"""Lowest and highest ranks of what else is tried for a plugin's op, without sizes of 0: ops of ours that take no more have makers."""


def derive(cls: type[GraphOp], r: Random) -> Case:
    """A case of an op whose operands broadcast, are of equal or of any shapes, and whose attributes are numbers, axes or element types.

    Raises LookupError where nothing that was tried fits: then the op needs a maker in the table, or does not take the element type.
    """
    dtype = r.dtype()
    problem = ""
    narrower = [] if cls.__module__.startswith("stepwell.") else NARROWER
    for low, high, least, plain in (*((i % 3, 4, 0, i < TRIES // 2) for i in range(TRIES)), *((low, high, 1, True) for low, high in narrower)):
        r.begin()
        made = guess(cls, r, dtype, shape=(low, high, least), plain=plain)
        try:
            cls.infer(*map_groups(type_of_array, made.operands), **made.attributes)
        except InferenceError as error:
            problem = str(error.args[0])
            continue
        return made
    raise LookupError(f"no operands and attributes of {cls.OPERATION_NAME} were found that fit: give it {A_MAKER} ({problem})")


def guess(cls: type[GraphOp], r: Random, dtype: str, *, shape: tuple[int, int, int], plain: bool) -> Case:
    """Operands and attributes of the right number and kinds. The operands are all of `dtype` if `plain`, else at least one is.

    `shape` are the lowest and highest rank of operands that do not broadcast, and their least size.
    """
    fields = operand_fields(cls)
    counts = [r.integer(1, 3) if kind == "variadic" else 1 for _, kind in fields]
    shapes = shapes_for(r, sum(counts), *shape)
    dtypes = [dtype] * len(shapes)
    if not plain:
        kept = r.integer(0, max(len(shapes) - 1, 0))
        dtypes = [dtype if i == kept else r.choice([dtype, BOOL, "i64"]) for i in range(len(shapes))]
    low, high = DOMAINS.get(cls.mnemonic(), (-4, 4))
    arrays = iter([r.array(kind, shape, low, high) for kind, shape in zip(dtypes, shapes, strict=True)])
    operands: list[Any] = []
    for (_, kind), count in zip(fields, counts, strict=True):
        group = [next(arrays) for _ in range(count)]
        operands.append(group if kind == "variadic" else None if kind == "optional" and r.boolean() else group[0])
    rank = len(shapes[0]) if shapes else 0
    return Case(operands, {field.name: attribute(cls, field, r, rank) for field in attribute_fields(cls)})


def shapes_for(r: Random, count: int, low: int, high: int, least: int) -> list[tuple[int, ...]]:
    """Shapes for some operands: equal, or broadcastable."""
    return [r.shape(low, high, least)] * count if count == 1 or r.boolean() else r.broadcastable(count)


def attribute(cls: type[GraphOp], field: Any, r: Random, rank: int) -> Any:
    """A value for one attribute of an op whose first operand has that rank. Raises LookupError for a kind that only the op itself knows."""
    kinds: dict[Any, Any] = {
        ir.BoolAttr: r.boolean,
        ir.FloatAttr: lambda: r.real(0.01, 0.3, 1.0, -0.5, 2.5),
        ir.IntegerAttr: lambda: r.integer(0, max(rank - 1, 0)),
        ir.TypeAttr: lambda: r.choice(DTYPES),
        ir.DenseI64ArrayAttr: lambda: r.choice([r.axes(rank), r.permutation(rank), r.integers(rank, 0, 3)]),
        ir.DenseElementsAttr: lambda: np.asarray(r.array(r.dtype(), r.shape())),
    }
    if field.constraint not in kinds:
        raise LookupError(f"attribute '{field.name}' of {cls.OPERATION_NAME} is of a kind that cannot be guessed: give it {A_MAKER}")
    return kinds[field.constraint]()
