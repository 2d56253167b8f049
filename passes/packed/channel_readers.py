"""The group of a later convolution that reads each channel of a value; layouts are chosen by it."""

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import GraphOp, ReshapeOp
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.graph.matching import producer


def channel_shuffle(op: Any) -> tuple[ir.Value, np.ndarray]:
    """If the reshape `op` ends a permutation of channels: the permuted value, and the old position of each new channel. Raises NoMatch otherwise.

    That is reshape(transpose(reshape(x))) in which channels are split, transposed and merged again.
    """
    moved = producer(op.x, "transpose")
    split = None if moved is None else producer(moved.x, "reshape")
    if split is None:
        raise NoMatch("it does not end a permutation of channels, which is a reshape of a transpose of a reshape")
    plain, perm = type_of(split.x), moved.attribute_values()["perm"]
    if plain.rank < 3 or not is_static(plain.shape[1:2]) or type_of(op.result) != plain:
        raise NoMatch(f"what is reshaped, transposed and reshaped, {plain}, has no channels, or how many is unknown, or comes out in another shape")
    parts = type_of(split.result).shape
    inner = len(parts) - plain.rank + 1  # dimensions that split the channels
    around = [0, *range(1 + inner, len(parts))]
    if inner < 1 or [perm[i] for i in around] != around or [parts[i] for i in around] != [plain.shape[0], *plain.shape[2:]]:
        raise NoMatch("the transposition moves more than channels")
    split_into = static_sizes(parts[1 : 1 + inner])
    places = np.arange(prod(split_into)).reshape(split_into)
    return split.x, places.transpose([p - 1 for p in perm[1 : 1 + inner]]).ravel()


def readers(ops: Sequence[ir.Operation]) -> list[np.ndarray | None]:
    """For the result of each op of a block: the group of a later convolution that reads each of its channels; None if none has groups.

    Channels are followed through ops that keep them separate. Of several such convolutions, the one with the most groups for these channels
    counts, and among equals the first.
    """
    found: dict[ir.Value, np.ndarray] = {}
    out: list[np.ndarray | None] = [None] * len(ops)
    for index in range(len(ops) - 1, -1, -1):
        op = ops[index]
        mine = out[index] = found.get(op.results[0]) if len(op.results) == 1 else None
        for value, groups in _passed_on(op, mine) if isinstance(op.opview, GraphOp) else []:
            if value not in found or len(np.unique(groups)) >= len(np.unique(found[value])):
                found[value] = groups
    return out


def _passed_on(op: ir.Operation, mine: np.ndarray | None) -> list[tuple[ir.Value, np.ndarray]]:
    """The operands of `op` whose channels determine those of its result, with the reading group of each channel; `mine` are those of the result."""
    view: Any = op.opview
    groups = view.channel_groups()
    if groups > 1:
        channels = type_of(op.operands[0]).shape[1]
        return [(op.operands[0], np.arange(channels) // (channels // groups))] if isinstance(channels, int) and channels else []
    if mine is None or not all(is_static(type_of(v).shape[1:2]) for v in (*op.operands, *op.results)):
        return []
    if isinstance(view, ReshapeOp):
        with suppress(NoMatch):
            shuffled, order = channel_shuffle(view)
            return [(shuffled, mine[np.argsort(order)])]
    parts = zip(op.operands, view.operand_channels(), strict=True)
    return [(v, mine[part]) for v, part in parts if part is not None and type_of(v).shape[1] == len(mine[part])]
