"""A function that goes down to llvm by itself, in a compiler process, comes out as it does in the whole module."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from stepwell.backends.llvm_cpu import pool
from stepwell.backends.llvm_cpu.disassemble import disassemble
from stepwell.backends.llvm_cpu.objects import make_engine_context, split_module
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.weights import Deferred, WeightTable
from stepwell.dialects.support.errors import ModelError, PassError
from stepwell.driver import build, lowering
from stepwell.pipelines.pipeline import Pipeline

SHAPE = [1, 6, 12, 12]


def model() -> onnx.ModelProto:
    """Threads, a constant table of a kernel, libm, a copy, an argument without elements."""
    rng = np.random.default_rng(5)
    value = helper.make_tensor_value_info
    arrays = {
        "w": rng.standard_normal((20, 6, 3, 3), np.float32), "table": rng.standard_normal((6, 12, 12), np.float32),
        "none": np.zeros((1, 0, 12, 12), np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Add", ["x", "table"], ["a"], name="add"),
        helper.make_node("Conv", ["a", "w"], ["c"], name="conv"),
        helper.make_node("Erf", ["c"], ["e"], name="erf"),
        helper.make_node("Softmax", ["e"], ["s"], name="softmax", axis=1),
        helper.make_node("Concat", ["a", "none"], ["k"], name="concat", axis=1),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    outputs = [value("s", TensorProto.FLOAT, [1, 20, 10, 10]), value("k", TensorProto.FLOAT, SHAPE)]
    graph = helper.make_graph(nodes, "net", [value("x", TensorProto.FLOAT, SHAPE)], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_objects_are_the_same() -> None:
    alone = build.make_artifact(lowering.lower(model(), "affine"), None, None)
    together = build.make_artifact(lowering.lower(model(), "llvm"), None, None)
    assert list(alone.objects) == list(together.objects)
    assert len(alone.objects) > 3
    assert disassemble(alone.objects, alone.nodes, alone.lines) == disassemble(together.objects, together.nodes, together.lines)


def test_weights_are_transformed_for_the_arena_and_kept_nowhere_else() -> None:
    lowered = lowering.lower(model(), "affine")
    late = [name for name in lowered.weights if isinstance(lowered.weights.entry(name), Deferred)]
    assert late
    assert any(name in lowered.info.arena for name in late)
    build.start_packing(lowered, None).result()
    assert all(isinstance(lowered.weights.entry(name), Deferred) for name in late)


def test_a_weight_that_cannot_be_computed_is_told() -> None:
    lowered = lowering.lower(model(), "affine")
    [name] = [e for e in lowered.info.arena if isinstance(lowered.weights.entry(e), Deferred)]
    bad = WeightTable({other: lowered.weights.entry(other) for other in lowered.weights if other != name})
    bad.add(name, Deferred(np.dtype(np.float32), lowered.weights.entry(name).shape, list))
    lowered.weights = bad
    with pytest.raises(ModelError, match="was computed as something else"):
        build.make_artifact(lowered, None, None)


def test_the_last_step_is_divided_without_loss() -> None:
    stage = Pipeline.default().stage("llvm")
    assert (*stage.whole, *stage.per_function) == stage.steps
    assert [step.name for step in stage.whole] == ["locate-weights", "bare-arguments"]
    assert "convert-func-to-llvm" in [step.name for step in stage.per_function]


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_pass_that_fails_names_kernel_level_and_pass(jobs: int) -> None:
    context = make_engine_context()
    with context:
        module = ir.Module.parse("func.func @odd_kernel(%x: memref<4xf32>) { memref.dealloc %x : memref<4xf32>\nreturn }")
    (unit,) = split_module(module, "cse,func.func(ownership-based-buffer-deallocation)")
    with pytest.raises(PassError, match=r"^SW005 @odd_kernel: level llvm, pass 'ownership-based-buffer-deallocation': .*dealloc"):
        pool.compile_units([unit], jobs=jobs)


def test_ir_of_a_model_that_is_built_from_ir() -> None:
    lowered = lowering.lower(model(), "affine")
    made = build.build(lowered)
    assert "affine.for" in made.ir("affine")
    assert "memref<?xi8>" in made.ir("affine"), "as it was before code was made of it"
    assert "llvm.func @main" in made.ir("llvm")
    assert "define i64 @main" in made.ir("llvm-ir")
    assert "graph.conv" in made.ir("graph")
