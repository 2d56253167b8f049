"""Translation between Python values and MLIR attributes: one rule for every field of our dialects."""

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import DTYPES, dtype_of, element_type, from_numpy, is_compact, to_numpy
from stepwell.dialects.support.errors import ElementTypeError, InferenceError, StepwellError

Sizes = ir.DenseI64ArrayAttr | ir.ArrayAttr
"""The kind of a field that lists sizes: integers, or text for dynamic ones."""


def to_attribute(value: Any, kind: Any = None) -> ir.Attribute:
    """The attribute for a Python value; `kind` (the field's attribute class) decides where the value is ambiguous.

    int -> i64, float -> f64, bool -> BoolAttr, str -> StringAttr (TypeAttr for a dtype field), ints -> DenseI64ArrayAttr,
    other sequences -> ArrayAttr, dict -> DictAttr, ndarray -> DenseElementsAttr. Raises StepwellError for anything else.
    """
    if isinstance(value, ir.Attribute):
        return value
    if kind is ir.TypeAttr:
        return ir.TypeAttr.get(element_type(value))
    if kind is ir.FloatAttr or isinstance(value, (float, np.floating)):
        return ir.FloatAttr.get(ir.F64Type.get(), float(value))
    if isinstance(value, (bool, np.bool_)):
        return ir.BoolAttr.get(bool(value))
    if isinstance(value, (int, np.integer)):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, np.ndarray):
        return dense(value)
    if isinstance(value, dict):
        return ir.DictAttr.get({k: to_attribute(v) for k, v in value.items()})
    if isinstance(value, (tuple, list)):
        if any(isinstance(v, Size) for v in value):
            return ir.ArrayAttr.get([ir.StringAttr.get(str(v)) if isinstance(v, Size) else to_attribute(v) for v in value])
        if kind in (ir.DenseI64ArrayAttr, Sizes) or (kind is None and value and all(isinstance(v, (int, np.integer)) for v in value)):
            return ir.DenseI64ArrayAttr.get([int(v) for v in value])
        return ir.ArrayAttr.get([to_attribute(v) for v in value])
    raise StepwellError(f"no attribute for a value of type {type(value).__name__}: {value!r}")


def to_python(attribute: ir.Attribute) -> Any:
    """The Python value of an attribute (inverse of `to_attribute`). Raises InferenceError for a kind without fields."""
    read = _READ.get(type(attribute))
    if read is not None:
        return read(attribute)
    if isinstance(attribute, ir.DenseElementsAttr):  # of several classes
        return dense_value(attribute)
    raise InferenceError(f"attribute {attribute} is of a kind that no field has")


_READ: dict[type, Callable[[Any], Any]] = {
    ir.ArrayAttr: lambda attribute: tuple(map(to_python, attribute)),
    ir.BoolAttr: lambda attribute: bool(attribute.value),
    ir.DenseI64ArrayAttr: tuple,
    ir.DictAttr: lambda attribute: {entry.name: to_python(entry.attr) for entry in attribute},
    ir.FloatAttr: lambda attribute: attribute.value,
    ir.IntegerAttr: lambda attribute: attribute.value,
    ir.StringAttr: lambda attribute: attribute.value,
    ir.TypeAttr: lambda attribute: dtype_of(attribute.value),
}


def sizes_value(attribute: ir.Attribute) -> tuple[int | Size, ...]:
    """The sizes that an attribute of the kind `Sizes` lists. Raises InferenceError if an entry is no size."""
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return tuple(attribute)
    entries = to_python(attribute)
    if not isinstance(attribute, ir.ArrayAttr) or not all(isinstance(entry, (int, str)) for entry in entries):
        raise InferenceError(f"expected sizes as numbers or text, got {attribute}")
    return tuple(parse(entry) if isinstance(entry, str) else entry for entry in entries)


def dense(array: np.ndarray) -> ir.DenseElementsAttr:
    """A dense attribute of tensor type with the elements of `array`, also for booleans and bfloat16. Raises ElementTypeError for compact types."""
    dtype = _computed(from_numpy(array.dtype))
    mlir_type = ir.RankedTensorType.get(list(array.shape), element_type(dtype))
    if array.size == 0:
        return ir.DenseElementsAttr(ir.Attribute.parse(f"dense<> : {mlir_type}"))
    data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    if dtype == "bf16":
        data = data.view(np.uint16)
    return ir.DenseElementsAttr.get(data, type=mlir_type)


def dense_value(attribute: ir.DenseElementsAttr) -> np.ndarray:
    """The array in a dense attribute. Raises ElementTypeError for compact types, which no constant has."""
    tensor_type = ir.RankedTensorType(attribute.type)
    dtype = _computed(dtype_of(tensor_type.element_type))
    shape = [tensor_type.get_dim_size(i) for i in range(tensor_type.rank)]
    if dtype == "bf16":
        return _bf16_value(attribute, shape)
    if attribute.is_splat:
        value = attribute.get_splat_value().value
        return np.full(shape, value, dtype=to_numpy(dtype))
    return np.array(attribute).reshape(shape).copy()


def _computed(dtype: str) -> str:
    if is_compact(dtype):
        raise ElementTypeError(f"a constant of element type {dtype} is not supported; supported: {', '.join(DTYPES)}")
    return dtype


def _bf16_value(attribute: ir.DenseElementsAttr, shape: list[int]) -> np.ndarray:
    # The buffer protocol and the iterator of the bindings do not support bfloat16, so read the printed form: decimal numbers, `0x…` bits
    # for NaN and infinities, or one string of hexadecimal bytes for a large array.
    text = str(attribute).removeprefix("dense<").rsplit("> : ", 1)[0]
    if text.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(text[3:-1]), dtype=ml_dtypes.bfloat16).reshape(shape)
    bits = [
        np.uint16(int(token, 16)) if token.startswith("0x") else np.float32(token).astype(ml_dtypes.bfloat16).view(np.uint16)
        for token in re.findall(r"[^\[\], ]+", text)
    ]
    values = np.array(bits, dtype=np.uint16).view(ml_dtypes.bfloat16)
    return np.full(shape, values[0]) if values.size == 1 else values.reshape(shape)
