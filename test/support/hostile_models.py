"""A corpus of small hostile models: what each is called, and how to make its bytes. Nothing here is large before somebody believes it."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Value = onnx.ValueInfoProto
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
CORPUS: dict[str, Callable[[], bytes]] = {}
Made = TypeVar("Made", bytes, onnx.ModelProto)


def hostile(make: Callable[..., Made]) -> Callable[..., Made]:
    """Decorator: add a model to the corpus under the function's name."""
    CORPUS[make.__name__] = lambda: data if isinstance(data := make(), bytes) else data.SerializeToString()
    return make


def value(name: str, shape: Sequence[Any], kind: int = FLOAT) -> Value:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto], x: Sequence[Any], y: Sequence[Any], weights: dict[str, Any] | None = None, **fields: Any
) -> onnx.ModelProto:
    """A model from `x` to `y`; `kind` and `into` are their element types."""
    kinds = fields.pop("kind", FLOAT), fields.pop("into", FLOAT)
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "hostile", [value("x", x, kinds[0])], [value("y", y, kinds[1])], initializers)
    imports = [helper.make_opsetid("", 21), *fields.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **fields)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), list(outputs), **attributes)


def single(kind: str, name: str, inputs: Sequence[str], weights: dict[str, Any], rank: int = 1, x: Sequence[Any] = (4,), **attributes: Any) -> None:
    """Add a model of one node."""

    def make() -> onnx.ModelProto:
        return model([node(kind, inputs, **attributes)], x, [f"d{i}" for i in range(rank)], weights)

    make.__name__ = name
    hostile(make)


FAR = 1 << 40
single("Tile", "tile_far", ["x", "n"], {"n": np.array([FAR])})
single("Tile", "tile_1e9", ["x", "n"], {"n": np.array([10**9])})
single("Expand", "expand_far", ["x", "s"], {"s": np.array([FAR, 4])}, 2)
single("Expand", "expand_overflow", ["x", "s"], {"s": np.array([1 << 62, 1 << 62, 4])}, 3)
single("Pad", "pad_far", ["x", "p"], {"p": np.array([FAR, FAR])})
single("Pad", "pad_negative_overflow", ["x", "p"], {"p": np.array([-(1 << 62), (1 << 62)])})
single("Resize", "resize_1e9", ["x", "", "s"], {"s": np.array([1e9], np.float32)})
single("Resize", "resize_nearly_0", ["x", "", "s"], {"s": np.array([1e-30], np.float32)}, mode="linear", antialias=1)
single("Resize", "resize_nan", ["x", "", "s"], {"s": np.array([np.nan], np.float32)})
single("Resize", "resize_audio", ["x", "", "s"], {"s": np.array([1, 1, 2], np.float32)}, 3, (1, 1, 30_000), mode="linear")
single("Resize", "resize_down", ["x", "", "s"], {"s": np.array([1e-5], np.float32)}, 1, (1_000_000,), mode="cubic", antialias=1)
single("TopK", "topk_far", ["x", "k"], {"k": np.array([FAR])})
single("OneHot", "onehot_1e12", ["i", "d", "v"], {"i": np.array([1]), "d": np.array(10**12), "v": np.array([0, 1], np.float32)}, 2)
single("CumSum", "cumsum_far", ["x", "a"], {"a": np.array(1 << 62)})
single("Reshape", "reshape_rank_100", ["x", "s"], {"s": np.array([4] + [1] * 99)}, 100)
single("Reshape", "reshape_rank_64", ["x", "s"], {"s": np.array([4] + [1] * 63)}, 64)
single("Reshape", "reshape_overflow", ["x", "s"], {"s": np.array([1 << 62, 4])}, 2)
single("Reshape", "reshape_empty_far", ["x", "s"], {"s": np.array([0, 1 << 62])}, 2, (0,), allowzero=1)
single("Unsqueeze", "unsqueeze_far", ["x", "a"], {"a": np.array([1 << 62])}, 2)
single("Squeeze", "squeeze_far", ["x", "a"], {"a": np.array([-(1 << 63)])}, 0)
LEAST, MOST = -(1 << 63), (1 << 63) - 1
for _name, _bounds in (("slice_far", (LEAST, MOST, 0, 1 << 62)), ("slice_back", (MOST, LEAST, 0, LEAST))):
    single("Slice", _name, ["x", "b", "e", "a", "s"], {k: np.array([v]) for k, v in zip("beas", _bounds, strict=True)})
single("MaxPool", "pool_far", ["x"], {}, 3, (1, 1, 8), kernel_shape=[1 << 40])
single("MaxPool", "pool_stride_far", ["x"], {}, 3, (1, 1, 8), kernel_shape=[2], strides=[(1 << 63) - 1])
single("AveragePool", "pool_pads_far", ["x"], {}, 3, (1, 1, 8), kernel_shape=[2], pads=[1 << 40, 1 << 40])
single("Conv", "conv_dilation_far", ["x", "w"], {"w": np.ones((1, 1, 2), np.float32)}, 3, (1, 1, 8), dilations=[1 << 62])
single("Conv", "conv_group_far", ["x", "w"], {"w": np.ones((1, 1, 2), np.float32)}, 3, (1, 1, 8), group=1 << 40)
single("ConvTranspose", "conv_transpose_far", ["x", "w"], {"w": np.ones((1, 1, 2), np.float32)}, 3, (1, 1, 8), strides=[1 << 40])
single("Einsum", "einsum_garbage", ["x"], {}, 1, equation="i->i,,->" * 1000)
single("Einsum", "einsum_outer", ["x", "x", "x", "x"], {}, 4, (5000,), equation="a,b,c,d->abcd")
single("GatherND", "gather_far", ["x", "i"], {"i": np.array([[1 << 62]])})
single("Trilu", "trilu_far", ["x", "k"], {"k": np.array(1 << 62)}, 2, (4, 4))
single("Transpose", "transpose_twice_the_same", ["x"], {}, 2, (4, 4), perm=[0, 0])
LONG: dict[str, Any] = {"a" * 1_000_000: 1.0}
single("LeakyRelu", "attribute_long_name", ["x"], {}, **LONG)
single("DepthToSpace", "blocks_far", ["x"], {}, 4, (1, 4, 2, 2), blocksize=1 << 40)
single("Split", "split_1e5_wrong", ["x"], {}, 1, num_outputs=1 << 40)


@hostile
def range_1e12() -> onnx.ModelProto:
    return model([node("Range", ["a", "b", "c"])], [4], ["n"], {"a": np.array(0), "b": np.array(10**12), "c": np.array(1)}, into=INT64)


@hostile
def split_into_many() -> onnx.ModelProto:
    names = [f"p{i}" for i in range(5000)]
    return model([node("Split", ["x"], names, axis=0, num_outputs=5000), node("Identity", ["p7"])], [5000], [1])


@hostile
def concat_of_many() -> onnx.ModelProto:
    return model([node("Concat", ["x"] * 3000, axis=0)], [4], [12000])


@hostile
def constant_2_32() -> onnx.ModelProto:
    nodes = [node("ConstantOfShape", ["s"], ["t"]), node("Add", ["t", "x"], ["u"]), node("ReduceSum", ["u"], keepdims=0)]
    return model(nodes, [1], [], {"s": np.array([1 << 16, 1 << 16])})


@hostile
def constant_as_shape() -> onnx.ModelProto:
    one = helper.make_tensor("one", INT64, [1], [1])
    return model([node("ConstantOfShape", ["s"], ["t"], value=one), node("Reshape", ["x", "t"])], [1], ["n"], {"s": np.array([10**8])})


@hostile
def concat_doubled() -> onnx.ModelProto:
    nodes = [node("Concat", [f"t{i}", f"t{i}"], [f"t{i + 1}"], axis=0) for i in range(28)]
    return model([*nodes, node("ReduceSum", ["t28"], ["r"], keepdims=0), node("Add", ["r", "x"])], [1], [1], {"t0": np.array([1.5], np.float32)})


@hostile
def folded_sums() -> onnx.ModelProto:
    nodes = [node("ConstantOfShape", ["s"], ["t0"]), *(node("Add", [f"t{i}", "k"], [f"t{i + 1}"]) for i in range(2000))]
    return model([*nodes, node("Add", ["t2000", "x"])], [1 << 18], [1 << 18], {"s": np.array([1 << 18]), "k": np.array([0.5], np.float32)})


@hostile
def folded_products() -> onnx.ModelProto:
    nodes = [node("ConstantOfShape", ["s"], ["t0"]), *(node("MatMul", [f"t{i}", "t0"], [f"t{i + 1}"]) for i in range(60))]
    return model([*nodes, node("Add", ["t60", "x"])], [500, 500], [500, 500], {"s": np.array([500, 500])})


@hostile
def nested_loops(trips: int = 100) -> onnx.ModelProto:
    def body(level: int) -> onnx.GraphProto:
        inputs = [value(f"i{level}", [], INT64), value(f"c{level}", [], BOOL), value(f"v{level}", [4])]
        inner = node("Loop", ["n", f"c{level}", f"v{level}"], [f"r{level}"], body=body(level + 1)) if level < 4 else node("Neg", ["v4"], ["r4"])
        outputs = [value(f"d{level}", [], BOOL), value(f"r{level}", [4])]
        return helper.make_graph([node("Identity", [f"c{level}"], [f"d{level}"]), inner], f"level{level}", inputs, outputs)

    return model([node("Loop", ["n", "go", "x"], body=body(1))], [4], [4], {"n": np.array(trips), "go": np.array(True)})


@hostile
def nested_short_loops() -> onnx.ModelProto:
    """As nested_loops, of so few rounds that all are unrolled, in a tenth of the time."""
    return nested_loops(5)


def branches(depth: int) -> onnx.ModelProto:
    result = value("r", [4])
    other = helper.make_graph([node("Neg", ["x"], ["r"])], "other", [], [result])
    inner = node("Neg", ["x"], ["r"])
    for _ in range(depth):
        inner = node("If", ["go"], ["r"], then_branch=helper.make_graph([inner], "branch", [], [result]), else_branch=other)
    return model([node("ReduceSum", ["x"], ["s"], keepdims=0), node("Cast", ["s"], ["go"], to=BOOL), inner, node("Identity", ["r"])], [4], [4])


@hostile
def nested_branches() -> onnx.ModelProto:
    return branches(29)


@hostile
def nested_branches_200(depth: int = 200) -> bytes:
    """As nested_branches, deeper than protobuf reads, and so written without it."""
    result = value("r", [4])
    graph = helper.make_graph([node("Neg", ["x"], ["r"])], "inner", [], [result]).SerializeToString()
    branch = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH).SerializeToString()
    other = helper.make_attribute("else_branch", helper.make_graph([node("Neg", ["x"], ["r"])], "other", [], [result]))
    for level in range(depth):
        made = node("If", ["go"], ["r"], else_branch=other.g).SerializeToString() + nested(5, branch + nested(6, graph))
        around = helper.make_graph([], "branch", [], [result])
        if level == depth - 1:
            around = model([node("ReduceSum", ["x"], ["s"], keepdims=0), node("Cast", ["s"], ["go"], to=BOOL)], [4], [4]).graph
            around.output[0].name = "r"
        graph = around.SerializeToString() + nested(1, made)
    return helper.make_model(onnx.GraphProto(), opset_imports=[helper.make_opsetid("", 21)]).SerializeToString() + nested(7, graph)


def nested(field: int, message: bytes) -> bytes:
    """A field of a message that is a message itself, as protobuf writes it; what comes twice is joined."""
    count, length = len(message), b""
    while count > 127:
        count, length = count >> 7, length + bytes([count & 127 | 128])
    return bytes([field << 3 | 2]) + length + bytes([count]) + message


def calls(names: Sequence[str], callees: Sequence[str]) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", name, ["a"], ["b"], [node(callee, ["a"], ["b"], domain="own" if callee != "Neg" else "")], imports)
        for name, callee in zip(names, callees, strict=True)
    ]
    return model([node(names[0], ["x"], domain="own")], [4], [4], imports=[helper.make_opsetid("own", 1)], functions=functions)


@hostile
def function_of_itself() -> onnx.ModelProto:
    return calls(["F"], ["F"])


@hostile
def functions_in_a_circle() -> onnx.ModelProto:
    return calls(["F", "G", "H"], ["G", "H", "F"])


@hostile
def functions_90_deep() -> onnx.ModelProto:
    return calls([f"F{i}" for i in range(90)], [*(f"F{i + 1}" for i in range(89)), "Neg"])


@hostile
def functions_1000_deep() -> onnx.ModelProto:
    return calls([f"F{i}" for i in range(1000)], [*(f"F{i + 1}" for i in range(999)), "Neg"])


@hostile
def cycle() -> onnx.ModelProto:
    return model([node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"])], [4], [4])


@hostile
def names_of_all_kinds() -> onnx.ModelProto:
    names = ["x", "a\0b", "new\nline", '"quoted\\"', "ünï-cødé-☃", "n" * 100_000, "%0", "@main", "y"]
    return model([node("Neg", [a], [b], name=b) for a, b in pairwise(names)], [4], [4])


@hostile
def names_that_are_the_same() -> onnx.ModelProto:
    return model([node("Neg", ["x"], ["t"], name="n"), node("Neg", ["t"], ["u"], name="n"), node("Neg", ["u"], name="n")], [4], [4])


@hostile
def input_of_rank_100() -> onnx.ModelProto:
    return model([node("Neg", ["x"])], [1] * 100, [1] * 100)


@hostile
def input_far() -> onnx.ModelProto:
    return model([node("Neg", ["x"])], [1 << 62, 1 << 62], [1 << 62, 1 << 62])


@hostile
def input_negative() -> onnx.ModelProto:
    return model([node("Neg", ["x"])], [-5], [-5])


@hostile
def values_of_8_gigabytes() -> onnx.ModelProto:
    return model([node("Neg", ["x"], ["t"]), node("Transpose", ["t"], ["u"]), node("Exp", ["u"])], [1 << 15, 1 << 16], [1 << 16, 1 << 15])


@hostile
def chain_of_views() -> onnx.ModelProto:
    nodes = [node("Transpose", [f"t{i}" if i else "x"], [f"t{i + 1}"], perm=[1, 0]) for i in range(3000)]
    return model([*nodes, node("Identity", ["t3000"])], [4, 8], [4, 8])


@hostile
def chain_of_products() -> onnx.ModelProto:
    nodes = [node("MatMul", [f"t{i}" if i else "x", "w"], [f"t{i + 1}"]) for i in range(300)]
    return model([*nodes, node("Identity", ["t300"])], [4, 32], [4, 32], {"w": np.eye(32, dtype=np.float32)[::-1]})


def chain(kind: str, count: int) -> onnx.ModelProto:
    """A chain of `count` nodes of a kind, for `scripts/hostile.py`."""
    weights = {"w": np.eye(32, dtype=np.float32)[::-1], "tall": np.array([32, 4]), "wide": np.array([4, 32])}
    weights |= {"row": np.ones((1, 32), np.float32), "zero": np.array([0]), "four": np.array([4])}
    nodes, last = [], "x"
    for i in range(count):
        made = f"t{i}"
        nodes.append(
            {
                "elementwise": lambda: node(("Sigmoid", "Tanh")[i % 2], [last], [made]),  # noqa: B023 (called at once)
                "transposes": lambda: node("Transpose", [last], [made], perm=[1, 0]),  # noqa: B023
                "reshapes": lambda: node("Reshape", [last, ("tall", "wide")[i % 2]], [made]),  # noqa: B023
                "sums": lambda: node("Add", [last, ("x", last)[i % 2]], [made]),  # noqa: B023
                "mixed": lambda: node("Transpose", [last], [made], perm=[1, 0]) if i % 2 else node("Sigmoid", [last], [made]),  # noqa: B023
                "viewed": lambda: node("Reshape", [last, ("tall", "wide")[i // 2 % 2]], [made]) if i % 2 == 0 else node("Tanh", [last], [made]),  # noqa: B023
                "joined": lambda: node("Concat", [last, "row"], [made], axis=0) if i % 2 == 0 else node("Slice", [last, "zero", "four"], [made]),  # noqa: B023
                "products": lambda: node("MatMul", [last, "w"], [made]) if i % 2 == 0 else node("Add", [last, "x"], [made]),  # noqa: B023
            }[kind]()
        )
        last = made
    used = {name for made in nodes for name in made.input}
    return model([*nodes, node("Identity", [last])], [4, 32], ["a", "b"], {name: array for name, array in weights.items() if name in used})


CHAINS = ("elementwise", "transposes", "reshapes", "sums", "mixed", "viewed", "joined", "products")


@hostile
def no_nodes() -> onnx.ModelProto:
    return model([], [4], [4])


@hostile
def nothing() -> bytes:
    return b""


@hostile
def no_graph() -> onnx.ModelProto:
    return onnx.ModelProto(ir_version=10)


@hostile
def cut_off() -> bytes:
    return CORPUS["chain_of_products"]()[:-100]


def external(location: str, length: str) -> onnx.ModelProto:
    made = model([node("Add", ["x", "w"])], [4], [4])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="length", value=length)
    made.graph.initializer.append(tensor)
    return made


@hostile
def external_above() -> onnx.ModelProto:
    return external("../../../../../../etc/passwd", "16")


@hostile
def external_device() -> onnx.ModelProto:
    return external("/dev/zero", "16")


@hostile
def external_length() -> onnx.ModelProto:
    return external("w.bin", "9" * 1000)


@hostile
def weight_of_another_length() -> onnx.ModelProto:
    made = model([node("Add", ["x", "w"])], [4], [4])
    made.graph.initializer.append(TensorProto(name="w", data_type=FLOAT, dims=[1 << 30], raw_data=b"1234"))
    return made


def lower_model(data: bytes) -> str:
    """As `compile_model`, down to the level affine."""
    import stepwell

    try:
        stepwell.lower(data, "affine")
    except stepwell.StepwellError as error:
        return str(error)
    return "lowered"


def compile_model(data: bytes) -> str:
    """Compile a model; what came of it: "compiled", or a typed error's text. Runs in a watched process."""
    import stepwell

    try:
        stepwell.compile(data, threads=1, cache=False)
    except stepwell.StepwellError as error:
        return str(error)
    return "compiled"
