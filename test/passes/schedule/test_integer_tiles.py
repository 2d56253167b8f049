"""Tiles of bytes fill the registers of AVX-512, and LLVM keeps everything in them: sums, vectors, and the addresses of what is broadcast."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import Commands
from covering import split_by_day
from native_checks import Arrays, check_model, natively_together
from quantized_networks import Net

import stepwell
from stepwell.dialects.target.host import host
from stepwell.dialects.target.registry import resolve

VNNI = "x86-64-v4-vnni"
TILES = {28: [1, 2, 1, 14, 1], 14: [1, 2, 1, 14, 1], 7: [1, 2, 2, 7, 1], 5: [1, 2, 2, 5, 1], 31: [1, 2, 1, 13, 1]}  # by the size of an image
FILTERS = {28: 128}

pytestmark = pytest.mark.skipif(resolve(VNNI).family != host().family, reason="code is made for this family of processors")


def convolution(size: int) -> onnx.ModelProto:
    """3x3, quantised. Threads share filters if there are many, else also the rows of an image."""
    net = Net(4)
    x = net.quantised("x", 0.02, 100)
    w = net.weight(net.rng.integers(-127, 128, (FILTERS.get(size, 512), 128, 3, 3)).astype(np.int8))
    w = net.dequantised(w, [net.weight(np.float32(0.01)), net.weight(np.int8(0))])
    return net.model(net.quantised(net.op("Conv", [x, w], pads=[1, 1, 1, 1]), 0.05, 120), (1, 128, size, size))


def innermost_loops(lines: list[str]) -> Iterator[list[str]]:
    """The instructions of each loop of a listing that no other one is in."""
    labels: dict[str, int] = {}
    last = -1
    for number, line in enumerate(lines):
        if line.startswith(".L"):
            labels[line.rstrip(":")] = last = number
        jump = re.match(r"\s+j\w+\s+(\.L\w+)", line)
        if jump and labels.get(jump[1]) == last:
            yield lines[last + 1 : number]


@pytest.mark.parametrize("size", TILES)
def test_tiles_fill_the_registers(size: int, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = convolution(size)
    text = stepwell.lower(model, "scheduled", target=VNNI).text()
    [unroll] = re.findall(r'intrinsic = "vpdpbusd.512".*?unroll = array<i64: ([\d, ]+)>', text)
    tile = [int(step) for step in unroll.split(",")]
    assert tile[:5] == TILES[size]
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    listed = Commands(capsys).stepwell("compile", str(path), "--target", VNNI, "--emit", "asm")
    assert listed.status == 0, listed.err
    loops = [loop for loop in innermost_loops(listed.out.splitlines()) if any("vpdpbusd" in line for line in loop)]
    assert max(sum("vpdpbusd" in line for line in loop) for loop in loops) == np.prod(tile)
    for loop in loops:
        assert not any("rsp" in line for line in loop), "\n".join(loop)


@natively_together
@split_by_day("size", [28, 7, 31], [14, 5])
def test_tiles_sum_the_same_everywhere(size: int) -> None:
    """What is left over of a tile, along either dimension, is summed as well: whatever this machine has, as with the smallest tiles."""
    x = np.random.default_rng(size).normal(0, 1, (1, 128, size, size)).astype(np.float32)
    first: dict[str, np.ndarray] = {}

    def judge(got: Arrays) -> None:
        assert len(np.unique(got["y"])) > 100
        np.testing.assert_array_equal(got["y"], first.setdefault("y", got["y"]))

    check_model(convolution(size), {"x": x}, judge)
    check_model(convolution(size), {"x": x}, judge, target="x86-64-v2")
