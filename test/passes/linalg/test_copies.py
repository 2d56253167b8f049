"""Copies of whole stretches of memory, compiled: of sizes that cut into equal blocks and of others, and between other elements."""

from typing import Any

import numpy as np
import onnx
from every import every
from native_checks import check_model, natively_together
from onnx import helper, numpy_helper

RNG = np.random.default_rng(31)

# op, shapes of its operands, their counterpart in numpy, attributes, a further operand that is constant
COPIES: list[tuple[str, list[tuple[int, ...]], Any, dict[str, Any], list[int]]] = [
    ("Concat", [(8, 1, 768), (8, 196, 768)], lambda *x: np.concatenate(x, 1), {"axis": 1}, []),
    ("Concat", [(3, 40, 40, 40), (3, 41, 40, 40)], lambda *x: np.concatenate(x, 1), {"axis": 1}, []),
    ("Concat", [(100003,), (7,), (65536,)], lambda *x: np.concatenate(x, 0), {"axis": 0}, []),
    ("Concat", [(2, 70000), (2, 70001)], lambda *x: np.concatenate(x, 1), {"axis": 1}, []),
    ("Transpose", [(3, 5, 20011)], lambda x: x.transpose(1, 0, 2), {"perm": [1, 0, 2]}, []),
    ("Transpose", [(300, 400)], lambda x: x.T, {"perm": [1, 0]}, []),
    ("Expand", [(8, 1, 32768)], lambda x: np.broadcast_to(x, (8, 3, 32768)), {}, [8, 3, 32768]),
    ("Expand", [(400, 1)], lambda x: np.broadcast_to(x, (400, 500)), {}, [400, 500]),
    ("Tile", [(70001,)], lambda x: np.tile(x, 3), {}, [3]),
]  # fmt: skip


def model_of(op: str, arrays: list[np.ndarray], result: np.ndarray, attributes: dict[str, Any], constant: list[int]) -> onnx.ModelProto:
    """A model of one op whose operands are the arrays and, if there is one, the constant."""
    names = [f"x{i}" for i in range(len(arrays))]
    node = helper.make_node(op, [*names, *(["c"] if constant else [])], ["y"], **attributes)
    ins = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, arrays, strict=True)]
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(result.dtype), result.shape)
    weights = [numpy_helper.from_array(np.array(constant), "c")] if constant else []
    return helper.make_model(helper.make_graph([node], "copy", ins, [out], weights), opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


@natively_together
@every("dtype", [np.float32, np.int8, np.bool_, np.float64])
@every(("op", "shapes", "expected", "attributes", "constant"), COPIES)
def test_copies(op: str, shapes: list[tuple[int, ...]], expected: Any, attributes: dict[str, Any], constant: list[int], dtype: Any) -> None:
    arrays = [RNG.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype) for shape in shapes]
    result = expected(*arrays)
    made, inputs = model_of(op, arrays, result, attributes, constant), {f"x{i}": array for i, array in enumerate(arrays)}
    check_model(made, inputs, lambda got: np.testing.assert_array_equal(got["y"], result), threads=(1, 2))
