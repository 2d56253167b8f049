"""Quantised data: to them and from them with one scale, one for each index of an axis or for each block, and products of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper
from random_graphs.compact import EXPONENTS, SMALL_FLOATS, is_float
from random_graphs.net import Declined, Net, Value
from random_graphs.operators import operator
from random_graphs.windows import window

from stepwell.dialects.core.dtypes import is_compact, to_numpy

# --- operands


def data(net: Net, dtype: str, shape: Sequence[int]) -> Value:
    """Quantised data: of narrow types any number, of wider ones small ones."""
    low, high = (np.iinfo(to_numpy(dtype)).min, np.iinfo(to_numpy(dtype)).max) if dtype in ("i8", "ui8") else (-300, 300)
    return net.fresh(dtype, shape, low, high, tame=True)


def positive(net: Net, dtype: str, shape: Sequence[int], low: float = 0.02, high: float = 0.4) -> Value:
    """Scales."""
    if dtype == EXPONENTS:
        net.named += 1
        return net.keep(Value(f"c{net.named}", net.r.generator.integers(122, 128, tuple(shape)).astype(np.uint8).view(to_numpy(dtype)), True))
    low, high = (low, high) if is_float(dtype) else (1, 7)
    return net.fresh(dtype, shape, low, high, constant=bool(net.r.integer(0, 3)), tame=True)


def alignment(net: Net, x: Value) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of a scale of `x`, and the attributes that say what it is for."""
    kinds = ["one", "one", *(["axis"] * 2 if net.opset >= 13 and x.rank else []), *(["blocks"] * 2 if net.opset >= 21 and x.rank else [])]
    kind = net.r.choice(kinds)
    if kind == "one":
        return net.r.choice([(), (), (1,)] if net.opset < 13 or x.rank else [()]), {}
    axis = net.r.integer(0, x.rank - 1)
    named = net.counted(axis, x.rank)
    if kind == "axis":
        if x.shape[axis] < 1:
            raise Declined("an axis of nothing")
        return (x.shape[axis],), {"axis": None if named == 1 and net.r.boolean() else named}
    size = net.r.integer(1, max(x.shape[axis], 1))
    if x.shape[axis] % size:
        size = net.r.choice([n for n in range(1, x.shape[axis] + 1) if x.shape[axis] % n == 0])
    return tuple(n // size if i == axis else n for i, n in enumerate(x.shape)), {"axis": named, "block_size": size}


def zeros(net: Net, dtype: str, shape: Sequence[int]) -> Value:
    """Zero points; those of floats are 0."""
    if dtype in SMALL_FLOATS:
        net.named += 1
        return net.keep(Value(f"c{net.named}", np.zeros(tuple(shape), to_numpy(dtype)), True))
    return data(net, dtype, shape)


# --- to them and from them


@operator("QuantizeLinear", stored=True)
def quantize(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank < 6)
    results = net.dtypes(op_type, 0, output=True)
    to = net.r.choice(net.r.choice([results, [d for d in results if d in ("i8", "ui8")]]))
    shape, chosen = alignment(net, x)
    scales = ["f32"] if net.opset < 19 else [x.dtype] if net.opset < 23 else net.dtypes(op_type, 1)
    scale = positive(net, net.r.choice(scales), shape, *net.r.choice([(0.02, 0.4), (0.002, 0.05)]))
    zero = zeros(net, to, shape) if (net.opset < 21 and to != "ui8") or net.r.integer(0, 2) else None
    if net.opset >= 21 and (zero is None or net.r.integer(0, 3) == 0):
        chosen["output_dtype"] = helper.np_dtype_to_tensor_dtype(to_numpy(to)) if zero is not None or to != "ui8" or net.r.boolean() else None
    if net.opset >= 19:
        chosen["saturate"] = net.r.choice([None, 0, 1])
    if net.opset >= 23:
        precision = net.r.choice([None, None, "f32", "f16", "bf16", "f64"])
        chosen["precision"] = None if precision is None else helper.np_dtype_to_tensor_dtype(to_numpy(precision))
    net.node(op_type, x, scale, zero, **chosen)


@operator("DequantizeLinear", stored=True)
def dequantize(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    if net.r.boolean() and not is_compact(dtype):
        x = net.pick(dtype, lambda v: v.rank < 6)
    else:
        x = data(net, dtype, net.shape())
    shape, chosen = alignment(net, x)
    scale = positive(net, "f32" if net.opset < 19 else net.r.choice(net.dtypes(op_type, 1)), shape)
    zero = zeros(net, dtype, shape) if dtype != "i32" and net.r.integer(0, 2) else None
    if net.opset >= 23 and (scale.dtype == EXPONENTS or net.r.integer(0, 2) == 0):
        to = net.r.choice([d for d in net.dtypes(op_type, 0, output=True) if is_float(d)])
        chosen["output_dtype"] = helper.np_dtype_to_tensor_dtype(to_numpy(to))
    net.node(op_type, x, scale, zero, **chosen)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(net: Net, op_type: str) -> None:
    net.node(op_type, net.pick("f32", lambda v: v.array.size > 0), outputs=3)


# --- products


@operator("MatMulInteger", "QLinearMatMul")
def matrices(net: Net, op_type: str) -> None:
    r = net.r
    left, right = (net.dtype(op_type, i) for i in ((0, 1) if op_type == "MatMulInteger" else (0, 3)))
    a = net.pick(left, lambda v: v.rank > 0 and v.array.size < 2000) if r.integer(0, 2) == 0 else data(net, left, net.shape(1, 3))
    k = a.shape[-1]
    b = data(net, right, [*net.smaller(a.shape[:-2]), k, net.shape(1, 1)[0]] if r.integer(0, 5) else [k])
    rows, columns = (), ()
    if r.integer(0, 2) == 0 and a.rank == 2 and b.rank == 2:
        rows, columns = r.choice([(), (a.shape[0],), (a.shape[0], 1)]), r.choice([(), (b.shape[1],), (1, b.shape[1])])
    if op_type == "MatMulInteger":
        net.node(op_type, a, b, data(net, left, rows) if r.boolean() else None, data(net, right, columns) if r.boolean() else None)
        return
    scales = "f32" if net.opset < 21 else r.choice(net.dtypes(op_type, 1))
    result = r.choice(net.dtypes(op_type, 7))
    operands = [a, positive(net, scales, rows), data(net, left, rows), b, positive(net, scales, columns), data(net, right, columns)]
    net.node(op_type, *operands, positive(net, scales, (), 1, 40), data(net, result, ()))


@operator("ConvInteger", "QLinearConv")
def convolution(net: Net, op_type: str) -> None:
    r = net.r
    image, filters = (net.dtype(op_type, i) for i in ((0, 1) if op_type == "ConvInteger" else (0, 3)))
    x = net.pick(image, lambda v: v.rank in (3, 4, 5) and 0 < v.array.size < 2000, lambda: [max(n, 1) for n in net.shape(3, 4)])
    group = r.choice([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    count = group * r.choice([1, 1, 2, 3])
    chosen = window(net, x)
    w = data(net, filters, (count, x.shape[1] // group, *chosen["kernel_shape"]))
    each = r.choice([(), (), (count,)])
    zero = data(net, image, ()), data(net, filters, each)
    if op_type == "ConvInteger":
        net.node(op_type, x, w, *(z if r.boolean() else None for z in zero), group=group, **chosen)
        return
    bias = net.fresh("i32", (count,), -500, 500, tame=True) if r.boolean() else None
    scales = positive(net, "f32", ()), positive(net, "f32", each), positive(net, "f32", (), 1, 40)
    last = data(net, r.choice(net.dtypes(op_type, 7)), ())
    net.node(op_type, x, scales[0], zero[0], w, scales[1], zero[1], scales[2], last, bias, group=group, **chosen)
