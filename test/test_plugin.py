"""The example plugins: each is one file, written with one public module, that adds something and shows it."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell import plugin
from stepwell.driver.plugins import load_file

PLUGIN = Path(__file__).resolve().parent.parent / "examples" / "plugins" / "op.py"


def model():
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"], name="double"),
        helper.make_node("SoftShrink", ["twice"], ["y"], name="shrink", domain="com.example", amount=0.75),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [3, 37])], [value("y", TensorProto.FLOAT, [3, 37])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)], ir_version=9)


def test_one_file_adds_an_operator():
    load_file(str(PLUGIN))
    compiled = stepwell.compile(model(), threads=1)
    x = np.random.default_rng(3).standard_normal((3, 37)).astype(np.float32)
    twice = 2 * x
    want = np.where(twice > 0.75, twice - np.float32(0.75), np.where(twice < -0.75, twice + np.float32(0.75), np.float32(0)))
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], want)
    assert compiled.kernels == 1, "the element-wise ops are fused"


def test_the_reference_says_the_same():
    load_file(str(PLUGIN))
    from stepwell.dialects.graph.evaluate import evaluate

    imported = stepwell.lower(onnx.load_from_string(model().SerializeToString()), "graph")
    x = np.random.default_rng(4).standard_normal((3, 37)).astype(np.float32)
    got = stepwell.compile(model(), threads=1).run({"x": x})["y"]
    np.testing.assert_array_equal(evaluate(imported.module, imported.weights, {"x": x})["y"], got)


EXAMPLES = [path for path in sorted(PLUGIN.parent.glob("*.py")) if path.name != "small_models.py"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    """Each compiles a small model with what it adds, and checks the result."""
    ended = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_use_the_public_module_alone(example: Path) -> None:
    modules = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(example.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }  # fmt: skip
    assert {name for name in modules if name is not None and name.partition(".")[0] == "stepwell"} <= {"stepwell", "stepwell.plugin"}


def test_the_public_module_has_what_it_says() -> None:
    """Every name is there for who runs the code and for who checks its types, and says what it is."""
    tree = ast.parse(Path(plugin.__file__).read_text())
    (typing,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in typing.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(plugin.__all__)
    for name in plugin.__all__:
        thing = getattr(plugin, name)
        assert inspect.ismodule(thing) or isinstance(thing, (str, tuple, frozenset)) or typing_alias(thing) or inspect.getdoc(thing), name
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'; it has: BOOL"):
        plugin.Nothing  # noqa: B018


def typing_alias(thing: object) -> bool:
    return type(thing).__module__ == "typing" or type(thing).__name__ in ("UnionType", "GenericAlias")
