"""The commands on a model of which nodes run in Python: strings from files, random ones, and what is shown, checked and saved of them."""

from pathlib import Path

import numpy as np
import pytest
from commands import Commands
from onnx import NodeProto, TensorProto, helper
from other_domains import ML
from string_models import build, column, maps, of_array

WORDS = ["red", "blue\x1b[31m"]


def node(op: str, inputs: list[str], outputs: list[str], domain: str = "", **attributes: object) -> NodeProto:
    return helper.make_node(op, inputs, outputs, name=f"the_{op.lower()}", domain=domain, **attributes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A classifier of colours whose second label, and one of the colours, would change a terminal's own."""
    given = {"coefficients": [2.0, -1.0, 0.0, 3.0], "intercepts": [0.0, 0.0], "classlabels_strings": ["stop", "go\x1b[2J"]}
    nodes = [
        node("OneHotEncoder", ["colour"], ["x3"], ML, cats_strings=WORDS),
        node("Squeeze", ["x3", "axis"], ["x"]),
        node("LinearClassifier", ["x"], ["label", "scores"], ML, **given),
        node("ZipMap", ["scores"], ["maps"], ML, classlabels_strings=given["classlabels_strings"]),
    ]
    label = helper.make_tensor_value_info("label", TensorProto.STRING, ["n"])
    proto = build(nodes, [of_array("colour", column("a"), ["n", 1])], [label, maps("maps", TensorProto.STRING)], {"axis": np.array([1])})
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    return tmp_path / "model.onnx"


def test_lines_of_a_file(commands: Commands, file: Path, tmp_path: Path) -> None:
    (tmp_path / "colours.txt").write_text(f"red\n{WORDS[1]}\ngrey\n")
    given = ("--input", f"colour={tmp_path / 'colours.txt'}")
    ended = commands.stepwell("run", file, *given, "--check", "onnxruntime", "--save", tmp_path / "out.npz")
    assert ended.status == 0, ended.err
    assert "string[3]" in ended.out
    assert "'stop' 'go\\x1b[2J' 'stop'" in ended.out
    assert "\x1b" not in ended.out
    saved = np.load(tmp_path / "out.npz")
    assert saved["label"].tolist() == ["stop", "go\x1b[2J", "stop"]
    assert saved["maps.keys"].tolist() == ["go\x1b[2J", "stop"]
    assert saved["maps.values"].tolist() == [[0, 2], [3, -1], [0, 0]]
    assert commands.stepwell("run", file, *given, "--check", tmp_path / "out.npz").status == 0
    np.save(tmp_path / "colours.npy", column("red", "red", "red"))
    commands.stepwell("run", file, "--input", tmp_path / "colours.npy").refused(1, "Python objects")
    np.save(tmp_path / "colours.npy", column("red", "red", "red").astype(str))
    other = commands.stepwell("run", file, "--input", tmp_path / "colours.npy", "--check", tmp_path / "out.npz")
    other.refused(1, "2 of 3 outputs differ", "label, maps.values")


def test_random_strings_and_what_is_compiled(commands: Commands, file: Path, tmp_path: Path) -> None:
    """They are strings that the model knows; the levels are those of the compiled part."""
    ended = commands.stepwell("run", file, "--shape", "colour=9x1", "--check", "levels")
    assert ended.status == 0, ended.err
    assert "label.number" in ended.out
    assert "'go\\x1b[2J'" in ended.out
    shown = commands.stepwell("compile", file, "--shape", "colour=2x1", "--emit", "graph")
    assert 'not in it, since they run in Python: ai.onnx.ml.LabelEncoder "the_onehotencoder/numbers"' in shown.err
    commands.stepwell("run", file, "--sweep").refused(2, "--sweep is for a model that is all compiled")


def test_inspect(commands: Commands, file: Path) -> None:
    ended = commands.stepwell("inspect", file)
    assert ended.status == 0, ended.err
    for row in (
        ("input", "colour", "string[nx1]"), ("output", "maps", "seq(map(string, float32))"),
        ("before what is compiled", "the_onehotencoder/numbers", "LabelEncoder", "ai.onnx.ml"), ("behind it", "the_zipmap", "ZipMap", "ai.onnx.ml"),
    ):  # fmt: skip
        assert any(line.split() == " ".join(row).split() for line in ended.out.splitlines()), row


def test_lines_for_numbers(commands: Commands, tmp_path: Path) -> None:
    proto = build([node("Neg", ["x"], ["y"])], [of_array("x", np.zeros(2, np.float32))], ["y"])
    (tmp_path / "neg.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "lines.txt").write_text("1\n2\n")
    commands.stepwell("run", tmp_path / "neg.onnx", "--input", tmp_path / "lines.txt").refused(1, "lines of text need an input of strings")
