"""Interpret a model's IR at a level, without native code; find the levels between which results change."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.analysis.compare import OutputCheck, compare
from stepwell.arguments import checked
from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.interpreter import Observer, interpret as run_module, signless
from stepwell.dialects.interpreter.evaluate import Evaluator, checked_inputs, evaluate
from stepwell.dialects.interpreter.evaluate_f64 import F64Evaluator
from stepwell.dialects.support.errors import InputError
from stepwell.driver.lowering import descend
from stepwell.passes.framework.levels import IMPORTED, find_level
from stepwell.passes.framework.rewriting import find_function
from stepwell.pipelines.lowered import Lowered
from stepwell.runtime.buffers import pack_arena
from stepwell.runtime.index_checks import IndexChecks

Arrays = Mapping[str, np.ndarray]
NATIVE = "native code"


@checked
def interpret(lowered: Lowered, inputs: Arrays, *, level: str | None = None, f64: bool = False) -> dict[str, np.ndarray]:
    """The outputs, by name, of interpreting a model's IR for `inputs`: at its level, or at an earlier one that has a snapshot.

    At `graph` and `graph-opt`, the reference of each op is run (with `f64`, on f64 for all floats: see `F64Evaluator`; float outputs are then f64);
    at `linalg` and `scheduled`, each op is interpreted in numpy. Slow, simple, and independent of everything below that level. Raises IndexRangeError
    like native code, InputError for inputs that do not fit and for a level that cannot be interpreted, and StepwellError, naming op and node, if an
    op cannot.
    """
    level = check_interpretable(lowered, level)
    if level != lowered.level and level not in lowered.snapshots:
        raise InputError(f"the model is at level {lowered.level}, and no snapshot of it at level {level} was kept")
    module: Any = lowered.snapshots[level].opview if level in lowered.snapshots else lowered.module
    if f64 and not find_level(level).in_f64:
        raise InputError(f"IR at level {level} cannot be evaluated in f64; the levels that can are: {', '.join(lowered.path.in_f64)}")
    return interpret_module(module, lowered, inputs, evaluator=F64Evaluator if f64 else Evaluator)


def check_interpretable(lowered: Lowered, level: str | None = None) -> str:
    """`level`, by default that of the model. Raises InputError if IR there cannot be interpreted."""
    level = level or lowered.level
    if not find_level(level).interpretable:
        raise InputError(f"IR at level {level} cannot be interpreted; the levels that can are: {', '.join(lowered.path.interpretable)}")
    return level


def interpret_module(
    module: Any, lowered: Lowered, inputs: Arrays, observe: Observer | None = None, evaluator: type[Evaluator] = Evaluator
) -> dict[str, np.ndarray]:
    """Like `interpret`, for a module of the model between two levels; `observe` is called for each op, `evaluator` runs those of the graph levels."""
    with lowered.module.context:
        if not is_packed(module):
            return evaluate(module, lowered.weights, inputs, observe, evaluator)
        info = ModuleInfo(module)
        taken, given = info.inputs, info.outputs
        arrays = checked_inputs([name for name, _ in taken], [kind for _, kind in taken], inputs)
        arena = pack_arena(lowered.weights, info.arena, info.weights_bytes)
        sizes = _symbol_values([kind for _, kind in taken], arrays)
        results = run_module(module, [*map(signless, arrays), arena], observe, sizes)
        checks = IndexChecks(info.checks)
    checks.raise_any(results[len(given) :], sizes)
    return {name: array.view(to_numpy(kind.dtype)) for (name, kind), array in zip(given, results, strict=False)}


def _symbol_values(types: Sequence[TensorType], arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """The values of the symbols of inputs."""
    sizes = [pair for kind, array in zip(types, arrays, strict=True) for pair in zip(kind.shape, array.shape, strict=True)]
    return {str(size): number for size, number in sizes if isinstance(size, Size) and size.is_symbol}


def is_packed(module: Any) -> bool:
    """Whether weights come from one arena, the last argument of @main: from then on kernels are lowered, and unsigned types are gone."""
    arguments = find_function(module.operation, "main").type.inputs
    return len(arguments) > 0 and isinstance(arguments[-1], ir.MemRefType)


@dataclass(frozen=True)
class Step:
    """The differences of a level's results from those of the level above; for the last step, those of native code."""

    above: str
    below: str
    outputs: Sequence[OutputCheck]

    @property
    def ok(self) -> bool:
        """Whether the outputs are equal up to rounding."""
        return all(output.ok for output in self.outputs)


@checked
def compare_levels(lowered: Lowered, inputs: Arrays, outputs: Arrays | None = None) -> list[Step]:
    """Lower a model to the last level that can be interpreted, and compare each level with the one above, and `outputs` with the last.

    `outputs` are those of native code. The first step that is not ok is the one whose passes (or code generation) changed the model's results. Raises
    InputError for a model below those levels, and like `interpret`.
    """
    first = check_interpretable(lowered)
    descend(lowered, lowered.path.interpretable[-1])
    levels = [level for level in lowered.path.since(first) if find_level(level).interpretable]
    meant = {level: interpret(lowered, inputs, level=level) for level in levels}
    found: list[tuple[str, Arrays]] = [*meant.items(), *([(NATIVE, outputs)] if outputs is not None else [])]
    return [Step(above, below, compare(got, expected)) for (above, expected), (below, got) in itertools.pairwise(found)]


@checked
def compare_with_f64(lowered: Lowered, inputs: Arrays, outputs: Arrays) -> list[OutputCheck]:
    """The differences of native code's `outputs` from the network evaluated in f64: relative to their scale, and in ULP of each output's type.

    The reference is our own, not another engine's: each op at level `graph` by its own numpy reference, on f64 (`F64Evaluator` says what still
    rounds). So it separates rounding from other errors, but cannot detect a wrong import or reference. Keeps a widened copy of the weights in use.
    Raises InputError for a model without IR at one of the graph levels, and like `interpret`.
    """
    level = IMPORTED if IMPORTED in lowered.snapshots else lowered.level
    return compare(outputs, interpret(lowered, inputs, level=level, f64=True), f64=True)
