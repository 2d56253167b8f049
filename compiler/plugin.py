"""The API for plugins: one module with everything that an op, a pass, a schedule or a target of your own needs.

This module is stable; everything behind it may move. Names are loaded when they are first used, so that a plugin with a pass does not load the
importer. docs/architecture.md shows which file to copy for each thing that you may add.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepwell.dialects.support.processes import uninterrupted

if TYPE_CHECKING:
    from stepwell.backends.artifact import Artifact
    from stepwell.backends.base import Backend, Code
    from stepwell.backends.llvm_cpu.backend import LLVMOnCPU
    from stepwell.backends.llvm_cpu.phases import CPU
    from stepwell.backends.phases import COMMON
    from stepwell.backends.registry import register_backend
    from stepwell.cache.disk import Cache
    from stepwell.dialects import graph, packed
    from stepwell.dialects.core.kernel_info import KernelInfo
    from stepwell.dialects.core.mlir import (
        Attribute,
        Dialect,
        Operation,
        affine,
        arith,
        func,
        ir,
        linalg,
        llvm,
        make_context,
        math,
        memref,
        ops_below,
        parse_module,
        register_dialect,
        scf,
        tensor,
        vector,
    )
    from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
    from stepwell.dialects.core.sizes import Dim, holds, product
    from stepwell.dialects.core.types import BOOL, FLOATS, INTEGERS, NUMERIC, TensorType, to_numpy, type_of
    from stepwell.dialects.core.weights import WeightTable
    from stepwell.dialects.graph.base import (
        Elementwise,
        Fusion,
        GraphOp,
        IndexOperand,
        InferredTypes,
        KeepsChannels,
        KeepsFinite,
        MovesData,
        Operand,
        OptionalOperand,
        Pure,
        Region,
        Result,
        Trait,
        VariadicOperand,
        VariadicResult,
        broadcast,
    )
    from stepwell.dialects.graph.builder import GraphBuilder
    from stepwell.dialects.graph.inference import expect_at_least, expect_axes, expect_axis, expect_dim, expect_dtype, expect_rank, expect_same_dtype
    from stepwell.dialects.graph.numerics import widened
    from stepwell.dialects.graph.products import SumOfProducts
    from stepwell.dialects.graph.traits import (
        ChoosesData,
        ComputesRows,
        Converts,
        Convolves,
        Exact,
        JoinsData,
        KeepsAll,
        KeepsEach,
        Pools,
        Speculatable,
        SumsProducts,
    )
    from stepwell.dialects.interpreter import Interpreter, meaning, signless
    from stepwell.dialects.sched.schedule_info import LoopInfo, ScheduleInfo
    from stepwell.dialects.support.errors import (
        CodegenError,
        ElementTypeError,
        InferenceError,
        InputError,
        ModelError,
        ModelWarning,
        PassError,
        StepwellError,
        UnsupportedError,
        warn_caller,
    )
    from stepwell.dialects.target.capabilities import Capabilities
    from stepwell.dialects.target.costs import Costs
    from stepwell.dialects.target.description import Target, describe
    from stepwell.dialects.target.dot_products import intrinsic
    from stepwell.dialects.target.families import Family, register_family
    from stepwell.dialects.target.numbers import Caches, Pipes, Vectors
    from stepwell.dialects.target.registry import register_target
    from stepwell.frontends import blocks
    from stepwell.frontends.base import FrontEnd, ImportedModel, ImportOptions, Summary
    from stepwell.frontends.builder import ModelBuilder, Value
    from stepwell.frontends.contents import content_of
    from stepwell.frontends.new_model import NewModel
    from stepwell.frontends.onnx import ImportBuilder, onnx_rule
    from stepwell.frontends.registry import register_frontend
    from stepwell.passes.affine_to_llvm.vector_math.expansions import expands
    from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats
    from stepwell.passes.framework.choices import Candidate, CostModel, Site, register_cost_model
    from stepwell.passes.framework.levels import Level, LevelPath, register_level
    from stepwell.passes.framework.registry import Pass, PassState, register_pass
    from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, find_function, functions, pattern
    from stepwell.passes.graph.matching import has_one_use, new_weight, producer, stored
    from stepwell.passes.graph_to_linalg.contraction import contract
    from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
    from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
    from stepwell.passes.graph_to_linalg.reduction import reduce
    from stepwell.passes.graph_to_linalg.scalars import Scalars
    from stepwell.passes.linalg.structured import Structured
    from stepwell.passes.linalg_to_affine.context import NestContext
    from stepwell.passes.linalg_to_affine.strategies.base import TileStrategy
    from stepwell.passes.linalg_to_affine.strategies.plain import PlainTiles
    from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
    from stepwell.passes.linalg_to_affine.tile import RegisterTile
    from stepwell.passes.packed.channel_blocks import BlockedValue, Layout, layout_rule
    from stepwell.passes.schedule.nest import Nest
    from stepwell.passes.schedule.schedulers import schedule
    from stepwell.pipelines.lowered import Lowered
    from stepwell.pipelines.phases import Phase
    from stepwell.pipelines.pipeline import Pipeline
    from stepwell.plugin_files import depends_on
    from stepwell.runtime.executable import Executable

_LAZY = {
    # Ops
    "stepwell.dialects.graph.base": (
        "Elementwise Fusion GraphOp IndexOperand InferredTypes KeepsChannels KeepsFinite MovesData Operand OptionalOperand Pure Region Result "
        "Trait VariadicOperand VariadicResult broadcast"
    ),
    "stepwell.dialects.graph.traits": (
        "ChoosesData ComputesRows Converts Convolves Exact JoinsData KeepsAll KeepsEach Pools Speculatable SumsProducts"
    ),
    "stepwell.dialects.graph.products": "SumOfProducts",
    "stepwell.dialects.core.types": "BOOL FLOATS INTEGERS NUMERIC TensorType to_numpy type_of",
    "stepwell.dialects.graph.inference": "expect_at_least expect_axes expect_axis expect_dim expect_dtype expect_rank expect_same_dtype",
    "stepwell.dialects.core.sizes": "Dim holds product",
    "stepwell.dialects.graph.numerics": "widened",
    "stepwell.dialects.graph.builder": "GraphBuilder",
    # Dialects, and MLIR itself
    "stepwell.dialects.core.mlir": (
        "Attribute Dialect Operation register_dialect affine arith func ir linalg llvm make_context math memref ops_below parse_module scf tensor "
        "vector"
    ),
    # Import
    "stepwell.frontends.onnx": "ImportBuilder onnx_rule",
    "stepwell.frontends.builder": "ModelBuilder Value",
    # Front ends
    "stepwell.frontends.base": "FrontEnd ImportOptions ImportedModel Summary",
    "stepwell.frontends.registry": "register_frontend",
    "stepwell.frontends.new_model": "NewModel",
    "stepwell.frontends.contents": "content_of",
    # Lowering
    "stepwell.passes.graph_to_linalg.contraction": "contract",
    "stepwell.passes.graph_to_linalg.linalg_builder": "LinalgBuilder dims",
    "stepwell.passes.graph_to_linalg.lowerings": "Operands lowering",
    "stepwell.passes.graph_to_linalg.reduction": "reduce",
    "stepwell.passes.graph_to_linalg.scalars": "Scalars",
    # Passes
    "stepwell.passes.framework.registry": "Pass PassState register_pass",
    "stepwell.passes.framework.rewriting": "NoMatch PatternPass Rewriter find_function functions pattern",
    "stepwell.passes.graph.matching": "has_one_use new_weight producer stored",
    # Layouts
    "stepwell.passes.packed.channel_blocks": "BlockedValue Layout layout_rule",
    # Schedules
    "stepwell.passes.schedule.schedulers": "schedule",
    "stepwell.passes.schedule.nest": "Nest",
    "stepwell.dialects.target.dot_products": "intrinsic",
    "stepwell.passes.linalg.structured": "Structured",
    # Register tiles
    "stepwell.passes.linalg_to_affine.context": "NestContext",
    "stepwell.passes.linalg_to_affine.strategies.base": "TileStrategy",
    "stepwell.passes.linalg_to_affine.strategies.plain": "PlainTiles",
    "stepwell.passes.linalg_to_affine.strategies.registry": "register_tile_strategy",
    "stepwell.passes.linalg_to_affine.tile": "RegisterTile",
    # Vector maths
    "stepwell.passes.affine_to_llvm.vector_math.expansions": "expands",
    "stepwell.passes.affine_to_llvm.vector_math.lanes": "Floats",
    # What IR says beside its ops (docs/levels.md)
    "stepwell.dialects.core.module_info": "ModuleInfo ValueInfo",
    "stepwell.dialects.core.kernel_info": "KernelInfo",
    "stepwell.dialects.sched.schedule_info": "LoopInfo ScheduleInfo",
    # Weights
    "stepwell.dialects.core.weights": "WeightTable",
    # Targets and pipelines
    "stepwell.dialects.target.capabilities": "Capabilities",
    "stepwell.dialects.target.costs": "Costs",
    "stepwell.dialects.target.description": "Target describe",
    "stepwell.dialects.target.families": "Family register_family",
    "stepwell.dialects.target.numbers": "Caches Pipes Vectors",
    "stepwell.dialects.target.registry": "register_target",
    "stepwell.pipelines.pipeline": "Pipeline",
    # Choices
    "stepwell.passes.framework.choices": "Candidate CostModel Site register_cost_model",
    # Levels of IR
    "stepwell.passes.framework.levels": "Level LevelPath register_level",
    # Backends, and what they may run IR by
    "stepwell.cache.disk": "Cache",
    "stepwell.backends.llvm_cpu.backend": "LLVMOnCPU",
    "stepwell.dialects.interpreter": "Interpreter meaning signless",
    "stepwell.backends.artifact": "Artifact",
    "stepwell.backends.base": "Backend Code",
    "stepwell.backends.registry": "register_backend",
    "stepwell.backends.llvm_cpu.phases": "CPU",
    "stepwell.backends.phases": "COMMON",
    "stepwell.pipelines.phases": "Phase",
    "stepwell.pipelines.lowered": "Lowered",
    "stepwell.runtime.executable": "Executable",
    # Errors
    "stepwell.dialects.support.errors": (
        "CodegenError ElementTypeError InferenceError InputError ModelError ModelWarning PassError StepwellError UnsupportedError warn_caller"
    ),
    # The plugin itself
    "stepwell.plugin_files": "depends_on",
}
_PACKAGES = {"graph": "stepwell.dialects.graph", "packed": "stepwell.dialects.packed", "blocks": "stepwell.frontends.blocks"}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names.split()}

__all__ = [
    "BOOL",
    "COMMON",
    "CPU",
    "FLOATS",
    "INTEGERS",
    "NUMERIC",
    "Artifact",
    "Attribute",
    "Backend",
    "BlockedValue",
    "Cache",
    "Caches",
    "Candidate",
    "Capabilities",
    "ChoosesData",
    "Code",
    "CodegenError",
    "ComputesRows",
    "Converts",
    "Convolves",
    "CostModel",
    "Costs",
    "Dialect",
    "Dim",
    "ElementTypeError",
    "Elementwise",
    "Exact",
    "Executable",
    "Family",
    "Floats",
    "FrontEnd",
    "Fusion",
    "GraphBuilder",
    "GraphOp",
    "ImportBuilder",
    "ImportOptions",
    "ImportedModel",
    "IndexOperand",
    "InferenceError",
    "InferredTypes",
    "InputError",
    "Interpreter",
    "JoinsData",
    "KeepsAll",
    "KeepsChannels",
    "KeepsEach",
    "KeepsFinite",
    "KernelInfo",
    "LLVMOnCPU",
    "Layout",
    "Level",
    "LevelPath",
    "LinalgBuilder",
    "LoopInfo",
    "Lowered",
    "ModelBuilder",
    "ModelError",
    "ModelWarning",
    "ModuleInfo",
    "MovesData",
    "Nest",
    "NestContext",
    "NewModel",
    "NoMatch",
    "Operand",
    "Operands",
    "Operation",
    "OptionalOperand",
    "Pass",
    "PassError",
    "PassState",
    "PatternPass",
    "Phase",
    "Pipeline",
    "Pipes",
    "PlainTiles",
    "Pools",
    "Pure",
    "Region",
    "RegisterTile",
    "Result",
    "Rewriter",
    "Scalars",
    "ScheduleInfo",
    "Site",
    "Speculatable",
    "StepwellError",
    "Structured",
    "SumOfProducts",
    "Summary",
    "SumsProducts",
    "Target",
    "TensorType",
    "TileStrategy",
    "Trait",
    "UnsupportedError",
    "Value",
    "ValueInfo",
    "VariadicOperand",
    "VariadicResult",
    "Vectors",
    "WeightTable",
    "affine",
    "arith",
    "blocks",
    "broadcast",
    "content_of",
    "contract",
    "depends_on",
    "describe",
    "dims",
    "expands",
    "expect_at_least",
    "expect_axes",
    "expect_axis",
    "expect_dim",
    "expect_dtype",
    "expect_rank",
    "expect_same_dtype",
    "find_function",
    "func",
    "functions",
    "graph",
    "has_one_use",
    "holds",
    "intrinsic",
    "ir",
    "layout_rule",
    "linalg",
    "llvm",
    "lowering",
    "make_context",
    "math",
    "meaning",
    "memref",
    "new_weight",
    "onnx_rule",
    "ops_below",
    "packed",
    "parse_module",
    "pattern",
    "producer",
    "product",
    "reduce",
    "register_backend",
    "register_cost_model",
    "register_dialect",
    "register_family",
    "register_frontend",
    "register_level",
    "register_pass",
    "register_target",
    "register_tile_strategy",
    "scf",
    "schedule",
    "signless",
    "stored",
    "tensor",
    "to_numpy",
    "type_of",
    "vector",
    "warn_caller",
    "widened",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'stepwell.plugin' has no attribute '{name}'; it has: {', '.join(__all__)}")
    with uninterrupted():
        if name in _PACKAGES:
            return import_module(_PACKAGES[name])
        return getattr(import_module(_MODULE_OF[name]), name)
