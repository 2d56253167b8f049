"""Plans: JSON files with choices at named sites, and with knob values by kernel and op, that override the compiler's decisions."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from stepwell.dialects.support.errors import InputError, ScheduleError, shown
from stepwell.dialects.support.files import read_utf8, write_atomically
from stepwell.dialects.support.numbers import whole_number
from stepwell.dialects.support.properties import cached_property

VERSION = 2
Source: TypeAlias = "str | os.PathLike[str] | Plan"
_KERNEL = {"name": str, "nodes": list, "ops": dict}
_TARGET = {"name": str, "cpu": str, "digest": str}
_ENTRY = {"nodes": list, "kind": str, "sizes": list, "knobs": dict, "legal": dict, "seconds": float}


@dataclass(frozen=True)
class Entry:
    """The entry of a file for one structured op."""

    knobs: Mapping[str, Any]
    """Knob values by name; knobs without an entry keep their defaults."""
    kind: str | None = None
    sizes: tuple[int, ...] | None = None
    nodes: tuple[str, ...] = ()
    """The ONNX nodes that the op implements, for messages."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Notes for the reader: the legal values, the predicted seconds."""


@dataclass(frozen=True)
class KernelEntry:
    """The entry of a file for one kernel."""

    ops: Mapping[int, Entry]
    """Maps the index of an op among the structured ops of the kernel, from 0, to its entry."""
    name: str = ""
    nodes: tuple[str, ...] = ()
    """The kernel's name and its ONNX nodes in the model for which the file was written."""

    def __str__(self) -> str:
        of = f" of {', '.join(self.nodes[:4])}{', …' if len(self.nodes) > 4 else ''}" if self.nodes else ""
        return f"'{self.name}'{of}" if self.name else of.strip()


@dataclass(frozen=True)
class Plan:
    """Choices by kind and site, and schedules by kernel (named by a digest of its computation) and by op.

    ```
    {"version": 2, "choices": {"winograd": {"conv1": "F(2, 3)"}}, "target": {"name": "x86-64-v3", "cpu": "x86-64-v3", "digest": "0a5c8f…"},
     "kernels": {"55794b3bd2c1f0aa": {"name": "conv_1c0d3f5e", "nodes": ["conv1"],
       "ops": {"1": {"nodes": ["conv1"], "kind": "contraction", "sizes": [16, 8], "knobs": {"unroll.0": 6}, "legal": {…}}}}}} ```

    A site is named by the ONNX nodes that the op implements, joined by `+`.

    `target`, `kind` and `sizes`, if given, must be those of the run and of the op; names and nodes are only for messages, and `legal` and `seconds`
    are not read.
    """

    kernels: Mapping[str, KernelEntry]
    name: str = "schedule"
    """Its origin, for messages."""
    target: Mapping[str, str] | None = None
    """Name, CPU and digest of the machine that the plan is for; empty for any machine."""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each kind of choice, the candidate to take by site."""

    @staticmethod
    def from_source(source: Source) -> "Plan":
        """`source` itself, or the plan in the file of that name. Raises ScheduleError, also for a file that cannot be read, and InputError."""
        if isinstance(source, Plan):
            return source
        if not isinstance(source, (str, os.PathLike)):
            raise InputError(f"schedule: expected the path of a plan or a Plan, got {shown(source)}")
        return Plan.parse(read_utf8(source, "plan", "a plan, which is JSON", ScheduleError), str(Path(source)))

    @staticmethod
    def parse(text: str, name: str = "schedule") -> "Plan":
        """The plan in `text`. Raises ScheduleError, naming the problem and its position, or InputError if it is not text."""
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
        except ValueError:
            raise ScheduleError(f"{name}: not JSON that is read: a number of thousands of digits") from None
        _of_type(data, dict, name)
        if data.get("version") == 1:
            raise ScheduleError(
                f"{name}: version 1 of schedule files named kernels and targets otherwise, and is not read any more; "
                "write one anew with stepwell inspect MODEL --emit-schedule FILE"
            )
        needed = ("version",) if "choices" in data else ("version", "kernels")
        _fields(data, {"version": int, "target": dict, "choices": dict, "kernels": dict}, name, needed=needed)
        if data["version"] != VERSION:
            raise ScheduleError(f"{name}: version {data['version']} of schedule files is not known, expected {VERSION}")
        if "target" in data:
            _fields(data["target"], _TARGET, f"{name}: 'target'", needed=("digest",))
        kernels = {digest: _kernel(entry, f"{name}: kernel '{digest}'") for digest, entry in data.get("kernels", {}).items()}
        for kind, sites in data.get("choices", {}).items():
            _of_type(sites, dict, f"{name}: choices of '{kind}'")
            for site, chosen in sites.items():
                _of_type(chosen, str, f"{name}: choice {kind}/{site}")
        return Plan(kernels, name, data.get("target"), data.get("choices", {}))

    @cached_property
    def text(self) -> str:
        """The file's text; equal plans have equal texts."""
        kernels = {digest: _kernel_to_json(entry) for digest, entry in self.kernels.items()}
        target = {"target": dict(self.target)} if self.target is not None else {}
        choices = {"choices": {kind: dict(sites) for kind, sites in self.choices.items()}} if self.choices else {}
        return _pretty({"version": VERSION, **target, **choices, "kernels": kernels}) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        write_atomically(path, self.text)


def _kernel_to_json(kernel: KernelEntry) -> dict[str, Any]:
    given = {"name": kernel.name, "nodes": list(kernel.nodes)}
    return {**{k: v for k, v in given.items() if v}, "ops": {str(op): _to_json(e) for op, e in sorted(kernel.ops.items())}}


def _to_json(entry: Entry) -> dict[str, Any]:
    given = {"nodes": list(entry.nodes) or None, "kind": entry.kind, "sizes": list(entry.sizes) if entry.sizes is not None else None}
    return {**{k: v for k, v in given.items() if v is not None}, "knobs": dict(entry.knobs), **entry.notes}


def _pretty(value: Any, indent: str = "") -> str:
    """JSON with a line for each knob: objects that contain objects span several lines, other values one."""
    if not isinstance(value, dict) or not value or (not any(isinstance(v, dict) for v in value.values()) and "order" not in value):
        return json.dumps(value)
    deeper = indent + " "
    return "{\n" + ",\n".join(f"{deeper}{json.dumps(k)}: {_pretty(v, deeper)}" for k, v in value.items()) + f"\n{indent}}}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are unique: json would silently drop one of two equal names."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ScheduleError(f"'{name}' is given twice in one object")
        found[name] = value
    return found


def _kernel(data: Any, where: str) -> KernelEntry:
    _fields(data, _KERNEL, where, needed=("ops",))
    ops = {_place(op, where): _entry(entry, f"{where}, op {op}") for op, entry in data["ops"].items()}
    return KernelEntry(ops, data.get("name", ""), _nodes(data, where))


def _entry(data: Any, where: str) -> Entry:
    _fields(data, _ENTRY, where, needed=("knobs",))
    sizes = data.get("sizes")
    return Entry(data["knobs"], data.get("kind"), tuple(sizes) if sizes is not None else None, _nodes(data, where))


def _nodes(data: Mapping[str, Any], where: str) -> tuple[str, ...]:
    nodes = data.get("nodes", [])
    for node in nodes:
        _of_type(node, str, f"{where}: 'nodes'")
    return tuple(nodes)


def _place(text: str, where: str) -> int:
    number = whole_number(text)
    if number is None:
        raise ScheduleError(f"{where}: {shown(text)} is not the place of an op, expected a whole number from 0")
    return number


def _fields(data: Any, known: Mapping[str, type], where: str, *, needed: tuple[str, ...]) -> None:
    """Check that `data` is an object with all `needed` fields, no unknown ones, and the right types."""
    _of_type(data, dict, where)
    for name, value in data.items():
        if name not in known:
            raise ScheduleError(f"{where}: there is no field '{name}', expected {', '.join(known)}")
        _of_type(value, known[name], f"{where}: '{name}'")
    for name in needed:
        if name not in data:
            raise ScheduleError(f"{where}: '{name}' is missing")


def _of_type(value: Any, kind: type, where: str) -> None:
    names = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number"}
    if type(value) is not kind:
        shown = json.dumps(value)
        raise ScheduleError(f"{where}: expected {names[kind]}, got {shown if len(shown) <= 60 else shown[:57] + '…'}")
