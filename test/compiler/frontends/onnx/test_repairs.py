"""Files that are not quite what the standard says: read as ONNX Runtime reads them, run by native code, with a warning that names it."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from commands import Commands, process
from every import every
from importing import floats, node
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import stepwell
from stepwell import ModelError, ModelWarning, UnsupportedError
from stepwell.frontends.onnx.problems import Notices

X = floats(2, 3)
W = floats(3, seed=1)


def info(name: str, *dims: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def made(
    nodes: Sequence[NodeProto], *, x: Sequence[int | str] = (2, 3), outputs: Sequence[onnx.ValueInfoProto] = (info("y", "a", 3),),
    weights: Sequence[TensorProto] = (), infos: Sequence[onnx.ValueInfoProto] = (), opset: int = 17, ir_version: int = 8,
) -> ModelProto:  # fmt: skip
    graph = helper.make_graph(list(nodes), "main", [info("x", *x)], list(outputs), list(weights), value_info=list(infos))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def weight(name: str, array: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(array, name)


def runtime(model: ModelProto) -> list[np.ndarray]:
    """What ONNX Runtime gives."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": X}))


def native(model: ModelProto, folder: Path) -> tuple[list[np.ndarray], list[str]]:
    """What native code gives for the file of a model, and what is warned of."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    free = any(dim.dim_value != size for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, X.shape, strict=True))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = stepwell.compile(path, shapes={"x": X.shape} if free else None, cache=False)
        results = [np.array(y) for y in compiled(X)]
    assert all(w.category is ModelWarning and w.filename == __file__ for w in caught), [str(w.message) for w in caught]
    return results, [str(w.message) for w in caught]


def agrees(model: ModelProto, folder: Path, *said: str, want: Sequence[np.ndarray] | None = None) -> None:
    """Check what native code gives, and that there is one warning for each of `said`, which has that in it, and no other."""
    got, texts = native(model, folder)
    for g, w in zip(got, runtime(model) if want is None else want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)
    assert len(texts) == len(said), texts
    for part in said:
        assert any(part in text for text in texts), (part, texts)


def chain() -> list[NodeProto]:
    return [node("Relu", ["x"], ["t"], name="first"), node("Sub", ["t", "x"], name="second")]


def test_negative_sizes_are_free(tmp_path: Path) -> None:
    model = made(chain(), x=(-1, 3), outputs=[info("y", -1, 3)], infos=[info("t", -7, 3)])
    agrees(model, tmp_path, "dimension 0 of 'x' is declared as -1, which is taken for a free size; dimension 0 of 'y'")
    with pytest.warns(ModelWarning, match="free size"):  # without shapes: for whatever comes
        compiled = stepwell.compile(tmp_path / "model.onnx", cache=False)
    np.testing.assert_array_equal(compiled(X[:1])[0], np.maximum(X[:1], 0) - X[:1])


def test_a_size_of_zero_that_is_given_another_one(tmp_path: Path) -> None:
    model = made(chain(), x=(0, 3))
    agrees(model, tmp_path, "dimension 0 of input 'x' is declared as 0, which is taken for a free size: 2 is given", want=runtime(made(chain())))
    assert native_inputs(tmp_path) == [(0, 3)]  # and an empty one if nothing is given


def native_inputs(folder: Path) -> list[tuple[int | None, ...]]:
    return [tensor.shape for tensor in stepwell.compile(folder / "model.onnx", cache=False).inputs]


def test_nodes_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Neg", ["b"], name="last"), node("Relu", ["x"], ["a"], name="one"), node("Add", ["a", "w"], ["b"], name="two")]
    model = made(nodes, weights=[weight("w", W)])
    agrees(model, tmp_path, "the nodes of graph 'main' are not in topological order (Neg \"last\" comes before the node that makes its input 'b')")


def test_sorting_moves_no_node_without_need(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    nodes = [node("Neg", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(40)]
    nodes[0].input[0] = "x"
    shuffled = [nodes[i] for i in rng.permutation(40)]
    model = made([*shuffled, node("Abs", ["v40"], name="end")])
    agrees(model, tmp_path, "the nodes of graph 'main'")
    with pytest.warns(ModelWarning):
        lowered = stepwell.lower(tmp_path / "model.onnx", "graph")
    assert list(lowered.info.nodes) == [f"n{i}" for i in range(40)] + ["end"]
    # Two chains, one of them out of order: the other stays where it is.
    wires = {"a": "x", "p": "q", "b": "a", "q": "x"}
    two = [node("Neg", [source], [name], name=name) for name, source in wires.items()]
    (tmp_path / "two.onnx").write_bytes(made([*two, node("Add", ["b", "p"], name="y")]).SerializeToString())
    with pytest.warns(ModelWarning):
        assert list(stepwell.lower(tmp_path / "two.onnx", "graph").info.nodes) == ["a", "b", "q", "p", "y"]


def branch(name: str, nodes: Sequence[NodeProto], *dims: int) -> GraphProto:
    return helper.make_graph(list(nodes), name, [], [info(nodes[0].output[0], *dims)])


def test_nodes_of_graphs_inside_in_any_order(tmp_path: Path) -> None:
    """ONNX Runtime does not take an unsorted branch, so the sorted one is the reference."""
    inside = [node("Neg", ["t"], ["o"]), node("Add", ["u", "w"], ["t"])]
    other = branch("else", [node("Neg", ["x"], ["e"])], 2, 3)

    def model_of(nodes: Sequence[NodeProto]) -> ModelProto:
        then = helper.make_graph(list(nodes), "then", [], [info("o", 2, 3)])
        choice = node("If", ["c"], then_branch=then, else_branch=other)
        return made([choice, node("Exp", ["x"], ["u"])], weights=[weight("w", W), weight("c", np.array(True))])

    before = "the nodes of graph 'main' are not in topological order (If \"the_if\" comes before the node that makes its input 'u')"
    model = model_of(inside)
    got, texts = native(model, tmp_path)
    np.testing.assert_allclose(got[0], runtime(model_of(inside[::-1]))[0], rtol=1e-6)
    assert len(texts) == 1
    assert before in texts[0]
    assert "the nodes of graph 'then'" in texts[0]


def test_nodes_of_functions_in_any_order(tmp_path: Path) -> None:
    body = [node("Neg", ["t"], ["b"]), node("Relu", ["a"], ["t"])]
    model = made([helper.make_node("Bent", ["x"], ["y"], domain="own")])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(helper.make_function("own", "Bent", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    agrees(model, tmp_path, "the nodes of function 'Bent' are not in topological order", want=[-np.maximum(X, 0)])


@pytest.mark.parametrize("dims", [(5, 3), (6,), (0, 3), (2, 3, 1)])
@pytest.mark.parametrize("where", ["inside", "output"])
def test_declared_shapes_that_inference_contradicts(dims: tuple[int, ...], where: str, tmp_path: Path) -> None:
    name = "t" if where == "inside" else "y"
    model = made(chain(), infos=[info("t", *dims)]) if where == "inside" else made(chain(), outputs=[info("y", *dims)])
    agrees(model, tmp_path, f"'{name}' is tensor<2x3xf32>, but declared as tensor<{''.join(f'{d}x' for d in dims)}f32>")


def test_a_declared_shape_that_only_our_inference_contradicts(tmp_path: Path) -> None:
    """ONNX does not look through the arithmetic on the shape, in floats."""
    shape = [node("Mul", ["f", "two"], ["g"]), node("Cast", ["g"], ["h"], to=TensorProto.INT64)]
    nodes = [*shape, node("Reshape", ["x", "h"], ["t"]), node("Neg", ["t"])]
    weights = [weight("f", np.array([1.5, 1], np.float32)), weight("two", np.array(2, np.float32))]
    model = made(nodes, infos=[info("t", 6, 1)], outputs=[info("y", 6, 1)], weights=weights)
    agrees(model, tmp_path, "'t' is tensor<3x2xf32>, but declared as tensor<6x1xf32>, which is left out of account")


def test_the_other_declarations_hold(tmp_path: Path) -> None:
    """One contradiction does not lose the size that is declared where inference knows none."""
    nodes = [*chain(), node("Reshape", ["x", "n"], ["z"])]
    model = made(nodes, infos=[info("t", 9, 9)], outputs=[info("y", 2, 3), info("z", 6)])
    model.graph.input.append(info("n", 1, kind=TensorProto.INT64))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.warns(ModelWarning, match=r"^'t' is tensor<2x3xf32>, but declared as tensor<9x9xf32>, which is left out of account$"):
        compiled = stepwell.compile(tmp_path / "model.onnx", cache=False)
    assert [tensor.shape for tensor in compiled.outputs] == [(2, 3), (6,)]
    np.testing.assert_array_equal(compiled(X, np.array([6]))[1], X.reshape(6))


def growing(declared: Sequence[int | str]) -> ModelProto:
    """A loop that doubles its value in each of two rounds."""
    body_nodes = [node("Identity", ["go"], ["on"]), node("Concat", ["v", "v"], ["w"], axis=0)]
    inputs = [info("i", kind=TensorProto.INT64), info("go", kind=TensorProto.BOOL), info("v", *declared)]
    body = helper.make_graph(body_nodes, "body", inputs, [info("on", kind=TensorProto.BOOL), info("w", *declared)])
    weights = [weight("n", np.array(2)), weight("c", np.array(True))]
    return made([node("Loop", ["n", "c", "x"], body=body)], weights=weights)


def test_a_loop_whose_body_declares_what_holds_in_the_first_round_only(tmp_path: Path) -> None:
    agrees(growing((2, 3)), tmp_path, "graphs inside nodes declare types that ONNX's inference contradicts")
    agrees(growing(("k", 3)), tmp_path)


def test_a_body_whose_declarations_only_our_inference_contradicts(tmp_path: Path) -> None:
    """It forgets the shape of the loop's value, and so takes for true what the body declares of it."""
    nodes = [node("Identity", ["go"], ["on"]), node("Squeeze", ["v", "axes"], ["s"]), node("Unsqueeze", ["s", "axes"], ["u"])]
    nodes.append(node("Neg", ["u"], ["w"]))
    inputs = [info("i", kind=TensorProto.INT64), info("go", kind=TensorProto.BOOL), info("v", 5, 3, 7)]
    body = helper.make_graph(nodes, "body", inputs, [info("on", kind=TensorProto.BOOL), info("w", 5, 3)])
    weights = [weight("n", np.array(3)), weight("c", np.array(True)), weight("axes", np.array([1])), weight("a0", np.array([1]))]
    loop = [node("Unsqueeze", ["x", "a0"], ["z"]), node("Loop", ["n", "c", "z"], ["r"], body=body), node("Squeeze", ["r", "a0"])]
    agrees(made(loop, weights=weights), tmp_path, "'w' is tensor<2x1x3xf32>, but declared as tensor<5x3xf32>", want=[-X])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16])
def test_an_operator_whose_own_definition_onnx_objects_to(kind: int) -> None:
    """MeanVarianceNormalization takes these types, but its body in ONNX adds an f32; in another operator the same words are a fault of the model."""
    x = floats(2, 3, 4, 5).astype(helper.tensor_dtype_to_np_dtype(kind))
    sides = [[info(name, *x.shape, kind=kind)] for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([node("MeanVarianceNormalization", ["x"])], "g", *sides), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    with pytest.warns(ModelWarning, match="ONNX's inference of types fails, Stepwell's own holds"):
        (got,) = stepwell.compile(model)(x)
    wide = x.astype(np.float64)
    want = (wide - wide.mean((0, 2, 3), keepdims=True)) / (wide.std((0, 2, 3), keepdims=True) + 1e-9)
    np.testing.assert_allclose(got.astype(np.float64), want, atol=2 * float(np.abs(want).max()) * ml_dtypes.finfo(x.dtype).eps)
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "f"], ["y"]))
    model.graph.input.append(info("f", 1))
    with pytest.raises(ModelError, match="inconsistent type"):
        stepwell.compile(model)


def test_what_nobody_reads_is_not_loaded(tmp_path: Path) -> None:
    """Whether large or small, inside or beside, of a type that is not ours, damaged or missing."""
    model = made([node("Add", ["x", "w"])], weights=[weight("w", W), weight("u", floats(5000)), weight("v", W)])
    missing = TensorProto(name="gone", data_type=TensorProto.FLOAT, dims=[40], data_location=TensorProto.EXTERNAL)
    missing.external_data.add(key="location", value="missing.bin")
    model.graph.initializer.extend([missing, helper.make_tensor("text", TensorProto.STRING, [1], ["a"])])
    model.graph.input.append(info("v", 3))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = stepwell.compile(path, cache=False)
        lowered = stepwell.lower(path, "graph")
    assert [tensor.name for tensor in compiled.inputs] == ["x"]
    assert list(lowered.weights) == ["w"]
    np.testing.assert_allclose(compiled(X)[0], X + W, rtol=1e-6)


def test_names_of_nodes_that_come_twice_or_not_at_all(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["a"], name="n"), node("Neg", ["a"], ["b"], name="n"), node("Exp", ["b"], ["c"], name=""), node("Abs", ["c"])]
    nodes[-1].name = ""
    want = [np.exp(-np.maximum(X, 0))]
    agrees(made(nodes), tmp_path, "several nodes have the name 'n': the Neg at index 1 is called 'n.1' here", want=want)


@pytest.mark.parametrize("size", [3, 3000])
@pytest.mark.parametrize("ir_version", [1, 2, 3])
def test_old_models_whose_weights_are_no_inputs(ir_version: int, size: int, tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "s"], ["t"]), node("Concat", ["t", "w"], axis=0)]
    weights = [weight("w", floats(size, 3)), weight("s", W)]
    said = [f"the initializer 'w' is no graph input, which it must be in a model of IR version {ir_version}"]
    said += [f"the model is of IR version {ir_version}, which has no imports of opsets"] if ir_version < 3 else []
    agrees(made(nodes, weights=weights, ir_version=ir_version, opset=9), tmp_path, *said)


def test_models_older_than_opsets(tmp_path: Path) -> None:
    """The standard says: opset 1."""
    model = made([node("Transpose", ["x"])], outputs=[info("y", 3, 2)], ir_version=2)
    del model.opset_import[:]
    agrees(model, tmp_path, want=[X.T])


def test_imports_of_domains_that_nobody_uses(tmp_path: Path) -> None:
    model = made(chain())
    model.opset_import.extend([helper.make_opsetid("nobody.knows", 99), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)])
    agrees(model, tmp_path)


def test_an_opset_that_nobody_knows_yet(tmp_path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    want = [np.maximum(X, 0) - X]
    agrees(made(chain(), opset=newest + 3), tmp_path, f"opset {newest + 3} of ai.onnx is newer than {newest}, the newest that the", want=want)


def test_an_operator_that_changed_in_an_opset_that_the_installed_onnx_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.frontends.onnx.repairs.newest_rule", lambda domain, name: 1000 if name == "Relu" else 1)
    with pytest.raises(UnsupportedError, match=r"opset 1000 of ai.onnx is not supported|opset 40 of ai.onnx is not supported"):
        stepwell.compile(made(chain(), opset=40), cache=False)


def test_functions_that_nobody_calls(tmp_path: Path) -> None:
    model = made(chain())
    own = helper.make_opsetid("own", 1)
    model.opset_import.append(own)
    unknown = helper.make_node("Nonsense", ["a"], ["b"], domain="nowhere")
    model.functions.append(helper.make_function("own", "Unused", ["a"], ["b"], [unknown], [helper.make_opsetid("nowhere", 1)]))
    call = helper.make_node("Unused", ["a"], ["b"], domain="own")
    model.functions.append(helper.make_function("own", "UnusedToo", ["a"], ["b"], [call], [own]))
    agrees(model, tmp_path)


def test_outputs_that_are_inputs_weights_or_come_twice(tmp_path: Path) -> None:
    model = made(chain(), outputs=[info("y", 2, 3), info("x", 2, 3), info("w", 3), info("y", 2, 3), info("big", 3000)])
    model.graph.initializer.extend([weight("w", W), weight("big", floats(3000))])
    agrees(model, tmp_path)


@every("name", ["a b", "ü/ß:0", '"', "'", "\\n", "\n", "%0", "#", "0", "@main", "a" * 3000, "x.1", "{}", "⟶"])
def test_names_with_odd_characters(name: str, tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], [name], name=name), node("Add", [name, f"{name}w"], [f"{name}y"], name=f"{name}2")]
    agrees(made(nodes, outputs=[info(f"{name}y", 2, 3)], weights=[weight(f"{name}w", W)]), tmp_path)


@pytest.mark.parametrize("name", ["a b", "ü/ß:0", '"', "\n", "%0"])
def test_inputs_and_outputs_with_odd_characters(name: str, tmp_path: Path) -> None:
    model = made([node("Relu", ["x"], [f"y{name}"])], outputs=[info(f"y{name}", 2, 3)])
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(stepwell.compile(path).run({name: X})[f"y{name}"], np.maximum(X, 0))


def test_a_graph_without_a_name(tmp_path: Path) -> None:
    model = made(chain())
    model.graph.ClearField("name")
    agrees(model, tmp_path, "a graph has no name")


def test_an_output_without_a_type(tmp_path: Path) -> None:
    agrees(made(chain(), outputs=[onnx.ValueInfoProto(name="y")]), tmp_path, "output 'y' is declared without a type")


def test_an_output_without_a_shape(tmp_path: Path) -> None:
    """Which the standard's checker wants and its text does not; ONNX infers none here, and we do."""
    nodes = [*chain(), node("Mul", ["f", "two"], ["g"]), node("Cast", ["g"], ["h"], to=TensorProto.INT64), node("Reshape", ["x", "h"], ["z"])]
    weights = [weight("f", np.array([1.5, 1], np.float32)), weight("two", np.array(2, np.float32))]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    agrees(made(nodes, outputs=outputs, weights=weights), tmp_path)


@pytest.mark.parametrize("size", [3, 3000])
def test_an_initializer_that_is_given_twice(size: int, tmp_path: Path) -> None:
    """ONNX Runtime takes the last one, whatever it is; where they differ, we do not guess."""
    nodes = [node("Concat", ["x", "w"], axis=0)]
    w = floats(size, 3)
    agrees(made(nodes, weights=[weight("w", w), weight("w", w)]), tmp_path, "the initializer 'w' is given twice, both times with the same data")
    with pytest.raises(ModelError, match="two initializers have the name 'w' and differ"):
        stepwell.compile(made(nodes, weights=[weight("w", w), weight("w", -w)]))


def faults() -> dict[str, tuple[Callable[[], ModelProto], str]]:
    """What neither ONNX Runtime nor we can give a meaning."""
    return {
        "element type": (lambda: made(chain(), outputs=[info("y", 2, 3, kind=TensorProto.INT64)]), "do not fit together"),
        "made twice": (lambda: made([node("Relu", ["x"]), node("Neg", ["x"])]), "output names multiple times"),
        "made by nobody": (lambda: made([*chain(), node("Neg", ["nothing"], ["unread"])]), "'nothing'"),
        "sizes that do not fit": (lambda: made([node("Add", ["x", "w"])], weights=[weight("w", floats(4))]), "do not fit together.*the_add"),
    }


@pytest.mark.parametrize("which", sorted(faults()))
def test_what_has_no_clear_meaning_is_refused(which: str) -> None:
    build, message = faults()[which]
    with pytest.raises(ModelError, match=message):
        stepwell.compile(build(), cache=False)
    with pytest.raises(Exception, match=r"\S"):
        runtime(build())


@pytest.mark.usefixtures("cache_folder")
def test_the_cache_warns_as_well(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(made(chain(), infos=[info("t", 5, 3)]).SerializeToString())
    for level in ("obj", "cache"):
        with pytest.warns(ModelWarning, match="'t' is tensor<2x3xf32>, but declared as tensor<5x3xf32>"):
            assert level in stepwell.compile(tmp_path / "model.onnx").timings


def test_the_command_says_it_once_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also as a process, in which nobody else has set up how warnings are printed."""
    path = tmp_path / "model.onnx"
    path.write_bytes(made(chain()[::-1], x=(-1, 3)).SerializeToString())
    for start, command in (
        (Commands(capsys).stepwell, ["run", "--check", "reference"]),
        (Commands(capsys).stepwell, ["compile", "--emit", "graph-opt", "-o", tmp_path / "out.mlir"]),
        (partial(process, "main"), ["inspect"]),
    ):
        ended = start(command[0], path, "--shape", "x=2x3", *command[1:])
        assert ended.status == 0, ended.err
        said = [line for line in ended.err.splitlines() if "warning: " in line]
        assert [line.split("'")[0] for line in said] == [
            "stepwell: warning: dimension 0 of ",
            "stepwell: warning: the nodes of graph ",
        ], ended.err


def test_of_one_kind_the_first_are_told_and_how_many_there_are() -> None:
    notices = Notices()
    for count, kind in ((1, "one"), (3, "three"), (4, "four"), (5, "five")):
        for number in range(count):
            notices.add(kind, f"{kind} {number}")
    more = [f"{kind} 0; {kind} 1; {kind} 2; and {count} more like this" for count, kind in ((1, "four"), (2, "five"))]
    assert list(notices.texts()) == ["one 0", "three 0; three 1; three 2", *more]
