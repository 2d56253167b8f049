"""Whole modules by reference meanings: names, calls, regions, and errors that say where."""

import numpy as np
import pytest

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import InputError, ModelError, StepwellError

RANDOM = np.random.default_rng(11)


@pytest.fixture(scope="module")
def context() -> ir.Context:
    return make_context()


def run(context: ir.Context, text: str, weights: dict[str, np.ndarray] | None = None, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return evaluate(parse_module(text, context), WeightTable(weights or {}), inputs)


CHAIN = """
func.func @main(%x: tensor<?x3xf32> {stepwell.name = "data"}, %y: tensor<3xf32>) -> (tensor<?x4xf32> {stepwell.name = "out"}, tensor<?x3xf32>) {
  %w = "graph.parameter"() {id = "w"} : () -> tensor<3x4xf32>
  %0 = "graph.sub"(%x, %y) : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %1 = "graph.matmul"(%0, %w) : (tensor<?x3xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
  return %1, %0 : tensor<?x4xf32>, tensor<?x3xf32>
}
"""


def test_names_weights_and_dynamic_sizes(context: ir.Context) -> None:
    x, y, w = (RANDOM.normal(size=s).astype(np.float32) for s in ((5, 3), (3,), (3, 4)))
    outputs = run(context, CHAIN, {"w": w}, data=x, input1=y)
    assert list(outputs) == ["out", "output1"]
    np.testing.assert_allclose(outputs["out"], (x - y) @ w, rtol=1e-5)
    np.testing.assert_array_equal(outputs["output1"], x - y)


def test_inputs_that_do_not_fit(context: ir.Context) -> None:
    x, y, weights = np.ones((5, 3), np.float32), np.ones(3, np.float32), {"w": np.ones((3, 4), np.float32)}
    with pytest.raises(InputError, match="input 'input1' is missing; the inputs are data, input1"):
        run(context, CHAIN, weights, data=x)
    with pytest.raises(InputError, match="input 'extra' is unknown; the inputs are data, input1"):
        run(context, CHAIN, weights, data=x, input1=y, extra=y)
    with pytest.raises(InputError, match=r"input 'data' must be tensor<\?x3xf32>, got tensor<5x3xf64>"):
        run(context, CHAIN, weights, data=x.astype(np.float64), input1=y)
    with pytest.raises(InputError, match=r"input 'data' must be tensor<\?x3xf32>, got tensor<3x5xf32>"):
        run(context, CHAIN, weights, data=x.T, input1=y)
    with pytest.raises(ModelError, match="the weight table has no entry 'w'"):
        run(context, CHAIN, {}, data=x, input1=y)


def test_kernels_and_groups(context: ir.Context) -> None:
    text = """
    func.func private @k(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %out: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {stepwell.kernel} {
      %0 = "graph.fused"(%a, %b) ({
      ^bb0(%x: tensor<2x3xf32>, %y: tensor<3xf32>):
        %1 = "graph.add"(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
        %2 = "graph.relu"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
        "graph.yield"(%2) : (tensor<2x3xf32>) -> ()
      }) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }
    func.func @main(%x: tensor<2x3xf32> {stepwell.name = "x"}, %y: tensor<3xf32> {stepwell.name = "y"}) -> tensor<2x3xf32> {
      %e = tensor.empty() : tensor<2x3xf32>
      %0 = func.call @k(%x, %y, %e) : (tensor<2x3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      %1 = func.call @k(%0, %y, %e) : (tensor<2x3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      return %1 : tensor<2x3xf32>
    }"""
    x, y = RANDOM.normal(size=(2, 3)).astype(np.float32), RANDOM.normal(size=3).astype(np.float32)
    expected = np.maximum(np.maximum(x + y, 0) + y, 0)
    np.testing.assert_array_equal(run(context, text, x=x, y=y)["output0"], expected)


LOOP = """
func.func @main(%n: tensor<i64> {stepwell.name = "n"}, %limit: tensor<i64> {stepwell.name = "limit"}, %x: tensor<2xf32> {stepwell.name = "x"})
    -> (tensor<?xf32>, tensor<2xf32>) {
  %true = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %none = "graph.constant"() {value = dense<> : tensor<0xf32>} : () -> tensor<0xf32>
  %0:2 = "graph.loop"(%n, %true, %none, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %all: tensor<?xf32>, %v: tensor<2xf32>):
    %again = "graph.less"(%i, %limit) : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %even = "graph.if"(%again) ({
      %sum = "graph.add"(%v, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      "graph.yield"(%sum) : (tensor<2xf32>) -> ()
    }, {
      %neg = "graph.neg"(%v) : (tensor<2xf32>) -> tensor<2xf32>
      "graph.yield"(%neg) : (tensor<2xf32>) -> ()
    }) : (tensor<i1>) -> tensor<2xf32>
    %more = "graph.concat"(%all, %even) {axis = 0 : i64} : (tensor<?xf32>, tensor<2xf32>) -> tensor<?xf32>
    "graph.yield"(%again, %more, %even) : (tensor<i1>, tensor<?xf32>, tensor<2xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<0xf32>, tensor<2xf32>) -> (tensor<?xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<?xf32>, tensor<2xf32>
}
"""


@pytest.mark.parametrize(("n", "limit"), [(0, 9), (3, 9), (9, 2), (5, 0)])
def test_loops_and_branches(context: ir.Context, n: int, limit: int) -> None:
    x = np.array([1.5, -2.0], np.float32)
    collected, value, go = [], x, True
    for i in range(n):
        if not go:
            break
        go = i < limit
        value = value + x if go else -value
        collected.append(value)
    outputs = run(context, LOOP, n=np.array(n), limit=np.array(limit), x=x)
    np.testing.assert_array_equal(outputs["output0"], np.concatenate([np.zeros(0, np.float32), *collected]))
    np.testing.assert_array_equal(outputs["output1"], value)


def test_errors_name_the_node(context: ir.Context) -> None:
    text = """
    func.func @main(%x: tensor<3xf32> {stepwell.name = "x"}, %i: tensor<2xi64> {stepwell.name = "i"}) -> tensor<2xf32> {
      %0 = "graph.gather"(%x, %i) {axis = 0 : i64} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32> loc("pick"("model.onnx":1:0))
      return %0 : tensor<2xf32>
    }"""
    x = np.array([5, 6, 7], np.float32)
    np.testing.assert_array_equal(run(context, text, x=x, i=np.array([-1, 0]))["output0"], [7, 5])
    with pytest.raises(StepwellError, match=r"graph\.gather of pick: index 3 is out of range for a dimension of size 3"):
        run(context, text, x=x, i=np.array([0, 3]))
    with pytest.raises(StepwellError, match=r"graph\.dynamic_reshape of an unnamed node: .*reshape"):
        run(
            context,
            """func.func @main(%x: tensor<3xf32> {stepwell.name = "x"}, %s: tensor<2xi64> {stepwell.name = "s"}) -> tensor<?x?xf32> {
              %0 = "graph.dynamic_reshape"(%x, %s) : (tensor<3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
              return %0 : tensor<?x?xf32>
            }""",
            x=x,
            s=np.array([2, 2]),
        )


def test_what_it_cannot_run(context: ir.Context) -> None:
    with pytest.raises(StepwellError, match="no function @main"):
        run(context, "func.func @other() { return }")
    with pytest.raises(StepwellError, match=r"math\.ctpop of an unnamed node has no meaning that can be run"):
        run(context, "func.func @main(%x: tensor<2xi8>) { %0 = math.ctpop %x : tensor<2xi8> return }", input0=np.zeros(2, np.int8))
