"""One kernel of a model, built with other schedules: what runs is what was asked for, with the same results. No test looks at a time."""

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.sched.schedule_file import ScheduleFile
from stepwell.dialects.support.errors import InputError, ScheduleError
from stepwell.passes.schedule.nest import Nest

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
    assert (len(chosen.alone), len(chosen.in_place), len(chosen.whole)) == (3, 3, 3)
    assert chosen.error == 0, "the same code"
    assert all(a <= b for a, b in zip(chosen.in_place, chosen.whole, strict=True))
    assert built[-1] == [], "the model is there already"
    built.clear()
    slow = bench.evaluate(kernel.name, plain(kernel), repeats=2)
    assert built == [[kernel.name], [kernel.name]] or built == [[kernel.name], []]
    assert 0 <= slow.error < 1e-5
    assert slow.kernel == kernel
    again = bench.evaluate(kernel.name, plain(kernel), repeats=2, in_place=False)
    assert (again.in_place, again.whole, again.in_place_seconds) == ((), (), None)
    assert again.alone_seconds is not None


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
    results = [bench.evaluate(kernel.name, given, repeats=1, in_place=False) for given in ({place: knobs}, ScheduleFile.parse(text))]
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
        bench.evaluate("product", ScheduleFile.parse('{"version": 2, "kernels": {}}', "mine"))
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
    from stepwell.analysis.replay import Replay

    model = stepwell.compile(network(), threads=1, target="x86-64-v3")
    assert isinstance(model, stepwell.CompiledModel)
    replay = Replay.of(model, {"x": X})
    replay.run()
    want = model.run({"x": X})["y"]
    np.testing.assert_array_equal(replay.outputs[0], want)
    own = [i for i, launch in enumerate(replay.launches) if any(s.overlaps(d) for s in launch.sources for d in launch.destinations)]
    assert own, "the sum is computed in the place of one of its operands"
    replay.run(0, own[0])
    replay.alone(own[0], 5)
    replay.run(own[0] + 1)
    np.testing.assert_array_equal(replay.outputs[0], want)
