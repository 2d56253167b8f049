"""Compiles and runs a random graph in every way there is, and compares: with its meaning, with ONNX Runtime, with itself, level by level."""

import itertools
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from guarded import bits, run
from importing import context
from random_graphs import runtime
from random_graphs.net import Case
from random_graphs.noise import MORE_RUNS, RUNS, Bounds, bounds

from stepwell.analysis.interpretation import interpret
from stepwell.dialects.support.errors import StepwellError, UnsupportedError
from stepwell.driver import build, lowering
from stepwell.driver.artifact import assemble
from stepwell.frontends.onnx import import_model
from stepwell.pipelines.routes import CPU_PATH

THREADS = (1, 2)
Finding = dict[str, str]
"""What was found: `kind` is "right", "refused" (a reason), "compiler" (an error), "native", "threads", "onnxruntime"; `text` says more."""

# Where ONNX Runtime and ONNX (or we, who follow the same numpy) are known to differ: what is in the graph, and why.
DIFFERENT: dict[str, str] = {}


def examine(case: Case) -> list[Finding]:
    """What is wrong with a case; one finding of kind "right" or "refused" if nothing is. Runs in a process of its own (see watchdog.py)."""
    say("import")
    model = onnx.load_from_string(case.model)
    imported = import_model(case.model, context())
    limits = Limits(imported, case, winograd=not case.strict and "use-winograd" not in case.disable)
    found: list[Finding] = []
    say("compile")
    try:
        lowered = lowering.lower(case.model, "affine", target=case.target, disable=case.disable, strict=case.strict)
        artifact = build.make_artifact(lowered, None, None)
    except UnsupportedError as error:
        return [{"kind": "refused", "text": error.args[0]}]
    except StepwellError as error:
        return [{"kind": "compiler", "text": f"{type(error).__name__}: {str(error)[:2000]}"}]
    results: dict[str, dict[str, np.ndarray]] = {}
    for threads in THREADS:
        for shift in (0, 1):
            way = f"{threads} threads, {shift} elements from alignment"
            say(f"run with {way}")
            try:
                results[way] = run(assemble(artifact, threads=threads, snapshots={}, timings={}), case.inputs, shift)
            except (AssertionError, StepwellError) as error:
                return [{"kind": "native", "text": f"with {way}: {type(error).__name__}: {error}"}]
    (reference, first), *others = results.items()
    for way, outputs in others:
        for name, array in outputs.items():
            same = bits(first[name]) == bits(array)
            if not same.all():
                found.append({"kind": "threads", "text": f"output {name}: {(~same).sum()} bytes differ between {reference} and {way}"})
                break
    say("compare")
    problem = limits.problem(first)
    if problem:
        found.append({"kind": "native", "text": f"{problem}; {between(case, limits)}"})
    found += against_onnxruntime(model, case, limits)
    return found or [{"kind": "right", "text": limits.aside}]


class Limits:
    """How far outputs may be off; found again with more runs before anything is said to be wrong."""

    def __init__(self, imported: Any, case: Case, *, winograd: bool) -> None:
        self.imported, self.case, self.winograd = imported, case, winograd
        self._bounds: dict[tuple[int, bool], Bounds] = {}
        self.aside = ""
        """Why ONNX Runtime was not asked."""

    def bounds(self, runs: int, absolute: bool) -> Bounds:
        """From so many disturbed runs."""
        key = (runs, absolute)
        if key not in self._bounds:
            self._bounds[key] = bounds(self.imported.module, self.imported.weights, self.case.inputs, runs, absolute=absolute, winograd=self.winograd)
        return self._bounds[key]

    def problem(self, outputs: Mapping[str, np.ndarray], *, absolute: bool = False) -> str:
        """What is wrong with outputs; empty if nothing is."""
        said = ""
        for runs in (RUNS, MORE_RUNS):
            limits = self.bounds(runs, absolute)
            problems = [limits.problem(name, array) for name, array in outputs.items()]
            said = next((p for p in problems if p), "")
            if not said:
                break
        return said


def between(case: Case, limits: Limits) -> str:
    """Between which levels the meaning changes."""
    try:
        lowered = lowering.lower(case.model, "scheduled", target=case.target, disable=case.disable, strict=case.strict)
        for above, level in itertools.pairwise(CPU_PATH.interpretable):
            with np.errstate(all="ignore"):
                problem = limits.problem(interpret(lowered, case.inputs, level=level))
            if problem:
                return f"the meaning changed between {above} and {level} ({problem})"
    except StepwellError as error:
        return f"the levels cannot be interpreted: {error}"
    return f"every level down to {CPU_PATH.interpretable[-1]} is right: the fault is below"


def against_onnxruntime(model: onnx.ModelProto, case: Case, limits: Limits) -> list[Finding]:
    """How ONNX Runtime's outputs are off what ours mean. Our native code has been compared already."""
    if case.undefined:
        limits.aside = case.undefined
        return []
    say("onnxruntime")
    try:
        outputs = runtime.run(case.model, case.inputs)
    except Exception as error:  # its exceptions have no common base
        limits.aside = f"ONNX Runtime: {str(error).splitlines()[0][:120]}"
        return []
    problem = limits.problem(outputs, absolute=True)
    if not problem:
        return []
    for node in model.graph.node:
        if node.op_type in DIFFERENT:
            limits.aside = DIFFERENT[node.op_type]
            return []
    return [{"kind": "onnxruntime", "text": f"ONNX Runtime differs from the reference: {problem}"}]


def ready() -> None:
    """Nothing, once all that an examination imports is there."""


def say(phase: str) -> None:
    """Tell standard error what is done next: the last line of a process that crashes."""
    print(f"phase: {phase}", file=sys.stderr, flush=True)
