"""The public entry points: compile a model, go down the stair part of the way, go on from IR."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from stepwell.dialects.errors import IRError, ModelError
from stepwell.dialects.mlir import ir, make_context, parse_module
from stepwell.dialects.types import TensorType
from stepwell.dialects.weights import WeightTable
from stepwell.passes.registry import PassState
from stepwell.passes.rewriting import find_function
from stepwell.passes.runner import Instrumentation, PassRunner

from .dynamic import DynamicModel
from .model import CompiledModel, TensorInfo
from .native.artifacts import assembly, llvm_ir, node_names
from .native.buffers import pack_arena
from .native.loader import load
from .native.objects import split_module
from .native.openmp import openmp as find_openmp
from .native.pool import compile_units, prestart
from .plugins import load_installed
from .stair import LEVELS, check_disable, check_level, step, steps_between
from .target import Target, available_cores, resolve

if TYPE_CHECKING:
    import onnx

    from .importer import ImportedModel

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"
OnLevel = Callable[[str, float], None]
SIGNATURE = ("stepwell.inputs", "stepwell.outputs")


@dataclass
class Lowered:
    """A model at some level of the stair, with everything needed to go on."""

    module: ir.Module
    level: str
    weights: WeightTable
    state: PassState
    target: Target
    timings: dict[str, float] = field(default_factory=dict)
    snapshots: dict[str, ir.Operation] = field(default_factory=dict)  # the module as it was at each level passed so far
    disable: tuple[str, ...] = ()  # techniques that are switched off on the way down

    def text(self, *, generic: bool = False, locations: bool = True) -> str:
        """The IR with locations, so that it can be read back without losing the ONNX nodes' names."""
        return str(self.module.operation.get_asm(enable_debug_info=locations, print_generic_op_form=generic))

    def signature(self, which: str) -> list[tuple[str, TensorType]]:
        """Names and types of the model's "inputs" or "outputs"."""
        entries = ir.ArrayAttr(self.module.operation.attributes[f"stepwell.{which}"])
        return [(ir.StringAttr(e[0]).value, TensorType.from_mlir(ir.TypeAttr(e[1]).value)) for e in map(ir.ArrayAttr, entries)]


def compile(
    source: Source,
    *,
    threads: int | None = None,
    target: str | Target = "host",
    shapes: Mapping[str, Sequence[int]] | None = None,
    disable: Sequence[str] = (),
    on_level: OnLevel | None = None,
    instrumentation: Instrumentation | None = None,
) -> CompiledModel | DynamicModel:
    """Compile an ONNX model (a path, bytes or a ModelProto) to native code.

    `threads` bounds the cores a run uses (default: all that the process may use); `shapes` gives sizes to inputs with free
    dimensions, by name; without them such a model is compiled for each combination of shapes when it is first run.
    `disable` names techniques to switch off, to see what they are worth (`stepwell.stair.techniques()` are those there are).
    `on_level(level, seconds)` is called as each level is reached. Raises ModelError, UnsupportedError or InputError with one clear
    message if the model cannot be compiled.
    """
    chosen, disable = resolve(target), check_disable(disable)
    imported, seconds = _import(source, shapes)
    free = [name for name, t in imported.inputs if not t.is_static]
    if free:

        def specialise(given: Mapping[str, tuple[int, ...]]) -> CompiledModel:
            model = compile(
                source, threads=threads, target=chosen, shapes=given, disable=disable, on_level=on_level, instrumentation=instrumentation
            )
            if isinstance(model, DynamicModel):
                raise ModelError(f"the shapes {dict(given)} leave dimensions open")
            return model

        return DynamicModel(
            inputs=[TensorInfo.of(n, t) for n, t in imported.inputs],
            outputs=[TensorInfo.of(n, t) for n, t in imported.outputs],
            compile_shapes=specialise,
        )
    if on_level is not None:
        on_level("graph", seconds)
    prestart()
    lowered = _start(imported, chosen, seconds, disable)
    descend(lowered, "llvm", on_level=on_level, instrumentation=instrumentation)
    return build(lowered, threads=threads, on_level=on_level)


def lower(
    source: Source,
    to_level: str,
    *,
    target: str | Target = "host",
    shapes: Mapping[str, Sequence[int]] | None = None,
    disable: Sequence[str] = (),
    on_level: OnLevel | None = None,
    instrumentation: Instrumentation | None = None,
) -> Lowered:
    """Import an ONNX model and take it down to `to_level`. As `compile`, but without native code; free dimensions must be given."""
    check_level(to_level)
    disable = check_disable(disable)
    imported, seconds = _import(source, shapes)
    free = [name for name, t in imported.inputs if not t.is_static]
    if free and to_level != "graph":
        raise ModelError(f"input{'s' * (len(free) > 1)} {', '.join(free)}: free dimensions must be given with shapes")
    if on_level is not None:
        on_level("graph", seconds)
    return descend(_start(imported, resolve(target), seconds, disable), to_level, on_level=on_level, instrumentation=instrumentation)


def read_ir(text: str, level: str, weights: WeightTable, *, target: str | Target = "host", name: str = "<string>") -> Lowered:
    """A model from the text of its IR at `level`, perhaps edited by hand. Raises IRError if it does not parse or verify, or has no @main."""
    check_level(level)
    load_installed()
    context = make_context()
    with context, ir.Location.file(name, 1, 1):
        module = parse_module(text, context, name)
        chosen = resolve(target)
        lowered = Lowered(module, level, weights, PassState(weights=weights, target=chosen), chosen)
        if any(key not in module.operation.attributes for key in SIGNATURE):
            _derive_signature(module)
        lowered.snapshots[level] = module.operation.clone()
    return lowered


def compile_ir(
    text: str, level: str, weights: WeightTable, *, threads: int | None = None, target: str | Target = "host", name: str = "<string>",
    on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None,
) -> CompiledModel:  # fmt: skip
    """Compile from the text of a model's IR at `level`; `weights` holds what its parameters (or its arena) name."""
    lowered = read_ir(text, level, weights, target=target, name=name)
    descend(lowered, "llvm", on_level=on_level, instrumentation=instrumentation)
    return build(lowered, threads=threads, on_level=on_level)


def descend(lowered: Lowered, to_level: str, *, on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None) -> Lowered:
    """Take a model further down, level by level; returns it."""
    runner = PassRunner(lowered.state, instrumentation=instrumentation)
    with lowered.module.context, ir.Location.file("model.onnx", 1, 1):
        for level in steps_between(lowered.level, to_level):
            begin = time.perf_counter()
            runner.run(lowered.module, step(level, openmp=find_openmp() is not None, disable=lowered.disable), level=level)
            lowered.timings[level] = time.perf_counter() - begin
            lowered.level = level
            lowered.snapshots[level] = lowered.module.operation.clone()
            if on_level is not None:
                on_level(level, lowered.timings[level])
    return lowered


def build(lowered: Lowered, *, threads: int | None = None, on_level: OnLevel | None = None) -> CompiledModel:
    """Native code for a model at level llvm."""
    begin = time.perf_counter()
    attributes = lowered.module.operation.attributes
    units = split_module(lowered.module)
    objects = compile_units(units)
    code = load(objects)
    offsets = {e.name: ir.IntegerAttr(e.attr).value for e in ir.DictAttr(attributes["stepwell.arena"])} if "stepwell.arena" in attributes else {}
    size = _bytes(lowered.module, "stepwell.weights_bytes")
    arena = pack_arena(lowered.weights, offsets, size)
    lowered.timings["obj"] = time.perf_counter() - begin
    if on_level is not None:
        on_level("obj", lowered.timings["obj"])
    texts: dict[str, Callable[[], str]] = {level: _printer(op) for level, op in lowered.snapshots.items()}
    nodes = node_names(lowered.module)
    texts["llvm-ir"] = lambda: llvm_ir(lowered.module)
    texts["asm"] = lambda: assembly(objects, nodes)
    return CompiledModel(
        inputs=[TensorInfo.of(n, t) for n, t in lowered.signature("inputs")],
        outputs=[TensorInfo.of(n, t) for n, t in lowered.signature("outputs")],
        code=code, weights=arena, workspace_bytes=_bytes(lowered.module, "stepwell.workspace_bytes"),
        threads=available_cores() if threads is None else threads, texts=texts, timings=lowered.timings, kernels=len(units) - 1,
        objects=objects,
    )  # fmt: skip


def _bytes(module: ir.Module, attribute: str) -> int:
    attributes = module.operation.attributes
    return ir.IntegerAttr(attributes[attribute]).value if attribute in attributes else 0


def _printer(op: ir.Operation) -> Callable[[], str]:
    return lambda: str(op.get_asm(enable_debug_info=True))


def _import(source: Source, shapes: Mapping[str, Sequence[int]] | None) -> "tuple[ImportedModel, float]":
    from .importer import import_model  # here, because it loads onnx, which going on from IR needs not

    load_installed()
    begin = time.perf_counter()
    return import_model(source, make_context(), shapes=shapes), time.perf_counter() - begin


def _start(imported: "ImportedModel", target: Target, seconds: float, disable: tuple[str, ...]) -> Lowered:
    state = PassState(weights=imported.weights, target=target)
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
    if not sides[1]:
        raise IRError("the module has no stepwell.inputs and stepwell.outputs, and its @main returns no tensors to derive them from")
    _set_signature(module, *sides)
