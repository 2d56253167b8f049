"""Models that are broken in every way: each gives one clear error, none a crash, a hang or a traceback from below."""

import contextlib
import math
import random

import numpy as np
import onnx
import pytest
from backend_suite.cases import cases
from covering import by_day
from importing import context, floats, model, node, run
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from stepwell.dialects.support.errors import InputError, LimitError, ModelError, StepwellError, UnsupportedError
from stepwell.frontends.onnx import import_model

X = floats(2, 3)
HUGE = 1 << 40


def fails(nodes: list[onnx.NodeProto], message: str, kind: type[StepwellError] = ModelError, **options: object) -> None:
    proto = model(nodes, {"x": options.pop("data", X)}, {"y": options.pop("result", X)}, **options)  # type: ignore[arg-type]
    with pytest.raises(kind, match=message):
        import_model(proto, context())


def test_cycles() -> None:
    fails([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Neg", ["b"])], 'in a circle: Relu "the_relu" -> Add "the_add" -> Relu')
    fails([node("Relu", ["y"])], 'in a circle: Relu "the_relu" -> Relu "the_relu"')
    around = [node("Neg", [f"v{(i - 1) % 50}"], [f"v{i}"], name=f"n{i}") for i in range(50)]
    fails([*around, node("Relu", ["v7"])], r'in a circle: Neg "n\d+" -> .* … \(50 nodes\)')
    then, other = (helper.make_graph([node("Neg", ["b"], ["o"])], "g", [], [helper.make_tensor_value_info("o", 1, [2, 3])]) for _ in range(2))
    choice = node("If", ["c"], ["a"], then_branch=then, else_branch=other)
    fails([choice, node("Relu", ["a"], ["b"]), node("Neg", ["b"])], "in a circle: Relu .* -> If .* -> Relu", weights={"c": np.array(True)})


def test_attributes_that_may_hold_any_integer() -> None:
    """What ONNX's inference takes in 64 bits is not refused: data, seeds, and ends of slices that mean all."""
    for made, opset, right in (
        (node("Slice", ["x"], axes=[0, 1], starts=[-(2**63), 1], ends=[2**63 - 1, 2**63 - 1]), 9, X[:, 1:]),
        (node("Constant", [], value_int=HUGE), 21, np.array(HUGE)),
        (node("Constant", [], value_ints=[HUGE, -HUGE]), 21, np.array([HUGE, -HUGE])),
        (node("Shape", ["x"], start=-HUGE, end=HUGE), 21, np.array(X.shape)),
        (node("Dropout", ["x"], seed=HUGE), 13, X),
        (node("TfIdfVectorizer", ["i"], max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0], ngram_indexes=[0, 1],
              pool_int64s=[HUGE, 3]), 21, np.array([2, 1], np.float32)),
    ):  # fmt: skip
        given = {"x": X, "i": np.array([HUGE, 3, HUGE])}
        used = {name: given[name] for name in made.input}
        got = run(model([made], used, {"y": right}, opset=opset), used)["y"]
        np.testing.assert_array_equal(got, right, err_msg=made.op_type)
    fails([node("Shape", ["x"], end=HUGE), node("Flatten", ["x"], ["z"], axis=HUGE)], "attribute axis must fit 32 bits", result=np.array(X.shape))


def test_rows_that_do_not_divide_into_heads() -> None:
    rows = floats(1, 2, 8)
    one = node("Attention", ["x", "x", "x"], q_num_heads=3, kv_num_heads=2)
    fails([one], "the 8 elements of a row of Q do not divide into 3 heads", data=rows, result=rows, opset=23)


def test_values_that_nobody_or_everybody_makes() -> None:
    fails([node("Relu", ["nothing"])], "input 'nothing'")
    fails([node("Relu", ["x"], ["z"])], "'y' is not an output of any node")
    fails([node("Relu", ["x"]), node("Neg", ["x"])], "'y' has been used as output names multiple times")
    fails([node("Relu", ["x"], ["x"]), node("Relu", ["x"])], "'x' has been used")


def test_ranks_and_sizes_that_do_not_fit() -> None:
    fails([node("Conv", ["x", "w"])], "Conv.*the_conv", weights={"w": floats(4, 2, 3)})
    fails([node("MatMul", ["x", "w"])], "MatMul.*the_matmul", weights={"w": floats(4, 2)})
    fails([node("Add", ["x", "w"])], "Add.*the_add", weights={"w": floats(2, 4)})
    fails([node("Reshape", ["x", "s"])], "Reshape.*the_reshape", weights={"s": np.array([4, 2])})
    fails([node("Transpose", ["x"], perm=[0, 1, 2])], "Transpose.*the_transpose")
    fails([node("Concat", ["x", "w"], axis=0)], "Concat.*the_concat", weights={"w": floats(2, 4)})


def test_what_only_our_inference_refuses() -> None:
    """ONNX's inference lets these pass."""
    image = floats(1, 4, 5, 5)
    fails(
        [node("Conv", ["x", "w"])],
        "Conv \"the_conv\" .*dimension 1 of operand 'w' must be 4",
        data=image,
        result=image,
        weights={"w": floats(8, 3, 3, 3)},
    )
    fails(
        [node("Conv", ["x", "w", "b"])],
        'Conv "the_conv" .*one value for each of the 8 channels',
        data=image,
        result=image,
        weights={"w": floats(8, 4, 3, 3), "b": floats(7)},
    )


def test_element_types_that_do_not_fit() -> None:
    fails([node("Add", ["x", "w"])], "the_add", weights={"w": np.zeros((2, 3))})
    fails([node("Sqrt", ["x"])], "the_sqrt.*unsupported type", data=np.zeros((2, 3), np.int64), result=np.zeros((2, 3), np.int64))


def test_attributes_of_the_wrong_kind() -> None:
    made = node("LeakyRelu", ["x"])
    made.attribute.append(AttributeProto(name="alpha", type=AttributeProto.INT, i=1))
    fails([made], "alpha")
    fails([node("Relu", ["x"], colour=1)], "Unrecognized attribute: colour")
    fails([node("Einsum", ["x"], equation=b"\xff\xff")], "the_einsum.*equation")


@pytest.mark.parametrize("shape", [[HUGE], [1 << 20, 1 << 20], [1 << 62, 4], [0, 1 << 62], [-5]])
def test_absurd_sizes_are_refused_before_anything_is_allocated(shape: list[int]) -> None:
    result = np.zeros((1,) * len(shape), np.float32)
    kind = ModelError if min(shape) < 0 else LimitError
    fails([node("ConstantOfShape", ["s"])], "the_constantofshape|ConstantOfShape", kind, result=result, weights={"s": np.array(shape)})
    fails([node("Expand", ["one", "s"])], "the_expand", kind, result=result, weights={"s": np.array(shape), "one": np.ones(1, np.float32)})
    fails([node("Reshape", ["x", "s"])], "the_reshape", result=result, weights={"s": np.array(shape)})


@pytest.mark.parametrize(
    ("made", "weights"),
    [
        (node("Tile", ["x", "w"]), {"w": np.array([HUGE, 1])}),
        (node("Pad", ["x", "w"]), {"w": np.array([0, 0, HUGE, 0])}),
        (node("Range", ["start", "limit", "delta"]), {"start": np.array(0), "limit": np.array(HUGE), "delta": np.array(1)}),
        (node("OneHot", ["i", "depth", "values"]), {"i": np.array([1, 2]), "depth": np.array(HUGE), "values": np.array([0, 1], np.float32)}),
        (node("Resize", ["x", "", "scales"]), {"scales": np.array([1e6, 1e6], np.float32)}),
        (node("ConvTranspose", ["image", "filter"], strides=[1 << 30, 1 << 30]), {"image": floats(1, 1, 3, 3), "filter": floats(1, 1, 2, 2)}),
        (node("EyeLike", ["w"]), {"w": np.zeros((1, 1))}),
    ],
)
def test_absurd_results_of_nodes(made: onnx.NodeProto, weights: dict[str, np.ndarray]) -> None:
    result = {"Range": np.zeros(1, np.int64), "ConvTranspose": floats(1, 1, 1, 1), "EyeLike": np.zeros((1, 1))}.get(made.op_type, X)
    proto = model([made], {"x": X}, {"y": result}, weights)
    if made.op_type == "EyeLike":  # as large as its input, which is large by declaration only
        proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("w", TensorProto.DOUBLE, [1 << 15, 1 << 15]))
        del proto.graph.initializer[:]
    with pytest.raises((LimitError, UnsupportedError), match=f"the_{made.op_type.lower()}"):
        import_model(proto, context())


@pytest.fixture(autouse=True)
def much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits that a machine with much memory has, on every machine."""
    monkeypatch.setattr("stepwell.dialects.support.limits.memory_of_process", lambda: 1 << 40)


def test_absurd_inputs() -> None:
    proto = model([node("Relu", ["x"])], {"x": X}, {"y": X})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = HUGE
    with pytest.raises(
        LimitError, match=r"input 'x': a value of type tensor<1099511627776x3xf32> would take 13194139533312 bytes; at most 17179869184"
    ):
        import_model(proto, context())


@pytest.mark.parametrize(
    "made",
    [
        node("LayerNormalization", ["x", "s"], axis=1 << 31),
        node("LayerNormalization", ["x", "s"], axis=(1 << 63) - 1),
        node("GatherND", ["x", "i"], batch_dims=-3),
        node("Split", ["x"], num_outputs=1 << 31),
        node("Flatten", ["x"], axis=-(1 << 63)),
    ],
)
def test_attributes_that_onnx_does_not_survive(made: onnx.NodeProto) -> None:
    """ONNX 1.23's shape inference crashes or hangs on these."""
    fails([made], f"{made.op_type} .the_{made.op_type.lower()}.: attribute", weights={"s": floats(3), "i": np.array([[1]])})


def test_long_vectors_do_not_slow_inference() -> None:
    """ONNX's propagation of data takes a vector of 2^31 elements for a shape of as many dimensions."""
    nodes = [node("Add", ["x", "x"], ["t"]), node("NonZero", ["t"], ["n"]), node("Mul", ["t", "t"])]
    proto = model(nodes, {"x": floats(1)}, {"y": floats(1)})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 31
    import_model(proto, context())


def test_graphs_nested_deeply() -> None:
    """As deep as the parser of protocol buffers goes; deeper ones it refuses."""
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 3])
    other = helper.make_graph([node("Neg", ["x"], ["r"])], "other", [], [result])
    inner = node("Neg", ["x"], ["r"])
    for _ in range(29):
        inner = node("If", ["c"], ["r"], then_branch=helper.make_graph([inner], "branch", [], [result]), else_branch=other)
    proto = model([inner, node("Identity", ["r"])], {"x": X, "c": np.array(True)}, {"y": X})
    np.testing.assert_array_equal(run(proto, {"x": X, "c": np.array(True)})["y"], -X)
    data = proto.graph.SerializeToString()
    for _ in range(30):  # a graph in an attribute in a node in a graph, and so on
        for number in (6, 5, 1):
            data = bytes([number << 3 | 2]) + _varint(len(data)) + data
    with pytest.raises(ModelError, match="cannot be decoded"):
        import_model(bytes([7 << 3 | 2]) + _varint(len(data)) + data, context())


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


@pytest.fixture(scope="module")
def samples() -> list[bytes]:
    """Models of some of ONNX's own operator tests."""
    return [case.model for case in cases()[::6]]


def survives(source: bytes | ModelProto) -> None:
    """Importing works or raises an error of ours that is no admission of a mistake."""
    with contextlib.suppress(InputError, LimitError, ModelError, UnsupportedError):
        import_model(source, context())


@pytest.mark.parametrize("seed", by_day(range(8), [0]))
def test_random_damage_of_bytes(seed: int, samples: list[bytes]) -> None:
    rnd = random.Random(seed)
    for data in rnd.choices(samples, k=150):
        damaged = bytearray(data)
        for _ in range(rnd.randint(1, 3)):
            at = rnd.randrange(len(damaged))
            kind = rnd.randrange(4)
            if kind == 0:
                del damaged[at:]
                damaged += b"\x00"
            elif kind == 1:
                del damaged[at : at + rnd.randint(1, 8)]
                damaged += b"\x00"
            elif kind == 2:
                damaged[at:at] = rnd.randbytes(rnd.randint(1, 8))
            else:
                damaged[at] = rnd.randrange(256)
        survives(bytes(damaged))


WILD = [-1, 0, 1, 2, 3, 7, -2, 100, 1 << 16, (1 << 31) - 1, 1 << 31, HUGE, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 31)]


def spoil(proto: ModelProto, rnd: random.Random, operators: list[str]) -> None:
    """Change one thing: an attribute, an input, an operator, a declared type, the opset, the order."""
    graph = proto.graph
    made = rnd.choice(list(graph.node))
    kind = rnd.randrange(9)
    if kind < 3 and made.attribute:
        attribute = rnd.choice(list(made.attribute))
        if attribute.type == AttributeProto.INT:
            attribute.i = rnd.choice(WILD)
        elif attribute.type == AttributeProto.INTS:
            attribute.ints.append(rnd.choice(WILD))
        elif attribute.type == AttributeProto.FLOAT:
            attribute.f = rnd.choice([0.0, -1.0, math.nan, math.inf, -math.inf])
        elif attribute.type == AttributeProto.STRING:
            attribute.s = rnd.choice([b"", b"x", b"\xff", b"SAME_UPPER", b"linear"])
        elif attribute.type == AttributeProto.TENSOR:
            attribute.t.dims[:] = [rnd.choice(WILD)]
    elif kind == 3 and made.input:
        made.input[rnd.randrange(len(made.input))] = rnd.choice(["", "nothing", *(i.name for i in graph.input)])
    elif kind == 4:
        made.op_type = rnd.choice(operators)
    elif kind == 5 and graph.input:
        dims = rnd.choice(list(graph.input)).type.tensor_type.shape.dim
        if dims:
            rnd.choice(list(dims)).dim_value = rnd.choice(WILD)
    elif kind == 6 and graph.input:
        rnd.choice(list(graph.input)).type.tensor_type.elem_type = rnd.choice([1, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 99])
    elif kind == 7:
        proto.opset_import[0].version = rnd.choice([1, 6, 7, 9, 11, 13, 18, 21, 28, 29, -1, HUGE])
    elif kind == 8 and graph.input:
        value = rnd.choice(list(graph.input))
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == TensorProto.INT64 and 0 <= math.prod(dims) < 100:
            data = np.array([rnd.choice(WILD[:-1]) for _ in range(math.prod(dims))], np.int64).reshape(dims)
            graph.initializer.append(numpy_helper.from_array(data, value.name))


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_of_models(seed: int, samples: list[bytes]) -> None:
    rnd = random.Random(100 + seed)
    operators = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
    for data in rnd.choices(samples, k=150):
        proto = ModelProto.FromString(data)
        for _ in range(rnd.choice([1, 1, 2])):
            spoil(proto, rnd, operators)
        for output in proto.graph.output:  # declared shapes would stop most of them early
            for dim in output.type.tensor_type.shape.dim:
                dim.Clear()
        survives(proto)
