"""How far two computations of a graph op may lie apart, and whether they do: by element type and number of terms, one rule for all tests."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
from op_random import type_of_array

from stepwell.dialects.core.types import FLOATS, from_numpy
from stepwell.dialects.graph import GraphOp, op_class
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.graph.traits import ChoosesData, Exact, JoinsData, MovesData, SumsProducts
from stepwell.dialects.packed import winograd

SUMS = ("conv_transpose", "reduce_sum", "cumsum", "avg_pool", "col2im")
"""Ops that add up, beside those that state it (`SumsProducts`)."""

RECURRENT = ("gru", "lstm", "rnn", "quantized_lstm")
ADDS_UP = (
    *SUMS, *RECURRENT, "packed.winograd_conv", "batch_norm", "scatter_elements", "scatter_nd", "reduce_prod",
    "cumprod", "det", "resize", "interpolate", "roi_align",
)  # fmt: skip
"""Ops whose intermediate results may overflow in one order and not in another, beside those that state `SumsProducts`."""
EXACT = ("ceil", "floor", "mod", "reciprocal", "roi_max_pool", "select", "sign", "sqrt")
"""Ops that give one of their operands' elements, or round once as IEEE 754 says, beside those that state it (`Exact`, `MovesData` and others)."""
KEEPS_SIGNS = ("abs", "neg", "select")
COUNTED = {"non_zero_places": 1, "kept_boxes": 0}
"""Ops whose first result means something only as far along this axis as their second, a vector of one number, says."""
RESAMPLED = 32  # roundings of a resampled element: of its coordinates and weights in each dimension


@dataclass(frozen=True)
class Bound:
    """`terms` roundings of a sum of size `scale` (None: of the result's), each a unit of the type it is computed in, and `ulps` of the result.

    `scale` is an array that broadcasts to the result, or a number. `stored` is how many roundings to the element type itself there are on the
    way, in units of the scale. `whole` is how far integers may lie apart. `signs`: whether zeros must have the right sign too.
    """

    terms: float = 8
    ulps: float = 4
    scale: Any = None
    stored: float = 0
    whole: int = 0
    signs: bool = False


def sums(mnemonic: str) -> bool:
    """Whether an op adds up, as it states itself or by `SUMS`."""
    return mnemonic in SUMS or op_class(mnemonic).has_trait(SumsProducts)


def may_overflow(mnemonic: str) -> bool:
    """Whether intermediate results of an op may overflow in one order and not in another."""
    return mnemonic in ADDS_UP or op_class(mnemonic).has_trait(SumsProducts)


def is_exact(cls: type[GraphOp]) -> bool:
    """Whether two computations of an op may not differ, as it states itself or by `EXACT`."""
    states = any(map(cls.has_trait, (Exact, MovesData, JoinsData, ChoosesData)))
    return states or cls.flops is no_arithmetic or cls.mnemonic() in EXACT


def bound(mnemonic: str, operands: Sequence[Any], attributes: dict[str, Any], result: np.ndarray) -> Bound:
    """How far apart two computations of the op on these operands (by field) with this `result` may lie."""
    cls = op_class(mnemonic)
    if is_exact(cls):
        return Bound(0, 0, signs=cls.flops is no_arithmetic or mnemonic in KEEPS_SIGNS)
    if sums(mnemonic):
        return Bound(terms_of(mnemonic, operands, attributes, result), 1, magnitude(mnemonic, operands, attributes))
    if mnemonic == "packed.low_bit_matmul":  # what the zero points take off may be summed apart
        x, w, scale, zero = operands
        numbers = w if attributes["bits"] == 4 else np.abs(w.astype(np.int32))
        if w.ndim == 5:  # rows are rounded to bits of the largest of a block
            blocks = np.abs(x).reshape(*x.shape[:-1], w.shape[1], -1)
            x = np.broadcast_to(blocks.max(-1, keepdims=True), blocks.shape).reshape(x.shape)
        largest = op_class(mnemonic).reference(np.abs(x), numbers, np.abs(scale), -np.abs(zero.astype(np.int32)), **attributes)
        return Bound(2 * terms_of(mnemonic, operands, attributes, result), 1, largest)
    if mnemonic == "packed.winograd_conv":
        # Its transforms subtract: what is summed is what comes out where every number is positive.
        positive = {tile: tuple(np.abs(m) for m in winograd.matrices(tile)) for tile in winograd.POINTS}
        with mock.patch.object(winograd, "matrices", side_effect=positive.__getitem__):
            scale = magnitude(mnemonic, operands, attributes)
        return Bound(math.prod(operands[0].shape[1::3]) + 6 * len(positive[attributes["tile"]][0][0]), 1, scale, stored=1)
    if mnemonic in ("scatter_elements", "scatter_nd"):
        ordered = attributes["reduction"] in ("none", "max", "min")
        return Bound(0, 0) if ordered else Bound(operands[2].size + 1, 1, magnitude(mnemonic, operands, attributes))
    if mnemonic == "attention":
        # An error of a score is one of its weight, relatively; and weights are at most 1.
        q, k, v, mask = (float(np.abs(finite(wide(o))).max(initial=0)) if o is not None else 0.0 for o in operands)
        depth, keys = operands[1].shape[-2:]
        return Bound(2 * (depth + 2) * (depth * q * k * abs(attributes["scale"]) + mask) + keys + 8, 1, max(v, 1), stored=1)
    if mnemonic in RECURRENT:
        # An error of a state is one of the next product: it may grow with each step by as much as the weights of a unit add up to, and by what
        # an unbounded activation makes of it.
        steps, hidden, weights, terms = operands[0].shape[0], result.shape[3], np.abs(operands[1].astype(np.float64)), 0.0
        if mnemonic == "quantized_lstm":  # a rounding of a state may move its number by one, from the second step on
            weights = np.moveaxis(weights, 5, 4).sum(axis=3) * float(np.abs(operands[2]).max(initial=0))
            terms = (2 / 255) / float(np.finfo(np.float32).eps) if steps > 1 else 0.0
        growth = (1 + float(weights.sum(axis=3).max(initial=0))) ** (steps - 1)
        return Bound(steps * (hidden + 16 + terms) * growth, 1, max(np.abs(finite(result)).max(initial=1), 1), stored=1)
    if mnemonic == "log_softmax":  # the logarithm of a sum near 1 is off by as much as the sum
        return Bound(operands[0].shape[attributes["axis"]] + 16, 1, np.abs(finite(result)).max(initial=1))
    if mnemonic == "cumprod":
        return Bound(operands[0].shape[attributes["axis"]], 1)
    if mnemonic == "det":  # of no more than the product of the lengths of the rows, each element off by the roundings of a sum
        lengths = np.sqrt(np.sum(np.square(wide(operands[0])), axis=-1))
        return Bound(operands[0].shape[-1] ** 2 + 1, 1, np.prod(lengths, axis=-1))
    if mnemonic == "pairwise_coupling":  # rounds in f64, whose errors a round does not undo
        return Bound(2**12 if operands[0].dtype == np.float64 else 1, 1)
    if mnemonic in ("interpolate", "roi_align"):
        return Bound(RESAMPLED, 1, finite(wide(operands[0])).max(initial=0))
    if mnemonic == "reduce_prod":
        return Bound(operands[0].size, 1)
    if mnemonic == "resize":
        whole = int(attributes["mode"] != "nearest")  # at a tie the last rounding decides
        return Bound(RESAMPLED, 1, 2 * finite(wide(operands[0])).max(initial=1), whole=whole)
    if mnemonic == "batch_norm":
        return Bound(8, 1, 16 * max(finite(wide(o)).max(initial=1) for o in operands))
    if mnemonic == "range":
        return Bound(8, 4, 16.0)
    return Bound()


def terms_of(mnemonic: str, operands: Sequence[Any], attributes: dict[str, Any], result: np.ndarray) -> int:
    """How many numbers are added up for an element of the result."""
    if mnemonic == "cumsum":
        return int(operands[0].shape[attributes["axis"]])
    flops = op_class(mnemonic).flops(*map(type_of_array, operands), result=type_of_array(result), **attributes)
    return 1 + int(flops) // max(result.size, 1)


def magnitude(mnemonic: str, operands: Sequence[Any], attributes: dict[str, Any]) -> np.ndarray:
    """What is added up at most: the op of its operands' absolute values, in f64. Indices stay as they are."""
    plain = [o if o.dtype.kind == "i" and n == 1 else wide(o) for n, o in enumerate(operands)]
    with np.errstate(all="ignore"):
        return np.asarray(op_class(mnemonic).reference(*plain, **attributes))


def wide(array: np.ndarray) -> np.ndarray:
    """Absolute values in f64."""
    return np.abs(array.astype(np.float64))


def finite(array: np.ndarray) -> np.ndarray:
    """Those elements that are numbers."""
    return array[np.isfinite(array)]


def meaningful(mnemonic: str, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of an op without what means nothing in them."""
    if mnemonic not in COUNTED:
        return list(results)
    padded, count = results
    return [np.take(padded, range(int(count[0])), axis=COUNTED[mnemonic]), count]


def problem(got: np.ndarray, want: np.ndarray, allowed: Bound) -> str | None:
    """What is wrong with an array, if anything is. Integers must be equal, floats NaN in the same places and else within the bound."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if from_numpy(got.dtype) not in FLOATS:
        bad = got != want
        if allowed.whole:
            bad &= np.abs(got.astype(np.float64) - want.astype(np.float64)) > allowed.whole
        return described(got, want, bad)
    info = ml_dtypes.finfo(got.dtype)
    a, e = got.astype(np.float64), want.astype(np.float64)
    size = np.abs(e) if allowed.scale is None else np.asarray(allowed.scale, np.float64)
    # Narrow floats are computed in f32 and rounded once.
    unit = float(info.eps) if info.bits >= 32 else float(np.finfo(np.float32).eps)
    with np.errstate(all="ignore"):
        error = np.where(a == e, 0, np.abs(a - e))
        ulps = allowed.ulps + (1 if allowed.terms and info.bits < 32 else 0)  # either side rounds to the narrow type, perhaps to neighbours
        limit = (allowed.terms * unit + allowed.stored * float(info.eps)) * size
        limit = limit + ulps * (float(info.eps) * np.abs(e) + float(info.smallest_subnormal))
        bad = (np.isnan(a) != np.isnan(e)) | ((error != 0) & ~(error <= limit) & ~np.isnan(e))
        if allowed.stored:  # what is stored in between may be as large as all that is added up, and overflow
            bad &= np.isfinite(a) | (size <= float(info.max))
    if allowed.signs:
        bad |= np.signbit(a) != np.signbit(e)
        bad &= ~(np.isnan(a) & np.isnan(e))
    return described(got, want, bad, error, np.broadcast_to(limit, error.shape))


def described(got: np.ndarray, want: np.ndarray, bad: np.ndarray, *errors: np.ndarray) -> str | None:
    """The first of the wrong elements in words; None if there is none."""
    if not bad.any():
        return None
    place = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
    said = "".join(f", {what} {array[place]:.3g}" for what, array in zip(("error", "allowed"), errors, strict=False))
    return f"{list(place)} is {got[place]}, not {want[place]}{said}; {int(bad.sum())} of {bad.size} elements are wrong"
