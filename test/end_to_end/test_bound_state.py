"""Models with a state against ONNX Runtime, which is given the state each time: caches that grow in place, states that are handed over, errors."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from covering import by_day
from onnx import parser
from together import together

import networks
import stepwell
from stepwell.driver.bound import BoundModel

TOLERANCE = 2e-6  # of the output's scale, as in test_free_networks.py: the largest difference over the largest value
HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
Arrays = dict[str, np.ndarray]
MASK = "attention_mask"
WIDE = {"layers": 2, "width": 128, "heads": 4}  # heads of 32 columns, which are read where they lie; those of the small networks are not
# By name: the network, its arguments, and whether keys and values are shared by heads.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt", {**networks.TINY_DECODER, "vocabulary": 101, "places": 512}),
    "gpt_wide": ("gpt", {**WIDE, "vocabulary": 101, "places": 512}),
    "llama": ("llama", {**networks.TINY_DECODER, "groups": 2, "inner": 100}),
    "llama_wide": ("llama", {**WIDE, "groups": 2, "inner": 100}),
    "llama_fused": ("llama_fused", {**WIDE, "groups": 2, "inner": 100}),
}


class Reference:
    """ONNX Runtime with the caches given to it, each time as what the call before gave."""

    def __init__(self, source: onnx.ModelProto, pairs: Mapping[str, str]) -> None:
        self.session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
        self.pairs, self.gives = pairs, [output.name for output in self.session.get_outputs()]
        self.state: Arrays = {}

    def __call__(self, given: Mapping[str, np.ndarray]) -> Arrays:
        found = dict(zip(self.gives, self.session.run(None, {**given, **self.state}), strict=True))
        self.state = {taker: found[giver] for taker, giver in self.pairs.items()}
        return found


@cache
def decoder(name: str) -> tuple[onnx.ModelProto, Any]:
    """A network and a model of it, wide ones for two threads."""
    network, arguments = DECODERS[name]
    source = networks.FREE[network].build(0, **arguments)
    return source, stepwell.compile(source, specialise="never", threads=2 if name.endswith("wide") else 1)


def caches(source: onnx.ModelProto, batch: int, past: int, seed: int = 0) -> Arrays:
    random, values = np.random.default_rng(seed), [value for value in source.graph.input if value.name.startswith("past")]
    shape = [dim.dim_value for dim in values[0].type.tensor_type.shape.dim]
    return {value.name: random.standard_normal((batch, shape[1], past, shape[3])).astype(np.float32) for value in values}


def token(source: onnx.ModelProto, batch: int, count: int, seed: int, before: int = 0) -> Arrays:
    """Random tokens behind others, and a mask that says that all are there, if there is one."""
    random, width = np.random.default_rng(seed), source.graph.output[0].type.tensor_type.shape.dim[2].dim_value
    whole = source.graph.input[0].name == "input_ids"
    given = random.integers(0, width, (batch, count)) if whole else random.standard_normal((batch, count, width)).astype(np.float32)
    masked = any(value.name == MASK for value in source.graph.input)
    return {source.graph.input[0].name: given, **({MASK: np.ones((batch, before + count), np.int64)} if masked else {})}


def near(got: np.ndarray, want: np.ndarray) -> bool:
    return got.shape == want.shape and bool(np.abs(got - want).max(initial=0) <= TOLERANCE * np.abs(want).max(initial=1))


def follow(bound: BoundModel, source: onnx.ModelProto, steps: list[int], batch: int, seed: int = 0) -> None:
    """Give both the same tokens, so many at a time; outputs and state must be the same, and what is in the cache must stay, bit by bit."""
    reference = Reference(source, bound.pairs)
    reference.state = caches(source, batch, 0)
    for number, count in enumerate(steps):
        given = token(source, batch, count, seed + number, sum(steps[:number]))
        before = {name: array.copy() for name, array in bound.state.items()}
        got, want = bound.run(given), reference(given)
        assert list(got) == [info.name for info in bound.outputs]
        for name, array in got.items():
            assert near(array, want[name]), (number, name)
        state = bound.state
        for name, array in reference.state.items():
            assert near(state[name], array), (number, name)
            if name in before and before[name].size:
                assert np.array_equal(state[name][:, :, : before[name].shape[2]].view(np.uint32), before[name].view(np.uint32))


PROMPTS = ((1, 1), (3, 100)), ((1, 7), (2, 33))  # how many sequences, and tokens of each


@pytest.mark.parametrize("prompts", [PROMPTS[0], pytest.param(PROMPTS[1], marks=pytest.mark.nightly)], ids=["ends", "between"])
@pytest.mark.parametrize("name", by_day(DECODERS, ["llama_fused"]))
def test_tokens_behind_a_prompt(name: str, prompts: tuple[tuple[int, int], ...]) -> None:
    """Some tokens come several at a time; the memory grows more than once."""
    source, model = decoder(name)
    for batch, prompt in prompts:
        bound = model.bind()
        several = name != "llama_fused" or batch == 1  # at once behind others: else ONNX Runtime's operator takes them of one sequence alone
        follow(bound, source, [prompt, *[1] * 30, *([5, *[1] * 10, 90] if several else [1] * 20), *[1] * 5], batch)
        bound.reset()
        assert not bound.state
        follow(bound, source, [2, 1, 1], batch + 1, seed=7)  # in memory that was used before, and for another batch


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "threads"), [("llama_wide", 1), ("llama_fused", 2)])
def test_on_another_number_of_threads(name: str, threads: int) -> None:
    source, _ = decoder(name)
    follow(stepwell.compile(source, specialise="never", threads=threads).bind(), source, [20, *[1] * 60], 2)  # type: ignore[union-attr]


def test_sequences_of_different_lengths() -> None:
    """Each goes on where it ends, and what lies behind its end has no meaning: so it is not compared, nor does it change a result."""
    source, model = decoder("llama_fused")
    assert {info.name: info.shape for info in model.outputs}["present.0.key"] == ("batch", 2, "max(past, total)", 32)
    bound, batch = model.bind(), 3
    lengths, state = np.array([9, 2, 6]), caches(source, batch, 0)
    for number, count in enumerate([9, *[1] * 70]):
        lengths = lengths if number == 0 else lengths + count
        given = token(source, batch, count, number)
        given[MASK] = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        kept = {name: array.copy() for name, array in bound.state.items()}
        got, want = bound.run(given)["output"], model.run({**given, **state})
        state = {taker: want[giver] for taker, giver in bound.pairs.items()}
        for row, length in enumerate(lengths):
            new = slice(0, length) if number == 0 else slice(0, count)
            assert near(got[row, new], want["output"][row, new]), (number, row)
            for name, array in bound.state.items():
                assert array.shape[2] == lengths.max()
                assert near(array[row, :, :length], state[name][row, :, :length]), (number, name)
                before = kept[name][row, :, : length - count] if kept else array[row, :, :0]
                assert np.array_equal(array[row, :, : before.shape[1]].view(np.uint32), before.view(np.uint32))


def test_several_states_of_one_model_at_once() -> None:
    source, model = decoder("gpt")

    def work(number: int) -> None:
        follow(model.bind(), source, [3 + number, *[1] * 40], 1 + number % 2, seed=100 * number)

    together(*(partial(work, i) for i in range(4)))


def test_a_state_that_is_given() -> None:
    """It is copied: what the caller gave stays as it was."""
    source, model = decoder("gpt")
    bound, reference = model.bind(), Reference(source, decoder("gpt")[1].bind().pairs)
    given = caches(source, 2, 70, seed=5)
    kept = {name: array.copy() for name, array in given.items()}
    bound.reset(given)
    reference.state = given
    for number in range(3):
        tokens = token(source, 2, 1, number)
        assert near(bound.run(tokens)["logits"], reference(tokens)["logits"])
    assert all(np.array_equal(given[name], kept[name]) for name in given)
    assert bound.state["past_key_values.0.key"].shape[2] == 73


def test_memory_is_used_again() -> None:
    """Neither tokens nor another prompt take new memory for caches."""
    source, model = decoder("gpt")
    bound = model.bind()

    def places() -> set[int]:
        return {array.__array_interface__["data"][0] for array in bound.state.values()}

    bound.run(token(source, 1, 40, 0))
    first = places()
    for number in range(20):
        bound.run(token(source, 1, 1, number))
        assert places() == first
    bound.reset()
    bound.run(token(source, 1, 50, 0))
    assert places() == first


def test_results_are_the_callers() -> None:
    """Memory of a large result is used again only when nobody has it."""
    source = parser.parse_model(
        HEADER + "g (float[n] x, float[p] past) => (float[n] y, float[m] present) { y = Neg(x) present = Concat<axis=0>(past, x) }"
    )
    bound = stepwell.compile(source, specialise="never").bind({"past": "present"})  # type: ignore[union-attr]
    size, kept, views = 1 << 19, [], []
    for number in range(5):
        [result] = bound(np.full(size, number, np.float32))
        kept.append(result if number % 2 else None)
        views.append(None if number % 2 else result[7:9].view(np.uint32))
        del result
    assert all(array is None or np.all(array == -number) for number, array in enumerate(kept))
    assert all(view is None or np.all(view.view(np.float32) == -number) for number, view in enumerate(views))


STATES = "g (float[n, 4] x, float[n, 4] h, float[n, p] seen) => (float[n, 4] y, float[n, 4] next, float[n, q] all)"


def test_pairs_of_all_kinds() -> None:
    """A state of one size, which is zeros at first; a cache along the last axis; and one that something is put before, which is handed over."""
    body = "{ next = Add(x, h) y = Mul(next, x) all = Concat<axis=1>(seen, x) }"
    front = "{ next = Add(x, h) y = Mul(next, x) all = Concat<axis=1>(x, seen) }"
    for text in (body, front):
        source = parser.parse_model(f"{HEADER} {STATES} {text}")
        bound = stepwell.compile(source, specialise="never").bind({"h": "next", "seen": "all"})  # type: ignore[union-attr]
        reference = Reference(source, bound.pairs)
        reference.state = {"h": np.zeros((3, 4), np.float32), "seen": np.zeros((3, 0), np.float32)}
        for number in range(30):
            x = np.random.default_rng(number).standard_normal((3, 4), np.float32)
            assert np.array_equal(bound(x)[0], reference({"x": x})["y"])
        assert all(np.array_equal(bound.state[name], array) for name, array in reference.state.items())


def test_what_was_there_is_read_too() -> None:
    """By ops before and behind what is new; the size of the cache is computed with; one output is the same as the bound one."""
    text = """(float[b, p, 4] past, float[b, n, 4] x) => (float[b, 4] before, float[b, q, 4] present, float[b, r, 4] same, int64[k] sizes) {
        axes = Constant<value = int64[1] {1}>()
        before = ReduceSum<keepdims = 0>(past, axes)
        spread = Unsqueeze(before, axes)
        new = Add(x, spread)
        present = Concat<axis=1>(past, new)
        same = Identity(present)
        sizes = Shape(past)
    }"""
    source = parser.parse_model(f"{HEADER} g {text}")
    bound = stepwell.compile(source, specialise="never").bind()  # type: ignore[union-attr]
    assert bound.pairs == {"past": "present"}
    reference = Reference(source, bound.pairs)
    reference.state = {"past": np.zeros((2, 0, 4), np.float32)}
    for number in range(8):
        x = np.random.default_rng(number).standard_normal((2, 1 + 40 * (number % 2), 4), np.float32) / 100
        got, want = bound.run({"x": x}), reference({"x": x})
        for name, array in got.items():
            assert np.allclose(array, want[name], rtol=1e-5, atol=1e-6), name
        assert got["sizes"].tolist() == want["sizes"].tolist()


@pytest.mark.parametrize(("pairs", "message"), [
    ({"past": "present"}, "expected an input of the model, got 'past'"),
    ({"past_key_values.0.key": "presents"}, "expected an output of the model, got 'presents'"),
    ({"past_key_values.0.key": "logits"}, "cannot take output 'logits'.*one rank"),
    ({"input_ids": "logits"}, "cannot take output 'logits'.*one dtype"),
    ({"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.key"}, "is given to two inputs"),
    ({}, "at least one pair"),
    ({"past_key_values.0.key": 3}, "the name of an output for 'past_key_values.0.key'"),
    (["past_key_values.0.key"], "names of outputs by those of the inputs"),
])  # fmt: skip
def test_wrong_pairs(pairs: Any, message: str) -> None:
    with pytest.raises(stepwell.InputError, match=message):
        decoder("gpt")[1].bind(pairs)


def test_a_model_without_caches_says_which_names_there_are() -> None:
    source = parser.parse_model(HEADER + "g (float[n] x) => (float[n] y) { y = Neg(x) }")
    with pytest.raises(stepwell.InputError, match=r"are named as caches usually are.*give pairs of x and y"):
        stepwell.compile(source, specialise="never").bind()  # type: ignore[union-attr]
    with pytest.raises(stepwell.InputError, match="call its `bind`"):
        stepwell.compile(source, bind={"x": "y"})


def test_wrong_calls_leave_the_state() -> None:
    source, model = decoder("gpt")
    bound = model.bind()
    bound.run(token(source, 1, 3, 0))
    before = {name: array.copy() for name, array in bound.state.items()}
    with pytest.raises(stepwell.InputError, match="expected batch = "):
        bound.run(token(source, 2, 1, 0))
    with pytest.raises(stepwell.InputError, match=r"unknown input 'past_key_values.0.key'"):
        bound.run({**token(source, 1, 1, 0), "past_key_values.0.key": before["past_key_values.0.key"]})
    with pytest.raises(stepwell.InputError, match="expected 1 inputs"):
        bound()
    with pytest.raises(stepwell.IndexRangeError, match="index 101 is out of range"):
        bound(np.array([[101]]))
    with pytest.raises(stepwell.InputError, match=r"missing state 'past_key_values.0.value'"):
        bound.reset({"past_key_values.0.key": before["past_key_values.0.key"]})
    with pytest.raises(stepwell.InputError, match=r"state 'past_key_values.0.key': expected"):
        bound.reset({**before, "past_key_values.0.key": np.zeros((1, 5, 3, 8), np.float32)})
    assert all(np.array_equal(bound.state[name], array) for name, array in before.items())
    with pytest.raises(ValueError, match="read-only"):
        bound.state["past_key_values.0.key"][...] = 0
    follow_on = bound.run(token(source, 1, 1, 1))["logits"]
    other = model.bind()
    other.run(token(source, 1, 3, 0))
    assert np.array_equal(other.run(token(source, 1, 1, 1))["logits"], follow_on)


def test_memory_is_bounded() -> None:
    source = parser.parse_model(
        HEADER + "g (float[n] x, float[p] past) => (float[n] y, float[m] present) { y = Neg(x) present = Concat<axis=0>(past, x) }"
    )
    model = stepwell.compile(source, specialise="never", limits=stepwell.Limits(value_bytes=4000))
    bound = model.bind({"past": "present"})  # type: ignore[union-attr]
    for _ in range(10):
        bound(np.ones(100, np.float32))
    with pytest.raises(stepwell.LimitError, match=r"state 'past'.*value_bytes"):
        bound(np.ones(1, np.float32))
    assert bound.state["past"].shape == (1000,)


def test_one_thread_at_a_time() -> None:
    _, model = decoder("gpt")
    bound = model.bind()
    with pytest.raises(stepwell.InputError, match="used by another thread"):
        bound._turn.alone(bound.reset, AssertionError("nobody else is there"))
    bound.reset()
