"""The interpretation of structured ops: their body over the whole iteration space at once, in parts if that is large."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir, linalg, use_count
from stepwell.dialects.graph import numerics
from stepwell.dialects.interpreter.base import Interpreter, ReferenceFault, Values, meaning
from stepwell.dialects.interpreter.scalars import greater, lesser

POINTS = 1 << 21  # points of the iteration space at once, which bounds the memory for the arrays of a body
Array = np.ndarray


@dataclass(frozen=True)
class Expression:
    """An index as a linear function of the loops."""

    constant: int
    coefficients: dict[int, int]


def linear(expr: Any) -> Expression | None:
    """An affine expression as a linear function; None if it divides."""
    if isinstance(expr, ir.AffineConstantExpr):
        return Expression(expr.value, {})
    if isinstance(expr, ir.AffineDimExpr):
        return Expression(0, {expr.position: 1})
    if not isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        return None
    left, right = linear(expr.lhs), linear(expr.rhs)
    if left is None or right is None:
        return None
    if isinstance(expr, ir.AffineAddExpr):
        dims = {*left.coefficients, *right.coefficients}
        total = {d: left.coefficients.get(d, 0) + right.coefficients.get(d, 0) for d in dims}
        return Expression(left.constant + right.constant, total)
    if left.coefficients and right.coefficients:
        return None
    factor = right.constant if left.coefficients else left.constant
    grown = left if left.coefficients else right
    return Expression(left.constant * right.constant, {d: c * factor for d, c in grown.coefficients.items()})


class Access:
    """How an operand is read or written: a view of it with a dimension for each loop, of size 1 for irrelevant loops."""

    def __init__(self, affine_map: Any) -> None:
        self.loops: int = affine_map.n_dims
        found = [linear(expr) for expr in affine_map.results]
        if any(e is None for e in found):
            raise ReferenceFault(f"the indexing map {affine_map} is not linear")
        self.results = [e for e in found if e is not None]

    @property
    def is_permuted(self) -> bool:
        """Whether each index is a distinct loop, forwards or backwards, as for results."""
        steps = [list(e.coefficients.items()) for e in self.results]
        return all(len(s) == 1 and abs(s[0][1]) == 1 for s in steps) and len({s[0][0] for s in steps}) == len(steps)

    def plain(self) -> Iterator[tuple[int, int]]:
        """(loop, dimension of the operand) where the index is the loop itself."""
        return ((next(iter(e.coefficients)), i) for i, e in enumerate(self.results) if e.constant == 0 and list(e.coefficients.values()) == [1])

    def uses(self, loop: int) -> bool:
        return any(e.coefficients.get(loop, 0) for e in self.results)

    def view(self, array: Array, part: Sequence[range]) -> Array:
        """The operand's elements for a part of the iteration space. Raises ReferenceFault if one is outside the operand."""
        first: list[Any] = []
        strides = [0] * self.loops
        for dim, e in enumerate(self.results):
            ends = [(c * part[d][0], c * part[d][-1]) for d, c in e.coefficients.items()]
            low, high = (e.constant + sum(f(pair) for pair in ends) for f in (min, max))
            if low < 0 or high >= array.shape[dim]:
                raise ReferenceFault(f"indices {low} to {high} of dimension {dim} are outside of an operand of shape {list(array.shape)}")
            first.append(slice(e.constant + sum(c * part[d][0] for d, c in e.coefficients.items()), None))
            for d, c in e.coefficients.items():
                strides[d] += array.strides[dim] * c
        shape = [len(part[d]) if self.uses(d) else 1 for d in range(self.loops)]
        return np.lib.stride_tricks.as_strided(array[(*first, ...)], shape, strides, writeable=array.flags.writeable)


# The folds of reductions: numpy's function for all values at once, and that of two.
FOLDS: dict[str, tuple[np.ufunc, Callable[[Array, Array], Array]]] = {
    "arith.addf": (np.add, np.add), "arith.mulf": (np.multiply, np.multiply), "arith.maximumf": (np.maximum, greater),
    "arith.minimumf": (np.minimum, lesser), "arith.maxnumf": (np.fmax, np.fmax), "arith.addi": (np.add, np.add),
    "arith.muli": (np.multiply, np.multiply), "arith.maxsi": (np.maximum, np.maximum), "arith.minsi": (np.minimum, np.minimum),
    "arith.andi": (np.bitwise_and, np.bitwise_and), "arith.ori": (np.bitwise_or, np.bitwise_or), "arith.xori": (np.bitwise_xor, np.bitwise_xor),
}  # fmt: skip
BOOLEAN = ("arith.andi", "arith.ori", "arith.xori")


@meaning("linalg.generic")
def structured(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """Any structured op: the body's result at each point, folded along the loops that the results do not have."""
    return Structured(machine, op, operands, values).run()


@meaning("linalg.index")
def index(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """The index of a loop."""
    return [machine.places[ir.IntegerAttr(op.attributes["dim"]).value]]


class Structured:
    """One structured op, being run."""

    def __init__(self, machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> None:
        self.machine, self.op, self.values = machine, op, values
        maps = linalg.get_indexing_maps(op.opview)
        if maps is None:
            raise ReferenceFault("it has no indexing maps")
        # A scalar among the inputs is read as a tensor of rank 0.
        self.accesses = [Access(ir.AffineMapAttr(m).value) for m in maps]
        self.inputs = [np.asarray(x) for x in operands[: len(maps) - len(op.results)]]
        self.outs = [np.array(x) for x in operands[len(self.inputs) :]]
        self.sizes = self._sizes()
        written = self.accesses[len(self.inputs) :]
        self.reductions = [d for d in range(len(self.sizes)) if not all(a.uses(d) for a in written)]
        self.parallel = [d for d in range(len(self.sizes)) if d not in self.reductions]
        if any(not a.is_permuted for a in written):
            raise ReferenceFault("an output is written at other places than one for each point of the parallel loops")

    def _sizes(self) -> list[int]:
        sizes: dict[int, int] = {}
        for access, array in zip(self.accesses, [*self.inputs, *self.outs], strict=True):
            for loop, dim in access.plain():
                if sizes.setdefault(loop, array.shape[dim]) != array.shape[dim]:
                    raise ReferenceFault(f"loop {loop} is to go to {sizes[loop]} and to {array.shape[dim]}")
        loops = self.accesses[0].loops
        missing = [d for d in range(loops) if d not in sizes]
        if missing:
            raise ReferenceFault(f"no operand says the size of loop {missing[0]}")
        return [sizes[d] for d in range(loops)]

    def run(self) -> list[Array]:
        """The results."""
        if 0 not in self.sizes:
            folds = self._folds()
            if folds is None:  # one step of the reduction after the other, each for all points at once
                steps = itertools.product(*(range(self.sizes[d]) for d in self.reductions))
                for step in steps:
                    for part in self._parts({d: range(i, i + 1) for d, i in zip(self.reductions, step, strict=True)}):
                        self._replace(part)
            else:
                for part in self._parts({}):
                    self._fold(part, folds)
        return self.outs

    def _parts(self, fixed: dict[int, range]) -> Iterator[list[range]]:
        """The iteration space in parts of at most about `POINTS` points, in order."""
        sizes = [len(fixed[d]) if d in fixed else n for d, n in enumerate(self.sizes)]
        chunks = list(sizes)
        for d in [*self.parallel, *self.reductions]:
            excess = -(-prod(chunks) // POINTS)
            chunks[d] = max(1, chunks[d] // excess)
        ranges = [
            [fixed[d]] if d in fixed else [range(s, min(s + chunk, n)) for s in range(0, n, chunk)]
            for d, (n, chunk) in enumerate(zip(sizes, chunks, strict=True))
        ]
        return (list(part) for part in itertools.product(*ranges))

    def _body(self, part: Sequence[range]) -> list[Any]:
        """The yielded values of the body at the points of a part."""
        places = [np.arange(r.start, r.stop).reshape([-1 if i == d else 1 for i in range(len(part))]) for d, r in enumerate(part)]
        arguments = [a.view(x, part) for a, x in zip(self.accesses, [*self.inputs, *self.outs], strict=True)]
        with self.machine.with_places(places):
            return self.machine.run(self.op, 0, arguments, self.values)

    def _replace(self, part: Sequence[range]) -> None:
        """Replace each output by the yielded values."""
        # Everything is computed before anything is written: the body may yield its own arguments.
        yielded = [np.array(value) for value in self._body(part)]
        for access, out, new in zip(self.accesses[len(self.inputs) :], self.outs, yielded, strict=True):
            access.view(out, part)[...] = new

    def _folds(self) -> list[str | None] | None:
        """For each output the op that folds the values computed only from inputs; None if one has none.

        Without reductions no output needs one.
        """
        if not self.reductions:
            return [None] * len(self.outs)
        block = self.op.regions[0].blocks[0]
        folds: list[str | None] = []
        if any(access.uses(d) for access in self.accesses[len(self.inputs) :] for d in self.reductions):
            return None  # a scan stores every step
        for value, out in zip(list(block.operations)[-1].operands, list(block.arguments)[len(self.inputs) :], strict=True):
            op = defining_op(value)
            if op is None or op.name not in FOLDS or list(op.operands).count(out) != 1 or use_count(out) != 1:
                return None
            if value.type == ir.IntegerType.get_signless(1, op.context) and op.name not in BOOLEAN:
                return None
            folds.append(op.name)
        return folds

    def _fold(self, part: Sequence[range], folds: Sequence[str | None]) -> None:
        if not self.reductions:
            self._replace(part)
            return
        block = self.op.regions[0].blocks[0]
        self._body(part)
        shape = [len(r) for r in part]
        for number, name in enumerate(folds):
            if name is None:
                continue
            all_, two = FOLDS[name]
            place = block.arguments[len(self.inputs) + number]
            op = defining_op(list(block.operations)[-1].operands[number])
            assert op is not None
            term = self.values[next(v for v in op.operands if v != place)]
            view = self.accesses[len(self.inputs) + number].view(self.outs[number], part)
            whole = np.broadcast_to(term, [shape[d] if d in self.reductions else term.shape[d] if term.ndim else 1 for d in range(len(shape))])
            # Sums in f64, so that they depend as little as possible on the order of the terms.
            wide = np.dtype(np.float64) if numerics.is_floating(whole.dtype) and name in ("arith.addf", "arith.mulf") else whole.dtype
            with np.errstate(all="ignore"):
                folded = all_.reduce(whole, axis=tuple(self.reductions), dtype=wide, keepdims=True)
                view[...] = numerics.narrow(np.asarray(two(view.astype(wide), folded)), whole.dtype)
