"""Instrumentation of a run of passes: timing, printing, dumps and reproducers."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.weights import WeightTable
from stepwell.passes.framework.ir_diff import ir_diff, text_of
from stepwell.passes.framework.ir_files import IRFiles, used_weights
from stepwell.passes.framework.pipeline import Step, format_pipeline, parse_pipeline
from stepwell.passes.framework.registry import PassState


@dataclass(frozen=True)
class PrintOptions:
    """How IR is printed."""

    generic: bool = False
    locations: bool = False
    large_elements: int | None = None  # elide attributes with more elements

    def text(self, module: ir.Module) -> str:
        """The module's text, with a newline at its end."""
        text: str = module.operation.get_asm(
            print_generic_op_form=self.generic,
            enable_debug_info=self.locations,
            large_elements_limit=self.large_elements,
            assume_verified=not self.generic,
        )
        return text if text.endswith("\n") else text + "\n"


class Instrumentation:
    """Base class for observers of a run: every hook does nothing unless overridden."""

    def begin(self, state: PassState) -> None:
        """Called before the first pass of a pipeline, with the state that the passes share, such as weights and decisions."""

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        """Called before a pass; `rest` is the pipeline from this pass on."""

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        """Called after a pass succeeded and its result was verified; `seconds` is the time of the pass alone."""

    def failed(self, step: Step, error: Exception) -> str | None:
        """Called when a pass failed. Returns a text to append to the error's message, such as where the IR before it was written."""


class Instruments(Instrumentation):
    """Several instrumentations as one."""

    def __init__(self, *parts: Instrumentation) -> None:
        self.parts = parts

    def begin(self, state: PassState) -> None:
        for part in self.parts:
            part.begin(state)

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        for part in self.parts:
            part.before(step, module, level, rest)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        for part in self.parts:
            part.after(step, module, level, seconds)

    def failed(self, step: Step, error: Exception) -> str | None:
        notes = [note for part in self.parts if (note := part.failed(step, error)) is not None]
        return "; ".join(notes) or None


@dataclass(frozen=True)
class Timing:
    """One pass of a run and its time in seconds."""

    step: Step
    level: str | None
    seconds: float


class PassTimings(Instrumentation):
    """Collects the time of each pass, in order of execution, without verification and other instrumentation."""

    def __init__(self) -> None:
        self.entries: list[Timing] = []

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        self.entries.append(Timing(step, level, seconds))

    def report(self) -> str:
        """A table of all passes, in order, with each one's share of the total."""
        total = sum(entry.seconds for entry in self.entries)
        lines = [f"{'seconds':>9}  share  pass"]
        lines += [f"{e.seconds:9.4f}  {e.seconds / total if total else 0:5.1%}  {e.step}{f' ({e.level})' if e.level else ''}" for e in self.entries]
        return "\n".join([*lines, f"{total:9.4f}  total of {len(self.entries)} passes", ""])


class Changes(Instrumentation):
    """Records for each pass, in order of execution, its time in seconds and whether it changed the IR."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, bool]] = []
        self._text: str | None = None

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        if self._text is None:
            self._text = PrintOptions().text(module)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        text = PrintOptions().text(module)
        self.entries.append((seconds, text != self._text))
        self._text = text


class Statistics(Instrumentation):
    """The counters of passes, by name."""

    def __init__(self) -> None:
        self.counts: Mapping[str, int] = {}

    def begin(self, state: PassState) -> None:
        self.counts = state.statistics


class PrintIR(Instrumentation):
    """Prints the IR before and/or after passes: all of them, or those with these names.

    `only_changes` prints only after passes that changed something; `differences` prints the changes, ignoring renumbered values.
    """

    def __init__(
        self, stream: TextIO | None = None, *, before: bool | Collection[str] = False, after: bool | Collection[str] = True,
        only_changes: bool = False, differences: bool = False, options: PrintOptions | None = None,
    ) -> None:  # fmt: skip
        self.stream = stream
        self.wanted = {"before": before, "after": after}
        self.only_changes, self.differences = only_changes or differences, differences
        self.options = options or PrintOptions()
        self._text = ""

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        if self._wants("before", step):
            self._print("before", step, self.options.text(module), level)
        if self.only_changes and self._wants("after", step):
            self._text = text_of(module, generic=self.options.generic)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        if not self._wants("after", step):
            return
        if not self.only_changes:
            self._print("after", step, self.options.text(module), level)
            return
        difference = ir_diff(self._text, text_of(module, generic=self.options.generic), (f"before {step}", f"after {step}"))
        if difference:
            self._print("after", step, difference if self.differences else self.options.text(module), level)

    def _wants(self, when: str, step: Step) -> bool:
        wanted = self.wanted[when]
        return wanted if isinstance(wanted, bool) else step.name in wanted

    def _print(self, when: str, step: Step, text: str, level: str | None) -> None:
        stream = sys.stderr if self.stream is None else self.stream
        what = "IR Difference" if when == "after" and self.differences else "IR Dump"
        stream.write(f"// -----// {what} {when.capitalize()} {step}{f' ({level})' if level else ''} //----- //\n{text}\n")


@dataclass(frozen=True)
class Flags:
    """The arguments, apart from the file, of the commands in written files, quoted for a shell."""

    opt: str = ""
    """For `stepwell-opt`."""
    run: Callable[[str], str] = lambda level: ""
    """For `stepwell run --from LEVEL`."""


class Reproducer(Instrumentation):
    """Writes the IR before a failing pass with the rest of the pipeline, as a file that `stepwell-opt` can run."""

    def __init__(self, file: str | os.PathLike[str], flags: Flags | None = None) -> None:
        self.file = Path(file)
        self.flags = flags or Flags()
        self.text = ""
        self.rest = ""
        self._used: set[str] = set()
        self._files = IRFiles()
        self._weights = WeightTable()

    def begin(self, state: PassState) -> None:
        self._weights = state.weights

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        # Printed now, because a failing pass leaves the module half changed.
        self.text, self.rest, self._used = PrintOptions(locations=True).text(module), rest, used_weights(module)

    def failed(self, step: Step, error: Exception) -> str | None:
        said = (str(error).splitlines() or [""])[0]
        command = _opt_command(self.file, self.rest, self.flags)
        self._files.write(self.file, f"// {command}\n// fails with: {said}\n{self.text}", self._weights, self._used)
        return f"reproducer: {self.file}; run it with: {command}"


class DumpIR(Reproducer):
    """Writes the IR after every pass to a numbered file in a folder: `003_fold-constants.mlir`; `000_input.mlir` is the input.

    The weights that a file uses are written beside it, and its first lines say how to continue from it. When a pass fails, `reproducer.mlir` gets the
    IR before it, with the rest of the pipeline.
    """

    def __init__(self, folder: str | os.PathLike[str], options: PrintOptions | None = None, flags: Flags | None = None) -> None:
        super().__init__(Path(folder) / "reproducer.mlir", flags)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.options = options or PrintOptions(locations=True)
        self.number = 0

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        self.rest = rest
        if not self.text:
            self._write("input", module, level, rest)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        self.number += 1
        self._write(step.name, module, level, format_pipeline(parse_pipeline(self.rest)[1:]))

    def _write(self, name: str, module: ir.Module, level: str | None, rest: str) -> None:
        self.text, self._used = self.options.text(module), used_weights(module)
        file = self.file.with_name(f"{self.number:03}_{name}.mlir")
        commands, result = [], file
        if rest:
            result = self.file.with_name(f"{level or 'result'}.mlir")
            commands.append(f"{_opt_command(file, rest, self.flags)} -o {_quoted(result)}")
        if level is not None:
            flags = self.flags.run(level)
            commands.append(f"stepwell run --from {level}{f' {flags}' if flags else ''} {_quoted(result)}")
        self._files.write(file, "".join(f"// {command}\n" for command in commands) + self.text, self._weights, self._used)


def _quoted(file: Path) -> str:
    """The name quoted for a shell. Bytes that are not Unicode cannot be written to a file of IR and are replaced."""
    return shlex.quote(str(file)).encode(errors="replace").decode()


def _opt_command(file: Path, pipeline: str, flags: Flags) -> str:
    return f"stepwell-opt --pass-pipeline='{pipeline}'{f' {flags.opt}' if flags.opt else ''} {_quoted(file)}"


def stopwatch() -> Callable[[], float]:
    """A function that returns the seconds since this call."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin
