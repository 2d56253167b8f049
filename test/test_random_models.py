"""Random nets through the whole compiler: as ONNX Runtime computes them, and the same on any number of threads and from run to run.

These are always the same nets; scripts/fuzz.py runs others for as long as one likes.
"""

import ctypes
from pathlib import Path

import fuzz
import numpy as np
import onnx
import pytest
from hypothesis import find, given, settings
from onnx import numpy_helper
from random_models import comparison
from random_models.comparison import NETS, Example, Guarded, check, examples, judged

from stepwell.native.buffers import ALIGNMENT, address


@settings(max_examples=70)
@given(examples("convolutions"))
def test_convolutions(example: Example) -> None:
    check(example)


@settings(max_examples=100)
@given(examples("matmuls"))
def test_matmuls(example: Example) -> None:
    check(example)


# --- that mistakes would be seen


@pytest.mark.parametrize("kind", NETS)
def test_one_wrong_weight_is_seen(kind: str) -> None:
    """The bounds leave no room for it, in sums of hundreds of products."""

    def suits(example: Example) -> bool:
        return bool(example.model.graph.initializer) and all(bound.max() < 0.01 * abs(got).max() for got, bound in judged(example).values())

    example = find(examples(kind), suits)
    first = example.model.graph.initializer[0]
    weights = numpy_helper.to_array(first).copy()
    weights.flat[0] += 1
    first.CopyFrom(numpy_helper.from_array(weights, first.name))
    with pytest.raises(AssertionError, match="elements are wrong"):
        check(example)


def test_writing_beside_a_buffer_is_seen() -> None:
    for place in (-1, 16):
        buffer = Guarded(16, 4)
        assert address(buffer.inner) % ALIGNMENT == 4
        buffer.inner[:] = 1
        assert buffer.untouched()
        ctypes.c_uint8.from_address(address(buffer.inner) + place).value = 0
        assert not buffer.untouched()


# --- the fuzzer


def test_the_fuzzer_finds_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main([str(tmp_path / "found"), "--seconds", "2"]) == 0
    assert "0 wrong" in capsys.readouterr().out
    assert not list((tmp_path / "found").iterdir())


def test_the_fuzzer_saves_a_small_net_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_softmax(example: Example) -> None:
        assert all(node.op_type != "Softmax" for node in example.model.graph.node), "there is one"

    monkeypatch.setattr(comparison, "check", no_softmax)
    assert fuzz.main([str(tmp_path), "--seconds", "5", "--only", "matmuls"]) == 1
    said = capsys.readouterr().out
    assert "AssertionError: there is one" in said
    saved = sorted(tmp_path.glob("*.onnx"))[0]
    assert f"stepwell run {saved} --input {saved.with_suffix('.npz')} --target" in said
    model = onnx.load(saved)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Softmax"]
    with np.load(saved.with_suffix(".npz")) as arrays:
        assert {name: arrays[name].shape for name in arrays.files} == {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in model.graph.input}
