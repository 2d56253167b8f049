"""Stepwell: a multi-level deep-learning compiler in Python on MLIR.

`stepwell.compile(model)` gives a CompiledModel; `stepwell.lower(model, level)` stops at a level of IR.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepwell.dialects.support.errors import (
    BusyWarning,
    CodegenError,
    IndexRangeError,
    InferenceError,
    InputError,
    IRError,
    LimitError,
    ModelError,
    ModelWarning,
    PassError,
    PipelineError,
    ResourceError,
    ScheduleError,
    StepwellError,
    UnsupportedError,
)
from stepwell.dialects.support.processes import uninterrupted

if TYPE_CHECKING:
    from stepwell.analysis.bisect import Culprit, bisect
    from stepwell.analysis.explain import Explanation
    from stepwell.analysis.interpretation import compare_levels, compare_with_f64, interpret
    from stepwell.analysis.kernel_timing import Timing
    from stepwell.analysis.kernels import Evaluation, Kernel, KernelBench
    from stepwell.analysis.memory import MemoryPlan, memory_plan
    from stepwell.border.model import BorderModel
    from stepwell.dialects.support.limits import Limits
    from stepwell.dialects.target.description import Target
    from stepwell.driver.bound import BoundModel
    from stepwell.driver.build import build, compile_ir
    from stepwell.driver.compilation import compile
    from stepwell.driver.dynamic import DynamicModel
    from stepwell.driver.lowering import descend, lower, read_ir
    from stepwell.options import CompileOptions
    from stepwell.pipelines.lowered import Lowered
    from stepwell.pipelines.pipeline import Pipeline
    from stepwell.runtime.model import CompiledModel

__all__ = [
    "BorderModel", "BoundModel", "BusyWarning", "CodegenError", "CompileOptions", "CompiledModel", "Culprit", "DynamicModel", "Evaluation",
    "Explanation", "IRError", "IndexRangeError", "InferenceError", "InputError", "Kernel", "KernelBench", "LimitError", "Limits", "Lowered",
    "MemoryPlan", "ModelError", "ModelWarning", "PassError", "Pipeline", "PipelineError", "ResourceError", "ScheduleError", "StepwellError",
    "Target", "Timing", "UnsupportedError", "bisect", "build", "compare_levels", "compare_with_f64", "compile", "compile_ir", "descend", "interpret",
    "lower", "memory_plan", "read_ir",
]  # fmt: skip

_LAZY = {
    "BorderModel": "stepwell.border.model", "BoundModel": "stepwell.driver.bound",
    "CompileOptions": "stepwell.options", "CompiledModel": "stepwell.runtime.model", "DynamicModel": "stepwell.driver.dynamic",
    "Limits": "stepwell.dialects.support.limits", "Lowered": "stepwell.pipelines.lowered", "Pipeline": "stepwell.pipelines.pipeline",
    "Target": "stepwell.dialects.target.description", "compile": "stepwell.driver.compilation",
    "Explanation": "stepwell.analysis.explain",
    **dict.fromkeys(("Culprit", "bisect"), "stepwell.analysis.bisect"),
    **dict.fromkeys(("MemoryPlan", "memory_plan"), "stepwell.analysis.memory"),
    **dict.fromkeys(("compare_levels", "compare_with_f64", "interpret"), "stepwell.analysis.interpretation"),
    "Timing": "stepwell.analysis.kernel_timing",
    **dict.fromkeys(("Evaluation", "Kernel", "KernelBench"), "stepwell.analysis.kernels"),
    **dict.fromkeys(("descend", "lower", "read_ir"), "stepwell.driver.lowering"),
    **dict.fromkeys(("build", "compile_ir"), "stepwell.driver.build"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # The compiler's workers and the opt tool import parts of this package: what they do not use (onnx above all) is not loaded.
    if name not in _LAZY:
        raise AttributeError(f"module 'stepwell' has no attribute '{name}'")
    with uninterrupted():
        module = import_module(_LAZY[name])
    return getattr(module, name)
