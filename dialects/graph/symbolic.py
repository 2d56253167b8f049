"""Symbolic evaluation of small integer tensors whose elements come from the sizes of dimensions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Size, UndecidedError, always, maximum, minimum
from stepwell.dialects.core.types import INTEGERS, dtype_info, type_of
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.graph.traits import JoinsData, MovesData
from stepwell.dialects.support.errors import StepwellError

MOST = 1024  # largest number of elements of a tensor that is evaluated symbolically


def _wide(dtype: str) -> bool:
    return dtype in INTEGERS and dtype_info(dtype).bits >= 32


def _divided(a: Any, b: Any) -> Any:
    """The quotient rounded towards zero: if `a` may be negative, that of its positive part minus that of its negative part, one of which is 0."""
    if b == 0:
        raise UndecidedError("a division by 0")
    if b < 0:
        return -_divided(a, -b)
    if always(a, ">=", 0):
        return a // b
    return maximum(a, 0) // b - maximum(-a, 0) // b


def _remainder(a: Any, b: Any, fmod: bool) -> Any:
    """The remainder of a quotient that is rounded towards zero with `fmod`, else rounded down."""
    if b == 0:
        raise UndecidedError("a remainder of a division by 0")
    return a - (_divided(a, b) if fmod else a // b) * b


def _equal(a: Any, b: Any) -> bool:
    if a == b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    if a < b or a > b:  # otherwise the comparison is undecided and raises
        return False
    raise UndecidedError(f"whether {a} is {b}")


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "graph.add": lambda a, b: a + b, "graph.sub": lambda a, b: a - b, "graph.mul": lambda a, b: a * b, "graph.div": _divided,
    "graph.maximum": maximum, "graph.minimum": minimum, "graph.neg": lambda a: -a, "graph.equal": _equal,
    "graph.less": lambda a, b: a < b, "graph.greater": lambda a, b: a > b, "graph.less_equal": lambda a, b: a <= b,
    "graph.greater_equal": lambda a, b: a >= b, "graph.select": lambda c, a, b: a if c else b,
    "graph.and": lambda a, b: bool(a) and bool(b), "graph.or": lambda a, b: bool(a) or bool(b), "graph.xor": lambda a, b: bool(a) != bool(b),
    "graph.not": lambda a: not a,
}  # fmt: skip
_OTHERS = frozenset({"graph.cast", "graph.mod", "graph.reduce_prod", "graph.reduce_sum"})


class SymbolicValues:
    """Finds the elements of integer tensors that are computed from sizes, as arrays of numbers and `Size`s."""

    def __init__(self, known: KnownValues, elements: Callable[[ir.Value], Sequence[Size] | None] = lambda argument: None) -> None:
        """`elements` returns symbols for the elements of an argument, in order, or None."""
        self.known = known
        self._elements = elements
        self._found: dict[ir.Value, np.ndarray | None] = {}

    def value(self, value: ir.Value) -> np.ndarray | None:
        """The elements of `value` as an array of objects, or None if an element is unknown. Uses an explicit stack."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            if current in self._found:
                waiting.pop()
                continue
            op = self._op(current)
            missing = [] if op is None else [o for o in op.operands if o not in self._found]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            self._found[current] = self._leaf(current) if op is None else self._evaluate(op, current)
        return self._found[value]

    def release(self) -> None:
        """Forget all cached results."""
        self._found.clear()

    def _op(self, value: ir.Value) -> ir.Operation | None:
        """The op to evaluate for a value; None for a leaf."""
        tensor = type_of(value)
        if not tensor.is_static or tensor.elements > MOST or self.known.value(value) is not None:
            return None
        op = defining_op(value)
        if op is None or not isinstance(op.opview, GraphOp):
            return None
        moves = op.opview.has_trait(MovesData) or op.opview.has_trait(JoinsData)  # references of these ops accept any kind of element
        return op if moves or op.name in _ARITHMETIC or op.name in _OTHERS else None

    def _leaf(self, value: ir.Value) -> np.ndarray | None:
        tensor = type_of(value)
        if not tensor.is_static or tensor.elements > MOST:
            return None
        array = self.known.value(value)
        if array is not None:
            return _objects(array) if array.dtype.kind in "biu" else None
        op = defining_op(value)
        if op is None:
            symbols = self._elements(value)
            return None if symbols is None else _objects(symbols).reshape(tensor.static_shape)
        if op.name == "graph.sizes":
            return _objects(op.opview.attribute_values()["values"])
        if op.name == "graph.shape_of" and None not in type_of(op.operands[0]).shape:
            return _objects(type_of(op.operands[0]).shape)
        return None

    def _evaluate(self, op: ir.Operation, value: ir.Value) -> np.ndarray | None:
        view: Any = op.opview
        arrays = [self._found[o] for o in op.operands]
        if any(a is None for a in arrays):
            return None
        try:
            made = self._made(op.name, view, arrays)
        except (StepwellError, ArithmeticError, IndexError, TypeError, ValueError):  # undecided, or undefined for these data
            return None
        return None if made is None or made.shape != type_of(value).static_shape else made

    def _made(self, name: str, view: GraphOp, arrays: Sequence[Any]) -> np.ndarray | None:
        result = view.result_types()[0].dtype
        if name == "graph.cast":
            return arrays[0] if _wide(result) and _wide(view.operand_types()[0].dtype) else None
        if name in _ARITHMETIC:
            return np.asarray(np.frompyfunc(_ARITHMETIC[name], len(arrays), 1)(*arrays), dtype=object)
        if name == "graph.mod":
            remainder = partial(_remainder, fmod=view.attribute_values()["fmod"])
            return np.asarray(np.frompyfunc(remainder, 2, 1)(*arrays), dtype=object)
        if name in ("graph.reduce_prod", "graph.reduce_sum"):
            attributes = view.attribute_values()
            combine = np.multiply if name == "graph.reduce_prod" else np.add
            return np.asarray(combine.reduce(arrays[0], axis=attributes["axes"], keepdims=attributes["keepdims"]), dtype=object)
        rest = iter(arrays)
        groups = map_groups(lambda _: next(rest), view.operand_groups())
        moved = [_numbers(g) if i else g for i, g in enumerate(groups)]  # indices, starts and similar operands are numbers
        return np.asarray(type(view).reference(*moved, **view.attribute_values()), dtype=object)


def _objects(values: Any) -> np.ndarray:
    """An array of Python numbers and sizes."""
    array = np.empty(np.shape(values), dtype=object)
    flat = np.asarray(values, dtype=object).reshape(-1)
    array.reshape(-1)[:] = [v if isinstance(v, Size) else int(v) for v in flat]
    return array


def _numbers(group: Any) -> Any:
    return group if isinstance(group, list) else group.astype(np.int64)
