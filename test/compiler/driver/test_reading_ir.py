"""IR that is read back has to take and return what its module says: code reads as much memory as it was made for."""

import numpy as np
import pytest
from every import every
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import IRError
from stepwell.pipelines.routes import CPU_PATH


def lowered(level: str) -> stepwell.Lowered:
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.arange(32, dtype=np.float32).reshape(8, 4), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Cast", ["u"], ["c"], to=TensorProto.FLOAT)]
    sides = [[value("x", TensorProto.FLOAT, [3, 8]), value("u", TensorProto.UINT8, [2])], [value("y", 1, [3, 4]), value("c", 1, [2])]]
    graph = helper.make_graph(nodes, "g", *sides, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return stepwell.lower(model, level)


@pytest.mark.parametrize("level", CPU_PATH)
def test_what_was_written_is_read(level: str) -> None:
    written = lowered(level)
    assert stepwell.read_ir(written.text(), level, written.weights).level == level


@every("level", [level for level in CPU_PATH if level != CPU_PATH.last])
@every(
    ("old", "new"),
    [
        ('[["x", tensor<3x8xf32>]', '[["x", tensor<8x3xf32>]'),
        ('[["x", tensor<3x8xf32>]', '[["x", tensor<3x8xf16>]'),
        ('[["x", tensor<3x8xf32>], ["u", tensor<2xui8>]]', '[["x", tensor<3x8xf32>]]'),
        ('[["x", tensor<3x8xf32>]', '[["z", tensor<1xf32>], ["x", tensor<3x8xf32>]'),
        ('["u", tensor<2xui8>]', '["u", tensor<3xui8>]'),
        ('["y", tensor<3x4xf32>]', '["y", tensor<4x3xf32>]'),
        ('["y", tensor<3x4xf32>], ["c", tensor<2xf32>]', '["y", tensor<3x4xf32>]'),
        ('["y", tensor<3x4xf32>]', '["y", tensor<3x4xi32>]'),
    ],
)
def test_a_module_that_says_something_else_than_its_main_is_refused(level: str, old: str, new: str) -> None:
    written = lowered(level)
    text = written.text()
    assert old in text
    with pytest.raises(IRError, match=r"@main must (take|return) \(.*\), as the module's attributes say; it is a \("):
        stepwell.read_ir(text.replace(old, new), level, written.weights)


def test_weights_come_in_memory() -> None:
    text = """module attributes {stepwell.inputs = [["x", tensor<4xf32>]], stepwell.outputs = [["y", tensor<4xf32>]]} {
      func.func @main(%x: tensor<4xf32>, %w: tensor<0xi8>) -> tensor<4xf32> {
        return %x : tensor<4xf32>
      }
    }"""
    with pytest.raises(IRError, match=r"@main must take \(4xf32, memref<\?xi8>\)"):
        stepwell.read_ir(text, "linalg", WeightTable())
    assert stepwell.read_ir(text.replace("tensor<0xi8>", "memref<?xi8>"), "linalg", WeightTable()).level == "linalg"
