"""Which inputs of integers may hold any number: those that nothing reads as indices, sizes or counts."""

import numpy as np
import pytest
from every import every
from importing import context, floats, model, node
from onnx import NodeProto, TensorProto

from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.frontends.onnx import import_model

I64, I32, I8, U8 = np.int64, np.int32, np.int8, np.uint8
TABLE = {"e": floats(30, 4), "w": np.ones((4, 3), I8), "axis": np.array([0]), "two": np.array(2)}

CASES: list[tuple[str, type, tuple[int, ...], list[NodeProto], bool]] = [
    ("added", I64, (3,), [node("Add", ["x", "x"])], True),
    ("multiplied", I8, (2, 4), [node("MatMulInteger", ["x", "w"])], True),
    ("quantised", U8, (2, 4), [node("DequantizeLinear", ["x", "s"])], True),
    ("as weights", I8, (4, 3), [node("Transpose", ["x"], ["t"]), node("MatMulInteger", ["w", "t"])], True),
    ("summed", I32, (3, 4), [node("ReduceSum", ["x", "axis"])], True),
    ("moved and compared", I64, (3,), [node("Concat", ["x", "x"], ["c"], axis=0), node("Equal", ["c", "c"])], True),
    ("bytes as floats", U8, (3,), [node("Cast", ["x"], to=TensorProto.FLOAT)], True),
    ("flags as floats", I64, (3,), [node("Cast", ["x"], to=TensorProto.FLOAT)], False),
    ("indices", I64, (3,), [node("Gather", ["e", "x"])], False),
    ("gathered from", I64, (3, 2), [node("Gather", ["x", "axis"])], True),
    ("indices, shifted", I64, (3,), [node("Add", ["x", "two"], ["i"]), node("Gather", ["e", "i"])], False),
    ("indices, cast", I32, (3,), [node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Gather", ["e", "i"])], False),
    ("indices, reshaped", I64, (2, 2), [node("Flatten", ["x"], ["i"]), node("Gather", ["e", "i"])], False),
    ("indices and numbers", I64, (3,), [node("Mul", ["x", "x"]), node("Gather", ["e", "x"], ["g"])], False),
    ("a start", I64, (1,), [node("Slice", ["e", "x", "end"])], False),
    ("a count", I64, (1,), [node("TopK", ["e", "x"], ["v", "y"], axis=1)], False),
    ("repeats", I64, (2,), [node("Tile", ["e", "x"])], False),
    ("scattered", I64, (3, 4), [node("ScatterElements", ["zeros", "places", "x"], axis=0)], True),
    ("places to scatter to", I64, (3, 4), [node("ScatterElements", ["zeros", "x", "places"], axis=0)], False),
    ("lengths", I64, (4,), [node("ReverseSequence", ["e", "x"], batch_axis=1, time_axis=0)], False),
]  # fmt: skip
MORE = {"s": np.float32(0.1), "end": np.array([3]), "zeros": np.zeros((5, 4), I64), "places": np.zeros((3, 4), I64)}


@pytest.mark.filterwarnings("ignore:.*without a type")
@every(("what", "dtype", "shape", "nodes", "anything"), CASES, ids=[case[0] for case in CASES])
def test_what_an_input_may_hold(what: str, dtype: type, shape: tuple[int, ...], nodes: list[NodeProto], anything: bool) -> None:
    used = {name for one in nodes for name in one.input}
    weights = {name: np.asarray(array) for name, array in (TABLE | MORE).items() if name in used}
    proto = model(nodes, {"x": np.zeros(shape, dtype)}, {}, weights, opset=21)
    proto.graph.output.add().name = "y"
    imported = import_model(proto, context())
    with imported.module.context:
        assert list(ModuleInfo(imported.module).any_integers) == (["x"] if anything else [])
