"""stepwell diff: shows how the IR of two files differs, ignoring value numbers and locations."""

import argparse

from stepwell.cli.common import FAULT, OK, Parser, number, write_text
from stepwell.cli.compile_options import add_common_options, load_plugins

DESCRIPTION = """Show how the IR of two files differs, function by function, ignoring numbers of values, labels of blocks and locations.

Exit status: 0 no difference, 1 a difference (or a file is at fault), 2 the command line is at fault."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell diff`."""
    add = parser.add_argument
    add("before", metavar="A.mlir", help="a file of IR; - reads standard input")
    add("after", metavar="B.mlir", help="another one")
    add("-U", "--unified", type=number(0, 10**6), default=3, metavar="N", help="how many lines to show around a difference (default: 3)")
    add("--allow-unregistered-dialect", action="store_true", help="accept ops of dialects that nobody has defined")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError or OSError."""
    load_plugins(options)
    from stepwell.cli.files import read_text
    from stepwell.dialects.core.mlir import make_context, parse_module
    from stepwell.passes.framework.ir_diff import ir_diff, text_of

    def text(file: str) -> str:
        context = make_context()
        context.allow_unregistered_dialects = options.allow_unregistered_dialect
        return text_of(parse_module(read_text(file), context, file))

    difference = ir_diff(text(options.before), text(options.after), (options.before, options.after), options.unified)
    write_text(difference)
    return FAULT if difference else OK
