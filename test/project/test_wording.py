"""Lint: docstrings and names in plain technical English (docs/glossary.md)."""

import ast
import re
from itertools import pairwise
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


def test_numbers_of_passes_are_explained() -> None:
    """A number that a module of the passes states is no riddle: a sentence or a comment says what it is, in which unit, and why.

    Numbers about machines belong to the target (dialects/target/costs.py), where a machine can state its own.
    """
    bare = []
    for file in sorted((ROOT / "passes").rglob("*.py")):
        text = file.read_text()
        lines, body = text.splitlines(), ast.parse(text).body
        for statement, after in pairwise([*body, ast.Pass()]):
            if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None or not _is_number(statement.value):
                continue
            explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if not explained and "#" not in lines[statement.end_lineno - 1] and not lines[statement.lineno - 2].startswith("#"):
                bare.append(f"{file.relative_to(ROOT)}:{statement.lineno}: {lines[statement.lineno - 1]}")
    assert not bare, f"say what these numbers are: {bare}"


def _is_number(value: ast.expr) -> bool:
    """Whether an expression computes numbers from numbers: arithmetic, or a tuple."""
    inner = list(ast.walk(value))
    arithmetic = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)
    numbers = [node for node in inner if isinstance(node, ast.Constant) and type(node.value) in (int, float)]
    return bool(numbers) and all(isinstance(node, arithmetic) for node in inner)
