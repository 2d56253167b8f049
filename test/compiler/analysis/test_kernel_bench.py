"""One kernel of a model, built with other schedules: what runs is what was asked for, with the same results. No test looks at a time."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.analysis import load
from stepwell.analysis.estimates import Statistic
from stepwell.analysis.kernel_timing import SAME, take_turns
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, ScheduleError
from stepwell.passes.schedule.nest import Nest

pytestmark = pytest.mark.filterwarnings("ignore::stepwell.BusyWarning")
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((1, 8, 12, 12), np.float32)


def network() -> onnx.ModelProto:
    """Two equal convolutions behind each other, a sum in place of one of its operands, a product."""
    arrays = {"w": RANDOM.standard_normal((8, 8, 3, 3), np.float32) / 9, "f": RANDOM.standard_normal((8, 16), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w"], ["b"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["a", "b"], ["s"], name="sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["l"], name="flatten"),
        helper.make_node("MatMul", ["l", "f"], ["y"], name="product"),
    ]
    sides = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def bench() -> stepwell.KernelBench:
    return stepwell.KernelBench(network(), inputs={"x": X}, threads=1, target="x86-64-v3", disable=("use-winograd",))


def contraction(kernel: stepwell.Kernel) -> int:
    [place] = [place for place, op in kernel.ops.items() if op.kind == "contraction"]
    return place


def plain(kernel: stepwell.Kernel) -> dict[int, dict[str, Any]]:
    return {place: {"vector": -1, "width": 1, **{k: 1 for k in op.knobs if k.startswith("unroll.")}} for place, op in kernel.ops.items()}


def test_kernels_are_those_of_the_model(bench: stepwell.KernelBench) -> None:
    model = stepwell.compile(network(), target="x86-64-v3", disable=("use-winograd",), threads=1)
    assert len(bench.kernels) == model.kernels
    calls = [line for line in model.ir("graph-opt").splitlines() if " call @" in line]
    assert sum(kernel.launches for kernel in bench.kernels.values()) == len(calls)
    product = bench.kernel("product")
    assert product == bench.kernel(product.name) == bench.kernel(product.digest)
    assert product.launches == 1
    assert product.flops >= 2 * 8 * 16
    with pytest.raises(InputError, match=r"there is no kernel or node 'third'; the kernels are: \w+"):
        bench.kernel("third")


@pytest.mark.parametrize("node", ["second", "product"])
def test_schedules_change_the_code_and_not_the_results(bench: stepwell.KernelBench, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = next(k for k in bench.kernels.values() if node in k.nodes and any(op.kind == "contraction" for op in k.ops.values()))
    built: list[list[str]] = []
    from stepwell.analysis import kernels

    monkeypatch.setattr(kernels, "compile_units", lambda units, make=kernels.compile_units: built.append([u.name for u in units]) or make(units))
    chosen = bench.evaluate(kernel.name, repeats=3)
    assert [len(timing.seconds) for timing in (chosen.alone, chosen.in_place, chosen.whole)] == [3, 3, 3]
    assert chosen.error == 0, "the same code"
    assert chosen.same_code
    assert chosen.alone.ratio == chosen.whole.ratio == Statistic(1, 1, 1)
    assert all(a <= b for a, b in zip(chosen.in_place.seconds, chosen.whole.seconds, strict=True))
    assert built[-1] == [], "the model is there already"
    built.clear()
    slow = bench.evaluate(kernel.name, plain(kernel), repeats=2)
    assert built == [[kernel.name], [kernel.name]] or built == [[kernel.name], []]
    assert 0 <= slow.error < 1e-5
    assert slow.kernel == kernel
    assert not slow.same_code
    for timing in (slow.alone, slow.in_place, slow.whole):
        assert len(timing.seconds) == len(timing.chosen) == 2, "the chosen schedule takes turns with it"
        assert timing.ratio.low <= timing.ratio.value <= timing.ratio.high
        assert timing.time.low <= timing.time.value <= timing.time.high
    again = bench.evaluate(kernel.name, plain(kernel), repeats=2, in_place=False)
    assert (again.in_place, again.whole) == (None, None)
    assert again.alone.time is not None


def test_the_same_code_is_not_timed(bench: stepwell.KernelBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A knob that nothing is made of: a step along the vectors. What it is taken for is said."""
    kernel = bench.kernel("product")
    place = contraction(kernel)
    vector = kernel.ops[place].knobs["vector"]
    monkeypatch.setattr("stepwell.analysis.kernels.take_turns", None)
    found = bench.evaluate("product", {place: {f"unroll.{vector}": 4}}, repeats=1)
    assert found.clamped == {place: {f"unroll.{vector}": (4, 1)}}
    assert (found.alone, found.in_place, found.whole) == (SAME, SAME, SAME)
    assert found.same_code
    assert (found.alone.ratio, found.alone.time, found.error, found.busy) == (Statistic(1, 1, 1), None, 0, None)
    assert "the same code as with the chosen schedule" in str(found)
    assert f"op {place}: unroll.{vector} 4 has the effect of 1" in str(found)
    assert bench.evaluate("product", {place: kernel.ops[place].knobs}, repeats=1).clamped == {}


def test_values_that_are_offered_are_code_of_their_own(bench: stepwell.KernelBench) -> None:
    kernel = bench.kernel("product")
    place = contraction(kernel)
    vector = kernel.ops[place].knobs["vector"]
    assert bench.offered("product", place, f"unroll.{vector}") == (1,)
    assert bench.offered("product", place, f"unroll.{vector}", values=(4, 1, 8)) == (4,)
    assert bench.offered("product", place, "width", values=(3, 8, 1)) == (8, 1)
    assert bench.offered("product", place, "along") == (-1,)
    assert len({bench.ir("product", {place: {"width": width}}) for width in (1, 8)}) == 2
    assert set(kernel.ops[place].notes["legal"]) == set(kernel.ops[place].knobs)
    with pytest.raises(ScheduleError, match=f"op {place}: there is no knob 'depth', expected order, parallel"):
        bench.offered("product", place, "depth")
    with pytest.raises(ScheduleError, match=r"there is no op 99, it has \d structured ops"):
        bench.offered("product", 99, "width")


def test_turns_alternate_and_a_busy_machine_is_told_of(bench: stepwell.KernelBench, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def turn(name: str, *seconds: float) -> Callable[[], list[tuple[float, ...]]]:
        return lambda: order.append(name) or [(s, 2 * s) for s in seconds]

    timings = take_turns(turn("ours", 1.0, 3.0, 2.0), turn("chosen", 4.0), 3)
    assert order == ["chosen", "ours", "ours", "chosen", "chosen", "ours"]
    assert [timing.seconds for timing in timings] == [(2.0, 2.0, 2.0), (4.0, 4.0, 4.0)]
    assert [timing.ratio for timing in timings] == [Statistic(0.5, 0.5, 0.5)] * 2
    busy = iter((100.0, 200.0))
    monkeypatch.setattr(load, "busy_seconds", lambda: next(busy))
    with pytest.warns(stepwell.BusyWarning, match=r"other processes keep \d+.\d\d cores busy: times of kernel '\w+' are disturbed"):
        found = bench.evaluate("product", repeats=1, in_place=False)
    assert found.is_disturbed
    assert "disturbed: other processes kept" in str(found)


def test_wrong_code_is_seen(bench: stepwell.KernelBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that has a block of sums left out gives an error, alone and in place."""
    kernel = bench.kernel("product")
    from stepwell.analysis import replay

    class Forgetful(replay.Replay):
        def run(self, first: int = 0, end: int | None = None) -> None:
            super().run(first, end)
            if first == 0 and end is None:
                self.outputs[0].reshape(-1)[0] += 1

    assert bench.evaluate(kernel.name, repeats=1).error == 0
    monkeypatch.setattr("stepwell.analysis.kernels.Replay", Forgetful)
    assert bench.evaluate(kernel.name, repeats=1, in_place=False).error > 0.01
    assert bench.evaluate(kernel.name, repeats=1, alone=False).error > 0.01


def test_schedules_are_given_as_nests_and_files_too(bench: stepwell.KernelBench) -> None:
    kernel = bench.kernel("product")
    place = contraction(kernel)
    knobs = {"vector": -1, "width": 1}
    entries = {kernel.digest: {"ops": {place: {"knobs": knobs}}}}
    text = json.dumps({"version": 2, "kernels": entries})
    results = [bench.evaluate(kernel.name, given, repeats=1, in_place=False) for given in ({place: knobs}, Plan.parse(text))]
    assert results[0].error == results[1].error
    dims = len(kernel.ops[place].sizes or ())
    nest = Nest(order=tuple(kernel.ops[place].knobs["order"]), parallel=0, unroll=(1,) * dims, vector=-1, width=1)
    assert bench.evaluate(kernel.name, {place: nest}, repeats=1, in_place=False).error == results[0].error


def test_what_is_wrong(bench: stepwell.KernelBench) -> None:
    kernel = bench.kernel("product")
    place = contraction(kernel)
    with pytest.raises(ScheduleError, match=rf"kernel '{kernel.name}', op {place} \(contraction\): knob 'width': 3 is not legal, expected one of"):
        bench.evaluate("product", {place: {"width": 3}})
    with pytest.raises(ScheduleError, match=rf"kernel '{kernel.name}', op 99: there is no such op, it has \d structured ops"):
        bench.evaluate("product", {99: {}})
    with pytest.raises(ScheduleError, match=rf"mine: it has no kernel '{kernel.digest}' \({kernel.name}\), only none"):
        bench.evaluate("product", Plan.parse('{"version": 2, "kernels": {}}', "mine"))
    with pytest.raises(InputError, match="expected a kernel to be run alone, in its place, or both"):
        bench.evaluate("product", alone=False, in_place=False)
    with pytest.raises(InputError, match=r"inputs: expected x, got z"):
        stepwell.KernelBench(network(), inputs={"z": X})
    with pytest.raises(InputError, match=r"input 'x': expected float32\[1x8x12x12\], got"):
        stepwell.KernelBench(network(), inputs={"x": X[:, :4]})
    with pytest.raises(InputError, match="unknown backend 'numbers'"):
        stepwell.KernelBench(network(), backend="numbers")


def test_operands_that_a_kernel_overwrites_are_put_back() -> None:
    """Or a kernel that adds to what it read would run on its own result."""
    from stepwell.analysis.model_replay import replay_of

    model = stepwell.compile(network(), threads=1, target="x86-64-v3")
    assert isinstance(model, stepwell.CompiledModel)
    replay = replay_of(model, {"x": X})
    replay.run()
    want = model.run({"x": X})["y"]
    np.testing.assert_array_equal(replay.outputs[0], want)
    own = [i for i, launch in enumerate(replay.launches) if any(s.overlaps(d) for s in launch.sources for d in launch.destinations)]
    assert own, "the sum is computed in the place of one of its operands"
    replay.run(0, own[0])
    replay.alone(own[0], 5)
    replay.run(own[0] + 1)
    np.testing.assert_array_equal(replay.outputs[0], want)
