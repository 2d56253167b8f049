"""Find the pass, then the kernel or op, that changes a model's results: by interpreting the IR between passes, then by its code."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.analysis.code_faults import bisect_code
from stepwell.analysis.compare import OutputCheck, compare
from stepwell.analysis.interpretation import check_interpretable, interpret, interpret_module, is_packed
from stepwell.analysis.kernel_launches import callee
from stepwell.analysis.matching import Values, first_departure
from stepwell.arguments import checked
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.interpreter import Interpreter, NoMeaningError, signless
from stepwell.dialects.interpreter.evaluate import Evaluator
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.origins import line_of
from stepwell.driver.lowering import descend
from stepwell.passes.framework.instrumentation import Instrumentation, Instruments
from stepwell.passes.framework.pipeline import Step
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.graph_to_linalg.lowerings import lowering_of
from stepwell.pipelines.lowered import Lowered

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Place:
    """A pass of a pipeline: its stage, and its name, with a number if it occurs several times there."""

    stage: str
    name: str

    def __str__(self) -> str:
        return f"pass `{self.name}` in {self.stage}"


@dataclass(frozen=True)
class Culprit:
    """The pass and the kernel or op that change a model's results."""

    places: Sequence[Place]
    """The pass; several if the IR between them cannot be run."""
    where: str
    """The kernel or op with the wrong result, or "" if it cannot be determined."""
    nodes: Sequence[str]
    """The ONNX nodes that these compute."""
    outputs: Sequence[OutputCheck]
    """The differences of the model's outputs, or the kernel's results, from the expected ones."""
    note: str = ""
    """Further findings."""

    def __str__(self) -> str:
        passes = " or ".join(map(str, self.places))
        nodes = f" (node{'s' * (len(self.nodes) > 1)} {', '.join(repr(n) for n in self.nodes)})" if self.nodes else ""
        return f"{passes}{f', {self.where}' if self.where else ''}{nodes}"


@checked
def bisect(
    lowered: Lowered, inputs: Arrays, *, threads: int | None = None, tolerance: float | None = None, instrumentation: Instrumentation | None = None
) -> Culprit | None:
    """The first pass that changes a model's outputs for `inputs`, with the kernel or op that changes; None if no pass does.

    Bisects the passes down to the last level that can be interpreted, by running the IR between them; then compiles native code and compares each of
    its kernels with the expected results. `tolerance` replaces the one for each dtype, `instrumentation` also observes the passes of the first half.
    Raises InputError for a model below those levels and for inputs that do not fit, and the errors of passes.
    """
    check_interpretable(lowered)
    expected = interpret(lowered, inputs)
    points = _Points(lowered)
    descend(lowered, lowered.path.interpretable[-1], instrumentation=points if instrumentation is None else Instruments(points, instrumentation))
    search = _Search(lowered, points, inputs, expected, tolerance)
    found = search.passes()
    if found is not None:
        return search.culprit(*found)
    fault = bisect_code(lowered, inputs, threads=threads, tolerance=tolerance)
    if fault is None:
        return None
    return Culprit([Place(fault.stage, fault.step)], f"kernel {fault.launch.kernel}", fault.launch.nodes, fault.outputs, fault.note)


def plugin_definitions(function: ir.Operation) -> str:
    """For each op of a plugin in a function or module at level graph-opt: where its meaning is defined, and where its lowering is."""
    found = []
    for op in ops_below(function):
        if isinstance(op.opview, GraphOp):
            lowered = lowering_of(op.name)
            lines = line_of(type(op.opview).reference), line_of(lowered)
            if any(lines):
                made = "its conversion" if lowered is None else f"its lowering '{lowered.__name__}'"
                found.append(f"{op.name}: its `reference`{lines[0]} is what it should give, {made}{lines[1]} what it gives; either may be wrong")
    return "\n".join(dict.fromkeys(found))


class _Points(Instrumentation):
    """The module before the first pass and after each."""

    def __init__(self, lowered: Lowered) -> None:
        self.modules: list[Any] = [lowered.module.operation.clone()]
        self.places: list[Place] = []
        self._stages = {stage.name: stage for stage in lowered.pipeline.stages}
        self._done: dict[str, int] = {}

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        stage = str(level)
        index = self._done.get(stage, 0)
        self._done[stage] = index + 1
        self.places.append(Place(stage, self._stages[stage].numbered(index)))
        self.modules.append(module.operation.clone())


class _Search:
    """The results of the module at the points between passes."""

    def __init__(self, lowered: Lowered, points: _Points, inputs: Arrays, expected: Arrays, tolerance: float | None) -> None:
        self.lowered, self.points, self.inputs, self.expected, self.tolerance = lowered, points, inputs, expected, tolerance

    def passes(self) -> tuple[int, int] | None:
        """The last point known to be right, and the first known to be wrong; None if the last one is right.

        Bisection assumes that wrong results stay wrong: it finds a pass before which everything is right, and after which it is not.
        """
        good, bad = 0, len(self.points.modules) - 1
        if self._is_right(bad):
            return None
        unknown: set[int] = set()
        while candidates := [i for i in range(good + 1, bad) if i not in unknown]:
            middle = candidates[len(candidates) // 2]
            verdict = self._is_right(middle)
            if verdict is None:
                unknown.add(middle)
            elif verdict:
                good = middle
            else:
                bad = middle
        return good, bad

    def _is_right(self, point: int) -> bool | None:
        """Whether the model's outputs are right at a point; None if the IR cannot be interpreted."""
        try:
            return all(check.ok for check in self._checks(point))
        except NoMeaningError:
            if point == len(self.points.modules) - 1:
                raise
            return None
        except StepwellError:  # such as a read of missing data
            return False

    def _checks(self, point: int) -> list[OutputCheck]:
        return compare(interpret_module(self._module(point), self.lowered, self.inputs), self.expected, self.tolerance)

    def _module(self, point: int) -> Any:
        return self.points.modules[point].opview

    def culprit(self, good: int, bad: int) -> Culprit:
        """The error introduced between two points: the first kernel with different results, or op if there are no kernels."""
        before, after = self._values(good), self._values(bad)
        places = self.points.places[good:bad]
        try:
            outputs: list[OutputCheck] = self._checks(bad)
        except StepwellError as error:
            return Culprit(places, "", [], [], f"it cannot be run any more: {error.args[0]}")
        with self.lowered.module.context:
            kernels = self._first_kernel(good, bad, before, after)
            if kernels is not None:
                return Culprit(places, *kernels, self._of_plugins(good, kernels[0]) if places[-1].stage == self.lowered.path.packed else "")
            op = first_departure(before, after)
        if op is None:
            return Culprit(places, "", [], outputs)
        name = f"kernel {callee(op)}" if op.name == "func.call" else f"op {op.name}"
        return Culprit(places, name, node_names(op.location), outputs)

    def _values(self, point: int) -> Values:
        values = Values()
        with suppress(StepwellError):  # the values computed before the error are there
            interpret_module(self._module(point), self.lowered, self.inputs, values)
        return values

    def _first_kernel(self, good: int, bad: int, before: Values, after: Values) -> tuple[str, list[str], list[OutputCheck]] | None:
        """The first launch in @main whose kernel, for the same operands, gives other results after the passes than before."""
        calls = [[entry for entry in values.entries if entry.op.name == "func.call"] for values in (before, after)]
        if not calls[0] or len(calls[0]) != len(calls[1]):
            return None
        run = self._caller(bad)
        for old, new in zip(*calls, strict=True):
            # A destination, which nothing reads, has no value at the level graph-opt.
            operands = [theirs if mine is None else signless(mine) for mine, theirs in zip(old.operands, new.operands, strict=True)]
            try:
                results = run(new.op, operands)
            except StepwellError:
                return f"kernel {callee(new.op)}", node_names(new.op.location), []
            names = [f"result {i}" for i in range(len(results))]
            checks = compare(_named(names, results), _named(names, old.results), self.tolerance)
            if not all(check.ok for check in checks):
                return f"kernel {callee(new.op)}", node_names(new.op.location), checks
        return None

    def _of_plugins(self, point: int, where: str) -> str:
        """The ops of a kernel with a reference or a lowering from a plugin: the first defines their meaning, the second their code."""
        kernel = next((f for f in functions(self._module(point).operation) if f"kernel {f.sym_name.value}" == where), None)
        return "" if kernel is None else plugin_definitions(kernel.operation)

    def _caller(self, point: int) -> Any:
        """The function that runs a call of a kernel at that point."""
        module = self._module(point)
        by_name = {f.sym_name.value: f.operation for f in functions(module.operation)}
        machine = Interpreter(by_name) if is_packed(module) else Evaluator(by_name, self.lowered.weights)
        return lambda op, operands: machine.call(callee(op), operands)


def _named(names: Sequence[str], arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.asarray(signless(array)) for name, array in zip(names, arrays, strict=True)}
