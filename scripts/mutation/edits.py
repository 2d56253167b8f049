"""The faults that are planted: small edits of Python source, one at a time (operators, bounds, order, off by one, dropped steps)."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

# R. A. DeMillo, R. J. Lipton, F. G. Sayward, "Hints on Test Data Selection", Computer 11(4), 1978: faults of a competent programmer are
# small, so tests that see small faults see others too. To the usual operators come confusions of this field: signs, sides, bounds.
_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Div: ("/", "*"), ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"),
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "reversed": "list", "range": "range"}
_PAIRS = [
    ("lhs", "rhs"), ("first", "last"), ("addf", "subf"), ("addi", "subi"), ("mulf", "addf"), ("extsi", "extui"), ("minsi", "minui"),
    ("maxsi", "maxui"), ("maximumf", "minimumf"), ("slt", "sle"), ("sgt", "sge"), ("ult", "ule"), ("ugt", "uge"), ("olt", "ole"), ("ogt", "oge"),
    ("MaxSIOp", "MinSIOp"), ("MaximumFOp", "MinimumFOp"), ("AddIOp", "SubIOp"), ("AddFOp", "SubFOp"), ("ExtSIOp", "ExtUIOp"), ("FloorOp", "CeilOp"),
    ("DivSIOp", "DivUIOp"), ("RemSIOp", "RemUIOp"), ("ShRSIOp", "ShRUIOp"), ("maximum", "minimum"), ("lowest", "highest"), ("floor", "ceil"),
    ("get_floor_div", "get_ceil_div"), ("insert", "append"),
]  # fmt: skip
_CONFUSED = {**{b: a for a, b in _PAIRS}, **dict(_PAIRS), "append": None, "insert": None}


@dataclass(frozen=True)
class Edit:
    """One fault: `text` in place of the characters from `start` to `end` of a file."""

    path: str
    line: int
    start: int
    end: int
    text: str
    what: str
    """As `< -> <=`: with the line's own text, what an entry in the list of harmless faults is about."""

    def apply(self, source: str) -> str:
        """The source with the fault."""
        return source[: self.start] + self.text + source[self.end :]


def edits(path: str, source: str) -> list[Edit]:
    """All faults that can be planted in a file, from its first line to its last. Messages of errors and annotations are left alone."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda e: (e.start, e.what))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.path, self.source = path, source
        # Columns of the syntax tree count bytes of UTF-8.
        self._lines = [line.encode() for line in source.splitlines(keepends=True)]
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.found: list[Edit] = []

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        place = node  # mypy knows no positions of ast.AST
        return (
            self._offset(place.lineno, place.col_offset),  # type: ignore[attr-defined]
            self._offset(place.end_lineno, place.end_col_offset),  # type: ignore[attr-defined]
        )

    def _add(self, start: int, end: int, text: str, what: str) -> None:
        line = self.source.count("\n", 0, start) + 1
        self.found.append(Edit(self.path, line, start, end, text, what))

    def _replace(self, node: ast.AST, text: str) -> None:
        start, end = self._span(node)
        self._add(start, end, text, f"{_short(self.source[start:end])} -> {_short(text)}")

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Swap the operator between two operands, round which there may be parentheses and line breaks."""
        start, end = self._span(left)[1], self._span(right)[0]
        pattern = rf"\b{old}\b".replace(" ", r"\s+") if old.isidentifier() or " " in old else re.escape(old)
        match = re.search(pattern, self.source[start:end])
        if match:
            self._add(start + match.start(), start + match.end(), new, f"{old} -> {new}")

    # -- what is left alone

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.body):
            self.visit(part)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self.generic_visit(node)

    # -- what is changed

    def visit_Compare(self, node: ast.Compare) -> None:
        names = {
            ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in",
            ast.NotIn: "not in",
        }  # fmt: skip
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, node.comparators, strict=False):
            old = names[type(op)]
            self._between(left, right, old, _COMPARISONS[old])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        swap = _ARITHMETIC.get(type(node.op))
        if swap is not None and not any(map(_is_text, (node.left, node.right))):
            self._between(node.left, node.right, *swap)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            start, _ = self._span(node)
            operator = "not " if isinstance(node.op, ast.Not) else "-"  # parentheses round the operand stay
            self._add(start, start + len(operator), "", f"{operator.strip()} dropped")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip: an assertion
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1))
        elif isinstance(node.value, str) and _CONFUSED.get(node.value.rpartition(".")[2]):
            before, dot, last = node.value.rpartition(".")
            self._replace(node, repr(f"{before}{dot}{_CONFUSED[last]}"))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        other = _CONFUSED.get(node.attr)
        if other:
            end = self._span(node)[1]
            self._add(end - len(node.attr), end, other, f".{node.attr} -> .{other}")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            if node.func.id != "range":
                self._replace(node.func, _CALLS[node.func.id])
            elif len(node.args) == 1:  # the first round is left out
                start, _ = self._span(node.args[0])
                self._add(start, start, "1, ", "range(n) -> range(1, n)")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append" and len(node.args) == 1:
            end = self._span(node.func)[1]
            inner = self._span(node.args[0])[0]
            self._add(end - len("append"), inner, "insert(0, ", "append -> insert at the front")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:57]}..."


def sample(found: list[Edit], every: int, seed: int) -> Iterator[Edit]:
    """Each `every`-th of the edits, from `seed` on."""
    return iter(found[seed % every :: every])
