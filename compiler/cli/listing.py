"""The listings of stepwell-opt and the documentation: passes with their options, dialects with their ops."""

import dataclasses
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.dialects.core.mlir import attribute_fields, make_context, operand_fields, registered_dialects, result_fields
from stepwell.passes.framework.levels import level_names
from stepwell.passes.framework.registry import Pass, passes
from stepwell.passes.framework.upstream import upstream_options, upstream_passes, upstream_summary
from stepwell.passes.framework.upstream_names import DIALECTS

WIDTH = 120


def passes_text() -> str:
    """All passes: ours by level with docstring and options, upstream's with the operation they run on and their options."""
    ours = passes().values()
    lines = ["Passes of Stepwell, by the level they work on:"]
    for level in level_names():
        for cls in sorted((c for c in ours if c.level == level), key=lambda c: c.name):
            lines += ["", f"  --{cls.name}  ({level}; on {cls.anchor})", *_wrapped(summary(cls), "      ")]
            lines += [f"      {name}=<{_type_name(option.type)}>  (default: {_default(option)})" for name, option in cls.options().items()]
    context = make_context()
    lines += ["", "Passes and pipelines of upstream, with the operation they run on and the defaults of their options:", ""]
    for name, anchor in upstream_passes().items():
        options = " ".join(f"{option}={value}" for option, value in upstream_options(name, context).items())
        lines.append(f"  --{name}  (on {anchor})")
        lines += [*_wrapped(upstream_summary(name), "      "), *_wrapped(options, "      ")]
    return "\n".join([*lines, ""])


def option_values(cls: type[Pass], given: Mapping[str, str]) -> str:
    """All options of a pass with their values: those that are `given`, else the default ones."""
    return " ".join(f"{name}={given.get(name, _default(option))}" for name, option in cls.options().items())


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def _default(option: "dataclasses.Field[Any]") -> str:
    if option.default_factory is not dataclasses.MISSING:
        return str(option.default_factory())
    if option.default is dataclasses.MISSING:
        return "none: must be given"
    return str(option.default).lower() if isinstance(option.default, bool) else str(option.default)


def dialects_text() -> str:
    """Our dialects with their ops (operands, attributes, results, meaning) and attributes, and the names of upstream's."""
    lines = []
    for dialect in registered_dialects():
        lines += [f"{dialect.DIALECT_NAMESPACE}: {summary(dialect)}", ""]
        for op in sorted(dialect.operations, key=lambda c: c.OPERATION_NAME):
            lines += [f"  {signature(op)}", *_wrapped(summary(op), "      ")]
        for attribute in getattr(dialect, "attributes", ()):
            lines += [f"  #{attribute.attr_name}", *_wrapped(summary(attribute), "      ")]
        lines.append("")
    return "\n".join([*lines, "Dialects of upstream:", *_wrapped(" ".join(DIALECTS), "  "), ""])


def signature(op: Any) -> str:
    """`graph.leaky_relu(x) {alpha: FloatAttr} -> result` for an op class; `?` marks an optional field, `…` a variadic one."""
    mark = {"single": "", "optional": "?", "variadic": "…"}
    operands = ", ".join(name + mark[kind] for name, kind in operand_fields(op))
    attributes = ", ".join(f"{f.name}: {getattr(f.constraint, '__name__', f.constraint)}" for f in attribute_fields(op))
    results = ", ".join(name + mark[kind] for name, kind in result_fields(op))
    return f"{op.OPERATION_NAME}({operands})" + (f" {{{attributes}}}" if attributes else "") + (f" -> {results}" if results else "")


def summary(thing: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _wrapped(text: str, indent: str) -> Iterable[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
