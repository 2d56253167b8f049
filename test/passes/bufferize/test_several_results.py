"""Kernels with several results, native: in their destinations, in place, in concatenations, as outputs, and not used at all."""

from collections.abc import Sequence

import guarded
import numpy as np
import onnx
import pytest
from covering import pairs
from every import every
from importing import check_native, expected_outputs, floats, model, node
from native_checks import natively_together

import stepwell
from stepwell.analysis.memory import memory_plan
from stepwell.dialects.core.weights import WeightTable
from stepwell.driver.lowering import lower
from stepwell.runtime.model import CompiledModel

SHAPE = "tensor<4x9xf32>"
Values = Sequence[tuple[str, str]]
"""Names of values and their types."""
MAPS = """
  #id = affine_map<(a, b) -> (a, b)>
  #row = affine_map<(a, b) -> (a)>
"""
EMPTY = f"tensor.empty() : {SHAPE}"


def each(result: str, op: str, *inputs: str, to: str = "") -> str:
    """An element-wise op on the kernel's tensors, into a tensor of its own or `to` one."""
    names = [f"%v{i}" for i in range(len(inputs))]
    own = "" if to else f"%{result}_to = {EMPTY}"
    return f"""
      {own}
      %{result} = linalg.generic {{indexing_maps = [{", ".join(["#id"] * (len(inputs) + 1))}], iterator_types = ["parallel", "parallel"]}}
        ins({", ".join(inputs)} : {", ".join([SHAPE] * len(inputs))}) outs({to or f"%{result}_to"} : {SHAPE}) {{
      ^bb0({", ".join(f"{n}: f32" for n in names)}, %o: f32):
        %v = {op} {", ".join(names)} : f32
        linalg.yield %v : f32
      }} -> {SHAPE}"""


# The sum of each row, and the greatest element, by one op with two results.
ROWS = """
      %zero = arith.constant 0.0 : f32
      %low = arith.constant 0xFF800000 : f32
      %se = tensor.empty() : tensor<4xf32>
      %me = tensor.empty() : tensor<4xf32>
      %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4xf32>) -> tensor<4xf32>
      %mf = linalg.fill ins(%low : f32) outs(%me : tensor<4xf32>) -> tensor<4xf32>
      %rows:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]}
        ins(%a : tensor<4x9xf32>) outs(%sf, %mf : tensor<4xf32>, tensor<4xf32>) {
      ^bb0(%v: f32, %s: f32, %m: f32):
        %s2 = arith.addf %s, %v : f32
        %m2 = arith.maximumf %m, %v : f32
        linalg.yield %s2, %m2 : f32, f32
      } -> (tensor<4xf32>, tensor<4xf32>)"""


def kernel(name: str, arguments: int, body: str, results: Values) -> str:
    """A kernel on tensors %a, %b, … that returns the values in `results`, which are of the types given."""
    types = [t for _, t in results]
    taken = [*(f"%{'abc'[i]}: {SHAPE}" for i in range(arguments)), *(f"%to{i}: {t}" for i, t in enumerate(types))]
    return f"""
    func.func private @{name}({", ".join(taken)}) -> ({", ".join(types)}) attributes {{stepwell.kernel, llvm.no_inline}} {{
      {body}
      return {", ".join(f"%{v}" for v, _ in results)} : {", ".join(types)}
    }}"""


def call(result: str, name: str, inputs: Sequence[str], results: Sequence[str]) -> str:
    """A call in @main whose results are `%result#0` and so on."""
    empties = [f"%{result}_to{i} = tensor.empty() : {t}" for i, t in enumerate(results)]
    operands = [*inputs, *(f"%{result}_to{i}" for i in range(len(results)))]
    count = f":{len(results)}" if len(results) > 1 else ""
    kind = f"({', '.join([*[SHAPE] * len(inputs), *results])}) -> ({', '.join(results)})"
    return "\n".join([*empties, f"%{result}{count} = call @{name}({', '.join(operands)}) : {kind}"])


def compiled(kernels: str, inputs: int, body: str, returned: Values, threads: int = 1) -> CompiledModel:
    """A model of these kernels with inputs x0, x1, … of the shape above; `returned` are the values and types of its outputs y0, y1, …"""
    taken = [f'%x{i}: {SHAPE} {{stepwell.name = "x{i}"}}' for i in range(inputs)]
    given = ", ".join(f'{t} {{stepwell.name = "y{i}"}}' for i, t in enumerate(t for _, t in returned))
    text = f"""{MAPS}
    {kernels}
    func.func @main({", ".join([*taken, "%weights: memref<?xi8>"])}) -> ({given}) {{
      {body}
      return {", ".join(f"%{v}" for v, _ in returned)} : {", ".join(t for _, t in returned)}
    }}"""
    return stepwell.compile_ir(text, "linalg", WeightTable(), threads=threads)


def check(made: CompiledModel, arrays: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Compare all outputs, on memory where what is not written is NaN."""
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    got = guarded.run(made, inputs, 0)
    for (name, array), want in zip(got.items(), wanted, strict=True):
        np.testing.assert_allclose(array, want, rtol=1e-6, atol=1e-6, err_msg=name)
    again = made.run(inputs)
    assert all(np.array_equal(got[name], again[name], equal_nan=True) for name in got)


X, Y = floats(4, 9), floats(4, 9, seed=1)
TWO = kernel("two", 2, each("n", "arith.negf", "%a", to="%to0") + each("s", "arith.addf", "%a", "%b", to="%to1"), [("n", SHAPE), ("s", SHAPE)])
EXP = kernel("exp", 1, each("e", "math.exp", "%a", to="%to0"), [("e", SHAPE)])
PAIR = [SHAPE, SHAPE]


@pytest.mark.parametrize("threads", [1, 2])
def test_two_results_as_outputs_in_either_order(threads: int) -> None:
    for order, want in ((("r#0", "r#1"), [-X, X + Y]), (("r#1", "r#0"), [X + Y, -X])):
        made = compiled(TWO, 2, call("r", "two", ["%x0", "%x1"], PAIR), [(v, SHAPE) for v in order], threads)
        check(made, [X, Y], want)
        assert made.memory.workspace_bytes == 0  # both are computed where the caller wants them


def test_one_of_two_results_is_not_used() -> None:
    for used, want in (("r#0", -X), ("r#1", X + Y)):
        check(compiled(TWO, 2, call("r", "two", ["%x0", "%x1"], PAIR), [(used, SHAPE)]), [X, Y], [want])


def test_one_result_is_two_outputs() -> None:
    made = compiled(TWO, 2, call("r", "two", ["%x0", "%x1"], PAIR), [("r#1", SHAPE), ("r#0", SHAPE), ("r#1", SHAPE)])
    check(made, [X, Y], [X + Y, -X, X + Y])


def test_both_results_in_one_concatenation() -> None:
    whole = "tensor<8x9xf32>"
    joined = f"%j = tensor.concat dim(0) %r#1, %r#0 : ({SHAPE}, {SHAPE}) -> {whole}"
    exp = EXP.replace("4x9", "8x9").replace("@exp", "@exp8")
    body = "\n".join([call("r", "two", ["%x0", "%x1"], PAIR), joined, call("y", "exp8", ["%j"], [whole]).replace(f"({SHAPE}, ", f"({whole}, ")])
    made = compiled(TWO + exp, 2, body, [("y", whole)])
    check(made, [X, Y], [np.exp(np.concatenate([X + Y, -X]))])
    assert made.memory.workspace_bytes <= 2 * 192  # nothing but the concatenation, which both are written into


def test_results_in_place_of_inputs_that_die() -> None:
    """The one result takes the place of its own input, the other that of the other."""
    apart = kernel("apart", 2, each("n", "arith.negf", "%a", to="%to0") + each("s", "math.absf", "%b", to="%to1"), [("n", SHAPE), ("s", SHAPE)])
    body = "\n".join([
        call("p", "exp", ["%x0"], [SHAPE]), call("q", "exp", ["%x1"], [SHAPE]), call("r", "apart", ["%p", "%q"], PAIR),
        call("y", "two", ["%r#0", "%r#1"], PAIR),
    ])  # fmt: skip
    made = compiled(EXP + apart + TWO, 2, body, [("y#0", SHAPE), ("y#1", SHAPE)])
    check(made, [X, Y], [np.exp(X), np.exp(Y) - np.exp(X)])
    assert made.memory.workspace_bytes <= 2 * 192  # two tensors, not four


def test_an_input_that_both_results_are_made_of_stays() -> None:
    body = "\n".join([call("p", "exp", ["%x0"], [SHAPE]), call("q", "exp", ["%x1"], [SHAPE]), call("r", "two", ["%p", "%q"], PAIR)])
    body += "\n" + call("y", "two", ["%r#0", "%r#1"], PAIR)
    made = compiled(EXP + TWO, 2, body, [("y#0", SHAPE), ("y#1", SHAPE)])
    check(made, [X, Y], [np.exp(X), np.exp(Y)])


def test_three_results_of_other_shapes_and_types() -> None:
    view = "%flat = tensor.collapse_shape %a [[0, 1]] : tensor<4x9xf32> into tensor<36xf32>"
    results = [("rows#1", "tensor<4xf32>"), ("flat", "tensor<36xf32>"), ("rows#0", "tensor<4xf32>")]
    types = [t for _, t in results]
    made = compiled(kernel("three", 1, ROWS + view, results), 1, call("r", "three", ["%x0"], types), [(f"r#{i}", t) for i, t in enumerate(types)])
    check(made, [X], [X.max(axis=1), X.reshape(-1), X.sum(axis=1)])


def test_the_same_value_as_two_results_and_one_made_of_another() -> None:
    body = each("n", "arith.negf", "%a") + each("e", "math.exp", "%n")
    results = [("n", SHAPE), ("e", SHAPE), ("n", SHAPE)]
    made = compiled(kernel("k", 1, body, results), 1, call("r", "k", ["%x0"], [SHAPE] * 3), [(f"r#{i}", SHAPE) for i in range(3)])
    check(made, [X], [-X, np.exp(-X), -X])


# --- TopK, which has two results


@natively_together
@pairs({"axis": [0, 1, -1], "largest": [0, 1], "dtype": [np.float32, np.int64]})
def test_top_k(axis: int, largest: int, dtype: type) -> None:
    x = (floats(5, 7, 6) * 100).astype(dtype)
    made = node("TopK", ["x", "k"], ["values", "places"], axis=axis, largest=largest)
    check_native(made, {"x": x}, {"k": np.array([4])}, outputs=("values", "places"))


@natively_together
@every("k", [0, 1, 7])
def test_top_k_of_none_one_and_all(k: int) -> None:
    made = node("TopK", ["x", "k"], ["values", "places"])
    check_native(made, {"x": floats(3, 7)}, {"k": np.array([k])}, outputs=("values", "places"))


NETWORK = [
    node("Relu", ["x"], ["a"], name="first"),
    node("TopK", ["a", "k"], ["v", "i"], name="top"),
    node("TopK", ["v", "k2"], ["v2", "i2"], name="top2", largest=0),
    node("Concat", ["v", "v2"], ["joined"], name="join", axis=1),
    node("GatherElements", ["x", "i"], ["picked"], name="pick", axis=1),
    node("Add", ["picked", "v"], ["sum"], name="sum"),
    node("TopK", ["joined", "k2"], ["v3", "i3"], name="top3"),
]
COUNTS = {"k": np.array([5]), "k2": np.array([3])}


def network(outputs: Sequence[str]) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    wanted = expected_outputs(NETWORK, {"x": X}, outputs, COUNTS, 21)
    return model(NETWORK, {"x": X}, dict(zip(outputs, wanted, strict=True)), COUNTS), wanted


@pytest.mark.parametrize("outputs", [("joined", "sum", "v3"), ("i2", "i", "v"), ("sum",), ("v2", "joined", "i")])
def test_top_k_in_a_network(outputs: tuple[str, ...]) -> None:
    proto, wanted = network(outputs)
    got = guarded.run(stepwell.compile(proto), {"x": X}, 0)
    for name, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-6, err_msg=name)


def test_the_memory_plan_knows_each_result() -> None:
    proto, _ = network(("joined", "sum", "i"))
    plan = memory_plan(lower(proto, "affine").module.operation)
    tops = [c for c in plan.launches if c.kernel.startswith("top_k")]
    assert [len(c.destinations) for c in tops] == [2, 2]
    assert {d.type for d in tops[0].destinations} == {"4x5xf32", "4x5xi64"}
    written = {(b.where.argument, b.where.offset) for b in plan.buffers}
    assert all((d.argument, d.offset) in written for c in tops for d in c.destinations)
