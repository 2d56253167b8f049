"""The `target` dialect: the description of a machine as an attribute, so that IR names its target."""

from functools import partial
from typing import Any

from stepwell.dialects.core.attribute_kinds import FIELD_TYPES, Kind, filled_in, plain, python_value, record, written
from stepwell.dialects.core.attributes import to_attribute
from stepwell.dialects.core.carried import Carried, Carrier
from stepwell.dialects.core.mlir import Attribute, Dialect, ir, register_dialect
from stepwell.dialects.target.description import Caches, Costs, Pipes, Target


@register_dialect
class TargetDialect(Dialect, name="target"):
    """The machine that a module is for."""


class DescriptionAttr(Attribute, dialect=TargetDialect, name="description"):
    """A machine: `fields` are those of `stepwell.Target`, by name; those with defaults may be omitted."""

    fields: ir.DictAttr


def _are(kind: type, value: object) -> bool:
    """Whether a value is a list of values of a kind."""
    return isinstance(value, tuple) and all(type(entry) is kind for entry in value)


_FIELDS: dict[Any, Kind[Any]] = {
    **FIELD_TYPES,
    int: plain("a whole number from 1", lambda value: type(value) is int and value > 0, lambda value: to_attribute(int(value))),
    float: plain("a float", lambda value: type(value) is float, lambda value: to_attribute(float(value))),
    tuple[float, float, float]: plain("a list of three floats", lambda value: _are(float, value) and len(value) == 3),
    frozenset[str]: Kind(
        "a list of strings", lambda attribute: frozenset(python_value(attribute, partial(_are, str))), lambda names: to_attribute(sorted(names))
    ),
}
_FIELDS |= {kind: record(kind, kinds=_FIELDS) for kind in (Caches, Costs, Pipes)}


def _described(attribute: ir.Attribute) -> Target:
    if not isinstance(attribute, DescriptionAttr):
        raise ValueError
    return filled_in(Target, ir.DictAttr(attribute.fields), kinds=_FIELDS)


DESCRIPTION: Kind[Target] = Kind(
    "a #target.description<{…}>", _described, lambda target: DescriptionAttr.get(written(target, Target.__annotations__, _FIELDS))
)


class TargetInfo(Carrier):
    """The attribute of a module that describes its target."""

    on, what = ("builtin.module",), "a module"

    target: Carried[Target | None] = Carried("target.description", DESCRIPTION, None)
    """None at level graph, which is for any machine: the pass attach-target sets it, before the first pass that needs it."""
