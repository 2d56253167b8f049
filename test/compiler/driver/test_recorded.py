"""tuning="auto": what the records of this machine decide, that they never hinder a compilation, and that the cache notices when they change."""

import gc
import json
import sqlite3
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.analysis.kernels import KernelBench
from stepwell.cli.main import main as command
from stepwell.database.records import Decision, Workload
from stepwell.dialects.core.mlir import make_context
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import ModelWarning
from stepwell.dialects.target.registry import resolve
from stepwell.driver import recorded
from stepwell.driver.compilation import Compilation
from stepwell.driver.lowering import descend, import_options
from stepwell.driver.origin import Origin
from stepwell.driver.recorded import network_content
from stepwell.frontends.base import ImportedModel
from stepwell.frontends.loading import load_model
from stepwell.options import CompileOptions
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg.structured import structured_ops
from stepwell.passes.schedule.assign_schedules import schedules_of
from stepwell.passes.schedule.candidates import ScheduleSpace, parse_knobs, schedule_text
from stepwell.passes.schedule.kernel_digest import kernel_digest, loops_digest, schedule_content
from stepwell.passes.schedule.nest import Nest
from stepwell.pipelines.lowered import Lowered
from stepwell.pipelines.pipeline import Pipeline

TARGET = "x86-64-v3"
DIGEST = resolve(TARGET).digest
X = np.random.default_rng(3).standard_normal((1, 8, 12, 12), np.float32)
AUTO: dict[str, Any] = {"target": TARGET, "tuning": "auto", "threads": 1}
PLAIN: dict[str, Any] = {"target": TARGET, "threads": 1}


def network(images: int | str = 1, seed: int = 0) -> onnx.ModelProto:
    """A convolution that Winograd's method could compute, an activation and a product."""
    rng = np.random.default_rng(seed)
    weights = {"w": rng.standard_normal((16, 8, 3, 3), np.float32) / 9, "v": rng.standard_normal((12, 10), np.float32) / 4}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "v"], ["y"], name="product"),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    sides = [value("x", TensorProto.FLOAT, [images, *X.shape[1:]])], [value("y", TensorProto.FLOAT, [images, 16, 12, 10])]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MODEL = network()


@dataclass
class Records:
    """A tuning database in memory (`recorded.Database`)."""

    plans: dict[tuple[str, str, int], str] = field(default_factory=dict)
    known: dict[Workload, Decision] = field(default_factory=dict)
    number: int = 0
    fault: Exception | None = None
    asked: list[str] = field(default_factory=list)

    def _asked(self, what: str) -> None:
        self.asked.append(what)
        if self.fault is not None:
            raise self.fault

    def stamp(self, target: str, threads: int) -> str:
        self._asked("stamp")
        return f"{self.number} of {target} and {threads}"

    def plan(self, content: str, target: str, threads: int) -> str | None:
        self._asked("plan")
        return self.plans.get((content, target, threads))

    def decisions(self, target: str, threads: int) -> Mapping[Workload, Decision]:
        self._asked("decisions")
        return {one: decision for one, decision in self.known.items() if (one.target, one.threads) == (target, threads)}


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Records:
    """Empty records in the place of this machine's."""
    made = Records()
    monkeypatch.setattr(recorded, "local_database", lambda: made)
    return made


@cache
def decisions() -> dict[Workload, Decision]:
    """For each op of the network, another schedule than the default, if the search has one."""
    lowered, found = stepwell.lower(MODEL, "scheduled", target=TARGET), {}
    with lowered.module.context:
        for function in functions(lowered.module.operation):
            for place, op in enumerate(structured_ops(function.operation)):
                nest = Nest.from_op(op, lowered.target)
                space = ScheduleSpace(op, lowered.target, nest)
                other = space.nests[space.all()[-1].name]
                content, above = schedule_content(kernel_digest(function.operation), place), loops_digest(function.operation)
                if other != nest:
                    decision = Decision(schedule_text(other, op), schedule_text(nest, op), 0.9, 0.85, 0.95, 0.001)
                    found[Workload("schedule", content, above, DIGEST, 1)] = decision
    assert len(found) >= 2
    return found


def records_of_defaults(model: Lowered) -> dict[Workload, Decision]:
    """For each op of a model at level `scheduled`, its schedule as a decision."""
    found = {}
    with model.module.context:
        for function in functions(model.module.operation):
            digest, above = kernel_digest(function.operation), loops_digest(function.operation)
            for place, op in enumerate(structured_ops(function.operation)):
                text = schedule_text(Nest.from_op(op, model.target), op)
                found[Workload("schedule", schedule_content(digest, place), above, DIGEST, 1)] = Decision(text, text, 1.0, 1.0, 1.0, 0.5)
    return found


def lowered(level: str = "scheduled", **options: Any) -> Lowered:
    return stepwell.lower(MODEL, level, **{**AUTO, **options})


def schedules(model: Lowered) -> dict[str, str]:
    """The schedules of all ops, by kernel and op."""
    found = {}
    with model.module.context:
        for function in functions(model.module.operation):
            for place, op in enumerate(structured_ops(function.operation)):
                found[schedule_content(kernel_digest(function.operation), place)] = schedule_text(Nest.from_op(op, model.target), op)
    return found


def content(options: dict[str, Any] | None = None, source: Any = MODEL) -> str:
    """The digest of a network."""
    how = CompileOptions(target=TARGET, **(options or {}))
    return network_content(Origin(source), imported(source, how), how)


def imported(source: Any, how: CompileOptions) -> ImportedModel:
    return load_model(source, make_context(), import_options(how))


def plan_text(**kinds: dict[str, str]) -> str:
    return json.dumps({"version": 2, "choices": kinds})


def notes_of(call: Any) -> list[str]:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in seen if issubclass(one.category, ModelWarning)]


def noted(**options: Any) -> tuple[dict[str, str], list[str]]:
    """The schedules of the model, and the warnings."""
    found: dict[str, str] = {}
    said = notes_of(lambda: found.update(schedules(lowered(**options))))
    return found, said


def test_equal_kernels_take_the_recorded_schedules(records: Records) -> None:
    """And only those: other threads, another target, other fused loops, another op and another kind decide nothing, and raise nothing."""
    usual = schedules(lowered(tuning=None))
    wrong = {"threads": 2, "target": "0" * 16, "above": "1" * 16, "content": "2" * 16 + ":1", "kind": "panels"}
    for name, value in wrong.items():
        records.known = {replace(one, **{name: value}): decision for one, decision in decisions().items()}
        assert noted() == (usual, []), name
    records.known = decisions()
    tuned, want = lowered(), {one.content: decision.text for one, decision in decisions().items()}
    assert schedules(tuned) == usual | want
    assert tuned.state.choices.recorded is not None
    assert {taken.site for taken in tuned.state.choices.recorded.taken.values()} == set(want)
    assert all(one.above for one in decisions() if "sched.fused" in tuned.text() and one.above)
    assert schedules(lowered(threads=2)) == usual, "the number of threads of the records counts"
    assert schedules(lowered(tuning=None)) == usual
    text = lowered("linalg").text()
    from_ir = stepwell.read_ir(text, "linalg", lowered("linalg").weights, options=CompileOptions(tuning="auto"), threads=1)
    assert schedules(descend(from_ir, "scheduled")) == usual | want


def test_code_of_records_and_the_cache(records: Records, cache_folder: Path) -> None:
    """The key has the stamp, a warm start reads nothing else of the records, and IR is that of the code, also after the records changed."""
    untuned = stepwell.compile(MODEL, **PLAIN)
    first = stepwell.compile(MODEL, **AUTO)
    assert first.plan is None
    assert untuned.plan is None
    records.known, records.number = decisions(), 1
    tuned = stepwell.compile(MODEL, **AUTO)
    assert list(tuned.timings) != ["cache"]
    assert set(json.loads(tuned.plan or "")["kernels"]) == {one.content.partition(":")[0] for one in decisions()}
    assert tuned(X)[0].tobytes() == untuned(X)[0].tobytes()
    ir = tuned.ir("scheduled")
    assert ir == lowered().text() != untuned.ir("scheduled")
    held = [one for one in gc.get_objects() if type(one) is recorded.LocalRecords and one._database is records]
    assert held == [], "no model keeps the database open"
    records.asked.clear()
    warm = stepwell.compile(MODEL, **AUTO)
    assert (list(warm.timings), warm.plan, records.asked) == (["cache"], tuned.plan, ["stamp"])
    assert list(stepwell.compile(MODEL, **{**AUTO, "threads": 2}).timings) != ["cache"]
    records.known, records.number = {}, 2
    assert warm.ir("scheduled") == ir
    assert stepwell.compile(MODEL, **AUTO).plan is None
    again = stepwell.compile(MODEL, **PLAIN, plan=Plan.parse(tuned.plan or ""))
    assert (again.ir("scheduled"), again.plan) == (ir, tuned.plan), "the plan in use makes the same code without records"


def test_records_that_change_while_a_model_is_compiled(records: Records, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not stored under the stamp of the earlier ones."""
    with monkeypatch.context() as patch:
        patch.setattr(records, "plan", lambda *key: setattr(records, "number", 1))
        stepwell.compile(MODEL, **AUTO)
    records.number = 0
    assert list(stepwell.compile(MODEL, **AUTO).timings) != ["cache"]
    assert list(stepwell.compile(MODEL, **AUTO).timings) == ["cache"]
    records.number = 1
    assert list(stepwell.compile(MODEL, **AUTO).timings) != ["cache"]


def test_what_is_not_legal_any_more_is_ignored_and_told(records: Records, cache_folder: Path) -> None:
    """Once for a compilation, also if the model comes from the cache; all other decisions count."""
    [(bad, decision), *rest] = decisions().items()
    records.known = {**decisions(), bad: replace(decision, text="order=0,1 width=3")}
    kernel, _, op = bad.content.partition(":")
    said = rf"tuning records: ignored, because it does not fit any more: kernel '{kernel}' \(@.*\), op {op} of .*: knob '.*; tune the model again"
    made = []
    for _ in range(2):
        with pytest.warns(ModelWarning, match=said) as seen:
            made.append(stepwell.compile(MODEL, **AUTO))
        assert len(seen) == 1
    assert list(made[1].timings) == ["cache"]
    taken = json.loads(made[0].plan or "")["kernels"]
    assert {f"{digest}:{place}" for digest, entry in taken.items() for place in entry["ops"]} == {one.content for one, _ in rest}
    for text in ("width", "\x1b[2J=1", "order=0 order=1", "nothing=1 " + decision.text, "9" * 5000):
        records.known = {bad: replace(decision, text=text)}
        made_without, said_of_it = noted()
        assert made_without == schedules(lowered(tuning=None))
        assert len(said_of_it) == 1
        assert said_of_it[0].isprintable()
        assert len(said_of_it[0]) < 600
    records.known = {replace(bad, content=f"{kernel}:99"): decision}
    with pytest.warns(ModelWarning, match="op 99: there is no such op, it has"):
        lowered()


def test_the_plan_of_a_network_decides_alone(records: Records) -> None:
    """Its choices and its kernels, without the decisions about single kernels. A given plan wins where both decide."""
    usual = stepwell.lower(MODEL, "scheduled", target=TARGET, plan=Plan({})).state.choices.taken()
    [winograd] = usual["winograd"]
    other = {"direct": "F(2, 3)"}.get(usual["winograd"][winograd], "direct")
    want = stepwell.lower(MODEL, "scheduled", target=TARGET, plan=Plan.parse(plan_text(winograd={winograd: other})))
    records.plans[content(), DIGEST, 1] = plan_text(winograd={winograd: other})
    records.known = decisions()
    tuned = lowered()
    assert tuned.text() == want.text()
    assert [(choice.site.kind, choice.chosen) for choice in tuned.state.choices.made if choice.recorded] == [("winograd", other)]
    assert not any(choice.planned for choice in tuned.state.choices.made)
    assert lowered(threads=2).text() == lowered(precision="f32", tuning=None).text()
    given = Plan.parse(plan_text(winograd={winograd: usual["winograd"][winograd]}, fusion={"relu": "apart"}), "mine")
    mine = stepwell.lower(MODEL, "scheduled", target=TARGET, plan=given)
    assert lowered(plan=given).text() == mine.text()
    rest = Plan.parse(plan_text(fusion={"relu": "apart"}), "mine")
    both = stepwell.lower(MODEL, "scheduled", target=TARGET, plan=Plan.parse(plan_text(winograd={winograd: other}, fusion={"relu": "apart"})))
    assert lowered(plan=rest).text() == both.text()

    kernels = Plan.parse(plan_with(decisions()))
    records.plans[content(), DIGEST, 1] = kernels.text
    assert schedules(lowered()) == schedules(lowered(tuning=None)) | {one.content: decision.text for one, decision in decisions().items()}
    there = schedules(mine)
    filled = {one.content: decision.text for one, decision in decisions().items() if one.content in there}
    assert 0 < len(filled) < len(decisions()), "the given plan has moved the other kernels, which is no fault of the records"
    assert noted(plan=given) == (there | filled, [])


def test_a_file_of_the_pass_takes_precedence(records: Records, tmp_path: Path) -> None:
    usual, file = lowered(tuning=None), tmp_path / "schedules.json"
    with usual.module.context:
        schedules_of(usual.module.operation, usual.target).write(file)
    records.known = decisions()
    pipeline = Pipeline.default(TARGET).replace("assign-schedules", f"assign-schedules{{file={file}}}")
    assert lowered(pipeline=pipeline).text() == usual.text()


def plan_with(found: dict[Workload, Decision]) -> str:
    """A plan with these schedules by kernel, each knob named."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "local_database", lambda: Records(known=found))
        made = lowered()
    plan = made.state.choices.in_use(made.target)
    assert plan is not None
    return plan.text


def test_entries_of_a_recorded_plan_that_do_not_fit(records: Records) -> None:
    """Whatever is wrong with it, compilation goes on without it."""
    usual, key = lowered(tuning=None).text(), (content(), DIGEST, 1)
    wrong = {
        plan_text(winograd={"nothing": "direct"}): "choice winograd/nothing: there is no such choice",
        plan_text(winograd={"conv": "F(9, 9)"}): r"choice winograd/conv: expected one of .*got 'F\(9, 9\)'",
        plan_text(schedule={"product:contraction": "width=3"}): "choice schedule/product:contraction: knob 'width': 3 is not legal",
        json.dumps({"version": 2, "kernels": {"0" * 16: {"ops": {}}}}): f"kernel '{'0' * 16}': there is no such kernel",
        "{": "the plan of this network: tuning records, line 1: not JSON",
        json.dumps({"version": 3, "choices": {}}): "the plan of this network: .*version 3",
        json.dumps({"version": 2, "choices": {"winograd": {"conv": "F(2, 3)"}}, "target": {"digest": "0" * 16}}): "it is for another target",
        plan_text(winograd={"one": "x", "two": "y"}): r"there is no such choice \(and 1 more\)",
    }
    for text, said in wrong.items():
        records.plans[key] = text
        with pytest.warns(ModelWarning, match=said) as seen:
            assert lowered().text() == usual
        assert len(seen) == 1


def test_records_that_cannot_be_read(records: Records, cache_folder: Path) -> None:
    """A warning, and the compiler's own decisions."""
    usual, records.known = schedules(lowered(tuning=None)), decisions()
    for fault in (sqlite3.DatabaseError("file is not a database"), OSError(28, "No space left on device"), stepwell.InputError("nothing")):
        records.fault = fault
        found, said = noted()
        assert (found, len(said)) == (usual, 1)
        assert said[0].startswith(f"tuning records: not used, because they cannot be read: {str(fault).removeprefix('SW003 ')}")
    assert notes_of(lambda: stepwell.compile(MODEL, **AUTO)) == said


def test_without_a_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache_folder: Path) -> None:
    """None, and one that the environment switches off."""
    monkeypatch.setattr(recorded, "local_database", lambda: None)
    assert stepwell.compile(MODEL, **AUTO).plan is None
    assert list(stepwell.compile(MODEL, **AUTO).timings) == ["cache"]
    monkeypatch.undo()
    pytest.importorskip("stepwell.database.database")
    monkeypatch.setenv("STEPWELL_TUNING", "0")
    assert recorded.local_database() is None
    assert lowered().text() == lowered(tuning=None).text()


def test_programs_for_all_sizes_take_choices(records: Records) -> None:
    """And none of the schedules, neither of the plan nor of single kernels; code for given sizes, also in the background, takes all."""
    source, how = network("n"), {"specialise": "never"}
    records.known = decisions()
    plan = json.loads(plan_with(decisions()))
    records.plans[content(how, source), DIGEST, 1] = json.dumps(plan | {"choices": {"fusion": {"relu": "apart"}}})
    got = stepwell.lower(source, "scheduled", **AUTO, **how)
    given = Plan.parse(plan_text(fusion={"relu": "apart"}))
    assert got.text() == stepwell.lower(source, "scheduled", target=TARGET, plan=given, **how).text()
    assert content(source=source) == content(how, source)
    records.plans.clear()
    records.known = decisions() | records_of_defaults(got)
    plain = stepwell.lower(source, "scheduled", **AUTO, **how)
    assert plain.state.choices.recorded is not None
    assert plain.state.choices.recorded.taken == {}
    compilation = Compilation(origin=Origin(source), options=CompileOptions(target=TARGET, tuning="auto"), threads=1, cache=False)
    specialised = compilation.specialised({"x": X.shape}, {})
    assert set(json.loads(specialised.plan or "")["kernels"]) == {one.content.partition(":")[0] for one in decisions()}


def test_records_of_the_defaults_change_nothing(records: Records) -> None:
    """Each op finds its own record: the digests at the level `scheduled` are those where schedules are assigned."""
    usual = lowered(tuning=None)
    records.known = records_of_defaults(usual)
    tuned = lowered()
    assert tuned.text() == usual.text()
    assert tuned.state.choices.recorded is not None
    assert len(tuned.state.choices.recorded.taken) == len(records.known) > 5


def test_kernels_of_a_tuned_network_are_built_with_other_schedules(records: Records) -> None:
    records.known = decisions()
    bench = KernelBench(MODEL, **AUTO, plan=Plan.parse(plan_text(fusion={"relu": "apart"})))
    texts = {one.content: decision.text for one, decision in decisions().items()}
    carried = {schedule_content(kernel.digest, place): op.knobs for kernel in bench.kernels.values() for place, op in kernel.ops.items()}
    [place] = texts.keys() & carried.keys()
    plain = {knob: tuple(value) if isinstance(value, list) else value for knob, value in carried[place].items()}
    assert parse_knobs(texts[place]).items() <= plain.items()
    assert "affine.for" in bench.ir(place.partition(":")[0])


def test_background_jobs_pass_the_option_on(cache_folder: Path) -> None:
    options = CompileOptions(target=TARGET, tuning="auto")
    job = Compilation(origin=Origin(network("n").SerializeToString()), options=options, threads=3).job({"x": X.shape}, {}, print, print)
    assert job.request is not None
    assert (job.request.options.tuning, job.request.threads) == ("auto", 3)


def test_the_content_of_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model, its external data and its options, but those that records have apart; however the model is given."""
    onnx.save(MODEL, tmp_path / "net.onnx")
    given = Plan.parse(plan_text(winograd={"conv": "direct"}))
    same = [{"plan": given}, {"tuning": "auto"}, {"specialise": "always"}, {"limits": None}, {"shapes": {"x": X.shape}}]
    assert {content(options) for options in same} == {content()}
    assert network_content(Origin(MODEL), imported(MODEL, how := CompileOptions(target="x86-64-v4")), how) == content()
    assert content(source=str(tmp_path / "net.onnx")) == content(source=(tmp_path / "net.onnx").read_bytes())
    other = [content({"precision": "bf16"}), content({"disable": ["use-winograd"]}), content({"strict": True}), content(source=network(seed=1))]
    sizes = [content({"shapes": {"x": (images, *X.shape[1:])}}, network("n")) for images in (1, 2)]
    assert len({content(), *other, *sizes}) == 7
    digests = []
    for folder, factor in (("one", 1), ("two", 1), ("three", 2)):
        (tmp_path / folder).mkdir()
        model = network()
        array = numpy_helper.to_array(model.graph.initializer[0]) * factor
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
        onnx.save(model, tmp_path / folder / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
        digests.append(content(source=str(tmp_path / folder / "net.onnx")))
    assert digests[0] == digests[1] != digests[2]
    monkeypatch.chdir(tmp_path / "one")
    assert content(source="net.onnx") == digests[0], "the path does not matter"


def test_commands_show_and_use_the_plan(records: Records, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`inspect` lists each decision with its origin and what was measured; `--plan` and `--tuning` work in all three commands."""
    model, file = tmp_path / "net.onnx", tmp_path / "net.plan.json"
    onnx.save(MODEL, model)
    line = [str(model), "--target", TARGET]

    def shown(*words: str) -> str:
        assert command([words[0], *line, *words[1:]]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "plan in use: none, all decisions are the compiler's" in shown("inspect", "--tuning", "auto", "--threads", "1")
    records.known = decisions()
    text = shown("inspect", "--tuning", "auto", "--threads", "1")
    assert "plan in use: decided by kind site candidate time" in text
    assert text.count("0.900 (0.850 to 0.950)") == len(decisions())
    assert command(["inspect", str(model)]) == 0
    assert "plan in use" not in capsys.readouterr().out
    assert "plan in use: none" in shown("inspect", "--tuning", "auto", "--threads", "2", "--schedules")
    assert "(from tuning records)" in shown("inspect", "--tuning", "auto", "--threads", "1", "--explain", "product")

    key = content(source=str(model))
    records.plans[key, DIGEST, 1] = plan_text(fusion={"relu": "apart"})
    measured = Decision("apart", "fused", 0.8, 0.7, 0.9, 0.01)
    records.known = {Workload("fusion", f"{key}:relu", "", DIGEST, 1): measured}
    text = shown("inspect", "--tuning", "auto", "--threads", "1")
    assert "the plan in the records fusion relu apart 0.800 (0.700 to 0.900)" in text

    assert shown("inspect", "--emit-plan", str(file)) == ""
    plan = json.loads(file.read_text())
    plan["choices"] = {kind: sites for kind, sites in plan["choices"].items() if kind == "winograd"}
    file.write_text(json.dumps(plan))
    records.plans.clear()
    records.known = decisions()
    texts = {"": "", "--plan": str(file), "--tuning": "auto"}
    made = {flag: shown("compile", "--emit", "scheduled", "--threads", "1", *filter(None, (flag, value))) for flag, value in texts.items()}
    assert made["--plan"] == made[""] != made["--tuning"], "the plan has the default's choices and schedules"
    text = shown("inspect", "--plan", str(file))
    assert text.count(str(file)[:20]) >= 1 + len(plan["kernels"])
    assert "winograd conv" in text
    for flag, value in (("--plan", str(file)), ("--tuning", "auto")):
        assert "1 run" in shown("run", flag, value, "--threads", "1", "--repeat", "1", "--check", "onnxruntime")
