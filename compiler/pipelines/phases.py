"""Phases: named groups of passes, from which backends assemble their default pipelines."""

from collections.abc import Iterable
from dataclasses import dataclass

PER_FUNCTION = "per-function"
"""The group in a stage's text whose passes run on each function separately."""


@dataclass(frozen=True)
class Phase:
    """Passes that belong together, as a part of a stage or all of it."""

    name: str
    """Their purpose, in a few words."""
    level: str
    """The level to which their stage leads."""
    passes: str
    """The passes, in the syntax of pipelines; lines that begin with `//` are comments."""
    per_function: bool = False
    """Whether they run on each function separately, in parallel. Only such phases can follow in the same stage."""


def pipeline_text(phases: Iterable[Phase]) -> str:
    """The text of a pipeline made of phases: a stage for each of their levels, in the order of first occurrence."""
    stages: dict[str, list[Phase]] = {}
    for phase in phases:
        stages.setdefault(phase.level, []).append(phase)
    return ",\n".join(f"{level}(\n{_stage_text(parts)}\n)" for level, parts in stages.items())


def _stage_text(phases: list[Phase]) -> str:
    whole, alone = (",\n".join(phase.passes for phase in phases if phase.per_function is each) for each in (False, True))
    return ",\n".join(filter(None, (whole, f"{PER_FUNCTION}(\n{alone}\n)" if alone else "")))
