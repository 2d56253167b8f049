"""stepwell bisect: finds the pass, then the kernel or op, that changes a model's results."""

import argparse
import sys

from stepwell.cli.common import FAULT, OK, Parser, UsageError, number
from stepwell.cli.compile_options import add_input_options, add_model_options
from stepwell.cli.display import Progress, print_table, say
from stepwell.cli.session import Session
from stepwell.passes.framework.levels import LevelPath

DESCRIPTION = """Find the pass, then the kernel or op, that makes a model's results differ from the definitions of its ops.

The IR between passes is interpreted, down to the last level for which that is possible; then the code of each kernel is compared with
the interpretation. Exit status: 0 nothing is wrong, 1 something is (or the model is at fault), 2 the command line is at fault."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell bisect`."""
    add_model_options(parser)
    add_input_options(parser)
    add = parser.add_argument
    add("--seed", type=number(0, 2**31), default=0, metavar="N", help="what the random data of other inputs begin with (default: 0)")
    add("--tolerance", type=float, metavar="X", help="how far results may be apart, relative to their scale (default: by their type)")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""

    def check_levels(path: LevelPath) -> None:
        if options.start not in (None, *path.interpretable):
            raise UsageError(f"--from {options.start}: expected one of {', '.join(path.interpretable)}, whose IR has a meaning that can be run")

    session = Session(options, check_levels)
    from stepwell.analysis.bisect import bisect
    from stepwell.cli.checks import MEASURES, verdict
    from stepwell.cli.inputs import gather
    from stepwell.signature import TensorInfo

    with Progress(doing="import"):
        lowered = session.start()
    infos = [TensorInfo.from_type(name, kind, lowered.info.any_integers) for name, kind in lowered.info.inputs]
    inputs = gather(options.input, infos, options.seed, extreme=options.inputs == "extreme")
    if not all(kind.is_static for _, kind in lowered.info.inputs):  # the data determine the dynamic sizes
        lowered = session.start({name: array.shape for name, array in inputs.items()})
    with session.watched() as instrumentation:
        session.progress.say("bisect")
        found = bisect(lowered, inputs, threads=options.threads, tolerance=options.tolerance, instrumentation=instrumentation)
    session.explain()
    if found is None:
        say("no pass changes what the model means, and its code gives what that is")
        return OK
    print_table(("output", *MEASURES), [verdict(check) for check in found.outputs])
    if found.note:
        say(f"{found.note}\n")
    say(f"stepwell bisect: error: the first that is wrong: {found}", file=sys.stderr)
    return FAULT
