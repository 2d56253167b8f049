"""Rules for com.microsoft's products with low-bit weights."""

from typing import Literal

import numpy as np

from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import slice_axis, with_new_axes
from stepwell.frontends.builder import Value, static_dims
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.contractions import matmul
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT
from stepwell.frontends.onnx.rules.quantization import dequantized

ACCURACY = {"accuracy_level": 0}  # says how much precision of `x` may be given up: none is


@onnx_rule("MatMulNBits", since=1, domain=MICROSOFT, fixed={"weight_prepacked": 0}, ignored=ACCURACY)
def matmul_n_bits(
    b: ImportBuilder,
    x: Value,
    weights: Value,
    scales: Value,
    zero_points: Value | None = None,
    g_idx: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,
    N: int,
    bits: Literal[2, 4, 8] = 4,
    block_size: int,
) -> Value:
    """`x w^T + bias`, where the weights (N, K) are `(number - zero point) * scale` with a scale and a zero point for each block along K."""
    if g_idx is not None:
        raise UnsupportedError("the input g_idx is not supported; supported: to leave it out")
    if block_size < 16 or block_size & (block_size - 1) or min(K, N) < 1:
        raise ModelError(f"block_size must be a power of two from 16 on, K and N 1 or more; got {block_size}, {K} and {N}")
    blocks, dtype = -(-K // block_size), type_of(x).dtype
    numbers = unpacked(b, shaped(b, weights, (N, blocks, block_size * bits // 8), "the weights"), bits)
    factors = with_new_axes(b, shaped(b, scales, (N, blocks), "the scales"), [2])
    if zero_points is not None and is_float(type_of(zero_points).dtype):
        zeros = with_new_axes(b, shaped(b, zero_points, (N, blocks), "the zero points"), [2])
        values = b.mul(b.sub(b.convert(numbers, dtype), zeros), factors)
    else:
        if zero_points is None:
            zeros = b.literal(np.array(1 << (bits - 1), np.uint8))
        else:
            packed = shaped(b, zero_points, (N, -(-blocks * bits // 8)), "the zero points")
            zeros = with_new_axes(b, slice_axis(b, unpacked(b, packed, bits), 1, 0, blocks), [2])
        values = b.convert(dequantized(b, numbers, factors, zeros), dtype)
    matrix = slice_axis(b, b.reshape(values, shape=(N, blocks * block_size)), 1, 0, K)
    product = matmul(b, x, b.transposed(matrix, (1, 0)))
    return product if bias is None else b.add(product, bias)


def shaped(b: ImportBuilder, x: Value, shape: tuple[int, ...], what: str) -> Value:
    """`x` in a shape that it has, or whose number of elements it has. Raises ModelError otherwise."""
    have = static_dims(x, what)
    if have != shape and (len(have) != 1 or have[0] != np.prod(shape)):
        raise ModelError(f"{what} must be {list(shape)}, or a vector of as many elements; got {type_of(x)}")
    return b.with_shape(x, shape)


def unpacked(b: ImportBuilder, x: Value, bits: int) -> Value:
    """The numbers of `bits` bits in the bytes of the last dimension, the low bits first."""
    if type_of(x).dtype != "ui8":
        raise ModelError(f"packed numbers must be bytes (uint8), got {type_of(x)}")
    if bits == 8:
        return x
    kind = type_of(x)
    shifts = b.literal(np.arange(0, 8, bits, dtype=np.uint8))
    parts = b.bitwise_and(b.shift_right(with_new_axes(b, x, [kind.rank]), shifts), b.literal(np.array((1 << bits) - 1, np.uint8)))
    return b.reshape(parts, shape=(*static_dims(x, "packed numbers")[:-1], -1))
