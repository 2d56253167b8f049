"""stepwell-opt: runs our and upstream's passes on a file of IR and prints the result."""

import argparse
import sys
from collections.abc import Sequence

from stepwell.cli import common
from stepwell.cli.common import (
    OK,
    Parser,
    UsageError,
    add_explain_option,
    check_target,
    guarded,
    number,
    protect_explain,
    run_program,
    version_line,
)
from stepwell.cli.compile_options import SHARED, add_flags, load_plugins
from stepwell.cli.display import say
from stepwell.cli.printing import PREFIX, add_print_options

DESCRIPTION = """Run passes on a file of MLIR and print the result.

Every pass, ours and upstream's, is an option of its name, in the order of the command line:
  stepwell-opt --fold-constants --fold-batch-norm='max-bytes=4096' --canonicalize net.mlir
A pipeline mixes and nests both:
  stepwell-opt --pass-pipeline='builtin.module(fuse-operators,func.func(canonicalize,cse))' net.mlir
Exit status: 0 fine, 1 the IR or a pass is at fault, 2 the command line is."""


def make_parser() -> Parser:
    """The options that are not passes."""
    parser = Parser(prog="stepwell-opt", description=DESCRIPTION, usage="stepwell-opt [FILE] [--PASS[=OPTIONS] …] [options]")
    add = parser.add_argument
    add("file", nargs="?", default="-", metavar="FILE", help="the IR; - (the default) reads standard input")
    add("-o", dest="output", default="-", metavar="FILE", help="where to write (default: standard output); weights go beside it")
    add("--pass-pipeline", metavar="TEXT", help="the passes to run, in MLIR's pipeline syntax; a stage's name (graph-opt) is all of its passes")
    add("--load", action="append", default=[], metavar="FILE.py", help="run a plugin first; may be repeated")
    add("--weights", metavar="FILE", help="the weight table (default: FILE.safetensors beside FILE.mlir)")
    add_flags(parser, SHARED)
    add("--split-input-file", action="store_true", help="treat the pieces between lines of '// -----' one by one")
    add(
        "--verify-diagnostics", choices=("all", "only-expected"), metavar="all|only-expected",
        help="compare diagnostics with the comments expected-error, -warning, -note and -remark {{text}}; all unless =only-expected is added",
    )  # fmt: skip
    add("--allow-unregistered-dialect", action="store_true", help="accept ops of dialects that nobody has defined")
    add_print_options(parser, PREFIX)
    add("--mlir-print-op-generic", action="store_true", help="print ops in their generic form")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-elide-elementsattrs-if-larger", type=number(0, 2**31), metavar="N", help="print '...' for attributes of more than N elements")
    add("--mlir-timing", dest="time_passes", action="store_true", help="print the time of each pass to standard error")
    add("--mlir-pass-statistics", dest="pass_statistics", action="store_true", help="print what our passes counted to standard error")
    add_explain_option(parser)
    add("--dump-ir", metavar="DIR", help="write the IR after each pass to a numbered file in DIR")
    add("--reproducer", metavar="FILE", help="if a pass fails, write the IR before it, with the passes still to run, to FILE")
    add("--list-passes", action="store_true", help="list all passes with their options and exit")
    add("--show-dialects", action="store_true", help="list our dialects' ops and the names of upstream's dialects and exit")
    add("--traceback", action="store_true", help="on an error print the Python traceback too")
    add("--version", action="store_true", help="print the version and exit")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return run_program("stepwell-opt", _parse_and_run, arguments)


def _parse_and_run(given: Sequence[str]) -> int:
    parser = make_parser()
    rest, flags = split_pass_flags(parser, protect_explain(given))
    options = parser.parse_args(rest)
    return guarded("stepwell-opt", lambda: run(options, flags), show_traceback=options.traceback)


def split_pass_flags(parser: Parser, arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Separate the options that are passes, as (name, options) in order, from the arguments that `parser` knows."""
    # argparse would take an option with a space in its value for a file, so these are removed first.
    rest: list[str] = []
    flags: list[tuple[str, str]] = []
    for i, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if argument == "--":
            return rest + list(arguments[i:]), flags
        if name.startswith("--") and name not in parser.option_names:
            flags.append((name[2:], value))
        else:
            rest.append("--verify-diagnostics=all" if argument == "--verify-diagnostics" else argument)
    return rest, flags


def run(options: argparse.Namespace, flags: Sequence[tuple[str, str]]) -> int:
    """Run the tool with these options."""
    if options.version:
        say(version_line("stepwell-opt"))
        return OK
    if common.is_program:
        from stepwell.cli.crashes import watch_for_crashes

        watch_for_crashes("stepwell-opt")
    import stepwell.passes  # noqa: F401  (registers the built-in passes)

    load_plugins(options)
    check_target(options.target)
    if options.list_passes or options.show_dialects:
        from stepwell.cli import listing

        say(listing.passes_text() if options.list_passes else listing.dialects_text(), end="")
        return OK
    from stepwell.cli.optimize import optimize

    return optimize(options, pipeline_of(options, flags))


def pipeline_of(options: argparse.Namespace, flags: Sequence[tuple[str, str]]) -> str:
    """The pipeline that the command line describes. Raises UsageError or PipelineError."""
    from stepwell.passes.framework.pipeline import Element, flatten, format_pipeline, parse_options, parse_pipeline
    from stepwell.passes.framework.registry import passes
    from stepwell.passes.framework.upstream import did_you_mean, upstream_passes
    from stepwell.pipelines.pipeline import expanded

    if options.pass_pipeline is not None:
        if flags:
            raise UsageError(f"--{flags[0][0]} cannot be combined with --pass-pipeline, as their order is not known")
        return format_pipeline(flatten(expanded(parse_pipeline(options.pass_pipeline), options.target or "host")))
    elements = []
    for name, text in flags:
        anchor = passes()[name].anchor if name in passes() else upstream_passes().get(name)
        if anchor is None:
            raise UsageError(f"unknown option or pass --{name}{did_you_mean(name)}")
        element = Element(name, parse_options(text))
        # As in mlir-opt: a function pass named alone runs on all functions.
        elements.append(element if anchor == "builtin.module" else Element(anchor, nested=(element,)))
    return format_pipeline(elements)


if __name__ == "__main__":
    sys.exit(main())
