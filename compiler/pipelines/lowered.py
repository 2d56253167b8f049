"""A model at some level between import and code, and the attributes of its module."""

from dataclasses import dataclass, field

from stepwell.border.border import Border
from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import IRError
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.options import CompileOptions
from stepwell.passes.framework.levels import LevelPath, find_level
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import find_function
from stepwell.pipelines.pipeline import Pipeline


@dataclass
class Lowered:
    """A model at some level, with everything needed to lower it further."""

    module: ir.Module
    level: str
    weights: WeightTable
    state: PassState
    options: CompileOptions
    pipeline: Pipeline
    """The pipeline, with `options` applied."""
    timings: dict[str, float] = field(default_factory=dict)
    border: Border | None = None
    """The nodes of an ONNX model that run in Python, and are not in the module."""
    snapshots: dict[str, ir.Operation] = field(default_factory=dict)
    """Snapshots of the module at each level passed so far."""

    @property
    def path(self) -> LevelPath:
        """The levels that the pipeline takes the model through."""
        return self.pipeline.path

    @property
    def target(self) -> Target:
        """The machine that the model is compiled for."""
        return self.state.target or GENERIC

    def text(self, *, generic: bool = False, locations: bool = True) -> str:
        """The IR with locations, so that reading it back keeps the names of ONNX nodes."""
        return str(self.module.operation.get_asm(enable_debug_info=locations, print_generic_op_form=generic))

    @property
    def info(self) -> ModuleInfo:
        """The module attributes that describe the model."""
        return ModuleInfo(self.module)


def check_main(lowered: Lowered) -> None:
    """Raise IRError if @main's arguments or results differ from those that its attributes and the level require: code would access wrong memory."""
    kind, info = find_function(lowered.module.operation, "main").type, lowered.info
    hidden = widths(info.checks)
    sides = [[_plain(t) for _, t in side] for side in (info.inputs, info.outputs)]
    sides[1] += [f"{n} elements of i64" for n in hidden]
    level = find_level(lowered.level)
    weights = [_ARENA] * (level.arena + level.buffers)  # and the workspace
    status = ["i64"] * bool(hidden or info.table_entries)
    expected = ([*sides[0], *sides[1], *weights], status) if level.buffers else ([*sides[0], *weights], sides[1])
    for verb, want, types in zip(("take", "return"), expected, (kind.inputs, kind.results), strict=True):
        got = [_as(description, t) for description, t in zip(want, types, strict=False)]
        if len(types) != len(want) or got != want:
            raise IRError(f"@main must {verb} ({', '.join(want)}), as the module's attributes say; it is a {kind}")


_ARENA = "memref<?xi8>"


def _plain(kind: TensorType) -> str:
    """A type without its signedness, which lower levels do not have."""
    return f"{'x'.join([*('?' if n is None else str(n) for n in kind.shape), kind.dtype.removeprefix('u')])}"


def _as(description: str, kind: ir.Type) -> str:
    """The description of a type if it fits, otherwise the type itself."""
    if str(kind) == description or not isinstance(kind, (ir.RankedTensorType, ir.MemRefType)):
        return str(kind)
    shaped = TensorType.from_mlir(ir.RankedTensorType.get(kind.shape, kind.element_type))
    elements = f"{shaped.elements} elements of i64" if shaped.is_static and shaped.dtype in ("i64", "ui64") else ""
    return description if description in (_plain(shaped), elements) else str(kind)


def derive_signature(module: ir.Module) -> None:
    """Add names and types from @main of handwritten IR, at a level where it takes and returns tensors."""
    main, info = find_function(module.operation, "main"), ModuleInfo(module)
    kinds = main.type
    arguments, results = ValueInfo.names(ValueInfo.arguments(main), "input"), ValueInfo.names(ValueInfo.results(main), "output")
    sides = [
        [(name, TensorType.from_mlir(kind)) for name, kind in zip(names, types, strict=True) if isinstance(kind, ir.RankedTensorType)]
        for names, types in ((arguments, kinds.inputs), (results, kinds.results))
    ]
    outputs = sides[1][: len(sides[1]) - len(widths(info.checks))]
    if not outputs:
        raise IRError(
            f"the module has no {ModuleInfo.inputs.name} and {ModuleInfo.outputs.name}, and its @main returns no tensors to derive them from"
        )
    info.inputs, info.outputs = sides[0], outputs
