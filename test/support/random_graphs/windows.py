"""What goes over windows or samples: convolutions, poolings, resampling, transforms."""

import math
from typing import Any

import numpy as np
from random_graphs.movement import ints
from random_graphs.net import Declined, Net, Value
from random_graphs.operators import operator
from random_graphs.reductions import channels

from stepwell.dialects.core.dtypes import to_numpy


def window(net: Net, x: Value, *, most: int = 4, ceil: bool = False) -> dict[str, Any]:
    """Kernel, strides, pads and dilations that fit the spatial sizes of `x`."""
    spatial = x.shape[2:]
    kernel = [net.r.integer(1, min(most, n + 1)) for n in spatial]
    chosen: dict[str, Any] = {"kernel_shape": kernel}
    if net.r.boolean():
        chosen["strides"] = [net.r.integer(1, 3) for _ in spatial]
    if net.r.integer(0, 3) == 0:
        chosen["dilations"] = [net.r.integer(1, 2) for _ in spatial]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, chosen.get("dilations", [1] * len(spatial)), strict=True)]
    kind = net.r.integer(0, 4)
    pads = [0] * 2 * len(spatial)
    if kind == 0:
        chosen["auto_pad"] = net.r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif kind > 1:
        pads = [net.r.integer(0, min(2, k - 1)) for k in (*kernel, *kernel)]
        chosen["pads"] = pads
    if ceil and net.r.integer(0, 3) == 0 and kind:
        chosen["ceil_mode"] = 1
    for i, n in enumerate(spatial):
        if n + pads[i] + pads[i + len(spatial)] < reach[i] and chosen.get("auto_pad") not in ("SAME_UPPER", "SAME_LOWER"):
            raise Declined("a window larger than the data")
        stride = chosen.get("strides", [1] * len(spatial))[i]
        steps = -(-(n + pads[i] + pads[i + len(spatial)] - reach[i]) // stride)
        if "ceil_mode" in chosen and net.opset < 22 and steps * stride >= n + pads[i]:
            raise Declined("a last window that begins behind the data, which ONNX's inference of shapes counts before opset 22, and nobody else")
    return chosen


@operator("Conv")
def conv(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank >= 3 and v.array.size > 0 and v.array.size < 3000, lambda: net.shape(3, 4))
    group = net.r.choice([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    filters = group * net.r.choice([1, 1, 2, 3, 16 if group == 1 else 2])
    chosen = window(net, x)
    if net.r.integer(0, 3) == 0 and all(n >= 3 for n in x.shape[2:]):
        chosen = {"kernel_shape": [3] * (x.rank - 2), "pads": [1] * 2 * (x.rank - 2)}
    w = net.fresh(x.dtype, (filters, x.shape[1] // group, *chosen["kernel_shape"]), -1, 1, constant=bool(net.r.integer(0, 4)))
    net.node(op_type, x, w, net.fresh(x.dtype, (filters,)) if net.r.boolean() else None, group=group, **chosen)


@operator("DeformConv")
def deform_conv(net: Net, op_type: str) -> None:
    r = net.r
    x = net.pick(net.dtype(op_type), lambda v: v.rank == 4 and 0 < v.array.size < 800, lambda: (r.integer(1, 2), *r.integers(3, 1, 6)))
    groups = [g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0]
    group, moved = r.choice(groups), r.choice(groups)
    chosen = window(net, x, most=3)
    if "auto_pad" in chosen:
        raise Declined("it has no auto_pad")
    kernel, pads = chosen["kernel_shape"], chosen.get("pads", [0] * 4)
    strides, dilations = chosen.get("strides", [1, 1]), chosen.get("dilations", [1, 1])
    out = [(n + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i, n in enumerate(x.shape[2:])]
    w = net.fresh(x.dtype, (group * r.integer(1, 3), x.shape[1] // group, *kernel), -1, 1)
    taps = moved * math.prod(kernel)
    offset = net.fresh(x.dtype, (x.shape[0], 2 * taps, *out), -2, 2, tame=True)
    bias = net.fresh(x.dtype, (w.shape[0],)) if r.boolean() else None
    mask = net.fresh(x.dtype, (x.shape[0], taps, *out), 0, 1, tame=True) if r.boolean() else None
    net.node(op_type, x, w, offset, bias, mask, group=group, offset_group=moved, **chosen)


@operator("ConvTranspose")
def conv_transpose(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank >= 3 and v.array.size > 0 and v.array.size < 1500, lambda: net.shape(3, 4))
    group = net.r.choice([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    kernel = net.r.integers(x.rank - 2, 1, 3)
    w = net.fresh(x.dtype, (x.shape[1], net.r.integer(1, 3), *kernel), -1, 1)
    strides = net.r.integers(x.rank - 2, 1, 3)
    chosen: dict[str, Any] = {"strides": strides}
    if net.r.boolean():
        chosen["pads"] = [net.r.integer(0, k - 1) for k in (*kernel, *kernel)]
    if net.r.integer(0, 3) == 0:
        chosen["output_padding"] = [net.r.integer(0, s - 1) for s in strides]
    if net.r.integer(0, 4) == 0:
        chosen["dilations"] = net.r.integers(x.rank - 2, 1, 2)
    bias = net.fresh(x.dtype, (w.shape[1] * group,)) if net.r.boolean() else None
    net.node(op_type, x, w, bias, group=group, **chosen)


@operator("MaxPool", "AveragePool", "LpPool")
def pooling(net: Net, op_type: str) -> None:
    x = channels(net, op_type, 3)
    chosen = window(net, x, ceil=net.opset >= {"MaxPool": 11, "AveragePool": 19, "LpPool": 18}[op_type])
    if "dilations" in chosen and net.opset < {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op_type]:
        del chosen["dilations"]
    if op_type == "AveragePool":
        counted = net.r.choice([None, 1])
        chosen["count_include_pad"] = counted if net.opset >= 7 else None
    if op_type == "LpPool":
        chosen["p"] = power(net, net.r.choice([None, 1, 3]))
    places = op_type == "MaxPool" and net.r.integer(0, 3) == 0
    net.node(op_type, x, outputs=2 if places else 1, storage_order=1 if places and net.r.integer(0, 3) == 0 else None, **chosen)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole(net: Net, op_type: str) -> None:
    net.node(op_type, channels(net, op_type, 3), p=power(net, net.r.choice([None, 1])) if op_type == "GlobalLpPool" else None)


def power(net: Net, p: int | None) -> float | None:
    """The attribute p, which was a float once."""
    return p if p is None or net.opset > 1 else float(p)


def images(net: Net, dtypes: list[str]) -> Value:
    """Small ones, of a few channels."""
    return net.pick(dtypes, lambda v: v.rank == 4 and 0 < v.array.size < 600, lambda: (*net.r.integers(2, 1, 3), *net.r.integers(2, 2, 6)))


@operator("Resize")
def resize(net: Net, op_type: str) -> None:
    mode = net.r.choice(["nearest", "nearest", "linear", "cubic"])
    x = images(net, ["f32", "f32", "f64", "f16"])
    modes = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", *(["half_pixel_symmetric"] if net.opset >= 19 else [])]
    chosen = {"mode": mode, "coordinate_transformation_mode": net.r.choice(modes)}
    if mode == "nearest":
        chosen["nearest_mode"] = net.r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode != "nearest" and net.opset >= 18 and net.r.integer(0, 3) == 0:
        chosen["antialias"] = 1
    roi = None if net.opset >= 13 else np.zeros(0, np.float32)
    if net.opset < 11:
        scales = [net.r.choice([0.5, 0.6, 1.5, 2.0, 2.6, 3.0]) for _ in range(2)]
        net.node(op_type, x, np.array([1, 1, *scales], np.float32), mode=mode if mode != "cubic" else "linear")
    elif net.r.boolean():
        net.node(op_type, x, roi, np.array([1, 1, *(net.r.choice([0.5, 0.6, 1.5, 2.0, 2.6, 3.0]) for _ in range(2))], np.float32), **chosen)
    else:
        empty = None if net.opset >= 13 else np.zeros(0, np.float32)
        net.node(op_type, x, roi, empty, ints(*x.shape[:2], *net.r.integers(2, 1, 9)), **chosen)


@operator("GridSample")
def grid_sample(net: Net, op_type: str) -> None:
    modes = ["bilinear", "nearest", "bicubic"] if net.opset < 20 else ["linear", "nearest", "cubic"]
    x = images(net, ["f32", "f32", "f64"])
    grid = net.fresh(x.dtype, (x.shape[0], *net.r.integers(2, 1, 4), 2), -1.2, 1.2, tame=True)
    padding = net.r.choice(["zeros", "border", "reflection"])
    net.node(op_type, x, grid, mode=net.r.choice(modes), padding_mode=padding, align_corners=net.r.choice([None, 1]))


@operator("RoiAlign")
def roi_align(net: Net, op_type: str) -> None:
    r = net.r
    x = images(net, net.dtypes(op_type))
    count, scale = r.integer(0 if r.integer(0, 9) == 0 else 1, 4), r.choice([None, 0.5, 2.0])
    corners = r.generator.uniform(-1, max(x.shape[2:]) + 1, (count, 4)) / (scale or 1)
    if r.boolean():
        corners = np.sort(corners.reshape(count, 2, 2), axis=1).reshape(count, 4)
    net.named += 1
    rois = net.keep(Value(f"x{net.named}", corners.astype(x.array.dtype), r.boolean()))
    chosen: dict[str, Any] = {"mode": r.choice([None, "avg", "max"]), "sampling_ratio": r.choice([None, 0, 1, 2, 3]), "spatial_scale": scale}
    if net.opset >= 16:
        chosen["coordinate_transformation_mode"] = r.choice([None, "half_pixel", "output_half_pixel"])
    chosen |= {name: r.choice([None, 1, 2, 5]) for name in ("output_height", "output_width")}
    net.node(op_type, x, rois, net.fresh("i64", (count,), 0, x.shape[0] - 1, tame=True), **chosen)


@operator("MaxRoiPool")
def max_roi_pool(net: Net, op_type: str) -> None:
    r = net.r
    x = images(net, ["f32"])
    count, scale = r.integer(1, 4), r.choice([None, 0.5, 2.0])
    corners = np.round(r.generator.uniform(-2, max(x.shape[2:]) + 2, (count, 4)) * 8) / 8
    rois = np.column_stack([r.generator.integers(0, x.shape[0], count), corners / (scale or 1)]).astype(x.array.dtype)
    net.named += 1
    places = net.keep(Value(f"x{net.named}", rois, r.boolean()))
    net.node(op_type, x, places, spatial_scale=scale, pooled_shape=r.integers(2, 1, 4))


@operator("AffineGrid")
def affine_grid(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    rank = net.r.choice([2, 2, 3])
    n, c, *spatial = net.r.integers(2 + rank, 1, 4)
    net.node(op_type, net.fresh(dtype, (n, rank, rank + 1), -1, 1), ints(n, c, *spatial), align_corners=net.r.choice([None, 1]))


@operator("Col2Im")
def col2im(net: Net, op_type: str) -> None:
    dtype = net.one_of(["f32", "f32", "f64", "f16"])
    image, block = net.r.integers(2, 3, 6), net.r.integers(2, 1, 3)
    blocks = math.prod(i - b + 1 for i, b in zip(image, block, strict=True))
    n, c = net.r.integers(2, 1, 3)
    net.node(op_type, net.fresh(dtype, (n, c * math.prod(block), blocks)), ints(*image), ints(*block))


@operator("MaxUnpool")
def max_unpool(net: Net, op_type: str) -> None:
    if net.chained:
        x = net.pick("f32", lambda v: v.rank == 4 and v.array.size > 0 and all(n % 2 == 0 for n in v.shape[2:]), lambda: (1, 2, 4, 6))
        pooled, places = net.node("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    else:
        pooled = net.fresh(net.dtype(op_type), [max(n, 1) for n in net.shape(3, 4)])
        apart = [2 * n for n in pooled.shape[2:]]
        corners = [2 * i + net.r.generator.integers(0, 2, pooled.shape) for i in np.indices(pooled.shape)[2:]]  # of each window, any element
        flat = np.ravel_multi_index([*np.indices(pooled.shape)[:2], *corners], (*pooled.shape[:2], *apart))
        net.named += 1
        places = net.keep(Value(f"x{net.named}", np.asarray(flat, np.int64), net.r.boolean()))
    rank = pooled.rank - 2
    net.node(op_type, pooled, places, kernel_shape=[2] * rank, strides=[2] * rank)


@operator("DFT")
def dft(net: Net, op_type: str) -> None:
    def fits(v: Value) -> bool:
        return v.rank >= 3 and v.shape[-1] in (1, 2) and v.array.size > 0

    x = net.pick(["f32", "f64"], fits, lambda: (*net.r.integers(2, 1, 6), net.r.integer(1, 2)))
    axis = net.r.integer(0, x.rank - 2)
    inverse = net.r.choice([None, 1])
    if net.opset >= 20:
        net.node(op_type, x, None, np.array(axis), inverse=inverse)
    else:
        net.node(op_type, x, axis=axis, inverse=inverse)


@operator("STFT")
def stft(net: Net, op_type: str) -> None:
    r = net.r
    dtype = net.dtype(op_type)
    parts = r.choice([1, 1, 2])
    samples, size = r.integer(4, 20), r.integer(1, 9)
    x = net.fresh(dtype, (r.integer(1, 3), max(samples, size), parts))
    weights = net.fresh(dtype, (size,), 0.1, 1, tame=True) if r.integer(0, 2) else None
    length = np.array(size) if weights is None or r.boolean() else None
    onesided = 0 if parts == 2 else r.choice([None, 0, 1])
    net.node(op_type, x, np.array(r.integer(1, size + 1)), weights, length, onesided=onesided)


@operator("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def signal_window(net: Net, op_type: str) -> None:
    if op_type == "MelWeightMatrix":
        net.node(op_type, *(np.array(v) for v in (8, 16, 8000)), np.array(0.0, np.float32), np.array(4000.0, np.float32))
    else:
        net.node(op_type, np.array(net.r.integer(2, 12), to_numpy(net.dtype(op_type))), periodic=net.r.choice([None, 0]))
