"""Models of strings and maps, and what ONNX Runtime computes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper
from other_domains import MICROSOFT, ML


def strings(*values: str) -> np.ndarray:
    """A vector of strings."""
    return np.array(values, object)


def column(*values: str) -> np.ndarray:
    """Strings as a matrix of one column."""
    return strings(*values).reshape(-1, 1)


def of_array(name: str, array: np.ndarray, sizes: Sequence[Any] | None = None) -> ValueInfoProto:
    """An input that takes such an array, by default of this shape."""
    kind = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, list(array.shape) if sizes is None else sizes)


def map_type(keys: int, values: int) -> TypeProto:
    return helper.make_map_type_proto(keys, helper.make_tensor_type_proto(values, []))


def maps(name: str, keys: int) -> ValueInfoProto:
    """An output of ZipMap."""
    return helper.make_value_info(name, helper.make_sequence_type_proto(map_type(keys, TensorProto.FLOAT)))


def build(
    nodes: Sequence[NodeProto], inputs: Sequence[ValueInfoProto], outputs: Sequence[Any], weights: Mapping[str, np.ndarray] | None = None,
    *, opset: int = 21, ml: int = 3,
) -> ModelProto:  # fmt: skip
    """A model; outputs are given as names, of any type, or as declarations."""
    tensors = [
        helper.make_tensor(name, of_array(name, a).type.tensor_type.elem_type, a.shape, a.reshape(-1).tolist()) for name, a in (weights or {}).items()
    ]
    results = [helper.make_empty_tensor_value_info(out) if isinstance(out, str) else out for out in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), results, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, ml), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def of_runtime(model: ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([out.name for out in session.get_outputs()], session.run(None, dict(inputs)), strict=True))


def assert_same(got: Any, want: Any) -> None:
    """Equal strings, types and shapes; numbers and the values of maps within a rounding or two."""
    if isinstance(want, list):
        assert isinstance(got, list)
        assert [row.keys() for row in got] == [row.keys() for row in want]
        for ours, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(list(ours.values()), [theirs[key] for key in ours], rtol=1e-5, atol=1e-6)
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype == object:
        assert got.tolist() == want.tolist()
        assert all(type(text) is str for text in got.reshape(-1))
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
