"""What can watch a run of passes: timing, printing, dumps and reproducers."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from stepwell.dialects.files import write_atomically
from stepwell.dialects.mlir import ir
from stepwell.passes.pipeline import Step


@dataclass(frozen=True)
class PrintOptions:
    """How IR is printed."""

    generic: bool = False
    locations: bool = False
    large_elements: int | None = None  # attributes with more elements are elided

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
    """Base of what watches a run: every hook does nothing unless overridden."""

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        """Called before a pass; `rest` is the pipeline from this pass on."""

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        """Called after a pass that went well, and after its result was verified; `seconds` is the pass alone."""

    def failed(self, step: Step, error: Exception) -> str | None:
        """Called when a pass failed; returns what to add to the error's message, such as where the IR before it was written."""


class Instruments(Instrumentation):
    """Several instrumentations as one."""

    def __init__(self, *parts: Instrumentation) -> None:
        self.parts = parts

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
    """One pass of a run and the seconds it took."""

    step: Step
    level: str | None
    seconds: float


class PassTimings(Instrumentation):
    """Collects the time of each pass, in order of execution; verification and other instrumentation not included."""

    def __init__(self) -> None:
        self.entries: list[Timing] = []

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        self.entries.append(Timing(step, level, seconds))

    def report(self) -> str:
        """A table of all passes, in order, with the share of each in the total."""
        total = sum(entry.seconds for entry in self.entries)
        lines = [f"{'seconds':>9}  share  pass"]
        lines += [f"{e.seconds:9.4f}  {e.seconds / total if total else 0:5.1%}  {_levelled(e)}" for e in self.entries]
        return "\n".join([*lines, f"{total:9.4f}  total of {len(self.entries)} passes", ""])


def _levelled(entry: Timing) -> str:
    return f"{entry.step}" + (f" ({entry.level})" if entry.level else "")


class PrintIR(Instrumentation):
    """Prints the IR before and/or after every pass."""

    def __init__(self, stream: TextIO | None = None, *, before: bool = False, after: bool = True, options: PrintOptions | None = None) -> None:
        self.stream = stream
        self.print_before, self.print_after = before, after
        self.options = options or PrintOptions()

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        if self.print_before:
            self._print("before", step, module, level)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        if self.print_after:
            self._print("after", step, module, level)

    def _print(self, when: str, step: Step, module: ir.Module, level: str | None) -> None:
        stream = sys.stderr if self.stream is None else self.stream
        stream.write(f"// -----// IR Dump {when.capitalize()} {step}{f' ({level})' if level else ''} //----- //\n{self.options.text(module)}\n")


class DumpIR(Instrumentation):
    """Writes the IR after every pass to a numbered file in a folder: `003_fold-constants.mlir`; `000_input.mlir` is what came in.

    When a pass fails, `reproducer.mlir` gets the IR before it, with the pipeline that was left to run.
    """

    def __init__(self, folder: str | os.PathLike[str], options: PrintOptions | None = None) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.options = options or PrintOptions(locations=True)
        self.number = 0
        self.last: Path | None = None
        self.rest = ""

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        self.rest = rest
        if self.last is None:
            self._write("input", module)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        self.number += 1
        self._write(step.name, module)

    def failed(self, step: Step, error: Exception) -> str | None:
        text = "" if self.last is None else self.last.read_text()
        return _write_reproducer(self.folder / "reproducer.mlir", text, self.rest, error)

    def _write(self, name: str, module: ir.Module) -> None:
        self.last = self.folder / f"{self.number:03}_{name}.mlir"
        write_atomically(self.last, self.options.text(module))


class Reproducer(Instrumentation):
    """When a pass fails, writes the IR before it with the pipeline still to run, as a file that `stepwell-opt` runs again."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = Path(file)
        self.text = ""
        self.rest = ""

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        # Taken now: a failing pass leaves the module half changed.
        self.text, self.rest = PrintOptions(locations=True).text(module), rest

    def failed(self, step: Step, error: Exception) -> str | None:
        return _write_reproducer(self.file, self.text, self.rest, error)


def _write_reproducer(file: Path, text: str, pipeline: str, error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0]
    write_atomically(file, f"// stepwell-opt --pass-pipeline='{pipeline}' {file.name}\n// fails with: {said}\n{text}")
    return f"reproducer: {file}"


def stopwatch() -> Callable[[], float]:
    """A function that gives the seconds since this call."""
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin
