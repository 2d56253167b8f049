"""Schedule files: for kernels and ops of theirs the values of knobs that replace what would be chosen, as JSON."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from stepwell.dialects.support.errors import InputError, ScheduleError, shown
from stepwell.dialects.support.files import write_atomically

VERSION = 1
Source: TypeAlias = "str | os.PathLike[str] | ScheduleFile"
_ENTRY = {"kind": str, "sizes": list, "knobs": dict, "legal": dict, "cycles": int}


@dataclass(frozen=True)
class Entry:
    """What a file says of one structured op."""

    knobs: Mapping[str, Any]
    """Values by the names of knobs; those that are not named keep what would be chosen."""
    kind: str | None = None
    sizes: tuple[int, ...] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What is written for the reader alone: the legal values, the predicted cycles."""


@dataclass(frozen=True)
class ScheduleFile:
    """Schedules by kernel and by the place of an op among the structured ops of its kernel, counted from 0.

    ```
    {"version": 1, "kernels": {"conv_55794b3b": {"1": {"kind": "contraction", "sizes": [16, 8], "knobs": {"unroll.0": 6}, "legal": {…}}}}}
    ```
    `kind` and `sizes`, where they are given, must be those of the op; `legal` and `cycles` are not read.
    """

    kernels: Mapping[str, Mapping[int, Entry]]
    name: str = "schedule"
    """Where it comes from, for messages."""

    @staticmethod
    def of(source: Source) -> "ScheduleFile":
        """`source` itself, or what the file of that name says. Raises ScheduleError, for a file that cannot be read too, and InputError."""
        if isinstance(source, ScheduleFile):
            return source
        if not isinstance(source, (str, os.PathLike)):
            raise InputError(f"schedule: expected the path of a schedule file or a ScheduleFile, got {shown(source)}")
        path = Path(source)
        try:
            return ScheduleFile.parse(path.read_text(encoding="utf-8"), str(path))
        except UnicodeDecodeError:
            raise ScheduleError(f"{path}: expected a schedule file, which is JSON in UTF-8") from None
        except OSError as error:
            raise ScheduleError(f"{path}: {error.strerror}") from None
        except ValueError:
            raise InputError(f"schedule: expected the path of a file, got {shown(source)}") from None

    @staticmethod
    def parse(text: str, name: str = "schedule") -> "ScheduleFile":
        """The schedules that `text` holds. Raises ScheduleError naming what is wrong with it, and where, or InputError if it is no text."""
        if not isinstance(text, str):
            raise InputError(f"text: expected a string, got {shown(text)}")
        try:
            data = json.loads(text, object_pairs_hook=_once)
        except RecursionError:
            raise ScheduleError(f"{name}: its lists are nested too deeply") from None
        except json.JSONDecodeError as error:
            raise ScheduleError(f"{name}, line {error.lineno}: not JSON: {error.msg}") from None
        except ScheduleError as error:
            raise ScheduleError(f"{name}: {error.args[0]}") from None
        _fields(data, {"version": int, "kernels": dict}, name, needed=("version", "kernels"))
        if data["version"] != VERSION:
            raise ScheduleError(f"{name}: version {data['version']} of schedule files is not known, expected {VERSION}")
        kernels = {}
        for kernel, entries in data["kernels"].items():
            where = f"{name}: kernel '{kernel}'"
            _of_type(entries, dict, where)
            kernels[kernel] = {_place(op, where): _entry(entry, f"{where}, op {op}") for op, entry in entries.items()}
        return ScheduleFile(kernels, name)

    @cached_property
    def text(self) -> str:
        """The file's text: the same for the same content."""
        kernels = {k: {str(op): _to_json(e) for op, e in sorted(entries.items())} for k, entries in sorted(self.kernels.items())}
        return _pretty({"version": VERSION, "kernels": kernels}) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        write_atomically(path, self.text)


def _to_json(entry: Entry) -> dict[str, Any]:
    given = {"kind": entry.kind, "sizes": list(entry.sizes) if entry.sizes is not None else None}
    return {**{k: v for k, v in given.items() if v is not None}, "knobs": dict(entry.knobs), **entry.notes}


def _pretty(value: Any, indent: str = "") -> str:
    """JSON with a line for each knob: objects that hold objects are spread out, others and lists are not."""
    if not isinstance(value, dict) or not value or (not any(isinstance(v, dict) for v in value.values()) and "order" not in value):
        return json.dumps(value)
    deeper = indent + " "
    return "{\n" + ",\n".join(f"{deeper}{json.dumps(k)}: {_pretty(v, deeper)}" for k, v in value.items()) + f"\n{indent}}}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, if each of its names is there once: of two that are equal one would be lost in silence."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ScheduleError(f"'{name}' is given twice in one object")
        found[name] = value
    return found


def _entry(data: Any, where: str) -> Entry:
    _fields(data, _ENTRY, where, needed=("knobs",))
    sizes = data.get("sizes")
    return Entry(data["knobs"], data.get("kind"), tuple(sizes) if sizes is not None else None)


def _place(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ScheduleError(f"{where}: '{text}' is not the place of an op, expected a whole number from 0")
    return int(text)


def _fields(data: Any, known: Mapping[str, type], where: str, *, needed: tuple[str, ...]) -> None:
    """Check that `data` is an object whose fields are known, of the right types, and all there that are needed."""
    _of_type(data, dict, where)
    for name, value in data.items():
        if name not in known:
            raise ScheduleError(f"{where}: there is no field '{name}', expected {', '.join(known)}")
        _of_type(value, known[name], f"{where}: '{name}'")
    for name in needed:
        if name not in data:
            raise ScheduleError(f"{where}: '{name}' is missing")


def _of_type(value: Any, kind: type, where: str) -> None:
    names = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}
    if type(value) is not kind:
        shown = json.dumps(value)
        raise ScheduleError(f"{where}: expected {names[kind]}, got {shown if len(shown) <= 60 else shown[:57] + '…'}")
