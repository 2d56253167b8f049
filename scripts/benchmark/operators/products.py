"""Matrix products with few rows and many, in batches, and Einsum."""

from collections.abc import Iterator

from benchmark.operators.case import Case, given, graph, op, weight

ROWS = (1, 2, 4, 8, 15, 64)


def cases() -> Iterator[Case]:
    """MatMul, Gemm, FusedMatMul, Einsum."""
    for rows in ROWS:
        yield op("MatMul", "BERT base, feed-forward", given(rows, 768), weight(768, 3072))
    for rows in ROWS:
        yield op("Gemm", "AlexNet-like classifier", given(rows, 2048), weight(1000, 2048), weight(1000), transB=1, alpha=1.0, beta=1.0, note="transB")
    yield op("MatMul", "scores of BERT base", given(12, 128, 64), given(12, 64, 128))
    yield op("MatMul", "two activations", given(256, 256), given(256, 256))
    yield op("MatMul", "batch of single rows", given(32, 1, 128), given(32, 128, 512))
    yield op("MatMul", "half precision", given(16, 512, dtype="float16"), weight(512, 512, dtype="float16"))
    yield op("MatMul", "double precision", given(64, 256, dtype="float64"), weight(256, 256, dtype="float64"))
    yield op("FusedMatMul", "scores of BERT base", given(12, 128, 64), given(12, 128, 64), domain="com.microsoft", transB=1, alpha=0.125)
    body = """
        m = MatMul(x, w)
        a = Add(m, b)
        y = Relu(a)
    """
    yield graph("MatMul, bias and ReLU", "recommendation tower, batch of 32", body, x=given(32, 512), w=weight(512, 256), b=weight(256))
    yield from einsums()


def einsums() -> Iterator[Case]:
    """Equations that models are exported with."""

    def einsum(origin: str, equation: str, *shapes: tuple[int, ...]) -> Case:
        return op("Einsum", origin, *(given(*shape) for shape in shapes), opset=12, equation=equation)

    yield einsum("attention scores", "bhid,bhjd->bhij", (1, 12, 128, 64), (1, 12, 128, 64))
    yield einsum("attention values", "bhij,bhjd->bhid", (1, 12, 128, 128), (1, 12, 128, 64))
    yield einsum("scores, heads inside", "bnhd,bmhd->bhnm", (1, 128, 8, 64), (1, 128, 8, 64))
    yield einsum("relative positions, BoTNet", "bhxyd,rd->bhxyr", (1, 4, 14, 14, 128), (27, 128))
    yield einsum("dense layer", "abc,cd->abd", (1, 64, 512), (512, 512))
    yield einsum("bilinear form", "bi,ijk,bk->bj", (8, 64), (64, 64, 64), (8, 64))
    yield einsum("outer product", "i,j->ij", (512,), (512,))
    yield einsum("trace of each", "bii->b", (64, 256, 256))
