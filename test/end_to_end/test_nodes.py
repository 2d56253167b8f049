"""Operators in the oldest and newest versions of their schemas with all element types, compiled, against ONNX's evaluator.

A part of scripts/check_nodes.py: always the same combinations, one of each operator in these versions, and some that were wrong once.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator

import check_nodes
import numpy as np
import pytest
from every import every
from importing import check_native, floats, ints, model, node
from native_checks import natively_together
from onnx import numpy_helper
from random_graphs import singles
from random_graphs.singles import ASIDE, POWERS, WRONG, Case, Combination, Kind, Result, combinations, compared, examine, results, set_aside
from watchdog import Watchdog

import stepwell
from stepwell.dialects.core.dtypes import ELEMENT_TYPES

PARTS = 2


@functools.cache
def ends_of_versions() -> dict[str, tuple[int, int]]:
    """The oldest and the newest version of each operator's schema."""
    versions: dict[str, set[int]] = {}
    for combination in combinations():
        versions.setdefault(combination.op, set()).add(combination.opset)
    return {op: (min(found), max(found)) for op, found in versions.items()}


def asked(kind: Kind) -> list[Combination]:
    """One combination of each operator in its oldest and newest version, or, with values that are not tame, of each operator; and one of each element
    type that is left.

    The element type is always one that was asked least so far.
    """
    groups: dict[tuple[str, int], list[Combination]] = {}
    for combination in combinations():
        is_asked = combination.opset in ends_of_versions()[combination.op] if kind == "tame" else kind != "ends" or combination.dtype in POWERS
        if is_asked:
            groups.setdefault((combination.op, combination.opset if kind == "tame" else 0), []).append(combination)
    chosen: list[Combination] = []
    times: Counter[str] = Counter()
    for group in groups.values():
        chosen.append(min(group, key=lambda combination: times[combination.dtype]))
        times[chosen[-1].dtype] += 1
    left = {combination.dtype: combination for combination in combinations() if combination.dtype not in times and kind != "ends"}
    return [*chosen, *left.values()]


@pytest.fixture(scope="module")
def dog() -> Iterator[Watchdog]:
    """The process that compiles and runs: one for all nodes, and a new one after a crash."""
    with Watchdog(first="objects_once:share_plain_objects") as watchdog:
        yield watchdog


@pytest.mark.parametrize(("kind", "part"), [*(("tame", part) for part in range(PARTS)), ("special", None), ("ends", None)])
def test_nodes_are_right(dog: Watchdog, kind: Kind, part: int | None) -> None:
    chosen = asked(kind) if part is None else asked(kind)[part::PARTS]
    found = list(results([dog], chosen, 7, kind, {"threads": 1}))
    assert [f"{r.combination}: {r.status} {r.text}" for r in found if r.status in WRONG] == []
    assert sorted(r.combination for r in found) == sorted(chosen)
    assert sum(r.status in ("right", "alone") for r in found) > 0.95 * len(chosen)


def test_every_operator_and_type_is_asked() -> None:
    assert {(c.op, c.opset) for c in asked("tame")} == {(op, version) for op, ends in ends_of_versions().items() for version in ends}
    assert {c.op for c in asked("special")} == {c.op for c in combinations()}
    assert {c.dtype for c in asked("tame")} == {c.dtype for c in asked("special")} == set(ELEMENT_TYPES)


def test_all_types_of_all_versions_are_there() -> None:
    there = set(combinations())
    assert len(there) > 3000
    assert {Combination("Add", version, "f32") for version in (1, 6, 7, 13, 14)} <= there
    assert {c.dtype for c in there} == set(ELEMENT_TYPES)
    assert {op for aside in ASIDE for op in aside.ops} <= {c.op for c in there}


def test_a_wrong_result_is_seen() -> None:
    """Native results and the evaluator's, both with one number changed."""
    net = singles.Singles(3)
    net.opset = 13
    assert singles.drawn(Combination("Mul", 13, "f32"), 5, net) is None
    case = singles.case_of(net, net.nodes[0], net.made[0])
    (result,) = net.made[0]
    right = {result.name: result.array}
    assert compared(case, right, None) == ("right", "")
    other = result.array.copy()
    other.reshape(-1)[-1] += 1e-3
    assert compared(case, {result.name: other}, None)[0] == "wrong"


def test_where_the_evaluator_is_known_to_differ_others_are_asked() -> None:
    """By the attributes and operands of a node, not by its operator alone."""
    one, two = (node("ConvTranspose", ["x", "w"], group=group) for group in (1, 2))
    combination = Combination("ConvTranspose", 11, "f32")
    assert set_aside(combination, one, "tame") is None
    aside = set_aside(combination, two, "tame")
    assert aside is not None
    assert aside.runtime
    plain, lengths = node("GRU", ["x", "w", "r"]), node("GRU", ["x", "w", "r", "", "n"])
    assert set_aside(Combination("GRU", 22, "f64"), plain, "tame") is None
    assert set_aside(Combination("GRU", 22, "f64"), lengths, "tame") is not None


def test_a_result_that_neither_of_the_others_has_is_seen() -> None:
    """Where the evaluator is set aside, ONNX Runtime has to have it."""
    w, x = floats(2, 1, 2, seed=1), floats(1, 2, 5)
    made = node("ConvTranspose", ["x", "w"], group=2)
    proto = model([made], {"x": x}, {"y": floats(1, 2, 6)}, {"w": w}, opset=11)
    right = stepwell.compile(proto, cache=False).run({"x": x})
    case = Case(proto.SerializeToString(), {"x": x})
    aside = set_aside(Combination("ConvTranspose", 11, "f32"), made, "tame")
    assert compared(case, right, None)[0] == "right"  # ONNX Runtime, as the evaluator differs
    assert compared(case, right, aside)[0] == "right"
    proto.graph.node[0].attribute[0].i = 1  # another meaning than what was run
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(floats(2, 2, 2, seed=1), "w"))
    assert compared(Case(proto.SerializeToString(), {"x": x}), right, aside)[0] == "wrong"


def test_what_is_refused_is_said() -> None:
    (result,) = examine([Combination("Dropout", 13, "i64")], 1, "tame", {})
    assert result.status in ("refused", "not drawn")
    assert result.text


def test_the_page_tells_what_came_out() -> None:
    found = [
        Result(Combination("Relu", 14, "i8"), "right"), Result(Combination("Relu", 14, "f32"), "right"),
        Result(Combination("Relu", 14, "f16"), "alone"), Result(Combination("Relu", 6, "f32"), "refused"),
    ]  # fmt: skip
    lines = check_nodes.page(found).splitlines()
    assert lines[-2:] == ["| Relu | 6 |  |  | f32 |  |  |", "| Relu | 14 | i8 f32 | f16 |  |  |  |"]
    later = check_nodes.page([Result(Combination("Abs", 13, "f64"), "differs")], "\n".join(lines)).splitlines()
    assert later == [*lines[:-2], "| Abs | 13 |  |  |  |  | f64 |", *lines[-2:]]
    assert check_nodes.page(found, "\n".join(later)).splitlines() == later


def test_the_page_has_every_version_and_nothing_wrong() -> None:
    """Else run scripts/check_nodes.py with --op and --write."""
    rows = re.findall(r"^\| (\w+) \| (\d+) \|.*\| (.*)\|$", check_nodes.PAGE.read_text(), re.MULTILINE)
    assert {(op, int(since)) for op, since, _ in rows} == {(c.op, c.opset) for c in combinations()}
    assert [row for row in rows if row[2].strip()] == []


# --- what was wrong once


@natively_together
@every("op", ["LayerNormalization", "RMSNormalization"])
def test_a_normalisation_over_all_axes(op: str) -> None:
    """Its mean is a scalar in the shape of ones, whose strides a pass asked for."""
    x = {"x": floats(3, 2, 17), "scale": floats(3, 2, 17, seed=1)}
    check_native(node(op, list(x), axis=0, epsilon=0.1), x, opset=23)


@natively_together
@every("dtype", [np.int8, np.int64, np.uint16])
def test_the_error_function_of_integers(dtype: type) -> None:
    """Which opset 13 has no more."""
    x = ints(0, 1, 2, 100, dtype=dtype)
    check_native(node("Erf", ["x"]), {"x": x}, opset=9, expected=[np.array([0, 0, 0, 1], dtype)])
