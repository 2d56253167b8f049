"""Compiles a model: from the cache if possible, else through the whole pipeline. Loads the bindings and model readers only when needed."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from stepwell.arguments import checked, typed_errors
from stepwell.backends.artifact import Artifact
from stepwell.backends.registry import find_backend
from stepwell.cache.disk import Cache, chosen_cache
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.errors import (
    CodegenError,
    InputError,
    LimitError,
    ModelWarning,
    StepwellError,
    UnsupportedError,
    warn_caller,
)
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.all_sizes import ALWAYS, shape_polymorphic_errors
from stepwell.driver.artifact import Signature, assemble, assemble_general, keep, recall
from stepwell.driver.background import Job, request_for
from stepwell.driver.combinations import Shapes
from stepwell.driver.dynamic import DynamicModel, Made
from stepwell.driver.origin import Origin
from stepwell.driver.otherwise import Otherwise
from stepwell.driver.reading import Reading
from stepwell.driver.snapshots import texts_by_level
from stepwell.driver.watch import OnLevel, Watch
from stepwell.frontends.base import ImportedModel, NeedsError
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.passes.framework.levels import IMPORTED
from stepwell.plugin_files import load_installed
from stepwell.runtime.general import GeneralProgram, valued
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import WeightPool
from stepwell.signature import TensorInfo

if TYPE_CHECKING:
    from stepwell.border.model import BorderModel
    from stepwell.passes.framework.instrumentation import Instrumentation
    from stepwell.pipelines.lowered import Lowered

Values = Mapping[str, np.ndarray]
DISTINCT = "equal names of dimensions are told apart, and each has a size of its own"
BROADCAST = "runs in which such a size is 1 are computed by a program in which any may be"


@checked
def compile(
    source: Source, *, options: CompileOptions | None = None, threads: int | None = None, cache: bool = True, on_level: OnLevel | None = None,
    instrumentation: "Instrumentation | None" = None, **given: Unpack[CompileFields],
) -> "CompiledModel | DynamicModel | BorderModel":  # fmt: skip
    """Compile a model to native code: an ONNX model (a path, bytes or a ModelProto), or any source that a plugin's front end accepts.

    `options`, or its fields as keyword arguments, determine how (docs/reference/options.md): `target`, `backend`, `shapes`, `values`, `specialise`,
    `size_hints`, `same_names`, `same_data_sizes`, `pipeline`, `disable`, `libm`, `strict`, `precision`, `keep_f32`, `reproducible`, `plan` (or
    `schedule`), `tuning` and `limits`; `bind` is for `lower`. Without `shapes` for all dynamic dimensions, and `values` for inputs that determine
    sizes, axes and the like, the result is a DynamicModel: `specialise` decides which code is compiled now, and which at run time (docs/sizes.md);
    schedules for kernels are then an error, since they are for one shape combination. Nodes with strings and maps at the border of the model run in
    Python: the result is then a BorderModel around one of the others (docs/strings.md). Front ends of plugins are described in docs/frontends.md.

    `threads`, at most 1024, bounds the cores a run uses (default: all that the process may use). Code and packed weights are cached on disk, unless
    `cache` is false or STEPWELL_CACHE is 0.

    The source may be read again later, for code for other shapes and values and for IR: that raises ModelError if it has changed since.
    `on_level(level, seconds)` is called as each level is reached, with the level "cache" for a model from the cache; `instrumentation`, which
    observes the passes, bypasses the cache. Raises ModelError, UnsupportedError, LimitError or InputError with one clear message if the model cannot
    be compiled, ResourceError if the machine lacks a resource.
    """
    options = CompileOptions.combined(options, given, "compile")
    if options.bind is not None:
        raise InputError("bind: expected none; compile the model, and call its `bind` (`lower` takes this option, to show IR)")
    compilation = Compilation(
        origin=Origin(source), options=options, threads=thread_count(threads), cache=cache, watch=Watch(on_level, instrumentation)
    )
    result = compilation.result()
    model, border = compilation.load(result), result.made.border
    if border is None:
        return model
    from stepwell.border.model import BorderModel  # imported here, because few models have one

    return BorderModel(model, border)


@dataclass(frozen=True)
class Result:
    """The result of compiling a model: code, or only its signature if code is compiled later, for shapes and values that are not known yet."""

    made: Artifact | Signature
    timings: Mapping[str, float]
    """The time for each level in seconds, or the time for "cache"."""
    files: Mapping[Path, bytes]
    """The digests of the external data files that were read, or may be read later."""
    reading: Reading


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """A model to compile with its options. Its methods may be called several times, and raise ModelError if the model has changed in between."""

    origin: Origin
    options: CompileOptions
    threads: int
    """The largest number of threads in a run."""
    cache: bool = True
    """Whether to look up the result on disk, and to store it."""
    watch: Watch = field(default_factory=Watch)
    pool: WeightPool | None = None
    """The weights of other programs of the model, which its programs share."""
    cross: bool = False
    """Whether the code is for the target itself, which this machine need not run, to be written to a file."""

    def model(self) -> Made:
        """The compiled model without its border. Raises ResourceError, besides the errors of `compile`."""
        with typed_errors("compile"):
            return self.load(self.result())

    def result(self) -> Result:
        """The result, from the cache if possible."""
        begin = time.perf_counter()
        load_installed()
        reading, store = Reading(self.origin, self.options, self.threads), chosen_cache(self.cache)
        key = reading.key(store) if store is not None else None
        if key is not None and self.cross:  # otherwise, the code for a target of another family is for this machine
            key = key_of("cross", key)
        recalled = recall(store, key, self.origin.folder) if store is not None and key is not None and not self.watch.needs_passes else None
        if recalled is None:
            result = self._result_of_source(reading, store, keep_weights=key is not None)
            if store is not None and key is not None and reading.is_of_key:
                keep(store, key, result.made, result.files, self.origin.folder)
            reading.close()
            return result
        made, files = recalled
        reading.close()
        self.origin.check(reading.digest, files)
        for text in made.warnings:
            warn_caller(ModelWarning(text))
        seconds = time.perf_counter() - begin
        self.watch.reached("cache", seconds)
        return Result(made, {"cache": seconds}, files, reading)

    def load(self, result: Result) -> Made:
        """The model that runs a result."""
        made = result.made
        if isinstance(made, Artifact) and made.general is None:
            return assemble(made, **self._assembly(made, result))
        shared = self if self.pool is not None else replace(self, pool=WeightPool())
        return shared._compiled_when_run(made) if isinstance(made, Signature) else shared._general_model(made, result)

    def specialised(self, shapes: Shapes, values: Values, *, by_shape: bool = True) -> Made:
        """The model specialised for the shapes of all inputs, or only for those in `values`."""
        with _naming(values):
            return self._fixed(shapes, values, "always" if by_shape else self.options.specialise).model()

    def with_distinct_names(self) -> Made:
        """The model in which each dynamic dimension has its own symbol, even if names are equal. Hints do not apply to the new symbols."""
        return replace(self, options=replace(self.options, same_names=False, size_hints=None)).model()

    def with_broadcast_data(self) -> Made:
        """The model in which data-dependent sizes may be 1 where they broadcast. It is compiled while another one runs, without observers."""
        return replace(self, options=replace(self.options, same_data_sizes=False), watch=Watch()).model()

    def bound_program(self, pairs: Mapping[str, str]) -> GeneralProgram | None:
        """The program in which inputs share memory with outputs, by name, as far as possible; None without a shape-polymorphic program."""
        bound = replace(self, options=replace(self.options, bind=pairs, specialise="never"))
        with typed_errors("bind"):
            result = bound.result()
            return None if isinstance(result.made, Signature) else bound._program(result.made, result)

    def job(self, shapes: Shapes, values: Values, done: Callable[[Made], None], failed: Callable[[Exception], None]) -> Job:
        """The background job that compiles for a combination of shapes and values, and calls `done` with the model or `failed` with the error."""
        own = self._fixed(shapes, values, "always")

        def finish(reached: OnLevel) -> None:
            with _naming(values):
                done(replace(own, watch=Watch(reached)).model())

        cached = chosen_cache(self.cache) is not None
        return Job(request_for(compile, self.origin.portable, own.options, self.threads, cached=cached), finish, failed)

    def _fixed(self, shapes: Shapes, values: Values, specialise: str) -> "Compilation":
        """The compilation for shapes and values of more inputs."""
        options = self.options
        given: dict[str, np.ndarray] = {**(options.values or {}), **values}
        hints = None if specialise == "always" else options.size_hints  # these sizes are static now
        all_shapes = {**(options.shapes or {}), **shapes}
        return replace(self, options=replace(options, shapes=all_shapes, values=given or None, specialise=specialise, size_hints=hints))

    def _compiled_when_run(self, made: Signature) -> DynamicModel:
        return DynamicModel(
            inputs=made.inputs, outputs=made.outputs, compile_shapes=partial(self.specialised, by_shape=made.by_shape), values=made.values,
            by_shape=made.by_shape, why_not_general=made.why_not_general, distinct_names=self._distinct_names, pool=self.pool,
        )  # fmt: skip

    def _general_model(self, made: Artifact, result: Result) -> DynamicModel:
        """The model with a shape-polymorphic program, or, if the backend makes none, one that is compiled when it is run."""
        program = self._program(made, result)
        in_background = program is not None and self.options.specialise == "auto" and not (self.watch.needs_passes or self.options.reproducible)
        return DynamicModel(
            inputs=made.inputs, outputs=made.described, compile_shapes=self.specialised, program=program, compile_bound=self.bound_program,
            background=self.job if in_background else None, distinct_names=self._distinct_names, pool=self.pool,
        )  # fmt: skip

    @property
    def _distinct_names(self) -> Otherwise | None:
        """The model for sizes that contradict the names of dimensions; None if the names carry no information."""
        return Otherwise(self.with_distinct_names, DISTINCT) if self.options.same_names else None

    def _assembly(self, made: Artifact, result: Result) -> dict[str, Any]:
        """The arguments for assembling an artifact."""
        waits = made.late is not None and self.options.same_data_sizes
        return {
            "threads": self.threads, "snapshots": texts_by_level(IMPORTED, partial(result.reading.start, made.plan), self.options.backend),
            "timings": result.timings, "pool": self.pool, "otherwise": Otherwise(self.with_broadcast_data, BROADCAST) if waits else None,
        }  # fmt: skip

    def _program(self, made: Artifact, result: Result) -> GeneralProgram | None:
        """The shape-polymorphic program, if there is one and the backend makes such programs."""
        return None if made.general is None else assemble_general(made, **self._assembly(made, result))

    def _result_of_source(self, reading: Reading, store: Cache | None, *, keep_weights: bool) -> Result:
        """The newly compiled result; `keep_weights` says whether it will be stored in `store`."""
        with uninterrupted():
            from stepwell.driver.lowering import start, warnings_of

        options = self.options
        passes = options.passes()
        try:
            imported, seconds = reading.model()
        except NeedsError as error:
            return self._needing(error, reading)
        self.watch.reached(IMPORTED, seconds)
        files = reading.check(imported)
        free = imported.is_general
        if free and options.specialise != "never":
            self._refuse_schedules()
        if free and options.specialise == "always":
            return Result(_signature(imported), {IMPORTED: seconds}, files, reading)
        lowered = start(imported, options, passes, seconds, reading.recorded(imported, files))
        try:
            artifact = self._code(lowered, store, is_general=free, keep_weights=keep_weights)
        except (UnsupportedError, LimitError, CodegenError) as error:
            if not free or options.specialise != "auto":
                raise
            return Result(_signature(imported, str(error.args[0]).removesuffix(f"; {ALWAYS}")), lowered.timings, files, reading)
        artifact.warnings, artifact.groups, artifact.border = warnings_of(imported, lowered), imported.groups, imported.border
        # Free memory now rather than when the garbage collector finds the cycles that models are part of.
        lowered.weights.clear()
        imported.content = None
        imported.files.clear()
        return Result(artifact, lowered.timings, files, reading)

    def _code(self, lowered: "Lowered", store: Cache | None, *, is_general: bool, keep_weights: bool) -> Artifact:
        """Lower a model from the topmost level, and generate its code."""
        with uninterrupted():
            from stepwell.dialects.core.kernel_info import KernelInfo
            from stepwell.driver.build import make_artifact, start_packing
            from stepwell.driver.lowering import code_level, descend
            from stepwell.passes.framework.rewriting import functions

        def lower(level: str) -> None:
            with shape_polymorphic_errors() if is_general else nullcontext():
                descend(lowered, level, keep=False, on_level=self.watch.on_level, instrumentation=self.watch.instrumentation)

        lower(lowered.path.outlined)
        kernels = sum(KernelInfo(function).is_kernel for function in functions(lowered.module.operation))
        find_backend(self.options.backend).prepare(kernels)
        lower(lowered.path.packed)
        packing = start_packing(lowered, store if keep_weights else None)
        lower(lowered.path.last if self.cross else code_level(self.options, IMPORTED, watched=self.watch.needs_passes))
        return make_artifact(lowered, store, self.watch.on_level, packing, cross=self.cross)

    def _needing(self, error: NeedsError, reading: Reading) -> Result:
        """The result for a model that needs values of inputs, or their sizes. Raises UnsupportedError if specialised code is forbidden."""
        free = not all(info.is_static for info in error.inputs)
        by_shape = bool(error.needs.sizes) or (free and self.options.specialise == "always")
        if by_shape and self.options.specialise == "never":
            raise UnsupportedError(f"one program for all sizes is not supported: {error.needs.sizes}; {ALWAYS}", details=error.details) from error
        self._refuse_schedules()
        files = reading.check(error, error.unread)
        made = Signature(error.inputs, error.outputs, error.warnings, error.needs.values, error.needs.sizes, by_shape, error.border)
        return Result(made, {IMPORTED: 0.0}, files, reading)

    def _refuse_schedules(self) -> None:
        plan = self.options.chosen
        if plan is not None and plan.kernels:
            raise InputError(f"{plan.name}: a schedule is for one set of shapes; give the free dimensions with shapes")


def _signature(imported: ImportedModel, why_not_general: str = "") -> Signature:
    """The signature of a model with dynamic dimensions."""
    from stepwell.dialects.core.module_info import ModuleInfo  # imported here, because the bindings take long to load

    any_integers = ModuleInfo(imported.module).any_integers
    inputs, results = ([TensorInfo.from_type(name, kind, any_integers) for name, kind in side] for side in (imported.inputs, imported.outputs))
    rest = iter(results)
    outputs = [group.described(rest) for group in imported.groups] or results
    values = valued([name for name, _ in imported.inputs], imported.elements)
    return Signature(inputs, outputs, imported.warnings, values, why_not_general, border=imported.border)


@contextmanager
def _naming(values: Values) -> Iterator[None]:
    """Inside this context, errors list the given values."""
    try:
        yield
    except StepwellError as error:
        if values and _GIVEN not in str(error.args[0]):
            error.args = (f"{error.args[0]} ({_GIVEN} {', '.join(f'{name} = {_short(array)}' for name, array in values.items())})",)
        raise


_GIVEN = "where inputs are given as"


def _short(array: np.ndarray) -> str:
    text = str(array.tolist())
    return text if len(text) <= 60 else f"{text[:60]}…"
