"""Reductions over the first, the middle and the last axes, and cumulative sums."""

from collections.abc import Iterator

from benchmark.operators.case import Case, constant, given, integers, op, positive


def cases() -> Iterator[Case]:
    """Reductions and cumulative sums."""
    yield reduce("ReduceMean", "layer normalisation of BERT", (1, 384, 768), [-1])
    yield reduce("ReduceMean", "squeeze and excitation", (1, 256, 56, 56), [2, 3])
    yield reduce("ReduceMean", "mean of a ViT's tokens", (8, 197, 768), [1])
    yield reduce("ReduceMean", "batch statistics", (64, 16384), [0])
    yield reduce("ReduceMean", "batch statistics by channel", (8, 64, 56, 56), [0, 2, 3])
    whole = given(1, 64, 112, 112, fill=positive)  # a sum far above its rounding errors
    yield op("ReduceSum", "whole tensor", whole, constant([0, 1, 2, 3]), note="axes 0,1,2,3")
    yield reduce("ReduceSum", "channels", (1, 64, 112, 112), [1])
    yield reduce("ReduceMax", "numbers of softmax", (1, 12, 256, 256), [-1])
    yield reduce("ReduceMax", "PointNet's pooling", (8, 256, 1024), [2])
    yield reduce("ReduceMin", "nearest box", (1000, 256), [0])
    yield reduce("ReduceL2", "face embeddings", (1024, 512), [-1])
    yield reduce("ReduceLogSumExp", "vocabulary", (8, 50257), [-1])
    yield reduce("ReduceSumSquare", "channels last", (1, 56, 56, 256), [-1])
    yield reduce("ReduceProd", "box areas", (100000, 2), [-1])
    yield reduce("ReduceSum", "counts", (64, 8192), [-1], dtype="int64")
    yield reduce("ReduceMean", "half precision", (1, 384, 768), [-1], dtype="float16")
    yield op("ArgMax", "segmentation, DeepLab", given(1, 21, 257, 257), outputs=["int64"], opset=13, axis=1, keepdims=0)
    yield op("ArgMax", "greedy decoding, GPT-2", given(4, 50257), outputs=["int64"], opset=13, axis=-1, keepdims=0)
    yield op("ArgMax", "CTC greedy decoding", given(500, 8, 96), outputs=["int64"], opset=13, axis=-1, keepdims=0)
    yield op("CumSum", "sampling by nucleus, GPT-2", given(4, 50257), constant(1), note="axis 1")
    yield op("CumSum", "state-space model, over time", given(1, 1024, 256), constant(1), note="axis 1")
    yield op("CumSum", "positions of tokens", given(64, 1024, dtype="int64", fill=integers(0, 2)), constant(1), note="axis 1")


def reduce(operator: str, origin: str, shape: tuple[int, ...], axes: list[int], dtype: str = "float32") -> Case:
    """A reduction over some axes, which are kept."""
    fill = {} if dtype.startswith("float") else {"fill": integers(-9, 9)}
    note = f"axes {','.join(map(str, axes))}"
    return op(operator, origin, given(*shape, dtype=dtype, **fill), constant(axes), note=note)
