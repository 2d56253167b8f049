"""The `target` dialect: the description of a machine as an attribute, so that IR names its target."""

from dataclasses import MISSING, asdict, fields
from typing import Any

from stepwell.dialects.core.attribute_kinds import Kind
from stepwell.dialects.core.attributes import to_attribute, to_python
from stepwell.dialects.core.carried import Carried, Carrier
from stepwell.dialects.core.mlir import Attribute, Dialect, ir, register_dialect
from stepwell.dialects.support.errors import InferenceError
from stepwell.dialects.target.description import Caches, Costs, Pipes, Target


@register_dialect
class TargetDialect(Dialect, name="target"):
    """The machine that a module is for."""


class DescriptionAttr(Attribute, dialect=TargetDialect, name="description"):
    """A machine: `fields` are those of `stepwell.Target`, by name; those with defaults may be omitted."""

    fields: ir.DictAttr


def _described(attribute: ir.Attribute) -> Target:
    if not isinstance(attribute, DescriptionAttr):
        raise ValueError
    try:
        given = to_python(ir.DictAttr(attribute.fields))
    except InferenceError as error:
        raise ValueError(error.args[0]) from None
    return _record(Target, given, "")


def _description(target: Target) -> ir.Attribute:
    values = {f.name: getattr(target, f.name) for f in fields(target) if f.default is MISSING or f.default != getattr(target, f.name)}
    values["features"] = sorted(target.features)
    values["caches"] = asdict(target.caches)
    if "costs" in values:
        values["costs"] = asdict(target.costs)
    values["pipes"] = {f.name: (float if f.type is float else int)(getattr(target.pipes, f.name)) for f in fields(Pipes)}
    return DescriptionAttr.get(to_attribute(values))


def _record(cls: Any, given: Any, where: str) -> Any:
    """An instance of a dataclass from its fields, each checked."""
    if not isinstance(given, dict):
        raise ValueError(f"{where}expected a dictionary of {', '.join(f.name for f in fields(cls))}, got {given!r}")
    known = {f.name: f for f in fields(cls)}
    for name in given:
        if name not in known:
            raise ValueError(f"{where}there is no field '{name}', expected {', '.join(known)}")
    for name, field in known.items():
        if name not in given and field.default is MISSING:
            raise ValueError(f"{where}field '{name}' is missing")
    return cls(**{name: _value(known[name].type, value, f"{where}field '{name}': ") for name, value in given.items()})


def _value(kind: Any, value: Any, where: str) -> Any:
    if kind in (Caches, Costs, Pipes):
        return _record(kind, value, where)
    if kind == tuple[float, float, float]:
        if not isinstance(value, tuple) or len(value) != 3 or not all(type(entry) is float for entry in value):
            raise ValueError(f"{where}expected a list of three floats, got {value!r}")
        return value
    if kind == frozenset[str]:
        if not isinstance(value, tuple) or not all(isinstance(entry, str) for entry in value):
            raise ValueError(f"{where}expected a list of strings, got {value!r}")
        return frozenset(value)
    if kind is int and type(value) is int and value < 1:
        raise ValueError(f"{where}expected a number from 1, got {value}")
    if type(value) is not kind:
        raise ValueError(f"{where}expected {'an' if kind is int else 'a'} {kind.__name__}, got {value!r}")
    return value


DESCRIPTION: Kind[Target] = Kind("a #target.description<{…}>", _described, _description)


class TargetInfo(Carrier):
    """The attribute of a module that describes its target."""

    on, what = ("builtin.module",), "a module"

    target: Carried[Target | None] = Carried("target.description", DESCRIPTION, None)
    """None at level graph, which is for any machine: the pass attach-target sets it, before the first pass that needs it."""
