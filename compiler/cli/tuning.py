"""stepwell tuning: shows the records of tuning, writes and reads them as files, removes them."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwell.cli import tuning_plot, tuning_show, tuning_space, tuning_train
from stepwell.cli.common import OK, Parser, UsageError, number, write_text
from stepwell.cli.display import plural, say

if TYPE_CHECKING:
    from stepwell.database.database import Database
    from stepwell.tuning.story import Story

DESCRIPTION = """Show what tuning measured and decided, exchange it with other machines, or remove it.

STEPWELL_TUNING is the file of the records; STEPWELL_TUNING=0 switches them off."""


@dataclass(frozen=True)
class Subcommand:
    """An action of `stepwell tuning`."""

    help: str
    add_options: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
    """Runs it; returns the exit status."""
    has_traceback: bool = False
    """Whether its options include `--traceback`."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell tuning`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser, required=True)
    for name, subcommand in SUBCOMMANDS.items():
        inner = actions.add_parser(name, help=subcommand.help, description=subcommand.help)
        subcommand.add_options(inner)
        if not subcommand.has_traceback:
            inner.add_argument("--traceback", action="store_true", help="on an error print the Python traceback too")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises UsageError, InputError, ResourceError or OSError."""
    return SUBCOMMANDS[options.action].run(options)


def open_database() -> "Database":
    """The database that the environment describes. Raises InputError if it is switched off."""
    from stepwell.database.database import chosen_database
    from stepwell.dialects.support.errors import InputError

    database = chosen_database()
    if database is None:
        raise InputError("STEPWELL_TUNING: expected a file, got 0, which switches the records of tuning off")
    return database


def check_kept(database: "Database") -> None:
    """Raise ResourceError if the file could not be used, so that nothing was stored in it."""
    from stepwell.dialects.support.errors import ResourceError

    if database.storage.problem is not None:
        raise ResourceError(f"{database.storage.path}: the file cannot be used: {database.storage.problem}")


def _export_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to write, or - for standard output")


def _export(options: argparse.Namespace) -> int:
    from stepwell.database.interchange import export_lines
    from stepwell.dialects.support.files import replacing

    with open_database() as database:
        lines = export_lines(database)
        if options.file == "-":
            for line in lines:
                write_text(line)
            check_kept(database)
            return OK
        with replacing(options.file) as temporary, open(temporary, "w", encoding="utf-8") as file:
            written = sum(1 for line in lines if file.write(line)) - 1
            check_kept(database)  # before the file replaces an older one
    say(f"wrote {plural(written, 'record')} to {options.file}")
    return OK


def _import_options(parser: Parser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file that `stepwell tuning export` wrote, or - for standard input")


def _import(options: argparse.Namespace) -> int:
    from stepwell.database.interchange import import_lines
    from stepwell.dialects.support.files import open_plain

    with open_database() as database:
        for path in options.files:
            if path == "-":
                added = import_lines(database, sys.stdin.buffer, "standard input")
            else:
                with open(open_plain(path), "rb") as file:
                    added = import_lines(database, file, path)
            check_kept(database)
            runs, candidates, decisions = (plural(added[kind], kind) for kind in ("run", "candidate", "decision"))
            say(f"{path}: {runs}, {candidates}, {added['samples']} series of samples and {decisions} were new or newer")
    return OK


def _prune_options(parser: Parser) -> None:
    add = parser.add_argument
    add("--older-than", type=number(0, 100_000), metavar="DAYS", help="remove runs that began more than so many days ago, with all their records")
    add("--other-machines", action="store_true", help="remove runs of other machines")
    text = "of each model, target, number of threads and machine keep the latest N runs, and those whose decisions or plan are in force"
    add("--keep", type=number(0, 1_000_000), metavar="N", help=text)


def _prune(options: argparse.Namespace) -> int:
    if options.older_than is None and options.keep is None and not options.other_machines:
        raise UsageError("expected --older-than, --other-machines or --keep, which say what to remove")
    with open_database() as database:
        removed = database.prune(older_than=options.older_than, other_machines=options.other_machines, keep=options.keep)
        check_kept(database)
    counts = [plural(removed[f"{noun}s"], noun) for noun in ("run", "candidate", "decision", "workload")]
    say(f"removed {', '.join(counts)} and {removed['samples']} series of samples")
    return OK


def _train(options: argparse.Namespace) -> int:
    with open_database() as database:
        return tuning_train.execute(options, database.records)


def _plot(options: argparse.Namespace) -> int:
    def find(identifier: str | None) -> "Story":
        from stepwell.tuning.run_records import find_story

        with open_database() as database:
            return find_story(database, identifier)

    return tuning_plot.execute(options, find)


SUBCOMMANDS = {
    "show": Subcommand("show what was decided, the candidates of a kernel, and the runs", tuning_show.add_options, tuning_show.run),
    "export": Subcommand("write all records as JSON lines", _export_options, _export),
    "import": Subcommand("add the records of files", _import_options, _import),
    "prune": Subcommand("remove records", _prune_options, _prune),
    "space": Subcommand(tuning_space.DESCRIPTION, tuning_space.add_options, tuning_space.execute, has_traceback=True),
    "train": Subcommand("fit the costs of a target to the records, and write a plugin with them", tuning_train.add_options, _train),
    "plot": Subcommand(tuning_plot.DESCRIPTION, tuning_plot.add_options, _plot),
}
"""The actions by name."""
