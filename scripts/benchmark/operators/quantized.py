"""Quantised numbers: conversions, products and convolutions in 8 bits, weights of 4 bits."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmark.operators.case import STEP_TOLERANCE, Case, constant, given, graph, integers, op, positive, uniform, weight

BYTES = integers(0, 256)
SIGNED = integers(-127, 128)
SCALE = constant(0.02, "float32")
ZERO = constant(128, "uint8")
MICROSOFT = "com.microsoft"


def cases() -> Iterator[Case]:
    """Conversions, then products."""
    image = given(1, 64, 56, 56)
    yield op("QuantizeLinear", "ResNet-50 stage 1", image, SCALE, ZERO, outputs=["uint8"], opset=13, tolerance=STEP_TOLERANCE)
    channels = [weight(64, fill=uniform(0.01, 0.05)), constant(np.zeros(64), "int8")]
    yield op("QuantizeLinear", "by channel", image, *channels, outputs=["int8"], opset=13, axis=1, tolerance=STEP_TOLERANCE)
    yield op("DequantizeLinear", "ResNet-50 stage 1", given(1, 64, 56, 56, dtype="uint8", fill=BYTES), SCALE, ZERO, outputs=["float32"], opset=13)
    yield op("DynamicQuantizeLinear", "BERT base", given(1, 128, 768), outputs=["uint8", "float32", "uint8"], opset=11, tolerance=STEP_TOLERANCE)
    yield from products()
    yield from convolutions()
    yield from few_bits()


def products() -> Iterator[Case]:
    """Matrices of bytes."""
    a, b = given(64, 768, dtype="uint8", fill=BYTES), weight(768, 768, dtype="int8", fill=SIGNED)
    yield op("MatMulInteger", "BERT base, dynamic", a, b, ZERO, outputs=["int32"], opset=10)
    yield op("MatMulInteger", "BERT base, one token", given(1, 768, dtype="uint8", fill=BYTES), b, ZERO, outputs=["int32"], opset=10)
    nothing = constant(0, "int8")
    yield op(
        "QLinearMatMul", "BERT base, static", a, SCALE, ZERO, b, SCALE, nothing, constant(2.0, "float32"), ZERO, opset=10, tolerance=STEP_TOLERANCE
    )
    body = """
        q, s, z = DynamicQuantizeLinear(x)
        i = MatMulInteger(q, w, z)
        f = Cast <to = 1> (i)
        t = Mul(s, scale)
        y = Mul(f, t)
    """
    parts: dict[str, Any] = {"w": b, "scale": SCALE}
    yield graph("dynamically quantised product", "BERT base, ONNX Runtime's quantiser", body, x=given(64, 768), **parts, tolerance=STEP_TOLERANCE)


def convolutions() -> Iterator[Case]:
    """Convolutions of bytes, and in the form that quantisers write."""
    image, kernel = given(1, 64, 28, 28, dtype="uint8", fill=BYTES), weight(64, 64, 3, 3, dtype="int8", fill=SIGNED)
    nothing = constant(0, "int8")
    how: dict[str, Any] = {"opset": 10, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield op("QLinearConv", "ResNet-50", image, SCALE, ZERO, kernel, SCALE, nothing, constant(1.0, "float32"), ZERO, tolerance=STEP_TOLERANCE, **how)
    yield op("ConvInteger", "ResNet-50", image, given(64, 64, 3, 3, dtype="uint8", fill=BYTES), ZERO, ZERO, outputs=["int32"], **how)
    body = """
        f = DequantizeLinear(x, s, z)
        g = DequantizeLinear(w, s, n)
        c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (f, g)
        r = Relu(c)
        y = QuantizeLinear(r, t, z)
    """
    parts: dict[str, Any] = {"w": kernel, "s": SCALE, "z": ZERO, "n": nothing, "t": constant(1.0, "float32")}
    yield graph("convolution between DequantizeLinear and QuantizeLinear", "ResNet-50", body, opset=13, tolerance=STEP_TOLERANCE, x=image, **parts)


def few_bits() -> Iterator[Case]:
    """Weights of four bits, two in a byte, in blocks of 32 with a scale each."""
    for rows in (1, 32):
        packed, scales = weight(2048, 64, 16, dtype="uint8", fill=BYTES), weight(2048 * 64, fill=positive)
        yield op(
            "MatMulNBits",
            "Llama in 4 bits",
            given(rows, 2048),
            packed,
            scales,
            domain=MICROSOFT,
            K=2048,
            N=2048,
            bits=4,
            block_size=32,
            note="4 bits",
            tolerance=1e-3,
        )
