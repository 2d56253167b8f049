"""ONNX Runtime's results for element types that it has and numpy has not."""

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx_ops import session

BITS = {2: np.uint16, 1: np.uint8}  # that stand for the elements of numpy's extensions
FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)


def run(model: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What ONNX Runtime gives by output. Raises whatever it raises where it has no such node or type, or does not hand it out."""
    proto = onnx.load_from_string(model)
    declared = {value.name: value.type.tensor_type.elem_type for value in proto.graph.output}
    names = {name: f"{name}.wide" if kind == TensorProto.BFLOAT16 else name for name, kind in declared.items()}
    for name, wide in names.items():
        if wide != name:  # it has no way to hand them out; f32 has all numbers of bf16
            proto.graph.node.append(helper.make_node("Cast", [name], [wide], to=TensorProto.FLOAT))
            next(value for value in proto.graph.output if value.name == name).CopyFrom(helper.make_tensor_value_info(wide, TensorProto.FLOAT, None))
    runtime = session(proto.SerializeToString())
    used = {value.name for value in runtime.get_inputs()}
    values = runtime.run_with_ort_values(list(names.values()), {name: given(array) for name, array in inputs.items() if name in used})
    return {name: received(value.numpy(), kind) for (name, kind), value in zip(declared.items(), values, strict=True)}


def given(array: np.ndarray) -> onnxruntime.OrtValue:
    """An operand as it takes it."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    if kind == TensorProto.BFLOAT16 or kind in FLOAT8:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(np.asarray(array, order="C").view(BITS[array.itemsize]), kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def received(array: np.ndarray, kind: int) -> np.ndarray:
    """A result in the type that was declared."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if kind in FLOAT8 and array.dtype == np.uint8:
        return array.view(dtype)
    return array.astype(dtype) if kind == TensorProto.BFLOAT16 else array
