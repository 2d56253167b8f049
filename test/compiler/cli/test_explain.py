"""`--explain`: what was done to each node and what was declined, by which pass and why; in every command that compiles."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import DIGITS, Commands
from importing import floats, model, node

import stepwell
from stepwell.analysis.explain import Explanation
from stepwell.dialects.support.errors import InputError

SHAPE = ("--shape", "image=1x1x8x8")
LINES = {
    "a pattern": r"did +fold-batch-norm/scale_outputs, graph\.mul: linear\(x, w\) \* k -> linear\(x, w \* k\)",
    "a pattern that does not apply": r"declined +use-products/convolution_of_one_position, graph\.conv: its filters \(.*\) are not as large",
    "padding": r"did +make-padding-explicit, graph\.conv: its padding \[1, 1, 1, 1\] is an op of its own",
    "layout": r"did +convert-layout, graph\.conv: computed on 2 blocks of 16 channels",
    "layout declined": r"declined +convert-layout, graph\.pad: what it reads is not channel-blocked",
    "winograd": r"did +use-winograd, packed\.conv: computed by F\(2, 3\), with filters transformed now",
    "winograd declined": r"declined +use-winograd, packed\.conv: 32 filters of 32 channels on 4x4 positions do not pay for the transforms",
    "packed matmul": r"did +pack-matmul, graph\.matmul: computed in \d+ panels of \d+ columns",
    "fusion": r"did +fuse-operators, graph\.add: computed in one kernel with 'packed\.winograd_conv', 'graph\.relu', 'graph\.max_pool'",
    "fusion declined": r"declined +fuse-operators, graph\.\w+: its kernel ends with it: '.*', which uses it, is not element-wise",
    "fused loops": r"(did|declined) +fuse-loops, ",
    "merged loops": r"did +collapse-dimensions, linalg\.\w+: loops of ",
    "a schedule": r"did +assign-schedules, linalg\.generic: contraction of \d+(x\d+)*: order=.*vector=.*",
    "a choice of a schedule": r"did +assign-schedules/choice, linalg\.generic: schedule/conv3\+batchnormalization3:contraction: "
    r"(order=.*), of \1 [\d.]+ ns, .*unroll\.2=2",
    "an intrinsic": r"declined +assign-schedules/intrinsics [\w., -]+, linalg\.generic: "
    r"its body is not a sum of products of two inputs of integers, or of bf16",
}


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    explanation = Explanation()
    stepwell.lower(DIGITS, "affine", shapes={"image": (1, 1, 8, 8)}, target="x86-64-v4", instrumentation=explanation)
    return explanation


@pytest.mark.parametrize("what", LINES)
def test_every_kind_of_decision_is_told(what: str, explanation: Explanation) -> None:
    assert re.search(rf"^  {LINES[what]}", explanation.text(), re.MULTILINE)


def test_of_one_node_and_its_kernels(explanation: Explanation) -> None:
    text = explanation.text("conv2")
    assert text.startswith("conv2\n")
    assert "assign-schedules" in text
    assert "assign-schedules" not in text.partition("\nkernel ")[0]
    assert re.findall(r"^\w+$", text, re.MULTILINE) == ["conv2"]
    kernels = re.findall(r"^  in kernel (\w+)$", text, re.MULTILINE)
    assert kernels
    assert re.findall(r"^kernel (\w+), of ", text, re.MULTILINE) == kernels
    [one] = [kernel for kernel in kernels if kernel.startswith("packed_winograd")]
    assert explanation.text(one).startswith(f"kernel {one}, of conv2, ")
    assert re.findall(r"^\w+$", explanation.text("conv*"), re.MULTILINE) == ["conv1", "conv2", "conv3"]
    with pytest.raises(InputError, match="there is no node or kernel 'conv9'; did you mean 'conv3'"):
        explanation.text("conv9")


def test_nodes_come_in_the_models_order(explanation: Explanation) -> None:
    names = [n.name for n in onnx.load(DIGITS).graph.node]
    assert explanation.nodes == [name for name in names if name in explanation.nodes]
    assert len(explanation.nodes) > 10


def test_each_node_of_several_that_share_a_kernel() -> None:
    """Its decisions are those of all of them."""
    proto = model([node("Softmax", ["x"], ["a"], name="s"), node("Softmax", ["a"], name="t")], {"x": floats(3, 4)}, {"y": floats(3, 4)})
    explanation = Explanation()
    stepwell.lower(proto, "scheduled", instrumentation=explanation)
    [(kernel, nodes)] = explanation.kernels.items()
    assert nodes == ["s", "t"]
    assert f"in kernel {kernel}" in explanation.text("t")
    assert "assign-schedules" in explanation.text("t")


class TestCommands:
    def test_run(self, commands: Commands) -> None:
        ended = commands.stepwell("run", DIGITS, *SHAPE, "--explain", "relu1", "--threads", "1")
        assert ended.status == 0
        assert ended.err.startswith("relu1\n")
        assert "probability" in ended.out
        assert "limit-unrolling" in commands.stepwell("run", DIGITS, *SHAPE, "--explain").err  # all the way down

    def test_run_where_the_data_say_sizes_that_are_free(self, commands: Commands, tmp_path: Path) -> None:
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [node("Conv", ["image", "w"], ["y"], name="conv1")], "g", [value("image", 1, ["n", 1, 8, 8])], [value("y", 1, None)],
            [onnx.numpy_helper.from_array(floats(16, 1, 1, 1), "w")],
        )  # fmt: skip
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), tmp_path / "net.onnx")
        np.save(tmp_path / "image.npy", floats(2, 1, 8, 8))
        explained = ("run", tmp_path / "net.onnx", "--input", tmp_path / "image.npy", "--explain", "conv1", "--specialise")
        ended = commands.stepwell(*explained, "always")
        assert ended.status == 0
        assert "did       convert-layout, graph.conv" in ended.err
        ended = commands.stepwell(*explained, "auto")  # what is done for all sizes, as that is what ran
        assert ended.status == 0
        assert ended.err.startswith("conv1\n")

    def test_compile(self, commands: Commands) -> None:
        ended = commands.stepwell("compile", DIGITS, *SHAPE, "--emit", "linalg", "--explain", "conv1")
        assert ended.status == 0
        assert "\nconv1\n" in ended.err
        assert "linalg.generic" in ended.out

    def test_inspect(self, commands: Commands) -> None:
        ended = commands.stepwell("inspect", *SHAPE, "--explain", DIGITS)  # what is behind it is the model
        assert (ended.status, ended.err) == (0, "")
        assert re.search(r"^kernel \w+, of conv1", ended.out, re.MULTILINE)
        commands.stepwell("inspect", DIGITS, *SHAPE, "--explain", "nothing").refused(1, "there is no node or kernel 'nothing'")

    def test_statistics_and_differences(self, commands: Commands) -> None:
        given = ("compile", DIGITS, *SHAPE, "--emit", "graph-opt", "--pass-statistics", "--print-ir-diff", "--print-ir-after", "use-winograd")
        ended = commands.stepwell(*given)
        assert re.search(r"^ +1 use-winograd$", ended.err, re.MULTILINE)
        assert re.findall(r"IR Difference After ([\w-]+) \(graph-opt\)", ended.err) == ["use-winograd"]
        assert re.search(r"^\+ .*packed\.winograd_conv", ended.err, re.MULTILINE)
        misspelt = commands.stepwell("compile", DIGITS, "--emit", "graph", "--print-ir-after", "use-winogard")
        misspelt.refused(2, "did you mean use-winograd or ")
