"""A stage of a pipeline: the passes that lead to a level, as data and as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from stepwell.dialects.support.errors import PipelineError
from stepwell.dialects.support.properties import cached_property
from stepwell.passes.framework.levels import find_level
from stepwell.passes.framework.pipeline import Element, Step, flatten
from stepwell.pipelines.phases import PER_FUNCTION


@dataclass(frozen=True)
class Stage:
    """The passes that take a module from the level above to the one that the stage is named after."""

    name: str
    steps: tuple[Step, ...]
    cut: int | None = None
    """The index of the first step that runs on each function separately, in a module of its own, in parallel; None if there is none."""

    @property
    def whole(self) -> tuple[Step, ...]:
        """The steps that see the whole module."""
        return self.steps[: self.cut]

    @property
    def per_function(self) -> tuple[Step, ...]:
        """The steps that run on each function separately."""
        return () if self.cut is None else self.steps[self.cut :]

    def numbered(self, index: int) -> str:
        """The name of a step, with its number, from 1, if it occurs several times in the stage."""
        names = [step.name for step in self.steps]
        number = f"#{names[: index + 1].count(names[index])}" if names.count(names[index]) > 1 else ""
        return names[index] + number

    @cached_property
    def text(self) -> str:
        """The passes in MLIR's pipeline syntax, without the cut."""
        return grouped(self.steps)

    def __str__(self) -> str:
        parts = [grouped(self.whole), f"{PER_FUNCTION}({grouped(self.per_function)})" if self.cut is not None else ""]
        return f"{self.name}({','.join(filter(None, parts))})"


def grouped(steps: Sequence[Step]) -> str:
    """The text of steps; adjacent steps on the same kind of operation share one pair of parentheses."""
    parts = []
    for path, group in groupby(steps, key=lambda step: step.path):
        inner = ",".join(str(step.element) for step in group)
        parts.append("".join(f"{name}(" for name in path) + inner + ")" * len(path))
    return ",".join(parts)


def parsed_stage(element: Element, stages: Sequence[str]) -> Stage:
    """One of the `stages`, from its text. Raises PipelineError."""
    if element.nested is None or element.name not in stages:
        got = f"'{element}'" if len(str(element)) < 50 else f"'{element.name}(…)'"
        raise PipelineError(f"expected stages with passes, as in graph-opt(fold-constants,…), got {got}; the stages are: {', '.join(stages)}")
    cuts = [i for i, inner in enumerate(element.nested) if inner.name == PER_FUNCTION and inner.nested is not None]
    if not cuts:
        return Stage(element.name, tuple(flatten(element.nested)))
    if not find_level(element.name).per_function or cuts != [len(element.nested) - 1]:
        ends = [f"'{name}'" for name in stages if find_level(name).per_function]
        where = f"once, as the end of the stage {' or '.join(ends)}" if ends else "in none of the stages"
        raise PipelineError(f"stage '{element.name}': {PER_FUNCTION}(…) is expected {where}")
    whole, alone = flatten(element.nested[:-1]), flatten(element.nested[-1].nested or ())
    return Stage(element.name, (*whole, *alone), len(whole))
