"""The cache on disk: what is found, what is not, what damage, several processes, limits and folders that cannot be written to do."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_server import started
from kept_kernels import kept_kernels
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.backends.llvm_cpu import pool
from stepwell.cache import disk
from stepwell.cache.disk import Cache
from stepwell.cli.main import main as command
from stepwell.dialects.support.errors import InputError, ModelError
from stepwell.runtime.model import CompiledModel

X = np.random.default_rng(11).standard_normal((2, 5, 9, 9), np.float32)


def network(seed: int = 0, *, rows: int | str = 9, activation: str = "Relu") -> onnx.ModelProto:
    """A convolution with a bias, an activation and a matrix product: kernels, weights, something to fold. Few channels are compiled fast."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.standard_normal((3, 5, 1, 1), np.float32), "b": rng.standard_normal(3, np.float32), "m": rng.standard_normal((9, 4), np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="first/conv"),
        helper.make_node(activation, ["c"], ["t"], name="then/activation"),
        helper.make_node("MatMul", ["t", "m"], ["y"], name="last/matmul"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [value("x", TensorProto.FLOAT, [2, 5, rows, 9])], [value("y", TensorProto.FLOAT, [2, 3, rows, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def compiled_units(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were compiled since the test began."""
    names: list[str] = []
    compile_units = pool.compile_units

    def watched(units: list[pool.Unit], **options: object) -> dict[str, bytes]:
        names.extend(unit.name for unit in units)
        return compile_units(units, jobs=0)

    monkeypatch.setattr("stepwell.backends.llvm_cpu.pool.compile_units", watched)
    return names


def compiled(source: object = None, **options: object) -> CompiledModel:
    model = stepwell.compile(network() if source is None else source, **{"threads": 1, **options})  # type: ignore[arg-type]
    assert isinstance(model, CompiledModel)
    return model


def was_found(model: CompiledModel) -> bool:
    return list(model.timings) == ["cache"]


def files(cache_folder: Path, kind: str) -> list[Path]:
    return sorted(file for file in (cache_folder / "v2" / kind).rglob("*") if file.is_file())


# --- whole models


def test_a_model_is_found_and_gives_the_same_bits(cache_folder: Path) -> None:
    source = network(activation="Tanh")  # its constants are in the objects
    first, second = compiled(source), compiled(source)
    assert not was_found(first)
    assert was_found(second)
    without = compiled(source, cache=False)
    assert not was_found(without)
    (a,), (b,), (c,) = first(X), second(X), without(X)
    assert a.tobytes() == b.tobytes() == c.tobytes()
    assert np.abs(a).max() > 0.1


def test_what_it_says_of_itself_is_the_same(cache_folder: Path) -> None:
    first, second = compiled(), compiled()
    assert (second.inputs, second.outputs, second.kernels, second.memory) == (first.inputs, first.outputs, first.kernels, first.memory)
    assert second.objects == first.objects
    assert second.weights.arena().tobytes() == first.weights.arena().tobytes()
    assert not second.weights.arena().flags.writeable
    for level in ("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm", "llvm-ir", "asm"):
        text = second.ir(level)
        assert text == first.ir(level), level
        assert text.count("\n") > 3
    assert "graph.conv" in second.ir("graph")
    assert "node 0: first/conv" in second.ir("asm")
    with pytest.raises(InputError, match="unknown level 'machine'"):
        second.ir("machine")


def test_several_sources_of_the_same_bytes(cache_folder: Path, tmp_path: Path) -> None:
    data = network().SerializeToString(deterministic=True)
    (tmp_path / "net.onnx").write_bytes(data)
    compiled(data)
    assert was_found(compiled(network()))
    assert was_found(compiled(tmp_path / "net.onnx"))
    assert was_found(compiled(str(tmp_path / "net.onnx")))
    assert was_found(compiled(bytearray(data)))
    assert was_found(compiled(memoryview(bytes(byte for byte in data for _ in range(2)))[::2]))


@pytest.mark.parametrize("options", [{"target": "x86-64-v3"}, {"disable": ("expand-math",)}, {"shapes": {"x": (2, 5, 9, 9)}}])
def test_other_options_are_another_model(cache_folder: Path, options: dict[str, object]) -> None:
    compiled()
    assert not was_found(compiled(**options))
    assert was_found(compiled(**options))
    assert was_found(compiled())


def test_threads_are_no_part_of_it(cache_folder: Path) -> None:
    compiled(threads=1)
    other = compiled(threads=2)
    assert was_found(other)
    assert other.threads == 2


def test_other_content_is_another_model(cache_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(1), path)
    (one,) = compiled(path)(X)
    onnx.save(network(2), path)
    second = compiled(path)
    assert not was_found(second)
    assert np.abs(second(X)[0] - one).max() > 0.1


@pytest.mark.parametrize("what", ["version", "_sources", "described"])
def test_other_versions_sources_and_machines_are_misses(cache_folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    from stepwell.cache import fingerprint

    compiled()
    fingerprint._toolchain.cache_clear()
    try:
        replacement = {"version": lambda package: "99", "_sources": lambda patterns: "edited", "described": lambda target: "another"}[what]
        monkeypatch.setattr(fingerprint, what, replacement)
        assert not was_found(compiled())
    finally:
        fingerprint._toolchain.cache_clear()


def test_source_that_changed_since_it_was_loaded_is_not_trusted(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.cache.fingerprint.LOADED_AT", 0.0)
    compiled()
    assert not was_found(compiled())
    assert files(cache_folder, "models") == files(cache_folder, "objects") == []


def test_external_data_is_part_of_the_model(cache_folder: Path, tmp_path: Path) -> None:
    def save(where: Path, seed: int) -> Path:
        where.mkdir(exist_ok=True)
        onnx.save_model(network(seed), where / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
        return where / "net.onnx"

    one, two = save(tmp_path / "one", 1), save(tmp_path / "two", 2)
    (a,), (b,) = compiled(one)(X), compiled(two)(X)
    assert np.abs(a - b).max() > 0.1
    again = [compiled(one), compiled(two)]
    assert [was_found(model) for model in again] == [True, True]
    assert [model(X)[0].tobytes() for model in again] == [a.tobytes(), b.tobytes()]
    save(tmp_path / "one", 2)
    assert compiled(one)(X)[0].tobytes() == b.tobytes()
    (tmp_path / "two" / "net.bin").unlink()
    with pytest.raises(ModelError, match=r"net\.bin"):
        compiled(two)


def test_free_dimensions(cache_folder: Path) -> None:
    source = network(rows="rows")
    first = stepwell.compile(source, specialise="always")
    (y,) = first(X)
    second = stepwell.compile(source, specialise="always")
    assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
    assert second.inputs[0].shape == (2, 5, "rows", 9)
    assert second(X)[0].tobytes() == y.tobytes()
    assert list(second.timings) == ["cache"]
    assert second(X[:, :, :4])[0].shape == (2, 3, 4, 4)
    assert list(second.timings) != ["cache"]


def test_a_wrong_model_or_option_is_told_with_a_cache_too(cache_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    for _ in range(2):
        with pytest.raises(ModelError):
            compiled(tmp_path / "bad.onnx")
        with pytest.raises(ModelError, match="cannot be read"):
            compiled(tmp_path / "none.onnx")
        with pytest.raises(ModelError):
            compiled(memoryview(b"abcd")[::2])
        with pytest.raises(InputError, match="x"):
            compiled(shapes={"x": "nonsense"})
        with pytest.raises(InputError, match="cannot be switched off"):
            compiled(disable=("nonsense",))
    assert files(cache_folder, "models") == []


def test_ir_of_a_file_that_changed_is_refused(cache_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(1), path)
    compiled(path)
    model, told = compiled(path), path.stat()
    os.utime(path, ns=(1, 1))
    assert "graph.conv" in model.ir("graph")  # only its time has changed
    model = compiled(path)
    onnx.save(network(2), path)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert path.stat().st_size == told.st_size
    with pytest.raises(ModelError, match=r"net\.onnx: the file has changed"):
        model.ir("graph")
    assert len(model.ir("asm")) > 100


def test_plugins_are_part_of_it(cache_folder: Path, tmp_path: Path) -> None:
    """One process a step, because a plugin cannot be unloaded."""
    plugin, model = tmp_path / "shift.py", tmp_path / "net.onnx"
    source = """
from stepwell.frontends.onnx import onnx_rule
from shift_by import AMOUNT
@onnx_rule("Shift", since=1, domain="test.cache")
def shift(b, x):
    return b.neg(x) if AMOUNT < 0 else b.abs(x)
"""
    plugin.write_text(source)
    value = helper.make_tensor_value_info
    node = helper.make_node("Shift", ["x"], ["y"], domain="test.cache")
    graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test.cache", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), model)
    script = f"""
import numpy as np, sys
sys.path.insert(0, {str(tmp_path)!r})
import stepwell.plugin_files
stepwell.plugin_files.load_file({str(plugin)!r})
model = stepwell.compile({str(model)!r})
print(list(model.timings)[0], model(np.float32([1, -2, 3]))[0].tolist())
"""

    def outcome(amount: int) -> str:
        (tmp_path / "shift_by.py").write_text(f"AMOUNT = {amount}\n")
        return python(script).strip()

    assert outcome(1) == "graph [1.0, 2.0, 3.0]"
    assert outcome(1) == "cache [1.0, 2.0, 3.0]"
    assert outcome(-1) == "graph [-1.0, 2.0, -3.0]", "what the plugin imports from beside it has changed"


def test_extensions_that_were_typed_in_are_not_trusted(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell.dialects.support.extensions import _modules

    compiled()
    _modules.add("typed_in")
    assert not was_found(compiled())
    _modules.clear()
    assert was_found(compiled())


# --- kernels


def test_kernels_of_another_model_are_found(cache_folder: Path, compiled_units: list[str]) -> None:
    compiled(network(1))
    count = len(compiled_units)
    assert count >= 2
    other = compiled(network(2))  # other weights, the same code
    assert not was_found(other)
    assert len(compiled_units) == count
    assert compiled(network(2), cache=False)(X)[0].tobytes() == other(X)[0].tobytes()


def test_kernels_are_found_whatever_their_nodes_are_called(cache_folder: Path, compiled_units: list[str]) -> None:
    compiled()
    before = len(compiled_units)
    source = network()
    for node in source.graph.node:
        node.name = f"block 7: {node.name.upper()}"
    renamed = compiled(source)
    assert not was_found(renamed)
    assert len(compiled_units) == before
    assert ": block 7: FIRST/CONV" in renamed.ir("asm")

    source.graph.node.insert(0, helper.make_node("Softsign", ["x"], ["z"], name="new"))
    source.graph.output.add().CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 5, 9, 9]))
    longer = compiled(source)
    names = compiled_units[before:]
    assert len(names) == 2, "the new kernel and @main"
    assert "main" in names
    assert longer.ir("asm") == compiled(source, cache=False).ir("asm")  # though the kernels in the cache had other numbers for their nodes
    assert "node 1: block 7: FIRST/CONV" in longer.ir("asm")
    assert "node 0: new" in longer.ir("asm")
    again = compiled(source)
    assert was_found(again)
    assert again.ir("asm") == longer.ir("asm")


def test_a_pass_that_is_edited_leaves_kernels_that_do_not_change(
    cache_folder: Path, compiled_units: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepwell.cache import fingerprint

    compiled()
    before = list(compiled_units)
    everything = fingerprint._ALL
    real = fingerprint._sources
    monkeypatch.setattr(fingerprint, "_sources", lambda patterns: "edited" if patterns == everything else real(patterns))
    assert not was_found(compiled())
    assert compiled_units == before


def test_code_generation_imports_nothing_from_other_passes() -> None:
    """What its key covers (see `fingerprint._CODE_GENERATION`) is all that the last step runs."""
    script = """
import sys
from stepwell.backends.llvm_cpu import objects
from stepwell.backends.llvm_cpu import worker
from stepwell.passes import affine_to_llvm
from stepwell.passes.framework import runner
others = [name for name in sys.modules if name.startswith("stepwell.passes.") and name.count(".") > 1]
others = [name for name in others if name.split(".")[2] in ("graph", "graph_to_linalg", "linalg", "linalg_to_affine")]
print(others)
"""
    assert python(script, is_fork=False).strip() == "[]"


# --- damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A folder that has the model in it, and a result."""
    folder = tmp_path_factory.mktemp("whole") / "cache"
    with kept_kernels(folder):
        (y,) = compiled()(X)
    return folder, y


@pytest.mark.parametrize("kind", ["models", "objects", "weights"])
@pytest.mark.parametrize("damage", ["a bit", "cut", "empty", "gone", "nonsense"])
def test_damage_is_noticed_and_repaired(cache_folder: Path, whole: tuple[Path, np.ndarray], kind: str, damage: str) -> None:
    shutil.copytree(whole[0], cache_folder)
    y = whole[1]
    assert files(cache_folder, kind)
    for file in files(cache_folder, kind):
        data = bytearray(file.read_bytes())
        if damage == "gone":
            file.unlink()
            continue
        data[len(data) // 3] ^= 4
        file.write_bytes({"a bit": bytes(data), "cut": bytes(data[: len(data) // 2]), "empty": b"", "nonsense": b"?"}[damage])
    again = compiled()
    assert not was_found(again)
    assert again(X)[0].tobytes() == y.tobytes()
    repaired = compiled()
    assert was_found(repaired)
    assert repaired(X)[0].tobytes() == y.tobytes()


# --- several processes


WORK = """
import hashlib, sys, numpy as np, stepwell
x = np.random.default_rng(11).standard_normal((2, 5, 9, 9), np.float32)
for path in sys.argv[1:]:
    model = stepwell.compile(path, threads=1)
    print(hashlib.sha256(model(x)[0].tobytes()).hexdigest(), *[m for m in ("torch_mlir", "onnx", "capstone", "llvmlite") if m in sys.modules])
"""


def python(script: str, *arguments: object, is_fork: bool = True) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    process = subprocess.run(started(command) if is_fork else command, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return process.stdout


def test_processes_at_once_get_the_same(cache_folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed}.onnx" for seed in range(2)]
    for seed, path in enumerate(paths):
        onnx.save(network(seed), path)
    processes = [
        subprocess.Popen(started([sys.executable, "-c", WORK, *map(str, paths[::step])]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for step in (1, -1, 1)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [errors for _, errors in outputs] == [""] * 3
    lines = [[line.split()[0] for line in out.splitlines()] for out, _ in outputs]
    assert lines[0] == lines[1][::-1] == lines[2]
    assert len(set(lines[0])) == 2
    assert all(was_found(compiled(path)) for path in paths)
    assert not list((cache_folder / "v2" / "new").iterdir())


def test_a_model_that_is_found_loads_nothing_that_compiles(cache_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    cold, warm = (python(WORK, path, is_fork=False).split() for _ in range(2))
    assert cold[1:] == ["torch_mlir", "onnx", "llvmlite"]
    assert warm == cold[:1]


# --- folders and limits


def test_switched_off_it_leaves_nothing(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(cache=False)
    assert not cache_folder.exists()
    monkeypatch.setenv("STEPWELL_CACHE", "0")
    compiled()
    assert not cache_folder.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_folder_without_permission(cache_folder: Path) -> None:
    cache_folder.mkdir(mode=0o500)
    with pytest.warns(UserWarning, match="cannot be written to"):
        (y,) = compiled()(X)
    assert y.tobytes() == compiled(cache=False)(X)[0].tobytes()


def test_folder_that_cannot_be_made_is_noted_once(cache_folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    cache_folder.parent.mkdir(exist_ok=True)
    cache_folder.write_text("a file where the folder should be")
    (y,) = compiled()(X)
    (z,) = compiled()(X)
    assert y.tobytes() == z.tobytes() == compiled(cache=False)(X)[0].tobytes()
    notes = [str(w.message) for w in recwarn if "cannot be written to" in str(w.message)]
    assert len(notes) == 1
    assert str(cache_folder) in notes[0]


def test_full_disk_is_noted_and_leaves_nothing(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object, **folders: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stepwell.cache.disk.os.replace", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        (y,) = compiled()(X)
    assert np.isfinite(y).all()
    assert [file for file in cache_folder.rglob("*") if file.is_file()] == []


def test_what_cannot_be_touched_is_read_all_the_same(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()

    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError(30, "Read-only file system")

    for name in ("utime", "replace"):
        monkeypatch.setattr(f"stepwell.cache.disk.os.{name}", refused)
    assert was_found(compiled())


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = Cache(tmp_path, 3000)
    for i, key in enumerate(("aa1", "bb2", "cc3")):
        store.put("objects", key, bytes(900))
        os.utime(tmp_path / "v2" / "objects" / key[:2] / key[2:], (1000 + i, 1000 + i))
    assert store.trim() == 0
    assert store.get("objects", "aa1") == bytes(900)  # used just now
    store.put("objects", "dd4", bytes(900))
    assert store.trim() == 1
    assert [store.get("objects", key) is not None for key in ("aa1", "bb2", "cc3", "dd4")] == [True, False, True, True]
    assert sum(entry.size for entry in store.entries()) <= 3000
    assert not store.put("objects", "ee5", bytes(3001)), "larger than everything together may be"


def test_models_are_bounded_too(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(network(0))
    one = sum(entry.size for entry in Cache(cache_folder).entries())
    monkeypatch.setenv("STEPWELL_CACHE_BYTES", str(one + 1000))
    for seed in range(1, 6):
        compiled(network(seed))
        assert sum(entry.size for entry in Cache(cache_folder).entries()) <= one + 1000
    assert was_found(compiled(network(5)))
    assert not was_found(compiled(network(0)))


def test_the_switch_must_be_0_or_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CACHE", "/somewhere")
    with pytest.raises(InputError, match="STEPWELL_CACHE: expected 0 or 1, got '/somewhere'"):
        compiled()


def test_limit_must_be_a_number(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("9" * 5000, "\u0663", "-1", "1e9"):
        monkeypatch.setenv("STEPWELL_CACHE_BYTES", text)
        with pytest.raises(InputError, match="STEPWELL_CACHE_BYTES: expected a number of bytes"):
            disk.chosen_cache(True)
    monkeypatch.setenv("STEPWELL_CACHE_BYTES", "5 GB")
    with pytest.raises(InputError, match="STEPWELL_CACHE_BYTES: expected a number of bytes, got '5 GB'"):
        compiled()


def test_what_a_killed_process_left_goes_after_a_while(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    store.put("objects", "aa1", b"x")
    old, young = tmp_path / "v2" / "new" / "old", tmp_path / "v2" / "new" / "young"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store.trim()
    assert (old.exists(), young.exists()) == (False, True)


def test_nobody_else_may_write_what_is_run(cache_folder: Path) -> None:
    before = os.umask(0)
    try:
        compiled()
    finally:
        os.umask(before)
    places = [cache_folder, *cache_folder.rglob("*")]
    assert len(places) > 12
    assert [path for path in places if path.stat().st_mode & 0o077] == []


def test_keys_do_not_run_together() -> None:
    assert disk.key_of("ab", "c") != disk.key_of("a", "bc")
    assert disk.key_of("a", b"b") == disk.key_of("a", "b")
    assert len(disk.key_of()) == 64


# --- the command


def test_command_shows_and_clears(cache_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*arguments: str) -> str:
        assert command(["cache", *arguments]) == 0
        return capsys.readouterr().out

    assert said("path") == f"{cache_folder}\n"
    assert "0 files, 0 B of at most 8.59 GB" in said()
    model = compiled()
    shown = said("show")
    assert str(cache_folder) in shown
    assert [line.split()[-5] for line in shown.splitlines() if "code of kernels" in line] == [str(len(model.objects))]
    assert "compiled models" in shown
    monkeypatch.setenv("STEPWELL_CACHE", "0")
    assert "switched off" in said()
    monkeypatch.setenv("STEPWELL_CACHE", "1")
    assert said("clear").startswith(f"removed {len(model.objects) + 2} files")
    assert "0 files" in said("show")
    assert not was_found(compiled())


def test_run_command_uses_it(cache_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    texts = []
    for _ in range(2):
        assert command(["run", str(tmp_path / "net.onnx"), "--threads", "1"]) == 0
        texts.append(capsys.readouterr().out)
    assert ": graph " in texts[0]
    assert ": cache " in texts[1]
    assert texts[0].splitlines()[1:] == texts[1].splitlines()[1:]


def test_watching_the_passes_compiles_again(cache_folder: Path) -> None:
    from stepwell.passes.framework.instrumentation import PassTimings

    compiled()
    watching = PassTimings()
    assert not was_found(compiled(instrumentation=watching))
    assert {entry.level for entry in watching.entries} == {"graph-opt", "linalg", "scheduled", "affine", "llvm"}
    levels: list[str] = []
    compiled(on_level=lambda level, seconds: levels.append(level))
    assert levels == ["cache"]


def test_records_are_plain_json(cache_folder: Path) -> None:
    """Nothing that is read back is a pickle: what is in the folder cannot run code by being read."""
    compiled()
    (file,) = files(cache_folder, "models")
    record = json.loads(file.read_bytes()[: -disk._FOOTER_BYTES])
    assert set(record) == {"record", "schema", "fields"}
