"""Stepwell: a multi-level deep-learning compiler in Python on MLIR.

`stepwell.compile(model)` returns a CompiledModel; `stepwell.lower(model, level)` stops at a level of IR.
"""

from typing import TYPE_CHECKING

from stepwell.dialects.support.exports import names_on_use

if TYPE_CHECKING:
    from stepwell.analysis.bisect import Culprit as Culprit, bisect as bisect
    from stepwell.analysis.explain import Explanation as Explanation
    from stepwell.analysis.interpretation import compare_levels as compare_levels, compare_with_f64 as compare_with_f64, interpret as interpret
    from stepwell.analysis.kernel_timing import Timing as Timing
    from stepwell.analysis.kernels import Evaluation as Evaluation, Kernel as Kernel, KernelBench as KernelBench
    from stepwell.analysis.memory import MemoryPlan as MemoryPlan, memory_plan as memory_plan
    from stepwell.border.model import BorderModel as BorderModel
    from stepwell.bundling.loading import BundledModel as BundledModel, load as load
    from stepwell.bundling.writing import bundle as bundle
    from stepwell.dialects.support.errors import (
        BusyWarning as BusyWarning,
        CodegenError as CodegenError,
        DeadlineError as DeadlineError,
        IndexRangeError as IndexRangeError,
        InferenceError as InferenceError,
        InputError as InputError,
        IRError as IRError,
        LimitError as LimitError,
        ModelError as ModelError,
        ModelWarning as ModelWarning,
        PassError as PassError,
        PipelineError as PipelineError,
        QueueFullError as QueueFullError,
        RecordWarning as RecordWarning,
        ResourceError as ResourceError,
        ScheduleError as ScheduleError,
        StepwellError as StepwellError,
        UnsupportedError as UnsupportedError,
    )
    from stepwell.dialects.support.limits import Limits as Limits
    from stepwell.dialects.target.description import Target as Target
    from stepwell.driver.bound import BoundModel as BoundModel
    from stepwell.driver.build import build as build, compile_ir as compile_ir
    from stepwell.driver.compilation import compile as compile
    from stepwell.driver.dynamic import DynamicModel as DynamicModel
    from stepwell.driver.lowering import descend as descend, lower as lower, read_ir as read_ir
    from stepwell.options import CompileOptions as CompileOptions
    from stepwell.pipelines.lowered import Lowered as Lowered
    from stepwell.pipelines.pipeline import Pipeline as Pipeline
    from stepwell.runtime.model import CompiledModel as CompiledModel
    from stepwell.runtime.serving.streams import Streams as Streams
    from stepwell.signature import TensorInfo as TensorInfo
    from stepwell.tuning.tune import tune as tune
    from stepwell.tuning.tuner import Tuned as Tuned
else:
    # The compiler's workers and the opt tool import parts of this package: what they do not use (onnx above all) is not loaded.
    __getattr__, __dir__, __all__ = names_on_use(__name__)
