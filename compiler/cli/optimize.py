"""Processes a file for stepwell-opt: reads it, runs the passes, writes the result; piece by piece if it is split."""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.analysis.explain import Explanation
from stepwell.cli.common import FAULT, OK, parse_limits, report, report_passes, write_text
from stepwell.cli.compile_options import command_flags
from stepwell.cli.diagnostics import collected, expectations, from_error, mismatches
from stepwell.cli.display import say
from stepwell.cli.files import read_text, read_weights
from stepwell.cli.printing import PREFIX, printer
from stepwell.dialects.core.diagnostics import PARSED_NAME, Diagnostic
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, IRError, PipelineError, StepwellError
from stepwell.dialects.support.files import write_atomically
from stepwell.dialects.support.limits import Budget
from stepwell.driver.lowering import resolve_ir_target
from stepwell.passes.framework.choices import Choices
from stepwell.passes.framework.instrumentation import DumpIR, Flags, Instrumentation, Instruments, PassTimings, PrintOptions, Reproducer
from stepwell.passes.framework.pipeline import flatten, parse_pipeline
from stepwell.passes.framework.registry import PassState, passes
from stepwell.passes.framework.runner import PassRunner

if TYPE_CHECKING:
    from stepwell.dialects.target.description import Target

SEPARATOR = "// -----"


def optimize(options: argparse.Namespace, pipeline: str) -> int:
    """Run `pipeline` with the options of stepwell-opt; returns the exit status. Raises StepwellError or OSError."""
    text = read_text(options.file)
    weights, weights_file = read_weights(options.file, options.weights)
    known = set(weights)
    timings, explanation = PassTimings(), Explanation()
    instruments = _instruments(options, pipeline, timings, explanation)
    plan = None if options.plan is None else Plan.from_source(options.plan)
    budget = Budget(parse_limits(options.limit), weights.nbytes)
    state = PassState(weights=weights, target=_target(options, pipeline), choices=Choices(plan), budget=budget)
    status, outputs = OK, []
    for piece, first_line in pieces(text) if options.split_input_file else [(text, 1)]:
        output, problems, error = _run_piece(options, piece, first_line, pipeline, PassRunner(replace(state, choices=Choices(plan)), instruments))
        if options.verify_diagnostics is not None:
            problems = mismatches(expectations(piece, first_line), problems, only_expected=options.verify_diagnostics == "only-expected")
        elif error is not None:
            error.args = (str(error.args[0]).replace(f'"{PARSED_NAME}":', f'"{options.file}":'),)
            report("stepwell-opt", error, show_traceback=options.traceback)
        for diagnostic in problems:
            say(diagnostic.show(options.file), file=sys.stderr)
        if (error is not None and options.verify_diagnostics is None) or any(d.kind == "error" for d in problems):
            status = FAULT
        if output is not None:
            outputs.append(output)
    report_passes(options, timings, state.statistics)
    if options.explain is not None:
        say(explanation.text(options.explain), end="", file=sys.stderr)
    if outputs and (status == OK or options.output == "-"):
        _write(options, f"{SEPARATOR}\n".join(outputs), weights, weights_file, changed=set(weights) != known)
    return status


def pieces(text: str) -> Iterator[tuple[str, int]]:
    """The pieces between separator lines, each with the number of its first line."""
    line = 1
    for piece in re.split(rf"^{re.escape(SEPARATOR)}[^\S\n]*\n", text, flags=re.MULTILINE):
        yield piece, line
        line += piece.count("\n") + 1


def _run_piece(
    options: argparse.Namespace, text: str, first_line: int, pipeline: str, runner: PassRunner
) -> tuple[str | None, list[Diagnostic], StepwellError | None]:
    """The text that one piece becomes, or None; diagnostics in order of arrival; the error of a pass."""
    context = make_context()
    context.allow_unregistered_dialects = options.allow_unregistered_dialect
    with collected(context) as found:
        try:
            module = parse_module("\n" * (first_line - 1) + text, context)  # so that line numbers are those of the file
        except IRError as error:
            return None, [*found, *error.diagnostics], None
        try:
            runner.state.target = resolve_ir_target(module, options.target, options.file) or runner.state.target
            runner.run(module, pipeline)
        except PipelineError:
            raise
        except StepwellError as error:
            explanation = from_error(error) if options.verify_diagnostics is not None else []
            return None, found + explanation, error
        return _print_options(options).text(module), found, None


def _print_options(options: argparse.Namespace) -> PrintOptions:
    return PrintOptions(options.mlir_print_op_generic, options.mlir_print_debuginfo, options.mlir_elide_elementsattrs_if_larger)


def _instruments(options: argparse.Namespace, pipeline: str, timings: PassTimings, explanation: Explanation) -> Instruments:
    parts: list[Instrumentation] = [timings, *([explanation] if options.explain is not None else [])]
    printed = printer(options, [step.name for step in flatten(parse_pipeline(pipeline))], _print_options(options), PREFIX)
    if printed is not None:
        parts.append(printed)
    unregistered = "--allow-unregistered-dialect" if options.allow_unregistered_dialect else ""
    flags = Flags(f"{command_flags(options)} {unregistered}".strip())
    if options.dump_ir is not None:
        parts.append(DumpIR(options.dump_ir, flags=flags))
    if options.reproducer is not None:
        parts.append(Reproducer(options.reproducer, flags))
    return Instruments(*parts)


def _target(options: argparse.Namespace, pipeline: str) -> "Target | None":
    """The target, if one of our passes may ask for it: querying the host takes a while."""
    if options.target is None and not any(step.name in passes() for step in flatten(parse_pipeline(pipeline))):
        return None
    from stepwell.dialects.target.registry import resolve

    return resolve(options.target or "host")


def _write(options: argparse.Namespace, text: str, weights: WeightTable, weights_file: Path | None, *, changed: bool) -> None:
    if options.output == "-":
        write_text(text)
        return
    output = Path(options.output)
    if output.suffix == ".safetensors":
        raise InputError(f"-o {output}: expected a file for IR, got the name of a weight table")
    beside = output.with_suffix(".safetensors")
    if weights and (changed or weights_file is None or beside.resolve() != weights_file.resolve()):
        weights.save(beside)
    write_atomically(output, text)
