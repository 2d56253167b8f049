"""States of models: what `reset` takes and refuses, copies, booleans, and exceptions at any moment."""

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from every import every
from interrupted import interrupted
from onnx import parser

import stepwell
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import InputError, LimitError
from stepwell.driver import pairs
from stepwell.driver.bound import LEAST, BoundModel

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
TWO = """g (float[b, n, 4] x, float[b, p, 4] past_a, float[b, p, 4] past_b, float[b, 4] last)
    => (float[b, 4] y, float[b, 4] z, float[b, q, 4] present_a, float[b, q, 4] present_b, float[b, 4] next) {
  minus = Neg(x)
  present_a = Concat<axis = 1>(past_a, x)
  present_b = Concat<axis = 1>(past_b, minus)
  axes = Constant<value = int64[1] {1}>()
  y = ReduceSum<keepdims = 0>(present_a, axes)
  z = ReduceSum<keepdims = 0>(present_b, axes)
  next = Add(last, y)
}"""
PAIRS = {"past_a": "present_a", "past_b": "present_b", "last": "next"}


@cache
def model(limit: int | None = None) -> Any:
    """Two caches, of x and of -x, and the sum of all y so far; how many bytes a state may have."""
    limits = None if limit is None else stepwell.Limits(value_bytes=limit)
    return stepwell.compile(parser.parse_model(HEADER + TWO), specialise="never", threads=1, limits=limits)


def rows(count: int, value: float = 1.0, batch: int = 1) -> np.ndarray:
    return np.full((batch, count, 4), value, np.float32)


def bound(*, limit: int | None = None, begin: int = 5) -> BoundModel:
    made = model(limit).bind(PAIRS)
    if begin:
        made(rows(begin))
    return made


def sums(state: dict[str, np.ndarray]) -> tuple[float, ...]:
    """What tells states apart: the length of the caches, their sums, and the sum of all y."""
    return tuple(float(n) for n in (state["past_a"].shape[1], *(state[name].sum() / 4 for name in PAIRS))) if state else ()


def given(a: float, b: float, last: float, count: int = 3) -> dict[str, np.ndarray]:
    return {"past_a": rows(count, a), "past_b": rows(count, b), "last": np.full((1, 4), last, np.float32)}


@every("begun_anew", [False, True])
def test_reset_takes_its_own_state_in_any_order(begun_anew: bool) -> None:
    made = bound()
    made(rows(2))
    state = made.state
    if begun_anew:
        made.reset()
    made.reset({"past_a": state["past_b"], "past_b": state["past_a"], "last": state["last"]})
    assert sums(made.state) == (7, -7, 7, 12)
    y, z = made(rows(1, 0))
    assert (y[0, 0], z[0, 0]) == (-7, 7)
    made.reset(made.state)
    assert sums(made.state) == (8, -7, 7, 5)


def test_sizes_are_computed_by_the_code_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bound()
    monkeypatch.setattr(pairs, "evaluated", lambda *_: pytest.fail("Python evaluated a size"))
    made(rows(2))
    assert made.state["past_a"].shape == (1, 7, 4)
    own: Any = made._model
    assert own.sizes({"n": 2, "p": 5})["n + p"] == 7
    with monkeypatch.context() as patch:
        patch.setattr(own._program._sized, "complete", lambda table: 0)  # a table that nothing was written to: no elements
        made(rows(2))
        assert made.state["past_a"].shape == (1, 0, 4)


WRONG = {
    "one too long": ({**given(1, 2, 3), "past_b": rows(4)}, InputError, "state 'past_b': expected p = 3, as in state 'past_a', got 4"),
    "one empty": ({**given(1, 2, 3), "past_b": rows(0)}, InputError, "state 'past_b': expected p = 3, as in state 'past_a', got 0"),
    "other batch": ({**given(1, 2, 3), "last": np.zeros((2, 4), np.float32)}, InputError, "'last': expected b = 1, as in state 'past_a', got 2"),
    "other width": ({**given(1, 2, 3), "last": np.zeros((1, 5), np.float32)}, InputError, r"state 'last': expected float32\[bx4\], got shape 1x5"),
    "other rank": ({**given(1, 2, 3), "last": np.zeros(4, np.float32)}, InputError, r"state 'last': expected float32\[bx4\], got shape 4"),
    "other type": ({**given(1, 2, 3), "last": np.zeros((1, 4))}, InputError, r"state 'last': expected float32\[bx4\], got dtype float64"),
    "no array": ({**given(1, 2, 3), "last": [0, 0]}, InputError, "state 'last': expected an array"),
    "missing": ({"past_a": rows(3)}, InputError, "missing state 'past_b'"),
    "too large": (given(1, 2, 3, 500), LimitError, "limit value_bytes"),
}  # fmt: skip


@every("name", list(WRONG))
def test_a_reset_that_fails_changes_nothing(name: str) -> None:
    state, error, message = WRONG[name]
    for begin in (0, 5):
        made = bound(limit=4096, begin=begin)
        before = sums(made.state)
        with pytest.raises(error, match=message):
            made.reset(state)
        assert sums(made.state) == before
        assert made(rows(1))[0][0, 0] == begin + 1


def test_a_first_call_that_fails_begins_nothing() -> None:
    made = bound(limit=4096, begin=0)
    with pytest.raises(LimitError):
        made(rows(500, batch=2))
    assert made.state == {}
    made(rows(1))
    assert sums(made.state) == (1, 1, -1, 1)


def test_reset_needs_no_more_memory_than_one_state() -> None:
    """That of the state before is let go, or used again by the next one."""
    made = bound()
    places = {name: array.__array_interface__["data"][0] for name, array in made.state.items() if name != "last"}
    made.reset()
    made.reset(given(1, 2, 3))
    assert places == {name: array.__array_interface__["data"][0] for name, array in made.state.items() if name != "last"}
    assert made._state.spare == ()


def test_booleans_of_any_byte_are_true_everywhere() -> None:
    text = """g (bool[n] x, bool[p] past, bool[n] fixed) => (bool[q] present, bool[q] all, bool[n] y) {
        present = Concat<axis = 0>(past, x)
        all = Not(present)
        y = Xor(x, fixed)
    }"""
    odd = np.array([1, 2, 255, 0], np.uint8).view(np.bool_)
    want, plain = [True, True, True, False], np.array([True, False, True, False])
    source = parser.parse_model(HEADER + text)
    made = stepwell.compile(source, specialise="never", threads=1)
    whole = made(odd, odd, plain)
    assert whole[0].tolist() == want * 2
    again = made.bind()  # type: ignore[union-attr]
    again.reset({"past": odd})
    for got, expected in ((again(odd, plain), whole), (again.run({"x": odd, "fixed": plain}).values(), made(odd, whole[0], plain))):
        assert [array.tolist() for array in got] == [array.tolist() for array in expected[1:]]
    assert again.state["past"].view(np.uint8).max() == 1
    fixed = stepwell.compile(source, values={"fixed": odd}, specialise="never", threads=1)
    assert fixed(odd, odd)[2].tolist() == [False] * 4
    assert WeightTable({"w": odd})["w"].view(np.uint8).tolist() == [1, 1, 1, 0]


@every("how", [copy.copy, copy.deepcopy])
def test_copies_go_on_by_themselves(how: Any) -> None:
    first = bound(begin=LEAST)
    second = how(first)
    third = how(bound(begin=0))
    assert sums(second.state) == sums(first.state)
    second(rows(1, 2))
    first(rows(3, 4))
    third(rows(1))
    assert sums(second.state) == (LEAST + 1, LEAST + 2, -LEAST - 2, 2 * LEAST + 2)
    assert sums(first.state) == (LEAST + 3, LEAST + 12, -LEAST - 12, 2 * LEAST + 12)
    assert sums(third.state) == (1, 1, -1, 1)
    inputs = [rows(2), rows(0), rows(0), np.zeros((1, 4), np.float32)]
    whole = how(model())
    whole(*inputs)
    other = how(whole)
    assert [s.state for s in other.specialisations] == [s.state for s in whole.specialisations]
    assert other.ir("graph") == whole.ir("graph")
    static = whole.specialise({info.name: array.shape for info, array in zip(whole.inputs, inputs, strict=True)})
    twin = how(static)
    static.threads = 2
    assert twin.threads == 1
    for made in (whole, other, static, twin):
        assert made(*inputs)[0][0, 0] == 2


def test_what_cannot_be_pickled_says_what_to_do() -> None:
    for made in (bound(), model(), model().specialise({"x": (1, 1, 4), "past_a": (1, 0, 4), "past_b": (1, 0, 4), "last": (1, 4)})):
        with pytest.raises(InputError, match="cannot be pickled; pickle its ONNX model"):
            pickle.dumps(made)


def test_an_exception_at_any_moment_leaves_a_state_before_or_after() -> None:
    """As handlers of signals raise them. The model is free then: the next call goes on."""
    made = bound()
    start, begun = given(1, 2, 3, LEAST), (LEAST, LEAST, 2 * LEAST, 3)
    calls = {  # with what the state is before and after
        "call that grows": (lambda: made(rows(LEAST)), lambda: made.reset(start), begun, (2 * LEAST, 2 * LEAST, LEAST, 3 + 2 * LEAST)),
        "first call": (lambda: made(rows(2 * LEAST)), made.reset, (), (2 * LEAST, 2 * LEAST, -2 * LEAST, 2 * LEAST)),
        "reset": (lambda: made.reset(given(4, 5, 6)), lambda: made.reset(start), begun, (3, 12, 15, 6)),
        "own": (
            lambda: made.reset({**made.state, "past_a": made.state["past_b"]}), lambda: made.reset(start), begun, (LEAST, 2 * LEAST, 2 * LEAST, 3),
        ),
        "empty reset": (made.reset, lambda: made.reset(start), begun, ()),
        "copy": (lambda: copy.copy(made), lambda: made.reset(start), begun, begun),
    }  # fmt: skip
    for name, (call, prepare, before, after) in calls.items():
        seen = set()
        for moment in interrupted(call, prepare):
            state = sums(made.state)
            assert state in (before, after), (name, moment, state)
            seen.add(state)
            made(rows(1, 0))  # it is free, and its memory is sound
            assert sums(made.state)[1:3] == (state[1:3] or (0, 0)), (name, moment)
        assert before in seen
        prepare()
        call()
        assert sums(made.state) == after


ODD = """g (float[b, n, 4] "x\\n", float[b, m, 4] z, float s, float[b, p, 4] past) => (float[b, k, 4] y, float[b, q, 4] present) {
  present = Concat<axis = 1>(past, "x\\n")
  sum = Add("x\\n", z)
  y = Mul(sum, s)
}"""


def test_scalars_names_and_sizes_that_the_program_does_not_support() -> None:
    proto = parser.parse_model(HEADER + ODD.replace('"x\\n"', "x"))
    for names in (proto.graph.input[0], *proto.graph.node):  # the parser takes no such names
        if isinstance(names, type(proto.graph.input[0])):
            names.name = "x\n"
        else:
            names.input[:] = ["x\n" if name == "x" else name for name in names.input]
    made = stepwell.compile(proto, specialise="auto", threads=1).bind({"past": "present"})
    for n, m in ((2, 2), (3, 1), (2, 2), (1, 4)):  # n == m is assumed by the program
        found = made.run({"x\n": rows(n), "z": rows(m, 2.0), "s": np.float32(3)})["y"]
        np.testing.assert_array_equal(found, rows(max(n, m), 9.0))
    assert made.state["past"].shape == (1, 8, 4)
