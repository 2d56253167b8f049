"""What a branch takes for granted of sizes that data tell: it counts in runs that take the branch, and there alone."""

import numpy as np
import pytest
from onnx import ModelProto, parser

import stepwell
from stepwell.dialects.support.errors import IndexRangeError, ModelWarning

HEADER = '<ir_version: 9, opset_import: ["" : 17]>\n'
KEPT = "y = Compress <axis = 0> (x, keep)"
W = np.arange(7, dtype=np.float32)


def model(text: str) -> ModelProto:
    seven = f"w = Constant <value = float[7] {{{', '.join(map(str, W))}}}> ()"
    made: ModelProto = parser.parse_model(HEADER + text.replace("KEPT", KEPT).replace("SEVEN", seven))
    return made


def given(count: int, *, choose: bool, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of which `count` elements are kept."""
    rng = np.random.default_rng(seed)
    keep = np.zeros(12, bool)
    keep[rng.permutation(12)[:count]] = True
    return {"x": rng.standard_normal(12).astype(np.float32), "keep": keep, "c": np.array(choose)}


PLAIN = """
plain (float[12] x, bool[12] keep, bool c) => (float[p] a, float[q] b) {
  KEPT
  SEVEN
  a = If (c) <
    then_branch = more () => (float[r] t) { t = Add (y, w) },
    else_branch = less () => (float[s] e) { e = Neg (y) }>
  b = Mul (a, y)
}"""


def test_sizes_that_must_be_equal_in_a_branch_alone() -> None:
    """What follows the conditional goes on with the size that came out."""
    program = stepwell.compile(model(PLAIN), cache=False)
    for count in (0, 3, 7, 12, 1):
        inputs = given(count, choose=False)
        y = inputs["x"][inputs["keep"]]
        got = program.run(inputs)
        np.testing.assert_array_equal(got["a"], -y)
        np.testing.assert_array_equal(got["b"], -y * y)
    inputs = given(7, choose=True)
    y = inputs["x"][inputs["keep"]]
    np.testing.assert_array_equal(program.run(inputs)["b"], (y + W) * y)
    with pytest.raises(IndexRangeError, match=r"SW010 If_\d+.*: the data ask for sizes that do not fit: expected .* == 7, got .* = 6"):
        program.run(given(6, choose=True))
    with pytest.warns(ModelWarning, match="by a program in which any may be"):  # a size of 1 broadcasts
        got = program.run(one := given(1, choose=True))
    y = one["x"][one["keep"]]
    np.testing.assert_array_equal(got["a"], y + W)
    np.testing.assert_array_equal(got["b"], (y + W) * y)


NESTED = """
nested (float[12] x, bool[12] keep, bool c) => (float[p] a) {
  KEPT
  SEVEN
  zero = Constant <value_ints = [0]> ()
  five = Constant <value_ints = [5]> ()
  big = Constant <value = float {2.0}> ()
  a = If (c) <
    then_branch = more () => (float[r] t) {
      sum = ReduceSum <keepdims = 0> (x)
      large = Greater (sum, big)
      t = If (large) <
        then_branch = larger () => (float[k] i) { i = Mul (w, y) },
        else_branch = other () => (float[l] j) { places = NonZero (keep) all = Squeeze (places, zero) z = Gather (x, all) j = Sub (z, y) }>
    },
    else_branch = less () => (float[s] e) { five_numbers = Expand (big, five) e = Add (five_numbers, y) }>
}"""


def test_branches_inside_branches() -> None:
    program = stepwell.compile(model(NESTED), cache=False)
    for count, choose, shift in ((5, False, 0), (7, True, 9), (4, True, -9), (11, True, -9), (1, True, -9)):
        inputs = given(count, choose=choose)
        inputs["x"] += np.float32(shift)
        y = inputs["x"][inputs["keep"]]
        want = (W * y if shift > 0 else y - y) if choose else np.float32(2) + y
        np.testing.assert_array_equal(program.run(inputs)["a"], want)
    for count, choose, shift in ((4, False, 0), (4, True, 9)):
        inputs = given(count, choose=choose)
        inputs["x"] += np.float32(shift)
        with pytest.raises(IndexRangeError, match="SW010"):
            program.run(inputs)


GROWING = """
growing (float[7] x, float[k] more, int64 m, bool c) => (float[o] y) {
  SEVEN
  zero = Constant <value = int64 {0}> ()
  y = Loop (m, , x) <body = body (int64 i, bool go, float[n] v) => (bool on, float[l] grown) {
    first = Equal (i, zero)
    a = If (first) <
      then_branch = begin () => (float[r] t) { t = Add (v, w) },
      else_branch = later () => (float[s] e) { e = Neg (v) }>
    grown = Concat <axis = 0> (a, more)
    on = Identity (go)
  }>
}"""


def test_a_branch_for_the_first_round_of_a_loop_whose_values_grow() -> None:
    program = stepwell.compile(model(GROWING), cache=False)
    rng = np.random.default_rng(2)
    for rounds, length in ((0, 2), (1, 2), (4, 2), (3, 5), (2, 0)):
        x, more = rng.standard_normal(7).astype(np.float32), rng.standard_normal(length).astype(np.float32)
        want = x
        for i in range(rounds):
            want = np.concatenate([want + W if i == 0 else -want, more])
        got = program.run({"x": x, "more": more, "m": np.array(rounds, np.int64), "c": np.array(True)})
        np.testing.assert_array_equal(got["y"], want)
