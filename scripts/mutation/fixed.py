"""A fixed sample of faults: chosen so that edits elsewhere leave it as it is, kept with the test that saw each, found again in changed code."""

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path

from stepwell.dialects.support.files import write_atomically

from .edits import Edit, edits, statement
from .selection import folder_of, folders, sources

__all__ = ["SEEN", "Fault", "Recorded", "choose", "faults", "find", "read", "write"]

SEEN = ("killed", "time")
"""The states of faults that a test saw."""


@dataclass(frozen=True)
class Fault:
    """A fault by what surrounds it instead of by its line's number, which edits elsewhere in the file change."""

    path: str
    function: str
    """The qualified name of the innermost function or class; empty at the top of a module."""
    source: str
    """The text of the line, without a comment."""
    what: str
    nth: int = 0
    """The index among the faults that agree in all of the above."""

    def __str__(self) -> str:
        return f"{self.path}: {self.function or 'module'}: {self.what}: {self.source}"


@dataclass(frozen=True)
class Recorded:
    """A fault of the sample and what became of it: `killed`, out of `time`, `survived`, or `untried`."""

    fault: Fault
    state: str = "untried"
    by: str = ""

    def became(self, state: str, by: str) -> "Recorded":
        """The same fault with another outcome."""
        return replace(self, state=state, by=by)


def faults(path: str, source: str) -> list[tuple[Fault, Edit]]:
    """All faults of a file with the edits that plant them, in the order of the file."""
    lines = source.splitlines()
    spans = _functions(ast.parse(source))
    count: Counter[Fault] = Counter()
    found = []
    for edit in edits(path, source):
        inside = [(first, name) for first, last, name in spans if first <= edit.line <= last]
        fault = Fault(path, max(inside, default=(0, ""))[1], statement(lines[edit.line - 1]), edit.what)
        found.append((replace(fault, nth=count[fault]), edit))
        count[fault] += 1
    return found


def choose(found: Mapping[Fault, str], count: int, seed: int) -> list[Fault]:
    """`count` of the faults, given with the kind of each: as many of each folder as of the others, and in a folder as many of each kind.

    Which ones depends on their text and `seed` alone, not on the rest.
    """

    def rank(fault: Fault) -> str:
        return hashlib.sha256(json.dumps([seed, *asdict(fault).values()]).encode()).hexdigest()

    by_folder: dict[str, list[Fault]] = {}
    for folder in folders():
        by_kind: dict[str, list[Fault]] = {}
        for fault in found:
            if folder_of(fault.path) == folder:
                by_kind.setdefault(found[fault], []).append(fault)
        ranked = {kind: sorted(faults, key=rank) for kind, faults in sorted(by_kind.items())}
        if ranked:
            by_folder[folder] = [fault for turn in zip_longest(*ranked.values()) for fault in turn if fault is not None]
    return [fault for i, faults in enumerate(by_folder.values()) for fault in faults[: count // len(by_folder) + (i < count % len(by_folder))]]


def find(root: Path, places: Sequence[str], fault: Fault) -> Edit | None:
    """The edit that plants a fault in the checkout at `root`, whose code may have changed since the fault was recorded.

    It is looked for in the same function, then in the file, then in all `places`; there the line and the edit must be unique. None if
    the line is nowhere any more.
    """
    if (root / fault.path).is_file():
        here = faults(fault.path, (root / fault.path).read_text())
        exact = [edit for other, edit in here if other == fault]
        if exact:
            return exact[0]
        alike = [edit for other, edit in here if (other.source, other.what, other.nth) == (fault.source, fault.what, fault.nth)]
        if alike:
            return alike[0] if len(alike) == 1 else None
    elsewhere = []
    for path in sources(root, places):
        text = (root / path).read_text()
        if path != fault.path and fault.source in text:
            elsewhere += [e for o, e in faults(path, text) if (o.source, o.what, o.nth) == (fault.source, fault.what, fault.nth)]
    return elsewhere[0] if len(elsewhere) == 1 else None


def read(file: Path) -> tuple[int, list[Recorded]]:
    """The seed and the faults of a file that `write` wrote."""
    found = json.loads(file.read_text())
    return found["seed"], [Recorded(Fault(**entry["fault"]), entry["state"], entry["by"]) for entry in found["faults"]]


def write(file: Path, seed: int, sample: Sequence[Recorded]) -> None:
    """Write a sample and what became of it, whole or not at all."""
    write_atomically(file, json.dumps({"seed": seed, "faults": [asdict(recorded) for recorded in sample]}, indent=1) + "\n")


def _functions(tree: ast.Module) -> list[tuple[int, int, str]]:
    """The first line, the last line and the qualified name of each function and class."""
    spans: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}.{child.name}" if prefix else child.name
                spans.append((child.lineno, child.end_lineno or child.lineno, name))
            visit(child, name)

    visit(tree, "")
    return spans
