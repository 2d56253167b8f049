"""From a lowered model to native code: its functions made into objects beside each other, its weights packed meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeAlias, Unpack

import numpy as np

from stepwell.cache.disk import Cache, Kept, key_of
from stepwell.cache.fingerprint import code_generation
from stepwell.codegen.objects import Unit, split_module
from stepwell.codegen.pool import compile_units
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.target.cores import thread_count
from stepwell.dialects.target.description import Target
from stepwell.driver.arguments import checked
from stepwell.driver.artifact import Parts, assemble
from stepwell.driver.lowered import Lowered
from stepwell.driver.lowering import OnLevel, code_level, descend, reached, read_ir
from stepwell.driver.pipeline import grouped
from stepwell.driver.snapshots import Snapshots
from stepwell.options import CompileFields, CompileOptions
from stepwell.passes.framework.instrumentation import stopwatch
from stepwell.passes.framework.levels import LEVELS
from stepwell.passes.framework.runner import Instrumentation, PassRunner
from stepwell.runtime.buffers import arena_chunks, pack_arena
from stepwell.runtime.model import CompiledModel, TensorInfo

Packing: TypeAlias = Future[np.ndarray | Kept]
"""The arena of all weights, once it is there: in memory, or in the cache."""


@checked
def compile_ir(
    text: str, level: str, weights: WeightTable, *, threads: int | None = None, name: str = "<string>", options: CompileOptions | None = None,
    on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None, **given: Unpack[CompileFields],
) -> CompiledModel:  # fmt: skip
    """Compile from the text of a model's IR at `level`; `weights` holds what its parameters (or its arena) name."""
    threads = thread_count(threads)
    lowered = read_ir(text, level, weights, name=name, options=CompileOptions.of(options, given, "compile_ir"))
    descend(lowered, code_level(level, watched=instrumentation is not None), on_level=on_level, instrumentation=instrumentation)
    return build(lowered, threads=threads, on_level=on_level)


@checked
def build(lowered: Lowered, *, threads: int | None = None, on_level: OnLevel | None = None) -> CompiledModel:
    """Native code for a model at one of CODE_LEVELS, whose module is used up."""
    threads = thread_count(threads)
    texts: dict[str, Callable[[], str]] = {level: _printer(op) for level, op in lowered.snapshots.items()}
    last, below = lowered.level, replace(lowered.options, shapes=None, schedule=None)

    def read_again() -> Lowered:
        return read_ir(texts[last](), last, lowered.weights, options=below)

    again = Snapshots(last, read_again) if last in texts else None
    parts = make_parts(lowered, None, on_level)
    return assemble(parts, threads=threads, texts={**(again.by_level() if again else {}), **texts}, timings=lowered.timings)


def start_packing(lowered: Lowered, store: Cache | None) -> Packing:
    """Begin to compute and to copy the weights of a model at level linalg or below, in memory or in `store`, beside the passes to come."""
    offsets, size = lowered.info.arena, lowered.info.weights_bytes
    beside = ThreadPoolExecutor(1)  # computing, copying, hashing and writing leave the interpreter to others
    packing = beside.submit(_weights, lowered.weights, offsets, size, store)
    beside.shutdown(wait=False)
    return packing


def make_parts(lowered: Lowered, store: Cache | None, on_level: OnLevel | None, packing: Packing | None = None) -> Parts:
    """The code and the packed weights of a model at one of CODE_LEVELS, whose module is used up.

    `store` gives the code that was made before and gets the other; it gets the weights too if they are not being packed already.
    """
    clock, pipeline = stopwatch(), ""
    if lowered.level != LEVELS[-1]:
        stage = lowered.pipeline.stage(LEVELS[-1])
        pipeline = grouped(stage.per_function)
        PassRunner(lowered.state, optimistic=True).run(lowered.module, grouped(stage.whole), level=LEVELS[-1])
    else:  # written by hand, its @main may still take each argument by itself
        PassRunner(lowered.state, optimistic=True).run(lowered.module, "pack-arguments", level=LEVELS[-1])
    units = split_module(lowered.module, pipeline, lowered.target if pipeline else None)
    if pipeline:  # the rest of this level is part of making the objects
        reached(lowered, LEVELS[-1], clock(), on_level)
        clock = stopwatch()
    packing = packing or start_packing(lowered, store)
    objects, object_keys = _objects(units, lowered.target, store)
    weights = packing.result()
    reached(lowered, "obj", clock(), on_level)
    return Parts(
        inputs=[TensorInfo.of(n, t) for n, t in lowered.info.inputs],
        outputs=[TensorInfo.of(n, t) for n, t in lowered.info.outputs],
        objects=objects, weights=weights, workspace_bytes=lowered.info.workspace_bytes,
        nodes=list(lowered.info.nodes), object_keys=object_keys, weights_key=weights.key if isinstance(weights, Kept) else None,
        checks=list(lowered.info.checks),
    )  # fmt: skip


def _objects(units: Sequence[Unit], target: Target, store: Cache | None) -> tuple[dict[str, bytes], dict[str, str]]:
    """The object of each unit by its name, and its key in the cache if it is there."""
    generation = code_generation(target) if store is not None else None
    if store is None or generation is None:
        return compile_units(units), {}
    keys = {unit.name: key_of(generation, unit.name, unit.bytecode, unit.pipeline) for unit in units}
    known = {name: store.get("objects", key) for name, key in keys.items()}
    made = compile_units([unit for unit in units if known[unit.name] is None])
    kept = {name: key for name, key in keys.items() if name not in made or store.put("objects", key, made[name])}
    return {name: data if data is not None else made[name] for name, data in known.items()}, kept


def _weights(weights: WeightTable, offsets: Mapping[str, int], size: int, store: Cache | None) -> np.ndarray | Kept:
    """The arena of all weights, in a file of the cache if that can be, or in memory."""
    kept = store.put_chunks("weights", (chunk.data for chunk in arena_chunks(weights, offsets, size)), size) if store is not None else None
    return pack_arena(weights, offsets, size) if kept is None else kept


def _printer(op: ir.Operation) -> Callable[[], str]:
    return lambda: str(op.get_asm(enable_debug_info=True))
