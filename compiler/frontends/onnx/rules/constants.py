"""Rules for values known at compile time, or computed from shapes alone."""

import math

import numpy as np
from onnx import TensorProto

from stepwell.border.operators.moving import ConstantNumbers
from stepwell.dialects.core.dtypes import compute_dtype, dtype_info
from stepwell.dialects.core.mlir import defining_op
from stepwell.dialects.core.sizes import Size, holds, is_static, maximum, static_sizes
from stepwell.dialects.core.types import TensorType, from_numpy, is_float, to_numpy, type_of
from stepwell.dialects.graph.builder import LITERAL_ELEMENTS
from stepwell.dialects.support.errors import LimitError, ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import COUNTED, counting, size_scalar, sizes_of
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.layout import inferred_reshape
from stepwell.frontends.onnx.tensors import our_dtype

SPLAT_BYTES = 1 << 20  # a larger tensor of one repeated number is filled at run time


def constant_tensor(b: ImportBuilder, array: np.ndarray) -> Value:
    """A literal if `array` is small, else a weight named after the node's output. Raises LimitError if constants would take too much memory."""
    if array.size <= LITERAL_ELEMENTS:
        return b.literal(array)
    objection = b.budget.objection(array.nbytes, 0)
    if objection is not None:
        raise LimitError(f"it is a constant, but {objection}")
    b.budget.spend(array.nbytes, 0)
    return b.weight(b.node.output_names[0], array)


@onnx_rule("Constant", since=1)
def constant(b: ImportBuilder, *, numbers: ConstantNumbers) -> Value:
    given = numbers.arrays()
    if len(given) != 1:
        raise ModelError("it must have exactly one of the attributes value, value_float, value_floats, value_int, value_ints")
    return constant_tensor(b, given[0])


@onnx_rule("ConstantOfShape", since=9)
def constant_of_shape(b: ImportBuilder, shape: Value, *, value: np.ndarray | None = None) -> Value:
    element = np.zeros(1, np.float32) if value is None else value
    if element.size != 1:
        raise ModelError(f"value must have one element, got shape {list(element.shape)}")
    wanted = b.known_sizes(shape, "the shape")
    if wanted is None:
        one = b.literal(element.reshape(()))
        types = inferred_reshape(b, type_of(one), type_of(shape).shape, b.partial_sizes(shape))
        return b.dynamic_expand(one, b.with_shape(shape, (types[0].rank,)), result_types=types)
    if not is_static(wanted):
        return b.expand(b.literal(element.reshape(())), shape=wanted)
    sizes = tuple(static_sizes(wanted))
    if min(sizes, default=0) < 0:
        raise ModelError(f"the shape {list(sizes)} has a negative size")
    tensor = TensorType(from_numpy(element.dtype), sizes)
    b.check_size(tensor)
    if tensor.elements > LITERAL_ELEMENTS and (tensor.bytes > SPLAT_BYTES or b.budget.objection(tensor.bytes, 0) is not None):
        return b.expand(b.literal(element.reshape(())), shape=sizes)  # filled at run time
    return constant_tensor(b, np.broadcast_to(element.reshape(()), sizes))  # takes the memory of one element


@onnx_rule("Shape", since=1)
def shape_of(b: ImportBuilder, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    return sizes_of(b, x, range(type_of(x).rank)[start:end])


@onnx_rule("Size", since=1)
def size(b: ImportBuilder, x: Value) -> Value:
    return size_scalar(b, math.prod(dims_of(x)), like=b.literal(np.array(0, np.int64)))


@onnx_rule("Range", since=11)
def range_(b: ImportBuilder, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Value:
    if stash_type != TensorProto.FLOAT and compute_dtype(type_of(start).dtype) != type_of(start).dtype:
        raise UnsupportedError(f"stash_type={stash_type} is not supported for {type_of(start).dtype}; supported: 1 (float)")
    bounds = [b.with_shape(v, ()) for v in (start, limit, delta)]
    if any(b.constant_value(v) is None for v in bounds):
        counted = symbolic_count(b, *bounds)
        if counted is not None:
            return b.range(*bounds, result_types=[TensorType(type_of(start).dtype, (counted,))])
        b.require_if_given(bounds, "start, limit and delta")
        return b.range(*bounds)
    first, last, step = (b.known_scalar(v, "start, limit and delta") for v in (start, limit, delta))
    if step == 0 or not all(math.isfinite(v) for v in (first, last, step)):
        raise ModelError(f"start, limit and delta must be finite, and delta not 0; got {first}, {last}, {step}")
    count = max(math.ceil((last - first) / step), 0) if isinstance(step, float) else len(range(first, last, step))
    tensor = TensorType(type_of(start).dtype, (count,))
    b.check_size(tensor)
    if count > COUNTED:
        return b.range(*bounds, result_types=[tensor])
    wide = np.int64 if isinstance(step, int) else to_numpy(compute_dtype(tensor.dtype))
    return constant_tensor(b, (np.array(first, wide) + np.arange(count).astype(wide) * np.array(step, wide)).astype(to_numpy(tensor.dtype)))


def symbolic_count(b: ImportBuilder, start: Value, limit: Value, delta: Value) -> int | Size | None:
    """The number of elements of a range with symbols; None if it is not such a range, or its step is unknown."""
    found = [b.symbolic_scalar(uncast(v), "an input") for v in (start, limit, delta)]
    first, last, step = found
    if first is None or last is None or not isinstance(step, int) or step == 0:
        return None
    if is_float(type_of(start).dtype):  # which has all whole numbers up to here
        most = 1 << dtype_info(type_of(start).dtype).precision
        if not all(holds(size, ">=", 0) and holds(size, "<=", most) for size in (first, last)):
            return None
    distance = last - first if step > 0 else first - last
    return maximum(0, -(-distance // abs(step)))


def uncast(value: Value) -> Value:
    """The integers from which floats were cast, or else the value itself."""
    op = defining_op(value)
    while op is not None and op.name == "graph.reshape":
        op = defining_op(op.operands[0])
    if op is not None and op.name == "graph.cast" and is_float(type_of(value).dtype) and not is_float(type_of(op.operands[0]).dtype):
        return op.operands[0]
    return value


@onnx_rule("EyeLike", since=9)
def eye_like(b: ImportBuilder, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    shape = dims_of(x)
    if len(shape) != 2:
        raise ModelError(f"its input must have rank 2, got {type_of(x)}")
    wanted = type_of(x).dtype if dtype is None else our_dtype(dtype)
    if not is_static(shape):
        one, zero = (b.literal(np.array(number, to_numpy(wanted))) for number in (1, 0))
        rows, columns = (counting(b, size, axis, 2) for axis, size in enumerate(shape))
        return b.select(b.equal(columns, b.add(rows, b.scalar(k, like=rows))), one, zero)
    dims = tuple(static_sizes(shape))
    b.check_size(TensorType(wanted, dims))
    if math.prod(dims) > 1 << 24:
        raise UnsupportedError(f"of {type_of(x)} is not supported; supported: up to 2^24 elements")
    return constant_tensor(b, np.eye(dims[0], dims[1], k=k, dtype=to_numpy(wanted)))


@onnx_rule("MelWeightMatrix", since=17)
def mel_weight_matrix(b: ImportBuilder, bins: Value, dft_length: Value, rate: Value, low: Value, high: Value, *, output_datatype: int = 1) -> Value:
    """A constant, since all inputs must be known."""
    count, length, samples = (int(b.known_scalar(v, "an input")) for v in (bins, dft_length, rate))
    edges = [float(b.known_scalar(v, "an input")) for v in (low, high)]
    if count < 1 or length < 1 or samples < 1 or min(edges) < 0:
        raise ModelError(f"its inputs must be positive, got {count}, {length}, {samples} and {edges}")
    rows = length // 2 + 1
    b.check_size(TensorType("f64", (rows, count)))
    if rows * count > 1 << 24:
        raise UnsupportedError(f"of {rows} by {count} elements is not supported; supported: up to 2^24 elements")
    mel = [2595 * math.log10(1 + edge / 700) for edge in edges]
    points = mel[0] + np.arange(count + 2) * (mel[1] - mel[0]) / (count + 2)
    places = np.floor((length + 1) * (700 * (10 ** (points / 2595) - 1)) / samples).astype(np.int64)
    out = np.zeros((rows, count), to_numpy(our_dtype(output_datatype)))
    for i in range(count):
        lower, centre, upper = places[i : i + 3]
        for j in range(lower, centre + 1):
            out[j, i] = 1 if centre == lower else (j - lower) / (centre - lower)
        for j in range(centre, upper) if upper > centre else ():
            out[j, i] = (upper - j) / (upper - centre)
    return constant_tensor(b, out)
