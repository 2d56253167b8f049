"""One program for all sizes of the inputs: its results are those of ONNX's evaluator for each, whatever came before."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import guarded
import numpy as np
import pytest
from covering import by_day
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from together import together

import stepwell
from stepwell.driver.dynamic import DynamicModel

FLOAT = TensorProto.FLOAT
SIZES = (5, 1, 16, 3, 33, 0, 7, 2, 64, 5)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def model(nodes: list[NodeProto], inputs: dict[str, list[Any]], outputs: Sequence[str] = (), **weights: np.ndarray) -> ModelProto:
    """The outputs are those of the last node unless given."""
    graph = helper.make_graph(
        nodes, "all_sizes", [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs or nodes[-1].output],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


def given(source: ModelProto, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs with these numbers for the symbols."""
    return {
        value.name: floats(*(dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim), seed=seed + i)
        for i, value in enumerate(source.graph.input)
    }


def general(source: ModelProto, **options: Any) -> DynamicModel:
    compiled = stepwell.compile(source, specialise="never", **options)
    assert isinstance(compiled, DynamicModel)
    return compiled


def close(got: Sequence[np.ndarray], want: Sequence[np.ndarray], terms: int = 256) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=terms * 2**-23, atol=terms * 2**-23 * np.abs(other).max(initial=1))


CASES: dict[str, ModelProto] = {
    "elementwise": model([node("Add", ["x", "z"], ["a"]), node("Tanh", ["a"], ["y"])], {"x": ["n", 7], "z": [7]}),
    "of_one_size": model([node("Mul", ["x", "z"], ["a"]), node("Sub", ["a", "x"], ["y"])], {"x": ["n"], "z": ["n"]}),
    "rows": model(
        [node("MatMul", ["x", "u"], ["a"]), node("Add", ["a", "v"], ["b"]), node("Relu", ["b"], ["c"]), node("MatMul", ["c", "w"], ["y"])],
        {"x": ["n", 20]}, u=floats(20, 35), v=floats(35), w=floats(35, 9),
    ),
    "panels": model(
        [node("MatMul", ["x", "u"], ["a"]), node("Add", ["a", "v"], ["b"]), node("Relu", ["b"], ["c"]), node("Add", ["c", "x"], ["y"])],
        {"x": ["n", 5, 96]}, u=floats(96, 96), v=floats(96),
    ),
    "columns": model([node("MatMul", ["w", "x"], ["y"])], {"x": [12, "n"]}, w=floats(5, 12)),
    "summed": model([node("MatMul", ["x", "z"], ["y"])], {"x": [6, "n"], "z": ["n", 10]}),
    "three_sizes": model([node("MatMul", ["x", "z"], ["y"])], {"x": ["n", "m", 8], "z": [8, "m"]}),
    "softmax": model([node("Softmax", ["x"], ["y"], axis=-1)], {"x": [3, "n"]}),
    "softmax_across": model([node("Softmax", ["x"], ["y"], axis=0)], {"x": ["n", 6]}),
    "softmax_of_rows": model([node("Softmax", ["x"], ["y"], axis=-1)], {"x": ["n", 257]}),
    "softmax_of_short_rows": model([node("Softmax", ["x"], ["y"], axis=-1)], {"x": ["n", "m", 40]}),
    "softmax_of_any": model([node("Softmax", ["x"], ["y"], axis=-1)], {"x": ["n", "m", "k"]}),
    "attention": model(
        [
            node("MatMul", ["q", "k"], ["s"]), node("Mul", ["s", "scale"], ["t"]), node("Add", ["t", "mask"], ["u"]),
            node("Softmax", ["u"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"]),
        ],
        {"q": ["n", 3, "m", 16], "k": ["n", 3, 16, "k"], "v": ["n", 3, "k", 24], "mask": ["n", 1, 1, "k"]}, scale=np.array(0.25, np.float32),
    ),
    "attention_of_heads": model(
        [
            node("MatMul", ["x", "u"], ["a"]), node("Reshape", ["a", "shape"], ["r"]), node("Transpose", ["r"], ["q"], perm=[0, 2, 1, 3]),
            node("Transpose", ["r"], ["k"], perm=[0, 2, 3, 1]), node("MatMul", ["q", "k"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
            node("MatMul", ["p", "q"], ["c"]), node("Transpose", ["c"], ["d"], perm=[0, 2, 1, 3]), node("Reshape", ["d", "flat"], ["e"]),
            node("Add", ["e", "x"], ["f"]), node("LayerNormalization", ["f", "w", "b"], ["y"]),
        ],
        {"x": ["n", "m", 64]}, u=floats(64, 64) / 8, shape=np.array([0, 0, 4, 16]), flat=np.array([0, 0, 64]), w=floats(64), b=floats(64, seed=1),
    ),
    "decoder": model(
        [node("Transpose", ["z"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["s"]), node("Softmax", ["s"], ["y"], axis=-1)],
        {"x": ["n", 1, 32], "z": ["n", "m", 32]},
    ),
    "sum": model([node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": ["n", 3, "m"]}),
    "mean_of_each": model([node("ReduceMean", ["x", "axes"], ["y"], keepdims=1)], {"x": [4, "n"]}, axes=np.array([1])),
    "turned": model([node("Transpose", ["x"], ["y"], perm=[1, 0, 2])], {"x": ["n", "m", 5]}),
    "joined": model([node("Tanh", ["x"], ["t"]), node("Concat", ["t", "z", "x"], ["y"], axis=1)], {"x": [2, "n", 3], "z": [2, "m", 3]}),
    "parts": model([node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3), node("Sum", ["a", "c", "b"], ["y"])], {"x": ["n", 9]}),
    "heads": model(
        [node("Reshape", ["x", "shape"], ["r"]), node("Transpose", ["r"], ["t"], perm=[0, 2, 1, 3]), node("Mul", ["t", "t"], ["y"])],
        {"x": ["n", "m", 12]}, shape=np.array([0, 0, 3, 4]),
    ),
    "norm": model([node("LayerNormalization", ["x", "s", "b"], ["y"])], {"x": ["n", "m", 24]}, s=floats(24), b=floats(24, seed=1)),
    "image": model(
        [
            node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 1, 0, 1]), node("Conv", ["p", "v"], ["y"]),
        ],
        {"x": ["n", 3, "h", "w"]}, w=floats(8, 3, 3, 3), v=floats(4, 8, 1, 1),
    ),
    "then_known": model(
        [node("ReduceSum", ["x", "first"], ["s"]), node("MatMul", ["s", "w"], ["m"]), node("Tanh", ["m"], ["t"]), node("MatMul", ["t", "v"], ["y"])],
        {"x": ["n", 6]},
        first=np.array([0]),
        w=floats(6, 40),
        v=floats(40, 7),
    ),
    "average": model([node("AveragePool", ["x"], ["a"], kernel_shape=[3, 3]), node("GlobalAveragePool", ["a"], ["y"])], {"x": ["n", 2, "h", "w"]}),
}  # fmt: skip


def symbols(source: ModelProto) -> list[str]:
    dims = [dim for value in source.graph.input for dim in value.type.tensor_type.shape.dim]
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


LARGE = ["elementwise", "panels", "softmax_of_rows", "softmax_of_any", "attention", "attention_of_heads", "norm", "turned"]
ON_THREADS = [(name, threads) for threads in (1, 2) for name in CASES]


@pytest.mark.parametrize(("name", "threads"), by_day(ON_THREADS, lambda case: case[1] == 1 or case[0] in ("rows", "sum", "image")))
def test_results_for_many_sizes_in_turn(name: str, threads: int) -> None:
    source = CASES[name]
    compiled, right = general(source, threads=threads), ReferenceEvaluator(source)
    random = np.random.default_rng(1)
    for i, size in enumerate(SIZES):
        sizes = {symbol: size if k == 0 else int(random.integers(1, 20)) for k, symbol in enumerate(symbols(source))}
        if name == "average" and not size:
            continue  # the evaluator divides by it
        for side in ("h", "w"):
            if side in sizes:
                sizes[side] += 5
        x = given(source, sizes, i)
        want = right.run(None, x)
        close(list(compiled.run(x).values()), want)
        if threads == 1:  # the same, on memory that is watched
            close(list(guarded.run(compiled.specialise({key: array.shape for key, array in x.items()}), x, i % 3).values()), want)


@pytest.mark.parametrize("name", LARGE)
def test_sizes_large_enough_for_threads_and_small_ones_in_turn(name: str) -> None:
    source = CASES[name]
    compiled, right = general(source, threads=2), ReferenceEvaluator(source)
    random = np.random.default_rng(3)
    for i in range(8):
        most = 4 if i % 2 else 120 if len(symbols(source)) > 1 else 3000
        x = given(source, {symbol: int(random.integers(most // 2, most)) for symbol in symbols(source)}, i)
        close(list(compiled.run(x).values()), right.run(None, x), 1024)


VECTORS = ["panels", "softmax_of_any", "attention", "attention_of_heads", "norm"]
WITH_VECTORS = [(name, target) for target in guarded.EVERYWHERE for name in VECTORS]
NARROW = ("x86-64-v2", "x86-64-v3", "aarch64-neon")  # with other vectors than most machines that tests run on
DEAR = [("attention_of_heads", "x86-64-v2"), ("attention", "x86-64-v3"), ("attention_of_heads", "aarch64-neon")]


@pytest.mark.usefixtures("_runs_here")
@pytest.mark.parametrize(("name", "target"), by_day(WITH_VECTORS, lambda case: case[0] == "norm" or (case[1] in NARROW and case not in DEAR)))
def test_every_kind_of_vectors(name: str, target: str) -> None:
    source = CASES[name]
    compiled, right = general(source, threads=1, target=target), ReferenceEvaluator(source)
    random = np.random.default_rng(2)
    for i in range(8):
        x = given(source, {symbol: int(random.integers(1, 40)) for symbol in symbols(source)}, i)
        close(list(guarded.run(compiled.specialise({key: array.shape for key, array in x.items()}), x, i % 3).values()), right.run(None, x), 1024)


def test_every_rest_of_a_tile() -> None:
    """Rows of a product lie in registers several at a time: 1 to 30 are all that can be left over."""
    source = model([node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "v"], ["y"])], {"x": ["n", 24]}, w=floats(24, 64), v=floats(64, seed=2))
    compiled, right = general(source, threads=1), ReferenceEvaluator(source)
    for n in [*range(30, 0, -1), 59, 61]:
        x = given(source, {"n": n}, n)
        want = right.run(None, x)
        close(list(guarded.run(compiled.specialise({"x": x["x"].shape}), x, n % 3).values()), want)


@pytest.mark.parametrize("name", ["rows", "image", "norm"])
def test_several_threads_with_different_sizes(name: str) -> None:
    source = CASES[name]
    compiled, right = general(source, threads=1), ReferenceEvaluator(source)

    def work(number: int) -> None:
        for i in range(6):
            x = given(source, dict.fromkeys(symbols(source), 6 + (number * 5 + i * 3) % 11), number * 10 + i)
            close(list(compiled.run(x).values()), right.run(None, x))

    together(*(partial(work, i) for i in range(4)))


def test_nothing_is_compiled_for_new_sizes() -> None:
    levels: list[str] = []
    compiled = stepwell.compile(CASES["rows"], specialise="never", cache=False, on_level=lambda level, seconds: levels.append(level))
    assert levels[-1] == "obj"
    before = len(levels)
    for size in SIZES:
        compiled.run(given(CASES["rows"], {"n": size}))
    assert len(levels) == before


def test_sizes_that_the_program_does_not_assume_get_code_of_their_own() -> None:
    """Of two sizes that broadcast, the program takes neither to be 1 where the other is not."""
    source = model([node("Add", ["x", "z"], ["y"])], {"x": ["n", 3], "z": ["m", 3]})
    compiled, right = general(source), ReferenceEvaluator(source)
    for n, m in [(4, 4), (1, 4), (4, 1), (1, 1), (6, 6)]:
        x = given(source, {"n": n, "m": m})
        close(list(compiled.run(x).values()), right.run(None, x))
    with pytest.raises(stepwell.ModelError, match="Incompatible dimensions"):
        compiled.run(given(source, {"n": 2, "m": 3}))


def test_the_program_comes_from_the_cache(cache_folder: Any) -> None:
    source = CASES["image"]
    right, x = ReferenceEvaluator(source), given(source, {"n": 2, "h": 11, "w": 9})
    for turn in range(2):
        levels: list[str] = []
        compiled = stepwell.compile(source, specialise="never", on_level=lambda level, seconds, seen=levels: seen.append(level))  # type: ignore[misc]
        assert (levels == ["cache"]) == (turn == 1)
        close(list(compiled.run(x).values()), right.run(None, x))


def test_absurd_sizes_are_one_error() -> None:
    nodes = [node("MatMul", ["x", "z"], ["a"]), node("Softmax", ["a"], ["s"]), node("ReduceSum", ["s"], ["y"], keepdims=0)]
    compiled = general(model(nodes, {"x": ["n", 0], "z": [0, "m"]}))
    many = 1 << 30
    said = f"intermediate results for n = {many}, m = {many} would take at least [0-9]+ bytes of memory, more than"
    with pytest.raises(stepwell.LimitError, match=said):
        compiled(np.empty((many, 0), np.float32), np.empty((0, many), np.float32))


def test_what_needs_numbers_says_so() -> None:
    made = node("ConvTranspose", ["x", "w"], ["y"], output_shape=[9, 9])
    source = model([made], {"x": [1, 2, "n", 3]}, w=floats(2, 4, 3, 3))
    with pytest.raises(stepwell.UnsupportedError, match="ConvTranspose"):
        general(source)


def test_indices_that_are_known_are_assumed_to_fit() -> None:
    source = model([node("Gather", ["x", "i"], ["g"], axis=1), node("Neg", ["g"], ["y"])], {"x": [2, "n"]}, i=np.array([3, -1]))
    compiled, right = general(source), ReferenceEvaluator(source)
    for n in (4, 9):
        x = given(source, {"n": n})
        close(list(compiled.run(x).values()), right.run(None, x))
    with pytest.raises(stepwell.ModelError, match=r"index 3, at \[0\], is out of range for dimension 1 of size 3"):
        compiled.run(given(source, {"n": 3}))


def test_other_values_are_one_error() -> None:
    with pytest.raises(stepwell.InputError, match="specialise: expected one of auto, always, never, got 'sometimes'"):
        stepwell.compile(CASES["rows"], specialise="sometimes")


HINTED = [(name, hint) for hint in (1, 3, 128) for name in ("rows", "panels", "columns", "softmax", "norm", "turned")]


@pytest.mark.parametrize(("name", "hint"), by_day(HINTED, lambda case: case[0] == "rows" or HINTED.index(case) % 7 in (1, 3)))
def test_hints_change_no_result(name: str, hint: int) -> None:
    source = CASES[name]
    compiled, right = general(source, threads=1, size_hints=dict.fromkeys(symbols(source), hint)), ReferenceEvaluator(source)
    for i, size in enumerate(SIZES):
        x = given(source, {symbol: max(size - k, 1) for k, symbol in enumerate(symbols(source))}, i)
        close(list(guarded.run(compiled.specialise({key: array.shape for key, array in x.items()}), x, i % 3).values()), right.run(None, x))


def test_schedules_are_chosen_by_hints() -> None:
    """Three rows at once where there are about three, more where nothing is said; and the same kernels otherwise."""
    texts = {hint: str(stepwell.lower(CASES["rows"], "scheduled", specialise="never", size_hints=hint and {"n": hint}).module) for hint in (None, 3)}
    assert "unroll = array<i64: 3, 1, 1, 1>" in texts[3]
    assert "unroll = array<i64: 3, 1, 1, 1>" not in texts[None]


def test_hints_are_part_of_the_key(cache_folder: Any) -> None:
    levels: list[str] = []
    for hint in (None, {"n": 3}, {"n": 4}, {"n": 3}):
        del levels[:]
        stepwell.compile(CASES["rows"], specialise="never", size_hints=hint, on_level=lambda level, seconds: levels.append(level))
    assert levels == ["cache"]
    stepwell.compile(CASES["rows"], specialise="never", size_hints={"n": 5}, on_level=lambda level, seconds: levels.append(level))
    assert levels[-1] == "obj"


def test_a_hint_of_a_size_that_is_not_there_is_one_error() -> None:
    with pytest.raises(stepwell.InputError, match="size_hints: the model's inputs have no free dimension 'm', they have n"):
        stepwell.compile(CASES["rows"], size_hints={"m": 3})
    with pytest.raises(stepwell.InputError, match="size_hints: expected a whole number from 1 for 'n', got 0"):
        stepwell.compile(CASES["rows"], size_hints={"n": 0})


def test_names_go_down_to_affine() -> None:
    lowered = stepwell.lower(CASES["image"], "affine", specialise="never")
    texts = {level: str(snapshot) for level, snapshot in lowered.snapshots.items()}
    assert 'tensor<?x8x?x?xf32, "n, (h + 1) // 2, (w + 1) // 2">' in texts["graph"]
    assert 'stepwell.sizes = ["n, h + 2, w + 2", ' in texts["linalg"]
    assert 'stepwell.symbols = ["n", "h", "w"]' in texts["affine"]
    assert "func.func @sizes(" in texts["affine"]


@pytest.mark.parametrize("before", by_day(range(5), [0, 3]))
def test_narrow_parts_of_rows_of_any_length(before: int) -> None:
    """Columns of a few elements are short rows without gaps in an array of their own, but not in one whose rows only a run knows the length of."""
    pads = {f"pads{behind}": np.array([0, 1, before, 0, 0, behind]) for behind in range(5)}
    nodes = [node("Pad", ["x", name], [f"a{behind}"]) for behind, name in enumerate(pads)]
    nodes += [node("Concat", ["z", f"a{behind}"], [f"y{behind}"], axis=2) for behind in range(5)]
    source = model(nodes, {"x": ["a", "b", "c"], "z": ["a", "d", 2]}, [f"y{behind}" for behind in range(5)], **pads)
    compiled = general(source)
    reference = ReferenceEvaluator(source)
    for a, b, c in ((2, 4, 4), (1, 9, 7), (2, 17, 1), (3, 33, 2), (1, 1, 40), (2, 20, 16)):
        feed = given(source, {"a": a, "b": b, "c": c, "d": b + 1}, seed=before)
        close(list(compiled.run(feed).values()), reference.run(None, feed), terms=0)
