"""The pass runner: runs our passes and upstream's one by one, with verification and instrumentation in between."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from stepwell.dialects.core.mlir import ir, passmanager
from stepwell.dialects.support.errors import LimitError, PassError, PipelineError, StepwellError
from stepwell.dialects.support.origins import plugin_line
from stepwell.passes.framework.crash_record import IR, named, recorder, tracebacks
from stepwell.passes.framework.instrumentation import Instrumentation, stopwatch
from stepwell.passes.framework.ir_files import IRFiles, used_weights
from stepwell.passes.framework.pipeline import MODULE, Element, Step, flatten, format_pipeline, parse_pipeline, plain_value
from stepwell.passes.framework.registry import Pass, PassState, find_pass
from stepwell.passes.framework.rewriting import drop_unused_weights
from stepwell.passes.framework.upstream import manager_of

__all__ = ["DiagnosedError", "Instrumentation", "PassRunner", "describe_diagnostics"]

ANY = "any"
Action: TypeAlias = "Pass | passmanager.PassManager"
_OWN = ("stepwell.", passmanager.PassManager.__module__)


class DiagnosedError(PassError):
    """A failure reported by upstream: `diagnostics` are the bindings' records of it, with location, message and notes."""

    def __init__(self, message: str, *, code: str | None = None, diagnostics: Sequence[Any] = ()) -> None:
        super().__init__(message, code=code)
        self.diagnostics = list(diagnostics)


class PassRunner:
    """Runs pipelines on modules. `verify` checks the module after every pass.

    An `optimistic` runner checks only at the end, and after passes that are not part of this package. If the check fails, it runs the pipeline again
    on the original IR and checks after every pass, to name the faulty one. With instrumentation, which sees the IR between passes, it behaves like
    any other.
    """

    def __init__(
        self, state: PassState, instrumentation: Instrumentation | None = None, *, verify: bool = True, optimistic: bool = False
    ) -> None:
        self.state = state
        self.instrumentation = instrumentation or Instrumentation()
        self.watched = instrumentation is not None
        self.verify = verify
        self.optimistic = optimistic and verify and not self.watched
        self.level: str | None = None

    def run(self, module: ir.Module, pipeline: str | Sequence[Element], *, level: str | None = None) -> None:
        """Run `pipeline` on `module`; `level` names the phase in errors and instrumentation.

        Raises PipelineError, before anything runs, if the pipeline is invalid. A failing pass raises PassError (or the StepwellError that it raised
        itself) with the phase, the pass and its message; the module must not be used afterwards.
        """
        elements = parse_pipeline(pipeline) if isinstance(pipeline, str) else list(pipeline)
        context = module.context
        planned = [(step, _plan(step, context)) for step in flatten(elements)]
        self.state.weights.keep_all()  # the IR of the level above may be inspected again
        self.level = level
        with tracebacks():
            self._run_all(planned, module, level)

    def _run_all(self, planned: "Sequence[tuple[Step, Action]]", module: ir.Module, level: str | None) -> None:
        if self.optimistic:
            given, budget, choices = module.operation.clone(), replace(self.state.budget), self.state.choices.copy()
            try:
                self._run_quickly(planned, module)
            except LimitError:
                raise
            except Exception as error:
                self.state.budget, self.state.choices = budget, choices
                self._run(planned, given, level)
                raise PassError(f"{f'level {level}: ' if level else ''}{error} (it went well when it was tried again)") from error
        else:
            self._run(planned, module, level)

    def _run_quickly(self, planned: "Sequence[tuple[Step, Action]]", module: ir.Module) -> None:
        for step, action in planned:
            self._run_step(step, action, module)
            if not type(action).__module__.startswith(_OWN):
                _verify(module)
        _verify(module)

    def _run(self, planned: "Sequence[tuple[Step, Action]]", module: Any, level: str | None) -> None:
        self.instrumentation.begin(self.state)
        for index, (step, action) in enumerate(planned):
            rest = format_pipeline([s for s, _ in planned[index:]])
            self.instrumentation.before(step, module, level, rest)
            if self.watched:  # observers may keep the IR
                self.state.weights.keep_all()
            try:
                clock = stopwatch()
                self._run_step(step, action, module)
                seconds = clock()
                if self.verify:
                    _verify(module)
            except Exception as error:  # for any exception of a pass, the user learns the name of the pass
                raise self._failure(step, level, error) from error
            self.instrumentation.after(step, module, level, seconds)

    def _run_step(self, step: Step, action: "Action", module: Any) -> None:
        self.state.budget.check_time(f"before pass '{step.name}'")
        self.state.running = step.name
        record = recorder()
        with module.context, module.operation.location:
            if record is not None:
                text = module.operation.get_asm(enable_debug_info=True)
                IRFiles().write(record.folder / IR, text, self.state.weights, used_weights(module))
                record.before_pass(step, self.level, action)

            def act() -> None:
                if not isinstance(action, Pass):
                    action.run(module.operation)
                    return
                for op in _targets(module.operation, step.path, action.anchor):
                    if record is not None:
                        record.on_function(op)
                    action.run(op, self.state)

            named(f"pass '{step.name}'{f' of level {self.level}' if self.level else ''}", act)
        drop_unused_weights(module, self.state.weights)

    def _failure(self, step: Step, level: str | None, error: Exception) -> StepwellError:
        where = f"{f'level {level}, ' if level else ''}pass '{step.name}'"
        if isinstance(error, StepwellError):
            line = plugin_line(error) if type(error) is StepwellError else ""  # any exception, such as one of the bindings for an unknown op
            failure = _reworded(error, f"{where}: {error.args[0]}{line}")
        elif isinstance(error, ir.MLIRError):
            failure = DiagnosedError(f"{where}: {describe_diagnostics(error)}", diagnostics=error.error_diagnostics)
        else:
            failure = PassError(f"{where}: {type(error).__name__}: {error}{plugin_line(error)}")
        note = self.instrumentation.failed(step, failure)
        return _reworded(failure, f"{failure.args[0]}; {note}") if note else failure


def _plan(step: Step, context: ir.Context) -> "Action":
    """The function that runs a step: our pass, or a pass manager for upstream's. Raises PipelineError if the pass does not exist."""
    cls = find_pass(step.name)
    if cls is not None:
        inner = step.path[-1] if step.path else MODULE
        if inner != cls.anchor and inner not in (MODULE, ANY):
            raise PipelineError(f"pass '{step.name}' runs on {cls.anchor} and cannot be nested in {inner}")
        return cls.with_options({name: plain_value(value) for name, value in step.element.options.items()})
    return manager_of(step, context)


def _targets(op: ir.Operation, path: tuple[str, ...], anchor: str) -> list[ir.Operation]:
    """The operations below `op` that a pass nested in `path` runs on."""
    found = [op]
    for name in path:
        found = [inner for outer in found for inner in _children(outer) if name in (inner.name, ANY)]
    inner = path[-1] if path else MODULE
    if inner != anchor:  # a function pass nested directly in a module runs on every function
        found = [child for outer in found for child in (_children(outer) if outer.name != anchor else [outer]) if child.name == anchor]
    return found


def _children(op: ir.Operation) -> list[ir.Operation]:
    return [inner.operation for region in op.regions for block in region.blocks for inner in block.operations]


def _verify(module: Any) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise DiagnosedError(f"left IR that does not verify: {describe_diagnostics(error)}", diagnostics=error.error_diagnostics) from None


def _reworded(error: StepwellError, message: str) -> StepwellError:
    if isinstance(error, DiagnosedError):
        return DiagnosedError(message, code=error.code, diagnostics=error.diagnostics)
    return type(error)(message, code=error.code, details=error.details)


def describe_diagnostics(error: ir.MLIRError) -> str:
    """The diagnostics of an error of the bindings as `location: message`, joined by `; `, each with its op."""
    return "; ".join(map(_describe, error.error_diagnostics)) or str(error).strip()


def _describe(diagnostic: Any) -> str:
    # Often only a note, which prints the whole op, tells which op is meant.
    notes = [note.message for note in diagnostic.notes if note.message.startswith("see current operation:")]
    found = re.search(r'"?([a-z_]\w*\.[\w.]+)"?', notes[0].partition(":")[2]) if notes else None
    about = f"'{found.group(1)}': " if found and found.group(1) not in diagnostic.message else ""
    return f"{diagnostic.location}: {about}{diagnostic.message}"
