"""Import a model, or read its IR, and lower it level by level."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Unpack

from stepwell.arguments import checked
from stepwell.backends.registry import find_backend
from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.module_info import symbols_of
from stepwell.dialects.core.sizes import Size, assumptions
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import InputError, IRError, ModelError, ModelWarning, PassError, warn_caller
from stepwell.dialects.support.extensions import extending_modules
from stepwell.dialects.support.limits import Budget
from stepwell.dialects.target.cores import thread_count
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dialect import TargetInfo
from stepwell.dialects.target.registry import resolve
from stepwell.driver.all_sizes import shape_polymorphic_errors
from stepwell.driver.kernel_contract import kernel_problems, summed_up
from stepwell.driver.origin import Origin
from stepwell.driver.pairs import check_pairs
from stepwell.driver.recorded import LocalRecords
from stepwell.driver.watch import OnLevel
from stepwell.frontends.base import ImportedModel, ImportOptions
from stepwell.frontends.loading import load_model, note_assumptions
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.passes.framework.choices import Choices
from stepwell.passes.framework.instrumentation import stopwatch
from stepwell.passes.framework.levels import IMPORTED, find_level
from stepwell.passes.framework.recorded import Recorded
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import Instrumentation, PassRunner
from stepwell.pipelines.lowered import Lowered, check_main, derive_signature
from stepwell.pipelines.pipeline import Pipeline
from stepwell.pipelines.routes import check_on_path
from stepwell.plugin_files import load_installed
from stepwell.signature import TensorInfo


@checked
def lower(
    source: Source, to_level: str, *, options: CompileOptions | None = None, threads: int | None = None, on_level: OnLevel | None = None,
    instrumentation: Instrumentation | None = None, recording: bool = False, **given: Unpack[CompileFields],
) -> Lowered:  # fmt: skip
    """Import a model and lower it to `to_level`. Like `compile`, but without native code.

    Dynamic dimensions must be given, unless `specialise` is "never". `threads` is the number for which `tuning` takes records, as in `compile`. With
    `recording`, all choices are recorded in `state.choices.made`.
    """
    options = CompileOptions.combined(options, given, "lower")
    check_on_path(to_level, options.backend)
    passes = options.passes()
    imported, seconds = import_source(source, options)
    free = [name for name, t in imported.inputs if not t.is_static]
    if (free or any(imported.elements)) and to_level != IMPORTED and options.specialise != "never":
        text = f"input{'s' * (len(free) > 1)} {', '.join(free)}: free dimensions must be given with shapes"
        raise ModelError(f"{text}, or a program for all sizes be asked for with specialise='never'")
    if on_level is not None:
        on_level(IMPORTED, seconds)
    with shape_polymorphic_errors() if free else nullcontext():
        records = LocalRecords.wanted(options, thread_count(threads))
        recorded = None if records is None else records.of_model(Origin(source), imported)
        begun = start(imported, options, passes, seconds, recorded, recording=recording)
        return descend(begun, to_level, on_level=on_level, instrumentation=instrumentation)


@checked
def read_ir(
    text: str, level: str, weights: WeightTable, *, name: str = "<string>", options: CompileOptions | None = None, threads: int | None = None,
    **given: Unpack[CompileFields],
) -> Lowered:  # fmt: skip
    """A model from the text of its IR at `level`, perhaps edited by hand. Raises IRError if it does not parse or verify, or has no @main.

    If the IR names a target (`target.description`), that is used; asking for another is an IRError. `options` and its fields apply to the remaining
    levels: a `schedule` is for IR without schedules, and `shapes` and `values` are not accepted, since IR has its own. Of `tuning` records for that
    number of `threads`, those about single kernels count.
    """
    options = CompileOptions.combined(options, given, "read_ir")
    check_on_path(level, options.backend)
    for field, said in (("shapes", options.shapes), ("values", options.values)):
        if said:
            raise InputError(f"{field}: expected none for IR, which has its own")
    plan = options.chosen
    if plan is not None and find_level(level).scheduled:
        raise InputError(f"{plan.name}: IR at level {level} has its schedules already; edit them there")
    load_installed()
    passes = options.passes()
    context = make_context()
    with context, ir.Location.file(name, 1, 1):
        module = parse_module(text, context, name)
        target = resolve_ir_target(module, options.target and options.machine, name) or resolve(options.machine)
        if options.reproducible and not target.reproducible:
            raise IRError(f"{name}: expected IR that was lowered for reproducible results, it is for target {target.name} without them")
        if level != IMPORTED:
            TargetInfo(module).target = target
        records = None if find_level(level).scheduled else LocalRecords.wanted(options, thread_count(threads))
        choices = Choices(plan, recorded=None if records is None else records.of_kernels(target.digest))
        state = PassState(weights=weights, target=target, choices=choices, budget=Budget(options.limits, weights.nbytes))
        lowered = Lowered(module, level, weights, state, options, passes)
        if not lowered.info.has_signature:
            derive_signature(module)
        if options.size_hints:
            check_hints(options.size_hints, lowered.info.symbols)
            lowered.info.size_hints = options.size_hints
        problems = kernel_problems(module.operation, level)
        if problems:
            raise IRError(f"{name}: {summed_up(problems)} (docs/kernels.md)", details=problems)
        if find_level(level).checked:
            check_main(lowered)
        lowered.snapshots[level] = module.operation.clone()
    return lowered


def resolve_ir_target(module: ir.Module, asked: str | Target | None, name: str) -> Target | None:
    """The machine that a module names, or None. Raises IRError if another one is `asked` for."""
    said = TargetInfo(module).target
    difference = said.difference(resolve(asked)) if said is not None and asked is not None else None
    if difference is not None:
        raise IRError(f"{name}: the IR is for another target than the one asked for: {difference}. Without a target option it is lowered for its own")
    return said


def code_level(options: CompileOptions, level: str, *, watched: bool) -> str:
    """The level to which the driver lowers a model at `level` before its backend generates code: the last one if passes are observed.

    Raises InputError if `level` is not one of the backend's.
    """
    backend = find_backend(options.backend)
    below = backend.path.since(check_on_path(level, options.backend))
    starts = [start for start in backend.code_levels if start in below]  # the last level is always one
    return starts[-1] if watched else starts[0]


@checked
def descend(
    lowered: Lowered, to_level: str, *, keep: bool = True, on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None
) -> Lowered:
    """Lower a model further, level by level; returns it. `keep` says whether to take a snapshot of each level."""
    runner = PassRunner(lowered.state, instrumentation=instrumentation, optimistic=True)
    with lowered.module.context, ir.Location.file("model.onnx", 1, 1):
        for level in lowered.path.between(lowered.level, to_level):
            clock = stopwatch()
            with assumptions() as assumed:
                runner.run(lowered.module, lowered.pipeline.stage(level).text, level=level)
            note_assumptions(lowered.module, assumed)
            problems = kernel_problems(lowered.module.operation, level) if foreign(lowered, level) else []
            if problems:
                raise PassError(f"level {level}: {summed_up(problems)} (docs/kernels.md)", details=problems)
            seconds = clock()
            lowered.level = level
            if find_level(level).scheduled or level == lowered.path.last:
                lowered.state.choices.check()
                _warn_of_records(lowered.state.choices)
            if keep:
                lowered.snapshots[level] = lowered.module.operation.clone()
            reached(lowered, level, seconds, on_level)
    return lowered


def _warn_of_records(choices: Choices) -> None:
    """Warn once of decisions of tuning records that do not fit."""
    news = "" if choices.recorded is None else choices.recorded.news()
    if news:
        warn_caller(ModelWarning(news))


def warnings_of(imported: ImportedModel, lowered: Lowered) -> tuple[str, ...]:
    """The warnings of import and lowering, which are repeated when the model comes from the cache."""
    recorded = lowered.state.choices.recorded
    return (*imported.warnings, *filter(None, ("" if recorded is None else recorded.note,)))


def foreign(lowered: Lowered, level: str) -> bool:
    """Whether a plugin or an edited stage may have changed the IR of a level."""
    return bool(extending_modules()) or lowered.pipeline.stage(level) != Pipeline.default(lowered.target, lowered.options.backend).stage(level)


def reached(lowered: Lowered, level: str, seconds: float, on_level: OnLevel | None) -> None:
    """Record that a model has reached a level, and call `on_level`."""
    lowered.timings[level] = seconds
    if on_level is not None:
        on_level(level, seconds)


def import_source(source: Source, options: CompileOptions) -> tuple[ImportedModel, float]:
    """The model at level graph, and the time in seconds."""
    load_installed()
    clock = stopwatch()
    imported = load_model(source, make_context(), import_options(options))
    check_hints(options.size_hints or {}, symbols_of(imported.inputs))
    return imported, clock()


def import_options(options: CompileOptions) -> ImportOptions:
    """The options of the import."""
    return ImportOptions(options.shapes or {}, options.values or {}, options.limits, options.same_names, options.same_data_sizes)


COLOURS = (1, 2, 3, 4)  # channels of inputs that are taken for images
USUAL_IMAGE = 224  # rows, and columns
USUAL_BATCH = 4  # enough for rows of matrix products to share a register tile


def usual_sizes(inputs: Sequence[tuple[str, TensorType]]) -> dict[str, int]:
    """The likely values of dynamic dimensions of images (N, C, height, width) and of batches, by their symbols.

    Images are about the size that networks were trained on. A batch dimension is one with such a name, or the first of four or more.
    """
    found: dict[str, int] = {}
    for shape in (kind.shape for _, kind in inputs):
        for place, size in enumerate(shape):
            if not isinstance(size, Size) or not size.is_symbol:
                continue
            if (place == 0 and len(shape) >= 4) or "batch" in str(size).lower():
                found.setdefault(str(size), USUAL_BATCH)
            elif place >= 2 and len(shape) >= 4 and shape[1] in COLOURS:
                found.setdefault(str(size), USUAL_IMAGE)
    return found


def check_hints(hints: Mapping[str, int], symbols: Sequence[str]) -> None:
    """Raise InputError for a hint for a symbol that the model's inputs do not have."""
    unknown = [name for name in hints if name not in symbols]
    if unknown:
        have = f"they have {', '.join(symbols)}" if symbols else "all of their sizes are numbers"
        raise InputError(f"size_hints: the model's inputs have no free dimension '{unknown[0]}', {have}")


def start(
    imported: ImportedModel, options: CompileOptions, passes: Pipeline, seconds: float, recorded: Recorded | None = None, *, recording: bool = False
) -> Lowered:
    """An imported model at the topmost level, to be lowered with the decisions of tuning records that are `recorded`.

    With `recording`, all choices are recorded.
    """
    choices = Choices(options.chosen, recorded=recorded, recording=recording)
    state = PassState(weights=imported.weights, target=resolve(options.machine), choices=choices, budget=imported.budget)
    lowered = Lowered(imported.module, IMPORTED, imported.weights, state, options, passes, {IMPORTED: seconds}, border=imported.border)
    with imported.module.context, imported.module.operation.location:
        lowered.info.inputs, lowered.info.outputs = imported.inputs, imported.outputs
        hints = {**usual_sizes(imported.inputs), **(options.size_hints or {})}
        if hints:
            lowered.info.size_hints = hints
        if options.bind:
            takers, givers = ([TensorInfo.from_type(*named) for named in side] for side in (imported.inputs, imported.outputs))
            pairs = check_pairs(options.bind, takers, givers)
            numbers = [{info.name: number for number, info in enumerate(side)} for side in (takers, givers)]
            lowered.info.bound = [(numbers[0][taker], numbers[1][giver]) for taker, giver in pairs.items()]
        lowered.snapshots[IMPORTED] = imported.module.operation.clone()
    return lowered
