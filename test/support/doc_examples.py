"""Reads the examples of a page of documentation: commands with the output that is shown for them, and snippets of Python."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ELISION = "…"  # any text in a line; alone on its line any lines


@dataclass
class Command:
    """A command of a page, and the lines shown below it."""

    line: int
    text: str
    shown: list[str] = field(default_factory=list)


@dataclass
class Snippet:
    """A piece of code of a page."""

    line: int
    language: str
    text: str


def read(page: Path) -> tuple[list[Command], list[Snippet]]:
    """The commands and the other fenced blocks of a page. A block without a language has commands, after `$ ` where output is shown too."""
    commands: list[Command] = []
    snippets: list[Snippet] = []
    block: list[str] | None = None
    language, start = "", 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("```"):
            if block is not None:
                block.append(line)
            continue
        if block is None:
            block, language, start = [], line[3:], number
            continue
        if language:
            snippets.append(Snippet(start, language, "\n".join(block)))
        else:
            commands += _commands(block, start + 1)
        block = None
    return commands, snippets


def _commands(block: list[str], start: int) -> list[Command]:
    prompted = any(line.startswith("$ ") for line in block)
    found: list[Command] = []
    for number, line in enumerate(block, start):
        if not prompted and re.match(r"(\.venv/|scripts/|stepwell(-opt)? )", line):
            found.append(Command(number, line))
        elif line.startswith("$ "):
            found.append(Command(number, line[2:]))
        elif prompted:
            found[-1].shown.append(line)
    return found


def difference(shown: list[str], output: str, *, measured: bool = False) -> str | None:
    """Why an output is not what is shown, or None if it is. Widths of columns and of rules do not count; numbers neither if they were `measured`."""
    if measured:
        output, shown = _without_numbers(output), [_without_numbers(line) for line in shown]
    pattern = ""
    for line in map(_plain, shown):
        pattern += r"(?:.*\n)*?" if line == ELISION else re.escape(line).replace(re.escape(ELISION), ".*") + r"\n"
    got = "".join(f"{_plain(line)}\n" for line in output.splitlines() if _plain(line))
    return None if not shown or re.fullmatch(pattern, got) else f"shown is\n{chr(10).join(shown)}\nbut it prints\n{output}"


def _without_numbers(text: str) -> str:
    return re.sub(r"\d[\d.]*( [mµ]?s\b)?", ELISION, text)


def _plain(line: str) -> str:
    return re.sub(r"─+", "─", re.sub(r" +", " ", line)).strip()


def quoted(snippet: str, source: str) -> str | None:
    """The first line of a snippet that is not in the source, in order; None if all are. Comments and what `...` stands for are left out."""
    rest = [_code(line) for line in source.splitlines()]
    for line in filter(None, map(_code, snippet.splitlines())):
        wanted = line.removesuffix("...").rstrip()
        place = next((i for i, there in enumerate(rest) if there == wanted or (line != wanted and there.startswith(wanted))), None)
        if place is None:
            return line
        rest = rest[place + 1 :]
    return None


def _code(line: str) -> str:
    return re.sub(r"\s+#.*", "", line).strip()
