"""The placement of values of a function at level affine: the argument that contains them, and the offset in bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir, known_index

Place = tuple[int, int]
"""The index of an argument, and an offset in it in bytes."""

_SAME_ADDRESS = ("memref.cast", "memref.collapse_shape", "memref.expand_shape", "builtin.unrealized_conversion_cast")
_BRANCHES = ("cf.br", "cf.cond_br")


@dataclass(frozen=True)
class _Address:
    """A number of bytes plus addresses of arguments, each with a factor."""

    of: tuple[tuple[int, int], ...]
    bytes: int

    def plus(self, other: "_Address", factor: int = 1) -> "_Address":
        counts = dict(self.of)
        for argument, count in other.of:
            counts[argument] = counts.get(argument, 0) + factor * count
        return _Address(tuple(sorted((a, c) for a, c in counts.items() if c)), self.bytes + factor * other.bytes)


@dataclass
class Places:
    """The places of the values of a function. A loop-carried value has several: one of them in each iteration."""

    function: Any
    _found: dict[Any, frozenset[_Address] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        entry, *_ = self.function.regions[0].blocks
        self._found.update((argument, frozenset([_Address(((i, 1),), 0)])) for i, argument in enumerate(entry.arguments))
        self._incoming: dict[ir.Block, list[list[Any]]] = {}
        for block in self.function.regions[0].blocks:
            for successor, values in branches(list(block.operations)[-1].operation):
                self._incoming.setdefault(successor, []).append(values)

    def places_of(self, value: Any) -> list[Place]:
        """The possible places of a memref; empty if they are known only at run time."""
        found = self._addresses(value) or ()
        places = [(address.of[0][0], address.bytes) for address in found if len(address.of) == 1 and address.of[0][1] == 1]
        return sorted(places) if len(places) == len(found) else []

    def _addresses(self, value: Any) -> frozenset[_Address] | None:
        """The possible addresses of a memref, or values of an index; None if they are unknown."""
        if value not in self._found:
            self._found[value] = None  # for values that depend on themselves
            self._found[value] = self._of_argument(value) if defining_op(value) is None else self._of_result(defining_op(value))
        return self._found[value]

    def _of_argument(self, value: Any) -> frozenset[_Address] | None:
        """The addresses that an argument may get from the predecessors of its block, transitively."""
        seen, waiting = {value}, [value]
        found: set[_Address] = set()
        while waiting:
            argument = ir.BlockArgument(waiting.pop())
            for values in self._incoming.get(argument.owner, []):
                source = values[argument.arg_number]
                if defining_op(source) is None and source.owner in self._incoming:
                    waiting += [source] if source not in seen else []
                    seen.add(source)
                    continue
                addresses = self._addresses(source)
                if addresses is None:
                    return None
                found |= addresses
        return frozenset(found)

    def _of_result(self, op: Any) -> frozenset[_Address] | None:
        if op.name == "arith.constant":
            number = known_index(op.results[0])
            return None if number is None else frozenset([_Address((), number)])
        if op.name in ("arith.addi", "arith.subi"):
            return self._sums(op.operands[0], op.operands[1], 1 if op.name == "arith.addi" else -1)
        if op.name == "memref.view":
            return self._sums(op.operands[0], op.operands[1], 1)
        if op.name == "memref.reinterpret_cast" and list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])) != [0]:
            return None
        if op.name in (*_SAME_ADDRESS, "memref.reinterpret_cast", "memref.extract_aligned_pointer_as_index"):
            return self._addresses(op.operands[0])
        return None

    def _sums(self, left: Any, right: Any, factor: int) -> frozenset[_Address] | None:
        a, b = self._addresses(left), self._addresses(right)
        return None if a is None or b is None else frozenset(one.plus(other, factor) for one in a for other in b)


def branches(op: Any) -> list[tuple[ir.Block, list[Any]]]:
    """For each successor of a terminator, the operands for its arguments."""
    if op.name not in _BRANCHES:
        return []
    if op.name == "cf.br":
        return [(op.successors[0], list(op.operands))]
    _, first, _ = op.attributes["operandSegmentSizes"]
    values = list(op.operands)[1:]
    return [(op.successors[0], values[:first]), (op.successors[1], values[first:])]


def in_order(function: Any) -> Iterator[Any]:
    """The operations of a function in the order of a run that goes through all of them once: the body of a loop before the code behind it."""
    entry, *_ = function.regions[0].blocks
    seen, finished, stack = {entry}, [], [(entry, iter(_behind(entry)))]
    while stack:
        block, left = stack[-1]
        following = next((b for b in left if b not in seen), None)
        if following is None:
            finished.append(stack.pop()[0])
            continue
        seen.add(following)
        stack.append((following, iter(_behind(following))))
    for block in reversed(finished):
        yield from (op.operation for op in block.operations)


def _behind(block: ir.Block) -> list[ir.Block]:
    """The successors, last one first: in reverse post-order the first one, a loop's body, then comes before the other."""
    return [successor for successor, _ in reversed(branches(list(block.operations)[-1].operation))]
