"""Lint: docstrings and names in plain technical English (docs/glossary.md)."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("compiler", "passes", "dialects")

FRAGMENT = re.compile(
    r'^\s*[rR]?"""(?:Of|What|That|Those|By which|Where its|As with|Behind|It is|Says|Gives|Tells|Is told|Sees) '  # a clause, not a noun with its verb
    r"|, that which\b|\bof that which\b|\b(?:that|those) of (?:that|those)\b",
    re.MULTILINE,
)
VAGUE_NAME = re.compile(r"\bdef _?(?:of|at|some|here|told)\(|\bdef (?:few|apart|room)\(")


def test_docstrings_and_names_are_plain_english() -> None:
    found = []
    for file in sorted(file for folder in (*LAYERS, "scripts", "test") for file in (ROOT / folder).rglob("*.py")):
        text, place = file.read_text(), str(file.relative_to(ROOT))
        patterns = (FRAGMENT, VAGUE_NAME) if place.startswith(LAYERS) else (VAGUE_NAME,)
        matches = [match for pattern in patterns for match in pattern.finditer(text)]
        found += [f"{place}:{text.count(chr(10), 0, match.end()) + 1}: {match[0].strip()}" for match in matches]
    assert not found, f"write a noun with its verb, and name functions by what they compute (docs/glossary.md): {found}"
