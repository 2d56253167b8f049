"""stepwell tuning space: the sites of a model at which a tuner may choose."""

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepwell.cli.common import OK, Parser
from stepwell.cli.compile_options import add_compile_options, compile_options, load_plugins
from stepwell.cli.display import Progress, plural, print_table, say, seconds

if TYPE_CHECKING:
    from stepwell.tuning.sites import Site

DESCRIPTION = "Show the sites of a model at which a tuner may choose, and how many candidates each has."
FLOORS = ("schedule", "algorithm", "graph")
NODES_SHOWN = 3
MOST_DIGITS = 6
"""Larger numbers of candidates are shown as powers of ten."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell tuning space`."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, or one of a format that a plugin reads")
    parser.add_argument("--floor", choices=FLOORS, action="append", default=[], help="show only the sites of this floor; may be repeated")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="the number of threads that the tuned code is for (default: 1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead, an object for each site")
    add_compile_options(parser)


def execute(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError or UsageError."""
    load_plugins(options)
    how = compile_options(options)
    from stepwell.driver.lowering import lower
    from stepwell.tuning.sites import find_sites

    with Progress() as progress:
        lowered = lower(options.model, "scheduled", options=how, on_level=progress.level, recording=True)
    wanted = options.floor or FLOORS
    exact, every = (find_sites(lowered, threads=options.threads, rounding=rounding, floors=wanted) for rounding in (False, True))
    sites = list(zip(exact, every, strict=True))
    if options.json:
        say(json.dumps([_described(site, other) for site, other in sites], indent=1))
        return OK
    rows = [
        [site.floor, site.kind, site.name, _nodes(site.nodes), _count(site.space.size()), _count(other.space.size()), site.space.default,
         "" if site.seconds is None else seconds(site.seconds)]
        for site, other in sites
    ]  # fmt: skip
    print_table(("floor", "kind", "site", "nodes", "same bits", "all", "default", "predicted"), rows, numbers=(4, 5, 7))
    say(f"{plural(len(sites), 'site')}; numbers of schedules are upper bounds")
    return OK


def _described(site: "Site", every: "Site") -> dict[str, object]:
    """A site as plain data; `every` is the same one with all candidates."""
    return {
        "floor": site.floor, "kind": site.kind, "name": site.name, "nodes": list(site.nodes), "same bits": site.space.size(),
        "all": every.space.size(), "default": site.space.default, "seconds": site.seconds, "launches": site.launches,
    }  # fmt: skip


def _nodes(names: Sequence[str]) -> str:
    more = len(names) - NODES_SHOWN
    return ", ".join(names[:NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _count(number: int) -> str:
    return str(number) if number < 10**MOST_DIGITS else f"{number:.0e}"
