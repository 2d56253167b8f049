"""A front end in one file: examples/plugins/own_frontend.py, through the library and the command."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from commands import process

import stepwell
from stepwell.frontends import registry
from stepwell.plugin_files import load_file

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "own_frontend.py"
X = np.random.default_rng(1).standard_normal((2, 5, 16), np.float32)
SHAPES = {"x": X.shape}


@pytest.fixture
def own(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example, loaded as a plugin, with a cache."""
    registry.all_frontends()  # the built-in one registers itself, for the tests to come too
    monkeypatch.setattr(registry, "_FRONTENDS", dict(registry._FRONTENDS))
    monkeypatch.setattr("stepwell.plugin_files._loaded", {})
    monkeypatch.setattr("stepwell.dialects.support.extensions._modules", set())
    before = set(sys.modules)
    load_file(EXAMPLE)
    (name,) = (name for name in set(sys.modules) - before if name.startswith("stepwell_plugin_own_frontend"))
    yield sys.modules[name]
    del sys.modules[name]


def run(model: stepwell.CompiledModel | stepwell.DynamicModel) -> np.ndarray:
    return model.run({"x": X})["y"]


def is_cached(model: stepwell.CompiledModel | stepwell.DynamicModel) -> bool:
    return list(model.timings) == ["cache"]


def test_objects_and_files_are_compiled_and_cached(own: ModuleType, tmp_path: Path) -> None:
    chain, file = own.example(), tmp_path / "net.chain"
    want = own.expected(chain, X)
    file.write_text(chain.text())
    for source in (chain, file, str(file)):
        made = [stepwell.compile(source, shapes=SHAPES, threads=1) for _ in range(2)]
        assert [is_cached(model) for model in made] == ([False, True] if not isinstance(source, str) else [True, True])
        for model in made:
            np.testing.assert_allclose(run(model), want, rtol=1e-4, atol=1e-5)
    other = replace(chain, layers=chain.layers[:1])
    file.write_text(other.text())
    for source in (other, file):
        edited = stepwell.compile(source, shapes=SHAPES, threads=1)
        assert not is_cached(edited)
        np.testing.assert_allclose(run(edited), own.expected(other, X), rtol=1e-4, atol=1e-5)


def test_one_program_for_all_sizes_that_notices_a_change(own: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "net.chain"
    file.write_text(own.example().text())
    model = stepwell.compile(file, threads=1)
    assert isinstance(model, stepwell.DynamicModel)
    assert model.general
    assert [info.shape for info in model.inputs] == [("batch", "length", 16)]
    for x in (X, X[:1, :3]):
        np.testing.assert_allclose(model.run({"x": x})["y"], own.expected(own.example(), x), rtol=1e-4, atol=1e-5)
    file.write_text(own.example(0.1).text())
    with pytest.raises(stepwell.ModelError, match=r"net\.chain: the file has changed since the model was compiled; compile it again"):
        model.specialise(SHAPES)


def test_layers_are_nodes(own: ModuleType) -> None:
    lowered = stepwell.lower(own.example(), "graph-opt", shapes=SHAPES)
    assert lowered.info.nodes == ["mix", "widen", "last"]
    text = lowered.text()
    assert all(f'loc("{name}"' in text for name in lowered.info.nodes)


def test_what_is_wrong_with_a_chain(own: ModuleType) -> None:
    chain = own.example()
    cases = (
        (replace(chain, size=15), stepwell.ModelError, "node 'mix': dimension 0 of operand 'rhs' must be 15"),
        (replace(chain, layers=[replace(chain.layers[0], activation="step")]), stepwell.ModelError, "layer 'mix': expected an activation among"),
        (3, stepwell.InputError, "source: expected a model: a path, bytes or an onnx.ModelProto; the path of a .chain file or a Chain, got 3"),
    )
    for source, kind, said in cases:
        with pytest.raises(kind) as caught:
            stepwell.compile(source, shapes={"x": (2, 5, 15)} if source != 3 and source.size == 15 else SHAPES)
        assert said in str(caught.value)
    for shapes, said in (
        ({"z": (1, 2, 16)}, "there is no input 'z' to give a shape to; the model's inputs: x"),
        ({"x": (1, 16)}, "input 'x' is a tensor of 3 dimensions, the shape given is (1, 16)"),
        ({"x": (1, 2, 17)}, "dimension 2 of input 'x' is 16 in 'x', the shape given says 17"),
    ):
        with pytest.raises(stepwell.InputError) as caught:
            stepwell.compile(chain, shapes=shapes)
        assert said in str(caught.value)


def test_the_command(own: ModuleType, tmp_path: Path) -> None:
    """It compiles the file, checks it by the meaning of its ops, and takes it from the cache until it is edited."""
    file = tmp_path / "net.chain"
    how = (file, "--load", EXAMPLE, "--shape", "x=2x5x16", "--threads", "1")
    for scale in (0.3, 0.1):
        file.write_text(own.example(scale).text())
        ends = [process("main", "run", *how, "--check", kind) for kind in ("reference", "levels")]
        assert [(ended.status, ended.err) for ended in ends] == [(0, ""), (0, "")]
        assert [": cache " in ended.out for ended in ends] == [False, True]
    shown = process("main", "inspect", *how[:3])
    assert shown.out.startswith("a chain of 3 layers\n")
    assert "attention" in shown.out
    listed = process("main", "compile", *how[:5], "--emit", "asm")
    assert "# node 1: mix" in listed.out or "# node 0: mix" in listed.out


LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
import own_frontend, stepwell
stepwell.compile(own_frontend.example(), shapes={"x": (2, 5, 16)}, threads=1)
print([name for name in ("onnx", "google.protobuf", "stepwell.frontends.onnx.importing") if name in sys.modules])
"""


def test_nothing_of_onnx_is_loaded(cache_folder: Path) -> None:
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", LOADED, EXAMPLE.parent], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
