"""Free dimensions and values of inputs that the caller fixes."""

import numpy as np
import onnx
import pytest
from importing import check, context, floats, model, node, run
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.core.sizes import Dim, symbol
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import InputError, LimitError, ModelError, UnsupportedError
from stepwell.frontends.loading import load_for
from stepwell.frontends.onnx import import_model


def batched() -> onnx.ModelProto:
    """Two inputs that share the free batch `n`, and one more free dimension; the result is their concatenation."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "k"])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, "m"])
    graph = helper.make_graph([node("Concat", ["x", "z"], axis=2)], "test", [x, z], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


n, k = symbol("n"), symbol("k")


def shapes_of(proto: onnx.ModelProto, **options: object) -> dict[str, tuple[Dim, ...]]:
    imported = import_model(proto, context(), **options)  # type: ignore[arg-type]
    return {name: tensor.shape for name, tensor in [*imported.inputs, *imported.outputs]}


def test_free_dimensions_stay_free_unless_fixed() -> None:
    assert shapes_of(batched()) == {"x": (n, 3, k), "z": (n, 3, 5), "y": (n, 3, k + 5)}


def test_a_symbol_has_one_size_everywhere() -> None:
    assert shapes_of(batched(), shapes={"x": (2, 3, 4)}) == {"x": (2, 3, 4), "z": (2, 3, 5), "y": (2, 3, 9)}
    assert shapes_of(batched(), shapes={"z": [np.int64(7), 3, 5]}) == {"x": (7, 3, k), "z": (7, 3, 5), "y": (7, 3, k + 5)}
    assert shapes_of(batched(), shapes={"x": (None, None, 4)}) == {"x": (n, 3, 4), "z": (n, 3, 5), "y": (n, 3, 9)}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"q": (1, 2)}, "there is no input 'q' to give a shape to; the model's inputs: x, z"),
        ({"x": (2, 3)}, r"input 'x' has rank 3 in the model, the shape given has rank 2: \[2, 3\]"),
        ({"x": (2, 4, 4)}, r"dimension 1 of input 'x' is 3 in the model, the shape given says 4: \[2, 4, 4\]"),
        ({"x": (2, 3, 4), "z": (6, 3, 5)}, r"dimension 0 of input 'z' is 'n', which is 2 in input 'x', but 6 in \[6, 3, 5\]"),
        ({"x": (2, 3, -4)}, "must be sizes from 0"),
        ({"x": (2, 3, "4")}, "must be sizes from 0"),
        ({"x": (2, 3, True)}, "must be sizes from 0"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_model(batched(), context(), shapes=shapes)


def test_weights_are_no_inputs_to_give_a_shape_to() -> None:
    proto = model([node("Add", ["x", "w"])], {"x": floats(3), "w": floats(3)}, {"y": floats(3)}, {"w": floats(3, seed=1)})
    with pytest.raises(InputError, match="there is no input 'w' to give a shape to; the model's inputs: x"):
        import_model(proto, context(), shapes={"w": [3]})


def test_fixed_sizes_that_the_nodes_refuse() -> None:
    proto = batched()
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "other"
    with pytest.raises(ModelError, match="the_concat"):
        import_model(proto, context(), shapes={"x": (2, 3, 4), "z": (6, 3, 5)})


def test_absurd_sizes_are_refused() -> None:
    with pytest.raises(LimitError, match=r"input 'x': a value of type tensor<1099511627776x3x1xf32> would take 13194139533312 bytes; at most"):
        import_model(batched(), context(), shapes={"x": (1 << 40, 3, 1)})


def test_values_make_constants_of_inputs() -> None:
    data, axes = floats(2, 3, 4), np.array([0, 2])
    nodes = [node("ReduceSum", ["x", "axes"], keepdims=0)]
    proto = model(nodes, {"x": data, "axes": axes}, {"y": floats(3)})
    with pytest.raises(UnsupportedError, match="axes computed at run time is not supported; supported: axes known at compile time"):
        import_model(proto, context())
    imported = import_model(proto, context(), constants={"axes": axes})
    assert [name for name, _ in imported.inputs] == ["x"]
    np.testing.assert_allclose(run(proto, {"x": data}, constants={"axes": axes})["y"], data.sum((0, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"q": np.zeros(1)}, "there is no input 'q' to give a value to"),
        ({"x": np.zeros((2, 4, 4), np.float32)}, r"input 'x' is tensor<\?x3x\?xf32>, the value given is tensor<2x4x4xf32>"),
        ({"x": np.zeros((2, 3, 4))}, r"the value given is tensor<2x3x4xf64>"),
    ],
)
def test_values_that_do_not_fit(constants: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_model(batched(), context(), constants=constants)


def test_dynamic_shapes_go_through_shape_arithmetic() -> None:
    """A batch that is kept by Shape, Gather, Concat and Reshape: dynamic without a size, static with one."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "zeros"], ["n1"]),
        node("Concat", ["n1", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"]),
    ]
    data = floats(2, 3, 4)
    weights = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([12])}
    proto = model(nodes, {"x": data}, {"y": data.reshape(2, 12)}, weights)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    free = import_model(proto, context())
    assert free.outputs[0][1].shape == (n, 12)
    np.testing.assert_array_equal(run(proto, {"x": data})["y"], data.reshape(2, 12))
    assert shapes_of(proto, shapes={"x": (5, 3, 4)})["y"] == (5, 12)
    check(nodes, {"x": data}, weights)


@pytest.mark.parametrize("length", ["0", "n"])
@pytest.mark.parametrize("nothing_is_all", [0, 1])
def test_axes_without_elements_are_known(length: str, nothing_is_all: int) -> None:
    """An input of no elements has one value alone."""
    reduced = f"y = ReduceSum <keepdims = 0, noop_with_empty_axes = {1 - nothing_is_all}> (x, axes)"
    header = f"g (float[3, 4] x, int64[{length}] axes) => (float[{'' if nothing_is_all else '3, 4'}] y)"
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {header} {{ {reduced} }}')
    x = np.random.default_rng(3).integers(-9, 9, (3, 4)).astype(np.float32)
    got = stepwell.compile(proto, threads=1, shapes={"axes": (0,)}).run({"x": x, "axes": np.zeros(0, np.int64)})["y"]
    np.testing.assert_array_equal(got, x.sum() if nothing_is_all else x)
    if length == "n":
        with pytest.raises(UnsupportedError, match="axes computed at run time"):
            import_model(proto, context(), shapes={"axes": (1,)})


def test_a_model_for_inputs_knows_the_values_that_it_needs() -> None:
    data = floats(2, 3, 4)
    proto = model([node("ReduceSum", ["x", "axes"], keepdims=0)], {"x": data, "axes": np.array([0, 2])}, {"y": floats(3)})
    imported, rest = load_for(proto, context(), {"x": data, "axes": np.array([0, 2])})
    assert list(rest) == ["x"]
    np.testing.assert_allclose(evaluate(imported.module, imported.weights, rest)["y"], data.sum((0, 2)), rtol=1e-5)
    with pytest.raises(UnsupportedError, match=r"axes computed at run time(.|\n)*The option 'values' gives the inputs axes what they hold"):
        load_for(proto, context(), {"x": data})
