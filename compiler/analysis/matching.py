"""Match the values of two runs by content, to find the first op after a pass whose result no op before it had."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph.numerics import is_floating

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
"""The tolerances for equal values, relative to their scale: the first ones are larger than rounding errors, which folding changes."""
_LEAVES = ("graph.parameter", "graph.constant", "tensor.empty")


@dataclass(frozen=True)
class Entry:
    """An executed op of @main."""

    op: ir.Operation
    operands: Sequence[Any]
    results: Sequence[Any]


@dataclass
class Values:
    """The ops of @main in order of execution; an `Observer` of evaluation and interpretation."""

    entries: list[Entry] = field(default_factory=list)

    def __call__(self, op: ir.Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        parent = op.parent
        if parent is not None and parent.operation.name == "func.func" and ir.StringAttr(parent.operation.attributes["sym_name"]).value == "main":
            self.entries.append(Entry(op, list(operands), list(results)))


def first_departure(before: Values, after: Values) -> ir.Operation | None:
    """The first op of `after` from which on nothing is as in `before`: neither its values nor later ones occur there.

    Passes create new values, such as a scaled convolution, before values that they leave unchanged: those count as right if some op that uses them,
    perhaps through others, gives a value of `before`. Values of equal shape are compared element by element; others, which may have another layout
    with zero padding, by sums that do not depend on the order. If nothing differs by much, smaller tolerances are tried too.
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
    """The values of a run, to be found by content."""

    def __init__(self, values: Values) -> None:
        arrays = [array for entry in values.entries if entry.op.name not in _LEAVES for array in entry.results if array is not None]
        self.arrays = arrays
        self.marks = np.array([_mark(array) for array in arrays]).reshape(len(arrays), 5)

    def holds(self, array: Any, tolerance: float) -> bool:
        """Whether one of the values equals this one, in this or in another layout."""
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
    """Quantities that do not depend on the order of the elements, nor on zeros: sums of the elements, magnitudes and squares, and the extremes."""
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
