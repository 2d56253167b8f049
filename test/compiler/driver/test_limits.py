"""What a model may cost: folding stops at its budget, the rest are errors that name node and limit, options and commands agree."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import process
from importing import context, floats, model, node
from onnx import TensorProto, helper

import stepwell
from stepwell import LimitError, Limits
from stepwell.analysis.explain import Explanation
from stepwell.dialects.core.mlir import ops_below
from stepwell.dialects.support.errors import InputError
from stepwell.driver.lowering import lower
from stepwell.frontends.onnx import import_model

X = floats(512, 512)


def sums(count: int) -> onnx.ModelProto:
    """x + (w + 0) + (w + 1) + …, where each w + i is known and has a megabyte."""
    nodes = []
    for i in range(count):
        nodes += [
            node("Constant", [], [f"k{i}"], value_float=i + 0.5),
            node("Exp", ["w"], [f"e{i}"]) if i == 0 else node("Mul", ["w", f"k{i}"], [f"e{i}"]),
            node("Sub", [f"s{i - 1}" if i else "x", f"e{i}"], [f"s{i}"]),
        ]
    return model([*nodes, node("Identity", [f"s{count - 1}"])], {"x": X}, {"y": X}, {"w": floats(512, 512, seed=1)})


def count(lowered: stepwell.Lowered, name: str) -> int:
    return len(ops_below(lowered.module.operation, f"graph.{name}"))


def test_folding_leaves_to_run_time_what_is_beyond_its_bytes() -> None:
    """The model's one megabyte allows four more, whatever `fold_bytes` says."""
    lowered = lower(sums(12), "graph", limits=Limits(fold_bytes=0))
    assert lowered.state.budget.given_bytes == X.nbytes
    proto = sums(12)
    some, every = (lower(proto, "graph-opt", limits=Limits(fold_bytes=n)) for n in (0, 1 << 28))
    assert some.state.budget.held_bytes <= 4 * X.nbytes
    assert count(every, "mul") == 0
    assert count(some, "mul") + count(some, "exp") >= 6
    plain, limited = (stepwell.compile(proto, limits=limits)(X)[0] for limits in (None, Limits(fold_bytes=0)))
    np.testing.assert_allclose(limited, plain, rtol=1e-5, atol=1e-4)


def test_folding_stops_at_its_operations() -> None:
    assert count(lower(sums(3), "graph-opt"), "exp") == 0
    told = Explanation()
    limited = lower(sums(3), "graph-opt", limits=Limits(fold_operations=X.size - 1), instrumentation=told)
    assert count(limited, "exp") == 1
    assert any("limit fold_operations; to raise it" in d.what for d in told.decisions.declined)


def test_what_is_folded_away_is_freed() -> None:
    """A chain of sums of a megabyte each holds one or two of them at a time."""
    nodes = [node("Exp", ["w"], ["e0"]), *(node("Mul", [f"e{i}", "w"], [f"e{i + 1}"]) for i in range(40)), node("Add", ["x", "e40"])]
    lowered = lower(model(nodes, {"x": X}, {"y": X}, {"w": floats(512, 512, seed=1)}), "graph-opt", limits=Limits(fold_bytes=0))
    assert count(lowered, "mul") == 0
    assert lowered.state.budget.held_bytes <= X.nbytes


def test_merged_constants_are_freed() -> None:
    """(((x + a) + b) + c) …: each merge makes a constant that the next one replaces."""
    count_of = 150
    nodes = [node("Add", [f"t{i}" if i else "x", f"w{i}"], [f"t{i + 1}"]) for i in range(count_of)]
    weights = {f"w{i}": np.full((512, 512), i, np.float32) for i in range(count_of)}
    lowered = lower(model([*nodes, node("Identity", [f"t{count_of}"])], {"x": X}, {"y": X}, weights), "graph-opt")
    assert count(lowered, "add") == 1
    made = lowered.weights.nbytes - count_of * X.nbytes
    assert made <= (64 + 2) * X.nbytes


def loop_nest(depth: int, rounds: int) -> onnx.ModelProto:
    def body(level: int) -> onnx.GraphProto:
        kinds = ((f"i{level}", TensorProto.INT64, []), (f"c{level}", TensorProto.BOOL, []), (f"v{level}", TensorProto.FLOAT, [4]))
        inner = (
            node("Loop", ["rounds", f"c{level}", f"v{level}"], [f"r{level}"], body=body(level + 1))
            if level < depth
            else node("Neg", [f"v{level}"], [f"r{level}"])
        )
        inner.name = ""
        outputs = ((f"d{level}", TensorProto.BOOL, []), (f"r{level}", TensorProto.FLOAT, [4]))
        made = [helper.make_node("Identity", [f"c{level}"], [f"d{level}"]), inner]
        return helper.make_graph(made, f"level{level}", *([helper.make_tensor_value_info(*k) for k in kind] for kind in (kinds, outputs)))

    weights = {"rounds": np.array(rounds), "go": np.array(True)}
    return model([node("Loop", ["rounds", "go", "x"], body=body(1))], {"x": floats(4)}, {"y": floats(4)}, weights)


def test_nested_loops_are_unrolled_up_to_a_number_of_nodes_in_all() -> None:
    x = floats(4)
    np.testing.assert_array_equal(stepwell.compile(loop_nest(2, 3))(x)[0], -x)
    imported = import_model(loop_nest(4, 100), context(), limits=Limits(unrolled_operations=1000))
    assert imported.budget.unrolled <= 1000
    np.testing.assert_array_equal(stepwell.compile(loop_nest(3, 5), limits=Limits(unrolled_operations=20))(x)[0], -x)


def test_errors_name_node_and_limit() -> None:
    proto = model([node("Add", ["x", "x"], ["t"]), node("MatMul", ["t", "t"], ["u"]), node("MatMul", ["u", "t"])], {"x": X}, {"y": X})
    with pytest.raises(LimitError, match=r"SW011 .*the largest, of the_.*, has 1048576 bytes\) would .*, more than 1000 \(limit workspace_bytes;"):
        stepwell.compile(proto, limits=Limits(workspace_bytes=1000))
    nodes = [node("MatMul", ["x", "x"], ["t"]), node("MatMul", ["t", "w"], ["u"], name="wide"), node("ReduceMax", ["u"])]
    growing = model(nodes, {"x": X}, {"y": floats(1, 1)}, {"w": floats(512, 1024)})
    with pytest.raises(LimitError, match=r"the largest, of wide.*, has 2097152 bytes"):  # neither the first nor an output
        stepwell.compile(growing, limits=Limits(workspace_bytes=1000))
    big = model([node("Add", ["v", "v"])], {"v": floats(1, 512)}, {"y": X}, {"z": X})
    big.graph.node[0].input[1] = "z"
    with pytest.raises(LimitError, match=r"SW011 Add \"the_add\" \(opset 21\): .* would take 1048576 bytes; at most 1048575 .*limit value_bytes"):
        import_model(big, context(), limits=Limits(value_bytes=(1 << 20) - 1))
    with pytest.raises(LimitError, match=r"the model's nodes, with its functions expanded, would take 3, more than 2"):
        import_model(proto, context(), limits=Limits(operations=2))
    with pytest.raises(LimitError, match=r"compiling has taken .* s, more than 0 .limit seconds"):
        stepwell.compile(proto, limits=Limits(seconds=0))


@pytest.mark.usefixtures("cache_folder")
def test_limits_are_part_of_the_key_of_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(sums(2), path)
    stepwell.compile(path)
    assert "cache" in stepwell.compile(path).timings
    assert "cache" in stepwell.compile(path, limits=Limits(seconds=1e6)).timings
    assert "cache" not in stepwell.compile(path, limits=Limits(fold_bytes=1)).timings


@pytest.mark.parametrize("text", ["fold_bytes=1x", "fold_bytes", "fold_bytes=-1", "bytes=1", "seconds=nan", "fold_bytes=1.5", "operations=١"])
def test_wrong_limits(text: str) -> None:
    with pytest.raises(InputError, match="limit"):
        Limits.parse([text])


def test_limits_as_text() -> None:
    assert Limits.parse(["fold_bytes=3M", "seconds=2.5", "fold-operations=7"]) == Limits(fold_bytes=3 << 20, seconds=2.5, fold_operations=7)
    with pytest.raises(InputError, match="given twice"):
        Limits.parse(["fold_bytes=1", "fold_bytes=2"])
    with pytest.raises(InputError, match="limit 'fold_bytes': expected a number"):
        Limits(fold_bytes="1")  # type: ignore[arg-type]


def test_commands_take_limits(tmp_path: Path) -> None:
    onnx.save(sums(1), tmp_path / "m.onnx")

    done = process("main", "compile", tmp_path / "m.onnx", "--emit", "graph", "--limit", "operations=1")
    assert done.status == 1
    assert re.search(r"error: SW011 the model's nodes.*--limit operations=…", done.err)
    wrong = process("main", "compile", tmp_path / "m.onnx", "--emit", "graph", "--limit", "x=1")
    assert wrong.status == 2
    assert "there is no limit 'x'; the limits are: fold_bytes" in wrong.err
