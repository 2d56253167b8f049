"""The API for plugins: one module with everything that an op, a pass, a schedule or a target of your own needs.

This module is stable; everything behind it may move. Names are loaded when they are first used, so that a plugin with a pass does not load the
importer. docs/architecture.md shows which file to copy for each kind of extension.
"""

from typing import TYPE_CHECKING

from stepwell.dialects.support.exports import names_on_use

if TYPE_CHECKING:
    from stepwell.backends.artifact import Artifact as Artifact
    from stepwell.backends.base import Backend as Backend, Code as Code
    from stepwell.backends.llvm_cpu.backend import LLVMOnCPU as LLVMOnCPU
    from stepwell.backends.llvm_cpu.phases import CPU as CPU
    from stepwell.backends.phases import COMMON as COMMON
    from stepwell.backends.registry import register_backend as register_backend
    from stepwell.cache.disk import Cache as Cache
    from stepwell.dialects import graph as graph, packed as packed
    from stepwell.dialects.core.dtypes import (
        ElementKind as ElementKind,
        ElementType as ElementType,
        register_element_type as register_element_type,
    )
    from stepwell.dialects.core.kernel_info import KernelInfo as KernelInfo
    from stepwell.dialects.core.mlir import (
        Attribute as Attribute,
        Dialect as Dialect,
        Operation as Operation,
        affine as affine,
        arith as arith,
        func as func,
        ir as ir,
        linalg as linalg,
        llvm as llvm,
        make_context as make_context,
        math as math,
        memref as memref,
        ops_below as ops_below,
        parse_module as parse_module,
        register_dialect as register_dialect,
        scf as scf,
        tensor as tensor,
        vector as vector,
    )
    from stepwell.dialects.core.module_info import ModuleInfo as ModuleInfo, ValueInfo as ValueInfo
    from stepwell.dialects.core.sizes import Dim as Dim, holds as holds, product as product
    from stepwell.dialects.core.types import (
        BOOL as BOOL,
        FLOATS as FLOATS,
        INTEGERS as INTEGERS,
        NUMERIC as NUMERIC,
        TensorType as TensorType,
        to_numpy as to_numpy,
        type_of as type_of,
    )
    from stepwell.dialects.core.weights import WeightTable as WeightTable
    from stepwell.dialects.graph.base import (
        Elementwise as Elementwise,
        Fusion as Fusion,
        GraphOp as GraphOp,
        IndexOperand as IndexOperand,
        InferredTypes as InferredTypes,
        KeepsChannels as KeepsChannels,
        KeepsFinite as KeepsFinite,
        MovesData as MovesData,
        Operand as Operand,
        OptionalOperand as OptionalOperand,
        Pure as Pure,
        Region as Region,
        Result as Result,
        Trait as Trait,
        VariadicOperand as VariadicOperand,
        VariadicResult as VariadicResult,
        broadcast as broadcast,
    )
    from stepwell.dialects.graph.builder import GraphBuilder as GraphBuilder
    from stepwell.dialects.graph.inference import (
        expect_at_least as expect_at_least,
        expect_axes as expect_axes,
        expect_axis as expect_axis,
        expect_dim as expect_dim,
        expect_dtype as expect_dtype,
        expect_rank as expect_rank,
        expect_same_dtype as expect_same_dtype,
    )
    from stepwell.dialects.graph.numerics import widened as widened
    from stepwell.dialects.graph.products import SumOfProducts as SumOfProducts
    from stepwell.dialects.graph.traits import (
        ChoosesData as ChoosesData,
        ComputesRows as ComputesRows,
        Converts as Converts,
        Convolves as Convolves,
        Exact as Exact,
        JoinsData as JoinsData,
        KeepsAll as KeepsAll,
        KeepsEach as KeepsEach,
        Pools as Pools,
        Speculatable as Speculatable,
        SumsProducts as SumsProducts,
    )
    from stepwell.dialects.interpreter import Interpreter as Interpreter, meaning as meaning, signless as signless
    from stepwell.dialects.sched.schedule_info import LoopInfo as LoopInfo, ScheduleInfo as ScheduleInfo
    from stepwell.dialects.support.errors import (
        CodegenError as CodegenError,
        ElementTypeError as ElementTypeError,
        InferenceError as InferenceError,
        InputError as InputError,
        ModelError as ModelError,
        ModelWarning as ModelWarning,
        PassError as PassError,
        StepwellError as StepwellError,
        UnsupportedError as UnsupportedError,
        warn_caller as warn_caller,
    )
    from stepwell.dialects.target.capabilities import Capabilities as Capabilities
    from stepwell.dialects.target.costs import Costs as Costs
    from stepwell.dialects.target.description import Target as Target, describe as describe
    from stepwell.dialects.target.dot_products import intrinsic as intrinsic
    from stepwell.dialects.target.families import Family as Family, register_family as register_family
    from stepwell.dialects.target.numbers import Caches as Caches, Pipes as Pipes, Vectors as Vectors
    from stepwell.dialects.target.registry import register_target as register_target
    from stepwell.frontends import blocks as blocks
    from stepwell.frontends.base import FrontEnd as FrontEnd, ImportedModel as ImportedModel, ImportOptions as ImportOptions, Summary as Summary
    from stepwell.frontends.builder import ModelBuilder as ModelBuilder, Value as Value
    from stepwell.frontends.contents import content_of as content_of
    from stepwell.frontends.new_model import NewModel as NewModel
    from stepwell.frontends.onnx import ImportBuilder as ImportBuilder, onnx_rule as onnx_rule
    from stepwell.frontends.registry import register_frontend as register_frontend
    from stepwell.passes.affine_to_llvm.vector_math.expansions import expands as expands
    from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats as Floats
    from stepwell.passes.framework.choices import (
        Candidate as Candidate,
        CostModel as CostModel,
        Site as Site,
        register_cost_model as register_cost_model,
    )
    from stepwell.passes.framework.levels import Level as Level, LevelPath as LevelPath, register_level as register_level
    from stepwell.passes.framework.registry import Pass as Pass, PassState as PassState, register_pass as register_pass
    from stepwell.passes.framework.rewriting import (
        NoMatch as NoMatch,
        PatternPass as PatternPass,
        Rewriter as Rewriter,
        find_function as find_function,
        functions as functions,
        pattern as pattern,
    )
    from stepwell.passes.framework.versions import (
        KernelVersionPass as KernelVersionPass,
        VersionPass as VersionPass,
        VersionProposal as VersionProposal,
    )
    from stepwell.passes.graph.matching import has_one_use as has_one_use, new_weight as new_weight, producer as producer, stored as stored
    from stepwell.passes.graph_to_linalg.contraction import contract as contract
    from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder as LinalgBuilder, dims as dims
    from stepwell.passes.graph_to_linalg.lowerings import Operands as Operands, lowering as lowering
    from stepwell.passes.graph_to_linalg.reduction import reduce as reduce
    from stepwell.passes.graph_to_linalg.scalars import Scalars as Scalars
    from stepwell.passes.linalg.structured import Structured as Structured
    from stepwell.passes.linalg_to_affine.context import NestContext as NestContext
    from stepwell.passes.linalg_to_affine.strategies.base import TileStrategy as TileStrategy
    from stepwell.passes.linalg_to_affine.strategies.plain import PlainTiles as PlainTiles
    from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy as register_tile_strategy
    from stepwell.passes.linalg_to_affine.tile import RegisterTile as RegisterTile
    from stepwell.passes.packed.channel_blocks import BlockedValue as BlockedValue, Layout as Layout, layout_rule as layout_rule
    from stepwell.passes.schedule.nest import Nest as Nest
    from stepwell.passes.schedule.schedulers import schedule as schedule
    from stepwell.pipelines.lowered import Lowered as Lowered
    from stepwell.pipelines.phases import Phase as Phase
    from stepwell.pipelines.pipeline import Pipeline as Pipeline
    from stepwell.plugin_files import depends_on as depends_on
    from stepwell.runtime.executable import Executable as Executable
    from stepwell.runtime.index_checks import IndexChecks as IndexChecks
    from stepwell.tuning.spaces import Score as Score, Space as Space, Strategy as Strategy, Trial as Trial, register_strategy as register_strategy
else:
    __getattr__, __dir__, __all__ = names_on_use(__name__)
