"""Schedule files: read strictly, used for the kernels they name, part of the cache's key, written and read again unchanged."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from every import every
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.cli.main import main as command
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, ScheduleError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.schedule.assign_schedules import schedules_of
from stepwell.passes.schedule.kernel_digest import kernel_digest

RNG = np.random.default_rng(3)
A, W = RNG.standard_normal((5, 24), np.float32), RNG.standard_normal((24, 40), np.float32)


def network(rows: int | str = 5) -> bytes:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="product"), helper.make_node("Tanh", ["m"], ["y"], name="activation")]
    sides = [value("x", TensorProto.FLOAT, [rows, 24])], [value("y", TensorProto.FLOAT, [rows, 40])]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(network())
    return path


def chosen(source: Any, **options: Any) -> dict[str, Any]:
    """What the kernels of a network carry at the level scheduled, as the JSON of a file."""
    lowered = stepwell.lower(source, "scheduled", target="x86-64-v3", **options)
    with lowered.module.context:
        return json.loads(schedules_of(lowered.module.operation, lowered.target).text)


def contraction(file: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The kernel, place and entry of the one contraction."""
    [found] = [(k, op, e) for k, kernel in file["kernels"].items() for op, e in kernel["ops"].items() if e["kind"] == "contraction"]
    return found


def schedules(kernel: str, op: str, entry: dict[str, Any], **more: Any) -> str:
    """The text of a file about one op."""
    return json.dumps({"version": 2, "kernels": {kernel: {"ops": {op: entry}}}, **more})


def test_what_is_written_is_read_and_used(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "schedules.json"
    assert command(["inspect", str(model), "--target", "x86-64-v3", "--emit-schedule", str(file)]) == 0
    data = json.loads(file.read_text())
    assert chosen(model, schedule=file) == data
    kernel, _, entry = contraction(data)
    step = next(name for name in entry["knobs"] if name.startswith("unroll.") and entry["knobs"][name] > 1)
    assert entry["legal"][step]["from"] == 1
    entry["knobs"][step] = 1
    file.write_text(json.dumps(data))
    _, _, changed = contraction(chosen(model, schedule=str(file)))
    assert changed["knobs"] == entry["knobs"]
    other = {name: entries for name, entries in chosen(model)["kernels"].items() if name != kernel}
    assert other == {name: entries for name, entries in chosen(model, schedule=file)["kernels"].items() if name != kernel}


def test_knobs_that_are_not_named_keep_what_would_be_chosen(model: Path) -> None:
    kernel, op, entry = contraction(chosen(model))
    file = Plan.parse(schedules(kernel, op, {"knobs": {"parallel": 1}}))
    _, _, changed = contraction(chosen(model, schedule=file))
    assert changed["knobs"] == {**entry["knobs"], "parallel": 1}


def test_results_are_the_same(model: Path) -> None:
    kernel, op, _ = contraction(chosen(model))
    file = Plan.parse(schedules(kernel, op, {"knobs": {"vector": -1, "parallel": 0}}))
    compiled = stepwell.compile(model, schedule=file, target="x86-64-v3", threads=1)
    bound = np.finfo(np.float32).eps * (24 + 8) * (np.abs(A) @ np.abs(W))
    assert (np.abs(compiled.run({"x": A})["y"] - np.tanh(A.astype(np.float64) @ W)) <= bound).all()


@pytest.mark.usefixtures("cache_folder")
def test_the_cache_tells_schedules_apart(model: Path) -> None:
    kernel, op, _ = contraction(chosen(model))
    files = [Plan.parse(schedules(kernel, op, {"knobs": {"width": w}}), f"file {w}") for w in (1, 4, 4)]
    levels = [list(stepwell.compile(model, schedule=file, target="x86-64-v3", threads=1).timings) for file in (None, *files)]
    assert [level[0] for level in levels] == ["graph", "graph", "graph", "cache"]


@every(
    ("text", "message"),
    [
        ("{", "mine, line 1: not JSON"),
        ("[]", r"mine: expected an object, got \[\]"),
        ('{"version": 2}', "mine: 'kernels' is missing"),
        ('{"version": 3, "kernels": {}}', "mine: version 3 of schedule files is not known, expected 2"),
        ('{"version": 1, "kernels": {"k": {"0": {"knobs": {}}}}}', "mine: version 1 of schedule files .* write one anew with stepwell"),
        ('{"version": 2, "kernels": {}, "more": 0}', "mine: there is no field 'more', expected version, target, choices, kernels"),
        ('{"version": 2, "kernels": {"k": {}, "k": {}}}', "mine: 'k' is given twice in one object"),
        ('{"version": 2, "kernels": {"k": 3}}', "mine: kernel 'k': expected an object, got 3"),
        ('{"version": 2, "kernels": {"k": {}}}', "mine: kernel 'k': 'ops' is missing"),
        ('{"version": 2, "kernels": {"k": {"nodes": [3], "ops": {}}}}', "mine: kernel 'k': 'nodes': expected a string, got 3"),
        ('{"version": 2, "target": {"name": "host"}, "kernels": {}}', "mine: 'target': 'digest' is missing"),
        ('{"version": 2, "kernels": {"k": {"ops": {"one": {"knobs": {}}}}}}', "mine: kernel 'k': 'one' is not the place of an op"),
        ('{"version": 2, "kernels": {"k": {"ops": {"0": {}}}}}', "mine: kernel 'k', op 0: 'knobs' is missing"),
        ('{"version": 2, "kernels": {"k": {"ops": {"0": {"knobs": []}}}}}', "mine: kernel 'k', op 0: 'knobs': expected an object"),
    ],
)
def test_files_are_read_strictly(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Plan.parse(text, "mine")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"knobs": {"width": 3}},
            r"kernel '\w+' \(@\w*matmul_\w+\), op \d+ of product \(contraction\): knob 'width': 3 is not legal, expected one of 1, 2, 4",
        ),
        ({"knobs": {"tile": 3}}, r"\(contraction\): there is no knob 'tile', expected order, parallel, unroll.0"),
        ({"knobs": {"order": [0]}}, r"knob 'order': \[0\] is not legal"),
        ({"knobs": {}, "kind": "reduction"}, "the file is about reduction of .*, this is contraction of"),
        ({"knobs": {}, "sizes": [1, 2]}, r"the file is about an op of \[1, 2\], this is contraction of"),
    ],
)
def test_what_is_not_legal_is_named(entry: dict[str, Any], message: str, model: Path) -> None:
    kernel, op, _ = contraction(chosen(model))
    with pytest.raises(ScheduleError, match="mine: .*" + message):
        chosen(model, schedule=Plan.parse(schedules(kernel, op, entry), "mine"))


def test_kernels_and_ops_that_are_not_there_are_named(model: Path) -> None:
    kernel, _, _ = contraction(chosen(model))
    with pytest.raises(ScheduleError, match=rf"there is no kernel '0123': none computes what that did; the model has .*matmul_\w+ \({kernel}\)"):
        chosen(model, schedule=Plan.parse(schedules("0123", "0", {"knobs": {}})))
    with pytest.raises(ScheduleError, match=rf"kernel '{kernel}' \(@\w*matmul_\w+\): there is no op 99, it has"):
        chosen(model, schedule=Plan.parse(schedules(kernel, "99", {"knobs": {}})))


def test_a_kernel_that_computes_something_else_now_is_told(model: Path, tmp_path: Path) -> None:
    """Where the nodes that the file was written for went."""
    file = tmp_path / "s.json"
    file.write_text(json.dumps(chosen(model)))
    kernel, _, _ = contraction(chosen(model))
    model.write_bytes(network(rows=6))
    with pytest.raises(ScheduleError, match=r"no kernel '\w+' \('\w+' of .*\): none computes what that did; its nodes are now computed by \w+ \("):
        chosen(model, schedule=file)
    assert contraction(chosen(model))[0] != kernel


def test_kernels_are_named_by_what_they_compute(model: Path) -> None:
    """Another model with other names in it has the same ones; schedules do not count."""
    renamed = onnx.load_from_string(network())
    for node in renamed.graph.node:
        node.name += "_renamed"
    kernel, op, entry = contraction(chosen(model))
    again, _, other = contraction(chosen(renamed.SerializeToString()))
    assert (again, other["knobs"]) == (kernel, entry["knobs"])
    assert (entry["nodes"], other["nodes"]) == (["product"], ["product_renamed"])
    file = Plan.parse(schedules(kernel, op, {"knobs": {"parallel": 0}}))
    assert contraction(chosen(renamed.SerializeToString(), schedule=file))[0] == kernel


def test_a_file_for_another_target(model: Path) -> None:
    file = Plan.parse(json.dumps(chosen(model)), "mine")
    message = r"mine: the file is for the target 'x86-64-v3' \(CPU x86-64-v3\), and the model is compiled for 'x86-64-v2' \(CPU x86-64-v2\)"
    with pytest.raises(ScheduleError, match=message):
        stepwell.lower(model, "scheduled", target="x86-64-v2", schedule=file)
    same = replace(resolve("x86-64-v3"), name="mine", cores=3)
    stepwell.lower(model, "scheduled", target=same, schedule=file)


def test_where_a_schedule_cannot_go(tmp_path: Path) -> None:
    file = Plan.parse('{"version": 2, "kernels": {"0123": {"ops": {}}}}', "mine")
    with pytest.raises(InputError, match="mine: a schedule is for one set of shapes"):
        stepwell.compile(network(rows="n"), schedule=file)
    with pytest.raises(InputError, match="mine: IR at level affine has its schedules already"):
        stepwell.read_ir("module {}", "affine", stepwell.lower(network(), "graph").weights, schedule=file)


def test_commands_say_what_is_wrong(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["inspect", str(model), "--schedules", "--target", "x86-64-v3"]) == 0
    assert "contraction" in capsys.readouterr().out
    (tmp_path / "bad.json").write_text('{"version": 2, "kernels": {"nobody": {"ops": {}}}}')
    inspect = ["inspect", str(model)]
    for arguments in (["run", str(model)], ["compile", str(model), "--emit", "scheduled"], [*inspect, "--schedules"], inspect):
        assert command([*arguments, "--schedule", str(tmp_path / "bad.json")]) == 1
        assert "error: SW009" in (error := capsys.readouterr().err)
        assert "there is no kernel 'nobody'" in error
    assert command(["run", str(model), "--schedule", str(tmp_path / "absent.json")]) == 1
    assert "absent.json: No such file" in capsys.readouterr().err


def test_the_pass_takes_a_file_of_its_own(tmp_path: Path) -> None:
    from stepwell.dialects.core.mlir import ir, make_context
    from stepwell.passes.framework.registry import PassState
    from stepwell.passes.framework.runner import PassRunner

    text = """func.func @k(%x: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
      %z = arith.constant 0.0 : f32
      %0 = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
      return %0 : tensor<64xf32>
    }"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        digest = kernel_digest(module.body.operations[0].operation)
        (tmp_path / "s.json").write_text(schedules(digest, "0", {"knobs": {"width": 2}}))
        PassRunner(PassState()).run(module, f"func.func(assign-schedules{{file={tmp_path / 's.json'}}})")
        assert "width = 2" in str(module)


FILL = """func.func @NAME(%x: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant VALUE : f32
  %r = linalg.generic {indexing_maps = [affine_map<(d) -> (MAP)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"] MORE}
      ins(%x : tensor<64xf32>) outs(%o : tensor<64xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.OP %a, %z : f32
      linalg.yield %s : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}"""
NEST = ", sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 8 : i64}>"


@pytest.mark.parametrize(
    ("change", "same"),
    [({"NAME": "other"}, True), ({"%r": "%other", "%s": "%t"}, True), ({"MORE": NEST}, True), ({"VALUE": "2.0"}, False), ({"MAP": "63 - d"}, False),
     ({"OP": "mulf"}, False), ({"64": "32"}, False)],
)  # fmt: skip
def test_a_digest_is_of_what_is_computed(change: dict[str, str], same: bool) -> None:
    digests = []
    for edits in ({}, change):
        text = FILL
        for old, new in {"NAME": "k", "VALUE": "1.0", "MAP": "d", "MORE": "", "OP": "addf", **edits}.items():
            text = text.replace(old, new)
        module = parse_module(text, make_context())
        digests.append(kernel_digest(module.body.operations[0].operation))
    assert (digests[0] == digests[1]) is same


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"\xff\xfe")
    with pytest.raises(ScheduleError, match="expected a plan, which is JSON in UTF-8"):
        stepwell.compile(network(), schedule=tmp_path / "s")


def test_the_example_goes_from_plain_loops_to_what_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).resolve().parents[3] / "examples" / "schedules" / "steps.py"
    spec = importlib.util.spec_from_file_location("steps", path)
    assert spec is not None
    assert spec.loader is not None
    steps = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(steps)
    assert steps.main(["--target", "x86-64-v3", "--size", "40", "--rounds", "2", "--save", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" ms") == 8
    knobs = [contraction(json.loads((tmp_path / f"step{i}.json").read_text()))[2]["knobs"] for i in range(3)]
    assert [k["vector"] for k in knobs] == [-1, 1, 1]


def test_numbers_of_thousands_of_digits_are_refused() -> None:
    """Python's own `int` raises a ValueError for them."""
    long = "9" * 5000
    for text in (
        schedules("k", long, {"knobs": {}}), schedules("k", "0", {"knobs": {}}).replace('"knobs": {}', f'"knobs": {{"vector": {long}}}'),
        f'{{"version": {long}, "kernels": {{}}}}', f"[{long}]", f"-{long}",
    ):  # fmt: skip
        with pytest.raises(ScheduleError):
            Plan.parse(text)
