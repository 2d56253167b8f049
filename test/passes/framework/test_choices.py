"""Choices are data: a plan overrides one of them for one node, results stay what they are, and a model of costs of one's own decides."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.cli.main import main as command
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import PassError, ScheduleError
from stepwell.passes.framework import choices
from stepwell.passes.framework.choices import Candidate, Choice, Site, register_cost_model
from stepwell.passes.schedule.assign_schedules import schedules_of

RANDOM = np.random.default_rng(7)
TARGET = "x86-64-v3"
X = RANDOM.standard_normal((1, 32, 28, 28), np.float32)


def network(images: int | str = 1) -> onnx.ModelProto:
    """Convolutions that Winograd's method pays for, what is fused with them, and a product."""
    weights = {
        "w": RANDOM.standard_normal((64, 32, 3, 3), np.float32) / 17, "v": RANDOM.standard_normal((64, 64, 1, 1), np.float32) / 8,
        "m": RANDOM.standard_normal((64 * 14 * 14, 24), np.float32) / 112,
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "v"], ["c"], name="second"), helper.make_node("Sigmoid", ["c"], ["d"], name="gate"),
        helper.make_node("MaxPool", ["d"], ["e"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["e"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["g"], name="product"), helper.make_node("Tanh", ["g"], ["y"], name="tanh"),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    sides = [value("x", TensorProto.FLOAT, [images, *X.shape[1:]])], [value("y", TensorProto.FLOAT, [images, 24])]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MODEL = network()


def made(plan: Plan | None = None, **options: Any) -> list[Choice]:
    """The choices of a compilation."""
    with_plan = {} if plan is None else {"plan": plan}
    return stepwell.lower(MODEL, "scheduled", target=TARGET, **with_plan, **options).state.choices.made


def plan_of(**kinds: dict[str, str]) -> Plan:
    return Plan.parse(json.dumps({"version": 2, "choices": kinds}), "mine")


@pytest.fixture(scope="module")
def every() -> dict[str, list[Choice]]:
    """All choices by kind, with all candidates: those of loops are looked at where a plan is there."""
    found: dict[str, list[Choice]] = {}
    for choice in made(plan_of()):
        found.setdefault(choice.site.kind, []).append(choice)
    return found


def test_one_decision_is_overridden_for_one_node(every: dict[str, list[Choice]]) -> None:
    """For each kind: all others that were made before it stay, and the network computes the same."""
    assert {"winograd", "layout", "panels", "fusion", "loops", "producers", "schedule"} <= set(every)
    want = stepwell.compile(MODEL, target=TARGET, threads=1).run({"x": X})["y"]
    for kind, of_kind in every.items():
        able = [choice for choice in of_kind if len(choice.candidates) > 1]
        if not able:
            continue
        site = able[0].site
        other = next(candidate.name for candidate in able[0].candidates if candidate.name != able[0].chosen)
        plan = plan_of(**{kind: {site.name: other}})
        now = made(plan)
        [changed] = [choice for choice in now if choice.site == site]
        assert (changed.chosen, changed.planned) == (other, True)
        before = {(choice.site.kind, choice.site.name): choice.chosen for choices_of_kind in every.values() for choice in choices_of_kind}
        alike = [choice for choice in now if choice.site.kind == kind and choice.site != site]
        assert all(choice.chosen == before.get((kind, choice.site.name), choice.chosen) for choice in alike)
        assert not any(choice.planned for choice in now if choice.site != site)
        got = stepwell.compile(MODEL, target=TARGET, threads=1, plan=plan).run({"x": X})["y"]
        np.testing.assert_allclose(got, want, atol=4e-5, err_msg=f"{site}: {other}")


def test_precision_of_one_node() -> None:
    """In a network of f32: the one node reads bf16, and no other."""
    found = made(plan_of(precision={"product": "bf16"}))
    assert {choice.site.name: choice.chosen for choice in found if choice.site.kind == "precision"} == {
        "first": "f32", "second": "f32", "product": "bf16"
    }  # fmt: skip
    got = stepwell.compile(MODEL, threads=1, plan=plan_of(precision={"product": "bf16"})).run({"x": X})["y"]
    want = stepwell.compile(MODEL, threads=1).run({"x": X})["y"]
    assert 0 < np.abs(got - want).max() < 0.02


def test_candidates_are_shown_with_what_they_cost(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    assert command(["inspect", str(tmp_path / "net.onnx"), "--target", TARGET, "--explain", "first"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"use-winograd/choice, .*: winograd/first: F\(4, 3\), of F\(2, 3\) [\d.]+ us, .*direct [\d.]+ us$", shown, re.MULTILINE)
    product = r"assign-schedules/choice, .*: schedule/first:contraction#3: (order=.*), of \1 [\d.]+ us, .*=[0-9,]+ [\d.]+ us and \d+ slower ones$"
    assert re.search(product, shown, re.MULTILINE)


def test_a_plan_that_is_written_is_read_and_changes_nothing(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    file = tmp_path / "plan.json"
    assert command(["inspect", str(tmp_path / "net.onnx"), "--target", TARGET, "--emit-plan", str(file)]) == 0
    plan = Plan.from_source(file)
    assert plan.choices["winograd"]["first"] == "F(4, 3)"
    assert len(plan.kernels) > 2
    assert "schedule" not in plan.choices, "kernels have them"
    assert all(op["seconds"] > 0 for kernel in json.loads(file.read_text())["kernels"].values() for op in kernel["ops"].values())
    plain, planned = (stepwell.lower(MODEL, "scheduled", target=TARGET, **options) for options in ({}, {"plan": file}))
    assert planned.text() == plain.text()
    assert all(choice.planned for choice in planned.state.choices.made)


NONE = "there is no such choice;"
WRONG: dict[str, tuple[str, str, str]] = {
    "another node": ("winograd/third", "direct", f"{NONE} choices of this kind are about first"),
    "another choice about the node": ("winograd/second", "direct", f"{NONE} choices about its nodes are "),
    "another kind": ("wingrad/third", "direct", f"{NONE} nothing of this kind is chosen; kinds are .*winograd"),
    "the role of an op": ("schedule/second:reduction", "width=8", f"{NONE} choices about its nodes are .*schedule/second:contraction"),
    "a knob": ("schedule/second:contraction", "wide=8", "there is no knob 'wide', expected order, .*'linalg.generic'"),
    "the value of a knob": ("schedule/second:contraction", "width=3", "knob 'width': 3 is not legal, expected one of 1, 2"),
    "knobs": ("schedule/second:contraction", "width 3", "expected knobs in the form .*, got 'width'"),
    "a candidate": ("winograd/first", "F(8, 3)", r"expected one of F\(2, 3\), F\(4, 3\).*direct \('packed.conv' .*got 'F\(8, 3\)'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_plan_is_named(wrong: str) -> None:
    site, chosen, said = WRONG[wrong]
    kind, name = site.split("/")
    with pytest.raises(ScheduleError, match=f"mine: choice {site}: {said}"):
        made(plan_of(**{kind: {name: chosen}}))


SECOND = "second:contraction"
NESTS = re.compile(r"#sched\.nest<\{.*?\}>")


def test_the_schedule_of_one_op(every: dict[str, list[Choice]]) -> None:
    """A plan names knobs; the others are the default's. All other ops keep their schedules, and the network computes the same."""
    plan = plan_of(schedule={SECOND: "unroll.2=3 order=2,0,1,3 unroll.1=2"})
    [usual] = [choice for choice in every["schedule"] if choice.site.name == SECOND]
    assert "unroll.1=2 unroll.2=4" in usual.chosen
    before, after = (NESTS.findall(stepwell.lower(MODEL, "scheduled", target=TARGET, **options).text()) for options in ({}, {"plan": plan}))
    assert before != after
    [(old, new)] = {pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]}
    assert "unroll = array<i64: 1, 2, 3, 1, " in new
    assert "unroll = array<i64: 1, 2, 4, 1, " in old
    assert "order = array<i64: 2, 0, 1, 3>" in new
    [choice] = [choice for choice in made(plan) if choice.planned]
    assert (choice.site.name, choice.chosen) == (SECOND, "order=2,0,1,3 unroll.2=3")
    assert (choice.seconds[-1] or 0) > 0
    got, want = (stepwell.compile(MODEL, target=TARGET, threads=1, **options).run({"x": X})["y"] for options in ({"plan": plan}, {}))
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_a_schedule_that_is_given_twice() -> None:
    lowered = stepwell.lower(MODEL, "scheduled", target=TARGET)
    with lowered.module.context:
        kernels = schedules_of(lowered.module.operation, lowered.target).kernels
    assert all(choice.planned for choice in made(Plan(kernels)) if choice.site.kind == "schedule")
    with pytest.raises(ScheduleError, match=f"schedule: choice schedule/{SECOND}: it is given twice, as 'unroll.2=3' and under 'kernels' as 'order="):
        made(Plan(kernels, choices={"schedule": {SECOND: "unroll.2=3"}}))


def test_a_model_of_costs_of_ones_own_searches_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beyond the neighbours of the default; an op without predictions keeps its schedule."""
    usual = {choice.site: choice for choice in made(plan_of()) if choice.site.kind == "schedule"}
    monkeypatch.setattr(choices, "_MODELS", {})

    @register_cost_model("schedule")
    class FewRegisters:
        def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
            return [one.features["registers"] if site.name == SECOND else None for one in candidates]

    found = {choice.site: choice for choice in made() if choice.site.kind == "schedule"}
    assert set(found) == set(usual)
    [changed] = [site for site in found if found[site].chosen != usual[site].chosen]
    assert (changed.name, found[changed].planned) == (SECOND, False)
    chosen, predicted = found[changed].chosen, found[changed].seconds
    assert {"unroll.1=1", "unroll.2=1"} <= set(chosen.split())
    assert chosen not in [one.name for one in usual[changed].candidates]
    assert [one.name for one in found[changed].candidates].index(chosen) == predicted.index(min(cost for cost in predicted if cost is not None))
    planned = {choice.site: choice for choice in made(plan_of(schedule={SECOND: "unroll.2=3"}))}
    assert planned[changed].chosen == "unroll.2=3", "a plan takes precedence"


def test_a_plan_for_another_machine_is_refused() -> None:
    text = json.dumps({"version": 2, "target": {"name": "other", "digest": "0" * 16}, "choices": {"winograd": {"first": "direct"}}})
    with pytest.raises(ScheduleError, match=f"mine: the file is for the target 'other' .*compiled for '{TARGET}'"):
        made(Plan.parse(text, "mine"))


def test_a_model_of_costs_of_ones_own_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """For its kind alone, or for all; candidates that it says nothing of are not taken for it."""
    monkeypatch.setattr(choices, "_MODELS", {})

    @register_cost_model("winograd")
    class Direct:
        def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
            return [1.0 if candidate.name == "direct" else 2.0 for candidate in candidates]

    found = {choice.site.kind: choice for choice in reversed(made(plan_of()))}
    assert found["winograd"].chosen == "direct"
    assert set(found["winograd"].seconds) == {1.0, 2.0}
    assert found["layout"].chosen == "8"

    @register_cost_model()
    class Last:
        def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
            return [-float(number) for number in range(len(candidates))]

    every = made()
    assert {choice.chosen for choice in every if choice.site.kind == "winograd"} <= {"direct"}
    listed = [choice for choice in every if choice.site.kind not in ("winograd", "schedule")]  # those of schedules are searched
    assert all(choice.chosen == choice.candidates[-1].name for choice in listed)

    @register_cost_model("layout")
    class Short:
        def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
            return [1.0]

    with pytest.raises(PassError, match=r"the cost model of 'layout' must predict 3 costs for layout/first, got \[1.0\]"):
        made()


def test_programs_for_all_sizes_take_plans_of_choices() -> None:
    plan = plan_of(winograd={"first": "direct"})
    lowered = stepwell.lower(network("n"), "graph-opt", target=TARGET, specialise="never", plan=plan)
    assert "winograd_conv" not in lowered.text()
    assert "winograd_conv" in stepwell.lower(network("n"), "graph-opt", target=TARGET, specialise="never").text()
