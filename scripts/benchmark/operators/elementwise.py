"""Element by element: activations, arithmetic, comparisons, casts."""

from collections.abc import Iterator

from benchmark.operators.case import Case, constant, given, graph, integers, mask, op, positive, uniform, weight

ACTIVATIONS = ("Exp", "Erf", "Tanh", "Sigmoid", "Softplus", "HardSwish", "Mish", "Elu", "Relu", "LeakyRelu", "Sin")
EARLY = {"Erf": 13, "HardSwish": 14, "Mish": 18, "Sin": 7}


def cases() -> Iterator[Case]:
    """Activations, arithmetic, comparisons, casts."""
    x = given(1, 64, 56, 56)
    for name in ACTIVATIONS:
        yield op(name, "ResNet-50 stage 1", x)
    for name in ("Log", "Sqrt", "Reciprocal"):
        yield op(name, "ResNet-50 stage 1", given(1, 64, 56, 56, fill=positive))
    for name in ("Floor", "Round", "Abs", "Neg"):
        yield op(name, "ResNet-50 stage 1", x)
    yield op("Exp", "variational autoencoder, double", given(1, 64, 56, 56, dtype="float64"))
    yield op("Sigmoid", "half precision", given(1, 64, 56, 56, dtype="float16"))
    yield op("PRelu", "ArcFace", x, weight(64, 1, 1))
    yield op("Clip", "MobileNet's ReLU6", given(1, 32, 112, 112), constant(0, "float32"), constant(6, "float32"))
    yield graph("SiLU, as exported", "YOLOv5", "s = Sigmoid(x)\ny = Mul(x, s)", x=given(1, 64, 80, 80))
    yield from arithmetic()
    yield from logic()
    yield from casts()


def arithmetic() -> Iterator[Case]:
    """Two operands of one shape, and operands that are broadcast."""
    x = given(1, 64, 56, 56)
    yield op("Add", "ResNet-50, residual", x, given(1, 64, 56, 56))
    yield op("Mul", "squeeze and excitation", x, given(1, 64, 1, 1))
    yield op("Add", "positions, broadcast over the batch", given(8, 197, 768), given(1, 197, 768))
    yield op("Sub", "outer difference of boxes", given(1, 1024, 1), given(1, 1, 1024))
    yield op("Div", "ResNet-50 stage 1", x, given(1, 64, 56, 56, fill=positive))
    yield op("Add", "half precision", given(1, 64, 56, 56, dtype="float16"), given(1, 64, 56, 56, dtype="float16"))
    yield op("Add", "positions, int64", given(8, 16384, dtype="int64", fill=integers(-99, 99)), given(1, 16384, dtype="int64", fill=integers(-9, 9)))
    yield op("Div", "quantised rescale, int32", given(1, 131072, dtype="int32", fill=integers(-9999, 9999)), constant(7, "int32"))
    yield op("Mod", "hashing of ids, int64", given(1, 65536, dtype="int64", fill=integers(0, 1 << 40)), constant(50000))
    yield op("Pow", "squares", x, constant(2, "float32"), note="2")
    yield op("Pow", "gamma correction", given(1, 3, 224, 224, fill=uniform(0.01, 1)), constant(0.4545, "float32"), note="0.4545")
    yield op("Pow", "learned exponents", given(1, 64, 56, 56, fill=positive), given(1, 64, 1, 1, fill=positive))
    yield op("Max", "maxout of three", *(given(1, 64, 56, 56) for _ in range(3)))


def logic() -> Iterator[Case]:
    """Comparisons and choices."""
    yield op(
        "Where",
        "attention mask",
        given(1, 1, 256, 256, dtype="bool", fill=mask(0.5)),
        given(1, 12, 256, 256),
        constant(-1e9, "float32"),
        outputs=["float32"],
    )
    yield op(
        "Where",
        "ResNet-50 stage 1",
        given(1, 64, 56, 56, dtype="bool", fill=mask(0.5)),
        given(1, 64, 56, 56),
        given(1, 64, 56, 56),
        outputs=["float32"],
    )
    body = """
        a = Greater(x, low)
        b = Less(x, high)
        y = And(a, b)
    """
    yield graph(
        "range test", "thresholds of an image", body, {"y": "bool"}, x=given(1, 3, 256, 256), low=constant(-1, "float32"), high=constant(1, "float32")
    )
    yield op("Equal", "padding of ids, int64", given(64, 4096, dtype="int64", fill=integers(0, 3)), constant(1), outputs=["bool"])
    yield op("IsNaN", "guard", given(1, 64, 56, 56), outputs=["bool"])


def casts() -> Iterator[Case]:
    """Between types of different width."""
    yield op("Cast", "image to numbers", given(1, 3, 512, 512, dtype="uint8", fill=integers(0, 256)), outputs=["float32"], to=1)
    yield op("Cast", "numbers to image", given(1, 3, 512, 512, fill=uniform(0, 255)), outputs=["uint8"], to=2, tolerance=1e-2)
    yield op("Cast", "to half precision", given(1, 64, 56, 56), outputs=["float16"], to=10, tolerance=1e-3)
    yield op("Cast", "from half precision", given(1, 64, 56, 56, dtype="float16"), outputs=["float32"], to=1)
    yield op("Cast", "ids to int32", given(64, 4096, dtype="int64", fill=integers(0, 30000)), outputs=["int32"], to=6)
