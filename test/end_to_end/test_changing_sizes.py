"""Values that change their sizes from round to round of a loop, or from branch to branch, where only a run decides."""

from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import pytest
from covering import by_day
from onnx import ModelProto, parser
from together import together

import stepwell

HEADER = '<ir_version: 9, opset_import: ["" : 17]>\n'
GROWN = """
grown (float[n, 6] x, int64 k, float most) => (float[m, 6] y, float s) {
  yes = Constant <value = bool {1}> ()
  begin = ReduceMean <keepdims = 0> (x)
  y, s = Loop (k, yes, x, begin) <body = one (int64 i, bool go, float[p, 6] a, float q) => (bool go2, float[r, 6] a2, float q2) {
    f = Cast <to = 1> (i)
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    row = Slice (a, zero, one, zero)
    mixed = Sub (f, row)
    a2 = Concat <axis = 0> (mixed, a)
    mean = ReduceMean <keepdims = 0> (a2)
    q2 = Tanh (mean)
    go2 = Less (q2, most)
  }>
}"""
SHRUNK = """
shrunk (float[n, 6] x, float least) => (float[m, 6] y, int64 rounds) {
  yes = Constant <value = bool {1}> ()
  nothing = Constant <value_int = 0> ()
  y, rounds = Loop ("", yes, x, nothing) <body = one (int64 i, bool go, float[p, 6] a, int64 c) => (bool go2, float[r, 6] a2, int64 c2) {
    one = Constant <value_ints = [1]> ()
    last = Constant <value_ints = [9223372036854775807]> ()
    axis = Constant <value_ints = [0]> ()
    rest = Slice (a, one, last, axis)
    half = Constant <value = float {0.5}> ()
    a2 = Mul (rest, half)
    shape = Shape <start = 0, end = 1> (a2)
    left = ReduceMax <keepdims = 0> (shape)
    some = Constant <value_int = 1> ()
    more = Greater (left, some)
    sum = ReduceSum <keepdims = 0> (a2)
    large = Greater (sum, least)
    go2 = And (more, large)
    c2 = Add (c, some)
  }>
}"""
DOUBLED = """
doubled (float[n, 6] x, int64 k) => (float[m, 6] y, float[j, 6] z, float[6] all) {
  yes = Constant <value = bool {1}> ()
  y, z = Loop (k, yes, x, x) <body = one (int64 i, bool go, float[p, 6] a, float[q, 6] c) => (bool go2, float[r, 6] a2, float[s, 6] c2) {
    twice = Concat <axis = 0> (c, c)
    a2 = Identity (twice)
    scale = Constant <value = float {0.75}> ()
    c2 = Mul (a, scale)
    go2 = Identity (go)
  }>
  axes = Constant <value_ints = [0]> ()
  all = ReduceSum <keepdims = 0> (y, axes)
}"""
CHOSEN = """
chosen (float[n, 6] x) => (float[m, 6] y, float[m, 6] e, float[k, 6] z) {
  sum = ReduceSum <keepdims = 0> (x)
  zero = Constant <value = float {0.0}> ()
  c = Greater (sum, zero)
  y, z = If (c) <
    then_branch = more () => (float[a, 6] r, float[o, 6] r2) {
      r = Concat <axis = 0> (x, x)
      r2 = Constant <value = float[2, 6] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> ()
    },
    else_branch = less () => (float[b, 6] q, float[p, 6] q2) {
      q = Neg (x)
      q2 = Identity (x)
    }>
  e = Exp (q_or_r)
}""".replace("q_or_r", "y")
MIXED = """
mixed (float[n, 6] x, int64 k) => (float[m, 6] y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (k, yes, x) <body = one (int64 i, bool go, float[p, 6] a) => (bool go2, float[r, 6] a2) {
    sum = ReduceSum <keepdims = 0> (a)
    zero = Constant <value = float {0.0}> ()
    c = Greater (sum, zero)
    a2 = If (c) <
      then_branch = more () => (float[t, 6] then) {
        minus = Neg (a)
        then = Concat <axis = 0> (a, minus, x)
      },
      else_branch = less () => (float[u, 6] otherwise) {
        count = Constant <value_int = 2> ()
        otherwise = Loop (count2, yes2, a) <body = inner (int64 i2, bool go3, float[v, 6] b) => (bool go4, float[w, 6] b2) {
          first = Constant <value_ints = [0]> ()
          second = Constant <value_ints = [1]> ()
          row = Slice (b, first, second, first)
          bent = Tanh (row)
          positive = Abs (bent)
          b2 = Concat <axis = 0> (b, positive)
          go4 = Identity (go3)
        }>
      }>
    go2 = Identity (go)
  }>
}"""
GENERATED = """
generated (int64[1, n] ids, float[17, 6] table, int64 most) => (int64[1, m] all, float[t, 17] scores) {
  yes = Constant <value = bool {1}> ()
  all, scores = Loop ("", yes, ids) <body = one (int64 i, bool go, int64[1, p] now) => (bool go2, int64[1, q] next, float[17] part) {
    rows = Gather <axis = 0> (table, now)
    state = ReduceMean <axes = [0, 1], keepdims = 0> (rows)
    part = MatMul (table, state)
    best = ArgMax <axis = 0, keepdims = 1> (part)
    axis = Constant <value_ints = [0]> ()
    token = Unsqueeze (best, axis)
    next = Concat <axis = 1> (now, token)
    end = Less (i, most)
    again = Constant <value_int = 3> ()
    kind = Squeeze (best)
    other = Equal (kind, again)
    not_end = Not (other)
    go2 = And (end, not_end)
  }>
}"""
RNG = np.random.default_rng(11)


def model(text: str) -> ModelProto:
    if "count2" in text:  # what the inner loop captures
        text = text.replace("  yes = Const", "  count2 = Identity (k)\n  yes2 = Constant <value = bool {1}> ()\n  yes = Const", 1)
    return parser.parse_model(HEADER + text)


def rows(count: int) -> np.ndarray:
    return RNG.standard_normal((count, 6)).astype(np.float32)


def feeds(name: str) -> list[dict[str, np.ndarray]]:
    if name == "grown":
        return [{"x": rows(n), "k": np.array(k), "most": np.array(top, np.float32)} for n, k, top in ((3, 4, 9), (1, 0, 9), (2, 40, 9), (5, 30, 0.1))]
    if name == "shrunk":
        return [{"x": rows(n) + shift, "least": np.array(low, np.float32)} for n, shift, low in ((9, 0, -99), (2, 0, -99), (40, 1, 3), (5, 1, 1))]
    if name == "chosen":
        return [{"x": rows(n) + shift} for n, shift in ((3, 1), (3, -1), (1, 1), (7, -1), (2, 0), (9, 0))]
    if name == "generated":
        made = [{"ids": RNG.integers(0, 17, (1, n)), "table": RNG.standard_normal((17, 6)).astype(np.float32)} for n in (3, 1, 7, 4)]
        return [{**feed, "most": np.array(most)} for feed, most in zip(made, (5, 0, 50, 20), strict=True)]
    return [{"x": rows(n), "k": np.array(k)} for n, k in ((3, 3), (1, 0), (2, 7), (4, 5))]


MODELS = {"grown": GROWN, "shrunk": SHRUNK, "doubled": DOUBLED, "chosen": CHOSEN, "mixed": MIXED, "generated": GENERATED}


def check(source: ModelProto, compiled: Any, given: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, want in zip(compiled.run(given).values(), session.run(None, given), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2**-14, atol=2**-14 * np.abs(want).max(initial=1))


ON_THREADS = [(name, threads) for threads in (1, 2) for name in MODELS]


@pytest.mark.parametrize(("name", "threads"), by_day(ON_THREADS, [*ON_THREADS[:6], ("shrunk", 2), ("chosen", 2)]))
def test_results_of_all_sizes(name: str, threads: int) -> None:
    source = model(MODELS[name])
    compiled = stepwell.compile(source, specialise="never", threads=threads)
    for given in feeds(name):
        check(source, compiled, given)


@pytest.mark.parametrize("name", by_day(MODELS, ["grown", "chosen", "generated"]))
def test_results_of_sizes_that_are_known(name: str) -> None:
    source = model(MODELS[name])
    compiled = stepwell.compile(source, specialise="always")
    for given in feeds(name)[:2]:
        check(source, compiled, given)


def repeatedly(source: ModelProto, compiled: Any, given: dict[str, np.ndarray]) -> None:
    for _ in range(8):
        check(source, compiled, given)


def test_threads_have_boxes_of_their_own() -> None:
    source = model(MIXED)
    compiled = stepwell.compile(source, specialise="never")
    given = feeds("mixed")
    together(*(partial(repeatedly, source, compiled, feed) for feed in given))


@pytest.mark.parametrize("name", MODELS)
def test_levels_mean_the_same(name: str) -> None:
    given = feeds(name)[0]
    lowered = stepwell.lower(model(MODELS[name]), "graph", shapes={key: array.shape for key, array in given.items()})
    assert all(step.ok for step in stepwell.compare_levels(lowered, given))


@pytest.mark.parametrize("name", ["grown", "mixed"])
def test_imports_do_not_differ(name: str) -> None:
    """The bodies of loops are built more than once; what was found of values of the first time must not be taken for that of later ones."""
    texts = {str(stepwell.lower(model(MODELS[name]), "graph", specialise="never").module) for _ in range(12)}
    assert len(texts) == 1


def test_memory_that_nothing_leads_to_is_let_go() -> None:
    compiled = stepwell.compile(model(GROWN), specialise="never", limits=stepwell.Limits(workspace_bytes=1 << 20))
    given = {"x": rows(2), "k": np.array(1000), "most": np.array(9, np.float32)}  # all sizes from 2 to 1002 rows together take 12 MB
    check(model(GROWN), compiled, given)


def test_memory_has_a_limit() -> None:
    compiled = stepwell.compile(model(DOUBLED), specialise="never", limits=stepwell.Limits(workspace_bytes=1 << 20))
    with pytest.raises(stepwell.LimitError, match=r"Loop_\d+.*bytes of memory, more than 1048576 \(limit workspace_bytes\)"):
        compiled.run({"x": rows(3), "k": np.array(1000)})
    check(model(DOUBLED), compiled, feeds("doubled")[0])


def test_a_size_of_the_run_given_twice() -> None:
    source = parser.parse_model(HEADER + "twice (float[n] x) => (int64[1, m] y, int64[1, m] z) { y = NonZero (x)\n z = Identity (y) }")
    for given in (np.float32([1, 0, 2, 0, 4]), np.float32([0]), np.float32([3])):
        check(source, stepwell.compile(source, specialise="never"), {"x": given})


RANKS = """
ranks (float[n, k] x) => (y) {
  columns = Shape <start = 1, end = 2> (x)
  one = Constant <value_ints = [1]> ()
  same = Equal (columns, one)
  c = Squeeze (same)
  y = If (c) <
    then_branch = single () => (float[a] r) {
      axis = Constant <value_ints = [1]> ()
      r = Squeeze (x, axis)
    },
    else_branch = several () => (float[b, d] q) { q = Neg (x) }>
}"""


@pytest.mark.filterwarnings("ignore::stepwell.ModelWarning")
def test_branches_of_different_ranks_that_sizes_choose() -> None:
    source = model(RANKS)
    compiled = stepwell.compile(source)
    for shape in ((3, 4), (2, 1), (5, 2), (1, 1), (3, 4)):
        check(source, compiled, {"x": RNG.standard_normal(shape).astype(np.float32)})


@pytest.mark.filterwarnings("ignore::stepwell.ModelWarning")
def test_branches_of_different_ranks_that_data_choose() -> None:
    text = RANKS.replace("Shape <start = 1, end = 2>", "ReduceSum <keepdims = 0>").replace("value_ints = [1]", "value = float {1}", 1)
    compiled = stepwell.compile(model(text))
    assert list(compiled.values) == ["x"]  # code is made for each
    for number in (1.0, 2.0):
        check(model(text), compiled, {"x": np.full((1, 1), number, np.float32)})


SPREAD = """
spread (float[n, 6] x, int64 k) => (float[j, n] all, float v) {
  yes = Constant <value = bool {1}> ()
  begin = ReduceMean <keepdims = 0> (x)
  rows = Shape <start = 0, end = 1> (x)
  v, all = Loop (k, yes, begin) <body = one (int64 i, bool go, float a) => (bool go2, float a2, float[n] part) {
    part = Expand (a, rows)
    a2 = Tanh (a)
    go2 = Identity (go)
  }>
}"""


def test_collected_values_of_a_size_that_only_an_input_has() -> None:
    source = model(SPREAD.replace("float[j, n] all, float v", "float v, float[j, n] all"))
    compiled = stepwell.compile(source, specialise="never")
    for n, k in ((3, 4), (5, 1), (1, 7)):
        check(source, compiled, {"x": rows(n), "k": np.array(k)})


COUNTED = """
counted (float[n, 6] x, int64 k) => (int64[2] s) {
  yes = Constant <value = bool {1}> ()
  y = Loop (k, yes, x) <body = one (int64 i, bool go, float[p, 6] a) => (bool go2, float[r, 6] a2) {
    a2 = Concat <axis = 0> (a, a)
    go2 = Identity (go)
  }>
  s = Shape (y)
}"""
FILLED = CHOSEN.replace("(float[m, 6] y, float[m, 6] e, float[k, 6] z)", "(float[m, 6] e)").replace(
    "e = Exp (y)", "s = Shape (y)\n  one = Constant <value = float {1.5}> ()\n  e = Expand (one, s)"
)


@pytest.mark.parametrize(("text", "name"), [(COUNTED, "doubled"), (FILLED, "chosen")])
@pytest.mark.parametrize("specialise", ["never", "always"])
def test_values_of_which_only_the_size_is_used(text: str, name: str, specialise: str) -> None:
    source = model(text)
    compiled = stepwell.compile(source, specialise=specialise)
    for given in feeds(name)[:3]:
        check(source, compiled, given)
    given = feeds(name)[0]
    lowered = stepwell.lower(source, "graph", shapes={key: array.shape for key, array in given.items()})
    assert all(step.ok for step in stepwell.compare_levels(lowered, given))
