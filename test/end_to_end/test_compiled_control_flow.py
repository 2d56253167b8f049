"""Conditionals and loops that only a run decides, in compiled code: their results are ONNX Runtime's; they can be interrupted."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from covering import by_day
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from together import together

import stepwell

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Value = tuple[str, int, list[Any] | None]
W = np.random.default_rng(0).standard_normal((6, 6), np.float32) / 3
B = np.random.default_rng(1).standard_normal(6, np.float32)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def graph(nodes: list[NodeProto], inputs: list[Value], outputs: list[Value], **weights: np.ndarray) -> GraphProto:
    sides = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    return helper.make_graph(nodes, "graph", *sides, [numpy_helper.from_array(array, name) for name, array in weights.items()])


def model(nodes: list[NodeProto], inputs: list[Value], outputs: list[Value], **weights: np.ndarray) -> ModelProto:
    return helper.make_model(graph(nodes, inputs, outputs, **weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def branch(nodes: list[NodeProto], result: str, shape: list[Any] | None, **weights: np.ndarray) -> GraphProto:
    return graph(nodes, [], [(result, FLOAT, shape)], **weights)


def chosen(rows: Any) -> ModelProto:
    """A conditional whose branches use weights of their own, a value around them, and one that is computed."""
    then = branch([node("MatMul", ["t", "w"], ["a"]), node("Add", ["a", "x"], ["r"])], "r", [rows, 6], w=W)
    other = branch([node("Mul", ["x", "b"], ["m"]), node("Softmax", ["m"], ["q"])], "q", [rows, 6], b=B)
    nodes = [
        node("Tanh", ["x"], ["t"]), node("ReduceSum", ["t"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other), node("Mul", ["y", "t"], ["z"]),
    ]  # fmt: skip
    return model(nodes, [("x", FLOAT, [rows, 6])], [("y", FLOAT, None), ("z", FLOAT, None)], zero=np.array(0, np.float32))


def nested(rows: Any) -> ModelProto:
    """A loop in a branch, with a branch in its body."""
    small = branch([node("Neg", ["n1"], ["p"])], "p", [rows, 6])
    large = branch([node("Add", ["n1", "x"], ["q"])], "q", [rows, 6])
    body = graph(
        [
            node("MatMul", ["v", "w"], ["n1"]), node("ReduceMax", ["n1"], ["top"], keepdims=0), node("Less", ["top", "one"], ["less"]),
            node("If", ["less"], ["v2"], then_branch=small, else_branch=large), node("Identity", ["go"], ["go2"]),
        ],
        [("i", INT, []), ("go", BOOL, []), ("v", FLOAT, [rows, 6])], [("go2", BOOL, []), ("v2", FLOAT, [rows, 6])],
        w=W, one=np.array(1, np.float32),
    )  # fmt: skip
    then = branch([node("Loop", ["n", "", "x"], ["l"], body=body)], "l", [rows, 6])
    other = branch([node("Relu", ["x"], ["o"])], "o", [rows, 6])
    nodes = [
        node("Greater", ["n", "two"], ["c"]), node("If", ["c"], ["r"], then_branch=then, else_branch=other), node("Exp", ["x"], ["e"]),
        node("Mul", ["r", "e"], ["y"]),
    ]  # fmt: skip
    return model(nodes, [("x", FLOAT, [rows, 6]), ("n", INT, [])], [("y", FLOAT, None)], two=np.array(2))


def collected(rows: Any) -> ModelProto:
    """A loop of two carried values, one of which changes places with what is collected, and which its condition may end."""
    body = graph(
        [
            node("MatMul", ["a", "w"], ["m"]), node("Add", ["m", "b"], ["a2"]), node("Mul", ["b", "half"], ["b2"]),
            node("ReduceSum", ["b2"], ["s"], keepdims=0), node("Greater", ["s", "least"], ["go2"]), node("Cast", ["i"], ["f"], to=FLOAT),
            node("Add", ["a", "f"], ["part"]), node("ReduceMax", ["a2"], ["number"], keepdims=0),
        ],
        [("i", INT, []), ("go", BOOL, []), ("a", FLOAT, [rows, 6]), ("b", FLOAT, [rows, 6])],
        [("go2", BOOL, []), ("a2", FLOAT, [rows, 6]), ("b2", FLOAT, [rows, 6]), ("part", FLOAT, [rows, 6]), ("number", FLOAT, [])],
        w=W, half=np.array(0.5, np.float32),
    )  # fmt: skip
    nodes = [node("Abs", ["x"], ["p"]), node("Loop", ["n", "", "x", "p"], ["y", "z", "all", "numbers"], body=body), node("Neg", ["all"], ["minus"])]
    outputs: list[Value] = [("y", FLOAT, None), ("z", FLOAT, None), ("minus", FLOAT, None), ("numbers", FLOAT, None)]
    return model(nodes, [("x", FLOAT, [rows, 6]), ("n", INT, []), ("least", FLOAT, [])], outputs)


def scanned(rows: Any, backwards: int) -> ModelProto:
    """A Scan over a sequence of unknown length along the second axis."""
    body = graph(
        [node("MatMul", ["s", "w"], ["m"]), node("Add", ["m", "e"], ["a"]), node("Tanh", ["a"], ["s2"]), node("Mul", ["s2", "e"], ["o"])],
        [("s", FLOAT, [rows, 6]), ("e", FLOAT, [rows, 6])], [("s2", FLOAT, [rows, 6]), ("o", FLOAT, [rows, 6])], w=W,
    )  # fmt: skip
    made = node(
        "Scan", ["start", "x"], ["y", "all"], body=body, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[backwards],
        scan_output_axes=[1], scan_output_directions=[backwards],
    )  # fmt: skip
    return model([made], [("start", FLOAT, [rows, 6]), ("x", FLOAT, [rows, "length", 6])], [("y", FLOAT, None), ("all", FLOAT, None)])


def inputs_of(source: ModelProto, rng: np.random.Generator, **sizes: float) -> dict[str, np.ndarray]:
    found = {}
    for value in source.graph.input:
        shape = [dim.dim_value or int(sizes.get(dim.dim_param, 3)) for dim in value.type.tensor_type.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        found[value.name] = np.array(sizes.get(value.name, 3), kind) if not shape else rng.standard_normal(shape).astype(kind)
    return found


def check(source: ModelProto, compiled: Any, given: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, want in zip(compiled.run(given).values(), session.run(None, given), strict=True):
        if not got.size and not want.size:
            continue  # of rounds that never came, ONNX Runtime does not know the sizes
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2**-14, atol=2**-16 * np.abs(want).max(initial=1))


MODELS = {
    "chosen": chosen, "nested": nested, "collected": collected, "scanned": lambda rows: scanned(rows, 0), "backwards": lambda rows: scanned(rows, 1),
}  # fmt: skip


ON_THREADS = [(name, threads) for threads in (1, 2) for name in MODELS]


@pytest.mark.parametrize(("name", "threads"), by_day(ON_THREADS, [*ON_THREADS[:5], ("nested", 2), ("scanned", 2)]))
def test_results_of_fixed_sizes(name: str, threads: int) -> None:
    source, rng = MODELS[name](3), np.random.default_rng(2)
    compiled = stepwell.compile(source, threads=threads)
    for n, least, length in ((3, -9, 4), (0, -9, 1), (1, -9, 7), (9, 1.0, 2), (25, -9, 9), (5, 0.1, 4)):
        check(source, compiled, inputs_of(source, rng, n=n, length=length, least=least))


@pytest.mark.parametrize("name", MODELS)
def test_results_of_all_sizes(name: str) -> None:
    source, rng = MODELS[name]("rows"), np.random.default_rng(3)
    compiled = stepwell.compile(source, specialise="never")
    for rows, n, length in ((3, 4, 5), (1, 2, 1), (17, 6, 3), (2, 9, 8), (3, 0, 5)):
        check(source, compiled, inputs_of(source, rng, rows=rows, n=n, length=length, least=0.5))


def test_levels_mean_the_same() -> None:
    for name in ("chosen", "nested", "collected"):
        source = MODELS[name](3)
        lowered = stepwell.lower(source, "graph")
        given = inputs_of(source, np.random.default_rng(4), n=4, least=-9)
        steps = stepwell.compare_levels(lowered, given)
        assert [step.below for step in steps] == ["graph-opt", "linalg", "scheduled"]
        assert all(step.ok for step in steps)


def test_runs_on_several_threads() -> None:
    source = collected(3)
    compiled = stepwell.compile(source)

    def go(seed: int) -> None:
        given = inputs_of(source, np.random.default_rng(seed), n=seed + 2, least=-9)
        for _ in range(20):
            check(source, compiled, given)

    together(*(partial(go, seed) for seed in range(4)))


def looked_up() -> ModelProto:
    """Indices that are computed, in both branches of a conditional, one of them in a loop."""
    body = graph(
        [node("Add", ["i", "k"], ["at"]), node("Gather", ["x", "at"], ["row"], axis=0), node("Add", ["v", "row"], ["v2"]),
         node("Identity", ["go"], ["go2"])],
        [("i", INT, []), ("go", BOOL, []), ("v", FLOAT, [6])], [("go2", BOOL, []), ("v2", FLOAT, [6])],
    )  # fmt: skip
    then = branch([node("Loop", ["n", "", "zeros"], ["l"], body=body)], "l", [6], zeros=np.zeros(6, np.float32))
    other = branch([node("Gather", ["x", "k"], ["o"], axis=0)], "o", [6])
    nodes = [node("Greater", ["n", "two"], ["c"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    return model(nodes, [("x", FLOAT, [7, 6]), ("n", INT, []), ("k", INT, [])], [("y", FLOAT, [6])], two=np.array(2))


def test_indices_in_regions_are_checked() -> None:
    source, rng = looked_up(), np.random.default_rng(5)
    compiled = stepwell.compile(source)
    for n, k in ((4, 3), (2, 6), (0, -7), (7, 0)):
        check(source, compiled, inputs_of(source, rng, n=n, k=k))
    for n, k, index in ((4, 5, 8), (2, 7, 7), (1, -8, -8)):
        with pytest.raises(stepwell.IndexRangeError, match=f"index {index} is out of range for dimension 0 of size 7"):
            compiled.run(inputs_of(source, rng, n=n, k=k))


def chosen_rows(op: str) -> ModelProto:
    """In each round some rows, as many as the round's mask says, of which an index of the round chooses one."""
    pick = {
        "Gather": [node("Gather", ["rows", "k"], ["p"], axis=0, name="pick")],
        "GatherND": [
            node("Reshape", ["k", "shape"], ["k1"]), node("Concat", ["k1", "last"], ["place"], axis=0),
            node("GatherND", ["rows", "place"], ["p"], name="pick"),
        ],
    }  # fmt: skip
    body = graph(
        [
            node("Gather", ["mask", "i"], ["m"], axis=0), node("Compress", ["x", "m"], ["rows"], axis=0), node("Gather", ["idx", "i"], ["k"], axis=0),
            *pick[op], node("Add", ["c", "p"], ["c2"]), node("Identity", ["go"], ["go2"]),
        ],
        [("i", INT, []), ("go", BOOL, []), ("c", FLOAT, [4])], [("go2", BOOL, []), ("c2", FLOAT, [4])],
    )  # fmt: skip
    inputs: list[Value] = [("x", FLOAT, [6, 4]), ("mask", BOOL, [3, 6]), ("idx", INT, [3]), ("n", INT, []), ("c0", FLOAT, [4])]
    return model(
        [node("Loop", ["n", "", "c0"], ["y"], body=body)], inputs, [("y", FLOAT, [4])], shape=np.array([1]), last=np.array([3]),
    )


@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_indices_along_what_each_round_has_more_or_less_of(op: str) -> None:
    """An index is compared with the size of its own round, whichever comes last, and not at all where there are no rounds."""
    source = chosen_rows(op)
    compiled, rng = stepwell.compile(source), np.random.default_rng(3)
    masks = np.array([[1, 1, 1, 0, 1, 1], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]], bool)  # 5, 2 and 1 rows
    fixed = {"x": rng.standard_normal((6, 4), np.float32), "c0": rng.standard_normal(4, np.float32)}
    for order, idx, rounds in (((0, 1, 2), (4, -2, 0), 3), ((2, 1, 0), (-1, 1, -5), 3), ((1, 2, 0), (1, 0, 9), 2), ((0, 1, 2), (9, 9, 9), 0)):
        given = {**fixed, "mask": masks[list(order)], "idx": np.array(idx), "n": np.array(rounds)}
        check(source, compiled, given)
    for order, idx, wrong in (((0, 1, 2), (5, 1, 0), 5), ((1, 0, 2), (2, 4, 0), 2), ((0, 1, 2), (4, 1, -2), -2), ((1, 2, 0), (0, 1, 4), 1)):
        given = {**fixed, "mask": masks[list(order)], "idx": np.array(idx), "n": np.array(3)}
        with pytest.raises(stepwell.IndexRangeError, match=f"pick: index {wrong} is out of range for dimension 0, whose size, .* round"):
            compiled.run(given)


def test_indices_of_a_round_that_do_not_count_from_the_end() -> None:
    """Places in twice as many numbers as a round has rows: the last is 2 n - 1, and none is below 0."""
    body = graph(
        [
            node("Gather", ["mask", "i"], ["m"], axis=0), node("Compress", ["ones", "m"], ["row"], axis=2), node("Shape", ["row"], ["s"]),
            node("Gather", ["idx", "i"], ["k"], axis=0), node("Expand", ["k", "s"], ["places"]),
            node("MaxUnpool", ["row", "places"], ["wide"], name="pick", kernel_shape=[2], strides=[2]),
            node("ReduceSum", ["wide"], ["p"], keepdims=0), node("Add", ["c", "p"], ["c2"]), node("Identity", ["go"], ["go2"]),
        ],
        [("i", INT, []), ("go", BOOL, []), ("c", FLOAT, [])], [("go2", BOOL, []), ("c2", FLOAT, [])],
    )  # fmt: skip
    inputs: list[Value] = [("mask", BOOL, [2, 6]), ("idx", INT, [2]), ("n", INT, []), ("c0", FLOAT, [])]
    ones = np.ones((1, 1, 6), np.float32)
    source = model([node("Loop", ["n", "", "c0"], ["y"], body=body)], inputs, [("y", FLOAT, [])], ones=ones)
    given = {"mask": np.array([[1, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0]], bool), "n": np.array(2), "c0": np.array(0.5, np.float32)}
    compiled = stepwell.compile(source)
    for idx in ((5, 1), (0, 0)):
        assert compiled.run({**given, "idx": np.array(idx)})["y"] == 2.5
    for idx, wrong in (((6, 0), 6), ((0, 2), 2), ((-1, 0), -1), ((0, -2), -2)):
        with pytest.raises(stepwell.IndexRangeError, match=f"pick: index {wrong} is out of range for dimension 0, whose size, .* round"):
            compiled.run({**given, "idx": np.array(idx)})


def test_bags_of_embeddings() -> None:
    """As torch writes EmbeddingBag: the bounds of a slice are slices by the round, of which only the run tells that they have an element."""
    nodes = [
        node("Add", ["i", "one"], ["next"]), node("Unsqueeze", ["i", "axis"], ["first"]), node("Unsqueeze", ["next", "axis"], ["last"]),
        node("Slice", ["starts", "first", "last", "axis"], ["start"]), node("Slice", ["ends", "first", "last", "axis"], ["end"]),
        node("Slice", ["words", "start", "end", "axis"], ["bag"]), node("Gather", ["table", "bag"], ["rows"], axis=0),
        node("ReduceMean", ["rows"], ["mean"], axes=[0], keepdims=0), node("Identity", ["go"], ["going"]),
    ]  # fmt: skip
    body = graph(nodes, [("i", INT, []), ("go", BOOL, [])], [("going", BOOL, []), ("mean", FLOAT, None)], one=np.array(1), axis=np.array([0]))
    outer = [
        node("Shape", ["starts"], ["shape"]), node("Squeeze", ["shape"], ["count"]), node("Shape", ["words"], ["length"]),
        node("Slice", ["starts", "from", "far", "zero"], ["rest"]), node("Concat", ["rest", "length"], ["ends"], axis=0),
        node("Loop", ["count", ""], ["y"], body=body),
    ]  # fmt: skip
    weights = {name: np.array([number]) for name, number in (("from", 1), ("far", 2**31), ("zero", 0))}
    weights["table"] = np.random.default_rng(4).standard_normal((20, 6), np.float32)
    source = model(outer, [("words", INT, ["k"]), ("starts", INT, ["bags"])], [("y", FLOAT, None)], **weights)
    words = np.random.default_rng(5).integers(0, 20, 9)
    for specialise in ("never", "auto"):
        compiled = stepwell.compile(source, cache=False, specialise=specialise)
        for starts in ([0, 4], [0, 4, 5], [0]):
            check(source, compiled, {"words": words, "starts": np.array(starts)})


@pytest.mark.parametrize("is_endless", [False, True])
def test_a_first_round_that_changes_the_rank(is_endless: bool) -> None:
    """What is carried is of another rank before the first round, as where a variable is declared by what it does not hold yet."""
    nodes = [
        node("ReduceMax", ["v"], ["most"], keepdims=0), node("Mul", ["x", "most"], ["product"]), node("Unsqueeze", ["product", "axis"], ["w"]),
        node("ReduceSum", ["w"], ["part"], keepdims=0), node("Add", ["i", "one"], ["next"]), node("Less", ["next", "rounds"], ["going"]),
    ]  # fmt: skip
    state: list[Value] = [("i", INT, []), ("go", BOOL, []), ("v", FLOAT, None)]
    body = graph(nodes, state, [("going", BOOL, []), ("w", FLOAT, None), ("part", FLOAT, None)], axis=np.array([0]), one=np.array(1))
    outer = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Cast", ["sum"], ["whole"], to=INT), node("Mul", ["whole", "none"], ["nothing"]),
        node("Add", ["nothing", "n"], ["rounds"]), node("Greater", ["rounds", "none"], ["any"]),
        node("Loop", ["" if is_endless else "rounds", "any", "start"], ["y", "parts"], body=body),
    ]  # fmt: skip
    start = np.random.default_rng(2).uniform(1, 2, (2, 5)).astype(np.float32)
    inputs: list[Value] = [("x", FLOAT, ["rows", 3]), ("n", INT, [])]
    source = model(outer, inputs, [("y", FLOAT, None), ("parts", FLOAT, None)], start=start, none=np.array(0))
    compiled = stepwell.compile(source, cache=False, specialise="never")
    x = np.random.default_rng(3).uniform(0.5, 1.5, (4, 3)).astype(np.float32)
    for rounds in (1, 2, 4):
        check(source, compiled, {"x": x, "n": np.array(rounds)})
    with pytest.raises(stepwell.IndexRangeError, match="no round of the loop takes place"):
        compiled.run({"x": x, "n": np.array(0)})


def endless() -> ModelProto:
    body = graph(
        [node("Mul", ["v", "v"], ["v2"]), node("Identity", ["go"], ["go2"])],
        [("i", INT, []), ("go", BOOL, []), ("v", FLOAT, [8])], [("go2", BOOL, []), ("v2", FLOAT, [8])],
    )  # fmt: skip
    return model([node("Loop", ["", "c", "x"], ["y"], body=body, name="endless")], [("x", FLOAT, [8]), ("c", BOOL, [])], [("y", FLOAT, None)])


INTERRUPTED = """
import signal, sys
import numpy as np, onnx, stepwell

signal.signal(signal.SIGINT, signal.default_int_handler)
compiled, x = stepwell.compile(sys.argv[1]), np.ones(8, np.float32)
print("begins", flush=True)
try:
    compiled.run({"x": x, "c": np.array(True)})
except KeyboardInterrupt:
    print("interrupted", (compiled.run({"x": x, "c": np.array(False)})["y"] == x).all())
"""


def test_an_endless_loop_can_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "endless.onnx").write_bytes(endless().SerializeToString())
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "endless.onnx")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert out == "interrupted True\n", errors


def test_a_loop_of_too_many_rounds_ends() -> None:
    compiled = stepwell.compile(endless(), limits=stepwell.Limits(loop_rounds=1000))
    with pytest.raises(stepwell.LimitError, match="a loop goes on after 1000 rounds"):
        compiled.run({"x": np.ones(8, np.float32), "c": np.array(True)})
