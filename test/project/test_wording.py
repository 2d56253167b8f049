"""Lint: docstrings and names in plain technical English (docs/glossary.md)."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("compiler", "passes", "dialects")

FRAGMENT = re.compile(
    r'^\s*[rR]?"""(?:Of|What|That which|Those of|That of) '  # a docstring that is a clause or a genitive, not a noun with its verb
    r"|, that which\b|\bof that which\b|\b(?:that|those) of (?:that|those)\b",
    re.MULTILINE,
)
VAGUE_NAME = re.compile(r"\bdef (?:of|at|some|few|apart|here|told)\(")

LEFT = {
    "compiler/runtime": 31, "passes/bufferize": 14,
    "passes/packed": 12,
}  # fmt: skip
"""How many violations each folder still has. The numbers may only shrink: they are a debt, not a licence. Lower a number with the docstrings that
you rewrite, and remove the folder at zero. A folder that is not listed has none."""


def test_docstrings_and_names_are_plain_english() -> None:
    found: Counter[str] = Counter()
    lines: dict[str, list[str]] = {}
    for file in sorted(file for folder in (*LAYERS, "scripts", "test") for file in (ROOT / folder).rglob("*.py")):
        text, folder = file.read_text(), str(file.parent.relative_to(ROOT))
        patterns = (FRAGMENT, VAGUE_NAME) if folder.startswith(LAYERS) else (VAGUE_NAME,)
        for match in (match for pattern in patterns for match in pattern.finditer(text)):
            found[folder] += 1
            lines.setdefault(folder, []).append(f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}")
    worse = {folder: lines[folder] for folder, count in found.items() if count > LEFT.get(folder, 0)}
    assert not worse, f"write a noun with its verb, and name functions by what they compute (docs/glossary.md): {worse}"
