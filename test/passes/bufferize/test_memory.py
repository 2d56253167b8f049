"""The memory plan: what lives at the same time lies apart, aligned, in as little memory as it takes; and calls allocate nothing."""

import itertools
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.analysis.memory import MemoryPlan, memory_plan
from stepwell.dialects.core.layout import ALIGNMENT
from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.support.buffers import address
from stepwell.dialects.support.errors import IRError
from stepwell.passes.bufferize.buffers import Buffer
from stepwell.passes.bufferize.packing import Piece

TARGET = "x86-64-v3"


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], output: str, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def inception() -> onnx.ModelProto:
    """Two branches of convolutions that are joined, normalised in place where that can be, and reduced."""
    rng = np.random.default_rng(5)
    weights = {f"w{i}": rng.standard_normal((32, 32, 3, 3)).astype(np.float32) for i in range(3)}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"], name="stem", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"], name="stem_relu"),
        node("Conv", ["b", "w1"], ["c"], name="left", pads=[1, 1, 1, 1]),
        node("Conv", ["b", "w2"], ["d"], name="right", pads=[1, 1, 1, 1]),
        node("Concat", ["c", "d"], ["e"], name="both", axis=1),
        node("Softmax", ["e"], ["f"], name="softmax", axis=1),
        node("Exp", ["f"], ["g"], name="exp"),
        node("GlobalAveragePool", ["g"], ["y"], name="mean"),
    ]
    return model_of(nodes, {"x": [1, 32, 16, 16]}, "y", weights)


def random_network(seed: int) -> onnx.ModelProto:
    """Element-wise ops, concatenations, reshapes and reductions on what came before, whatever its age."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (4, 6, 10)}
    nodes = []
    for i in range(18):
        kind = rng.choice(["Sigmoid", "Add", "Concat", "Reshape", "ReduceMean", "Transpose"])
        first = str(rng.choice(list(shapes)))
        alike = [name for name, shape in shapes.items() if shape == shapes[first]]
        name, second, shape, attributes = f"t{i}", str(rng.choice(alike)), shapes[first], {}
        sources = [first, second] if kind in ("Add", "Concat") else [first]
        if kind == "Concat":
            shape, attributes = (2 * shape[0], *shape[1:]), {"axis": 0}
        elif kind == "Reshape":
            shape = (shape[0] * shape[1], shape[2], 1)
            nodes.append(helper.make_node("Constant", [], [f"s{i}"], value_ints=list(shape)))
            sources.append(f"s{i}")
        elif kind == "ReduceMean":
            shape, attributes = (*shape[:2], 1), {"axes": [2], "keepdims": 1}
        elif kind == "Transpose":
            shape, attributes = (shape[1], shape[2], shape[0]), {"perm": [1, 2, 0]}
        nodes.append(helper.make_node(str(kind), sources, [name], name=f"{kind}_{i}", **attributes))
        if np.prod(shape) < 100_000:
            shapes[name] = shape
    used = {source for node in nodes for source in node.input}
    loose = [name for name in shapes if name not in used and name != "x"]
    flat = [helper.make_node("Flatten", [name], [f"flat_{name}"], axis=0) for name in loose]
    joined = helper.make_node("Concat", [f"flat_{name}" for name in loose], ["y"], axis=1)
    return model_of([*nodes, *flat, joined], {"x": [4, 6, 10]}, "y", {})


def plan_of(model: onnx.ModelProto, target: str = TARGET) -> MemoryPlan:
    return memory_plan(stepwell.lower(model, "affine", target=target).module.operation)


def check(plan: MemoryPlan) -> None:
    """No two buffers that live at the same call share memory, unless one is computed in the place of the other.

    All are aligned but those that lie in a concatenation, or come to lie there: their place is where the parts before them end.
    """
    held = [b for b in plan.buffers if plan.is_in_workspace(b)]
    overwritten = {b.in_place_of for b in held}
    for i, a in enumerate(held):
        assert a.where.end <= plan.workspace_bytes
        assert a.where.offset % ALIGNMENT == 0 or a.joined is not None or a in overwritten
        for b in held[i + 1 :]:
            if a.where.offset < b.where.end and b.where.offset < a.where.end:
                assert a.last < b.first or b.last < a.first or (b.in_place_of is a and a.last == b.first)
    assert plan.lower_bound <= plan.workspace_bytes


@pytest.mark.parametrize("target", [TARGET, "x86-64-v4"])
def test_branches_lie_in_their_concatenation(target: str) -> None:
    plan = plan_of(inception(), target)
    check(plan)
    joined = [b for b in plan.buffers if b.joined is not None]
    assert {name for b in joined for name in b.nodes} >= {"left", "right"}
    assert len({b.joined for b in joined}) == 1
    assert [b.where.argument for b in plan.buffers if b.kernel and not plan.is_in_workspace(b)] == [plan.names.index("y")]
    assert plan.ratio <= 1.15


@pytest.mark.parametrize("seed", range(6))
def test_random_networks(seed: int) -> None:
    model = random_network(seed)
    plan = plan_of(model)
    check(plan)
    x = np.random.default_rng(seed + 100).standard_normal((4, 6, 10)).astype(np.float32)
    compiled = stepwell.compile(model, cache=False)
    workspace_full_of_nan(compiled)
    from onnx.reference import ReferenceEvaluator

    [want] = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(compiled.run({"x": x})["y"], want, rtol=64 * np.finfo(np.float32).eps, atol=1e-5)


def workspace_full_of_nan(model: stepwell.CompiledModel) -> None:
    """Have the next call find NaN wherever it has not written."""
    zeros = [np.zeros(info.shape, info.dtype) for info in model.inputs]
    model(*zeros)
    model.executable.workspaces[0].fill(0xFF)


HAND = """module {{
  func.func private @k(%x: memref<16xf32>, %y: memref<16xf32>) attributes {{stepwell.kernel}} {{ return }}
  func.func @main(%x: memref<16xf32> {{stepwell.name = "x"}}, %y: memref<16xf32> {{stepwell.name = "y"}},
                  %w: memref<?xi8> {{stepwell.bytes = 0 : i64}}, %s: memref<?xi8> {{stepwell.bytes = 128 : i64}}) {{
    %c0 = arith.constant 0 : index
    %c = arith.constant {offset} : index
    %a = memref.view %s[%c0][] : memref<?xi8> to memref<16xf32>
    %b = memref.view %s[%c][] : memref<?xi8> to memref<16xf32>
    call @k(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    call @k(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    call @k(%a, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    return
  }}
}}"""


def by_hand(offset: int) -> MemoryPlan:
    context = make_context()
    with context, ir.Location.unknown(context):
        return memory_plan(parse_module(HAND.format(offset=offset), context).operation)


def test_lifetimes_by_hand() -> None:
    plan = by_hand(64)
    assert [(b.where.offset, b.where.size, b.first, b.last) for b in plan.buffers if plan.is_in_workspace(b)] == [(0, 64, 0, 2), (64, 64, 1, 1)]
    assert plan.live == [64, 128, 64]
    assert plan.lower_bound == plan.workspace_bytes == 128


@pytest.mark.parametrize("offset", [0, 32])
def test_reading_what_was_overwritten_is_refused(offset: int) -> None:
    if offset:
        with pytest.raises(IRError, match="launch 2, of @k, reads 16xf32 at byte 0, but byte 0 is not written by then"):
            by_hand(offset)
    else:  # the second result takes the place of the first: legal for the bytes, and what is read is the second
        assert [(b.first, b.last) for b in by_hand(offset).buffers if b.kernel] == [(0, 0), (1, 2), (2, 2)]


def test_no_allocation_in_steady_state(monkeypatch: pytest.MonkeyPatch) -> None:
    model = stepwell.compile(inception(), cache=False)
    assert "malloc" not in model.ir("llvm")
    assert "memref.alloc" not in model.ir("affine")
    x = np.random.default_rng(1).standard_normal((1, 32, 16, 16)).astype(np.float32)
    inputs, out = {"x": x}, {"y": np.empty((1, 64, 1, 1), np.float32)}
    model.run(inputs, out=out)
    [workspace] = model.executable.workspaces
    assert address(workspace) % ALIGNMENT == 0
    assert workspace.nbytes == model.memory.workspace_bytes
    monkeypatch.setattr("stepwell.runtime.executable.aligned_empty", None)
    tracemalloc.start()
    try:
        for _ in range(1000):
            model.run(inputs, out=out)
        arrays = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    finally:
        tracemalloc.stop()
    assert not arrays.traces
    assert list(model.executable.workspaces) == [workspace]
    results = [model.run(inputs)["y"] for _ in range(3)]  # only these are new
    assert len({address(result) for result in results}) == 3


def test_each_part_of_a_concatenation_is_held_from_when_it_is_written() -> None:
    left, right = (Buffer(64, first=launch, last=5, written=launch) for launch in (1, 3))
    joined = Buffer(128, first=5, last=7, written=5)
    left.put_into(joined, 0)
    right.put_into(joined, 64)
    assert joined.pieces() == (Piece(0, 64, 1), Piece(64, 64, 3))
    in_place = Buffer(128, first=7, last=9, written=7)  # overwrites it
    joined.put_into(in_place, 0)
    assert in_place.pieces() == joined.pieces()
    assert (in_place.first, in_place.last) == (1, 9)
    assert left.pieces() == ()


def branching() -> onnx.ModelProto:
    """A loop that carries a matrix, and a conditional behind it."""
    node, info, kind = helper.make_node, helper.make_tensor_value_info, TensorProto
    body = helper.make_graph(
        [node("MatMul", ["c", "w"], ["m"], name="step"), node("Softmax", ["m"], ["c2"], name="norm"), node("Identity", ["going"], ["on"])],
        "body", [info("i", kind.INT64, []), info("going", kind.BOOL, []), info("c", kind.FLOAT, [4, 16])],
        [info("on", kind.BOOL, []), info("c2", kind.FLOAT, [4, 16])],
    )  # fmt: skip
    branches = [
        helper.make_graph([node(op, ["r"], ["q"]), node("Softmax", ["q"], ["s"])], op, [], [info("s", kind.FLOAT, [4, 16])]) for op in ("Exp", "Neg")
    ]
    nodes = [
        node("Relu", ["x"], ["begin"], name="first"), node("Loop", ["n", "", "begin"], ["r"], name="rounds", body=body),
        node("ReduceMax", ["r"], ["most"], keepdims=0), node("Greater", ["most", "limit"], ["large"]),
        node("If", ["large"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1]),
    ]
    weights = {"w": np.random.default_rng(2).standard_normal((16, 16), np.float32), "limit": np.array(0.1, np.float32)}
    graph = helper.make_graph(
        nodes, "g", [info("x", kind.FLOAT, [4, 16]), info("n", kind.INT64, [])], [info("y", kind.FLOAT, [4, 16])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_the_plan_of_regions() -> None:
    """Each function has its launches, whose workspace is the scratch of the launch that calls it; a loop's carried value has three places."""
    plan = memory_plan(stepwell.lower(branching(), "affine", target=TARGET).module.operation)
    assert [region.function for region in plan.regions] == ["main.body", "main.then", "main.else"]
    for region in plan.regions:
        (call,) = (launch for launch in plan.launches if launch.kernel == region.function)
        assert call.scratch is not None
        assert call.scratch.size == region.workspace_bytes
        assert region.live
        assert region.lower_bound <= region.workspace_bytes
        assert not region.unplaced
    assert not plan.unplaced
    loop = next(number for number, launch in enumerate(plan.launches) if launch.kernel == "main.body")
    matrices = [b for b in plan.buffers if b.where.type == "4x16xf32" and plan.is_in_workspace(b) and b.first <= loop <= b.last]
    assert len(matrices) == 3
    assert [b.carried for b in matrices] == [False, True, True]  # the initial value comes from a kernel before
    scratch = next(b for b in plan.buffers if b.scratch and b.first == loop)
    spans = sorted((b.where.offset, b.where.end) for b in (*matrices, scratch))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))  # all of them live at the same time
    names = [name for region in plan.regions for launch in region.launches for name in launch.nodes]
    assert "rounds/step" in names
    assert [b.kernel for b in plan.buffers if b.where.argument == plan.names.index("y")] == ["main.then", "main.else"]


def test_the_plan_of_what_only_a_run_knows_says_what_is_left_out() -> None:
    node = helper.make_node
    nodes = [node("Relu", ["x"], ["a"]), node("NonZero", ["a"], ["i"]), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)]
    source = model_of(nodes, {"x": [3, 40]}, "y", {})
    plan = memory_plan(stepwell.lower(source, "affine", target=TARGET).module.operation)
    assert plan.unplaced
    assert any(launch.kernel.startswith("non_zero_places") for launch in plan.launches)
    assert not any(launch.kernel.startswith("sizes") for launch in plan.launches)  # which is no kernel
