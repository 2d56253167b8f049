"""Products with weights of few bits, against numpy and ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import floats
from native_checks import natively_together
from onnx import NodeProto, helper
from other_domains import MICROSOFT, agree, check_native, model_of, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError

N, K, BLOCK = 5, 40, 16  # the last block is filled up
BLOCKS = -(-K // BLOCK)


def node(inputs: str, **attributes: Any) -> NodeProto:
    names = [n.replace("-", "") for n in inputs.split()]
    given = {"K": K, "N": N, "bits": 4, "block_size": BLOCK, **attributes}
    return helper.make_node("MatMulNBits", names, ["y"], name="few_bits", domain=MICROSOFT, **given)


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of the last dimension in bytes, the first ones in the low bits; filled up with zeros."""
    each = 8 // bits
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % each)]).reshape(*numbers.shape[:-1], -1, each)
    return np.bitwise_or.reduce(padded.astype(np.uint8) << np.arange(0, 8, bits, dtype=np.uint8), axis=-1).astype(np.uint8)


@natively_together
@every("bits", [4, 8, 2])
@every("zero_points", ["none", "packed", "floats"])
@every("constant", [True, False])
def test_matmul_n_bits(bits: int, zero_points: str, constant: bool) -> None:
    """Weights known at compile time or given; a zero point for each block or the middle."""
    r = np.random.default_rng(bits)
    numbers, scales = r.integers(0, 1 << bits, (N, BLOCKS, BLOCK)), floats(N, BLOCKS) / 4
    zeros = r.integers(0, 1 << bits, (N, BLOCKS)) if zero_points != "none" else np.full((N, BLOCKS), 1 << (bits - 1))
    matrix = ((numbers - zeros[..., np.newaxis]) * scales[..., np.newaxis].astype(np.float64)).reshape(N, -1)[:, :K]
    x, bias = floats(2, 3, K), floats(N, seed=2)
    given = {"w": packed(numbers, bits), "s": scales}
    if zero_points != "none":
        given["z"] = packed(zeros, bits) if zero_points == "packed" else zeros.astype(np.float32)
    made = node(f"x w s {'z' if 'z' in given else '-'} - b", bits=bits)
    given["b"] = bias
    want = {"y": (x @ matrix.T + bias).astype(np.float32)}
    if constant and bits != 2 and (bits, zero_points) != (8, "floats"):  # which the runtime has no kernels for
        agree(want, of_runtime(made, {"x": x}, want, given), terms=512)
    check_native(made, {"x": x} if constant else {"x": x, **given}, want, given if constant else None, terms=512)


def test_flat_scales_and_zero_points() -> None:
    r = np.random.default_rng(1)
    numbers, zeros, scales = r.integers(0, 16, (N, BLOCKS, BLOCK)), r.integers(0, 16, (N, BLOCKS)), floats(N, BLOCKS)
    matrix = ((numbers - zeros[..., np.newaxis]) * scales[..., np.newaxis].astype(np.float64)).reshape(N, -1)[:, :K]
    x, given = floats(3, K), {"w": packed(numbers, 4), "s": scales.reshape(-1), "z": packed(zeros, 4).reshape(-1)}
    check_native(node("x w s z", accuracy_level=4), {"x": x}, {"y": (x @ matrix.T).astype(np.float32)}, given, terms=512)


@pytest.mark.parametrize(
    ("inputs", "attributes", "kind", "message"),
    [
        ("x w s", {"bits": 3}, UnsupportedError, "bits=3"),
        ("x w s", {"weight_prepacked": 1}, UnsupportedError, "weight_prepacked=1"),
        ("x w s - g", {}, UnsupportedError, "g_idx"),
        ("x w s", {"block_size": 24}, ModelError, "power of two"),
        ("x w s", {"N": 7}, ModelError, "the weights must be"),
        ("x w g", {}, ModelError, "the scales must be"),
        ("x s s", {}, ModelError, "the weights must be"),
    ],
)
def test_what_is_wrong_is_said(inputs: str, attributes: dict[str, Any], kind: Any, message: str) -> None:
    x = floats(3, K)
    given = {"w": np.zeros((N, BLOCKS, BLOCK // 2), np.uint8), "s": floats(N, BLOCKS), "g": np.zeros(K, np.int32)}
    with pytest.raises(kind, match=message):
        stepwell.compile(model_of(node(inputs, **attributes), {"x": x}, {"y": x}, {n: a for n, a in given.items() if n in inputs.split()}))
