"""Reads sizes, and relations between sizes, from text."""

import ast
import math
import operator
import re
from collections.abc import Callable
from functools import cache

from stepwell.dialects.core.sizes import Assumption, Dim, Size, maximum, minimum, symbol
from stepwell.dialects.support.errors import InferenceError

MOST_TERMS, MOST_FACTORS = 256, 24  # upper limits for the sum of products that a text is expanded to


@cache
def parse(text: str) -> int | Size:
    """The size that `text` spells: numbers, words as symbols, `+`, `-`, `*`, `//`, `%`, `max`, `min`. Raises InferenceError for anything else."""
    try:
        return _parsed(_checked(ast.parse(text.strip(), mode="eval").body, text), text)
    except _NO_SIZE:
        raise InferenceError(f"expected a size such as '2*n + 1', got '{_short(text)}'") from None


@cache
def parse_all(text: str) -> tuple[Dim, ...]:
    """The sizes that `text` lists, with `?` for an unknown one. Raises InferenceError if an entry is no size."""
    try:
        tree = ast.parse(f"[{text.replace('?', '...')}]", mode="eval").body
        items = tree.elts if isinstance(tree, ast.List) else [tree]
        return tuple(None if isinstance(item, ast.Constant) and item.value is ... else _parsed(_checked(item, text), text) for item in items)
    except _NO_SIZE:
        raise InferenceError(f"expected sizes such as '2*n + 1, ?', got '{_short(text)}'") from None


def parse_assumption(text: str) -> Assumption:
    """The assumption that `text` spells. Raises InferenceError if it is none."""
    parts = re.split(r" (==|!=|<=|>=|<|>) ", text)
    if len(parts) != 3:
        raise InferenceError(f"expected a relation of two sizes such as 'n <= 2*m', got '{_short(text)}'")
    return Assumption(parse(parts[0]), parts[1], parse(parts[2]))


_NO_SIZE = (SyntaxError, ValueError, MemoryError, RecursionError, ZeroDivisionError)  # the exceptions of reading a text that is no size


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _checked(tree: ast.AST, text: str) -> ast.AST:
    """The expression itself, if its sum of products, which is the normal form, is short enough. Raises InferenceError otherwise."""
    _extent(tree, text)
    return tree


def _extent(tree: ast.AST, text: str) -> tuple[int, float]:
    """Upper bounds of the number of terms of an expression's sum of products, and of factors in a term; a number counts one for each byte."""
    match tree:
        case ast.Constant(value=int(number)):
            found = 1, number.bit_length() / 8
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 < power < 10:
            terms, factors = _extent(left, text)
            found = terms**power, factors * power
        case ast.BinOp(left=left, op=op, right=right):
            (a, b), (c, d) = _extent(left, text), _extent(right, text)
            found = (a + c, max(b, d)) if isinstance(op, (ast.Add, ast.Sub)) else (a * c, b + d)
        case ast.UnaryOp(operand=operand):
            found = _extent(operand, text)
        case ast.Call(args=args):
            for arg in args:
                _extent(arg, text)
            found = 1, 1
        case _:
            found = 1, 1
    if found[0] > MOST_TERMS or found[1] > MOST_FACTORS:
        raise InferenceError(f"expected a size of at most {MOST_TERMS} terms of {MOST_FACTORS} factors, got '{_short(text)}'")
    return found


def _parsed(tree: ast.AST, text: str) -> int | Size:
    match tree:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parsed(operand, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_parsed(left, text), _parsed(right, text))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 < power < 10:
            return math.prod([_parsed(left, text)] * power)
        case ast.Call(func=ast.Name(id=("max" | "min") as name), args=[_, _, *_] as args, keywords=[]):
            return (maximum if name == "max" else minimum)(*(_parsed(arg, text) for arg in args))
    raise InferenceError(f"expected a size of words, numbers, +, -, *, //, %, max and min, got '{_short(text)}'")


_ARITHMETIC: dict[type[ast.operator], Callable[[int | Size, int | Size], int | Size]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
