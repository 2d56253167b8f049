"""The models that tests of bundles are about, one for each thing that the run time in C does, and data for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper, parser

Feed = Mapping[str, np.ndarray]
RANDOM = np.random.default_rng(50)
WIDTH = 8
WEIGHTS = RANDOM.standard_normal((WIDTH, WIDTH), np.float32) / 2


@dataclass(frozen=True)
class Case:
    """A model, options to compile it with, and what runs of it are given."""

    name: str
    model: ModelProto
    feeds: Sequence[Feed]
    options: Mapping[str, Any] = field(default_factory=dict)


def with_weights(text: str, **weights: np.ndarray) -> ModelProto:
    """A model as text, with weights."""
    made: ModelProto = parser.parse_model(text)
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return made


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
MLP = HEAD + """mlp (float[3, 8] x) => (float[3, 8] y, float[3, 1] largest) {
  a = MatMul(x, w)
  b = Tanh(a)
  y = MatMul(b, w)
  largest = ReduceMax<keepdims = 1>(y, one)
}"""
FREE = HEAD + """free (float[n, 8] x, float[n, m] z) => (float[n, 8] y, float[m, n] t, float[k, 8] both) {
  a = MatMul(x, w)
  y = Relu(a)
  t = Transpose<perm = [1, 0]>(z)
  both = Concat<axis = 0>(x, y)
}"""
VALUED = HEAD + """valued (float[n] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }"""
LATE = HEAD + """late (float[n, 6] x) => (int64[2, k] places, float[k] there) {
  places = NonZero(x)
  at = Transpose<perm = [1, 0]>(places)
  there = GatherND(x, at)
}"""
INDEX = HEAD + "index (float[5, 6] x, int64[k] at) => (float[k, 6] y) { y = Gather(x, at) }"
LOOP = HEAD + """loop (float[n, 8] x, int64 rounds, float most) => (float[n, 8] y, float[r, n, 8] all) {
  yes = Constant<value = bool {1}> ()
  y, all = Loop(rounds, yes, x) <body = step (int64 i, bool on, float[n, 8] v) => (bool next, float[n, 8] after, float[n, 8] kept) {
    product = MatMul(v, w)
    after = Tanh(product)
    kept = Identity(after)
    sum = ReduceSum<keepdims = 0>(after)
    next = Less(sum, most)
  }>
}"""
ENDLESS = HEAD + """endless (float[8] x, int64 rounds) => (float[8] y) {
  yes = Constant<value = bool {1}> ()
  y = Loop(rounds, yes, x) <body = step (int64 i, bool on, float[8] v) => (bool next, float[8] after) {
    after = Mul(v, v)
    next = Identity(on)
  }>
}"""
BRANCH = HEAD + """branch (bool flag, float[4] x) => (float[4] y) {
  y = If(flag) <then_branch = one () => (float[4] a) { a = Exp(x) }, else_branch = other () => (float[4] b) { b = Neg(x) }>
}"""
BOOLEANS = HEAD + "booleans (bool[9] x, bool[9] y) => (bool[9] z, bool[9] n) { z = Xor(x, y) n = Not(x) }"
HALVES = HEAD + "halves (float16[9] x) => (float16[9] y) { y = Mul(x, x) }"
CASTS = HEAD + """casts (float[n] x, double[n] d) => (float16[n] half, float16[n] near, bfloat16[n] brain, float[n] back, float[n] after) {
  half = Cast<to = 10>(x)
  near = Cast<to = 10>(d)
  brain = Cast<to = 16>(d)
  back = Cast<to = 1>(near)
  after = Cast<to = 1>(brain)
}"""
SUMS = HEAD + "sums (float[7, 45] x) => (float[7] y) { y = ReduceSum<keepdims = 0>(x, one) }"
BYTES = HEAD + "bytes (uint8[5, 64] x) => (int32[5, 9] y) { y = MatMulInteger(x, w) }"
TYPES = HEAD + """types (uint8[4] a, int16[4] b, double[4] d, uint64[4] e) => (uint8[4] va, int16[4] vb, double[4] vd, uint64[4] ve) {
  va = Add(a, a)
  vb = Mul(b, b)
  vd = Exp(d)
  ve = Add(e, e)
}"""
CACHE = HEAD + """cache (float[b, n, 8] x, float[b, past_length, 8] past) => (float[b, n, 8] y, float[b, total, 8] present) {
  key = MatMul(x, w)
  present = Concat<axis = 1>(past, key)
  turned = Transpose<perm = [0, 2, 1]>(present)
  scores = MatMul(x, turned)
  share = Softmax<axis = -1>(scores)
  y = MatMul(share, present)
}"""
CELL = HEAD + """cell (float[3, 8] x, float[3, 8] h) => (float[3, 8] y, float[3, 8] next) {
  a = MatMul(h, w)
  b = Add(a, x)
  next = Tanh(b)
  y = Relu(next)
}"""
APPEND = HEAD + """append (int64 rounds, float[8] x) => (float[k] y) {
  yes = Constant<value = bool {1}> ()
  empty = SequenceEmpty<dtype = 1> ()
  all = Loop(rounds, yes, empty) <body = step (int64 i, bool on, seq(float[m]) v) => (bool next, seq(float[m]) after) {
    next = Identity(on)
    one = Constant<value = int64[1] {1}> ()
    zero = Constant<value = int64[1] {0}> ()
    end = Add(i, one)
    part = Slice(x, zero, end)
    after = SequenceInsert(v, part)
  }>
  y = ConcatFromSequence<axis = 0>(all)
}"""


def plain_cases() -> list[Case]:
    """The cases without a state."""
    one = {"w": WEIGHTS}
    spread = np.array([0, 1, 2, 255, 0, 1, 128, 7, 0], np.uint8).view(bool)
    kinds = {"a": np.uint8, "b": np.int16, "d": np.float64, "e": np.uint64}
    return [
        Case("mlp", with_weights(MLP, **one, one=np.array([1])), [{"x": floats(3, WIDTH)} for _ in range(3)]),
        Case("free", with_weights(FREE, **one), [{"x": floats(n, WIDTH), "z": floats(n, m)} for n, m in ((1, 1), (5, 3), (64, 2), (0, 4), (5, 3))]),
        Case("valued", with_weights(VALUED), [{"x": floats(12), "shape": np.array(s)} for s in ((3, 4), (12, 1), (2, 6))]),
        Case("late", with_weights(LATE), [{"x": (floats(n, 6) > 0.3).astype(np.float32)} for n in (1, 5, 0, 40)]),
        Case("index", with_weights(INDEX), [{"x": floats(5, 6), "at": np.array(at, np.int64)} for at in ([0, 4, -5], [], [2] * 70)]),
        Case("loop", with_weights(LOOP, **one), [
            {"x": floats(n, WIDTH), "rounds": np.array(r), "most": np.array(m, np.float32)} for n, r, m in ((3, 5, 1e9), (1, 0, 1e9), (4, 9, -1e9))
        ]),
        Case("branch", with_weights(BRANCH), [{"flag": np.array(flag), "x": floats(4)} for flag in (True, False)]),
        Case("booleans", with_weights(BOOLEANS), [{"x": spread, "y": np.roll(spread, 3)}]),
        Case("types", with_weights(TYPES), [{name: RANDOM.integers(0, 90, 4).astype(kind) for name, kind in kinds.items()}]),
        Case("halves", with_weights(HALVES), [{"x": floats(9).astype(np.float16)}]),
        Case("append", with_weights(APPEND), [{"rounds": np.array(r), "x": floats(8)} for r in (1, 5, 3)]),
    ]  # fmt: skip


def casts_case() -> Case:
    """The case of conversions between floats and those of 16 bits: random ones of any size, ties, and the ends of the ranges."""
    random = np.ldexp(RANDOM.standard_normal(80), RANDOM.integers(-30, 20, 80))
    edges = [0, -0.0, np.inf, -np.inf, 65504, 65519.99, 65520, 65536, 2.0**-14, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    given = np.concatenate([random, edges, [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40]])
    return Case("casts", with_weights(CASTS), [{"x": given.astype(np.float32), "d": given}])


def bytes_case() -> Case:
    """The case of a product of bytes, for which some machines have an instruction."""
    weights = RANDOM.integers(-128, 128, (64, 9)).astype(np.int8)
    return Case("bytes", with_weights(BYTES, w=weights), [{"x": RANDOM.integers(0, 256, (5, 64)).astype(np.uint8)}])


def sums_case() -> Case:
    """The case of sums along the lanes of vectors."""
    return Case("sums", with_weights(SUMS, one=np.array([1])), [{"x": floats(7, 45)}])


def cache_case() -> Case:
    """The case with a cache that grows."""
    feeds = [{"x": floats(2, 3 if number % 7 == 0 else 1, WIDTH)} for number in range(140)]
    return Case("cache", with_weights(CACHE, w=WEIGHTS), feeds, {"bind": {"past": "present"}})


def cell_case() -> Case:
    """The case with a state that is replaced as a whole."""
    return Case("cell", with_weights(CELL, w=WEIGHTS), [{"x": floats(3, WIDTH)} for _ in range(5)], {"bind": {"h": "next"}})


def sequence_model() -> ModelProto:
    """A model whose result is a sequence of a length that only a run can tell."""
    text = APPEND.replace("=> (float[k] y)", "=> (seq(float[m]) all)").replace("  y = ConcatFromSequence<axis = 0>(all)\n", "")
    return with_weights(text)
