"""Where slices lie, as `tensor.extract_slice`, `tensor.insert_slice` and `memref.subview` say it: numbers, and values for what only a run knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir

_FREE = ir.ShapedType.get_dynamic_size()  # MLIR's mark for a number that an operand says


def operands_of(numbers: "Sequence[int | ir.Value]") -> tuple[list[ir.Value], list[int]]:
    """Sizes, or offsets, as ops take them: those that are values, and all of them with MLIR's mark in the place of these."""
    return [n for n in numbers if not isinstance(n, int)], [n if isinstance(n, int) else _FREE for n in numbers]


@dataclass
class SlicePlace:
    """Where a slice lies in the whole, along each dimension of it."""

    offsets: "list[int | ir.Value]"
    sizes: "list[int | ir.Value]"
    steps: "list[int | ir.Value]"

    @classmethod
    def of(cls, op: ir.Operation) -> "SlicePlace":
        """That of the slice that an op takes or writes."""
        operands = iter(list(op.operands)[2 if op.name == "tensor.insert_slice" else 1 :])

        def numbers(name: str) -> "list[int | ir.Value]":
            return [next(operands) if number == _FREE else int(number) for number in op.attributes[name]]

        return cls(numbers("static_offsets"), numbers("static_sizes"), numbers("static_strides"))

    @property
    def arguments(self) -> list[list[ir.Value] | list[int]]:
        """What the constructors of such ops take."""
        sides = [operands_of(numbers) for numbers in (self.offsets, self.sizes, self.steps)]
        return [*(values for values, _ in sides), *(numbers for _, numbers in sides)]
