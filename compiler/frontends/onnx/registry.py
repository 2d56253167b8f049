"""The importer's rules: one function for each ONNX operator and since-version, whose Python signature is the operator's schema."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from stepwell.border.registry import Group as Group, is_group, parts_of
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.properties import cached_property
from stepwell.frontends.onnx.functions import domain_of
from stepwell.frontends.onnx.sequences import Nothing, SequenceValue, described

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Rule:
    """How nodes of one operator are imported from opset `since` on, until a rule with a newer `since` replaces it."""

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    ignored: Mapping[str, Any] = field(default_factory=dict)
    """The attributes that the function does not take, and their defaults: they have no effect on the result, or must have these values."""
    fixed: Collection[str] = ()
    """The attributes among `ignored` that must have these values."""

    # The properties from the function's signature, read when the rule is first applied: most are never applied in one process.

    @cached_property
    def _declared(self) -> list[tuple[inspect.Parameter, list[inspect.Parameter]]]:
        """The parameters of the function behind the builder, with the inputs or attributes that each stands for."""
        return [(parameter, parts_of(parameter)) for parameter in list(inspect.signature(self.function).parameters.values())[1:]]

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return [part for _, parts in self._declared for part in parts]

    @cached_property
    def _inputs(self) -> list[inspect.Parameter]:
        return [p for p in self._parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @cached_property
    def required(self) -> list[int]:
        """The numbers of the required inputs."""
        return [i for i, p in enumerate(self._inputs) if p.default is p.empty]

    @cached_property
    def positional(self) -> int:
        """The number of required and optional inputs."""
        return len(self._inputs)

    @cached_property
    def variadic(self) -> bool:
        """Whether any number of inputs may follow."""
        return any(p.kind is p.VAR_POSITIONAL for p in self._parameters)

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The default of each attribute, `inspect.Parameter.empty` for a required one.

        Floats are rounded to f32 as in ONNX, even for f64 data.
        """
        own = {p.name: p.default for p in self._parameters if p.kind is p.KEYWORD_ONLY}
        return {name: float(np.float32(given)) if type(given) is float else given for name, given in {**own, **self.ignored}.items()}

    @cached_property
    def choices(self) -> Mapping[str, tuple[Any, ...]]:
        """The supported values of the attributes that are annotated with a Literal, and of the `fixed` ones."""
        literals = {p.name: get_args(p.annotation) for p in self._parameters if get_origin(p.annotation) is Literal}
        return {**literals, **{name: (self.attributes[name],) for name in self.fixed}}

    @cached_property
    def kinds(self) -> tuple[tuple[type, ...], ...]:
        """The possible kinds of each input, and last of those in the variadic part."""
        return tuple(_kinds_of(p.annotation) for p in self._parameters if p.kind is not p.KEYWORD_ONLY)

    def apply(self, builder: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the node's outputs, in order.

        Raises UnsupportedError if the node has inputs or attributes that the rule does not know.
        """
        present = list(inputs)
        while present and present[-1] is None:
            present.pop()
        if not self.variadic and len(present) > self.positional:
            raise UnsupportedError(f"input number {self.positional} is not supported; supported: {self.positional} inputs")
        needed = [*self.required, *range(self.positional, len(present))]
        absent = [i for i in needed if i >= len(present) or present[i] is None]
        if absent:
            raise UnsupportedError(f"without its input number {absent[0]} it is not supported; supported: with the inputs {needed}")
        for i, value in enumerate(present):
            kinds = self.kinds[min(i, len(self.kinds) - 1)]
            if value is not None and not isinstance(value, kinds):
                raise ModelError(f"input number {i} is {described(value)}; expected {' or '.join(_KINDS[kind] for kind in kinds)}")
        unknown = [name for name in attributes if name not in self.attributes]
        if unknown:
            known = ", ".join(sorted(self.attributes)) or "none"
            raise UnsupportedError(f"attribute {unknown[0]}={shortened(attributes[unknown[0]])} is not supported; supported attributes: {known}")
        for name, choices in self.choices.items():
            if name in attributes and attributes[name] not in choices:
                raise UnsupportedError(f"{name}={shortened(attributes[name])} is not supported; supported: {', '.join(map(repr, choices))}")
        missing = [name for name, default in self.attributes.items() if default is inspect.Parameter.empty and name not in attributes]
        if missing:
            raise UnsupportedError(f"without the attribute {missing[0]} it is not supported")
        positional, keywords = self._arguments(present, attributes)
        made = self.function(builder, *positional, **keywords)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    def _arguments(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the function: the inputs and attributes, those of a group in one."""
        positional: list[Any] = []
        keywords, taken = {name: attributes.get(name, default) for name, default in self.attributes.items() if name not in self.ignored}, 0
        for parameter, parts in self._declared:
            if parameter.kind is parameter.KEYWORD_ONLY:
                if is_group(parameter):
                    keywords[parameter.name] = parameter.annotation(**{part.name: keywords.pop(part.name) for part in parts})
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                given = inputs[taken : taken + len(parts)]
                positional += [parameter.annotation(*given)] if is_group(parameter) else given
                taken += len(parts)
        return [*positional, *inputs[taken:]], keywords


_rules: dict[tuple[str, str], list[Rule]] = {}
_NONE: Mapping[str, Any] = MappingProxyType({})


def onnx_rule(
    name: str, *, since: int, domain: str = "", replace: bool = False, ignored: Mapping[str, Any] = _NONE, fixed: Mapping[str, Any] = _NONE
) -> Callable[[Function], Function]:
    """Register the decorated function as the rule for operator `name` from opset version `since` of `domain` on.

    The function takes the builder, the node's inputs by position (`Value | None` with the default None for an optional one, `*values` for any number;
    `SequenceValue` and `Nothing` if one may be a sequence, or an empty optional) and its attributes by keyword (a default for an optional one), and
    returns the node's outputs: one value or a tuple, which may omit unsupported outputs at the end, and have an Unavailable with the reason for
    others. It raises UnsupportedError or ModelError about its node. A `Group` stands for several inputs or attributes; other values of an attribute
    than those of its Literal are reported as unsupported.

    `ignored` are further attributes, with their defaults, that have no effect on the result, `fixed` those that must have their defaults. `replace`
    allows replacing an existing rule. Raises StepwellError if there is one and `replace` is not set.
    """

    def register(function: Function) -> Function:
        rule = Rule(name, domain_of(domain), since, function, {**ignored, **fixed}, fixed)
        rules = _rules.setdefault((rule.domain, name), [])
        same = [r for r in rules if r.since == since]
        if same and not replace:
            raise StepwellError(
                f"there is already an importer rule for {name} since opset {since} of {domain or 'ai.onnx'}; pass replace=True to replace it"
            )
        rules[:] = sorted([r for r in rules if r.since != since] + [rule], key=lambda r: r.since)
        extension(function)
        return function

    return register


_KINDS: dict[type, str] = {ir.Value: "a tensor", SequenceValue: "a sequence", Nothing: "an optional that holds nothing"}


def _kinds_of(annotation: Any) -> tuple[type, ...]:
    """The possible kinds of an input, by the annotation of its parameter: a tensor unless it says otherwise."""
    said = get_args(annotation) or (annotation,)
    return tuple(kind for kind in _KINDS if kind in said) or (ir.Value,)


def find_rule(domain: str, name: str, opset: int) -> Rule | None:
    """The newest rule for an operator with `since` at most `opset`, or None."""
    return next((r for r in reversed(_rules.get((domain_of(domain), name), [])) if r.since <= opset), None)


def newest_rule(domain: str, name: str) -> int:
    """The since-version of the newest rule for an operator; 0 if there is none."""
    return max((r.since for r in _rules.get((domain_of(domain), name), [])), default=0)


def missing_rule(domain: str, name: str) -> str:
    """The reason for which `find_rule` finds no rule."""
    rules = _rules.get((domain_of(domain), name))
    return f"there is no rule for it before opset {rules[0].since}" if rules else "there is no rule for it"


def all_rules() -> list[Rule]:
    """Every registered rule, by domain, name and since-version."""
    return [rule for key in sorted(_rules) for rule in _rules[key]]


def shortened(value: Any, limit: int = 60) -> str:
    """A value as messages show it."""
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"
