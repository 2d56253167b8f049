"""stepwell inspect: shows the parts of a model, and everything in it that is not supported."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stepwell.cli.common import FAULT, OK, Parser, UsageError, add_explain_option
from stepwell.cli.compile_options import add_compile_options, add_records_threads, compile_options, load_plugins
from stepwell.cli.display import Progress, plural, print_table, quantity, say
from stepwell.cli.plan_in_use import show_plan_in_use
from stepwell.cli.shapes import parse_given, shown_free_sizes
from stepwell.dialects.support.errors import UnsupportedError

if TYPE_CHECKING:
    from stepwell.border.border import Border
    from stepwell.dialects.graph import GraphOp
    from stepwell.frontends.base import ImportedModel
    from stepwell.options import CompileOptions
    from stepwell.passes.framework.instrumentation import Instrumentation
    from stepwell.pipelines.lowered import Lowered

DESCRIPTION = "Show a model's inputs, outputs, operators, arithmetic and weights, and every node that is not supported; or its plan of memory."


def add_options(parser: Parser) -> None:
    """The options of `stepwell inspect`."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, or one of a format that a plugin reads")
    parser.add_argument("--memory", action="store_true", help="show what lies where in memory, and when, instead")
    parser.add_argument("--schedules", action="store_true", help="show how each kernel of the model is computed, instead")
    text = "write the schedules of all kernels, with what is legal beside them, to FILE: to be edited and given to --plan"
    parser.add_argument("--emit-schedule", metavar="FILE", help=text)
    text = "write all choices, and the schedules of all kernels, to FILE: to be edited and given to --plan"
    parser.add_argument("--emit-plan", metavar="FILE", help=text)
    add_explain_option(parser, instead=True)
    add_compile_options(parser)
    add_records_threads(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status: 1 if something is not supported. Raises StepwellError or UsageError."""
    written = options.emit_schedule is not None or options.emit_plan is not None
    decided = options.plan is not None or options.tuning is not None
    compiles = options.schedules or written or options.explain is not None or options.memory or decided
    if not compiles and _says_how(options):
        those = "--memory, --explain, --schedules, --emit-schedule, --emit-plan, --plan or --tuning"
        raise UsageError(f"what says how to compile goes with {those}: the rest is the same for all")
    load_plugins(options)
    how = compile_options(options)
    if options.schedules or written:
        return _schedules(options, how, shows_plan=decided)
    if options.explain is not None:
        return _explain(options, how)
    if options.memory:
        return _show_plan(options, how)
    return _show_parts(options, how, shows_plan=decided)


def _show_parts(options: argparse.Namespace, how: "CompileOptions", *, shows_plan: bool) -> int:
    """Show the parts of a model, and everything that is not supported; returns the exit status, like `run`. Raises StepwellError."""
    from stepwell.dialects.core.mlir import make_context
    from stepwell.driver.lowering import import_options
    from stepwell.driver.origin import Origin
    from stepwell.frontends.loading import load_model
    from stepwell.signature import TensorInfo

    with Progress(doing="import"):
        summary = Origin(options.model).summary()
        imported, unsupported = None, None
        inputs: list[TensorInfo] = []
        try:
            imported = load_model(options.model, make_context(), import_options(how))
        except UnsupportedError as error:
            unsupported = error
    say(f"{summary.title}\n")
    if imported is not None:
        inputs, outputs = ([TensorInfo.from_type(name, kind) for name, kind in side] for side in (imported.inputs, imported.outputs))
        rows = [[kind, name, str(t)] for kind, side in (("input", imported.inputs), ("output", imported.outputs)) for name, t in side]
        if imported.border is not None:
            inputs = list(imported.border.inputs)
            sides = (("input", inputs), ("output", imported.border.described(outputs)))
            rows = [[kind, info.name, str(info)] for kind, side in sides for info in side]
    else:
        rows = [[kind, *declared] for kind, side in (("input", summary.inputs), ("output", summary.outputs)) for declared in side]
    print_table(("", "name", "type"), rows)
    free = shown_free_sizes(parse_given(options.shape), inputs)
    if free:
        say(f"free sizes: {free} (types of outputs say what follows from them)\n")
    if imported is not None and imported.is_general:
        _show_what_needs_numbers(options, how)
    numbers = [i for i in range(len(summary.columns)) if all(row[i].isdigit() or not row[i] for row in summary.operators)]
    print_table(summary.columns, summary.operators, numbers=numbers)
    if imported is not None and imported.border is not None:
        _show_border(imported.border)
    if imported is not None:
        _show_graph(imported)
    if unsupported is not None:
        details = unsupported.details or (str(unsupported.args[0]),)
        say(f"not supported ({len(details)}):")
        for detail in details:
            say(f"  {detail}")
        return FAULT
    if shows_plan:
        free_how = replace(how, specialise="never") if imported is not None and imported.is_general else how  # of code for all sizes
        show_plan_in_use(_lowered(options, free_how, "scheduled"), options.threads)
    return OK


def _show_what_needs_numbers(options: argparse.Namespace, how: "CompileOptions") -> None:
    """Report the op that keeps a model from having a shape-polymorphic program; only with plugins, since all of our own ops allow one."""
    from stepwell.dialects.support.extensions import extending_modules
    from stepwell.driver.all_sizes import no_program

    if not extending_modules():
        return
    try:
        _lowered(options, replace(how, specialise="never"), "affine")
    except UnsupportedError as error:
        say(f"{no_program(str(error.args[0]))}\n")


def _lowered(options: argparse.Namespace, how: "CompileOptions", level: str, instrumentation: "Instrumentation | None" = None) -> "Lowered":
    """A model at a level. Raises StepwellError."""
    from stepwell.driver.lowering import lower

    with Progress() as progress:
        return lower(options.model, level, options=how, threads=options.threads, on_level=progress.level, instrumentation=instrumentation)


def _says_how(options: argparse.Namespace) -> bool:
    """Whether an option affects compilation, beyond the shapes and limits of the import."""
    parser = Parser()
    add_compile_options(parser)
    usual = vars(parser.parse_args([]))
    return any(getattr(options, name) != usual[name] for name in usual.keys() - {"shape", "limit", "load", "traceback"})


def _show_plan(options: argparse.Namespace, how: "CompileOptions") -> int:
    """Show the memory plan; the model is lowered as far as needed. Raises StepwellError."""
    from stepwell.analysis.memory import memory_plan
    from stepwell.cli.memory import show_memory

    show_memory(memory_plan(_lowered(options, how, "affine").module.operation))
    return OK


def _explain(options: argparse.Namespace, how: "CompileOptions") -> int:
    """Show the decisions of passes about the model's nodes, down to the level where loops and buffers are settled. Raises StepwellError."""
    from stepwell.analysis.explain import Explanation

    explanation = Explanation()
    _lowered(options, how, "affine", explanation)
    say(explanation.text(options.explain), end="")
    return OK


def _schedules(options: argparse.Namespace, how: "CompileOptions", *, shows_plan: bool) -> int:
    """Show or write the schedules of the model's kernels."""
    from stepwell.dialects.sched.plan_file import Plan
    from stepwell.passes.schedule.assign_schedules import schedules_of
    from stepwell.passes.schedule.candidates import SCHEDULE

    if options.emit_plan is not None and how.plan is None:
        how = replace(how, plan=Plan({}))  # an empty plan, so that all candidates are considered
    lowered = _lowered(options, how, "scheduled")
    if shows_plan:
        show_plan_in_use(lowered, options.threads)
    with lowered.module.context:
        found = schedules_of(lowered.module.operation, lowered.target)
    if options.schedules:
        rows = [
            [kernel.name, digest, str(place), ", ".join(entry.nodes), str(entry.kind), "x".join(map(str, entry.sizes or ())), _knobs(entry.knobs)]
            for digest, kernel in found.kernels.items()
            for place, entry in kernel.ops.items()
        ]
        print_table(("kernel", "digest", "op", "nodes", "kind", "sizes", "schedule"), rows, numbers=(2,))
    choices = {kind: sites for kind, sites in lowered.state.choices.taken().items() if kind != SCHEDULE}  # schedules are listed by kernel
    for file, plan in ((options.emit_schedule, found), (options.emit_plan, replace(found, choices=choices))):
        if file is not None:
            plan.write(file)
            made = f"{plural(sum(map(len, plan.choices.values())), 'choice')} and " if plan.choices else ""
            say(f"{made}{plural(len(found.kernels), 'kernel')} in {file}", file=sys.stderr)
    return OK


def _knobs(values: Mapping[str, object]) -> str:
    """Knobs on one line, without steps of 1."""
    shown = {k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in values.items()}
    return " ".join(f"{k}={v}" for k, v in shown.items() if not (k.startswith("unroll.") and v == "1"))


def _show_border(border: "Border") -> None:
    """The nodes that run in Python."""
    sides = (("before what is compiled", border.before), ("behind it", border.behind))
    rows = [[where, node.name, node.operator, node.domain or "ai.onnx"] for where, nodes in sides for node in nodes]
    print_table(("runs in Python", "node", "operator", "domain"), rows)


@dataclass
class _Tally:
    """The totals for graph ops of one kind and element type."""

    count: int = 0
    flops: int = 0
    unknown: int = 0  # ops whose arithmetic depends on unknown sizes


def _show_graph(imported: "ImportedModel") -> None:
    """The histogram of graph ops by element type, with arithmetic and weights."""
    from stepwell.analysis.flops import flops_of

    tallies: dict[tuple[str, str], _Tally] = {}
    for op in _graph_ops(imported):
        types = op.result_types()
        tally = tallies.setdefault((op.mnemonic(), types[0].dtype if types else ""), _Tally())
        tally.count += 1
        amount = flops_of(op)
        tally.unknown += amount is None
        tally.flops += amount or 0
    rows = [
        [name, dtype, str(tally.count), (quantity(tally.flops, "FLOP") if tally.flops else "") + (" + unknown" if tally.unknown else "")]
        for (name, dtype), tally in sorted(tallies.items(), key=lambda entry: (-entry[1].flops, -entry[1].count, entry[0]))
    ]
    print_table(("graph op", "element type", "ops", "arithmetic"), rows, numbers=(2, 3))
    unknown = sum(tally.unknown for tally in tallies.values())
    total = quantity(sum(tally.flops for tally in tallies.values()), "FLOP")
    rest = f" and {unknown} ops of unknown sizes (--shape gives sizes to free dimensions)" if unknown else ""
    say(f"arithmetic: {total} (a multiplication and an addition are two){rest}")
    arrays = list(imported.weights.values())
    size, elements = sum(array.nbytes for array in arrays), sum(array.size for array in arrays)
    say(f"weights: {quantity(size, 'B')} in {plural(len(arrays), 'array')}, {elements} elements")


def _graph_ops(imported: "ImportedModel") -> "Iterable[GraphOp]":
    from stepwell.dialects.core.mlir import ops_below
    from stepwell.dialects.graph import GraphOp

    for op in ops_below(imported.module.operation):
        view = op.opview
        if isinstance(view, GraphOp) and view.mnemonic() not in ("constant", "parameter", "yield"):
            yield view
