"""The offsets, sizes and strides of `tensor.extract_slice`, `tensor.insert_slice` and `memref.subview`: numbers, and values for dynamic ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir

_FREE = ir.ShapedType.get_dynamic_size()  # MLIR's mark for a number that is given by an operand


def operands_of(numbers: "Sequence[int | ir.Value]") -> tuple[list[ir.Value], list[int]]:
    """Sizes or offsets in the form of op arguments: the dynamic values, and all numbers with MLIR's mark for the dynamic ones."""
    return [n for n in numbers if not isinstance(n, int)], [n if isinstance(n, int) else _FREE for n in numbers]


@dataclass
class SlicePlace:
    """The position of a slice in the whole tensor, by dimension."""

    offsets: "list[int | ir.Value]"
    sizes: "list[int | ir.Value]"
    steps: "list[int | ir.Value]"

    @classmethod
    def from_op(cls, op: ir.Operation) -> "SlicePlace":
        """The position of the slice that an op reads or writes."""
        operands = iter(list(op.operands)[2 if op.name == "tensor.insert_slice" else 1 :])

        def numbers(name: str) -> "list[int | ir.Value]":
            return [next(operands) if number == _FREE else int(number) for number in op.attributes[name]]

        return cls(numbers("static_offsets"), numbers("static_sizes"), numbers("static_strides"))

    @property
    def arguments(self) -> list[list[ir.Value] | list[int]]:
        """The arguments for constructors of such ops."""
        sides = [operands_of(numbers) for numbers in (self.offsets, self.sizes, self.steps)]
        return [*(values for values, _ in sides), *(numbers for _, numbers in sides)]
