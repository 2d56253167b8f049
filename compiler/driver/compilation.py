"""Compiles a model: from the cache if it is there, else through the whole pipeline. Loads the bindings and what reads models only when needed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from stepwell.arguments import checked, typed_errors
from stepwell.backends.artifact import Artifact
from stepwell.backends.registry import find_backend
from stepwell.cache.disk import Cache, chosen_cache
from stepwell.cache.fingerprint import toolchain_key
from stepwell.dialects.core.sizes import assumptions
from stepwell.dialects.support.digests import digest_of, file_digest, key_of
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
from stepwell.driver.all_sizes import ALWAYS, for_all_sizes
from stepwell.driver.artifact import Signature, assemble, assemble_general, keep, recall
from stepwell.driver.background import Job, request_for
from stepwell.driver.dynamic import DynamicModel, InBackground
from stepwell.driver.origin import Origin
from stepwell.driver.otherwise import Otherwise
from stepwell.driver.snapshots import Snapshots
from stepwell.frontends.base import ImportedModel, NeedsError
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.passes.framework.levels import IMPORTED
from stepwell.plugin_files import load_installed
from stepwell.runtime.general import GeneralProgram, valued
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import WeightPool
from stepwell.signature import Shape, TensorInfo

if TYPE_CHECKING:
    from stepwell.border.model import BorderModel
    from stepwell.passes.framework.instrumentation import Instrumentation
    from stepwell.pipelines.lowered import Lowered

OnLevel = Callable[[str, float], None]
Shapes = Mapping[str, Sequence[int]]


@checked
def compile(
    source: Source, *, options: CompileOptions | None = None, threads: int | None = None, cache: bool = True, on_level: OnLevel | None = None,
    instrumentation: "Instrumentation | None" = None, **given: Unpack[CompileFields],
) -> "CompiledModel | DynamicModel | BorderModel":  # fmt: skip
    """Compile a model to native code: an ONNX model (a path, bytes or a ModelProto), or what the front end of a plugin accepts (docs/frontends.md).

    `options`, or its fields as keyword arguments, say how: `target`, `backend`, `shapes`, `values`, `specialise`, `pipeline`, `disable`, `libm`,
    `strict`, `schedule` and `limits` (see `CompileOptions`). Without `shapes` for all free dimensions, and `values` for inputs that say sizes,
    axes and the like, the result is a DynamicModel: `specialise` says what of it is compiled now, and what when it runs (docs/sizes.md);
    a `schedule` is then an error, since it is for one combination. Nodes of strings and maps at the border of the model run in Python: the result
    is then a BorderModel around one of the others (docs/strings.md).
    `threads`, at most 1024, bounds the cores a run uses (default: all that the process may use).
    Code and packed weights are cached on disk, unless `cache` is false or STEPWELL_CACHE is 0.
    The source may be read again later, for code of other shapes and values and for IR: that raises ModelError if it has changed since.
    `on_level(level, seconds)` is called as each level is reached, with the level "cache" for a model from the cache;
    `instrumentation`, which watches the passes, bypasses the cache. Raises ModelError, UnsupportedError, LimitError or InputError with
    one clear message if the model cannot be compiled, ResourceError if the machine lacks a resource.
    """
    options = CompileOptions.of(options, given, "compile")
    if options.bind is not None:
        raise InputError("bind: expected none; compile the model, and call its `bind` (`lower` takes this option, to show IR)")
    origin, count = Origin(source), thread_count(threads)
    made = _made(origin, options, cache, on_level, instrumentation)
    model, border = _assembled(made, origin, options, count, cache, on_level, instrumentation), made[2].border
    if border is None:
        return model
    from stepwell.border.model import BorderModel  # here, because few models have one

    return BorderModel(model, border)


def _compiled(
    origin: Origin, options: CompileOptions, threads: int, cache: bool, on_level: OnLevel | None, instrumentation: "Instrumentation | None",
    pool: WeightPool | None = None,
) -> CompiledModel | DynamicModel:  # fmt: skip
    """As `compile`, of a model that was perhaps read before, but for its border. Raises ModelError too if it has changed since.

    The `pool` has the weights of other programs of the model, if there are any.
    """
    made = _made(origin, options, cache, on_level, instrumentation)
    return _assembled(made, origin, options, threads, cache, on_level, instrumentation, pool)


def _assembled(
    found: "tuple[_Request, Cache | None, Artifact | Signature, dict[str, float]]", origin: Origin, options: CompileOptions, threads: int,
    cache: bool, on_level: OnLevel | None, instrumentation: "Instrumentation | None", pool: WeightPool | None = None,
) -> CompiledModel | DynamicModel:  # fmt: skip
    """The model that runs what was made."""
    request, store, made, timings = found
    snapshots = Snapshots(IMPORTED, request.start, options.backend).by_level()
    is_late = isinstance(made, Artifact) and made.late is not None
    otherwise = Otherwise(partial(_broadcast, origin, options, threads, cache, pool)) if is_late and options.same_data_sizes else None
    if isinstance(made, Artifact) and made.general is None:
        return assemble(made, threads=threads, snapshots=snapshots, timings=timings, pool=pool, otherwise=otherwise)
    pool = WeightPool() if pool is None else pool
    combined = partial(_combined, origin, options, threads, cache, on_level, instrumentation, pool)
    apart = partial(_apart, origin, options, threads, cache, on_level, instrumentation, pool) if options.same_names else None
    if isinstance(made, Signature):
        return DynamicModel(
            inputs=made.inputs, outputs=made.outputs, compile_shapes=partial(combined, by_shape=made.by_shape), values=made.values,
            by_shape=made.by_shape, why_not_general=made.why_not_general, compile_apart=apart, pool=pool,
        )  # fmt: skip
    program = assemble_general(made, threads=threads, snapshots=snapshots, timings=timings, pool=pool, otherwise=otherwise)
    if program is None:  # the backend makes none
        return DynamicModel(inputs=made.inputs, outputs=made.described, compile_shapes=combined, compile_apart=apart, pool=pool)
    return DynamicModel(
        inputs=made.inputs, outputs=made.described, compile_shapes=combined, values=program.valued, program=program.model, about=program.about,
        background=_in_background(request, threads, store, pool) if options.specialise == "auto" and instrumentation is None else None,
        compile_bound=partial(_bound, origin, options, threads, cache, on_level, instrumentation, pool), compile_apart=apart, pool=pool,
        weights=program.weights,
    )  # fmt: skip


def _apart(
    origin: Origin, options: CompileOptions, threads: int, cache: bool, on_level: OnLevel | None, instrumentation: "Instrumentation | None",
    pool: WeightPool,
) -> CompiledModel | DynamicModel:  # fmt: skip
    """The model in which equal names are no equal sizes. Its symbols have other names, of which hints say nothing."""
    with typed_errors("compile"):
        return _compiled(origin, replace(options, same_names=False, size_hints=None), threads, cache, on_level, instrumentation, pool)


def _broadcast(
    origin: Origin, options: CompileOptions, threads: int, cache: bool, pool: WeightPool | None
) -> CompiledModel | DynamicModel:
    """The model in which sizes that data tell may be 1 where they are broadcast."""
    with typed_errors("compile"):
        return _compiled(origin, replace(options, same_data_sizes=False), threads, cache, None, None, pool)


def _bound(
    origin: Origin, options: CompileOptions, threads: int | None, cache: bool, on_level: OnLevel | None,
    instrumentation: "Instrumentation | None", pool: WeightPool, pairs: Mapping[str, str],
) -> GeneralProgram | None:  # fmt: skip
    """The program in which these inputs and outputs share memory, as far as they can; None if there is none."""
    own = replace(options, bind=pairs, specialise="never")
    with typed_errors("bind"):
        request, _, made, timings = _made(origin, own, cache, on_level, instrumentation)
    if isinstance(made, Signature) or made.general is None:
        return None
    snapshots = Snapshots(IMPORTED, request.start, own.backend).by_level()
    return assemble_general(made, threads=threads, snapshots=snapshots, timings=timings, pool=pool)


def _made(
    origin: Origin, options: CompileOptions, cache: bool, on_level: OnLevel | None, instrumentation: "Instrumentation | None"
) -> "tuple[_Request, Cache | None, Artifact | Signature, dict[str, float]]":
    """What is compiled of a model, from the cache if it is there, and the seconds that each level took. Raises ModelError if it has changed."""
    begin = time.perf_counter()
    load_installed()
    request = _Request(origin, options)
    store = chosen_cache(cache)
    key = request.key() if store is not None else None
    timings = {}
    recalled = recall(store, key, origin.folder) if store is not None and key is not None and instrumentation is None else None
    made: Artifact | Signature
    if recalled is not None:
        made, files = recalled
        origin.check(request.digest, files)
        for text in made.warnings:
            warn_caller(ModelWarning(text))
        timings["cache"] = time.perf_counter() - begin
        if on_level is not None:
            on_level("cache", timings["cache"])
    else:
        made, timings, files = request.make(store, on_level, instrumentation, keep_weights=key is not None)
        if store is not None and key is not None and not request.is_outdated and toolchain_key(options.machine) == request.toolchain:
            keep(store, key, made, files, origin.folder)
    return request, store, made, timings


def _combined(
    origin: Origin, options: CompileOptions, threads: int, cache: bool, on_level: OnLevel | None,
    instrumentation: "Instrumentation | None", pool: WeightPool, shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray], *,
    by_shape: bool = True,
) -> CompiledModel | DynamicModel:  # fmt: skip
    """The model for the shapes of all inputs, or of those with `values` only."""
    own = _fixed(options, shapes, values, "always" if by_shape else options.specialise)
    with _naming(values), typed_errors("compile"):
        return _compiled(origin, own, threads, cache, on_level, instrumentation, pool)


def _fixed(options: CompileOptions, shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray], specialise: str) -> CompileOptions:
    """The options with shapes and values of more inputs."""
    given: dict[str, np.ndarray] = {**(options.values or {}), **values}
    hints = None if specialise == "always" else options.size_hints  # of sizes that are numbers now
    return replace(options, shapes={**(options.shapes or {}), **shapes}, values=given or None, specialise=specialise, size_hints=hints)


def _in_background(request: "_Request", threads: int, store: Cache | None, pool: WeightPool) -> InBackground:
    """What compiles for the combinations that come often."""

    def job(
        shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray], done: Callable[[CompiledModel | DynamicModel], None],
        failed: Callable[[Exception], None],
    ) -> Job:  # fmt: skip
        own = _fixed(request.options, shapes, values, "always")

        def finish(reached: OnLevel) -> None:
            with _naming(values), typed_errors("compile"):
                done(_compiled(request.origin, own, threads, store is not None, reached, None, pool))

        return Job(request_for(compile, request.origin.portable, own, threads, cached=store is not None), finish, failed)

    return job


@contextmanager
def _naming(values: Mapping[str, np.ndarray]) -> Iterator[None]:
    """Errors inside the block say which values were given."""
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


class _Request:
    """A model and its options, on which the result depends."""

    def __init__(self, origin: Origin, options: CompileOptions) -> None:
        self.origin = origin
        self.options = options
        self.toolchain: str | None = None
        """The toolchain key at the time `key` was called."""
        self.digest: bytes | None = None
        """The digest of the model's bytes at that time."""
        self.is_outdated = False
        """Whether the compiled bytes were others than those that the key is of."""

    def key(self) -> str | None:
        """The key of the result in the cache; None if it cannot be computed."""
        self.toolchain, self.digest = toolchain_key(self.options.machine), self.origin.digest()
        if self.toolchain is None or self.digest is None:
            return None
        return key_of(self.toolchain, self.origin.front_end.name, self.digest, self.options.key())

    def make(
        self, store: Cache | None, on_level: OnLevel | None, instrumentation: "Instrumentation | None", *, keep_weights: bool
    ) -> tuple[Artifact | Signature, dict[str, float], dict[Path, bytes]]:
        """Compile; returns the result, the seconds that each level took, and the digests of external data files.

        `keep_weights` says whether the model will be stored in `store`.
        """
        with uninterrupted():
            from stepwell.dialects.core.kernel_info import KernelInfo
            from stepwell.driver.build import make_artifact, start_packing
            from stepwell.driver.lowering import code_level, descend, import_source, start
            from stepwell.passes.framework.rewriting import functions

        passes = self.options.passes()
        self._begin()
        try:
            with assumptions() as assumed:
                imported, seconds = import_source(self.origin.source, self.options)
        except NeedsError as error:
            return self._needing(error)
        if on_level is not None:
            on_level(IMPORTED, seconds)
        digests = self._check(imported)
        free = imported.is_general
        if free and self.options.specialise != "never":
            self._check_schedules()
        if free and self.options.specialise == "always":
            return self._signature(imported), {IMPORTED: seconds}, digests
        lowered = start(imported, self.options, passes, seconds)
        try:
            with assumptions() as more, for_all_sizes() if free else nullcontext():
                descend(lowered, lowered.path.outlined, keep=False, on_level=on_level, instrumentation=instrumentation)
                kernels = sum(KernelInfo(function).is_kernel for function in functions(lowered.module.operation))
                find_backend(self.options.backend).prepare(kernels)
                descend(lowered, lowered.path.packed, keep=False, on_level=on_level, instrumentation=instrumentation)
            lowered.assumptions = list(dict.fromkeys([*assumed, *more]))
            packing = start_packing(lowered, store if keep_weights else None)
            last = code_level(self.options, IMPORTED, watched=instrumentation is not None)
            with for_all_sizes() if free else nullcontext():
                descend(lowered, last, keep=False, on_level=on_level, instrumentation=instrumentation)
            artifact = make_artifact(lowered, store, on_level, packing)
        except (UnsupportedError, LimitError, CodegenError) as error:
            if not free or self.options.specialise != "auto":
                raise
            return self._signature(imported, str(error.args[0]).removesuffix(f"; {ALWAYS}")), lowered.timings, digests
        artifact.warnings, artifact.groups, artifact.border = imported.warnings, imported.groups, imported.border
        # Free memory now rather than when the garbage collector finds the cycles that models are part of.
        lowered.weights.clear()
        imported.content = None
        imported.files.clear()
        return artifact, lowered.timings, digests

    @staticmethod
    def _signature(imported: ImportedModel, why_not_general: str = "") -> Signature:
        from stepwell.dialects.core.module_info import ModuleInfo  # here, because the bindings take long to load

        any_integers = ModuleInfo(imported.module).any_integers
        inputs, results = ([TensorInfo.of(name, kind, any_integers) for name, kind in side] for side in (imported.inputs, imported.outputs))
        rest = iter(results)
        outputs = [group.described(rest) for group in imported.groups] or results
        values = valued([name for name, _ in imported.inputs], imported.elements)
        return Signature(inputs, outputs, imported.warnings, values, why_not_general, border=imported.border)

    def _needing(self, error: NeedsError) -> tuple[Signature, dict[str, float], dict[Path, bytes]]:
        """As `make`, for a model of which values of inputs, or their sizes, must be known. Raises UnsupportedError where sizes must not be."""
        free = not all(isinstance(size, int) for info in error.inputs for size in info.shape)
        by_shape = bool(error.needs.sizes) or (free and self.options.specialise == "always")
        if by_shape and self.options.specialise == "never":
            raise UnsupportedError(f"one program for all sizes is not supported: {error.needs.sizes}; {ALWAYS}", details=error.details) from error
        self._check_schedules()
        digests = self._check(error, error.unread)
        made = Signature(error.inputs, error.outputs, error.warnings, error.needs.values, error.needs.sizes, by_shape, error.border)
        return made, {IMPORTED: 0.0}, digests

    def _check_schedules(self) -> None:
        plan = self.options.chosen
        if plan is not None and plan.kernels:
            raise InputError(f"{plan.name}: a schedule is for one set of shapes; give the free dimensions with shapes")

    def start(self) -> "Lowered":
        """The model at the level graph again. Raises ModelError if it has changed since it was compiled."""
        with uninterrupted():
            from stepwell.driver.lowering import import_source, start

        self._begin()
        imported, seconds = import_source(self.origin.source, self.options)
        self._check(imported)
        return start(imported, self.options, self.options.passes(), seconds)

    def _begin(self) -> None:
        """Note what an object of the caller's is before it is read. Raises ModelError if it was something else before."""
        if self.origin.is_object:
            self.digest = self.origin.digest() if self.digest is None else self.digest
            self.origin.check(self.digest, {})

    def _check(self, read: ImportedModel | NeedsError, unread: Sequence[Path] = ()) -> dict[Path, bytes]:
        """The digests of external data files, those that may be read later too. Raises ModelError if the model was another before."""
        digest = self.origin.digest_read(read.content)
        digests = {path: digest_of(content) for path, content in read.files.items()}
        later = {path: file_digest(path) for path in unread}
        digests.update({path: found for path, found in later.items() if found is not None})
        self.origin.check(digest, digests)
        self.is_outdated = digest != self.digest
        return digests
