"""Techniques that can be switched off one by one: their names, and pipelines without them."""

import difflib
from collections.abc import Collection, Iterable, Sequence

from stepwell.dialects.support.errors import InputError
from stepwell.passes.framework.pipeline import Element, flatten, format_pipeline, parse_options, parse_pipeline
from stepwell.passes.framework.registry import passes


def techniques_of(pipelines: Iterable[str]) -> dict[str, str]:
    """What the pipelines do that can be switched off, in their order: the name of each technique, and of the pass that does it."""
    found: dict[str, str] = {}
    for pipeline in pipelines:
        for step in flatten(parse_pipeline(pipeline)):
            if step.name in passes():
                found.update(dict.fromkeys(passes()[step.name].techniques, step.name))
    return found


def relaxed_of(pipelines: Iterable[str]) -> tuple[str, ...]:
    """The techniques of the pipelines that strict code does without."""
    used = dict.fromkeys(step.name for pipeline in pipelines for step in flatten(parse_pipeline(pipeline)))
    return tuple(name for step in used if step in passes() for name in passes()[step].relaxed)


def check_techniques(names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """The names, each once. Raises InputError for one that is not among the `known`."""
    if isinstance(names, str):
        raise InputError(f"expected names of techniques to switch off, as in disable=('{names}',), got a string")
    chosen = tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise InputError(f"'{name}' cannot be switched off: {hint}these can: {', '.join(known)}")
    return chosen


def without(pipeline: str, names: Collection[str]) -> str:
    """The pipeline with the techniques `names` switched off: their passes left out, or run with the options that do so."""
    return format_pipeline(_without(parse_pipeline(pipeline), names)) if names else pipeline


def _without(elements: Sequence[Element], names: Collection[str]) -> list[Element]:
    kept = []
    for element in elements:
        if element.nested is not None:
            nested = _without(element.nested, names)
            if nested:
                kept.append(Element(element.name, element.options, tuple(nested)))
            continue
        cls = passes().get(element.name)
        off = [options for name, options in cls.techniques.items() if name in names] if cls is not None else []
        if None not in off:
            options = dict(element.options)
            for text in off:
                options.update(parse_options(text or ""))
            kept.append(Element(element.name, options))
    return kept
