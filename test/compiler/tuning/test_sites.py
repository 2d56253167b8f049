"""The sites of models and their search spaces: every candidate is legal, canonical and has the default's bits, or is refused with a reason."""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from every import every
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.cli import tuning_space
from stepwell.cli.common import Parser
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.framework.choices import Candidate, Choice, Choices, Site as ChoiceSite
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.assign_schedules import schedules_of
from stepwell.passes.schedule.candidates import parse_schedule, schedule_text
from stepwell.passes.schedule.defaults import tile_prefetch
from stepwell.pipelines.lowered import Lowered
from stepwell.tuning.choice_space import ChoiceSpace
from stepwell.tuning.schedule_space import ScheduleSpace
from stepwell.tuning.sites import Site, find_sites, floor_of, plan_of
from stepwell.tuning.spaces import Space

DIGITS: dict[str, Any] = {"source": "examples/digits/digits.onnx", "shapes": {"image": (1, 1, 8, 8)}, "target": "x86-64-v3"}
RANDOM = np.random.default_rng(5)


def product(bits: int = 8) -> onnx.ModelProto:
    """A product of bytes; two equal sums behind each other."""
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="product"),
        helper.make_node("ReduceSum", ["z", "a"], ["s"], name="first", keepdims=1),
        helper.make_node("Tile", ["s", "r"], ["t"], name="tile"),
        helper.make_node("ReduceSum", ["t", "a"], ["u"], name="second", keepdims=1),
    ]
    arrays = {"w": RANDOM.integers(-128, 127, (36, 45)).astype(np.int8), "a": np.array([1]), "r": np.array([1, 33])}
    kinds = [("x", TensorProto.UINT8, [7, 36]), ("z", TensorProto.FLOAT, [5, 33])]
    sides = [[helper.make_tensor_value_info(*kind) for kind in kinds], [onnx.ValueInfoProto(name=name) for name in ("y", "u")]]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


PRODUCT: dict[str, Any] = {"source": product(), "target": "x86-64-v4"}


def lower(model: dict[str, Any], *, recording: bool = True, **options: Any) -> Lowered:
    """A model at the level of schedules."""
    given = {name: value for name, value in model.items() if name != "source"}
    return stepwell.lower(model["source"], "scheduled", recording=recording, **given, **options)


@pytest.fixture(scope="module")
def digits() -> Lowered:
    return lower(DIGITS)


def schedules(lowered: Lowered, **options: Any) -> list[Site]:
    return find_sites(lowered, floors=("schedule",), **options)


def check_schedule(site: Site, text: str) -> None:
    """Check that a candidate is legal, canonical, and has the default's bits."""
    space, op = site.space, site.space.op
    assert space.refusal(text) is None, (text, space.refusal(text))
    nest = parse_schedule(text, op, space.target)
    assert schedule_text(nest, op) == text
    assert arithmetic(nest, op) == arithmetic(space.nest(space.default), op)


@every("model", {"digits": DIGITS, "product": PRODUCT}.values(), ids=["digits", "product"])
def test_moves_in_the_space_of_schedules(model: dict[str, Any]) -> None:
    lowered, random = lower(model), Random(1)
    for site in schedules(lowered):
        space: Space = site.space
        assert isinstance(space, ScheduleSpace)
        found = [space.default, *(space.sample(random) for _ in range(4))]
        near = space.near(found[-1])
        lines = space.lines(found[-1])
        crossed = [space.cross(found[1], found[-1], random) for _ in range(2)]
        moved = [*near, *(text for line in lines.values() for text in line)]
        for text in {*found, *crossed, *random.sample(moved, min(12, len(moved)))}:
            check_schedule(site, text)
        assert found[-1] not in near
        assert len({space.nest(text) for text in {*found, *moved}}) == len({*found, *moved}), "other texts are other nests"
        for knob, line in lines.items():
            values = [space.knob_values(text) for text in line]
            assert found[-1] in line
            assert all(other == {**values[0], knob: other[knob]} for other in values), "a line changes one knob"
            assert [v[knob] for v in values] == sorted((v[knob] for v in values), key=lambda v: (isinstance(v, str), v))
        predictions = space.predict(found)
        assert min(predictions[:1]) > 0
        usual = {name for name in space.features(space.default) if "tile." not in name}  # a tile that exceeds the registers has no such numbers
        assert usual <= set(space.features(found[-1]))
        assert space.size() >= len(set(found))


def test_a_prefetch_by_the_rule_follows_the_tile() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [24, 900]), ("y", [24, 192]))]
    graph = helper.make_graph(nodes, "net", kinds[:1], kinds[1:], [numpy_helper.from_array(RANDOM.random((900, 192)).astype(np.float32), "w")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with (lowered := lower({"source": source, "target": "x86-64-v4"})).module.context:
        [space] = [site.space for site in schedules(lowered) if site.info.name.endswith(":contraction")]
        usual = space.nest(space.default)
        assert usual.prefetch > 0
        near = [space.nest(text) for text in space.near(space.default)]
        others = [nest for nest in near if nest.unroll != usual.unroll or nest.width != usual.width]
        assert {nest.prefetch for nest in others} > {usual.prefetch}
        assert all(nest.prefetch == tile_prefetch(space.op, space.target, nest) for nest in others if nest.vector == usual.vector)
        own = [nest for nest in near if nest.prefetch != usual.prefetch and nest.unroll == usual.unroll and nest.width == usual.width]
        assert len(own) > 2, "other distances are candidates, too"


def test_all_candidates_of_a_small_space(digits: Lowered) -> None:
    site = min(schedules(digits), key=lambda site: site.space.size())
    every_text = list(site.space.every())
    assert every_text[0] == site.space.default
    assert len(set(every_text)) == len(every_text) <= site.space.size()
    assert set(site.space.near(site.space.default)) < set(every_text)
    for text in every_text:
        check_schedule(site, text)


def test_illegal_schedules_are_refused_before_a_build(digits: Lowered) -> None:
    exact, rounding = schedules(digits), schedules(digits, rounding=True)
    [place] = [n for n, site in enumerate(exact) if site.info.name.endswith(":reduction") and site.nodes == ("softmax",)][:1]
    space = exact[place].space
    usual = space.default
    reasons = {
        usual.replace("vector=1", "vector=7"): "knob 'vector': 7 is not legal", usual.replace("vector=1", "vector=0"): "other bits",
        usual + " unroll.0=2 unroll.0=2": "each once", usual + " blocks=2": "there is no knob 'blocks'", "order=0 width=8": "'vector' is missing",
        usual + " along=0": "canonical",
    }  # fmt: skip
    for text, reason in reasons.items():
        said = space.refusal(text)
        assert reason in str(said), (text, said)
    with pytest.raises(ScheduleError, match="vector"):
        space.nest("order=0 vector=7 width=8")
    [tiled] = [site.space for site in exact if site.info.name.endswith(":contraction") and site.nodes == ("gemm1",)]
    assert "knob 'unroll.1': 65 is not legal" in str(tiled.refusal(re.sub("unroll.1=[0-9]+", "unroll.1=65", tiled.default)))
    other = next(text for text in rounding[place].space.near(usual) if space.refusal(text) is not None)
    assert "may compute other bits" in str(space.refusal(other))
    assert rounding[place].space.refusal(other) is None
    assert rounding[place].space.size() >= space.size()
    assert tiled.predict([re.sub("width=[0-9]+", "width=128", tiled.default)]) == [None], "its tile exceeds the registers"


def test_threads_count_only_if_there_are_several() -> None:
    lowered = lower({"source": product(), "target": "x86-64-v3"})
    one, several = (schedules(lowered, threads=threads) for threads in (1, 2))
    assert all("parallel" not in site.space.lines(site.space.default) for site in one)
    assert any("parallel" in site.space.lines(site.space.default) for site in several)
    assert {site.workload.threads for site in several} == {2}


def check_bits(plan: Plan) -> None:
    """Check that the network with a plan computes the bits of the network without one."""
    given = {"image": np.maximum(RANDOM.standard_normal((1, 1, 8, 8)), 0).astype(np.float32)}
    options = {"shapes": DIGITS["shapes"], "target": DIGITS["target"]}
    usual = stepwell.compile(DIGITS["source"], **options).run(given)
    found = stepwell.compile(DIGITS["source"], plan=plan, **options).run(given)
    assert [array.tobytes() for array in found.values()] == [array.tobytes() for array in usual.values()]


def test_a_plan_of_candidates_is_what_the_ir_carries(digits: Lowered) -> None:
    random = Random(11)
    chosen = {site: site.space.sample(random) for site in schedules(digits)}
    plan = Plan.parse(plan_of(chosen, digits.target).text)
    again = lower(DIGITS, recording=False, plan=plan)
    with again.module.context:
        carried = schedules_of(again.module.operation, again.target).kernels
    for site, text in chosen.items():
        values = {name: list(v) if isinstance(v, tuple) else v for name, v in site.space.knob_values(text).items()}
        assert carried[site.kernel].ops[site.op].knobs == values
    check_bits(plan)


def test_sites_of_three_floors(digits: Lowered) -> None:
    sites = find_sites(digits, network="digits")
    assert {(site.floor, site.kind) for site in sites} == {
        ("schedule", "schedule"), ("algorithm", "precision"), ("algorithm", "layout"), ("algorithm", "winograd"), ("algorithm", "panels"),
        ("graph", "fusion"), ("graph", "producers"), ("graph", "loops"),
    }  # fmt: skip
    assert len({(site.kind, site.name) for site in sites}) == len({site.workload for site in sites}) == len(sites)
    assert all(site.info.network == "digits" and site.nodes for site in sites)
    assert all(all(isinstance(value, float) for value in site.info.features.values()) for site in sites)
    assert any(site.workload.above for site in sites if site.floor == "schedule"), "loops are fused around some"
    assert floor_of("a plugin's") == "algorithm"
    [winograd] = [site.space for site in find_sites(digits, floors=("algorithm",)) if site.kind == "winograd" and "conv2" in site.nodes]
    assert list(winograd.every()) == [winograd.default], "another tile rounds otherwise"
    again = {site.workload for site in find_sites(lower(DIGITS))}
    assert again == {site.workload for site in sites}, "equal models have equal keys"


def test_a_kernel_that_runs_twice_is_one_site() -> None:
    lowered = lower(PRODUCT)
    sites = schedules(lowered)
    twice = [site for site in sites if site.launches == 2]
    assert {node for site in twice for node in site.nodes} == {"first", "second"}
    with lowered.module.context:
        calls = Counter(str(call.attributes["callee"]) for call in ops_below(lowered.module.operation, "func.call"))
    assert max(calls.values()) == 2
    [once] = [site for site in sites if "product" in site.nodes and site.info.name.endswith("contraction")]
    assert once.launches == 1
    assert [twice[0].seconds] == [2 * (seconds or 0) for seconds in twice[0].space.predict([twice[0].space.default])]


def test_other_choices_change_no_bit(digits: Lowered) -> None:
    relowered: list[Plan] = []

    def relower(plan: Plan) -> Lowered:
        relowered.append(plan)
        return lower(DIGITS, recording=False, plan=plan)

    sites = find_sites(digits, floors=("algorithm", "graph"), relower=relower)
    kinds = {site.kind: site for site in reversed(sites) if site.space.size() > 1}  # none of them changes where another one is
    assert {"panels", "fusion", "producers", "loops"} == set(kinds)
    chosen = {site: site.space.near(site.space.default)[-1] for site in kinds.values()}
    for site, text in chosen.items():
        assert site.space.refusal(text) is None
        assert site.space.refusal("of no kind") is not None
        assert site.space.sample(Random(0)) in {site.space.default, *site.space.near(site.space.default)}
        assert text in site.space.lines(text)[site.kind]
        assert site.space.cross(text, text, Random(0)) == text
    assert len(relowered) == len(chosen), "each candidate is lowered once"
    check_bits(plan_of(chosen))


def test_candidates_that_change_other_schedules_are_refused(digits: Lowered) -> None:
    """If a choice leads to other default schedules, whose sums have another order, its bits are other ones too."""

    def relower(plan: Plan) -> Lowered:
        choices = {**plan.choices, "winograd": {"conv2+batchnormalization2": "direct"}}  # as if it followed from the choice
        return lower(DIGITS, recording=False, plan=replace(plan, choices=choices))

    [site] = [site for site in find_sites(digits, floors=("algorithm",), relower=relower) if site.name == "gemm1" and site.kind == "panels"]
    assert "sum otherwise" in str(site.space.refusal(site.space.near(site.space.default)[0]))

    def failing(plan: Plan) -> Lowered:
        raise ScheduleError("there is no such choice")

    [site] = [site for site in find_sites(digits, floors=("algorithm",), relower=failing) if site.name == "gemm1" and site.kind == "panels"]
    assert site.space.refusal(site.space.near(site.space.default)[0]) == "there is no such choice"


def test_unknown_arithmetic_differs() -> None:
    site = ChoiceSite("own", "node", "an op", resolve("x86-64-v3"))
    for known, allowed in (((None, None, None), ["a"]), (("x", "x", "y"), ["a", "b"]), (("x", None, "x"), ["a", "c"])):
        candidates = [Candidate(name, 1.0, {"n": 2.0}, text) for name, text in zip("abc", known, strict=True)]
        choice = Choice(site, candidates, [1.0, None, 3.0], "a", planned=False)
        assert list(ChoiceSpace(choice).every()) == allowed
        assert ChoiceSpace(choice, rounding=True).near("a") == ["b", "c"]
        assert ChoiceSpace(choice, rounding=True).predict(["c", "b"]) == [3.0, None]
        assert ChoiceSpace(choice).features("a") == {"n": 2.0, "seconds": 1.0}


@dataclass
class OwnChoice(Pass):
    """Choose for each addition."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        for add in ops_below(op, "graph.relu"):
            state.choose("own", add, lambda: [Candidate("slow", 2e-6), Candidate("fast", 1e-6)], "slow")


def test_choices_of_plugins_are_sites() -> None:
    ours = {"__module__": "stepwell.passes.graph.imagined", "__doc__": "A choice."}
    register_pass("own-choice", level="graph")(type("OwnChoice", (OwnChoice,), ours))
    pipeline = stepwell.Pipeline.default(DIGITS["target"]).insert_after("pack-matmul", "own-choice")
    sites = [site for site in find_sites(lower(DIGITS, pipeline=pipeline)) if site.kind == "own"]
    assert [site.floor for site in sites] == ["algorithm"] * 4
    assert all(list(site.space.every()) == ["slow"] for site in sites), "nobody says that the other one computes the same bits"
    assert plan_of({sites[0]: "fast"}).choices == {"own": {sites[0].name: "fast"}}


def test_the_table_of_sites(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser()
    tuning_space.add_options(parser)
    given = [DIGITS["source"], "--shape", "image=1x1x8x8", "--target", "x86-64-v3"]
    assert tuning_space.execute(parser.parse_args([*given, "--floor", "algorithm"])) == 0
    table = capsys.readouterr().out
    assert "winograd" in table
    assert "schedule" not in table.splitlines()[2]
    assert tuning_space.execute(parser.parse_args([*given, "--json"])) == 0
    sites = json.loads(capsys.readouterr().out)
    assert {site["floor"] for site in sites} == {"schedule", "algorithm", "graph"}
    assert all(1 <= site["same bits"] <= site["all"] for site in sites)


def test_nothing_is_recorded_unless_asked() -> None:
    plain = lower(DIGITS, recording=False)
    assert not plain.state.choices.made
    assert not PassState().asked("fusion")
    assert PassState(choices=Choices(recording=True)).asked("fusion")
    assert plain.text(locations=False) == lower(DIGITS).text(locations=False)
    assert isinstance(schedules(plain)[0].space, ScheduleSpace), "schedules need no record"
