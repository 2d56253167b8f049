"""Checked calls of the functions of an op's class, `infer` and `reference`: errors and results are checked, since a plugin's may be wrong."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import result_fields
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.support.errors import StepwellError, shown
from stepwell.dialects.support.origins import line_of, plugin_line


def inferred_types(cls: Any, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[TensorType, ...]:
    """The result types that the `infer` of an op's class returns for operand types (by field) and attributes.

    Our own errors, such as InferenceError, pass through. Raises StepwellError, naming op and line, if `infer` fails otherwise or does not return
    types.
    """
    what = f"the `infer` of {cls.OPERATION_NAME}"
    try:
        given = cls.infer(*operands, **attributes)
    except (StepwellError, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise StepwellError(f"{what}: {type(error).__name__}: {error}{plugin_line(error)}") from error
    types = given if isinstance(given, tuple) else (given,)
    fields = result_fields(cls)
    if not all(isinstance(kind, TensorType) for kind in types) or (all(kind == "single" for _, kind in fields) and len(types) != len(fields)):
        results = ", ".join(name for name, _ in fields) or "none"
        raise StepwellError(f"{what} must give a TensorType for each result ({results}), got {shown(given)}{line_of(cls.infer)}")
    return types


def referred(op: Any, call: Callable[[], Any]) -> tuple[np.ndarray, ...]:
    """The arrays that `call`, a call of an op's `reference`, returns.

    Raises StepwellError, naming op, node and line, if it fails or does not return arrays; MeaningError if the arrays do not fit the op's `infer`.
    """
    try:
        given = call()
    except (StepwellError, MemoryError, RecursionError):
        raise
    except (ValueError, IndexError, OverflowError) as error:  # numpy's errors about sizes that are known only now
        raise StepwellError(f"{_named(op)}: {error}{plugin_line(error)}") from error
    except Exception as error:
        raise StepwellError(f"the `reference` of {_named(op)}: {type(error).__name__}: {error}{plugin_line(error)}") from error
    results = given if isinstance(given, tuple) else (given,)
    types = op.result_types()
    if any(result is None for result in results) or len(results) != len(types):
        expected = f"{len(types)} array{'s' * (len(types) != 1)}"
        raise StepwellError(f"the `reference` of {_named(op)} must give {expected}, got {shown(given)}{line_of(type(op).reference)}")
    arrays = tuple(map(np.asarray, results))
    for array, kind in zip(arrays, types, strict=True):
        if not _fits(array.shape, kind):
            told = f"the `infer` of {_named(op)} says {kind}{line_of(type(op).infer)}, but its `reference` gives the shape {list(array.shape)}"
            raise MeaningError(f"{told}{line_of(type(op).reference)}")
    return arrays


class MeaningError(StepwellError):
    """An op's `infer` and its `reference` contradict each other."""


def contradiction_of(op: Any) -> str | None:
    """The contradiction between the `infer` and the `reference` of an op, found with arrays of zeros; None if there is none."""
    values = list(op.operation.operands)
    types = [TensorType.from_mlir(value.type) for value in values]
    if type(op).reference is None or not all(kind.is_static and kind.elements <= _MOST for kind in types):
        return None
    arrays = dict(zip(values, (np.zeros(kind.static_shape, to_numpy(kind.dtype)) for kind in types), strict=True))
    try:
        op.evaluate([None if g is None else [arrays[v] for v in g] if isinstance(g, list) else arrays[g] for g in op.operand_groups()])
    except MeaningError as error:
        return str(error.args[0])
    except StepwellError:
        return None
    return None


_MOST = 1 << 20  # largest number of elements of an operand


def _named(op: Any) -> str:
    return f"{op.OPERATION_NAME} of {nodes_text(op.operation.location)}"


def _fits(shape: Sequence[int], kind: TensorType) -> bool:
    return len(shape) == kind.rank and all(not isinstance(n, int) or n == m for n, m in zip(kind.shape, shape, strict=True))
