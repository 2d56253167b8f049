"""The textual syntax of pass pipelines, which is MLIR's: `builtin.module(a,func.func(b{x=1 y={z=2}}),c)`, with our and upstream's passes mixed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from stepwell.dialects.support.errors import PipelineError, shown

MODULE = "builtin.module"


@dataclass(frozen=True)
class Element:
    """One element of a pipeline: a pass with its options, or an operation's name with the pipeline to run on such operations."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    """Values as written, with quotes and braces; `""` for an option without a value."""
    nested: tuple["Element", ...] | None = None
    """The pipeline in parentheses; None for a pass."""

    def with_options(self, text: str) -> "Element":
        """This element with the options in `text` replacing its own of the same names. Raises PipelineError for invalid options."""
        return replace(self, options=self.options | parse_options(text))

    def __str__(self) -> str:
        options = " ".join(f"{name}={value}" if value else name for name, value in self.options.items())
        return self.name + (f"{{{options}}}" if options else "") + ("" if self.nested is None else f"({format_pipeline(self.nested)})")


@dataclass(frozen=True)
class Step:
    """One pass of a flattened pipeline, with the operations it runs on: those named `path[-1]` in those named `path[-2]`, and so on."""

    element: Element
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The pass's name."""
        return self.element.name

    def __str__(self) -> str:
        return "".join(f"{name}(" for name in self.path) + str(self.element) + ")" * len(self.path)


def parse_pipeline(text: str) -> list[Element]:
    """The elements of a pipeline that runs on a module; the outer `builtin.module(…)` may be omitted.

    Raises PipelineError with the expected syntax and the position.
    """
    if not isinstance(text, str):
        raise PipelineError(f"expected a pipeline as text, got {shown(text)}")
    if text.encode(errors="replace").decode() != text:
        raise PipelineError("expected a pipeline in Unicode, got half a character")
    try:
        return list(_parse(text))
    except RecursionError:
        raise PipelineError("the pipeline is nested too deeply") from None


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[Element, ...]:
    elements = _Parser(text).sequence(closing=False)
    if len(elements) == 1 and elements[0].name == MODULE and elements[0].nested is not None:
        return elements[0].nested
    return tuple(elements)


def format_pipeline(elements: Sequence[Element | Step]) -> str:
    """The text of a pipeline, which can be parsed again."""
    return ",".join(map(str, elements))


def flatten(elements: Sequence[Element], path: tuple[str, ...] = ()) -> list[Step]:
    """The passes of a pipeline one by one, each with the operations it runs on."""
    steps = []
    for element in elements:
        if element.nested is None:
            steps.append(Step(element, path))
        else:
            steps.extend(flatten(element.nested, (*path, element.name)))
    return steps


def plain_value(value: str) -> str:
    """The value of an option without enclosing quotes or braces."""
    if len(value) > 1 and (value[0], value[-1]) in (("{", "}"), ('"', '"'), ("'", "'")):
        return value[1:-1]
    return value


def parse_options(text: str) -> dict[str, str]:
    """Options as they stand between braces: `x=1 y={z=2} flag`. Raises PipelineError."""
    return _Parser(text).options(end="")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def sequence(self, closing: bool) -> list[Element]:
        """Elements up to the end of the text, or up to the closing parenthesis."""
        end = ")" if closing else ""
        opened = self.at
        self.space()
        if self.next() == end:
            return []
        if not self.next():
            raise self.error("this '(' is never closed", opened - 1)
        elements = [self.element()]
        while self.next() == ",":
            self.at += 1
            elements.append(self.element())
        if self.next() != end:
            if not self.next():
                raise self.error("this '(' is never closed", opened - 1)
            expected = "',' or ')'" if closing else "','"
            raise self.error(f"expected {expected}, got '{self.next()}'")
        return elements

    def element(self) -> Element:
        self.space()
        start = self.at
        while self.next() not in ("", ",", "{", "}", "(", ")") and not self.next().isspace():
            self.at += 1
        name = self.text[start : self.at]
        if not name:
            got = f"'{self.next()}'" if self.next() else "the end"
            raise self.error(f"expected the name of a pass or an operation, got {got}")
        self.space()
        options: dict[str, str] = {}
        opened = self.at
        if self.next() == "{":
            self.at += 1
            options = self.options(end="}")
            self.at += 1
            self.space()
        nested = None
        if self.next() == "(":
            if options:
                raise self.error(f"'{name}' is followed by a pipeline, so it is an operation, which has no options", opened)
            self.at += 1
            nested = tuple(self.sequence(closing=True))
            self.at += 1
            self.space()
        return Element(name, options, nested)

    def options(self, end: str) -> dict[str, str]:
        opened = self.at - 1
        options: dict[str, str] = {}
        while True:
            self.space()
            if self.next() == end:
                return options
            if not self.next():
                raise self.error("this '{' is never closed", opened)
            start = self.at
            while self.next() not in ("", "=", end) and not self.next().isspace():
                self.at += 1
            name = self.text[start : self.at]
            if not name:
                raise self.error("expected the name of an option, got '='", start)
            if name in options:
                raise self.error(f"option '{name}' is given twice", start)
            value = ""
            if self.next() == "=":
                self.at += 1
                value = self.value(end)
            options[name] = value

    def value(self, end: str) -> str:
        """A value: up to a space or `end` outside all quotes, braces, brackets and parentheses."""
        start = self.at
        open_at: list[int] = []
        pairs = {"}": "{", "]": "[", ")": "("}
        while True:
            c = self.next()
            if not c:
                if open_at:
                    raise self.error(f"this '{self.text[open_at[-1]]}' is never closed", open_at[-1])
                return self.text[start : self.at]
            if not open_at and (c == end or c.isspace()):
                return self.text[start : self.at]
            if c in pairs.values():
                open_at.append(self.at)
            elif c in pairs:
                if not open_at or self.text[open_at[-1]] != pairs[c]:
                    raise self.error(f"unbalanced '{c}'")
                open_at.pop()
            elif c in "'\"":
                close = self.text.find(c, self.at + 1)
                if close < 0:
                    raise self.error("this quote is never closed")
                self.at = close
            self.at += 1

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def space(self) -> None:
        while self.next().isspace():
            self.at += 1

    def error(self, message: str, at: int | None = None) -> PipelineError:
        position = self.at if at is None else at
        near = self.text[position : position + 30].strip()
        return PipelineError(f"pipeline, column {position + 1}: {message}" + (f" near '{near}'" if near else ""))
