"""The benchmark: what it measures is what it says, engines are told apart, profiles are of the work that the model does. No test looks at a time."""

import importlib.util
import json
import os
import pydoc
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import bench
import numpy as np
import onnx
import onnxruntime
import pytest
from forked_engines import TURN, fork_engines
from onnx import TensorProto, helper, numpy_helper

import networks
import stepwell
from benchmark.cores import Cores
from benchmark.engines import environment
from benchmark.jobs import Contestant, Failure, Job, KernelTime, Loaded, TensorSpec, Turn
from benchmark.kernels import parts
from benchmark.models import Network, feeds, find, find_cases
from benchmark.operators import Case, all_cases, select
from benchmark.operators.case import given, op
from benchmark.peak import peak_flops, source
from benchmark.process import EngineProcess
from benchmark.profile import profile
from benchmark.results import SEVEN, Cell, Comparison, geometric_mean, means
from benchmark.session import Protocol, Session, scaled_error
from benchmark.system import multiplies_bytes
from stepwell.analysis.estimates import quartiles
from stepwell.analysis.model_replay import launches_of
from stepwell.cli.session import save_ir
from stepwell.dialects.target.host import host, runs_here
from stepwell.dialects.target.registry import resolve
from stepwell.passes.schedule.assign_schedules import schedules_of

RANDOM = np.random.default_rng(11)
ROOT = Path(__file__).resolve().parents[2]
ENGINES = [name for name in ("stepwell", "onnxruntime", "openvino") if importlib.util.find_spec(name)]
QUICK = ["--rounds", "2", "--runs", "3", "--repeats", "0", "--pause", "0", "--spin", "off", "--warm-up", "1"]


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_engines(monkeypatch)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """All there are: their trees take a second to grow."""
    return list(all_cases())


@pytest.fixture
def grown(cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    """`select` chooses from them."""
    monkeypatch.setattr("benchmark.operators.all_cases", lambda: iter(cases))


@pytest.fixture
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the cores that take less than a millisecond."""
    monkeypatch.setattr("benchmark.cores.STEPS", 1 << 14)
    monkeypatch.setattr("benchmark.cores.AT_FIRST", 2)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """Convolution, batch normalisation, ReLU, pooling, fully connected; the batch is free."""
    weights = {"w": array(8, 3, 3, 3), "s": array(8), "b": array(8), "m": array(8), "v": np.abs(array(8)) + 0.5, "f": array(8, 5)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first/conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], name="first/norm"),
        helper.make_node("Relu", ["n"], ["r"], name="first/relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["l"], name="flatten"),
        helper.make_node("MatMul", ["l", "f"], ["y"], name="last"),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 3, 9, 7])], [value("y", TensorProto.FLOAT, ["n", 5])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in weights.items()])
    path = tmp_path_factory.mktemp("bench") / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.usefixtures("few_looks")
@pytest.mark.nightly  # by day its parts, in the tests of kernels, operators and checkouts
def test_comparison_end_to_end(tiny, tmp_path, capsys, monkeypatch):
    """Without OpenVINO, which is like any peer here: the cases of operators have it."""
    engines = ["stepwell", "onnxruntime"]
    monkeypatch.setattr("benchmark.process.subprocess", subprocess)  # starts are measured
    table, picture = tmp_path / "run.json", tmp_path / "run.png"
    drawn = ["--plot", str(picture)] if importlib.util.find_spec("matplotlib") else []
    status = bench.main([str(tiny), "--shape", "x=2x3x9x7", "--engines", ",".join(engines), "--json", str(table), *drawn, *QUICK, "--repeats", "1"])
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "1 thread: median ms" in shown
    assert "2 threads: median ms" in shown
    assert all(engine in shown for engine in engines)
    record = json.loads(table.read_text())
    assert {(c["network"], c["engine"], c["threads"]) for c in record["cells"]} == {("tiny", e, t) for e in engines for t in (1, 2)}
    for cell in record["cells"]:
        assert [len(turn) for turn in cell["rounds"]] == [3, 3]
        assert all(0 < seconds < 60 for turn in cell["rounds"] for seconds in turn)
        assert cell["error"] < 1e-5
        assert cell["above_weights_bytes"] > 0
        assert cell["engine"] != "onnxruntime" or cell["settings"]["session.intra_op.allow_spinning"] == "0"
    assert set(record["call_overhead"]) == set(engines)
    assert all(start["cold"] > 0 and start["warm"] > 0 for start in record["starts"])
    assert record["settings"]["protocol"]["rounds"] == 2
    assert {threads: seen["kept"] - 2 * len(engines) for threads, seen in record["settings"]["cores"].items()} == {"1": 2 * len(engines), "2": 0}, (
        "two rounds each, and those of the network that does nothing"
    )
    assert set(record["settings"]["versions"]) == set(engines)
    if drawn:
        assert picture.read_bytes().startswith(b"\x89PNG")


def copied_to(folder: Path) -> Path:
    """Another checkout: a copy of this one's package."""
    for name in ("compiler", "dialects", "passes"):
        shutil.copytree(ROOT / name, folder / name)  # bytecode too, which is valid as times are kept
    return folder


def test_another_checkout_takes_part(tiny, tmp_path, capsys):
    other = copied_to(tmp_path / "other")
    arguments = [str(tiny), "--no-starts", "--shape", "x=2x3x9x7", "--engines", "stepwell", "--against", str(other), "--threads", "1", *QUICK]
    assert bench.main([*arguments, "--json", str(tmp_path / "run.json")]) == 0
    assert "to stepwell of other" in " ".join(capsys.readouterr().out.split())
    record = json.loads((tmp_path / "run.json").read_text())
    assert {cell["engine"] for cell in record["cells"]} == {"stepwell", "stepwell of other"}
    with (other / "compiler" / "__init__.py").open("a") as package:
        package.write("raise RuntimeError('of the other')\n")
    assert bench.main(arguments) == 1
    assert re.search(r"failed: tiny, stepwell of .*RuntimeError: of the other", " ".join(capsys.readouterr().out.split()))
    assert bench.main([*arguments, "--against", str(tmp_path / "none")]) == 1
    assert "expected a checkout of stepwell" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("grown")
def test_operators_end_to_end(tmp_path, capsys, monkeypatch):
    """Through the processes, each of which goes from case to case; one operator is wrong in a peer and one is lacking everywhere."""
    table = tmp_path / "run.json"
    lacking = op("NoSuchOperator", "nowhere", given(4, 4))
    cases = [*select("^Where.*attention mask"), lacking, *select(r"^TopK.*classifier"), *select("^TreeEnsembleRegressor 1x50")]
    monkeypatch.setattr("benchmark.models.select", lambda pattern: cases)
    options = ["--operators", "any", "--verbose", "--engines", ",".join(ENGINES), "--threads", "1", "--zoo", str(tmp_path), "--json", str(table)]
    assert bench.main([*options, *QUICK]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    record = json.loads(table.read_text())
    assert [case["operator"] for case in record["cases"]] == ["Where", "NoSuchOperator", "TopK", "TreeEnsembleRegressor"]
    for cell in record["cells"]:
        able = cell["network"] != lacking.name and (cell["engine"], cell["network"]) != ("openvino", cases[-1].name)
        assert [len(turn) for turn in cell["rounds"]] == ([3, 3] if able else []), cell
        assert bool(cell["lack"]) != able
        assert not cell["failure"]
        assert not able or cell["error"] < 1e-5
    assert len(record["cells"]) == len(cases) * len(ENGINES)
    assert "1 thread: 4 cases, 3 with a peer; geometric mean of ratios" in shown
    assert "NoSuchOperator 4x4, onnxruntime, 1 thread: " in shown
    assert str(tmp_path) in shown
    assert "WRONG" not in shown


def test_operators_that_are_wrong():
    """Ours fail the run; those of peers are left out of it. Where the reference lacks an operator, outputs are compared with another peer's."""
    case = op("Relu", "nowhere", given(4))
    network = Network(case.name, Path("x.onnx"), case=case)
    contestants = [Contestant("stepwell"), Contestant("onnxruntime"), Contestant("openvino")]
    right, wrong = [[np.ones(4)]], [[np.zeros(4)]]
    session = Session(contestants, [1], Protocol())

    def checked(**outputs: list[list[np.ndarray]]) -> Comparison:
        made = Comparison([case.name], contestants, [1], tolerances={case.name: case.tolerance}, cases={case.name: case})
        for name in ("stepwell", "onnxruntime", "openvino"):
            made.cell(case.name, name, 1).lack = None if name in outputs else "unknown"
        session._check(made, network, [case.feed(0)], {(name, 1): found for name, found in outputs.items()})
        return made

    made = checked(stepwell=wrong, onnxruntime=right, openvino=right)
    assert made.failures() == [f"{case.name}, stepwell, 1 thread: its outputs differ by 1 of their scale"]
    made = checked(stepwell=right, onnxruntime=right, openvino=wrong)
    assert made.failures() == []
    assert made.cell(case.name, "openvino", 1).lack == "its outputs differ by 1 of their scale"
    made = checked(stepwell=wrong, openvino=right)
    assert len(made.failures()) == 1
    assert "compared with those of openvino" in made.settings["not checked"][case.name]


@pytest.mark.usefixtures("grown")
def test_cases_have_names_of_their_own_and_models_and_data_that_stay():
    cases = select()
    assert len({case.name for case in cases}) == len(cases) > 250
    assert {case.operator for case in select("attention")} > {"Attention", "MultiHeadAttention", "GroupQueryAttention"}
    for case in select("ScatterND|^LSTM.*padded"):
        model = case.model()
        onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
        assert model == case.model()
        first, again, second = case.feed(0), case.feed(0), case.feed(1)
        assert {value.name for value in model.graph.input} == set(first)
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert not all(np.array_equal(first[name], second[name]) for name in first)
    with pytest.raises(Failure, match="no operator"):
        select("no such thing")
    with pytest.raises(Failure, match="no regular expression"):
        select("(")


@pytest.mark.usefixtures("grown")
def test_a_process_goes_on_to_the_next_model(tiny, tmp_path):
    [case] = find_cases("^Relu", tmp_path)
    job = Job(Contestant("onnxruntime"), str(tiny), 1, False, {"x": (1, 3, 9, 7)})
    with EngineProcess(job) as process:
        assert [spec.name for spec in process.load().inputs] == ["x"]
        loaded = process.load(Job(job.contestant, str(case.path), 1, False))
        given = case.feeds(loaded.inputs, 2)
        process.feed(given)
        for feed, (got,) in zip(given, process.outputs(), strict=True):
            np.testing.assert_array_equal(got, np.maximum(feed["x0"], 0))


def test_classical_protocol(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(EngineProcess, "turn", TURN)
    table = tmp_path / "run.json"
    options = ["--classical", "--no-starts", "--shape", "x=1x3x9x7", "--engines", "stepwell,onnxruntime", "--threads", "1", "--json", str(table)]
    assert bench.main([str(tiny), *options, *QUICK]) == 0
    record = json.loads(table.read_text())
    for cell in record["cells"]:
        [runs] = cell["rounds"]
        assert len(runs) == 100
        assert cell["time"]["value"] == pytest.approx(np.mean(runs))
    assert record["statistic"] == "mean"
    assert record["settings"]["protocol"]["images"] == 1
    assert "mean ms" in capsys.readouterr().out


def test_stepwell_compiles_for_the_target_that_is_asked_for(tiny, tmp_path):
    narrow = "x86-64-v2" if runs_here(resolve("x86-64-v2")) else "aarch64-neon"
    table = tmp_path / "run.json"
    options = ["--no-starts", "--shape", "x=1x3x9x7", "--engines", "stepwell,onnxruntime", "--threads", "1", "--json", str(table)]
    assert bench.main([str(tiny), "--target", narrow, *options, *QUICK]) == 0
    cells = {cell["engine"]: cell for cell in json.loads(table.read_text())["cells"]}
    assert cells["stepwell"]["settings"]["target"] == narrow
    assert "target" not in cells["onnxruntime"]["settings"]
    with EngineProcess(Job(Contestant("stepwell", target=narrow), str(tiny), 1, False, {"x": (1, 3, 9, 7)})) as process:
        process.feed(feeds(process.load().inputs, 1))
        filled = 8  # channels, to whole vectors of 128 bits
        flops = sum(call.flops or 0 for call in process.profile(1).calls if "first/conv" in call.nodes)
        assert flops <= filled * (2 * (9 * 7) * (3 * 3 * 3) + 8 * (9 * 7))


def test_ablation_end_to_end(tiny, capsys):
    options = ["--ablate", "--switch", "fold-batch-norm,fuse-operators,fuse-attention", "--shape", "x=1x3x9x7", "--threads", "1"]
    assert bench.main([str(tiny), *options, *QUICK]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "same code" not in rows["fold-batch-norm"] + rows["fuse-operators"]
    assert rows["fuse-attention"].count("same code") == 2, "it has no attention: nothing is timed"
    assert "simplify-algebra" not in rows


def test_a_schedule_and_a_pipeline_are_compared_with_what_is_chosen(tiny, tmp_path, monkeypatch):
    """Beside the plain one, in processes that load the plugin first."""
    for name in ("stepwell.dialects.target.registry._REGISTERED", "stepwell.plugin_files._loaded"):  # for other tests to find as they were
        monkeypatch.setattr(name, dict(pydoc.locate(name)))
    plugin, schedule, table = tmp_path / "plugin.py", tmp_path / "mine.json", tmp_path / "run.json"
    plugin.write_text(
        "import os, pathlib\n"
        "from stepwell.plugin import Caches, Pipes, Target, register_target\n"
        f"pathlib.Path({str(tmp_path)!r}, f'loaded-{{os.getpid()}}').touch()\n"
        "what = frozenset({'sse2', 'sse4.2', 'popcnt'}), 128, 16, False, 1, Caches(1 << 15, 1 << 19, 1 << 22), Pipes(1, 4, 1)\n"
        "register_target('mine', Target('mine', 'x86_64-unknown-linux-gnu', 'x86-64-v2', *what))\n"
    )
    lowered = stepwell.lower(tiny, "scheduled", shapes={"x": (1, 3, 9, 7)}, target="x86-64-v2")
    with lowered.module.context:
        schedules_of(lowered.module.operation, lowered.target).write(schedule)
    options = ["--no-starts", "--shape", "x=1x3x9x7", "--engines", "stepwell,onnxruntime", "--threads", "1", "--json", str(table)]
    chosen = ["--load", str(plugin), "--target", "mine", "--schedule", str(schedule), "--pipeline", "scheduled(func.func(assign-schedules))"]
    assert bench.main([str(tiny), *options, *chosen, *QUICK]) == 0
    cells = {cell["engine"]: cell for cell in json.loads(table.read_text())["cells"]}
    assert set(cells) == {"stepwell", "onnxruntime", "stepwell with the pipeline and mine.json"}
    assert all(cell["error"] < 1e-5 and not cell["failure"] for cell in cells.values())
    assert len(list(tmp_path.glob("loaded-*"))) == 3, "this process and two of stepwell's"
    other = tmp_path / "other.json"
    other.write_text(schedule.read_text().replace('"kernels": {', '"kernels": {"0123": {"ops": {}},'))
    assert bench.main([str(tiny), *options, "--target", "x86-64-v2", "--schedule", str(other), *QUICK]) == 1
    failures = {cell["engine"]: cell["failure"] for cell in json.loads(table.read_text())["cells"] if cell["failure"]}
    assert list(failures) == ["stepwell with other.json"]
    assert "there is no kernel '0123'" in failures["stepwell with other.json"]


@pytest.mark.parametrize("level", ["graph", "scheduled"])
def test_ir_takes_part(tiny, tmp_path, level):
    """In Stepwell alone, with the weights that lie beside it."""
    table = tmp_path / "run.json"
    lowered = stepwell.lower(tiny, level, shapes={"x": (1, 3, 9, 7)}, target="x86-64-v2")
    save_ir(lowered, tmp_path / "net.mlir")
    options = ["--no-starts", "--threads", "1", "--target", "x86-64-v2", "--json", str(table), *QUICK]
    assert bench.main([str(tmp_path / "net.mlir"), "--from", level, "--engines", "stepwell,onnxruntime", *options]) == 0
    [cell] = [cell for cell in json.loads(table.read_text())["cells"] if cell["rounds"]]
    assert (cell["network"], cell["engine"], cell["error"]) == ("net", "stepwell", 0)
    assert "no other engine runs IR" in json.loads(table.read_text())["settings"]["not checked"]["net"]
    assert bench.main([str(tmp_path / "net.mlir"), *options]) == 1, "the level is not given"
    assert bench.main(["--profile", str(tmp_path / "net.mlir"), "--from", level, "--threads", "1", "--target", "x86-64-v2", *QUICK]) == 0


def test_profile_end_to_end(tiny, tmp_path, capsys):
    table = tmp_path / "profile.json"
    assert bench.main(["--profile", str(tiny), "--shape", "x=2x3x9x7", "--threads", "2", "--json", str(table), *QUICK]) == 0
    assert "% of peak" in capsys.readouterr().out
    [found] = json.loads(table.read_text())["profiles"]
    assert found["threads"] == 2
    assert found["peak_flops"] > 1e8
    convolutions = [call for call in found["calls"] if "first/conv" in call["nodes"] and call["flops"]]
    lanes = host().lanes(32)
    filled = -(-8 // lanes) * lanes  # the 8 channels, filled up to a whole block
    multiply_adds = 2 * (2 * 9 * 7) * (3 * 3 * 3)  # for each channel: two images of 9x7, each from 3 channels of 3x3
    # The bias and the ReLU are a few operations for each element of the result.
    assert 8 * multiply_adds <= sum(call["flops"] for call in convolutions) <= filled * (multiply_adds + 8 * (2 * 9 * 7))
    last = [call["flops"] for call in found["calls"] if "last" in call["nodes"]]  # its operand may have to be brought into another layout
    assert 2 * (2 * 5) * 8 <= sum(filter(None, last)) <= 2 * (2 * -(-5 // lanes) * lanes) * 8


def test_profile_refuses_a_replay_that_does_something_else(tiny):
    model = stepwell.compile(tiny, threads=1, shapes={"x": (1, 3, 9, 7)})
    x = array(1, 3, 9, 7)

    class Tampered:
        """The model, with the last call missing from its list of calls."""

        def __getattr__(self, name):
            return getattr(model, name)

        def ir(self, level):
            lines = model.ir(level).splitlines()
            main = next((i for i, line in enumerate(lines) if "func.func @main" in line), 0)
            last = max((i for i, line in enumerate(lines) if " call @" in line and i > main), default=-1)
            return "\n".join(line for i, line in enumerate(lines) if level != "affine" or i != last)

    calls = profile(model, {"x": x}, 1, 1).calls
    assert [call.kernel for call in calls] == [call.kernel for call in launches_of(model.ir("affine"))]
    with pytest.raises(Failure, match="another result"):
        profile(Tampered(), {"x": x}, 1, 1)


@pytest.mark.nightly  # by day models of two checkouts
def test_kernels_of_two_checkouts_are_compared(tiny, tmp_path, capsys):
    """The other one fuses nothing, so that several kernels of it stand for one of ours."""
    other, table = copied_to(tmp_path / "other"), tmp_path / "kernels.json"
    fusion = other / "passes" / "graph" / "fusion" / "grouping.py"
    text = fusion.read_text().replace("self.max_ops, self.state = max_ops, state", "self.max_ops, self.state = 1, state")
    assert text != fusion.read_text()
    fusion.write_text(text)
    options = ["--against", str(other), "--shape", "x=1x3x9x7", "--threads", "1", "--processes", "2", "--json", str(table)]
    assert bench.main(["--profile", str(tiny), *options, *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "stepwell of other kernels" in shown
    assert "geometric mean" in shown
    [found] = json.loads(table.read_text())["comparisons"]
    assert found["labels"] == ["stepwell of other", "stepwell"]
    nodes = [node for part in found["parts"] for node in part["nodes"]]
    assert len(set(nodes)) == len(nodes)
    assert {"first/conv", "first/relu", "pool", "last"} <= set(nodes)
    [first] = [part for part in found["parts"] if "first/conv" in part["nodes"]]
    assert set(first["nodes"]) >= {"first/conv", "first/relu"}
    assert len(first["kernels"][0]) > len(first["kernels"][1])
    assert all(seconds > 0 for part in found["parts"] for seconds in part["seconds"])
    assert min(found["whole"]) > 0


def test_parts_share_no_node():
    def launches(*nodes: str) -> list[tuple[KernelTime, float]]:
        return [(KernelTime(f"k{i}{names}", tuple(names), 9.0, 9.0, None, 0), 2.0**i) for i, names in enumerate(nodes)]

    found = parts(launches("a", "bc", "d", "", "e", "f", ""), launches("ab", "c", "", "d", "fe"))
    assert [(part.nodes, part.seconds) for part in found] == [
        (("a", "b", "c"), (1 + 2, 1 + 2)),
        (("d",), (4, 8)),
        ((), (8 + 64, 4)),
        (("e", "f"), (16 + 32, 16)),
    ]
    assert found[0].kernels == (("k0a", "k1bc"), ("k0ab", "k1c"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile", "squeezenet", "--ablate"], "takes none of --ablate"),
        (["squeezenet", "--profile"], "followed by its networks"),
        (["--profile", "squeezenet", "alexnet", "--schedule", "s.json"], "kernels of one network"),
    ],
)
def test_profiles_that_cannot_be(options, message, capsys):
    with pytest.raises(SystemExit):
        bench.main(options)
    assert message in capsys.readouterr().err


def test_calls_of_a_main_that_is_no_list_are_refused():
    with pytest.raises(stepwell.IRError, match=r"list of calls.*'memref.alloc'"):
        launches_of("func.func @main(%x: memref<4xf32>) { %y = memref.alloc() : memref<4xf32>  return }")


def test_the_peak_keeps_its_multiply_adds():
    target = resolve("host")
    assert source(target, 1, 10).count("vector.fma") == target.vector_registers * 3 // 4
    assert peak_flops(1, steps=1000, repeats=1) > 1e8


def comparison(times: dict[str, list[list[float]]], classical: bool = False) -> Comparison:
    made = Comparison(["net"], [Contestant(name) for name in times], [1], classical)
    for name, rounds in times.items():
        made.cells["net", name, 1] = Cell(rounds=rounds, error=1e-6)
    return made


def test_ratio_is_to_the_fastest_peer():
    c = comparison({"stepwell": [[2.0, 2.0, 9.0], [2.0]], "onnxruntime": [[5.0], [7.0]], "openvino": [[3.0], [3.0]]})
    assert c.best_peer("net", 1) == "openvino"
    assert c.best_ratio("net", 1).value == 1.5  # above 1: ours is faster
    ratio = c.ratio("net", 1, of="onnxruntime", to="stepwell")
    assert (ratio.value, ratio.low, ratio.high) == (3.0, 2.75, 3.25)  # by round: 2.5 and 3.5
    slower = comparison({"stepwell": [[1.0], [1.0], [9.0]], "onnxruntime": [[2.0], [2.0], [9.0]]}).ratio("net", 1, of="onnxruntime", to="stepwell")
    assert (slower.value, slower.low, slower.high) == (2.0, 1.5, 2.0)
    assert comparison({"stepwell": [[1.0, 2.0, 6.0]]}, classical=True).statistic("net", "stepwell", 1).value == 3.0
    assert comparison({"stepwell": [[1.0, 2.0, 6.0]]}).statistic("net", "stepwell", 1).value == 2.0
    assert comparison({"stepwell": [[1.0]], "onnxruntime": []}).best_ratio("net", 1) is None


def test_means_are_geometric_and_say_of_how_many():
    c = Comparison([*SEVEN[:2], "other"], [Contestant("stepwell"), Contestant("onnxruntime")], [2])
    for network, time in zip(c.networks, (1.0, 4.0, 2.0), strict=True):
        c.cells[network, "stepwell", 2], c.cells[network, "onnxruntime", 2] = Cell(rounds=[[1.0]]), Cell(rounds=[[time]])
    assert [(m["group"], m["networks"], m["of"], pytest.approx(m["ratio"])) for m in means(c)] == [("the seven", 2, 7, 2.0), ("all", 3, 3, 2.0)]
    assert geometric_mean([]) is None
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)


def test_wrong_results_and_failures_are_reported():
    c = comparison({"stepwell": [[1.0]], "onnxruntime": [[1.0]]})
    assert c.failures() == []
    c.cells["net", "stepwell", 1].error = 2e-4
    c.cells["net", "onnxruntime", 1].failure = "it crashed"
    assert c.failures() == ["net, stepwell, 1 thread: its outputs differ by 0.0002 of their scale", "net, onnxruntime, 1 thread: it crashed"]


def test_scaled_error():
    want = np.array([1.0, -4.0, np.inf], np.float32)
    assert scaled_error(want, want) == 0
    assert scaled_error(np.array([1.0, -3.0, np.inf], np.float32), want) == 0.25
    assert scaled_error(np.zeros((0, 2)), np.zeros((0, 2))) == 0
    with pytest.raises(Failure, match="NaN"):
        scaled_error(np.array([np.nan, -4.0, np.inf], np.float32), want)
    with pytest.raises(Failure, match="shape"):
        scaled_error(want[:2], want)


def test_turns_go_round_and_another_begins_each_time():
    order = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def turn(self, warm_up, warm_seconds, runs):
            if (self.name, len(order)) == ("b", 8):
                raise Failure("gone")
            order.append(self.name)
            return Turn([1.0] * runs, 0.0)

    contestants = [Contestant(name) for name in "abc"]
    c = Comparison(["net"], contestants, [1])
    session = Session(contestants, [1], Protocol(pause=0.0))
    session.foreign = session.timed = 0.0
    session._rounds(c, "net", {(name, 1): Fake(name) for name in "abc"}, range(4), 2)
    assert " ".join(order) == "a b c b c a c a c a"  # the third round begins with c; b fails at its end and is left out from then
    assert c.cell("net", "a", 1).rounds == [[1.0, 1.0]] * 4
    assert (c.cell("net", "b", 1).lack, c.cell("net", "b", 1).rounds) == ("gone", [])


def test_rounds_are_shared_out_to_processes(tiny, tmp_path, monkeypatch):
    """Each loads the network anew. One that fails in a later process is left out from then on, and its fault is told."""
    started: list[EngineProcess] = []

    class Watched(EngineProcess):
        def __init__(self, job: Job) -> None:
            super().__init__(job)
            started.append(self)

        def load(self, job: Job | None = None) -> Loaded:
            if self.job.contestant.engine == "stepwell" and len(started) > 4:
                raise Failure("it does not start again")
            return super().load(job)

    monkeypatch.setattr("benchmark.session.EngineProcess", Watched)
    contestants = [Contestant("stepwell"), Contestant("onnxruntime")]
    protocol = Protocol(rounds=5, processes=3, runs=2, warm_up=1, pause=0.0, spin=False, starts=False)
    found = Session(contestants, [1], protocol).run([Network("tiny", tiny, {"x": (1, 3, 9, 7)})])
    ours, reference = (found.cell("tiny", contestant.label, 1) for contestant in contestants)
    assert [process.job.contestant.label for process in started] == ["stepwell", "onnxruntime"] * 3
    assert [len(turn) for turn in reference.rounds] == [2] * 5
    assert reference.memory["before"] > 0
    assert (len(ours.rounds), ours.failure, ours.error) == (3, "it does not start again", pytest.approx(0, abs=1e-5))


def test_turns_are_repeated_where_the_machine_gives_less():
    """What is kept is the turn in which it gave most, whatever its time is."""

    class Fake:
        def turn(self, warm_up, warm_seconds, runs):
            return Turn([float(next(numbers))] * runs, 0.0)

    class Shares(Cores):
        """Before the first turn, behind it, and behind each repetition."""

        def __init__(self, *shares: float) -> None:
            super().__init__([2], Path())
            self.given = list(shares)

        def share(self, threads: int) -> float:
            assert threads == 2
            return self.given.pop(0)

    whole, half = 0.97, 0.5
    for shares, kept, counts in [
        ((whole, whole), 0, (1, 0, 0)),
        ((whole, half, whole, whole), 2, (1, 2, 0)),  # the second turn began where the first ended
        ((half, whole, whole), 1, (1, 1, 0)),
        ((half, half, 0.7, 0.6), 2, (1, 2, 1)),
    ]:
        numbers = iter(range(100))
        session = Session([], [2], Protocol(pause=0.0, repeats=2))
        session.foreign = session.timed = 0.0
        session.cores = cores = Shares(*shares)
        assert session._turn(Fake(), 2, 3).seconds == [float(kept)] * 3
        assert cores.given == []
        found = session.turns[2]
        assert (found.kept, found.repeated, found.disturbed) == counts


@pytest.mark.usefixtures("few_looks")
def test_cores_are_seen_beside_each_other(tmp_path):
    with Cores([2], tmp_path) as cores:
        assert all(0 < cores.share(threads) <= 1 for threads in (1, 2, 2))
        assert set(cores.best) == {1, 2}
        assert cores.best[1] > 1, "loops in a second"
        assert cores.gain(1) == 1
        processes = list(cores._processes.values())
        assert all(process.is_alive for process in processes)
    assert not any(process.is_alive for process in processes)


def test_an_engine_that_fails_says_so_and_the_rest_goes_on(tiny, tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    for engine in ENGINES:
        with EngineProcess(Job(Contestant(engine), str(bad), 1, False)) as process, pytest.raises(Failure):
            process.load()
    with EngineProcess(Job(Contestant("stepwell"), str(tiny), 1, False)) as process:
        with pytest.raises(Failure, match="no model was loaded"):
            process.turn(1, 0, 1)
        os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(Failure, match="ended in 'load'"):
            process.load()


def test_spinning_is_what_the_job_says(monkeypatch):
    on, off = (environment(Job(Contestant("stepwell"), "m", 2, spin)) for spin in (True, False))
    assert off == {"KMP_BLOCKTIME": "0", "OMP_WAIT_POLICY": "passive"}
    assert on == {"KMP_BLOCKTIME": "200"}
    assert environment(Job(Contestant("stepwell"), "m", 2, True, cache="here"))["STEPWELL_CACHE_DIR"] == "here"


def test_feeds_fit_and_differ():
    specs = [TensorSpec("x", (1, 3, 224, 224), "float32"), TensorSpec("i", (2, 5), "int64"), TensorSpec("h", (4,), "float16")]
    first, second = feeds(specs, 2)
    assert {name: (a.shape, a.dtype.name) for name, a in first.items()} == {s.name: (s.shape, s.dtype) for s in specs}
    assert not np.array_equal(first["x"], second["x"])
    np.testing.assert_array_equal(first["h"], feeds(specs, 1)[0]["h"])


def test_networks_are_made_once_and_shapes_are_for_files(tiny, tmp_path):
    [made] = find(["bert_layer"], tmp_path)
    stamp = made.path.stat().st_mtime_ns
    [again, given] = find(["bert_layer", str(tiny)], tmp_path, shapes={"x": (1, 3, 9, 7)})
    assert (again.path, again.path.stat().st_mtime_ns, again.shapes) == (made.path, stamp, {})
    assert given.shapes == {"x": (1, 3, 9, 7)}
    for arguments, message in (((["vgg"], tmp_path), "is no file and no network"), (([str(tiny)] * 2, tmp_path), "two networks")):
        with pytest.raises(Failure, match=message):
            find(*arguments)
    with pytest.raises(Failure, match="no file has an input z"):
        find([str(tiny)], tmp_path, shapes={"z": (1,)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--engines", "tvm"], "there is no 'tvm'"), (["--threads", "0"], "expected a number from 1"), (["--pause", "-1"], "expected seconds"),
     (["--target", "z80"], "unknown target 'z80'"), (["--pipeline", "luck(cse)"], "expected stages with passes"),
     (["--schedule", "luck.json"], "--schedule names kernels of one network"), (["x.onnx", "--schedule", "luck.json"], "luck.json: No such file"),
     (["--load", "luck.py"], "plugin luck.py: there is no such file"), (["--from", "asm"], "unknown level 'asm'"),
     (["--engines", "stepwell", "--plot", "x.png"], "needs both"), (["--operators", "Relu", "--ablate"], "it takes no network")],
)  # fmt: skip
def test_wrong_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        bench.main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["nowhere.onnx"], "is no file"), (["--ablate", "--switch", "luck"], "there is no switch 'luck'"), (["--shape", "x"], "expected NAME"),
     (["--operators", "("], "is no regular expression")],
)  # fmt: skip
def test_faults_are_one_line(arguments, message, capsys):
    assert bench.main([*arguments, *QUICK]) == 1
    assert message in capsys.readouterr().err


def test_bert_layer_is_one_and_agrees_with_onnxruntime(zoo):
    path = zoo("bert_layer")
    proto = onnx.load(path)
    count = Counter(node.op_type for node in proto.graph.node)
    assert (count["MatMul"], count["Softmax"], count["Erf"], count["LayerNormalization"]) == (8, 1, 1, 2)
    parameters = sum(numpy_helper.to_array(t).size for t in proto.graph.initializer if t.data_type == TensorProto.FLOAT)
    assert parameters == pytest.approx(12 * 768 * 768, rel=0.01)  # 4 projections and two 4 times as large
    assert "bert_layer" not in networks.NETWORKS
    session = onnxruntime.InferenceSession(path)
    model = stepwell.compile(path)
    for seed in range(2):
        [feed] = feeds([TensorSpec("hidden", (1, 128, 768), "float32")], 1, seed)
        (want,) = session.run(None, feed)
        results = []
        for threads in (1, 2):
            model.threads = threads
            (got,) = model.run(feed).values()
            assert scaled_error(got, want) < 1e-5
            results.append(got)
        np.testing.assert_array_equal(*results, err_msg="results depend on the number of threads")
        assert want.std() > 0.5


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx2 avx512f avx512_vnni", True), ("fpu avx2 avx_vnni", True), ("fpu avx2 avx512f avx512_4vnniw", False), ("", False)],
)
def test_peers_sum_bytes_exactly_in_the_fastest_way(flags: str, expected: bool, tmp_path: Path) -> None:
    """ONNX Runtime is held to exact sums where it would saturate, and nowhere else: that would keep it from its best instruction."""
    described = tmp_path / "cpuinfo"
    described.write_text(f"processor\t: 0\nmodel name\t: some\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
    assert multiplies_bytes(described) == expected
    assert not multiplies_bytes(tmp_path / "none")
