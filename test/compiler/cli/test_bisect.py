"""`stepwell bisect`: on faults planted by plugins, in processes of their own, it names the pass and the kernel."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import DIGITS, Commands, process
from importing import floats, model, node, rng

from stepwell.dialects.target.registry import resolve

SHAPE = ("--shape", "image=1x1x8x8")


def save_net(file: Path, size: int) -> Path:
    """Convolutions, one of which is worth Winograd's method, a normalisation, a pooling, and no softmax that hides what is wrong."""
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="conv1", pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"], name="relu1"),
        node("Conv", ["b", "w2"], ["c"], name="conv2", pads=[1, 1, 1, 1]), node("Relu", ["c"], ["d"], name="relu2"),
        node("MaxPool", ["d"], ["e"], name="pool", kernel_shape=[3, 3], strides=[1, 1]), node("Conv", ["e", "w3"], ["f"], name="conv3"),
        node("Sigmoid", ["f"], ["y"], name="sigmoid"),
    ]  # fmt: skip
    shapes = {"w1": (32, 3, 3, 3), "w2": (32, 32, 3, 3), "w3": (8, 32, 1, 1)}
    weights = {name: rng().standard_normal(shape).astype(np.float32) / 9 for name, shape in shapes.items()}
    proto = model(nodes, {"x": floats(1, 3, size, size)}, {"y": floats(1, 8, size - 2, size - 2)}, weights)
    onnx.save(proto, file)
    return file


SWAP = """
from stepwell.plugin import ir, ops_below


def swapped(op, name, other):
    "Make another op of the last op of a name."
    for found in ops_below(op, name)[-1:]:
        with ir.InsertionPoint(found), found.location:
            made = ir.Operation.create(other, results=[r.type for r in found.results], operands=list(found.operands))
        found.results[0].replace_all_uses_with(made.results[0])
        found.erase()
"""
PASS = """
from dataclasses import dataclass

from stepwell.plugin import Pass, register_pass


@register_pass("spoil", level={level!r}, after={after!r})
@dataclass
class Spoil(Pass):
    "Make another op of one."

    def run(self, op, state):
        swapped(op, {name!r}, {other!r})
"""
PATCHED = """
from stepwell.passes.{module} import {cls}

plain = {cls}.run


def run(self, op, state):
    plain(self, op, state)
    swapped(op, {name!r}, {other!r})


{cls}.run = run
"""
SPOILT = """
import {module} as module

plain = module.{function}
module.{function} = lambda *given: {expression}
"""
GRAPH_PASS = SWAP + PASS.format(level="graph", after="fold-batch-norm", name="graph.relu", other="graph.abs")
AFTER_FUSION = SWAP + PASS.format(level="graph-opt", after="outline-kernels", name="graph.relu", other="graph.abs")
WINOGRAD = SPOILT.format(module="stepwell.passes.packed.winograd_images", function="transformed_filters", expression="plain(*given) * 1.01")
BLOCKS = SPOILT.format(module="stepwell.passes.packed.layout_rules", function="take", expression="plain(*given)[::-1]")
LOWERING = """
from stepwell.passes.graph_to_linalg.pooling import lower_max_pool
from stepwell.plugin import arith, graph, lowering


@lowering(graph.MaxPoolOp)
def wrong(op, operands, b):
    x = operands[0]
    return lower_max_pool(op, [b.elementwise([x], "f32", b.sizes(x), lambda v: arith.mulf(v, v))], b)
"""
SCHEDULED = SWAP + PATCHED.format(module="schedule.assign_schedules", cls="AssignSchedules", name="arith.maximumf", other="arith.minimumf")
LOOPS = SWAP + PATCHED.format(module="linalg_to_affine.lower_to_affine", cls="LowerToAffine", name="arith.maximumf", other="arith.minimumf")
BEHIND_LOOPS = SWAP + PASS.format(level="affine", after="lower-to-affine", name="arith.maximumf", other="arith.minimumf")
SHARED = """
from stepwell.passes.linalg_to_affine import lower_to_affine

plain = lower_to_affine._Lowering._loop


def wrong(self, indices, ivs, shrunk, begin):
    "Leave the last round of a shared loop out."
    whole = lower_to_affine.rounds
    lower_to_affine.rounds = lambda root, level: whole(root, level) - 1
    try:
        plain(self, indices, ivs, shrunk, begin)
    finally:
        lower_to_affine.rounds = whole


lower_to_affine._Lowering._loop = wrong
"""
MEMORY = SPOILT.format(module="stepwell.passes.bufferize.buffers", function="pack", expression="([0] * len(plain(*given)[0]), plain(*given)[1])")

NOTES = {
    "loops that ops share": "without fused loops the kernel is right",
    "a lowering to loops": "with plain loops in the place of its schedules the kernel is right",
    "a pass behind that": "without this pass the kernel is right",
    "buffers that live at once": "the kernel is right by itself, and wrong where the model calls it",
}
FAULTS = {
    "a pass on the graph": (GRAPH_PASS, r"pass `spoil` in graph-opt, op graph\.abs \(node 'relu\d'\)"),
    "a pass on kernels of graph ops": (AFTER_FUSION, r"pass `spoil` in graph-opt, kernel \w+ \(nodes 'conv\d', .*'relu\d'.*\)"),
    "weights of Winograd's convolutions": (WINOGRAD, r"pass `use-winograd` in graph-opt, op packed\.winograd_conv \(node 'conv2'\)"),
    "channels in wrong lanes": (BLOCKS, r"pass `convert-layout` in graph-opt, op graph\.\w+ \(node"),
    "a lowering": (LOWERING, r"pass `convert-graph-to-linalg` in linalg, kernel max_pool_\w+ \(node 'pool'\)"),
    "what chooses schedules": (SCHEDULED, r"pass `assign-schedules` in scheduled, kernel \w+ \(node"),
    "a lowering to loops": (LOOPS, r"pass `lower-to-affine` in affine, kernel \w+ \(node"),
    "loops that ops share": (SHARED, r"pass `lower-to-affine` in affine, kernel packed_winograd_conv_\w+ \(nodes"),
    "a pass behind that": (BEHIND_LOOPS, r"pass `spoil` in affine, kernel \w+ \(node"),
    "buffers that live at once": (MEMORY, r"pass `bufferize` in affine, kernel \w+ \(node"),
}


@pytest.mark.parametrize("where", FAULTS)
def test_a_planted_fault(where: str, tmp_path: Path) -> None:
    net = save_net(tmp_path / "net.onnx", 20 if where == "loops that ops share" else 12)  # no loops are shared in the smaller one
    plugin, expected = FAULTS[where]
    (tmp_path / "fault.py").write_text(plugin)
    ended = process("main", "bisect", net, "--load", tmp_path / "fault.py", "--seed", "7", "--threads", "1")
    assert ended.status == 1, ended.out + ended.err
    assert re.search(f"^stepwell bisect: error: the first that is wrong: {expected}", ended.err, flags=re.MULTILINE), ended.out + ended.err
    assert NOTES.get(where, "") in ended.out
    assert len(re.findall(expected, ended.out + ended.err)) == 1
    ended.refused(1, "stepwell bisect: error: the first that is wrong: pass `")


def test_nothing_is_wrong(commands: Commands) -> None:
    ended = commands.stepwell("bisect", DIGITS, *SHAPE, "--seed", "3")
    assert (ended.status, ended.err) == (0, "")
    assert "no pass changes what the model means" in ended.out


def test_from_ir_and_below_it(commands: Commands, tmp_path: Path) -> None:
    file = tmp_path / "linalg.mlir"
    assert commands.stepwell("compile", DIGITS, *SHAPE, "--emit", "linalg", "-o", file).status == 0
    assert commands.stepwell("bisect", file, "--from", "linalg").status == 0
    commands.stepwell("bisect", file, "--from", "affine").refused(2, "expected one of graph, graph-opt, linalg, scheduled")


def test_a_tolerance_that_nothing_keeps(commands: Commands) -> None:
    """With no rounding allowed, the first pass that changes the order of sums is to blame, and no op is far off."""
    ended = commands.stepwell("bisect", DIGITS, *SHAPE, "--tolerance", "0")
    assert ended.status == 1
    assert "the first that is wrong: pass `fold-batch-norm` in graph-opt" in ended.err


def test_kernels_are_found_where_the_target_has_no_lanes_to_spare(commands: Commands) -> None:
    assert resolve("x86-64-v3").lanes(32) == 8
    assert commands.stepwell("bisect", DIGITS, *SHAPE, "--target", "x86-64-v3").status == 0
