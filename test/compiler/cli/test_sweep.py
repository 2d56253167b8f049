"""`stepwell run --sweep`, and what `run` and `inspect` say of free sizes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import DIGITS, Commands
from onnx import TensorProto, helper

from stepwell.cli import sweep


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Rows of two lengths side by side, exponentials of their sums: a[n,5], b[n,m] -> y[n, m + 5]."""
    nodes = [helper.make_node("Concat", ["a", "b"], ["c"], axis=1), helper.make_node("Exp", ["c"], ["y"])]
    values: list[tuple[str, list[Any] | None]] = [("a", ["n", 5]), ("b", ["n", "m"]), ("y", None)]
    a, b, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values)
    file = tmp_path / "rows.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "rows", [a, b], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


def test_a_table_and_a_picture(commands: Commands, rows: Path, tmp_path: Path) -> None:
    picture = tmp_path / "times.png"
    ended = commands.stepwell(
        "run", rows, "--shape", "b=?x{8..32}", "--sweep", "3", "--repeat", "2", "--threads", "1", "--plot", picture
    )  # fmt: skip
    assert (ended.status, ended.err) == (0, "")
    head = r"n +m +general +for the size +onnxruntime +for the size / general +onnxruntime / general +made in"
    assert re.search(head, ended.out)
    assert re.findall(r"^ *(\d+) +(\d+) +[\d.]+ ", ended.out, re.MULTILINE) == [("1", "8"), ("11", "16"), ("128", "32")]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_sizes_that_are_given_stay(commands: Commands, rows: Path) -> None:
    ended = commands.stepwell("run", rows, "--shape", "a=4x5", "--sweep", "2", "--repeat", "1", "--threads", "1")
    assert ended.status == 0
    assert re.search(r"^ *m +general", ended.out, re.MULTILINE)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """The largest of each 3x3 window of images that are as high as wide: x[1,1,h,h] -> y[1,1,h - 2,h - 2]."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 1, "h", "h"]), ("y", None)))
    graph = helper.make_graph([helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[3, 3])], "images", [x], [y])
    file = tmp_path / "images.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


def test_sizes_that_the_model_cannot_take_are_left_out(commands: Commands, images: Path) -> None:
    ended = commands.stepwell("run", images, "--shape", "x=1x1x{1..9}x?", "--sweep", "3", "--repeat", "1", "--threads", "1")
    assert ended.status == 0
    assert re.fullmatch(r'stepwell run: left out: h 1: .*MaxPool "pool" .* a window of 3 does not fit .*\n', ended.err)
    assert re.findall(r"^ *(\d+) +[\d.]+ ", ended.out, re.MULTILINE) == ["3", "9"]


def test_a_model_that_can_take_none_of_the_sizes_is_an_error(commands: Commands, images: Path) -> None:
    commands.stepwell("run", images, "--shape", "x=1x1x{1..1}x?", "--sweep", "2", "--repeat", "1").refused(1, "a window of 3 does not fit")


def test_engines_take_turns_and_the_first_run_of_each_does_not_count() -> None:
    order: list[str] = []
    engines = {name: (lambda _, name=name: order.append(name)) for name in "abc"}
    times = sweep.medians(engines, {}, 3)  # type: ignore[arg-type]
    assert "".join(order) == "abcabcbcacab"
    assert list(times) == ["a", "b", "c"]


def test_an_engine_that_cannot_run_the_model_is_left_out(commands: Commands, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: str, threads: int) -> sweep.Run:
        def run(feed: Any) -> None:
            raise RuntimeError("no such operator\nand more")

        return run

    monkeypatch.setattr(sweep, "_onnxruntime", refuse)
    ended = commands.stepwell("run", rows, "--sweep", "2", "--repeat", "1")
    assert ended.status == 0
    assert ended.err == "stepwell run: left out: onnxruntime cannot run the model: no such operator\n"
    assert "onnxruntime" not in ended.out


def test_what_does_not_go_together(commands: Commands, rows: Path, tmp_path: Path) -> None:
    commands.stepwell("run", rows, "--plot", "a.png").refused(2, "--plot goes with --sweep")
    commands.stepwell("run", rows, "--sweep", "--plot", "a.txt").refused(2, "--plot a.txt: expected a file .png, .svg, .pdf")
    commands.stepwell("run", rows, "--sweep", "--save", tmp_path).refused(2, "--sweep goes with none of --input, --check and --save")
    commands.stepwell("run", rows, "--sweep", "--shape", "a=4x5", "--shape", "b=4x2").refused(2, "--sweep is for a model with free sizes")
    commands.stepwell("run", rows, "--shape", "b=?x{1..2}", "--shape", "a={1..4}x{1..9}").refused(2, "a size of 'a' is 5")


def test_run_says_what_is_free(commands: Commands, rows: Path, tmp_path: Path) -> None:
    ended = commands.stepwell("run", rows, "--specialise", "never", "--shape", "a={2..8}x5", "--shape", "b=?x{10..40}")
    assert (ended.status, ended.err) == (0, "")
    assert re.search(r"free: n \{2\.\.8\}, m \{10\.\.40\} +name +type", ended.out)
    assert re.search(r"input +b +float32\[n, m\]", ended.out)
    assert re.search(r"output +y +float32\[n, m \+ 5\]", ended.out)
    assert re.search(r"y +float32\[4x25\]", ended.out), "random data have the sizes in the middle of the ranges"
    ended = commands.stepwell("run", rows, "--shape", "a=2x5", "--shape", "b=2x3")
    assert "free" not in ended.out
    ended = commands.stepwell("run", rows, "--specialise", "never", "--shape", "a={2..8}x5", "--shape", "b=?x?")
    assert re.search(r"y +float32\[4x16\]", ended.out), "of a size without a range, the middle of 1 to 128"
    np.save(tmp_path / "b.npy", np.zeros((4, 2), np.float32))
    ended = commands.stepwell("run", rows, "--shape", "a=4x?", "--input", f"b={tmp_path / 'b.npy'}", "--check", "levels")
    assert ended.status == 0
    assert re.search(r"free: m +name", ended.out)
    ended = commands.stepwell("run", rows, "--shape", "a=?x5", "--input", f"b={tmp_path / 'b.npy'}", "--check", "levels")
    assert ended.status == 0, "sizes of the data that are read hold for random data too"


def test_inspect_says_what_is_free(commands: Commands, rows: Path) -> None:
    ended = commands.stepwell("inspect", rows)
    assert ended.status == 0
    assert "free sizes: n, m (" in ended.out
    assert 'tensor<?x?xf32, "n, m + 5">' in ended.out
    assert "free sizes: n {3..9}, m (" in commands.stepwell("inspect", rows, "--shape", "a={3..9}x?").out
    assert "free sizes: m (" in commands.stepwell("inspect", rows, "--shape", "a=3x5").out
    assert "free sizes" not in commands.stepwell("inspect", DIGITS, "--shape", "image=1x1x8x8").out
