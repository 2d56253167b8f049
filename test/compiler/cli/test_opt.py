"""stepwell-opt as a command: files, weights, exit statuses. What it prints is in the .mlir files beside this."""

from pathlib import Path

import list_upstream_passes
import numpy as np
import pytest
from commands import INPUTS, Commands, process

from stepwell.dialects.core.weights import WeightTable
from stepwell.passes.framework.upstream_names import DIALECTS, NAMES

FINE = "func.func private @f()\n"
PLUGIN = ("--load", INPUTS / "plugin.py")
ADD_WEIGHTS = """
func.func @main() -> tensor<3xf32> {
  %a = "graph.parameter"() {id = "a"} : () -> tensor<3xf32>
  %b = "graph.parameter"() {id = "b"} : () -> tensor<3xf32>
  %r = "graph.add"(%a, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
"""

CUSTOM_FORM = """// graph.relu, in a comment
func.func @f(%x: tensor<3xf32>) attributes {graph.relu, note = "graph.relu"} {
  // 1 = graph.relu
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = graph.relu %0 : tensor<3xf32>
  return
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.mlir"
    path.write_text(FINE)
    return path


class TestStatuses:
    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            (["--nonsense"], ["unknown option or pass --nonsense"]),
            (["--canonicalise"], ["did you mean canonicalize"]),
            (["--cse", "--pass-pipeline=cse"], ["--cse cannot be combined"]),
            (["--pass-pipeline=func.func(cse"], ["SW006", "column 10", "never closed"]),
            (["--pass-pipeline=nonsense"], ["SW006", "no pass 'nonsense'"]),
            (["--fold-constants=max-bytes=many"], ["SW006", "'max-bytes' must be of type int, got 'many'"]),
            (["--fold-constants=max=1"], ["SW006", "no option 'max'"]),
            (["--fold-constants=max-bytes=1 max-bytes=2"], ["SW006", "given twice"]),
            (["--canonicalize=nonsense=1"], ["SW006", "no option 'nonsense'"]),
            (["--verify-diagnostics=some"], ["invalid choice"]),
            (["a.mlir", "b.mlir"], ["unrecognized arguments"]),
        ],
    )
    def test_a_wrong_command_line_is_2(self, commands: Commands, file: Path, arguments: list[str], parts: list[str]) -> None:
        commands.opt(file, *arguments).refused(2, *parts)

    def test_files_that_cannot_be_read_or_written_are_1(self, commands: Commands, file: Path, tmp_path: Path) -> None:
        commands.opt("nowhere.mlir").refused(1, "nowhere.mlir", "No such file")
        commands.opt(tmp_path).refused(1, str(tmp_path))
        commands.opt(file, "-o", tmp_path / "no" / "out.mlir").refused(1, "out.mlir", "folder does not exist")
        commands.opt(file, "-o", "x.safetensors").refused(1, "x.safetensors")
        (tmp_path / "binary.mlir").write_bytes(b"func\xff")
        commands.opt(tmp_path / "binary.mlir").refused(1, "not UTF-8 at offset 4")
        (tmp_path / "binary.mlir").write_bytes(b"\n\0func")
        commands.opt(tmp_path / "binary.mlir").refused(1, "zero byte at offset 1")

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("func.func @f( {", "1:14: error: "),
            ("\n\n  xyz\n", "3:3: error: custom op 'xyz' is unknown"),
            ('func.func @f() {\n "graph.relu"() : () -> tensor<1xf32>\n return\n}', "2:2: error: 'graph.relu' takes 1 operand"),
            # The parser says nothing of these itself.
            (CUSTOM_FORM, "5:8: error: op 'graph.relu' has no custom form"),
            (CUSTOM_FORM.replace("xf32>\n  %1", "xf32> loc(\"é\") %1"), "4:75: error: op 'graph.relu' has no custom form"),
            ("graph.nothing", "1:1: error: custom op 'graph.nothing' is unknown"),
        ],
    )
    def test_ir_that_does_not_parse_is_1_with_its_line(self, commands: Commands, tmp_path: Path, text: str, place: str) -> None:
        file = tmp_path / "bad.mlir"
        file.write_text(text)
        for passes in ([], ["--cse"]):
            ended = commands.opt(file, *passes)
            assert (ended.status, ended.out) == (1, "")
            assert ended.err.startswith(f"{file}:{place}")
            assert ended.err.count(" error: ") == 1
        # The other command says the same in its own way.
        commands.stepwell("run", file, "--from", "graph").refused(1, "SW008", f"{file}:{place.replace('error: ', '')}")
        # In a later piece the lines are those of the whole file; a comment can expect the message.
        line = int(place.partition(":")[0])
        file.write_text(f"{FINE}// -----\n{text}\n")
        ended = commands.opt(file, "--split-input-file")
        assert ended.status == 1
        assert ended.err.startswith(f"{file}:{line + 2}:")
        lines = file.read_text().split("\n")
        lines.insert(line + 2, "// expected-error @-1 {{" + place.partition("error: ")[2] + "}}")
        file.write_text("\n".join(lines))
        ended = commands.opt(file, "--split-input-file", "--verify-diagnostics")
        assert (ended.status, ended.err) == (0, "")

    def test_a_failing_piece_does_not_keep_the_others(self, commands: Commands, tmp_path: Path) -> None:
        (tmp_path / "split.mlir").write_text("func.func private @a()\n// -----\nnonsense\n// -----\nfunc.func private @c()\n")
        ended = commands.opt(tmp_path / "split.mlir", "--split-input-file")
        assert ended.status == 1
        assert "split.mlir:3:1: error:" in ended.err
        assert "@a" in ended.out
        assert "@c" in ended.out
        assert commands.opt(tmp_path / "split.mlir", "--split-input-file", "-o", tmp_path / "out.mlir").status == 1
        assert not (tmp_path / "out.mlir").exists()

    def test_help_and_version(self, commands: Commands) -> None:
        assert "--pass-pipeline" in commands.opt("--help").out
        assert commands.opt("--version").out.startswith("stepwell-opt ")


class TestFiles:
    def test_standard_input_and_a_process_of_its_own(self) -> None:
        ended = process("opt", "-", "--cse", text=FINE, is_fork=False)
        assert (ended.status, ended.err) == (0, "")
        assert "func.func private @f()" in ended.out
        process("opt", text="nonsense").refused(1, "-:1:1: error:")

    def test_output_is_written_whole_or_not_at_all(self, commands: Commands, file: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.mlir"
        out.write_text("what was there")
        commands.opt(file, *PLUGIN, "--raise-error", "-o", out).refused(1, "raise-error")
        assert out.read_text() == "what was there"
        ended = commands.opt(file, *PLUGIN, "--count-ops", "-o", out)
        assert (ended.status, ended.out) == (0, "")
        assert "test.count = 1" in out.read_text()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in.mlir", "out.mlir"]

    def test_in_place(self, commands: Commands, file: Path) -> None:
        assert commands.opt(file, *PLUGIN, "--tag", "-o", file).status == 0
        assert 'tags = ["tagged"]' in file.read_text()


class TestWeights:
    a = np.array([3, 1, 4], np.float32)
    b = np.array([2, 7, 1], np.float32)

    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        path = tmp_path / "net.mlir"
        path.write_text(ADD_WEIGHTS)
        WeightTable({"a": self.a, "b": self.b}).save(path.with_suffix(".safetensors"))
        return path

    def test_they_are_found_beside_the_ir_and_saved_beside_the_output(self, commands: Commands, model: Path, tmp_path: Path) -> None:
        out = tmp_path / "folded.mlir"
        assert commands.opt(model, "--fold-constants", "-o", out).status == 0
        text = out.read_text()
        assert "graph.add" not in text
        if "graph.parameter" in text:
            folded = WeightTable.load(out.with_suffix(".safetensors"))
            assert any(np.array_equal(array, self.a + self.b) for array in folded.values())

    def test_a_named_table(self, commands: Commands, model: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        moved = model.rename(tmp_path / "elsewhere" / "net.mlir")
        out = tmp_path / "elsewhere" / "out.mlir"
        assert commands.opt(moved, "--weights", tmp_path / "net.safetensors", "-o", out).status == 0
        assert dict(WeightTable.load(out.with_suffix(".safetensors"))).keys() == {"a", "b"}
        commands.opt(moved, "--weights", tmp_path / "nothing.safetensors").refused(1, "nothing.safetensors")
        (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
        commands.opt(moved, "--weights", tmp_path / "bad.safetensors").refused(1, "SW001", "bad.safetensors")

    def test_unchanged_weights_are_left_alone(self, commands: Commands, model: Path) -> None:
        before = model.with_suffix(".safetensors").stat().st_mtime_ns
        assert commands.opt(model, "--cse", "-o", model).status == 0
        assert model.with_suffix(".safetensors").stat().st_mtime_ns == before


def test_every_pass_of_ours_is_listed_with_its_page(commands: Commands) -> None:
    from stepwell.passes.framework.registry import passes

    text = commands.opt("--list-passes").out
    for name, cls in passes().items():
        assert f"--{name}  ({cls.level}; on {cls.anchor})" in text
        assert cls.__doc__, name
        for option in cls.options():
            assert f"      {option}=<" in text


def test_upstreams_names_are_in_the_bindings() -> None:
    """Each pass, on its operation, and each dialect of the list. That none is missing from it costs ten seconds and is asked at night."""
    context = list_upstream_passes.make_context()
    found = {name: list_upstream_passes.anchor_of(name, context) for names in NAMES.values() for name in names}
    assert found == {name: anchor for anchor, names in NAMES.items() for name in names}
    assert [name for name in DIALECTS if not list_upstream_passes.is_dialect(name, context)] == []


@pytest.mark.nightly
def test_the_list_of_upstreams_names_is_what_the_bindings_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["list_upstream_passes.py", "--check"])
    assert list_upstream_passes.main() == 0, "run scripts/list_upstream_passes.py"
