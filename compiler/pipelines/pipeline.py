"""Pipelines of the whole compiler: a stage of passes for each level; editable, with a text form."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from stepwell.arguments import checked
from stepwell.dialects.support.errors import InputError, PipelineError, shown
from stepwell.dialects.support.files import read_utf8, write_atomically
from stepwell.dialects.support.names import printable
from stepwell.dialects.support.numbers import whole_number
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.levels import IMPORTED, LevelPath, level_names
from stepwell.passes.framework.pipeline import Element, Step, flatten, parse_pipeline, plain_value
from stepwell.passes.framework.registry import Pass, find_pass, passes
from stepwell.passes.framework.upstream import close_names, did_you_mean, upstream_passes
from stepwell.pipelines.phases import PER_FUNCTION, pipeline_text
from stepwell.pipelines.routes import CPU_PATH, DEFAULT, backend_names, find_route, path_of
from stepwell.pipelines.stages import Stage, parsed_stage

_PLACE = re.compile(r"(?:(?P<stage>[\w-]+)/)?(?P<name>[^/#{}(),\s]+)(?:#(?P<number>\d+))?")


@dataclass(frozen=True)
class Place:
    """The position of a step in a pipeline: the index of its stage, and its index there."""

    stage: int
    index: int


class Pipeline:
    """The pipeline of a model as data: a stage of passes for each level. Immutable: editing returns a new one.

    Passes are named as `NAME`, `STAGE/NAME` (`linalg/canonicalize`) or, if a name occurs several times, with a number (`canonicalize#2`), counted
    within the stage if one is named. Raises PipelineError for any mistake before anything runs.
    """

    def __init__(self, stages: Sequence[Stage], name: str = "pipeline") -> None:
        self.stages = tuple(stages)
        self.name = name

    @staticmethod
    def parse(text: str, *, base: "Pipeline | None" = None, name: str = "pipeline") -> "Pipeline":
        """Parse a pipeline: `graph-opt(…),linalg(…),…,llvm(…,per-function(…))`; lines that begin with `//` are comments.

        Missing stages are taken from `base`. The pipeline has the stages of the base, by default those of the built-in backend. Raises PipelineError,
        naming the unknown, misplaced or missing element.
        """
        if not isinstance(text, str):
            raise InputError(f"{name}: expected text, got {shown(text)}")
        path = CPU_PATH if base is None else base.path
        given: dict[str, Stage] = {}
        try:
            for element in parse_pipeline(_uncommented(text)):
                stage = parsed_stage(element, path.stages)
                if stage.name in given:
                    raise PipelineError(f"stage '{stage.name}' is given twice")
                given[stage.name] = stage
        except PipelineError as error:
            raise PipelineError(f"{name}: {error.args[0]}") from None
        known = {stage.name: stage for stage in base.stages} if base is not None else {}
        missing = [level for level in path.stages if level not in given and level not in known]
        if missing:
            raise PipelineError(f"{name}: expected a stage for each level, there is none for {', '.join(missing)}")
        for stage in given.values():
            for step in stage.steps:
                _check(step, known.get(stage.name, Stage(stage.name, ())), path, name)
        return Pipeline([given.get(level) or known[level] for level in path.stages], name)

    @staticmethod
    @checked
    def default(target: "str | Target" = "host", backend: str = DEFAULT) -> "Pipeline":
        """The default pipeline for a target and a backend, including plugins' passes that have a place in it.

        Raises PipelineError if the backend has no stage for one of its levels, or if one of these passes cannot be placed.
        """
        route = find_route(backend)
        given = _default(backend, target)
        classes = {name: cls for name, cls in passes().items() if cls.level in route.path}
        elsewhere = _placed_elsewhere(classes, given, _default(DEFAULT, target))
        return given._along(route.path, backend).with_placed({name: cls for name, cls in classes.items() if name not in elsewhere})

    @staticmethod
    @checked
    def from_source(given: "Pipeline | str | os.PathLike[str]", target: "str | Target" = "host", backend: str = DEFAULT) -> "Pipeline":
        """`given` itself, or the pipeline in that file or text, where missing stages are the default ones.

        A string is a file name unless it contains a parenthesis. Raises PipelineError and InputError.
        """
        if isinstance(given, Pipeline):
            return given.for_backend(backend)
        text, name = given_text(given)
        return Pipeline.parse(text, base=Pipeline.default(target, backend), name=name)

    @staticmethod
    @checked
    def load(path: "str | os.PathLike[str]", target: "str | Target" = "host", backend: str = DEFAULT) -> "Pipeline":
        """The pipeline in a file written by `save`; stages that it does not name are the default ones. Raises PipelineError and InputError."""
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"path: expected the path of a file, got {shown(path)}")
        return Pipeline.from_source(Path(path), target, backend)

    @cached_property
    def text(self) -> str:
        """The pipeline in one line; equal passes give equal text."""
        return ",".join(map(str, self.stages))

    @checked
    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the pipeline to a file, one pass per line, atomically."""
        write_atomically(path, self.lines())

    def lines(self) -> str:
        """The pipeline as text with one line per pass."""
        out = []
        for stage in self.stages:
            inner = [f"  {step}" for step in stage.whole]
            if stage.cut is not None:
                inner.append(f"  {PER_FUNCTION}(\n" + ",\n".join(f"    {step}" for step in stage.per_function) + "\n  )")
            out.append(f"{stage.name}(\n" + ",\n".join(inner) + "\n)")
        return ",\n".join(out) + "\n"

    @checked
    def stage(self, level: str) -> Stage:
        """The stage that leads to a level. Raises InputError if there is none."""
        for stage in self.stages:
            if stage.name == level:
                return stage
        raise InputError(f"no stage reaches the level {shown(level)}; the stages are: {', '.join(s.name for s in self.stages)}")

    @cached_property
    def path(self) -> LevelPath:
        """The levels that its stages lead through."""
        return LevelPath(IMPORTED, *(stage.name for stage in self.stages))

    def for_backend(self, backend: str) -> "Pipeline":
        """This pipeline down to the level from which a backend generates code. Raises PipelineError if it leads another way."""
        path = path_of(backend)
        if not self.path.begins_with(path):
            raise PipelineError(f"{self.name}: it goes through {self.path}, and backend '{backend}' through {path}")
        return self._along(path, backend)

    def _along(self, path: LevelPath, backend: str) -> "Pipeline":
        """The stages that lead to the levels of `path`, in its order. Raises PipelineError if one is missing."""
        known = {stage.name: stage for stage in self.stages}
        missing = [level for level in path.stages if level not in known]
        if missing:
            raise PipelineError(f"{self.name}: backend '{backend}' goes through {path}, and there is no stage for {', '.join(missing)}")
        return self if path.stages == tuple(known) else Pipeline([known[level] for level in path.stages], self.name)

    def find(self, name: str) -> Place:
        """The place of the pass `name`. Raises PipelineError unless there is exactly one."""
        found = _PLACE.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise PipelineError(f"expected the place of a pass, as in fold-constants, linalg/canonicalize or canonicalize#2, got {shown(name)}")
        wanted, number = found["stage"], found["number"]
        stages = [stage.name for stage in self.stages]
        if wanted is not None and wanted not in stages:
            raise PipelineError(f"'{name}': there is no stage '{wanted}'; the stages are: {', '.join(stages)}")
        places = [p for p, stage, step in self._places() if step.name == found["name"] and wanted in (None, stage.name)]
        if number is not None:
            place = whole_number(number) or 0
            if not 1 <= place <= len(places):
                raise PipelineError(f"'{name}': the pass comes {_times(len(places))} in {f'stage {wanted}' if wanted else 'the pipeline'}")
            return places[place - 1]
        if not places:
            names = dict.fromkeys(step.name for _, stage, step in self._places() if wanted in (None, stage.name))
            close = close_names(found["name"], names)
            hint = f"; did you mean '{close[0]}'?" if close else f"; its passes are: {', '.join(names)}"
            raise PipelineError(f"there is no pass '{name}' in the pipeline{hint}")
        if len(places) > 1:
            every = ", ".join(f"{name}#{i + 1} (stage {self.stages[p.stage].name})" for i, p in enumerate(places))
            raise PipelineError(f"'{name}' comes {_times(len(places))} in the pipeline; say which: {every}")
        return places[0]

    def insert_after(self, name: str, passes: str) -> "Pipeline":
        """This pipeline with `passes`, as in `my-pass{n=4}` or `a,func.func(b)`, after the pass `name`."""
        place = self.find(name)
        return self._with(place, place.index + 1, place.index + 1, passes)

    def insert_before(self, name: str, passes: str) -> "Pipeline":
        """This pipeline with `passes` before the pass `name`."""
        place = self.find(name)
        return self._with(place, place.index, place.index, passes)

    def replace(self, name: str, passes: str) -> "Pipeline":
        """This pipeline with `passes` in place of the pass `name`."""
        place = self.find(name)
        return self._with(place, place.index, place.index + 1, passes)

    def remove(self, name: str) -> "Pipeline":
        """This pipeline without the pass `name`."""
        place = self.find(name)
        return self._with(place, place.index, place.index + 1, "")

    def switches(self) -> dict[str, str]:
        """The switches in pipeline order: the name of each, and of its pass."""
        found: dict[str, str] = {}
        for cls in self._classes():
            found.update(dict.fromkeys(cls.switches, cls.name))
        return found

    def relaxed(self) -> tuple[str, ...]:
        """The switches that strict mode turns off (docs/numerics.md)."""
        return tuple(dict.fromkeys(name for cls in self._classes() for name in cls.relaxed))

    @checked
    def without(self, names: Collection[str]) -> "Pipeline":
        """This pipeline with the switches `names` off: drops passes, or sets the options that disable a part.

        Raises InputError for the first that cannot be switched off.
        """
        if isinstance(names, str):
            raise InputError(f"expected names of switches to turn off, as in ('{names}',), got a string")
        if not names:
            return self
        known = self.switches()
        for name in names:
            if name not in known:
                close = close_names(str(name), known)
                hint = f"did you mean '{close[0]}'? " if close else ""
                raise InputError(f"'{name}' cannot be switched off: {hint}these can: {', '.join(known)}")
        stages = []
        for stage in self.stages:
            kept = [_switched(step, names) for step in stage.steps]
            cut = None if stage.cut is None else sum(step is not None for step in kept[: stage.cut])
            stages.append(Stage(stage.name, tuple(step for step in kept if step is not None), cut))
        return Pipeline(stages, self.name)

    def with_precision(self, dtype: str, keep: Sequence[str] = ()) -> "Pipeline":
        """This pipeline with floats stored in another type, except for the nodes `keep`: names, or patterns.

        Other options of the pass that stores them stay unchanged. Raises PipelineError if there is no such pass.
        """
        # Characters that would end a pattern, or the text, match any character of a name.
        names = ";".join("".join("?" if c in ';"' else c for c in printable(name)) for name in keep)
        place = self.find("narrow-floats")
        element = self.stages[place.stage].steps[place.index].element
        made = self.replace("narrow-floats", str(element.with_options(f"to={dtype}" + (f' keep="{names}"' if names else ""))))
        rounds = any(cls.name == "select-bf16" for cls in made._classes())  # a custom pipeline may lack it
        return made.replace("select-bf16", "select-bf16{flush=true}") if rounds else made

    def with_placed(self, classes: Mapping[str, type[Pass]]) -> "Pipeline":
        """This pipeline plus the passes among `classes` that were registered with a place.

        Raises PipelineError, naming the pass, for a neighbour that does not exist, or one before which it cannot run.
        """
        pipeline, waiting = self, [cls for cls in classes.values() if cls.after is not None or cls.before is not None]
        while waiting:
            problems: dict[str, PipelineError] = {}
            for cls in waiting:
                try:
                    pipeline = pipeline._placed(cls)
                except PipelineError as error:
                    problems[cls.name] = error
            still = [cls for cls in waiting if cls.name in problems]
            if len(still) == len(waiting):  # nothing could be placed in this round
                raise problems[still[0].name]
            waiting = still
        return pipeline

    def _placed(self, cls: type[Pass]) -> "Pipeline":
        where = f"pass '{cls.name}' ({cls.__module__}.{cls.__qualname__})"
        try:
            after = self.find(cls.after) if cls.after is not None else None
            before = self.find(cls.before) if cls.before is not None else None
        except PipelineError as error:
            raise PipelineError(f"{where} cannot be put in its place: {error.args[0]}") from None
        if after is not None and before is not None and (after.stage, after.index) >= (before.stage, before.index):
            raise PipelineError(f"{where} cannot stand after '{cls.after}' and before '{cls.before}', which comes first")
        place = after or before
        assert place is not None
        at = place.index + (after is not None)
        return self._with(place, at, at, cls.name)

    def _with(self, near: Place, start: int, end: int, text: str) -> "Pipeline":
        """The pipeline with steps `start` to `end` of a stage replaced by the passes in `text`, on the side of the cut where `near` is."""
        old = self.stages[near.stage]
        new = flatten(_anchored(parse_pipeline(text)))
        for step in new:
            _check(step, old, self.path, self.name)
        cut = old.cut if old.cut is None or near.index >= old.cut else old.cut + len(new) - (end - start)
        changed = Stage(old.name, (*old.steps[:start], *new, *old.steps[end:]), cut)
        return Pipeline([changed if stage is old else stage for stage in self.stages], self.name)

    def _places(self) -> Iterator[tuple[Place, Stage, Step]]:
        for s, stage in enumerate(self.stages):
            for i, step in enumerate(stage.steps):
                yield Place(s, i), stage, step

    def _classes(self) -> list[type[Pass]]:
        known = passes()
        return [known[name] for name in dict.fromkeys(step.name for _, _, step in self._places()) if name in known]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {', '.join(f'{len(s.steps)} passes to {s.name}' for s in self.stages)}>"


def expanded(elements: Sequence[Element], target: "str | Target" = "host") -> list[Element]:
    """Replace stages by their passes; a stage name without passes means the passes of the default stage."""
    found: list[Element] = []
    for element in elements:
        if element.name in _all_stages():
            stage = _default_stage(element.name, target) if element.nested is None else parsed_stage(element, _all_stages())
            found += parse_pipeline(stage.text)
        else:
            found.append(element)
    return found


def _all_stages() -> list[str]:
    """The names of the stages of all paths."""
    return [level for level in level_names() if level != IMPORTED]


def _default_stage(level: str, target: "str | Target") -> Stage:
    """The default stage that leads to a level, for the first backend that goes there."""
    backend = next((name for name in backend_names() if level in path_of(name)), DEFAULT)
    return Pipeline.default(target, backend).stage(level)


def _placed_elsewhere(classes: Mapping[str, type[Pass]], given: Pipeline, usual: Pipeline) -> set[str]:
    """The names of the passes whose place, directly or next to another of them, is in the `usual` pipeline and not in the `given` one."""

    def has(pipeline: Pipeline, neighbour: str) -> bool:
        try:
            pipeline.find(neighbour)
        except PipelineError:
            return False
        return True

    found: set[str] = set()
    while True:
        places = {name: [place for place in (cls.after, cls.before) if place is not None] for name, cls in classes.items()}
        more = {name for name, near in places.items() if any(p in found or (has(usual, p) and not has(given, p)) for p in near)}
        if more <= found:
            return found
        found |= more


def given_text(source: "str | os.PathLike[str]") -> tuple[str, str]:
    """The text of a pipeline, given directly or as a file name, and its name for messages. Raises PipelineError and InputError."""
    if not isinstance(source, (str, os.PathLike)):
        raise InputError(f"pipeline: expected a Pipeline, its text or the path of a file, got {shown(source)}")
    if isinstance(source, str) and "(" in source:
        return source, "pipeline"
    return read_utf8(source, "pipeline", "the text of a pipeline", PipelineError), str(source)


def _default(backend: str, target: "str | Target") -> Pipeline:
    """The phases of a backend as a pipeline, without plugins' passes."""
    return _parsed(pipeline_text(find_route(backend).phases(target)), "default pipeline")


@cache
def _parsed(text: str, name: str) -> Pipeline:
    return Pipeline([parsed_stage(element, _all_stages()) for element in parse_pipeline(_uncommented(text))], name)


def _uncommented(text: str) -> str:
    return re.sub(r"(?m)^\s*//.*$", "", text)


def _anchored(elements: Sequence[Element]) -> list[Element]:
    """As in mlir-opt, nest a function pass that stands alone in func.func."""
    found = []
    for element in elements:
        cls = find_pass(element.name) if element.nested is None else None
        anchor = cls.anchor if cls is not None else upstream_passes().get(element.name, "builtin.module")
        found.append(Element(anchor, nested=(element,)) if element.nested is None and anchor not in ("builtin.module", "any") else element)
    return found


def _check(step: Step, stage: Stage, path: LevelPath, name: str) -> None:
    """Raise PipelineError for a step that does not exist, has wrong options, or works on IR of another level and is new in the stage."""
    cls = find_pass(step.name)
    if cls is None:
        if step.name not in upstream_passes():
            raise PipelineError(f"{name}, stage {stage.name}: there is no pass '{step.name}'{did_you_mean(step.name)}")
        return
    above = path.above(stage.name)
    if cls.level not in (above, stage.name) and all(other.name != step.name for other in stage.steps):
        stages = [level for level in path.stages if cls.level in (level, path.above(level))]
        raise PipelineError(
            f"{name}: pass '{step.name}' works on IR at level {cls.level} and cannot stand in stage {stage.name}, "
            f"whose IR is at {above} or {stage.name}; it can in {' or '.join(stages) or 'none'}"
        )
    cls.with_options({option: plain_value(value) for option, value in step.element.options.items()})


def _switched(step: Step, names: Collection[str]) -> Step | None:
    cls = find_pass(step.name)
    off = [options for name, options in cls.switches.items() if name in names] if cls is not None else []
    if None in off:
        return None
    element = step.element
    for text in off:
        element = element.with_options(text or "")
    return replace(step, element=element)


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
