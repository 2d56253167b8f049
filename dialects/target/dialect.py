"""The `target` dialect: the description of a machine as an attribute, so that IR says which one it is for."""

from dataclasses import MISSING, asdict, fields
from typing import Any

from stepwell.dialects.core.attributes import to_attribute, to_python
from stepwell.dialects.core.mlir import Attribute, Dialect, ir, register_dialect
from stepwell.dialects.support.errors import InferenceError, IRError
from stepwell.dialects.target.description import Caches, Pipes, Target

ATTRIBUTE = "target.description"
"""The name under which a module carries its target. Level graph is for any: the pass attach-target puts it there, before the first that asks."""


@register_dialect
class TargetDialect(Dialect, name="target"):
    """The machine that a module is for."""


class DescriptionAttr(Attribute, dialect=TargetDialect, name="description"):
    """A machine: `fields` are those of `stepwell.Target`, by name; those with defaults may be left out."""

    fields: ir.DictAttr


def set_target(module: ir.Operation, target: Target) -> None:
    """Have a module say which machine it is for."""
    values = {f.name: getattr(target, f.name) for f in fields(target) if f.default is MISSING or f.default != getattr(target, f.name)}
    values["features"] = sorted(target.features)
    values["caches"] = asdict(target.caches)
    values["pipes"] = {f.name: (float if f.type is float else int)(getattr(target.pipes, f.name)) for f in fields(Pipes)}
    with module.context, ir.Location.unknown():
        module.attributes[ATTRIBUTE] = DescriptionAttr.get(to_attribute(values))


def target_of(module: ir.Operation) -> Target | None:
    """The machine that a module says it is for, or None. Raises IRError, naming the field, for an attribute that describes none."""
    if ATTRIBUTE not in module.attributes:
        return None
    attribute = module.attributes[ATTRIBUTE]
    if not isinstance(attribute, DescriptionAttr):
        raise IRError(f"{ATTRIBUTE}: expected a #target.description<{{…}}>, got {attribute}")
    try:
        given = to_python(ir.DictAttr(attribute.fields))
    except InferenceError as error:
        raise IRError(f"{ATTRIBUTE}: {error.args[0]}") from None
    described: Target = _record(Target, given, ATTRIBUTE)
    return described


def _record(cls: Any, given: Any, where: str) -> Any:
    """An instance of a dataclass from its fields, each checked."""
    if not isinstance(given, dict):
        raise IRError(f"{where}: expected a dictionary of {', '.join(f.name for f in fields(cls))}, got {given!r}")
    known = {f.name: f for f in fields(cls)}
    for name in given:
        if name not in known:
            raise IRError(f"{where}: there is no field '{name}', expected {', '.join(known)}")
    for name, field in known.items():
        if name not in given and field.default is MISSING:
            raise IRError(f"{where}: field '{name}' is missing")
    return cls(**{name: _value(known[name].type, value, f"{where}: field '{name}'") for name, value in given.items()})


def _value(kind: Any, value: Any, where: str) -> Any:
    if kind in (Caches, Pipes):
        return _record(kind, value, where)
    if kind == frozenset[str]:
        if not isinstance(value, tuple) or not all(isinstance(entry, str) for entry in value):
            raise IRError(f"{where}: expected a list of strings, got {value!r}")
        return frozenset(value)
    if kind is int and type(value) is int and value < 1:
        raise IRError(f"{where}: expected a number from 1, got {value}")
    if type(value) is not kind:
        raise IRError(f"{where}: expected {'an' if kind is int else 'a'} {kind.__name__}, got {value!r}")
    return value
