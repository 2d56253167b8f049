"""If, Loop and Scan: in place where they are known, as regions where they are not."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from importing import check, context, floats, ints, model, node, ops, without_rules
from onnx import NodeProto, TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import IndexRangeError, ModelError, ModelWarning, UnsupportedError
from stepwell.frontends.base import ImportedModel
from stepwell.frontends.onnx import import_model

X = floats(2, 3)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def graph(
    nodes: list[NodeProto], inputs: list[tuple[str, int, list[int] | None]], outputs: list[tuple[str, int, list[int] | None]], **weights: np.ndarray
) -> onnx.GraphProto:
    values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    return helper.make_graph(nodes, "inner", *values, [numpy_helper.from_array(array, name) for name, array in weights.items()])


def choice(
    then: list[NodeProto], other: list[NodeProto], shapes: tuple[list[int] | None, list[int] | None] = (None, None), **weights: np.ndarray
) -> NodeProto:
    branches = [graph(nodes, [], [("r", FLOAT, shape)], **weights) for nodes, shape in zip((then, other), shapes, strict=True)]
    return node("If", ["c"], then_branch=branches[0], else_branch=branches[1], name="if")


def inner_names(imported: ImportedModel) -> list[str]:
    found: list[str] = []
    for op in imported.module.body.operations[0].regions[0].blocks[0].operations:
        for region in op.operation.regions:
            for block in region.blocks:
                found += [name for inner in block.operations for name in node_names(inner.location)]
    return found


@pytest.mark.parametrize("value", [False, True])
def test_a_known_condition_leaves_one_branch(value: bool) -> None:
    made = choice([node("Neg", ["x"], ["r"], name="n")], [node("Relu", ["x"], ["r"], name="r")])
    imported = check(made, {"x": X}, {"c": np.array(value)})
    assert ops(imported) == ["parameter", "neg" if value else "relu"]
    assert imported.nodes == ["if", "if/n" if value else "if/r"]


@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_condition_at_run_time_keeps_both(value: bool, shape: tuple[int, ...]) -> None:
    """The branches use a value around them, a weight of the main graph and one of their own."""
    then = [node("Add", ["x", "w"], ["t"], name="a"), node("Mul", ["t", "own"], ["r"], name="m")]
    made = choice(then, [node("Relu", ["x"], ["r"], name="r")], own=floats(3, seed=8))
    imported = check(made, {"x": X, "c": np.full(shape, value)}, {"w": floats(3, seed=7)})
    assert "if" in ops(imported)
    assert imported.nodes == ["if", "if/a", "if/m", "if/r"]
    assert set(inner_names(imported)) == {"if", "if/a", "if/m", "if/r"}


@pytest.mark.parametrize("value", [False, True])
def test_branches_of_different_sizes(value: bool) -> None:
    then, other = [node("Slice", ["x", "zero", "one"], ["r"])], [node("Neg", ["x"], ["r"])]
    weights = {"zero": ints(0), "one": ints(1)}
    check(choice(then, other), {"x": X, "c": np.array(value)}, weights)  # code is made for each
    computed = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "least"], ["c"])]
    imported = check([*computed, choice(then, other)], {"x": X}, {**weights, "least": np.array(-1e9 if value else 1e9, np.float32)})
    assert imported.outputs[0][1].shape == (symbol("y_0"), 3)


def test_branches_of_different_ranks() -> None:
    made = choice([node("ReduceSum", ["x"], ["r"], keepdims=0)], [node("Neg", ["x"], ["r"])])
    with pytest.raises(UnsupportedError, match=r'If "if" .*different types \(tensor<f32> or tensor<2x3xf32>\), as only the run decides'):
        import_model(model([made], {"x": X, "c": np.array(True)}, {"y": X}), context())


def test_problems_inside_are_reported_with_those_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    without_rules(monkeypatch, "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Det")
    made = choice([node("RandomNormalLike", ["x"], ["r"], name="noise")], [node("Bernoulli", ["x"], ["r"], name="coin")])
    with pytest.raises(UnsupportedError) as error:
        import_model(model([made, node("Det", ["s"], ["d"], name="det")], {"x": X, "c": np.array(True), "s": floats(3, 3)}, {"y": X}), context())
    lines = str(error.value).splitlines()
    assert lines[0] == "SW002 3 parts of the model are not supported:"
    assert '"if/noise"' in lines[1]
    assert '"if/coin"' in lines[2]
    assert '"det"' in lines[3]


def fitting(*sizes: int) -> tuple[list[NodeProto], list[NodeProto], dict[str, np.ndarray]]:
    """Branches that are valid for so many columns each."""
    branches = [[node("MatMul", ["x", f"w{size}"], ["r"], name=f"times{size}")] for size in sizes]
    return branches[0], branches[1], {f"w{size}": floats(size, 4, seed=size) for size in sizes}


@pytest.mark.parametrize("fits", [0, 1])
def test_a_branch_that_cannot_be_valid_is_an_error_where_it_is_taken(fits: int) -> None:
    """A conditional on the rate of the samples, say, whose branches take different numbers of them."""
    then, other, weights = fitting(*((3, 5) if fits == 0 else (5, 3)))
    made = model([choice(then, other)], {"x": X, "c": np.array(True)}, {"y": X}, weights)
    with pytest.warns(ModelWarning, match=r"'inner', a branch of If 'if', cannot be valid here, and is an error where it is taken: MatMul .*times5"):
        compiled = stepwell.compile(made, cache=False)
    right = {"x": X, "c": np.array(fits == 0)}
    np.testing.assert_allclose(compiled.run(right)["y"], X @ weights["w3"], rtol=1e-5, atol=1e-6)
    wrong = {**right, "c": ~right["c"]}
    lowered = stepwell.lower(made, "graph")
    for run in (compiled.run, lambda given: evaluate(lowered.module, lowered.weights, given)):
        with pytest.raises(IndexRangeError, match=r'if: the branch that is taken cannot be valid here: MatMul "if/times5"'):
            run(wrong)


def test_sizes_decide_which_branch_can_be_valid() -> None:
    """Where ONNX's own inference objects too, for each of the sizes."""
    made = choice([node("Squeeze", ["x", "rows"], ["r"])], [node("Squeeze", ["x", "columns"], ["r"])])
    proto = model([made], {"x": X, "c": np.array(True)}, {"y": floats(3)}, {"rows": ints(0), "columns": ints(1)})
    for name, dim in zip("nm", proto.graph.input[0].type.tensor_type.shape.dim, strict=True):
        dim.dim_param = name
    compiled = stepwell.compile(proto, cache=False)
    for x, c in ((floats(1, 5), True), (floats(4, 1), False)):
        np.testing.assert_array_equal(compiled.run({"x": x, "c": np.array(c)})["y"], x.reshape(-1))
        with pytest.raises(IndexRangeError, match=r"name dimensions of .* whose size is not 1"):
            compiled.run({"x": x, "c": np.array(not c)})


def test_branches_that_cannot_be_valid_in_other_regions() -> None:
    """Inside a branch that is not taken nothing is wrong; in a loop the first round that takes it is enough."""
    then, other, weights = fitting(3, 5)
    inner = choice(then, other)
    rest = graph([node("Neg", ["z"], ["r"])], [], [("r", FLOAT, None)])
    outer = node("If", ["d"], ["y"], then_branch=graph([inner], [], [(inner.output[0], FLOAT, None)]), else_branch=rest)
    looped = choice(then, other)
    looped.input[0], looped.output[0] = "b", "part"
    nodes = [node("Less", ["i", "last"], ["b"]), looped, node("Identity", ["go"], ["on"])]
    inside = graph(nodes, [("i", INT64, []), ("go", BOOL, [])], [("on", BOOL, []), ("part", FLOAT, None)], last=ints(2).reshape(()))
    given = {"x": X, "z": floats(2, 4), "c": np.array(False), "d": np.array(False), "n": np.array(2)}
    made = model([outer, node("Loop", ["n", ""], ["s"], body=inside)], given, {"y": X, "s": floats(1, 2, 4)}, weights)
    compiled = stepwell.compile(made, cache=False)
    found = compiled.run(given)
    np.testing.assert_array_equal(found["y"], -given["z"])
    np.testing.assert_allclose(found["s"], [X @ weights["w3"]] * 2, rtol=1e-5, atol=1e-6)
    for wrong in ({"d": np.array(True)}, {"n": np.array(4)}):
        with pytest.raises(IndexRangeError, match="the branch that is taken cannot be valid"):
            compiled.run({**given, **wrong})


def test_branches_that_are_both_wrong_are_an_error() -> None:
    then, other, weights = fitting(4, 5)
    made = model([choice(then, other)], {"x": X, "c": np.array(True)}, {"y": X}, weights)
    with pytest.raises(ModelError) as error:
        import_model(made, context())
    assert "times4" in str(error.value)


def body(
    nodes: list[NodeProto], carried: list[tuple[str, int, list[int] | None]], outputs: list[tuple[str, int, list[int] | None]]
) -> onnx.GraphProto:
    return graph(nodes, [("i", INT64, []), ("go", BOOL, []), *carried], [("go_on", BOOL, []), *outputs])


DOUBLING = [node("Identity", ["go"], ["go_on"]), node("Add", ["v", "v"], ["v2"], name="double"), node("Add", ["v2", "x"], ["v3"], name="add")]


def doubling(scan: bool = False) -> onnx.GraphProto:
    outputs: list[tuple[str, int, list[int] | None]] = [("v3", FLOAT, [2, 3])]
    return body(DOUBLING, [("v", FLOAT, [2, 3])], outputs + ([("v2", FLOAT, [2, 3])] if scan else []))


def test_a_known_number_of_rounds_is_unrolled() -> None:
    made = node("Loop", ["n", "", "x"], ["y", "all"], body=doubling(scan=True), name="loop")
    imported = check(made, {"x": X}, {"n": np.array(3)}, outputs=("y", "all"))
    assert "loop" not in ops(imported)
    assert imported.nodes == ["loop"] + [f"loop/{name}{again}" for again in ("", ".1", ".2") for name in ("the_identity", "double", "add")]


def test_many_rounds_stay_a_loop() -> None:
    """A thousand nodes are written out, more are not: each would be compiled."""
    made = node("Loop", ["n", "", "x"], ["y", "all"], body=doubling(scan=True), name="loop")
    assert "loop" not in ops(import_model(model([made], {"x": X}, {"y": X}, {"n": np.array(1024 // 3)}), context()))
    imported = check(made, {"x": np.zeros_like(X)}, {"n": np.array(1024 // 3 + 1)}, outputs=("y", "all"))
    assert "loop" in ops(imported)
    assert imported.nodes == ["loop", "loop/the_identity", "loop/double", "loop/add"]
    halving = graph([node("Mul", ["s", "e"], ["s2"])], [("s", FLOAT, [4]), ("e", FLOAT, [4])], [("s2", FLOAT, [4])])
    scan = node("Scan", ["start", "x"], body=halving, num_scan_inputs=1)
    assert "loop" in ops(check(scan, {"start": floats(4), "x": np.full((1025, 4), 0.999, np.float32)}, terms=2100))


def test_many_rounds_that_cannot_stay_a_loop_are_written_out() -> None:
    """The axes must be known, and are computed from the number of the round. Nothing is left of the attempt: neither ops, names nor problems."""
    nodes = [
        node("Identity", ["go"], ["go_on"]), node("Unsqueeze", ["i", "none"], ["at"]), node("Mod", ["at", "two"], ["axes"]),
        node("ReduceMax", ["v", "axes"], ["m"], keepdims=1), node("Sub", ["v", "m"], ["v2"], name="less"),
    ]  # fmt: skip
    inner = body(nodes, [("v", FLOAT, [2, 3])], [("v2", FLOAT, [2, 3])])
    weights = {"n": np.array(400), "none": np.array([0]), "two": np.array([2])}
    imported = check(node("Loop", ["n", "", "x"], body=inner, name="loop"), {"x": X}, weights)
    assert "loop" not in ops(imported)
    assert imported.nodes[:6] == ["loop", "loop/the_identity", "loop/the_unsqueeze", "loop/the_mod", "loop/the_reducemax", "loop/less"]
    assert len(imported.nodes) == 1 + 400 * 5


def test_many_rounds_that_end_early() -> None:
    nodes = [node("Less", ["i", "two"], ["go_on"]), node("Add", ["v", "x"], ["v2"])]
    made = node("Loop", ["n", "", "x"], ["y", "all"], body=body(nodes, [("v", FLOAT, [2, 3])], [("v2", FLOAT, [2, 3]), ("v", FLOAT, [2, 3])]))
    assert check(made, {"x": X}, {"n": np.array(8000), "two": np.array(2)}, outputs=("y", "all")).outputs[1][1].shape == (3, 2, 3)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_number_of_rounds_known_at_run_time(count: int) -> None:
    made = node("Loop", ["n", "c", "x"], body=doubling(), name="loop")
    imported = check(made, {"x": X, "n": np.array(count), "c": np.array(True)})
    assert "loop" in ops(imported)
    assert {"loop/double", "loop/add"} <= set(inner_names(imported))
    check(made, {"x": X, "n": np.array(count), "c": np.array(False)})


def test_rounds_without_end_but_a_condition() -> None:
    """Doubles until the sum is above a bound."""
    nodes = [
        node("Add", ["v", "v"], ["v2"]),
        node("ReduceSum", ["v2"], ["s"], keepdims=0),
        node("Less", ["s", "bound"], ["go_on"]),
    ]
    made = node("Loop", ["", "c", "x"], body=body(nodes, [("v", FLOAT, [2, 3])], [("v2", FLOAT, [2, 3])]))
    check(made, {"x": np.abs(X), "c": np.array(True), "bound": np.array(100, np.float32)})
    check(made, {"x": np.abs(X), "bound": np.array(100, np.float32)}, {"c": np.array(True)})


def test_a_condition_that_is_known_ends_the_rounds() -> None:
    nodes = [node("Less", ["i", "two"], ["go_on"]), node("Add", ["v", "x"], ["v2"])]
    made = node("Loop", ["n", "", "x"], ["y", "all"], body=body(nodes, [("v", FLOAT, [2, 3])], [("v2", FLOAT, [2, 3]), ("v", FLOAT, [2, 3])]))
    imported = check(made, {"x": X}, {"n": np.array(100), "two": np.array(2)}, outputs=("y", "all"))
    assert imported.outputs[1][1].shape == (3, 2, 3)


def test_rounds_counted_by_a_vector_of_one_element() -> None:
    nodes = [node("Identity", ["go"], ["go_on"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["v", "f"], ["v2"])]
    inner = graph(nodes, [("i", INT64, [1]), ("go", BOOL, [1]), ("v", FLOAT, [2, 3])], [("go_on", BOOL, [1]), ("v2", FLOAT, [2, 3])])
    made = node("Loop", ["n", "c", "x"], body=inner)
    for weights in ({"n": ints(3), "c": np.array([True])}, {}):
        check(made, {"x": X} | ({} if weights else {"n": ints(3), "c": np.array([True])}), weights, expected=[X + 3])


def test_carried_values_that_grow() -> None:
    nodes = [node("Identity", ["go"], ["go_on"]), node("Concat", ["v", "x"], ["v2"], axis=0)]
    made = node("Loop", ["n", "", "x"], body=body(nodes, [("v", FLOAT, [None, 3])], [("v2", FLOAT, [None, 3])]))  # type: ignore[list-item]
    check(made, {"x": X, "n": np.array(3)})  # code is made for each number
    assert check(made, {"x": X}, {"n": np.array(3)}).outputs[0][1].shape == (8, 3)
    computed = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Cast", ["s"], ["n"], to=INT64)]
    check([*computed, made], {"x": np.abs(X)})


def test_collecting_over_rounds_known_at_run_time() -> None:
    made = node("Loop", ["n", "", "x"], ["y", "all"], body=doubling(scan=True), name="loop")
    imported = check(made, {"x": X, "n": np.array(3)}, outputs=("y", "all"))
    assert ops(imported)[-1] == "loop"
    assert imported.outputs[1][1].shape == (symbol("all_0"), 2, 3)


@pytest.mark.parametrize(
    "attributes", [{}, {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [-1], "scan_output_directions": [1]}]
)
def test_scan(attributes: dict[str, list[int]]) -> None:
    data = floats(3, 4)
    width = 3 if attributes else 4
    nodes = [node("Add", ["s", "e"], ["s2"]), node("Mul", ["s2", "e"], ["out"])]
    inner = graph(nodes, [("s", FLOAT, [width]), ("e", FLOAT, [width])], [("s2", FLOAT, [width]), ("out", FLOAT, [width])])
    made = node("Scan", ["start", "x"], ["y", "all"], body=inner, num_scan_inputs=1, **attributes)
    check(made, {"x": data, "start": floats(width, seed=4)}, outputs=("y", "all"))


def test_weights_that_graphs_inside_nodes_share(tmp_path: Path) -> None:
    """Both branches, a loop in one of them and the main graph read one weight, which is there once."""
    w = floats(40, 40, seed=2)
    body_nodes = [node("Identity", ["go"], ["on"]), node("MatMul", ["v", "w"], ["u"])]
    info = helper.make_tensor_value_info
    body_inputs = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [3, 40])]
    body = helper.make_graph(body_nodes, "body", body_inputs, [info("on", TensorProto.BOOL, []), info("u", TensorProto.FLOAT, [3, 40])])
    then = helper.make_graph([node("Loop", ["n", "", "x"], ["t"], body=body)], "then", [], [info("t", TensorProto.FLOAT, [3, 40])])
    other = helper.make_graph([node("MatMul", ["x", "w"], ["e"])], "else", [], [info("e", TensorProto.FLOAT, [3, 40])])
    nodes = [node("If", ["c"], ["s"], then_branch=then, else_branch=other), node("MatMul", ["s", "w"])]
    x = floats(3, 40) / 40
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, {"x": x, "c": np.array(True)}, {"y": x}, {"w": w, "n": np.array(2)}).SerializeToString())
    assert [name for name in stepwell.lower(path, "graph").weights if name.startswith("w")] == ["w"]
    for choice, power in ((True, 3), (False, 2)):
        path.write_bytes(model(nodes, {"x": x}, {"y": x}, {"w": w, "n": np.array(2), "c": np.array(choice)}).SerializeToString())
        want = x.astype(np.float64) @ np.linalg.matrix_power(w.astype(np.float64), power)
        got = stepwell.compile(path, cache=False).run({"x": x})["y"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("limit", ["k", '""'])
def test_a_loop_that_collects_values_of_changing_sizes(limit: str) -> None:
    """What is collected has one size in all rounds, in loops with a number of rounds and without: others are refused, not compiled wrong."""
    source = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
      collected (float[n, 6] x, int64 k) => (float[m, 6] y, float[r, p, 6] parts) {{
        yes = Constant <value = bool {{1}}> ()
        y, parts = Loop ({limit}, yes, x) <body = one (int64 i, bool go, float[p, 6] a) => (bool go2, float[r, 6] a2, float[s, 6] part) {{
          a2 = Concat <axis = 0> (a, a)
          part = Neg (a2)
          most = Constant <value_int = 3> ()
          go2 = Less (i, most)
        }}>
      }}""")
    with pytest.raises(UnsupportedError, match=r'collects values of changing sizes \(tensor<\?x6xf32, "2\*y_0">\) is not supported'):
        import_model(source, context())
