"""From a lowered model to code: the backend generates it while the weights are packed."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeAlias, Unpack

import numpy as np

from stepwell.arguments import checked
from stepwell.backends.artifact import Artifact
from stepwell.backends.base import Code
from stepwell.backends.registry import checked_result, find_backend
from stepwell.cache.disk import Cache, Kept, chosen_cache
from stepwell.dialects.core.segments import Segment, decided_assumptions, symbol_places
from stepwell.dialects.core.size_table import SizeTable
from stepwell.dialects.core.sizes import Assumption, Size
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.artifact import assemble
from stepwell.driver.lowering import code_level, descend, reached, read_ir
from stepwell.driver.snapshots import texts_by_level
from stepwell.driver.watch import OnLevel
from stepwell.options import CompileFields, CompileOptions
from stepwell.passes.framework.instrumentation import stopwatch
from stepwell.passes.framework.runner import Instrumentation
from stepwell.pipelines.lowered import Lowered
from stepwell.runtime.buffers import arena_chunks, arena_places, pack_arena
from stepwell.runtime.general import General
from stepwell.runtime.late_sizes import LateSegment, LateSizes
from stepwell.runtime.model import CompiledModel
from stepwell.signature import TensorInfo

Packing: TypeAlias = Future[np.ndarray | Kept]
"""The future arena of all weights, in memory or in the cache."""


@checked
def compile_ir(
    text: str, level: str, weights: WeightTable, *, threads: int | None = None, name: str = "<string>", options: CompileOptions | None = None,
    cache: bool = True, on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None, **given: Unpack[CompileFields],
) -> CompiledModel:  # fmt: skip
    """Compile from the text of a model's IR at `level`; `weights` has those that its parameters (or its arena) name. `cache` as in `build`."""
    threads = thread_count(threads)
    lowered = read_ir(text, level, weights, name=name, options=CompileOptions.combined(options, given, "compile_ir"), threads=threads)
    descend(lowered, code_level(lowered.options, level, watched=instrumentation is not None), on_level=on_level, instrumentation=instrumentation)
    return build(lowered, threads=threads, cache=cache, on_level=on_level)


@checked
def build(lowered: Lowered, *, threads: int | None = None, cache: bool = True, on_level: OnLevel | None = None) -> CompiledModel:
    """Generate code for a model at one of its backend's levels; the module is consumed.

    Kernels compiled before come from the cache on disk, and new ones are stored there, unless `cache` is false or STEPWELL_CACHE is 0. The model as a
    whole is neither looked up nor stored.
    """
    threads = thread_count(threads)
    store = chosen_cache(cache)
    snapshots: dict[str, Callable[[], str]] = {level: partial(op.get_asm, enable_debug_info=True) for level, op in lowered.snapshots.items()}
    last, below = lowered.level, replace(lowered.options, shapes=None, values=None, plan=None, tuning=None)

    def read_again() -> Lowered:
        return read_ir(snapshots[last](), last, lowered.weights, options=below)

    again = texts_by_level(last, read_again, lowered.options.backend) if last in snapshots else {}
    artifact = make_artifact(lowered, store, on_level, start_packing(lowered, None))
    if store is not None and artifact.object_keys:
        store.trim()
    return assemble(artifact, threads=threads, snapshots={**again, **snapshots}, timings=lowered.timings)


def start_packing(lowered: Lowered, store: Cache | None) -> Packing:
    """Start computing and copying the weights of a model at level linalg or below, in memory or in `store`, in parallel with later passes."""
    offsets, size = lowered.info.arena, lowered.info.weights_bytes
    beside = ThreadPoolExecutor(1)  # computing, copying, hashing and writing release the GIL
    packing = beside.submit(_weights, lowered.weights, offsets, size, store)
    beside.shutdown(wait=False)
    return packing


def make_artifact(
    lowered: Lowered, store: Cache | None, on_level: OnLevel | None, packing: Packing | None = None, *, cross: bool = False
) -> Artifact:  # fmt: skip
    """Generate code and pack the weights of a model at one of its backend's levels. Its module is consumed.

    Known code is read from `store`, new code is written there; so are the weights, unless they are already being packed. With `cross`, the code is
    for the target itself, which this machine need not run; the model is at the last level.
    """
    clock = stopwatch()
    backend = find_backend(lowered.options.backend)
    packing = packing or start_packing(lowered, store)

    def at_last_level() -> None:
        nonlocal clock
        reached(lowered, backend.path.last, clock(), on_level)
        clock = stopwatch()

    info, places, artifact = lowered.info, arena_places(lowered.weights, lowered.info.arena), artifact_without_code(lowered)
    most = lowered.options.limits.workspace_bytes
    if info.table_entries:
        rounds = lowered.options.limits.loop_rounds
        decided = decided_assumptions(info.segments, info.symbols, info.assumptions)
        segments = [late_segment(segment, assumed) for segment, assumed in zip(info.segments, decided, strict=True)]
        artifact.late = LateSizes(segments, info.table_entries, symbol_places(info.segments, info.symbols), most, rounds, artifact.outputs)
    if info.symbols:
        table = info.size_table or SizeTable(0)  # a backend that goes its own way has none, and no program for all sizes
        elements = [[None if size is None else str(size) for size in symbols] for symbols in info.elements]
        entries = table.places(info.symbols)
        assumed = [str(assumption) for assumption in info.assumptions if assumption.symbols <= set(info.symbols)]
        most_value = lowered.options.limits.value_bytes
        artifact.general = General(info.symbols, entries, table.workspace, table.entries, elements, most, most_value, assumed)
    if cross:
        code = Code(backend.cross_compile(lowered), 0, located=lowered.info.located)
    else:
        how = lowered.options.backend, "generate", partial(backend.generate, lowered, store, at_last_level)
        code = checked_result(*how, "Code", lambda made: isinstance(made, Code))
    artifact.objects, artifact.kernels, artifact.lines = code.objects, code.kernels, code.lines
    artifact.places = places if code.located else ()
    artifact.weights, artifact.object_keys = packing.result(), code.keys
    if store is not None and isinstance(artifact.weights, Kept):  # otherwise the model is not stored
        artifact.weights_key = artifact.weights.key
        artifact.object_keys = {**_kept(store, code), **code.keys}
    reached(lowered, "obj", clock(), on_level)
    return artifact


def artifact_without_code(lowered: Lowered) -> Artifact:
    """The artifact of a model at level linalg or below, without code and weights."""
    info, plan = lowered.info, lowered.state.choices.in_use(lowered.target)
    return Artifact(
        inputs=[TensorInfo.from_type(n, t, info.any_integers) for n, t in info.inputs],
        outputs=[TensorInfo.from_type(n, t) for n, t in info.outputs],
        workspace_bytes=info.workspace_bytes, nodes=list(info.nodes), checks=list(info.checks), backend=lowered.options.backend,
        plan="" if plan is None else plan.text,
    )  # fmt: skip


def late_segment(segment: Segment, assumptions: Sequence[Assumption]) -> LateSegment:
    """The description of a segment for the runtime."""
    used = [*(slot.size for slot in segment.slots), *(before for _, before in segment.grows)]
    symbols = sorted({name for size in used if isinstance(size, Size) for name in size.symbols})
    shapes = [[size if isinstance(size, int) else None for size in shape] for shape in segment.shapes]
    return LateSegment(
        segment.nodes, segment.start, list(map(str, segment.sizes)), len(segment.slots), segment.outputs, shapes, segment.boxes,
        [slot for slot, _ in segment.grows], list(map(str, assumptions)), symbols,
    )  # fmt: skip


def _kept(store: Cache, code: Code) -> dict[str, str]:
    """Store the objects that the backend has not stored itself; returns their keys."""
    keys = {name: key_of("code", data) for name, data in code.objects.items() if name not in code.keys}
    return {name: key for name, key in keys.items() if store.put("objects", key, code.objects[name])}


def _weights(weights: WeightTable, offsets: Mapping[str, int], size: int, store: Cache | None) -> np.ndarray | Kept:
    """The arena of all weights, in a file of the cache if possible, else in memory."""
    kept = store.put_chunks("weights", (chunk.data for chunk in arena_chunks(weights, offsets, size)), size) if store is not None else None
    return pack_arena(weights, offsets, size) if kept is None else kept
