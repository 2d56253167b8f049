"""The interpreters, which run IR on numpy arrays op by op, independent of everything below.

`evaluate` runs the graph levels by the references of their ops (`evaluate_f64` without rounding), `interpret` the levels linalg and scheduled.
"""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.interpreter import control, scalars, structured, tensors  # noqa: F401  (they register meanings)
from stepwell.dialects.interpreter.base import MEANINGS, Interpreter, NoMeaningError, Observer, functions_of, meaning

__all__ = ["MEANINGS", "Interpreter", "NoMeaningError", "Observer", "functions_of", "interpret", "meaning", "signless"]


def interpret(
    module: ir.Module, arguments: Sequence[np.ndarray], observe: Observer | None = None, sizes: dict[str, int] | None = None
) -> list[np.ndarray]:
    """The results of a module's `@main` for its arguments: tensors as arrays of signless integers or floats, a buffer as an array of bytes.

    Schedules are ignored, since they do not affect results. `observe` is called for each op; `sizes` gets the symbols that become known. Raises
    StepwellError, naming op and node, for an op without an interpretation (NoMeaningError) or an invalid read, and IRError for a module without
    @main.
    """
    return Interpreter(functions_of(module), observe, sizes).call("main", arguments)


def signless(array: np.ndarray) -> np.ndarray:
    """An array in the interpreter's form: below the level graph unsigned integers are signless, represented here as signed."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
