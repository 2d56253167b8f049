"""Diagnostics of stepwell-opt: collected with their position in the file, printed, or compared with `expected-error` comments."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stepwell.dialects.core.diagnostics import Diagnostic, from_native, line_of
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import StepwellError
from stepwell.passes.framework.runner import DiagnosedError


def from_error(error: StepwellError) -> list[Diagnostic]:
    """The diagnostics of a failure: upstream's own if there are some, else its message, at the location that it names."""
    if isinstance(error, DiagnosedError) and error.diagnostics:
        return [d for record in error.diagnostics for d in from_native(record)]
    message = str(error.args[0])
    line, column = line_of(message)
    return [Diagnostic("error", message, line, column)]


@dataclass
class Expected:
    """An `expected-error {{…}}` comment."""

    kind: str
    text: str
    regex: bool
    line: int | None  # None: @unknown
    written: int
    met: bool = False

    def accepts(self, diagnostic: Diagnostic) -> bool:
        """Whether the diagnostic is the expected one."""
        if self.met or diagnostic.kind != self.kind or diagnostic.line != self.line:
            return False
        return re.search(self.pattern(), diagnostic.message) is not None if self.regex else self.text in diagnostic.message

    def pattern(self) -> str:
        """The regular expression of the `-re` form: literal text with expressions in double braces."""
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        return "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))


_EXPECTED = re.compile(r"expected-(error|warning|note|remark)(-re)?\s*(?:@([+-]\d+|above|below|unknown)\s*)?\{\{(.*)\}\}\s*$")


def expectations(text: str, first_line: int = 1) -> list[Expected]:
    """The expectations in a piece of a file whose first line has the number `first_line`.

    `@+N` and `@-N` count from the comment's line; `@above` and `@below` are the nearest lines without such a comment.
    """
    lines = text.split("\n")
    matches = [_EXPECTED.search(line) for line in lines]
    found = []
    for i, match in enumerate(matches):
        if match is None:
            continue
        place, at = match.group(3), i
        if place in ("above", "below"):
            step = -1 if place == "above" else 1
            at += step
            while 0 <= at < len(lines) and matches[at] is not None:
                at += step
        elif place not in (None, "unknown"):
            at += int(place[:10])  # more digits exceed any file, too
        number = None if place == "unknown" else at + first_line
        found.append(Expected(match.group(1), match.group(4), match.group(2) is not None, number, i + first_line))
    return found


def mismatches(expected: Sequence[Expected], got: Sequence[Diagnostic], *, only_expected: bool = False) -> list[Diagnostic]:
    """The unexpected and the missing diagnostics; empty if all agree with the comments."""
    problems = []
    for diagnostic in got:
        wanted = next((e for e in expected if e.accepts(diagnostic)), None)
        if wanted is not None:
            wanted.met = True
        elif not only_expected:
            problems.append(replace(diagnostic, kind="error", message=f"unexpected {diagnostic.kind}: {diagnostic.message}"))
    problems += [Diagnostic("error", f'expected {e.kind} "{e.text}" was not produced', e.written, 1) for e in expected if not e.met]
    return problems


@contextmanager
def collected(context: ir.Context) -> Iterator[list[Diagnostic]]:
    """A list that gets the diagnostics that a context emits in the block."""
    found: list[Diagnostic] = []

    def collect(record: Any) -> bool:
        found.extend(from_native(record))
        return True

    handler = context.attach_diagnostic_handler(collect)
    try:
        yield found
    finally:
        handler.detach()
