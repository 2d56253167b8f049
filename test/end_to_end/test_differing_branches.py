"""Branches that give values of no common type, between which only data decide: what follows them is computed in each."""

import re

import numpy as np
import onnxruntime
import pytest
from covering import pairs
from onnx import ModelProto, parser

import stepwell
from stepwell.frontends.onnx.branches import with_following_nodes

HEADER = '<ir_version: 9, opset_import: ["" : 17]>\n'
LARGE = """
  sum = ReduceSum <keepdims = 0> (x)
  zero = Constant <value = float {0.0}> ()
  c = Greater (sum, zero)
"""
RANKS = """
ranks (float[n, 6] x, float[6, 3] w) => (float[a, b] y, float[n] t) {
  one = Constant <value_ints = [1]> ()
  LARGE
  v = If (c) <
    then_branch = more () => (float[f] r) {
      flat = Constant <value_ints = [-1]> ()
      r = Reshape (x, flat)
    },
    else_branch = less () => (float[k, l] q) { q = Mul (x, x) }>
  apart = ReduceMean <axes = [1], keepdims = 0> (x)
  e = Exp (v)
  t = Neg (apart)
  rows = Constant <value_ints = [-1, 6]> ()
  back = Reshape (e, rows)
  bias = Unsqueeze (apart, one)
  scaled = Mul (back, bias)
  y = MatMul (scaled, w)
}"""
OPTIONAL = """
optional (float[n, 6] x) => (float[m] y) {
  LARGE
  v = If (c) <
    then_branch = more () => (optional(float[k, 6]) r) { r = Optional (x) },
    else_branch = less () => (optional(float[k, 6]) q) { q = Optional <type = float[k, 6]> () }>
  there = OptionalHasElement (v)
  y = If (there) <
    then_branch = some () => (float[p] r2) {
      inside = OptionalGetElement (v)
      r2 = ReduceMean <axes = [1], keepdims = 0> (inside)
    },
    else_branch = none () => (float[j] q2) { q2 = ReduceMax <axes = [1], keepdims = 0> (x) }>
}"""
TWO = """
two (float[n, 6] x) => (float[n] y) {
  one = Constant <value_ints = [1]> ()
  rest = Constant <value_ints = [-1]> ()
  half = Constant <value = float {0.5}> ()
  LARGE
  v = If (c) <
    then_branch = more () => (float[n, 1, 6] r) { r = Unsqueeze (x, one) },
    else_branch = less () => (float[n, 6] q) { q = Tanh (x) }>
  first = ReduceMax <keepdims = 0> (x)
  d = Less (first, half)
  u = If (d) <
    then_branch = small () => (float[n, 6] r2) { r2 = Mul (v, half) },
    else_branch = big () => (float[n] q2) { q2 = ReduceMean <axes = [-1], keepdims = 0> (x) }>
  shape = Shape <start = 0, end = 1> (x)
  all = Concat <axis = 0> (shape, rest)
  rows = Reshape (u, all)
  y = ReduceMax <axes = [1], keepdims = 0> (rows)
}"""
IN_A_LOOP = """
inside (float[n, 6] x, int64 k) => (float[n, 6] y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (k, yes, x) <body = one (int64 i, bool go, float[n, 6] a) => (bool go2, float[n, 6] a2) {
    sum = ReduceSum <keepdims = 0> (a)
    two = Constant <value = float {2.0}> ()
    c = Less (sum, two)
    v = If (c) <
      then_branch = more () => (float[f] r) {
        flat = Constant <value_ints = [-1]> ()
        r = Reshape (a, flat)
      },
      else_branch = less () => (float[n, 6] q) { q = Sin (a) }>
    shape = Shape (x)
    grown = Add (v, two)
    back = Reshape (grown, shape)
    a2 = Tanh (back)
    go2 = Identity (go)
  }>
}"""
MODELS = {"ranks": RANKS, "optional": OPTIONAL, "two": TWO, "inside": IN_A_LOOP}
RNG = np.random.default_rng(31)


def model(text: str) -> ModelProto:
    return parser.parse_model(HEADER + text.replace("LARGE", LARGE))


def feeds(name: str) -> list[dict[str, np.ndarray]]:
    made = []
    for n, shift, k in ((1, 1, 1), (4, -1, 3), (3, 1, 0), (4, 0.05, 6), (5, -1, 2)):
        given = {"x": (0.4 * RNG.standard_normal((n, 6)) + shift).astype(np.float32)}
        given |= {"w": RNG.standard_normal((6, 3)).astype(np.float32)} if name == "ranks" else {}
        made.append(given | ({"k": np.array(k)} if name == "inside" else {}))
    return made


@pairs({"name": MODELS, "threads": [1, 2], "specialise": ["never", "always"]})
def test_results(name: str, threads: int, specialise: str) -> None:
    source = model(MODELS[name])
    compiled = stepwell.compile(source, specialise=specialise, threads=threads)
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    for given in feeds(name)[: 5 if specialise == "never" else 2]:
        for got, want in zip(compiled.run(given).values(), session.run(None, given), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=2**-16, atol=2**-18)


@pytest.mark.parametrize("name", MODELS)
def test_levels_mean_the_same(name: str) -> None:
    given = feeds(name)[1]
    lowered = stepwell.lower(model(MODELS[name]), "graph", shapes={key: array.shape for key, array in given.items()})
    assert all(step.ok for step in stepwell.compare_levels(lowered, given))


def test_what_follows_and_does_not_depend_is_computed_once() -> None:
    text = str(stepwell.lower(model(RANKS), "graph", specialise="never").module)
    counts = {op: text.count(f'"graph.{op}"') for op in ("exp", "neg", "matmul", "if")}
    assert counts == {"exp": 2, "neg": 1, "matmul": 2, "if": 1}


@pytest.mark.filterwarnings("ignore::stepwell.ModelWarning")
def test_outputs_of_the_model_of_different_ranks_need_the_data() -> None:
    text = RANKS.replace("(float[a, b] y, float[n] t)", "(y, float[n] t)").replace("y = MatMul (scaled, w)", "y = Neg (v)")
    compiled = stepwell.compile(model(text), specialise="never")
    assert list(compiled.values) == ["x"]
    assert re.match(r'If "If_\d+" .*values of different types \(.* or .*\), as only the run decides', compiled.values["x"])


def test_names_that_a_branch_has_too_are_not_confused() -> None:
    """`back` of a branch and `back` behind it are two values: inside the branch the name would mean the first one."""
    source = model(RANKS.replace("r = Reshape (x, flat)", "back = Neg (x)\n r = Reshape (back, flat)"))
    compiled = stepwell.compile(source, specialise="never")
    assert list(compiled.values) == ["x"]  # code is made for each
    [place] = [i for i, node in enumerate(source.graph.node) if node.op_type == "If"]
    assert with_following_nodes(source.graph.node[place], source.graph.node[place + 1 :], ["y", "t"]) is None
