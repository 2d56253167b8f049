"""The example plugins: each is one file, written with one public module, that adds something and shows it."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_server import started
from commands import Commands, process
from every import every
from guarded import NAMED
from native_ops import WAYS, instances, problems
from onnx import TensorProto, helper, numpy_helper
from op_cases import with_cases

import stepwell
from stepwell import plugin
from stepwell.pipelines.routes import CPU_PATH
from stepwell.plugin_files import load_file


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


PLUGINS = Path(__file__).resolve().parents[2] / "examples" / "plugins"
PLUGIN = PLUGINS / "op.py"


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
    from stepwell.dialects.interpreter.evaluate import evaluate

    imported = stepwell.lower(onnx.load_from_string(model().SerializeToString()), "graph")
    x = np.random.default_rng(4).standard_normal((3, 37)).astype(np.float32)
    got = stepwell.compile(model(), threads=1).run({"x": x})["y"]
    np.testing.assert_array_equal(evaluate(imported.module, imported.weights, {"x": x})["y"], got)


EXAMPLES = [path for path in sorted(PLUGIN.parent.glob("*.py")) if path.name != "small_models.py"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    """Each compiles a small model with what it adds, and checks the result."""
    ended = subprocess.run(started([sys.executable, example]), capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr


WITH = {  # beside --load, what an example needs to be used by a command
    "own_pass": ("--insert-after", "pack-matmul=round-sums{bits=8}"), "numpy_backend": ("--backend", "numpy"), "own_level": ("--backend", "einsum"),
    "target": ("--target", "small-core"),
}  # fmt: skip
OPS = {
    "SoftShrink": "op", "PixelNorm": "layout_rule", "MuLaw": "own_dialect", "MovingAverage": "own_dialect", "RowProduct": "product_op",
    "Interleave": "product_op",
}  # fmt: skip
"""The operators that the examples add."""
OF_TWO = ("RowProduct", "Interleave")


def of_free_sizes(operator: str, path: Path) -> tuple[str, str]:
    """Writes a model of an operator of free sizes, and an input; the paths of both."""
    sizes: list[int | str] = ["n", 4, "h", "w"] if operator == "PixelNorm" else ["n", "m"]
    attributes = {"window": 5} if operator == "MovingAverage" else {}
    own = helper.make_node(operator, ["x", "x"] if operator in OF_TWO else ["x"], ["t"], name="own", domain="com.example", **attributes)
    nodes = [own, helper.make_node("Neg", ["t"], ["y"], name="neg")]
    sides = [[helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *sides), opset_imports=opsets, ir_version=9), path / f"{operator}.onnx")
    shape = [{"n": 3, "m": 37, "h": 5, "w": 7}.get(str(size), 4) for size in sizes]
    np.save(path / f"{operator}.npy", np.random.default_rng(5).standard_normal(shape).astype(np.float32))
    return str(path / f"{operator}.onnx"), str(path / f"{operator}.npy")


def small_network(path: Path) -> str:
    """Writes a network with what the examples are about: a convolution, element-wise ops, a sum and a product."""
    random = np.random.default_rng(6)
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], name="conv"), helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("ReduceSum", ["b", "axes"], ["c"], name="sum", keepdims=0), helper.make_node("MatMul", ["c", "w"], ["d"], name="product"),
        helper.make_node("Exp", ["d"], ["y"], name="exp"),
    ]  # fmt: skip
    weights = {"v": random.standard_normal((8, 3, 1, 1)).astype(np.float32) / 9, "w": random.standard_normal((8, 5)).astype(np.float32) / 9}
    tensors = [numpy_helper.from_array(a, n) for n, a in {**weights, "axes": np.array([2, 3])}.items()]
    sides = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", [1, 3, 4, 5]), ("y", [1, 5]))]
    graph = helper.make_graph(nodes, "g", *sides, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path / "small.onnx")
    return str(path / "small.onnx")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_keeps_the_meaning_from_level_to_level(example: Path, tmp_path: Path) -> None:
    how = ("--load", str(example), *WITH.get(example.stem, ()))  # in a process of its own: a schedule, say, is for all models from then on
    ended = process("main", "run", small_network(tmp_path), *how, "--check", "levels", "--threads", "1")
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize("operator", OPS)
def test_an_operator_of_an_example_is_part_of_programs_for_all_sizes(commands: Commands, tmp_path: Path, operator: str) -> None:
    model, data = of_free_sizes(operator, tmp_path)
    how = ("--load", str(PLUGINS / f"{OPS[operator]}.py"), "--threads", "1")
    for check, program in (("reference", "never"), ("levels", "always")):
        ended = commands.stepwell("run", model, *how, "--input", data, "--specialise", program, "--check", check)
        assert (ended.status, ended.err) == (0, ""), ended.out
    inspected = commands.stepwell("inspect", model, *how[:2])
    assert inspected.status == 0
    assert "not supported" not in inspected.out


def test_an_op_that_needs_numbers_is_named(tmp_path: Path) -> None:
    """Where it costs a model its program for all sizes. In processes of their own: the plugin's file is gone afterwards."""
    model, data = of_free_sizes("StiffShrink", tmp_path)
    changed = {"b.sizes(operands[0])": "x_type.static_shape", "SoftShrink": "StiffShrink", "soft_shrink": "stiff_shrink"}
    text = PLUGIN.read_text()
    for old, new in changed.items():
        text = text.replace(old, new)
    (tmp_path / "static.py").write_text(text)
    how = ("--load", str(tmp_path / "static.py"))
    text = r"one program for all sizes is not supported: .*'graph\.stiff_shrink' at loc\(\"own\".*static shape is needed"
    ran = process("main", "run", model, *how, "--input", data, "--check", "reference")
    assert ran.status == 0
    inspected = process("main", "inspect", model, *how)
    for said in (ran.out, inspected.out):
        assert re.search(f"{text}.*; code is made for each combination", said), said
    for level in ("linalg", "asm"):
        refused = process("main", "compile", model, *how, "--emit", level, "--specialise", "never")
        assert refused.status == 1
        assert re.search(f"SW002 {text}", refused.err), refused.err


@pytest.mark.parametrize("way", WAYS)
def test_ops_of_examples_pass_the_check_of_ops(way: str) -> None:
    """That of scripts/check_ops.py: at all ranks and sizes, of all element types that they take, with special values."""
    for file in dict.fromkeys(OPS.values()):
        load_file(str(PLUGINS / f"{file}.py"))
    mnemonics = ["soft_shrink", "pixel_norm", "signal.mu_law", "signal.moving_average"]
    assert {*mnemonics} <= {*with_cases()}
    asked = [single for m in mnemonics for single in instances(m, NAMED, only=("x86-64-v3", way))]
    assert len(asked) > 2 * len(mnemonics)
    wrong = problems(asked)
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


def test_there_is_an_example_of_each_thing_that_one_may_add() -> None:
    """By the name that each is made with. docs/architecture.md points to them."""
    made_with = (
        "GraphOp", "onnx_rule", "lowering", "pattern", "register_pass", "register_dialect", "layout_rule", "schedule", "intrinsic",
        "register_target", "register_backend", "register_level", "register_tile_strategy", "register_frontend", "register_cost_model",
        "register_element_type", "register_strategy",
    )  # fmt: skip
    texts = [example.read_text() for example in EXAMPLES]
    assert [name for name in made_with if not any(f"@{name}" in text or f"{name}(" in text or f"({name}," in text for text in texts)] == []
    page = (PLUGINS.parents[1] / "docs" / "architecture.md").read_text()
    assert [example.name for example in EXAMPLES if f"(../examples/plugins/{example.name})" not in page] == []


@every("example", sorted(PLUGINS.parent.rglob("*.py")), ids=lambda path: path.stem)
def test_examples_use_the_public_modules_alone(example: Path) -> None:
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
    imported = [alias for node in typing.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.asname == alias.name for alias in imported), "only `X as X` can be imported from here, say type checkers"
    assert sorted(alias.name for alias in imported) == plugin.__all__ == dir(plugin)
    for name in plugin.__all__:
        thing = getattr(plugin, name)
        plain = inspect.ismodule(thing) or isinstance(thing, (str, tuple, frozenset)) or typing_alias(thing)
        assert plain or inspect.getdoc(thing) or thing.__module__.startswith("torch_mlir."), name
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'; it has: Artifact"):
        plugin.Nothing  # noqa: B018


def two_convolutions(operator: str, domain: str, channels: int, dtype: type = np.float32) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """An operator between two pointwise convolutions over `channels`, and an input and the weights by name."""
    random = np.random.default_rng(11)
    shapes = {"x": (2, 3, 7, 5), "v": (channels, 3, 1, 1), "w": (24, channels, 1, 1)}
    arrays = {name: (random.standard_normal(shape) + 0.25).astype(dtype) for name, shape in shapes.items()}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], name="first"),
        helper.make_node(operator, ["a"], ["b"], name="between", domain=domain),
        helper.make_node("Conv", ["b", "w"], ["y"], name="second"),
    ]
    sides = [[helper.make_tensor_value_info(n, kind, s)] for n, s in (("x", shapes["x"]), ("y", (2, 24, 7, 5)))]
    weights = [numpy_helper.from_array(arrays[name], name) for name in ("v", "w")]
    graph = helper.make_graph(nodes, "g", *sides, weights)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), arrays


def pointwise(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    return np.einsum("nchw,fc->nfhw", image.astype(np.float64), filters[:, :, 0, 0].astype(np.float64))


def graph_opt(model: onnx.ModelProto, target: str) -> str:
    return stepwell.lower(model, "graph-opt", target=target).text()


@pytest.mark.parametrize("channels", [16, 20])  # blocks of 8 lanes that are full, and that are not
def test_an_op_with_a_layout_rule_stays_in_the_layout(channels: int) -> None:
    load_file(str(PLUGINS / "layout_rule.py"))
    model, arrays = two_convolutions("PixelNorm", "com.example", channels)
    image = pointwise(arrays["x"], arrays["v"])
    want = pointwise(image / np.sqrt(np.square(image).mean(axis=1, keepdims=True) + 1e-8), arrays["w"])
    compiled = stepwell.compile(model, threads=1, target="x86-64-v3")
    np.testing.assert_allclose(compiled.run({"x": arrays["x"]})["y"], want, rtol=2e-5, atol=2e-5)
    text = graph_opt(model, "x86-64-v3")
    assert text.count('"graph.transpose"') == 1  # that of the result
    assert f'"graph.pixel_norm"(%arg0{", %arg1" if channels % 8 else ""}) {{axes = array<i64: 1, 4>, channels = {channels}' in text


OWN_LEVEL = """
import sys
import numpy as np, stepwell
from stepwell.plugin_files import load_file

load_file(sys.argv[1])
x = np.random.default_rng(7).standard_normal((1, 3, 4, 5)).astype(np.float32)
model = stepwell.compile(sys.argv[2], backend="einsum")
np.testing.assert_allclose(model.run({"x": x})["y"], stepwell.compile(sys.argv[2], threads=1).run({"x": x})["y"], rtol=1e-4)
assert list(model.timings) == ["graph", "graph-opt", "linalg", "einsum", "obj"], model.timings
assert "algebra.einsum" in model.ir("einsum")
lowered = stepwell.lower(sys.argv[2], "einsum", backend="einsum")
again = stepwell.compile_ir(lowered.text(), "einsum", lowered.weights, backend="einsum")
np.testing.assert_array_equal(again.run({"x": x})["y"], model.run({"x": x})["y"])
for action in (
    lambda: model.ir("affine"),
    lambda: stepwell.lower(sys.argv[2], "scheduled", backend="einsum"),
    lambda: stepwell.lower(sys.argv[2], "einsum"),
    lambda: stepwell.lower(sys.argv[2], "attic", backend="einsum"),
    lambda: stepwell.compile(sys.argv[2], backend="einsum", pipeline=stepwell.Pipeline.default()),
    lambda: stepwell.compile(sys.argv[2], backend="einsum", schedule="my.json"),
):
    try:
        action()
    except stepwell.StepwellError as error:
        print(type(error).__name__, error)

from stepwell.driver.kernel_contract import kernel_problems
from stepwell.plugin import Level, register_level

register_level(Level("bare", outlined=True, arena=True))
print(kernel_problems(lowered.module.operation, "einsum"), *kernel_problems(lowered.module.operation, "bare"))
"""


def test_a_level_and_a_backend_in_one_file(tmp_path: Path) -> None:
    """The path from linalg on is another than that of the default backend; who asks for what is not on it is told what is."""
    said = child(OWN_LEVEL, str(PLUGINS / "own_level.py"), small_network(tmp_path)).splitlines()
    path, default = "graph, graph-opt, linalg, einsum", ", ".join(CPU_PATH)
    expected = [
        f"InputError SW003 unknown level 'affine'; known: {path}",
        f"InputError SW003 backend 'einsum' has no level 'scheduled'; it goes through {path}",
        f"InputError SW003 backend 'llvm' has no level 'einsum'; it goes through {default}",
        f"InputError SW003 unknown level 'attic'; the levels are: {default}, einsum",
        f"PipelineError SW006 default pipeline: it goes through {default}, and backend 'einsum' through {path}",
        f"InputError SW003 schedule: expected none for backend 'einsum': no level of {path} has schedules",
    ]
    assert said[: len(expected)] == expected
    (contract,) = said[len(expected) :]
    assert contract.startswith("[] kernel @")
    assert "'algebra.einsum' of product is left at level bare" in contract


OWN_TILE = """
import sys
import numpy as np, onnx, stepwell
from stepwell.analysis.explain import Explanation
from stepwell.plugin_files import load_file

model, how = onnx.load(sys.argv[2]), dict(target="x86-64-v3")
random = np.random.default_rng(12)
# Terms that all but cancel out: in any order, a plain sum is as wrong as its partial sums are rounded.
x = random.standard_normal((1999, 21)).astype(np.float32)
x = np.concatenate([x, random.uniform(0.001, 0.002, x.shape).astype(np.float32) - x])
y = random.standard_normal((21, 1999)).astype(np.float32)
feed = {"x": x, "y": y}
before = stepwell.compile(model, threads=1, **how).run(feed)
code = stepwell.lower(model, "affine", **how).text()
load_file(sys.argv[1])
told = Explanation()
after = stepwell.compile(model, threads=1, **how).run(feed)
lowered = stepwell.lower(model, "affine", instrumentation=told, **how)
exact = {"columns": x.astype(np.float64).sum(0), "rows": x.astype(np.float64).sum(1), "product": y.astype(np.float64) @ x[:1999]}
for name, want in exact.items():
    wrong = [float(np.abs(out[name] - want).max() / np.abs(want).max()) for out in (before, after)]
    print(name, *(error < 2e-7 for error in wrong), np.array_equal(before[name], after[name]))
infinite = dict(feed, x=np.where(np.arange(21) == 3, np.float32(np.inf), x))
print(*np.isinf(stepwell.compile(model, threads=1, **how).run(infinite)["columns"][2:5]))
print(code.count("arith.subf"), "arith.subf" in lowered.text(), "iter_args(" in lowered.text())
for decision in told.decisions:
    if decision.run == "lower-to-affine" and decision.op == "linalg.generic":
        print(decision.by, decision.done, decision.what)
"""


def test_a_tile_strategy_in_one_file(tmp_path: Path) -> None:
    """Sums that carry their errors are exact where plain ones are not; where vectors lie along the sum, the strategy declines and nothing changes."""
    value, axes = helper.make_tensor_value_info, [numpy_helper.from_array(np.array([n]), f"axis{n}") for n in (0, 1)]
    nodes = [
        helper.make_node("ReduceSum", ["x", "axis0"], ["columns"], name="columns", keepdims=0),
        helper.make_node("ReduceSum", ["x", "axis1"], ["rows"], name="rows", keepdims=0),
        helper.make_node("Slice", ["x", "low", "high"], ["half"], name="half"),
        helper.make_node("MatMul", ["y", "half"], ["product"], name="product"),
    ]
    axes += [numpy_helper.from_array(np.array([n]), name) for name, n in (("low", 0), ("high", 1999))]
    inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in (("x", [3998, 21]), ("y", [21, 1999]))]
    outputs = [value(name, TensorProto.FLOAT, None) for name in ("columns", "rows", "product")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, axes)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "sums.onnx")
    said = child(OWN_TILE, str(PLUGINS / "own_tile.py"), tmp_path / "sums.onnx").splitlines()
    assert said[:5] == ["columns False True False", "rows True True True", "product False True False", "False True False", "0 True True"]
    declined = "compensated-sums False vectors lie along a summed dimension, and their lanes are added up without their errors"
    assert {*said[5:]} == {"compensated-sums True computes register tiles", declined, "sums-in-lanes True computes register tiles"}


def test_a_version_in_one_file(tmp_path: Path) -> None:
    """Versions that a plugin proposes are explained, and overridden by a plan, like built-in ones. (The example checks what they compute.)"""
    value, w = helper.make_tensor_value_info, numpy_helper.from_array(np.ones((64, 48), np.float32), "w")
    sides = [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 48])]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "g", *sides, [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "product.onnx")
    (tmp_path / "plan.json").write_text(json.dumps({"version": 2, "choices": {"version-serial": {"product": "one version"}}}))
    how = ("main", "inspect", str(tmp_path / "product.onnx"), "--specialise", "never", "--load", str(PLUGINS / "own_version.py"))
    for plan, chosen, told in (
        ((), "two versions", "gets a version for n up to 1, which asks for no threads"),
        (("--plan", str(tmp_path / "plan.json")), "one version (from a plan)", "one version computes all values of n"),
    ):
        ended = process(*how, "--explain", "product", *plan)
        assert ended.status == 0, ended.err
        assert f"version-serial/product: {chosen}, of one version, two versions" in ended.out
        assert told in ended.out


BETWEEN = """
from stepwell.plugin import Level, LevelPath, LLVMOnCPU, Phase, register_backend, register_level

register_level(Level("tidy", outlined=True, arena=True, scheduled=True, interpretable=True))


@register_backend("by-way-of-tidy")
class Tidy(LLVMOnCPU):
    path = LevelPath("graph", "graph-opt", "linalg", "scheduled", "tidy", "affine", "llvm")

    def phases(self, target):
        return (*super().phases(target), Phase("tidiness", "tidy", "cse"))
"""


def test_a_level_between_those_of_the_built_in_backend(tmp_path: Path) -> None:
    (tmp_path / "between.py").write_text(BETWEEN)
    model, file = small_network(tmp_path), str(tmp_path / "pipeline.txt")
    how = ("--load", str(tmp_path / "between.py"), "--backend", "by-way-of-tidy")
    ended = process("main", "run", model, *how, "--check", "levels")
    assert ended.status == 0
    assert re.search(r"^tidy +scheduled .* ok$", ended.out, re.MULTILINE)
    assert re.search(r"^native code +tidy .* ok$", ended.out, re.MULTILINE)
    assert process("main", "pipeline", *how, "-o", file).status == 0
    assert process("main", "run", model, *how, "--pipeline", file, "--check", "onnxruntime").status == 0
    ended = process("main", "run", model, *how, "--insert-after", "affine/cse=assign-schedules")
    assert ended.status == 2
    assert "pass 'assign-schedules' works on IR at level linalg and cannot stand in stage affine, whose IR is at tidy or affine" in ended.err


def test_commands_know_the_levels_of_a_backend(tmp_path: Path) -> None:
    model, file = small_network(tmp_path), str(tmp_path / "own.mlir")
    own, path, default = ("--load", str(PLUGINS / "own_level.py"), "--backend", "einsum"), "graph, graph-opt, linalg, einsum", ", ".join(CPU_PATH)
    assert process("main", "compile", model, *own, "--emit", "einsum", "-o", file).status == 0
    ended = process("main", "run", file, *own, "--from", "einsum", "--check", f"onnxruntime:{model}")
    assert ended.status == 0
    assert " ok" in ended.out
    shown = process("main", "pipeline", *own).out
    assert shown.splitlines()[1] == f"levels: {path}"
    assert "to einsum" in shown
    assert "to affine" not in shown
    wrong = {
        ("compile", model, *own, "--emit", "affine"): f"--emit affine: backend einsum knows {path}",
        ("run", file, *own, "--from", "scheduled"): f"--from scheduled: expected one of the levels of backend einsum: {path}",
        ("run", file, "--from", "einsum"): f"--from einsum: expected one of the levels of backend llvm: {default}",
        ("run", file, *own): f"{file}: say at which level this IR is, with --from graph|graph-opt|linalg|einsum",
    }
    for arguments, text in wrong.items():
        ended = process("main", *arguments)
        assert (ended.status, ended.err) == (2, f"stepwell {arguments[0]}: error: {text}\n")


def test_one_op_becomes_several_structured_ops_of_one_kernel() -> None:
    load_file(str(PLUGINS / "layout_rule.py"))
    domain, value, x = "com.example", helper.make_tensor_value_info, np.random.default_rng(5).standard_normal((3, 11, 6)).astype(np.float16)
    nodes = [helper.make_node("PixelNorm", ["x"], ["n"], domain=domain), helper.make_node("Relu", ["n"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT16, x.shape)], [value("y", TensorProto.FLOAT16, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)], ir_version=9)
    compiled = stepwell.compile(model, threads=1)
    wide = x.astype(np.float64)
    want = np.maximum(wide / np.sqrt(np.square(wide).mean(axis=1, keepdims=True) + 1e-8), 0)
    np.testing.assert_allclose(compiled.run({"x": x})["y"], want, rtol=1e-3, atol=1e-3)
    assert compiled.kernels == 1
    generics = stepwell.lower(model, "linalg").text().count("linalg.generic")
    assert generics == 2, "the squares are part of the sums' loops, relu is part of the quotients'"


def child(code: str, *arguments: object) -> str:
    """What a process of its own prints that runs `code`, so that what plugins register there stays there."""
    ended = subprocess.run(started([sys.executable, "-c", code, *arguments]), capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_ops_of_a_plugins_dialect_are_fused_and_laid_out(tmp_path: Path) -> None:
    """As a relu in their place is: in the same number of kernels, and with nothing brought out of the layout."""
    model, arrays = two_convolutions("MuLaw", "com.example", 20)
    onnx.save(model, tmp_path / "m.onnx")
    onnx.save(two_convolutions("Relu", "", 20)[0], tmp_path / "relu.onnx")
    np.save(tmp_path / "x.npy", arrays["x"])
    out = child(
        """
import sys, numpy, stepwell
from stepwell.plugin_files import load_file
folder = sys.argv[2]
load_file(sys.argv[1])
found = []
for name in ("m", "relu"):
    model = stepwell.compile(f"{folder}/{name}.onnx", threads=1, target="x86-64-v3")
    found.append((model.kernels, model.ir("graph-opt").count('"graph.transpose"')))
    if name == "m":
        numpy.save(f"{folder}/y.npy", model.run({"x": numpy.load(f"{folder}/x.npy")})["y"])
        body = model.ir("graph-opt").partition("func.func private @packed_conv")[2].partition("return")[0]
        assert '"signal.mu_law"' in body, body
print(*found)
""",
        PLUGINS / "own_dialect.py", tmp_path,
    )  # fmt: skip
    assert out == "(3, 1) (3, 1)\n"
    image = pointwise(arrays["x"], arrays["v"])
    want = pointwise(np.sign(image) * np.log1p(255 * np.abs(image)) / np.log1p(255), arrays["w"])
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=2e-5, atol=2e-5)


def signal_model(path: Path, window: int = 5) -> np.ndarray:
    """Write a model of both ops of the example's dialect and a relu, and its input beside it; returns the result."""
    value, x = helper.make_tensor_value_info, np.random.default_rng(7).standard_normal((4, 61)).astype(np.float32)
    nodes = [
        helper.make_node("MuLaw", ["x"], ["a"], name="compand", domain="com.example", mu=15.0),
        helper.make_node("MovingAverage", ["a"], ["b"], name="smooth", domain="com.example", window=window),
        helper.make_node("Relu", ["b"], ["y"], name="positive"),
    ]
    sides = [value("x", TensorProto.FLOAT, x.shape)], [value("y", TensorProto.FLOAT, (4, 61 - window + 1))]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *sides), opset_imports=opsets, ir_version=9), path)
    np.save(path.with_suffix(".npy"), x)
    companded = np.sign(x) * np.log1p(15 * np.abs(x).astype(np.float64)) / np.log1p(15)
    return np.maximum(np.lib.stride_tricks.sliding_window_view(companded, window, axis=1).mean(axis=2), 0)


def stepwell_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = started([sys.executable, "-m", "stepwell.cli.main", *arguments])
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(("check", "converts"), [("reference", "Signal"), ("levels", "Signal"), ("levels", "MovingAverageOp")])
def test_a_dialect_with_its_conversion_by_load(tmp_path: Path, check: str, converts: str) -> None:
    want = signal_model(tmp_path / "m.onnx")
    plugin_file, data = tmp_path / "mine.py", f"x={tmp_path / 'm.npy'}"
    plugin_file.write_text((PLUGINS / "own_dialect.py").read_text().replace("converts=[Signal]", f"converts=[{converts}]"))
    ended = stepwell_command(
        "run", tmp_path / "m.onnx", "--load", plugin_file, "--input", data, "--check", check, "--save", tmp_path / "out.npz"
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], want, rtol=1e-5, atol=1e-6)


def test_what_no_pass_converts_is_told(tmp_path: Path) -> None:
    signal_model(tmp_path / "m.onnx")
    load = ["run", tmp_path / "m.onnx", "--load", PLUGINS / "own_dialect.py"]
    ended = stepwell_command(*load, "--remove-pass", "convert-signal-to-linalg")
    assert ended.returncode == 1
    assert "SW005 level linalg: kernel @signal_moving_average_" in ended.stderr
    assert "'signal.moving_average' of smooth is left at level linalg, although pass 'convert-signal-to-linalg' says" in ended.stderr
    alone = tmp_path / "alone.py"  # as the example, without its pass
    alone.write_text((PLUGINS / "own_dialect.py").read_text().replace(", converts=[Signal]", ""))
    ended = stepwell_command("run", tmp_path / "m.onnx", "--load", alone)
    assert ended.returncode == 1
    assert "SW002" in ended.stderr
    assert "smooth: 'signal.moving_average' has no lowering to linalg, and no pass says that it converts it" in ended.stderr


TAPS = """
import numpy as np
from stepwell.plugin import (
    Attribute, Dialect, Elementwise, GraphOp, Operand, Pure, Result, Scalars, ir, lowering, onnx_rule, register_dialect,
)

@register_dialect
class Taps(Dialect, name="taps"):
    "An attribute of its own."

class LimitsAttr(Attribute, name="limits", dialect=Taps):
    "The least and the greatest number."
    least: ir.IntegerAttr
    most: ir.IntegerAttr

class HoldOp(GraphOp, name="hold", dialect=Taps, traits=[Pure, Elementwise]):
    "Each number, held between two."
    x: Operand
    limits: LimitsAttr
    result: Result

    @staticmethod
    def infer(x, *, limits):
        return x

    @staticmethod
    def reference(x, *, limits):
        return np.clip(x, *numbers(limits))

def numbers(limits):
    return ir.IntegerAttr(limits.least).value, ir.IntegerAttr(limits.most).value

@onnx_rule("Hold", since=1, domain="com.example")
def hold(b, x, *, least: int, most: int):
    i64 = ir.IntegerType.get_signless(64)
    return b.build(HoldOp, x, limits=LimitsAttr.get(ir.IntegerAttr.get(i64, least), ir.IntegerAttr.get(i64, most)))

@lowering(HoldOp)
def lower_hold(op, operands, b):
    (kind,), s = op.operand_types(), Scalars(b, "f32")
    least, most = numbers(op.attribute_values()["limits"])
    return b.elementwise(operands, "f32", kind.static_shape, lambda x: s.minimum(s.maximum(x, s.const(least)), s.const(most)))
"""


def test_an_attribute_of_a_plugins_dialect(tmp_path: Path) -> None:
    value, x = helper.make_tensor_value_info, np.random.default_rng(9).standard_normal((5, 9)).astype(np.float32) * 3
    sides = [[value(name, TensorProto.FLOAT, x.shape)] for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Hold", ["x"], ["y"], domain="com.example", least=-1, most=2)], "g", *sides)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("com.example", 1)], ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "taps.py").write_text(TAPS)
    load = ["--load", tmp_path / "taps.py"]
    text = stepwell_command("compile", tmp_path / "m.onnx", *load, "--emit", "graph", "-o", tmp_path / "m.mlir")
    assert text.returncode == 0, text.stderr
    assert '"taps.hold"(%arg0) {limits = #taps.limits<-1 : i64, 2 : i64>}' in (tmp_path / "m.mlir").read_text()
    data = ["--input", f"x={tmp_path / 'x.npy'}", "--check", "reference", "--save", tmp_path / "out.npz"]
    ended = stepwell_command("run", tmp_path / "m.mlir", "--from", "graph", *load, *data)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], np.clip(x, -1, 2))


BINS = """
import numpy as np
from stepwell.plugin import GraphOp, Operand, Pure, Result, onnx_rule

class BinOp(GraphOp, name="bin", traits=[Pure]):
    "The last of eight bins of each number."
    x: Operand
    result: Result

    @staticmethod
    def infer(x):
        return x.with_dtype("i64")

    @staticmethod
    def reference(x):
        return np.clip(x, 0, 7).astype(np.int64)

    VALUE_RANGE

@onnx_rule("Bin", since=1, domain="com.example")
def bin(b, x):
    return b.bin(x)
"""
SAID = """def value_range(self, x):
        return (0, 7)"""


def test_an_op_of_a_plugin_says_what_its_results_lie_in(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Bin", ["x"], ["i"], domain="com.example"), helper.make_node("Gather", ["t", "i"], ["y"])]
    inputs = [value("x", TensorProto.FLOAT, [5]), value("t", TensorProto.FLOAT, [8, 3])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, [5, 3])])
    opsets = [helper.make_opsetid("com.example", 1), helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    checked = {}
    for name, text in (("silent", "pass"), ("said", SAID)):
        (tmp_path / f"{name}.py").write_text(BINS.replace("VALUE_RANGE", text))
        before = ["--pipeline", "graph-opt(check-indices)"]
        ended = stepwell_command("compile", tmp_path / "m.onnx", "--load", tmp_path / f"{name}.py", *before, "--emit", "graph-opt")
        assert ended.returncode == 0, ended.stderr
        checked[name] = "stepwell.checks" in ended.stdout
    assert checked == {"silent": True, "said": False}


BELOW = """
from dataclasses import dataclass
from stepwell.plugin import (
    Dialect, LinalgBuilder, Operand, Operation, Pass, PatternPass, Pure, Result, Scalars, ir, ops_below, pattern, register_dialect, register_pass,
)

@register_dialect
class Below(Dialect, name="below"):
    "Ops of kernels alone."

class RampOp(Operation, name="ramp", dialect=Below, traits=[Pure]):
    "What a relu does."
    x: Operand
    result: Result

@register_pass("ramps", level="graph", after="outline-kernels" if OUTLINED else "pack-matmul")
@dataclass
class Ramps(Pass):
    "Replace relus."

    def run(self, op, state):
        for relu in ops_below(op, "graph.relu"):
            with ir.InsertionPoint(relu), relu.location:
                ramp = ir.Operation.create("below.ramp", results=[relu.results[0].type], operands=[relu.operands[0]])
            relu.results[0].replace_all_uses_with(ramp.results[0])
            relu.erase()

@pattern(RampOp)
def lower_ramp(op, rw):
    b, s = LinalgBuilder(rw.state), Scalars(LinalgBuilder(rw.state), "f32")
    return b.elementwise([op.operation.operands[0]], "f32", list(op.operation.results[0].type.shape), lambda x: s.maximum(x, s.const(0)))

@register_pass("lower-ramps", level="linalg", after="convert-graph-to-linalg")
@dataclass
class LowerRamps(PatternPass):
    "Convert them."
    patterns = (lower_ramp,)
"""


@pytest.mark.parametrize("outlined", [True, False])
def test_ops_below_the_level_graph(tmp_path: Path, outlined: bool) -> None:
    """Any op of a dialect of one's own may be in a kernel; outside of kernels, all say what fusion and the other passes ask."""
    model, arrays = two_convolutions("Relu", "", 16)
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", arrays["x"])
    (tmp_path / "below.py").write_text(BELOW.replace("OUTLINED", str(outlined)).replace('"graph", after="outline', '"graph-opt", after="outline'))
    ended = stepwell_command(
        "run", tmp_path / "m.onnx", "--load", tmp_path / "below.py", "--input", f"x={tmp_path / 'x.npy'}", "--save", tmp_path / "out.npz"
    )
    if outlined:
        assert ended.returncode == 0, ended.stderr
        want = pointwise(np.maximum(pointwise(arrays["x"], arrays["v"]), 0), arrays["w"])
        np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], want, rtol=1e-5, atol=1e-5)
    else:
        assert ended.returncode == 1
        assert "SW002" in ended.stderr
        assert "between: 'below.ramp' is no GraphOp: outside of kernels all ops of this level derive from it" in ended.stderr


@pytest.mark.parametrize(
    ("name", "message"), [("graph", "is already registered by stepwell.dialects.graph.base.Graph"), ("arith", "is one of MLIR's")]
)
def test_a_dialect_needs_a_name_of_its_own(name: str, message: str) -> None:
    class Mine(plugin.Dialect, name=name):
        """Another one."""

    with pytest.raises(stepwell.StepwellError, match=f"dialect '{name}' {message}"):
        plugin.register_dialect(Mine)


def test_a_dialect_must_be_registered() -> None:
    class Forgotten(plugin.Dialect, name="forgotten"):
        """Without the decorator."""

    with pytest.raises(stepwell.StepwellError, match=r"op '.*LostOp': dialect 'forgotten' is not registered; put @register_dialect above it"):

        class LostOp(plugin.GraphOp, name="lost", dialect=Forgotten):
            """An op of it."""


def test_what_a_pass_converts_is_a_dialect_or_an_op() -> None:
    with pytest.raises(stepwell.PipelineError, match="pass 'mine': converts must list classes of dialects and ops, got 'signal'"):
        plugin.register_pass("mine", level="linalg", converts=["signal"])(type("Mine", (plugin.Pass,), {}))  # type: ignore[list-item]


def typing_alias(thing: object) -> bool:
    """Or a class of the bindings, whose documentation is MLIR's."""
    own = getattr(thing, "__module__", "").startswith("torch_mlir")
    return own or type(thing).__module__ == "typing" or type(thing).__name__ in ("UnionType", "GenericAlias", "_CallableGenericAlias")
