"""Match the values of two runs by what they hold: to find the first op after a pass that gives what no op before it gave."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph.numerics import is_floating

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
"""Of the scale of a value, how far it may be from another to be taken for the same: more at first than rounding, which folding changes, makes."""
_LEAVES = ("graph.parameter", "graph.constant", "tensor.empty")


@dataclass(frozen=True)
class Entry:
    """An op of @main that was run."""

    op: ir.Operation
    operands: Sequence[Any]
    results: Sequence[Any]


@dataclass
class Values:
    """The ops of @main in the order in which they were run; an `Observer` of evaluation and interpretation."""

    entries: list[Entry] = field(default_factory=list)

    def __call__(self, op: ir.Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        parent = op.parent
        if parent is not None and parent.operation.name == "func.func" and ir.StringAttr(parent.operation.attributes["sym_name"]).value == "main":
            self.entries.append(Entry(op, list(operands), list(results)))


def first_departure(before: Values, after: Values) -> ir.Operation | None:
    """The first op of `after` from which on nothing is as in `before`: no value of that holds what it gives, nor what follows from it.

    Passes make values of their own, a scaled convolution, say, before what they leave as it was: those count as right if some op that
    (perhaps through others) uses them gives a value of `before`. Values of one shape are compared element by element, others, which may be
    laid out in another way and filled up with zeros, by sums that do not depend on the order. Where nothing departs far, less counts too.
    """
    known = _Known(before)
    departures = (_departure(known, after, tolerance) for tolerance in TOLERANCES)
    return next((op for op in departures if op is not None), None)


def _departure(known: "_Known", after: Values, tolerance: float) -> ir.Operation | None:
    redeemed = {e.op for e in after.entries if e.op.name in _LEAVES or any(known.holds(array, tolerance) for array in e.results)}
    for entry in reversed(after.entries):
        if entry.op in redeemed and entry.op.name not in _LEAVES:
            redeemed.update(made for value in entry.op.operands if isinstance(made := _maker(value), ir.Operation))
    return next((entry.op for entry in after.entries if entry.op not in redeemed), None)


def _maker(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


class _Known:
    """The values of a run, to be found by what they hold."""

    def __init__(self, values: Values) -> None:
        arrays = [array for entry in values.entries if entry.op.name not in _LEAVES for array in entry.results if array is not None]
        self.arrays = arrays
        self.marks = np.array([_mark(array) for array in arrays]).reshape(len(arrays), 5)

    def holds(self, array: Any, tolerance: float) -> bool:
        """Whether one of the values is this one, in this or in another layout."""
        if array is None or not len(self.arrays):
            return False
        mark = _mark(array)
        scale = np.array([mark[1], mark[1], mark[2], *[max(abs(mark[3]), abs(mark[4]))] * 2])
        with np.errstate(invalid="ignore"):
            near = np.all((np.abs(self.marks - mark) <= tolerance * scale) | (self.marks == mark), axis=1)
        found = [self.arrays[i] for i in np.flatnonzero(near)]
        same_shape = [other for other in found if np.shape(other) == np.shape(array)]
        return any(_close(other, array, tolerance) for other in same_shape) if same_shape else bool(found)


def _mark(array: Any) -> np.ndarray:
    """What does not depend on the order of the elements, nor on zeros among them: sums of the elements, their sizes and squares, the extremes."""
    wide = np.asarray(array).astype(np.float64).ravel()
    with np.errstate(all="ignore"):
        extremes = (float(wide.max(initial=0.0)), float(wide.min(initial=0.0)))
        return np.nan_to_num(np.array([wide.sum(), np.abs(wide).sum(), (wide * wide).sum(), *extremes]), nan=1e300)


def _close(one: Any, other: Any, tolerance: float) -> bool:
    a, b = (np.asarray(x) for x in (one, other))
    if not is_floating(a.dtype):
        return bool(np.array_equal(a.view(np.uint8) if a.dtype == b.dtype else a, b.view(np.uint8) if a.dtype == b.dtype else b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(a[np.isfinite(a)])
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * float(finite.max(initial=0.0)), equal_nan=True))
