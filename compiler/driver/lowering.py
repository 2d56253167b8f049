"""Go down the stair part of the way, go on from IR, make native code: what `compile` is made of."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepwell.cache.disk import Cache, Kept, key_of
from stepwell.cache.fingerprint import code_generation
from stepwell.codegen.artifacts import node_names
from stepwell.codegen.objects import Unit, split_module
from stepwell.codegen.pool import compile_units
from stepwell.dialects.core.index_checks import get_checks, widths
from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.schedule_file import ScheduleFile
from stepwell.dialects.support.errors import InputError, IRError, ModelError
from stepwell.dialects.support.limits import Budget, Limits
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.host import Target, resolve, thread_count
from stepwell.driver.arguments import checked
from stepwell.driver.artifact import Parts, assemble
from stepwell.driver.levels import LEVELS, LIBM, PACKED, check_disable, check_level, last_step, step, steps_between
from stepwell.driver.texts import Texts
from stepwell.passes.framework.instrumentation import stopwatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import find_function
from stepwell.passes.framework.runner import Instrumentation, PassRunner
from stepwell.plugins import load_installed
from stepwell.runtime.buffers import arena_chunks, pack_arena
from stepwell.runtime.model import CompiledModel, TensorInfo
from stepwell.runtime.openmp import openmp as find_openmp

if TYPE_CHECKING:
    import onnx

    from stepwell.importer import ImportedModel

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"
OnLevel = Callable[[str, float], None]
Packing: TypeAlias = Future[np.ndarray | Kept]
"""The arena of all weights, once it is there: in memory, or in the cache."""
SIGNATURE = ("stepwell.inputs", "stepwell.outputs")
CODE_LEVELS = LEVELS[-2:]
"""Code is made from either: from the first, each function goes the rest of the way by itself, beside the others."""


@dataclass
class Lowered:
    """A model at some level of the stair, with everything needed to go on."""

    module: ir.Module
    level: str
    weights: WeightTable
    state: PassState
    target: Target
    timings: dict[str, float] = field(default_factory=dict)
    disable: tuple[str, ...] = ()  # techniques that are switched off on the way down
    snapshots: dict[str, ir.Operation] = field(default_factory=dict)
    """The module as it was at each level passed so far."""

    def text(self, *, generic: bool = False, locations: bool = True) -> str:
        """The IR with locations, so that it can be read back without losing the ONNX nodes' names."""
        return str(self.module.operation.get_asm(enable_debug_info=locations, print_generic_op_form=generic))

    def signature(self, which: str) -> list[tuple[str, TensorType]]:
        """Names and types of the model's "inputs" or "outputs"."""
        entries = ir.ArrayAttr(self.module.operation.attributes[f"stepwell.{which}"])
        return [(ir.StringAttr(e[0]).value, TensorType.from_mlir(ir.TypeAttr(e[1]).value)) for e in map(ir.ArrayAttr, entries)]


@checked
def lower(
    source: Source,
    to_level: str,
    *,
    target: str | Target = "host",
    shapes: Mapping[str, Sequence[int]] | None = None,
    disable: Sequence[str] = (),
    libm: bool = False,
    strict: bool = False,
    schedule: "str | os.PathLike[str] | ScheduleFile | None" = None,
    limits: Limits | None = None,
    on_level: OnLevel | None = None,
    instrumentation: Instrumentation | None = None,
) -> Lowered:
    """Import an ONNX model and take it down to `to_level`. As `compile`, but without native code; free dimensions must be given."""
    check_level(to_level)
    disable = check_disable((*disable, LIBM) if libm else disable, strict=strict)
    imported, seconds = import_source(source, shapes, limits)
    free = [name for name, t in imported.inputs if not t.is_static]
    if free and to_level != "graph":
        raise ModelError(f"input{'s' * (len(free) > 1)} {', '.join(free)}: free dimensions must be given with shapes")
    if on_level is not None:
        on_level("graph", seconds)
    file = None if schedule is None else ScheduleFile.of(schedule)
    return descend(start(imported, resolve(target), seconds, disable, file), to_level, on_level=on_level, instrumentation=instrumentation)


@checked
def read_ir(
    text: str, level: str, weights: WeightTable, *, target: str | Target = "host", name: str = "<string>", disable: Sequence[str] = (),
    strict: bool = False, schedule: "str | os.PathLike[str] | ScheduleFile | None" = None, limits: Limits | None = None,
) -> Lowered:  # fmt: skip
    """A model from the text of its IR at `level`, perhaps edited by hand. Raises IRError if it does not parse or verify, or has no @main.

    A `schedule` is for IR above the level `scheduled`; `disable` and `strict` are about the levels that are still to come.
    """
    disable = check_disable(disable, strict=strict)
    check_level(level)
    schedules = None if schedule is None else ScheduleFile.of(schedule)
    if schedules is not None and LEVELS.index(level) >= LEVELS.index("scheduled"):
        raise InputError(f"{schedules.name}: IR at level {level} has its schedules already; edit them there")
    load_installed()
    context = make_context()
    with context, ir.Location.file(name, 1, 1):
        module = parse_module(text, context, name)
        chosen = resolve(target)
        state = PassState(weights=weights, target=chosen, schedules=schedules, budget=Budget(limits or Limits(), weights.nbytes))
        lowered = Lowered(module, level, weights, state, chosen, disable=disable)
        if any(key not in module.operation.attributes for key in SIGNATURE):
            _derive_signature(module)
        if level != LEVELS[-1]:  # where each argument may be one by itself, or all are one
            _check_main(lowered)
        lowered.snapshots[level] = module.operation.clone()
    return lowered


@checked
def compile_ir(
    text: str, level: str, weights: WeightTable, *, threads: int | None = None, target: str | Target = "host", name: str = "<string>",
    disable: Sequence[str] = (), strict: bool = False, schedule: "str | os.PathLike[str] | ScheduleFile | None" = None,
    limits: Limits | None = None, on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None,
) -> CompiledModel:  # fmt: skip
    """Compile from the text of a model's IR at `level`; `weights` holds what its parameters (or its arena) name."""
    threads = thread_count(threads)
    lowered = read_ir(text, level, weights, target=target, name=name, disable=disable, strict=strict, schedule=schedule, limits=limits)
    descend(lowered, code_level(level, watched=instrumentation is not None), on_level=on_level, instrumentation=instrumentation)
    return build(lowered, threads=threads, on_level=on_level)


def code_level(level: str, *, watched: bool) -> str:
    """How far down a model goes as a whole before code is made of it: all the way if it is there already, or if somebody watches the passes."""
    return LEVELS[-1] if level == LEVELS[-1] or watched else CODE_LEVELS[0]


@checked
def descend(
    lowered: Lowered, to_level: str, *, keep: bool = True, on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None
) -> Lowered:
    """Take a model further down, level by level; returns it. `keep` is whether it is to have a snapshot of each level."""
    runner = PassRunner(lowered.state, instrumentation=instrumentation, optimistic=True)
    with lowered.module.context, ir.Location.file("model.onnx", 1, 1):
        for level in steps_between(lowered.level, to_level):
            clock = stopwatch()
            runner.run(lowered.module, step(level, openmp=find_openmp() is not None, disable=lowered.disable), level=level)
            seconds = clock()
            lowered.level = level
            if keep:
                lowered.snapshots[level] = lowered.module.operation.clone()
            _reached(lowered, level, seconds, on_level)
    return lowered


def _reached(lowered: Lowered, level: str, seconds: float, on_level: OnLevel | None) -> None:
    lowered.timings[level] = seconds
    if on_level is not None:
        on_level(level, seconds)


@checked
def build(lowered: Lowered, *, threads: int | None = None, on_level: OnLevel | None = None) -> CompiledModel:
    """Native code for a model at one of CODE_LEVELS, whose module is used up."""
    threads = thread_count(threads)
    texts: dict[str, Callable[[], str]] = {level: _printer(op) for level, op in lowered.snapshots.items()}
    last = lowered.level

    def read_again() -> Lowered:
        return read_ir(texts[last](), last, lowered.weights, target=lowered.target, disable=lowered.disable)

    again = Texts(last, read_again) if last in texts else None
    parts = make_parts(lowered, None, on_level)
    return assemble(parts, threads=threads, texts={**(again.by_level() if again else {}), **texts}, timings=lowered.timings)


def start_packing(lowered: Lowered, store: Cache | None) -> Packing:
    """Begin to compute and to copy the weights of a model at level linalg or below, in memory or in `store`, beside the passes to come."""
    offsets, size = arena_offsets(lowered.module), module_bytes(lowered.module, "stepwell.weights_bytes")
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
        whole, pipeline = last_step(openmp=find_openmp() is not None, disable=lowered.disable)
        PassRunner(lowered.state, optimistic=True).run(lowered.module, whole, level=LEVELS[-1])
    else:  # written by hand, its @main may still take each argument by itself
        PassRunner(lowered.state, optimistic=True).run(lowered.module, "pack-arguments", level=LEVELS[-1])
    units = split_module(lowered.module, pipeline, lowered.target if pipeline else None)
    if pipeline:  # the rest of this level is part of making the objects
        _reached(lowered, LEVELS[-1], clock(), on_level)
        clock = stopwatch()
    packing = packing or start_packing(lowered, store)
    objects, object_keys = _objects(units, lowered.target, store)
    weights = packing.result()
    _reached(lowered, "obj", clock(), on_level)
    return Parts(
        inputs=[TensorInfo.of(n, t) for n, t in lowered.signature("inputs")],
        outputs=[TensorInfo.of(n, t) for n, t in lowered.signature("outputs")],
        objects=objects, weights=weights, workspace_bytes=module_bytes(lowered.module, "stepwell.workspace_bytes"),
        nodes=node_names(lowered.module), object_keys=object_keys, weights_key=weights.key if isinstance(weights, Kept) else None,
        checks=get_checks(lowered.module.operation),
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


def arena_offsets(module: ir.Module) -> dict[str, int]:
    """The offset of each weight in the arena."""
    attributes = module.operation.attributes
    return {e.name: ir.IntegerAttr(e.attr).value for e in ir.DictAttr(attributes["stepwell.arena"])} if "stepwell.arena" in attributes else {}


def module_bytes(module: ir.Module, attribute: str) -> int:
    """A number of bytes that a module says in an attribute, `stepwell.weights_bytes` say; 0 where it says none."""
    attributes = module.operation.attributes
    return ir.IntegerAttr(attributes[attribute]).value if attribute in attributes else 0


def _printer(op: ir.Operation) -> Callable[[], str]:
    return lambda: str(op.get_asm(enable_debug_info=True))


def import_source(source: Source, shapes: Mapping[str, Sequence[int]] | None, limits: Limits | None = None) -> "tuple[ImportedModel, float]":
    """The model at level graph, and the seconds it took."""
    with uninterrupted():
        from stepwell.importer import import_model  # here, because it loads onnx, which going on from IR needs not

    load_installed()
    clock = stopwatch()
    return import_model(source, make_context(), shapes=shapes, limits=limits), clock()


def start(imported: "ImportedModel", target: Target, seconds: float, disable: tuple[str, ...], schedules: ScheduleFile | None = None) -> Lowered:
    """An imported model at the top of the stair."""
    state = PassState(weights=imported.weights, target=target, schedules=schedules, budget=imported.budget)
    lowered = Lowered(imported.module, LEVELS[0], imported.weights, state, target, {"graph": seconds}, disable=disable)
    with imported.module.context, imported.module.operation.location:
        _set_signature(imported.module, imported.inputs, imported.outputs)
        lowered.snapshots["graph"] = imported.module.operation.clone()
    return lowered


def _set_signature(module: ir.Module, *sides: Sequence[tuple[str, TensorType]]) -> None:
    # Below the graph level types lose their signedness and functions their results, so names and types are kept on the module.
    for key, side in zip(SIGNATURE, sides, strict=True):
        entries = [ir.ArrayAttr.get([ir.StringAttr.get(name), ir.TypeAttr.get(t.to_mlir())]) for name, t in side]
        module.operation.attributes[key] = ir.ArrayAttr.get(entries)


def _check_main(lowered: Lowered) -> None:
    """Raise IRError where @main takes or returns something else than the module's attributes and the level say: code reads what it is given."""
    kind, hidden = find_function(lowered.module.operation, "main").type, widths(get_checks(lowered.module.operation))
    sides = [[_plain(t) for _, t in lowered.signature(which)] for which in ("inputs", "outputs")]
    sides[1] += [f"{n} elements of i64" for n in hidden]
    place = LEVELS.index(lowered.level)
    buffers = place >= LEVELS.index(CODE_LEVELS[0])
    weights = [_ARENA] * ((place >= LEVELS.index(PACKED)) + buffers)  # and where intermediate results go
    expected = ([*sides[0], *sides[1], *weights], []) if buffers else ([*sides[0], *weights], sides[1])
    for verb, want, types in zip(("take", "return"), expected, (kind.inputs, kind.results), strict=True):
        got = [_as(description, t) for description, t in zip(want, types, strict=False)]
        if len(types) != len(want) or got != want:
            raise IRError(f"@main must {verb} ({', '.join(want)}), as the module's attributes say; it is a {kind}")


_ARENA = "memref<?xi8>"


def _plain(kind: TensorType) -> str:
    """A type without its signedness, which IR loses on the way down."""
    return f"{'x'.join([*('?' if n is None else str(n) for n in kind.shape), kind.dtype.removeprefix('u')])}"


def _as(description: str, kind: ir.Type) -> str:
    """A type as it is described, if it is that; otherwise the type itself."""
    if str(kind) == description or not isinstance(kind, (ir.RankedTensorType, ir.MemRefType)):
        return str(kind)
    shaped = TensorType.from_mlir(ir.RankedTensorType.get(kind.shape, kind.element_type))
    elements = f"{shaped.elements} elements of i64" if shaped.is_static and shaped.dtype in ("i64", "ui64") else ""
    return description if description in (_plain(shaped), elements) else str(kind)


def _derive_signature(module: ir.Module) -> None:
    """Names and types from @main of IR written by hand, at a level where it still takes and returns tensors."""
    main = find_function(module.operation, "main")
    function_type = main.type
    sides = []
    for types, attributes, prefix in ((function_type.inputs, "arg_attrs", "input"), (function_type.results, "res_attrs", "output")):
        names = list(main.attributes[attributes]) if attributes in main.attributes else [ir.DictAttr.get({})] * len(types)
        side = []
        for i, (mlir_type, entry) in enumerate(zip(types, map(ir.DictAttr, names), strict=True)):
            if isinstance(mlir_type, ir.RankedTensorType):
                named = ir.StringAttr(entry["stepwell.name"]).value if "stepwell.name" in entry else f"{prefix}{i}"
                side.append((named, TensorType.from_mlir(mlir_type)))
        sides.append(side)
    sides[1] = sides[1][: len(sides[1]) - len(widths(get_checks(module.operation)))]
    if not sides[1]:
        raise IRError("the module has no stepwell.inputs and stepwell.outputs, and its @main returns no tensors to derive them from")
    _set_signature(module, *sides)
