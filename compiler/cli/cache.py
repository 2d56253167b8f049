"""stepwell cache: lists the entries of the cache on disk, prints its folder, clears it."""

import argparse
import time
from typing import TYPE_CHECKING

from stepwell.cli.common import OK, Parser
from stepwell.cli.display import plural, print_table, quantity, say

if TYPE_CHECKING:
    from stepwell.cache.disk import Cache

DESCRIPTION = """Show what the cache of compiled models and kernels holds, say where it is, or clear it.

STEPWELL_CACHE_DIR is its folder, STEPWELL_CACHE_BYTES how much it may hold; STEPWELL_CACHE=0 switches it off."""
_CONTENT = {"models": "compiled models", "weights": "packed weights", "objects": "code of kernels", "histograms": "values that calibration saw"}


def add_options(parser: Parser) -> None:
    """The options of `stepwell cache`."""
    parser.add_argument("action", nargs="?", default="show", choices=("show", "clear", "path"), help="what to do (default: show)")
    parser.add_argument("--traceback", action="store_true", help="on an error print the Python traceback too")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises InputError or OSError."""
    from stepwell.cache.disk import cache_folder, user_cache

    if options.action == "path":
        say(cache_folder())
        return OK
    cache = user_cache()
    if options.action == "clear":
        count, size = cache.clear()
        say(f"removed {plural(count, 'file')}, {quantity(size, 'B')}, from {cache.folder}")
        return OK
    _show(cache)
    return OK


def _show(cache: "Cache") -> None:
    from stepwell.cache.disk import KINDS, is_switched_off

    entries = cache.entries()
    say(f"{cache.folder}{' (switched off by STEPWELL_CACHE=0)' if is_switched_off() else ''}")
    refused = cache.refused()
    if refused is not None:
        say(f"not used: {refused}")
    rows = []
    for kind in KINDS:
        found = [entry for entry in entries if entry.kind == kind]
        if found:
            oldest = time.strftime("%Y-%m-%d %H:%M", time.localtime(found[0].used))
            rows.append([_CONTENT[kind], str(len(found)), quantity(sum(entry.size for entry in found), "B"), oldest])
    print_table(("what", "files", "size", "least recently used"), rows, numbers=(1, 2))
    total = sum(entry.size for entry in entries)
    say(f"{plural(len(entries), 'file')}, {quantity(total, 'B')} of at most {quantity(cache.limit, 'B')}")
