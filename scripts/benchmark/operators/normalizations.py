"""Normalisations, softmax and the GELU family."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmark.operators.case import Case, constant, given, graph, op, positive, weight

MICROSOFT = "com.microsoft"


def cases() -> Iterator[Case]:
    """Normalisations, softmax, GELU."""
    yield from layer_norms()
    yield from group_norms()
    yield from softmax()
    yield from gelu()


def layer_norms() -> Iterator[Case]:
    """Layer and RMS normalisation, alone and behind a residual addition."""
    scale, bias = weight(768), weight(768)
    yield op("LayerNormalization", "BERT base", given(1, 384, 768), scale, bias, opset=17, axis=-1)
    yield op("LayerNormalization", "ConvNeXt stage 1, channels last", given(1, 56, 56, 96), weight(96), weight(96), opset=17, axis=-1)
    yield op("LayerNormalization", "GPT-2 XL, batch of 4", given(4, 128, 1600), weight(1600), weight(1600), opset=17, axis=-1)
    yield op("LayerNormalization", "BERT base, half precision", given(1, 384, 768, dtype="float16"), weight(768, dtype="float16"), opset=17, axis=-1)
    body = """
        m = ReduceMean(x, last)
        d = Sub(x, m)
        s = Pow(d, two)
        v = ReduceMean(s, last)
        e = Add(v, epsilon)
        r = Sqrt(e)
        n = Div(d, r)
        g = Mul(n, scale)
        y = Add(g, bias)
    """
    parts: dict[str, Any] = {"scale": scale, "bias": bias}
    parts |= {"last": constant([-1]), "two": constant(2, "float32"), "epsilon": constant(1e-5, "float32")}
    yield graph("layer normalisation, as exported", "BERT base", body, x=given(1, 384, 768), **parts)
    body = """
        s = Pow(x, two)
        v = ReduceMean(s, last)
        e = Add(v, epsilon)
        r = Sqrt(e)
        n = Div(x, r)
        y = Mul(n, scale)
    """
    parts = {"last": constant([-1]), "two": constant(2, "float32"), "epsilon": constant(1e-5, "float32"), "scale": weight(2048)}
    yield graph("RMS normalisation, as exported", "TinyLlama", body, x=given(1, 128, 2048), **parts)
    yield op("RMSNormalization", "Llama 3 8B", given(1, 64, 4096), weight(4096), opset=23, axis=-1)
    yield op("SkipLayerNormalization", "BERT base", given(1, 384, 768), given(1, 384, 768), scale, bias, domain=MICROSOFT, epsilon=1e-5)
    yield op("SkipSimplifiedLayerNormalization", "TinyLlama", given(1, 128, 2048), given(1, 128, 2048), weight(2048), domain=MICROSOFT, epsilon=1e-5)


def group_norms() -> Iterator[Case]:
    """Statistics over space, by channel or by group of channels, and given ones."""
    yield op("GroupNormalization", "Stable Diffusion U-Net", given(1, 320, 64, 64), weight(320), weight(320), opset=21, num_groups=32)
    yield op("GroupNormalization", "Mask R-CNN head, GN", given(8, 256, 14, 14), weight(256), weight(256), opset=21, num_groups=32)
    body = """
        r = Reshape(x, groups)
        n = InstanceNormalization <epsilon = 1e-5> (r, ones, zeros)
        b = Reshape(n, back)
        g = Mul(b, scale)
        y = Add(g, bias)
    """
    parts: dict[str, Any] = {"groups": constant([0, 32, -1]), "back": constant([1, 320, 64, 64]), "ones": constant([1.0] * 32, "float32")}
    parts |= {"zeros": constant([0.0] * 32, "float32"), "scale": weight(320, 1, 1), "bias": weight(320, 1, 1)}
    yield graph("group normalisation, as exported", "Stable Diffusion U-Net", body, x=given(1, 320, 64, 64), **parts)
    yield op("InstanceNormalization", "fast style transfer", given(1, 128, 56, 56), weight(128), weight(128))
    yield op("InstanceNormalization", "nnU-Net, 3-D", given(1, 32, 32, 32, 32), weight(32), weight(32))
    channel = [weight(64), weight(64), weight(64), weight(64, fill=positive)]
    yield op("BatchNormalization", "ResNet-50, behind an addition", given(1, 64, 56, 56), *channel, opset=15)
    yield op("BatchNormalization", "PointNet, 1-D", given(8, 64, 1024), *channel, opset=15)
    yield op("LpNormalization", "face embeddings", given(1024, 512), opset=1, axis=-1, p=2)
    yield op("LRN", "AlexNet", given(1, 96, 55, 55), opset=13, size=5, alpha=1e-4, beta=0.75, bias=2.0)
    yield op("MeanVarianceNormalization", "input of a segmentation network", given(1, 16, 128, 128), opset=13)


def softmax() -> Iterator[Case]:
    """Over the last axis and over channels."""
    yield op("Softmax", "BERT base", given(1, 12, 128, 128), opset=13, axis=-1)
    yield op("Softmax", "BERT base, SQuAD", given(1, 12, 384, 384), opset=13, axis=-1)
    yield op("Softmax", "GPT-2 vocabulary", given(8, 50257), opset=13, axis=-1)
    yield op("Softmax", "classifier, batch of 64", given(64, 1000), opset=13, axis=-1)
    yield op("Softmax", "DeepLab classes", given(1, 21, 129, 129), opset=13, axis=1)
    yield op("Softmax", "YOLO distribution focal loss", given(1, 16, 4, 8400), opset=13, axis=1)
    yield op("Softmax", "BERT base, half precision", given(1, 12, 128, 128, dtype="float16"), opset=13, axis=-1)
    yield op("LogSoftmax", "CTC of wav2vec 2", given(1, 500, 1000), opset=13, axis=-1)
    yield op("LogSoftmax", "PSPNet classes", given(1, 19, 128, 128), opset=13, axis=1)


def gelu() -> Iterator[Case]:
    """Both forms, as one operator and as exporters write them."""
    x = given(1, 128, 3072)
    yield op("Gelu", "BERT base", x, opset=20)
    yield op("Gelu", "GPT-2", x, opset=20, approximate="tanh")
    yield op("Gelu", "BERT base, half precision", given(1, 128, 3072, dtype="float16"), opset=20)
    numbers = {"one": 1.0, "half": 0.5, "root": 2**0.5, "cubic": 0.044715, "rate": (2 / np.pi) ** 0.5}
    number: dict[str, Any] = {name: constant(value, "float32") for name, value in numbers.items()}
    body = """
        d = Div(x, root)
        e = Erf(d)
        o = Add(e, one)
        m = Mul(x, o)
        y = Mul(m, half)
    """
    yield graph("GELU by Erf, as exported", "BERT base", body, x=x, **{name: number[name] for name in ("root", "one", "half")})
    body = """
        p = Pow(x, three)
        c = Mul(p, cubic)
        a = Add(x, c)
        r = Mul(a, rate)
        t = Tanh(r)
        o = Add(t, one)
        m = Mul(x, o)
        y = Mul(m, half)
    """
    parts: dict[str, Any] = {"three": constant(3, "float32"), **{name: number[name] for name in ("cubic", "rate", "one", "half")}}
    yield graph("GELU by Tanh, as exported", "GPT-2", body, x=x, **parts)
    yield op("FastGelu", "GPT-2, with its bias", x, weight(3072), domain=MICROSOFT)
    yield op("BiasGelu", "BERT base", x, weight(3072), domain=MICROSOFT)
    yield op("QuickGelu", "CLIP text encoder", given(1, 77, 3072), domain=MICROSOFT, alpha=1.702)
