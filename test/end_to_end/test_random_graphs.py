"""Random graphs of all operators: native code as they mean, at every alignment and on one and two threads; that the fuzzer sees faults.

These are always the same graphs, one or more for each operator; scripts/fuzz.py runs others for as long as one likes.
"""

import itertools
from pathlib import Path
from typing import Any

import fuzz
import ml_dtypes
import numpy as np
import onnx
import pytest
from importing import context, floats, ints, model, node
from onnx import helper, numpy_helper
from random_graphs import campaign, examination, families, runtime  # noqa: F401  (the table of operators)
from random_graphs.campaign import Campaign, graph
from random_graphs.examination import Limits, examine
from random_graphs.net import Case, Net, undefined
from random_graphs.operators import OPERATORS, grow
from random_graphs.shrinking import shrink
from watchdog import Watchdog

from stepwell.frontends.onnx import all_rules, import_model
from stepwell.frontends.onnx.functions import has_schema_function

pytestmark = pytest.mark.optimised

SEED = 20_000  # of the first graph
TRIES, DRAWN = 6, 200  # graphs for an operator until one that has it is right: those examined, and those with nothing in them (of older opsets)

# Operators that we import and no random graph has, each with the reason.
LEFT_OUT = {
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), "control flow: whole graphs in graphs"),
    **dict.fromkeys(
        (
            "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
            "SplitToSequence",
        ), "sequences: test_sequences.py",
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), "values that are no tensors: test_rule_optionals.py"),
    **dict.fromkeys(("Upsample", "Scatter"), "gone from newer opsets: test_rule_versions.py"),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), "random: test_random_values.py"
    ),
}


def test_every_operator_is_drawn_or_left_out_with_a_reason() -> None:
    imported = {rule.name for rule in all_rules() if rule.domain == ""}
    opset = onnx.defs.onnx_opset_version()
    schemas = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    known = imported | {name for name in schemas if has_schema_function("", name, opset)}
    assert known - set(OPERATORS) == set(LEFT_OUT)


def test_random_graphs_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Graphs of all operators in which every one is at least once, so few that they are not divided."""
    with Watchdog(first="objects_once:share_objects") as dog:
        runs = Campaign(tmp_path, dog)
        seed = SEED
        for operator in sorted(OPERATORS):
            runs.only, before = operator, runs.count
            for _ in range(DRAWN):
                if operator in {name for name, _ in runs.nodes} or runs.count - before == TRIES:
                    break
                runs.attempt(seed)
                seed += 1
    assert runs.findings == []
    assert set(OPERATORS) - {name for name, _ in runs.nodes} == set()


# --- that faults are seen


def case_of(proto: onnx.ModelProto, inputs: dict[str, np.ndarray], **options: Any) -> Case:
    return Case(proto.SerializeToString(), inputs, **options)


def product() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Sigmoid", ["m"]), node("Neg", ["x"], ["n"])]
    return model(nodes, {"x": floats(9, 33)}, {"y": floats(9, 17), "n": floats(9, 33)}, {"w": floats(33, 17) / 8}), {"x": floats(9, 33, seed=2)}


def test_one_wrong_weight_of_hundreds_is_seen() -> None:
    """The bounds leave no room for it: every float but the last bits has to be right."""
    proto, inputs = product()
    limits = Limits(import_model(proto, context()), case_of(proto, inputs), winograd=False)
    assert [f["kind"] for f in examine(case_of(proto, inputs))] == ["right"]
    (weights,) = proto.graph.initializer
    array = numpy_helper.to_array(weights).copy()
    array[20, 3] += 3e-4
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    other = import_model(proto, context())
    wrong = Limits(other, case_of(proto, inputs), winograd=False).bounds(2, False).base
    assert "output y" in limits.problem(wrong)
    assert limits.problem({"n": wrong["n"]}) == ""


def test_integers_and_moved_data_have_to_be_the_same() -> None:
    nodes = [node("Transpose", ["x"], ["t"]), node("Cast", ["i"], ["f"], to=1), node("Sign", ["x"], ["s"])]
    arrays = {"x": floats(3, 4), "i": ints(1, 2, 3)}
    proto = model(nodes, arrays, {"t": floats(4, 3), "f": floats(3), "s": floats(3, 4)})
    limits = Limits(import_model(proto, context()), case_of(proto, arrays), winograd=False)
    right = limits.bounds(3, False).base
    for name, array in right.items():
        off = array.copy()
        off.flat[1] = np.nextafter(off.flat[1], np.float32(9))
        assert f"output {name}" in limits.problem({name: off})
        assert "is float64" in limits.problem({name: off.astype(np.float64)})


def test_the_last_place_near_0_does_not_count_where_numbers_are_computed() -> None:
    """The mean of a denormal and of padding that does not count is this number or its neighbour; of what was only moved, it is this number."""
    nodes = [node("AveragePool", ["x"], ["a"], kernel_shape=[2], pads=[1, 1]), node("Identity", ["x"], ["i"])]
    x = np.float32([[[2.0**-149, 2.0**-148, 3]]])
    proto = model(nodes, {"x": x}, {"a": floats(1, 1, 4), "i": x})
    limits = Limits(import_model(proto, context()), case_of(proto, {"x": x}), winograd=False)
    right = limits.bounds(3, False).base
    assert limits.problem({"a": np.nextafter(right["a"], np.float32([[[9, 9, 0, 3]]]))}) == ""
    for place in range(3):
        off = x.copy()
        off[0, 0, place] = np.nextafter(off[0, 0, place], np.float32(9))
        assert "output i" in limits.problem({"i": off})
    assert "output a" in limits.problem({"a": right["a"] + np.float32(1e-6)})


def test_where_a_comparison_may_go_either_way_it_does_not_count() -> None:
    """0.1 + 0.2 > 0.3 depends on rounding, 0.1 + 0.2 > 0.1 does not."""
    nodes = [node("Add", ["x", "y"], ["sum"]), node("Greater", ["sum", "z"], ["more"])]
    arrays = {"x": np.float32([0.1, 0.1]), "y": np.float32([0.2, 0.2]), "z": np.float32([0.3, 0.1])}
    proto = model(nodes, arrays, {"more": np.array([False, True])})
    found = Limits(import_model(proto, context()), case_of(proto, arrays), winograd=False).bounds(40, False)
    np.testing.assert_array_equal(found.stable["more"], [False, True])


def test_the_sign_of_a_zero_that_was_chosen_among_zeros_does_not_count() -> None:
    """The greatest of 0 and -0 is either; the reciprocal of a zero that was only moved is one of the two."""
    nodes = [node("Max", ["x", "y"], ["most"]), node("Reciprocal", ["most"], ["r"]), node("Reciprocal", ["x"], ["s"])]
    arrays = {"x": np.float32([0, -0.0, 4]), "y": np.float32([-0.0, 0, 2])}
    proto = model(nodes, arrays, {"r": floats(3), "s": floats(3)})
    limits = Limits(import_model(proto, context()), case_of(proto, arrays), winograd=False)
    inf = np.inf
    for first in (inf, -inf):
        for second in (inf, -inf):
            assert limits.problem({"r": np.float32([first, second, 0.25]), "s": np.float32([inf, -inf, 0.25])}) == ""
    assert "output s" in limits.problem({"r": np.float32([inf, inf, 0.25]), "s": np.float32([-inf, -inf, 0.25])})
    assert "output r" in limits.problem({"r": np.float32([inf, inf, 0.26]), "s": np.float32([inf, -inf, 0.25])})


def test_a_fault_is_placed_between_levels() -> None:
    from faults import broken

    from stepwell.passes.graph_to_linalg.convert_graph_to_linalg import ConvertGraphToLinalg

    proto, inputs = product()
    with broken(ConvertGraphToLinalg, "arith.negf", "math.absf"):
        (finding,) = examine(case_of(proto, inputs))
    assert finding["kind"] == "native"
    assert "output y" in finding["text"]
    assert "the meaning changed between graph-opt and linalg" in finding["text"]


# --- growing, shrinking, saving


def test_the_same_seed_gives_the_same_graph() -> None:
    for seed in (3, 5, 11):
        first, second = graph(seed)[1], graph(seed)[1]
        assert first is not None
        assert second is not None
        assert first.model == second.model
        assert (first.target, first.disable) == (second.target, second.disable)
        for name, array in first.inputs.items():
            np.testing.assert_array_equal(array, second.inputs[name])


def test_graphs_are_of_all_kinds() -> None:
    """Values that several nodes read, several outputs, several types, constants and inputs, special values."""
    models = []
    for seed in range(40):
        case = graph(seed)[1]
        assert case is not None
        models.append((onnx.load_from_string(case.model), case))
    uses = [[name for n in m.graph.node for name in n.input if name] for m, _ in models]
    assert sum(len(names) > len(set(names)) for names in uses) > 5
    assert sum(len(m.graph.output) > 1 for m, _ in models) > 10
    assert len({m.opset_import[0].version for m, _ in models}) > 5
    assert sum(bool(m.graph.initializer) for m, _ in models) > 20
    assert sum(bool(case.inputs) for _, case in models) > 20
    floating = [a for _, case in models for a in case.inputs.values() if a.dtype == np.float32]
    assert any(np.isnan(a).any() for a in floating)
    assert {a.dtype for _, case in models for a in case.inputs.values()} > {np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)}


def test_an_operator_that_is_asked_for_is_there() -> None:
    for name in ("Conv", "Gather", "ReduceSum"):
        nets = [Net(seed) for seed in range(3)]
        for net in nets:
            net.opset = 21
            grow(net, name)
        assert any(node.op_type == name for net in nets for node in net.nodes)


def test_axes_are_counted_from_the_end_where_the_opset_knows_that() -> None:
    """Before opset 11 an axis below 0 is no valid ONNX, which its inference takes for another one."""
    below = {opset: set[bool]() for opset in (9, 13)}
    for opset, name, seed in itertools.product(below, ("Unsqueeze", "Concat", "ReduceMax", "ArgMax", "Flatten"), range(12)):
        net = Net(seed)
        net.opset = opset
        grow(net, name)
        named = [n for n in net.nodes if n.op_type == name]
        axes = [helper.get_attribute_value(a) for n in named for a in n.attribute if a.name in ("axis", "axes")]
        below[opset] |= {axis < 0 for value in axes for axis in (value if isinstance(value, list) else [value])}
    assert below == {9: {False}, 13: {False, True}}


def test_elements_that_are_only_stored_are_compared_by_their_bits() -> None:
    """NaN of a type of 8 bits is one number among others, and a zero is not the other."""
    x = np.array([0x7F, 0x80, 0x01, 0x38], np.uint8).view(ml_dtypes.float8_e4m3fn)
    proto = model([node("Reshape", ["x", "s"])], {"x": x}, {"y": x}, {"s": ints(4)})
    limits = Limits(import_model(proto, context()), case_of(proto, {"x": x}), winograd=False)
    assert limits.problem({"y": x}) == ""
    for place in range(4):
        off = x.view(np.uint8).copy()
        off[place] ^= 0x80 if place else 0x01
        assert f"output y: [{place}]" in limits.problem({"y": off.view(x.dtype)})


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16, np.bool_])
def test_onnxruntime_is_asked_for_types_that_numpy_has_not(dtype: type) -> None:
    x, scalar = np.array([[0, 1, -2.5], [np.nan, 3, 1.5]]).astype(dtype), np.array(1.5).astype(dtype)
    nodes = [node("Transpose", ["x"], ["t"]), node("Identity", ["c"], ["y"]), node("Reshape", ["s", "whole"], ["z"])]
    proto = model(nodes, {"x": x, "s": scalar}, {"t": x.T, "y": x, "z": scalar}, {"c": x, "whole": ints()})
    got = runtime.run(proto.SerializeToString(), {"x": x, "s": scalar})
    for name, want in (("t", x.T), ("y", x), ("z", scalar)):
        assert got[name].shape == want.shape
        assert got[name].dtype == x.dtype
        np.testing.assert_array_equal(got[name].astype(np.float32), want.astype(np.float32))


def test_a_node_that_onnxruntime_is_known_to_have_otherwise_is_not_asked_about() -> None:
    """By what it is given: sequences of no steps, the threshold that is not given."""
    lengths, x = np.array([2, 0], np.int32), floats(2, 2, 3)
    assert undefined("GRU", [x, x, x, None, lengths], {}) != ""
    assert undefined("GRU", [x, x, x, None, lengths + 1], {}) == ""
    activations = ["LeakyRelu", "thresholdedrelu"]
    assert undefined("GRU", [x, x, x], {"activations": activations, "activation_alpha": [0.5]}) != ""
    assert undefined("GRU", [x, x, x], {"activations": activations, "activation_alpha": [0.5, 0.5]}) == ""


def test_shrinking_keeps_what_fails() -> None:
    nets = (grown(seed, "Transpose") for seed in range(100))
    net = next(net for net in nets if any(n.op_type == "Transpose" for n in net.nodes) and len(net.nodes) > 5)
    case = net.case("host", ("use-winograd",), strict=True)

    def fails(smaller: Case) -> bool:
        onnx.checker.check_model(smaller.model)
        import_model(smaller.model, context())
        return any(n.op_type == "Transpose" for n in onnx.load_from_string(smaller.model).graph.node)

    small = shrink(case, fails, 1000)
    assert [n.op_type for n in onnx.load_from_string(small.model).graph.node] == ["Transpose"]
    assert small.disable == ()


def grown(seed: int, only: str) -> Net:
    net = Net(seed)
    grow(net, only)
    return net


def test_a_crash_is_found_made_small_and_saved_and_the_fuzzer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "EXAMINE", "random_graphs.stand_ins:crash")
    with Watchdog(first="objects_once:share_objects") as dog:
        runs = Campaign(tmp_path, dog, "Neg")
        proto, inputs = product()
        monkeypatch.setattr(campaign, "graph", lambda seed, only: (Net(seed), case_of(proto, inputs)))
        assert not runs.attempt(7)
        other = model([node("Abs", ["x"])], {"x": floats(2)}, {"y": floats(2)})
        assert runs.verdict(case_of(other, {"x": floats(2)}))[0] == "right"
    (finding,) = runs.findings
    assert finding.startswith("died: ")
    assert "Fatal Python error: Aborted" in finding
    saved = onnx.load(tmp_path / "graph-7.onnx")
    assert [n.op_type for n in saved.graph.node] == ["Neg"]
    assert f"stepwell run {tmp_path / 'graph-7.onnx'} --input {tmp_path / 'graph-7.npz'} --target host --check levels" in capsys.readouterr().out
    with np.load(tmp_path / "graph-7.npz") as arrays:
        assert arrays.files == ["x"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "ROUND", 3)
    assert fuzz.main([str(tmp_path / "found"), "--rounds", "1", "--only", "Neg"]) == 0
    said = capsys.readouterr().out
    assert "0 wrong" in said
    assert "nodes that were right" in said
    with pytest.raises(SystemExit, match="2"):
        fuzz.main([str(tmp_path), "--only", "Nonsense"])


def test_examinations_say_what_is_next(capsys: pytest.CaptureFixture[str]) -> None:
    proto, inputs = product()
    examination.examine(case_of(proto, inputs, disable=("simplify-algebra",)))
    assert "phase: run with 2 threads" in capsys.readouterr().err
