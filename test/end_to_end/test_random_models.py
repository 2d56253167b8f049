"""Random nets through the whole compiler: as ONNX Runtime computes them, and the same on any number of threads and from run to run.

These are always the same nets; scripts/fuzz.py runs others for as long as one likes.
"""

import ctypes
from pathlib import Path

import fuzz
import numpy as np
import onnx
import pytest
from guarded import Guarded
from hypothesis import given, settings
from onnx import numpy_helper
from op_random import Random
from random_models.bounded_net import BoundedNet
from random_models.comparison import Example, check, examples

from stepwell.dialects.support.buffers import ALIGNMENT, address

pytestmark = pytest.mark.optimised


@settings(max_examples=14)
@given(examples("convolutions"))
def test_convolutions(example: Example) -> None:
    check(example)


@settings(max_examples=20)
@given(examples("matmuls"))
def test_matmuls(example: Example) -> None:
    check(example)


@pytest.mark.parametrize("rows", [1, 3, 17])
def test_products_with_a_matrix_that_no_cache_holds(rows: int) -> None:
    """Read in stretches by one row, in strips by a few, packed into panels for many."""
    net = BoundedNet(Random(lambda _: rows))
    x, y = net.input(rows, 1100), net.input(1100, 1501)
    net.values.append(net.matmul(x, y, [rows, 1501]))
    model, judge = net.finish()
    check(Example(model, judge, net.inputs, "host", ()))


# --- that mistakes would be seen


@pytest.mark.parametrize("kernel", [3, 5], ids=["Winograd's method", "direct"])
def test_one_wrong_weight_in_a_thousand_is_seen(kernel: int) -> None:
    """The bounds leave no room for it."""
    net = BoundedNet(Random(lambda _: 7))
    x, w = net.input(1, 40, 9, 7), net.constant(net.random(33, 40, kernel, kernel, scale=0.1))
    net.values.append(net.conv(x, w, None, [1, 33, 9, 7], pads=[kernel // 2] * 4))
    model, judge = net.finish()
    example = Example(model, judge, net.inputs, "host", ())
    check(example)
    (filters,) = model.graph.initializer
    array = numpy_helper.to_array(filters).copy()
    array[20, 30, 1, 2] += 0.1
    filters.CopyFrom(numpy_helper.from_array(array, filters.name))
    with pytest.raises(AssertionError, match=r"elements are wrong"):
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


def test_the_fuzzer_finds_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "ROUND", 12)
    assert fuzz.main([str(tmp_path / "found"), "--rounds", "1", "--only", "matmuls"]) == 0
    assert "0 wrong" in capsys.readouterr().out
    assert not list((tmp_path / "found").iterdir())


def test_the_fuzzer_saves_a_small_net_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "EXAMINE", "random_graphs.stand_ins:no_softmax")
    monkeypatch.setattr(fuzz, "ROUND", 200)  # of which some have a softmax, whatever switches there are to be drawn
    assert fuzz.main([str(tmp_path), "--rounds", "1", "--only", "matmuls"]) == 1
    said = capsys.readouterr().out
    assert "AssertionError: there is one" in said
    saved = sorted(tmp_path.glob("*.onnx"))[0]
    assert f"stepwell run {saved} --input {saved.with_suffix('.npz')} --target" in said
    model = onnx.load(saved)
    assert "Softmax" in [node.op_type for node in model.graph.node]
    assert len(model.graph.node) < 5
    with np.load(saved.with_suffix(".npz")) as arrays:
        assert arrays.files == [value.name for value in model.graph.input]
