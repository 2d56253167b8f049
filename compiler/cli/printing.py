"""The options that print IR between passes, for stepwell-opt and the commands that compile."""

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING

from stepwell.cli.common import Parser, UsageError

if TYPE_CHECKING:
    from stepwell.passes.framework.instrumentation import PrintIR, PrintOptions

PREFIX = "mlir-"
"""The prefix of these options where users of mlir-opt expect it."""


def add_print_options(parser: Parser, prefix: str = "") -> None:
    """Add `--print-ir-…`, with a prefix as in mlir-opt; `--print-ir-diff`, which mlir-opt lacks, has none."""
    add = parser.add_argument
    for when in ("before", "after"):
        text = f"print the IR {when} each pass to standard error"
        add(f"--{prefix}print-ir-{when}-all", dest=f"print_ir_{when}_all", action="store_true", help=text)
        text = f"print the IR {when} passes of this name to standard error; may be repeated"
        add(f"--{prefix}print-ir-{when}", dest=f"print_ir_{when}", action="append", default=[], metavar="PASS", help=text)
    text = "print the IR after a pass only if it changed something; of all passes if none is named"
    add(f"--{prefix}print-ir-after-change", dest="print_ir_after_change", action="store_true", help=text)
    text = "print what a pass changed in the place of all IR after it; renumbered values and locations are no change"
    add("--print-ir-diff", action="store_true", help=text)


def printing(options: argparse.Namespace) -> bool:
    """Whether any IR is to be printed."""
    given = (options.print_ir_before_all, options.print_ir_after_all, options.print_ir_after_change, options.print_ir_diff)
    return any(given) or bool(options.print_ir_before or options.print_ir_after)


def printer(options: argparse.Namespace, names: Collection[str], how: "PrintOptions | None" = None, prefix: str = "") -> "PrintIR | None":
    """The printer of IR between the passes `names` as the options demand, or None. Raises UsageError for a pass that is not run."""
    if not printing(options):
        return None
    from stepwell.passes.framework.instrumentation import PrintIR  # imported here, because it loads the bindings
    from stepwell.passes.framework.upstream import did_you_mean

    for when in ("before", "after"):
        for name in getattr(options, f"print_ir_{when}"):
            if name not in names:
                raise UsageError(f"--{prefix}print-ir-{when} {name}: no pass of that name is run{did_you_mean(name, names)}")
    every = options.print_ir_after_all or ((options.print_ir_after_change or options.print_ir_diff) and not options.print_ir_after)
    return PrintIR(
        before=options.print_ir_before_all or options.print_ir_before, after=every or options.print_ir_after,
        only_changes=options.print_ir_after_change, differences=options.print_ir_diff, options=how,
    )  # fmt: skip
