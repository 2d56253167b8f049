"""Operations as text with numbered values, so that equal computations have equal text."""

from collections.abc import Callable
from typing import Any

from stepwell.dialects.core.mlir import ir


def numbered_line(op: ir.Operation, numbers: dict[Any, int], counts: Callable[[str, ir.Attribute], bool] = lambda name, value: True) -> str:
    """`name(operands) {attributes} -> types` without regions, operands by number; adds the results to `numbers`.

    `counts(name, value)` selects the attributes that belong to the text.
    """
    operands = ", ".join(str(numbers[v]) for v in op.operands)
    numbers.update((result, len(numbers) + i) for i, result in enumerate(op.results))
    attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in sorted(op.attributes) if counts(name, op.attributes[name]))
    return f"{op.name}({operands}) {{{attributes}}} -> {', '.join(str(r.type) for r in op.results)}"
