"""The faults that are planted: small edits of Python source, one at a time: operators, conditions, tables, numbers, passes."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

KINDS = ("operators", "conditions", "tables", "numbers", "passes")
"""The kinds of faults: a changed operator, bound, order or step; a missing guard or condition; a missing entry of a table, or one with the
value of its neighbour; a number that is ten times too large or too small, or 0; a missing pass in a pipeline."""

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
    """For example `< -> <=`: together with the line's own text, the key of an entry in the list of harmless faults."""
    kind: str = "operators"
    """One of KINDS."""

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
        # Literals are tables where they are made once: outside functions, or as a default.
        self._is_table = True
        self._records: set[int] = set()

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        place = node  # mypy knows no positions of ast.AST
        return (
            self._offset(place.lineno, place.col_offset),  # type: ignore[attr-defined]
            self._offset(place.end_lineno, place.end_col_offset),  # type: ignore[attr-defined]
        )

    def _add(self, start: int, end: int, text: str, what: str, kind: str = "operators") -> None:
        line = self.source.count("\n", 0, start) + 1
        self.found.append(Edit(self.path, line, start, end, text, what, kind))

    def _replace(self, node: ast.AST, text: str, kind: str = "operators") -> None:
        start, end = self._span(node)
        self._add(start, end, text, f"{_short(self.source[start:end])} -> {_short(text)}", kind)

    def _drop(self, start: int, end: int, name: str, kind: str, instead: str = "") -> None:
        """Leave out what stands from `start` to `end`."""
        self._add(start, end, instead, f"{name} dropped", kind)

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
        outside, self._is_table = self._is_table, True
        for part in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self.visit(part)
        self._is_table = False
        for statement in node.body:
            self.visit(statement)
        self._is_table = outside

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if len(node.body) == 1 and isinstance(node.body[0], (ast.Return, ast.Raise, ast.Continue, ast.Break)) and not _names_something(node.test):
            start, end = self._span(node.test)
            self._drop(start, end, f"guard {_short(self.source[start:end])}", "conditions", "False")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # What is taken apart at once is no table, and neither is the list of what a module exports.
        if isinstance(node.targets[0], ast.Tuple) or ast.unparse(node.targets[0]) == "__all__":
            self._records.add(id(node.value))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._records.add(id(node.slice))
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
        self._drop_conditions(node, old)
        self.generic_visit(node)

    def _drop_conditions(self, node: ast.BoolOp, operator: str) -> None:
        """Leave out one operand of `and` or `or`, with the parentheses round it."""
        parts = self._parts(*self._span(node), [self._span(value) for value in node.values], rf"\b{operator}\b")
        for i, (value, (first, last)) in enumerate(zip(node.values, parts, strict=True)):
            if not _names_something(value):
                what = f"condition {_short(self.source[first:last])}"
                before = parts[i - 1][1]
                gap = _blanked(self.source[before:first])
                start, end = (first, parts[1][0]) if i == 0 else (before + len(gap) - len(gap.lstrip()), last)
                self._drop(start, end, what, "conditions")

    def _parts(self, begin: int, end: int, spans: Sequence[tuple[int, int]], separator: str) -> list[tuple[int, int]]:
        """The ranges of the operands or entries from `begin` to `end`, including the parentheses around each, which their own `spans` exclude."""
        found = []
        edges = [begin]
        for (_, left), (right, _) in pairwise(spans):
            match = re.search(separator, _blanked(self.source[left:right]))
            assert match is not None
            found.append((edges[-1], left + match.start()))
            edges.append(left + match.end())
        found.append((edges[-1], end))
        texts = [(first, _blanked(self.source[first:last], "#")) for first, last in found]
        return [(first + len(text) - len(text.lstrip()), first + len(text.rstrip())) for first, text in texts]

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
            if self._is_table and node.value >= 10:
                for other in (node.value * 10, node.value // 10):
                    self._replace(node, str(other), "numbers")
        elif isinstance(node.value, float):
            for number in (node.value * 10, node.value / 10, 0.0) if node.value else (1.0,):
                self._replace(node, repr(number), "numbers")
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
        if isinstance(node.func, ast.Name) and node.func.id == "Phase" and len(node.args) > 2 and isinstance(node.args[2], ast.Constant):
            self._drop_passes(node.args[2])  # its name, its level, its passes
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            if not _names_something(test):
                start, end = self._span(test)
                self._drop(start, end, f"filter {_short(self.source[start:end])}", "conditions", "True")
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        spans = [(self._span(key or value)[0], self._span(value)[1]) for key, value in zip(node.keys, node.values, strict=True)]
        self._records |= {id(key) for key in node.keys if key is not None}
        self._drop_entries(node, spans)
        self._swap_neighbours([value for key, value in zip(node.keys, node.values, strict=True) if key is not None])
        self._records |= {id(value) for value in node.values if isinstance(value, ast.Tuple) and len(set(map(_sort, value.elts))) > 1}
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        self._visit_entries(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._visit_entries(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if isinstance(node.ctx, ast.Load):
            self._visit_entries(node)

    def _visit_entries(self, node: "ast.List | ast.Set | ast.Tuple") -> None:
        self._drop_entries(node, [self._span(entry) for entry in node.elts])
        if all(isinstance(entry, ast.Constant) and isinstance(entry.value, (int, float)) for entry in node.elts):
            self._swap_neighbours(node.elts)  # the order of others often says nothing
        # A tuple in a sequence is a record: without one of its fields it is none, and nothing works.
        self._records |= {id(entry) for entry in node.elts if isinstance(entry, ast.Tuple)}
        self.generic_visit(node)

    def _drop_entries(self, node: "ast.Dict | ast.List | ast.Set | ast.Tuple", spans: Sequence[tuple[int, int]]) -> None:
        """Leave out one entry of a table, and the comma behind it."""
        begin, end = self._span(node)
        if not self._is_table or id(node) in self._records or len(spans) < 2:
            return
        if not isinstance(node, ast.Tuple) or self.source[begin] == "(":
            begin, end = begin + 1, end - 1
        behind = self.source[spans[-1][1] : end]
        trailing = _blanked(behind).rfind(",")
        last = end if trailing < 0 else spans[-1][1] + trailing
        parts = self._parts(begin, last, spans, ",")
        for i, (start, stop) in enumerate(parts):
            name = f"entry {_short(self.source[start:stop])}"
            if i == 0 and len(parts) == 2 and isinstance(node, ast.Tuple) and trailing < 0:
                self._drop(start, parts[1][1], name, "tables", f"{self.source[parts[1][0] : parts[1][1]]},")  # one entry needs a comma
            else:
                self._drop(start, stop + (self.source[stop] == ","), name, "tables")

    def _swap_neighbours(self, values: Sequence[ast.expr]) -> None:
        if self._is_table:
            for left, right in pairwise(values):
                (start, inner), (outer, end) = self._span(left), self._span(right)
                one, other = self.source[start:inner], self.source[outer:end]
                if ast.dump(left) != ast.dump(right):
                    self._add(start, end, f"{other}{self.source[inner:outer]}{one}", f"{_short(one)} <-> {_short(other)}", "tables")

    def _drop_passes(self, node: ast.Constant) -> None:
        """Leave out a pass of a pipeline that has others beside it, and a comma."""
        start, end = self._span(node)
        text = re.sub(r"\{[^}]*\}", lambda m: "=" * len(m[0]), _blanked(self.source[start:end], "//"))
        for match in re.finditer(r"(?<![\w.-])([\w.-]+)=*(?=\s*[,)\"])", text):
            behind = re.match(r"\s*,", text[match.end() :])
            before = re.search(r",\s*$", text[: match.start()])
            first, last = (match.start(), match.end() + behind.end()) if behind else (before.start() if before else 0, match.end())
            if behind or before:
                self._drop(start + first, start + last, f"pass {match[1]}", "passes")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _sort(node: ast.expr) -> type:
    return type(node.value) if isinstance(node, ast.Constant) else type(node)


def _names_something(node: ast.expr) -> bool:
    """Whether other code needs a name that an expression gives: without it, nothing works."""
    return any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node))


def _blanked(text: str, comment: str = "#") -> str:
    """The text with spaces in place of its comments. It holds no strings that might look like one, or is a pipeline."""
    return re.sub(rf"{comment}[^\n]*", lambda match: " " * len(match[0]), text)


def statement(line: str) -> str:
    """A line without its indentation and the comment behind it, whose words may change."""
    return line.strip().partition("  # ")[0].rstrip()


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:57]}..."


def sample(found: list[Edit], every: int, seed: int) -> Iterator[Edit]:
    """Each `every`-th of the edits, from `seed` on."""
    return iter(found[seed % every :: every])
