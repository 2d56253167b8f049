"""The interpreter of the levels linalg and scheduled: runs IR on numpy arrays, op by op, independent of everything below."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph.evaluate import Observer
from stepwell.dialects.interpreter import control, scalars, structured, tensors  # noqa: F401  (they register meanings)
from stepwell.dialects.interpreter.base import MEANINGS, Interpreter, meaning
from stepwell.dialects.support.errors import IRError

__all__ = ["MEANINGS", "Interpreter", "interpret", "meaning", "plain_types"]


def interpret(
    module: ir.Module, arguments: Sequence[np.ndarray], observe: Observer | None = None, sizes: dict[str, int] | None = None
) -> list[np.ndarray]:
    """What `@main` of a module returns for its arguments: tensors as arrays of signless integers or floats, a buffer as an array of bytes.

    It ignores schedules: they say how to compute, not what. `observe` is called for each op; `sizes` gets the symbols that become known.
    Raises StepwellError, naming op and node, for an op that has no meaning here (NoMeaningError) or reads what is not there, and IRError for
    a module without @main.
    """
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations if op.operation.name == "func.func"}
    if "main" not in functions:
        raise IRError("the module has no function @main")
    machine = Interpreter(functions, observe, sizes)
    machine.arena = arguments[-1] if len(arguments) else None
    return machine.call("main", arguments)


def signless(array: np.ndarray) -> np.ndarray:
    """An array as the interpreter takes it: below the level graph unsigned integers are signless, which here is signed."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
