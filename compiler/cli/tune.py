"""stepwell tune: measures other choices of a compilation, and writes a plan with those that are faster."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.cli import common
from stepwell.cli.common import OK, Parser, UsageError, number
from stepwell.cli.compile_options import add_compile_options, compile_options, load_plugins
from stepwell.cli.display import Progress as Doing, plural, print_table, say, seconds
from stepwell.cli.pool_options import add_pool_options, check_pool_options, executor_of
from stepwell.dialects.target.cores import MAX_THREADS

if TYPE_CHECKING:
    import numpy as np

    from stepwell.options import CompileOptions
    from stepwell.tuning.tuner import Tuned

DESCRIPTION = """Search schedules, algorithms and fusions for faster ones, measure them in the network, and write a plan with the confirmed ones.

The plan changes no bit of the results, unless --allow-rounding says so. Nothing else should run on the machine. Ctrl-C ends the search and keeps
what is confirmed. Exit status: 0 fine, also if nothing is faster than the default; 1 the model or the machine is at fault, 2 the command line is."""
BUDGET = "10m"
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
FLOORS = ("schedule", "algorithm", "graph")
SHOWN = 20
"""The largest number of decisions that are listed."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell tune`."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file, or one of a format that a plugin reads")
    add("-o", "--output", metavar="FILE", help="write the plan here (default: MODEL.plan.json in the current folder)")
    add("--budget", default=BUDGET, metavar="TIME", help=f"how long it may take, such as 30s, 10m or 2h (default: {BUDGET})")
    add("--threads", type=number(1, MAX_THREADS), default=1, metavar="N", help="the number of threads of the runs that the plan is for (default: 1)")
    add("--input", action="append", default=[], metavar="NAME=DATA", help="the data of the runs, as for stepwell run (default: random)")
    add("--allow-rounding", action="store_true", help="also try candidates that may change the last digits of results")
    add("--floor", choices=FLOORS, action="append", default=[], help="search only this kind of sites; may be repeated")
    add("--strategy", default="annealing", metavar="NAME", help="annealing, genetic, droplet, random, exhaustive, or a plugin's (default: annealing)")
    add("--seed", type=number(0, 2**31), default=0, metavar="N", help="what random numbers begin with (default: 0)")
    add("--again", action="store_true", help="search anew even if earlier runs used the budget up")
    add("--report", metavar="FILE.html", help="write a page with pictures of the run")
    add("--quiet", action="store_true", help="show no progress")
    add_compile_options(parser)
    add_pool_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""
    budget, output = parse_time(options.budget), Path(options.output or f"{Path(options.model).stem}.plan.json")
    for name, file in (("-o", output), ("--report", Path(options.report or output))):
        if not file.absolute().parent.is_dir():
            raise UsageError(f"{name} {file}: there is no folder {file.parent}")
    check_pool_options(options)
    load_plugins(options)
    how = compile_options(options)
    from stepwell.dialects.sched.plan_file import Plan
    from stepwell.tuning.live import Progress
    from stepwell.tuning.tune import Observers, tune

    if options.report is not None:
        from stepwell.tuning.report import check_report

        check_report()
    inputs = _inputs(options, how) if options.input else None
    with executor_of(options) as executor, Progress(quiet=options.quiet) as progress:
        result = tune(
            options.model, budget=budget, threads=options.threads, inputs=inputs, seed=options.seed, strategy=options.strategy,
            rounding=options.allow_rounding, floors=tuple(options.floor or FLOORS), again=options.again, executor=executor,
            observers=Observers(progress.update, lambda plan: plan.write(output)), command=_command(), options=how,
        )  # fmt: skip
    (result.plan or Plan({}, "no plan")).write(output)  # a file in any case, for scripts that go on with it
    if options.report is not None:
        from stepwell.tuning.report import save_report

        save_report(options.report, result.story)
    _say(result, output)
    return OK


def parse_time(text: str) -> float:
    """Seconds of a time such as `30s`, `10m` or `2h`. Raises UsageError."""
    digits, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(digits) * UNITS[unit]
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"--budget {text}: expected a time such as 30s, 10m or 2h")
    return value


def _inputs(options: argparse.Namespace, how: "CompileOptions") -> "dict[str, np.ndarray]":
    """The data of the runs, as the options say."""
    from stepwell.cli.inputs import gather
    from stepwell.driver.lowering import import_source
    from stepwell.signature import TensorInfo

    with Doing(doing="import"):
        imported, _ = import_source(options.model, how)
    return gather(options.input, [TensorInfo.from_type(name, kind) for name, kind in imported.inputs], options.seed)


def _command() -> str:
    """The command line, for the report."""
    return shlex.join(["stepwell", *sys.argv[1:]]) if common.is_program else ""


def _say(result: "Tuned", output: Path) -> None:
    """Print what was found."""
    from stepwell.tuning.story import Outcome

    story = result.story
    confirmed = sorted((site for site in story.sites if site.outcome == Outcome.CONFIRMED), key=lambda site: -(site.saved or 0.0))
    rows = [
        [site.kind, site.name, ", ".join(site.nodes[:3]), str(site.best), "" if site.saved is None else seconds(site.saved), site.chosen]
        for site in confirmed[:SHOWN]
    ]
    if rows:
        print_table(("kind", "site", "nodes", "time to the default's", "saved", "chosen"), rows, numbers=(3, 4))
    for fault in story.faults:
        say(f"fault of the compiler: {fault.kind}/{fault.site}: {fault.text}: {fault.state}: {fault.message}", file=sys.stderr)
    for note in story.notes:
        say(note)
    tried = sum(site.tried for site in story.sites)
    if result.plan is None or result.ratio is None:
        say(f"{output}: empty; {plural(tried, 'candidate')} of {plural(len(story.sites), 'site')} were tried, none was confirmed to be faster")
        return
    if result.status == "recorded":
        say("from the records of earlier runs, which used the budget up: a larger --budget goes on, --again starts anew")
    found = f"{plural(len(confirmed), 'decision')} of {plural(tried, 'candidate')}"
    say(f"{output}: the network takes {result.ratio} of the untuned one's time; {found}")
