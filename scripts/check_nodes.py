#!/usr/bin/env python3
"""Compile every operator in every version of its schema with every element type, and compare with ONNX's evaluator.

    .venv/bin/python scripts/check_nodes.py [--op NAME]... [--rounds N] [--seed N] [--every N] [--jobs N] [--save DIR] [--write] [-v]

Each round draws a node of each combination with ordinary values, with NaN, infinities, zeros of both signs and extreme integers, and, for f16 and
bf16, with values near the ends of the type's range. ONNX's evaluator computes these two types in f64, and its result is rounded once. If the result
differs, it is compared with ONNX Runtime. Failures are printed and saved with --save; the exit status is then 1. --write writes the results into
docs/reference/onnx-types.md. test/end_to_end/test_nodes.py runs a sample of the combinations.
"""

import argparse
import collections
import contextlib
import itertools
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import environment

if TYPE_CHECKING:
    from random_graphs.singles import Combination, Result

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "test" / "support"
PAGE = ROOT / "docs" / "reference" / "onnx-types.md"
COLUMNS = {
    "right": "as ONNX's evaluator or ONNX Runtime", "alone": "as our ops mean it", "refused": "refused", "not drawn": "not drawn", "wrong": "wrong",
}  # fmt: skip
WORST = ("wrong", "differs", "error", "died", "timeout", "raised", "right", "alone", "refused", "not drawn")

ABOUT = (
    "Each operator of ai.onnx that random nodes are made of, in each version of its schema, with each element type that the schema has for its "
    "first operand of several types. A type stands where native code was compared, at ordinary values and at extreme ones: with ONNX's evaluator or "
    "ONNX Runtime; with the meaning of our ops, where those two have no such node or are known to differ; refused by us; or not drawn, where no "
    "maker of nodes gives such a node."
)


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and run nodes; 0 if all were correct, 1 if not, 2 for wrong usage (argparse)."""
    sys.path.insert(0, str(TESTS))
    parser = argparse.ArgumentParser(description="Compare every operator, version and element type with ONNX's evaluator.")
    parser.add_argument("--op", action="append", help="one operator (default: all); may be repeated")
    parser.add_argument("--rounds", type=int, default=1, help="how often each combination is drawn, with values of each kind (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each later one adds 1 (default: 0)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth combination")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that work side by side (default: 1)")
    parser.add_argument("--save", type=Path, metavar="DIR", help="where models that are wrong are saved")
    parser.add_argument("--write", action="store_true", help=f"bring the results into {PAGE.relative_to(ROOT)}")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each combination")
    options = parser.parse_args(arguments)
    from random_graphs.campaign import described, save
    from random_graphs.operators import OPERATORS
    from random_graphs.singles import KINDS, POWERS, WRONG, combinations, results
    from watchdog import Watchdog

    unknown = [op for op in options.op or () if op not in _operators(OPERATORS)]
    if unknown:
        parser.error(f"no operator {', '.join(unknown)} that nodes are made of")
    if options.write and options.every != 1:
        parser.error("--write is for all combinations of an operator: without --every")
    chosen = [c for c in combinations() if options.op is None or c.op in options.op][:: options.every]
    found: dict[Combination, Result] = {}
    counts: collections.Counter[str] = collections.Counter()
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        dogs = [stack.enter_context(Watchdog()) for _ in range(max(options.jobs, 1))]
        for number, kind in itertools.product(range(options.rounds), KINDS):
            asked = chosen if kind != "ends" else [c for c in chosen if c.dtype in POWERS]
            for result in results(dogs, asked, options.seed + number, kind, {}):
                counts[result.status] += 1
                if result.status in WRONG or options.verbose:
                    print(f"seed {options.seed + number}, {kind}: {result.combination}: {result.status} {result.text}", flush=True)
                if result.case is not None:
                    print(described(result.case), flush=True)
                    if options.save is not None:
                        options.save.mkdir(parents=True, exist_ok=True)
                        name = str(result.combination).replace(" ", "-")
                        save(result.case, options.save / f"{name}-{options.seed + number}-{kind}.onnx")
                before = found.get(result.combination)
                if before is None or WORST.index(result.status) < WORST.index(before.status):
                    found[result.combination] = result
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()), f"in {time.monotonic() - start:.0f} s")
    if options.write:
        PAGE.write_text(page(found.values(), PAGE.read_text() if PAGE.exists() else ""))
    return int(any(counts[status] for status in WRONG))


def _operators(known: Mapping[str, object]) -> Iterable[str]:
    return known.keys()


def page(found: "Iterable[Result]", before: str = "") -> str:
    """The table of results, as Markdown, with a line for each operator and version; lines of operators that were not run are copied from `before`."""
    rows: dict[tuple[str, int], dict[str, list[str]]] = {}
    for result in sorted(found, key=lambda result: result.combination):
        status = result.status if result.status in COLUMNS else "wrong"  # or the exit of its process
        rows.setdefault((result.combination.op, result.combination.opset), {}).setdefault(status, []).append(result.combination.dtype)
    lines = {key: f"| {key[0]} | {key[1]} | {' | '.join(listed(row.get(column, ())) for column in COLUMNS)} |" for key, row in rows.items()}
    ran = {op for op, _ in rows}
    for match in re.finditer(r"^\| (\w+) \| (\d+) \|.*$", before, re.MULTILINE):
        if match[1] not in ran:
            lines[match[1], int(match[2])] = match[0]
    head = [
        "# ONNX operators by opset and element type",
        "",
        "<!-- Generated by `scripts/check_nodes.py --write`, from nodes that it compiled and ran. -->",
        "",
        ABOUT,
        "",
        f"| operator | since | {' | '.join(COLUMNS.values())} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
    ]
    return "\n".join([*head, *(lines[key] for key in sorted(lines))]) + "\n"


def listed(dtypes: Sequence[str]) -> str:
    """Element types in their usual order."""
    from stepwell.dialects.core.dtypes import ELEMENT_TYPES

    return " ".join(sorted(dtypes, key=[*ELEMENT_TYPES].index))


if __name__ == "__main__":
    environment.need(__doc__, "test", "hypothesis", "pytest", "onnxruntime")
    sys.exit(main())
