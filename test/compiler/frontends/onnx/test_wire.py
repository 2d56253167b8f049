"""Cutting tensors out of serialised models loses nothing and survives damage."""

import onnx
import pytest
from hypothesis import given, strategies as st
from importing import floats, model, node, rng
from onnx import ModelProto, TensorProto

from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.onnx.wire import cut_tensors

SIZES = (0, 1, 3, 40, 2000)


def serialized(sizes: list[int]) -> bytes:
    weights = {f"w{i}": floats(size, seed=i) for i, size in enumerate(sizes)}
    nodes = [node("Relu", [name], [f"y_{name}"]) for name in weights]
    return model(nodes, {"x": floats(2)}, {"x": floats(2)}, weights, producer_name="a test").SerializeToString()


@given(st.lists(st.sampled_from(SIZES), max_size=6), st.sampled_from([1, 100, 4096]))
def test_pieces_put_together_are_the_model(sizes: list[int], least: int) -> None:
    data = serialized(sizes)
    light, cut = cut_tensors(memoryview(data), least)
    assert len(cut) == sum(4 * size >= least for size in sizes)
    whole, original = ModelProto.FromString(light), ModelProto.FromString(data)
    for tensor in cut:
        assert tensor.end - tensor.start >= least
        restored = TensorProto.FromString(tensor.header)
        restored.raw_data = data[tensor.start : tensor.end]
        whole.graph.initializer.append(restored)
    whole.graph.initializer.sort(key=lambda t: t.name)
    assert whole == original


def test_a_graph_in_parts_is_left_to_the_parser() -> None:
    data = serialized([2000])
    twice = data + ModelProto(graph=onnx.GraphProto(name="more")).SerializeToString()
    assert cut_tensors(memoryview(twice), 1) == (twice, [])


@given(st.integers(0, 2**32 - 1))
def test_damaged_bytes_give_a_model_error_or_pieces_that_lie_inside(seed: int) -> None:
    random = rng(seed)
    data = bytearray(serialized([1, 40, 2000]))
    for _ in range(random.integers(1, 5)):
        data[random.integers(len(data) if random.random() < 0.2 else 200)] = random.integers(256)
    try:
        _, cut = cut_tensors(memoryview(data), 100)
    except ModelError:
        return
    assert all(0 <= t.start <= t.end <= len(data) for t in cut)


@pytest.mark.parametrize("data", [b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x3a\x80", b"\x3a\x05abc", b"\x3b", b"\x02\x00"])
def test_impossible_fields(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"not an ONNX model|is cut short"):
        cut_tensors(memoryview(data), 1)
