"""stepwell tuning plot: writes the pictures and the report of a tuning run."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from stepwell.cli.common import OK, Parser, UsageError
from stepwell.cli.display import say
from stepwell.tuning.story import FORMATS

if TYPE_CHECKING:
    from stepwell.tuning.story import Story

DESCRIPTION = """Write pictures of a tuning run: convergence, predicted against measured times, confirmed gains, the A/A arm, time saved by site."""
FindStory: TypeAlias = "Callable[[str | None], Story]"
"""Finds the story of the run with an ID, or of the last run for None. Raises InputError if there is none."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell tuning plot`."""
    add = parser.add_argument
    add("--run", metavar="ID", help="the run, as `stepwell tuning show` lists it (default: the last one)")
    add("-o", "--output", metavar="FOLDER", help="write the pictures to FOLDER, which is created if its parent exists")
    add("--format", choices=FORMATS, help=f"the format of the pictures (default: {FORMATS[0]})")
    add("--report", metavar="FILE.html", help="write a page with the pictures, the sites, faults and provenance to FILE")


def execute(options: argparse.Namespace, find: FindStory) -> int:
    """Write what the options ask for and print the names of the files; returns the exit status. Raises UsageError, InputError or OSError."""
    _check(options)
    from stepwell.tuning.plots import save_pictures
    from stepwell.tuning.report import check_report, save_report

    if options.report is not None:
        check_report()
    story = find(options.run)
    if options.output is not None:
        folder = Path(options.output)
        folder.mkdir(exist_ok=True)
        for file in save_pictures(story, folder, options.format or FORMATS[0]):
            say(file)
    if options.report is not None:
        save_report(options.report, story)
        say(options.report)
    return OK


def _check(options: argparse.Namespace) -> None:
    """Raise UsageError for options that ask for nothing or cannot be followed, before the run is read."""
    if options.output is None and options.report is None:
        raise UsageError("expected -o FOLDER for pictures, or --report FILE.html for a page")
    if options.output is None and options.format is not None:
        raise UsageError("--format goes with -o FOLDER: a page has its own pictures")
    for name, file in (("-o", options.output), ("--report", options.report)):
        if file is not None and not Path(file).parent.is_dir():
            raise UsageError(f"{name} {file}: there is no folder {Path(file).parent}")
    if options.output is not None and Path(options.output).exists() and not Path(options.output).is_dir():
        raise UsageError(f"-o {options.output}: it is no folder")
