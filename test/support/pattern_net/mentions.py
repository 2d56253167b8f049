"""Which ops and numbers a pattern names: in its docstring, in its code, and in the helpers of passes that it calls."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from stepwell.dialects.graph import GraphOp, op_classes
from stepwell.dialects.graph.base import graph_ops
from stepwell.passes.framework.rewriting import Pattern

HELPERS_DEEP = 3  # calls that lead from a pattern to a helper
SIGNS = {" * ": "mul", " + ": "add", " - ": "sub", " / ": "div", " ** ": "pow"}
NEVER = ("constant", "parameter", "yield", "fused", "if", "loop", "bind_sizes", "keep")


@dataclass(frozen=True)
class Mentions:
    """What a pattern names."""

    roots: tuple[str, ...]
    """The mnemonics of the ops that it is for."""
    chain: tuple[str, ...]
    """The ops on the left side of its rule, innermost first, the last one its root where the rule says so."""
    others: tuple[str, ...]
    """All other ops that its code names, those that it builds among them."""
    numbers: tuple[float, ...]


@cache
def mentions(p: Pattern) -> Mentions:
    """What a pattern names."""
    known = {cls.mnemonic(): cls for cls in graph_ops()}
    roots = tuple(sorted(name.removeprefix("graph.") for name in p.roots() if name.removeprefix("graph.") in known))
    text = inspect.getdoc(p.rewrite) or ""
    rules = re.findall(r"rewrite: (.*?)->", text, re.S) or [text]
    words = [SIGNS.get(word, word) for rule in rules for word in re.findall(r"(?:packed\.)?[a-z_0-9]+| \*\* | [-+*/] ", rule)]
    chain = tuple(reversed([word for word in words if word in known and word not in NEVER]))
    named: dict[str, None] = {}
    numbers: dict[float, None] = {}
    for tree in trees(p.rewrite):
        for found in ast.walk(tree):
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                named.update({word: None for word in re.findall(r"(?:packed\.)?[a-z_0-9]+", found.value) if word in known and len(found.value) < 40})
            elif isinstance(found, ast.Attribute) and found.attr in known:
                named[found.attr] = None
            elif isinstance(found, (ast.Name, ast.Attribute)) and (word := getattr(found, "id", getattr(found, "attr", ""))).endswith("Op"):
                named.update({name: None for name, cls in known.items() if cls.__name__ == word})
            elif isinstance(found, ast.Constant) and isinstance(found.value, (int, float)) and abs(found.value) < 1e6:
                numbers[float(found.value)] = None
    others = tuple(name for name in named if name not in NEVER and name not in chain)
    return Mentions(roots, chain, others, tuple(numbers))


def trees(function: Any) -> Iterator[ast.AST]:
    """The syntax of a function, and of those of the package of passes, or of its own file, that it calls."""
    waiting, seen = [(function, 0)], set()
    while waiting:
        current, depth = waiting.pop()
        if current in seen or depth > HELPERS_DEEP:
            continue
        seen.add(current)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(current)))
        except (OSError, TypeError, SyntaxError):
            continue
        yield tree
        around = inspect.getclosurevars(current) if isinstance(current, FunctionType) else None
        values = [*around.nonlocals.values(), *around.globals.values()] if around is not None else []
        for value in values:
            own = getattr(value, "__module__", "") or ""
            if isinstance(value, FunctionType) and (own.startswith("stepwell.passes.graph") or own == function.__module__):
                waiting.append((value, depth + 1))
            elif isinstance(value, type) and issubclass(value, GraphOp):
                yield ast.parse(value.__name__)


def mnemonics() -> list[str]:
    """The ops of the dialects graph and packed."""
    return [name for name in op_classes("graph", "packed") if name not in NEVER]
