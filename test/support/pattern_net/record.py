"""What the whole net found of each pattern, written down: the page about patterns is made of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pattern_net.net import SAMPLE, Outcome, examined

FILE = Path(__file__).parent / "record.json"
NEVER_MATCHED: dict[str, str] = {}
"""The patterns for which no graph is found, and why. It can only shrink: one that matches while it is listed fails the test."""


def entry_of(outcome: Outcome) -> dict[str, Any]:
    """The record of an outcome of the whole net, and whether the sample of it proves the pattern as well."""
    sample = examined(outcome.pattern, outcome.pass_names, SAMPLE, outcome.grown[:2])
    reason = next((why for why, _ in outcome.unproven.most_common(1)), "") if not outcome.proven else ""
    return {
        "name": outcome.name, "matched": outcome.matched, "compared": outcome.compared, "proven": outcome.proven, "unproven": reason,
        "grown": outcome.grown[:2], "by_day": bool(sample.proven),
    }  # fmt: skip


def grown_before(name: str) -> list[int]:
    """The numbers of grown graphs in which a pattern matched when the record was written: they spare a search."""
    found: list[int] = next((entry["grown"] for entry in read() if entry["name"] == name), [])
    return found


def write(entries: Sequence[dict[str, Any]]) -> None:
    """Put entries in the record, in the place of what was there of the same patterns."""
    known = {entry["name"]: entry for entry in read()}
    known.update({entry["name"]: entry for entry in entries})
    FILE.write_text("[\n" + ",\n".join(f" {json.dumps(known[name])}" for name in sorted(known)) + "\n]\n")


def read() -> list[dict[str, Any]]:
    """The record."""
    return json.loads(FILE.read_text()) if FILE.exists() else []
