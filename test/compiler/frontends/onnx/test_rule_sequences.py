"""Sequences of known length: nothing is left of them, and a position that does not exist is an error of the model."""

from collections.abc import Sequence

import numpy as np
import pytest
from every import every
from importing import check, check_native, context, floats, ints, model, node, ops
from native_checks import natively_together
from onnx import NodeProto, TensorProto, helper

import stepwell
from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.frontends.onnx import import_model

X, Y = floats(2, 3), floats(4, 3, seed=5)
BOTH = {"x": X, "y0": Y}
MADE = node("SequenceConstruct", ["x", "y0"], ["s"])


@pytest.mark.parametrize(("position", "want"), [(0, X), (1, Y), (-1, Y), (-2, X)])
def test_at(position: int, want: np.ndarray) -> None:
    imported = check([MADE, node("SequenceAt", ["s", "p"])], BOTH, {"p": np.array(position)}, expected=[want])
    assert set(ops(imported)) <= {"parameter"}


@natively_together
@every("position", [None, 0, 1, 2, -1, -2])
def test_insert_and_erase(position: int | None) -> None:
    weights = {} if position is None else {"p": np.array(position, np.int32)}
    more = [] if position is None else ["p"]
    inserted = node("SequenceInsert", ["s", "n", *more], ["t"])
    whole = node("ConcatFromSequence", ["t"], axis=0)
    check_native([MADE, node("Neg", ["x"], ["n"]), inserted, whole], BOTH, weights)
    if position != 2:
        check_native([MADE, node("SequenceErase", ["s", *more], ["t"]), whole], BOTH, weights)


@natively_together
@every("new_axis", [0, 1])
@every("axis", [0, 1, -1])
def test_concatenated(axis: int, new_axis: int) -> None:
    check_native(
        [node("SequenceConstruct", ["x", "x2", "x"], ["s"]), node("ConcatFromSequence", ["s"], axis=axis, new_axis=new_axis)], {"x": X, "x2": -2 * X}
    )


def test_of_none() -> None:
    nodes = [node("SequenceEmpty", [], ["e"], dtype=TensorProto.INT64), node("SequenceInsert", ["e", "i"], ["s"]), node("SequenceLength", ["e"])]
    check_native([*nodes, node("SequenceLength", ["s"], ["l"])], {"i": ints(3, 4)}, outputs=("y", "l"), expected=[np.array(0), np.array(1)])


@natively_together
@every("keepdims", [0, 1])
@every(("split", "count"), [(None, 4), (np.array(3), 2), (ints(1, 3), 2), (ints(4), 1)])
def test_split(split: np.ndarray | None, count: int, keepdims: int) -> None:
    given = [] if split is None else ["p"]
    weights = {} if split is None else {"p": split}
    parts = node("SplitToSequence", ["y0", *given], ["s"], axis=0, keepdims=keepdims)
    nodes = [parts, node("SequenceAt", ["s", "last"]), node("SequenceLength", ["s"], ["l"])]
    whole = Y[3 if split is None else 3 if count == 2 and split.size == 1 else 4 - int(np.ravel(split)[-1]) :]
    want = whole[0] if split is None and not keepdims else whole
    check_native(nodes, {"y0": Y}, {**weights, "last": np.array(-1)}, outputs=("y", "l"), expected=[want, np.array(count)])


def test_map() -> None:
    """Over one sequence, a second of the same length, and a tensor that every round takes."""
    values = [[helper.make_tensor_value_info(name, 1, None) for name in names] for names in (("a", "c", "w"), ("o", "r"))]
    body = helper.make_graph([node("Mul", ["a", "c"], ["m"]), node("Add", ["m", "w"], ["o"]), node("Neg", ["a"], ["r"])], "body", *values)
    nodes = [
        MADE, node("SequenceConstruct", ["y0", "x"], ["back"]), node("SequenceMap", ["s", "s", "w"], ["t", "u"], body=body),
        node("ConcatFromSequence", ["t"], axis=0), node("ConcatFromSequence", ["u"], ["z"], axis=0),
    ]  # fmt: skip
    both = np.concatenate([X, Y])
    weights = {"w": floats(3, seed=9)}
    check_native(nodes, BOTH, weights, outputs=("y", "z"), expected=[both * both + weights["w"], -both], opset=18)


def test_a_position_that_is_an_input() -> None:
    """Of elements of one type it is looked up when the model runs, else code is made for its value."""
    alike = [node("SequenceConstruct", ["x", "x2"], ["s"]), node("SequenceAt", ["s", "p"])]
    for place in (0, -1):
        check(alike, {"x": X, "x2": -X, "p": np.array(place)})
        check([MADE, node("SequenceAt", ["s", "p"])], {**BOTH, "p": np.array(place)}, expected=[[X, Y][place]])


def unrolled(count: int) -> list[NodeProto]:
    kinds = [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, [])]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["c2"]), node("Cast", ["i"], ["f"], to=1), node("Add", ["x", "f"], ["v"]),
            node("SequenceInsert", ["si", "v"], ["so"]),
        ],
        "body", [*kinds, helper.make_value_info("si", kind)], [helper.make_tensor_value_info("c2", 9, []), helper.make_value_info("so", kind)],
    )  # fmt: skip
    return [MADE, node("Loop", ["n", "", "s"], ["t"], body=body), node("SequenceLength", ["t"], ["l"]), node("ConcatFromSequence", ["t"], axis=0)]


@pytest.mark.parametrize("count", [0, 3])
def test_a_loop_of_a_known_number_of_rounds(count: int) -> None:
    want = np.concatenate([X, Y, *(X + np.float32(i) for i in range(count))])
    imported = check(unrolled(count), BOTH, {"n": np.array(count)}, outputs=("y", "l"), expected=[want, np.array(2 + count)])
    assert "loop" not in ops(imported)


ONE = np.array(1)
SIZES = node("Abs", ["p"], ["q"])
BAD: list[tuple[Sequence[NodeProto], dict[str, np.ndarray], str]] = [
    ([MADE, node("SequenceAt", ["s", "p"])], {"p": np.array(2)}, "SequenceAt .*the position must be from -2 to 1 in a sequence of 2 elements, got 2"),
    ([MADE, node("SequenceAt", ["s", "p"])], {"p": np.array(-3)}, "must be from -2 to 1 in a sequence of 2 elements, got -3"),
    ([MADE, node("SequenceInsert", ["s", "x", "p"], ["t"]), node("SequenceAt", ["t", "o"])], {"p": np.array(3), "o": ONE},
     "SequenceInsert .*must be from -2 to 2 in a sequence of 2 elements, got 3"),
    ([MADE, node("SequenceErase", ["s", "p"], ["t"]), node("SequenceAt", ["t", "o"])], {"p": np.array(-3), "o": ONE}, "SequenceErase .*got -3"),
    ([node("SequenceEmpty", [], ["s"]), node("SequenceErase", ["s"], ["t"]), node("SequenceAt", ["t", "p"])], {"p": ONE}, "no element to erase"),
    ([node("SequenceEmpty", [], ["s"]), node("SequenceAt", ["s", "p"])], {"p": ONE}, "SequenceAt .*the position does not exist in a sequence of 0"),
    ([node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], axis=0)], {}, "ConcatFromSequence .*no elements to concatenate"),
    ([MADE, node("ConcatFromSequence", ["s"], axis=2)], {}, r"ConcatFromSequence.*Accepted range=\[-2, 1\], Value=2"),  # ONNX sees it first
    ([SIZES, node("SplitToSequence", ["x", "q"], ["s"]), node("SequenceAt", ["s", "o"])], {"p": np.array(0), "o": ONE}, "must be from 1, got 0"),
    ([SIZES, node("SplitToSequence", ["x", "q"], ["s"]), node("SequenceAt", ["s", "o"])], {"p": ints(1, -2), "o": ONE}, "sizes that sum to 2"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "weights", "message"), BAD)
def test_bad_models(nodes: Sequence[NodeProto], weights: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_model(model(nodes, BOTH, {"y": X}, weights), context())


def test_a_sequence_is_no_tensor() -> None:
    with pytest.raises(ModelError):
        import_model(model([MADE, node("Neg", ["s"])], BOTH, {"y": X}), context())
    with pytest.raises(ModelError):
        import_model(model([node("SequenceLength", ["x"])], BOTH, {"y": np.array(1)}), context())


def test_strings_in_sequences_are_refused() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.STRING, None))
    graph = helper.make_graph([node("SequenceLength", ["s"])], "g", [helper.make_value_info("s", kind)], [helper.make_tensor_value_info("y", 7, [])])
    with pytest.raises(UnsupportedError, match=r"input 's': sequence type is not supported; supported: tensors of .*, sequences and optionals"):
        stepwell.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))


def test_elements_of_two_types() -> None:
    nodes = [node("SequenceConstruct", ["x", "i"], ["s"]), node("SequenceLength", ["s"])]
    with pytest.raises(StepwellError, match=r"SequenceConstruct"):
        import_model(model(nodes, {"x": X, "i": ints(1)}, {"y": ONE}), context())
