"""What the ops of linalg-level IR mean, as the interpreter runs them."""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from every import every

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.types import TensorType, from_numpy, to_numpy
from stepwell.dialects.interpreter import MEANINGS, interpret, structured
from stepwell.dialects.support.errors import IRError, StepwellError

INF, NAN = np.inf, np.nan


def run(body: str, *arrays: np.ndarray, results: Sequence[str]) -> list[np.ndarray]:
    """What a function on tensors %0, %1, … gives."""
    context = make_context()
    arguments = ", ".join(f"%x{i}: {TensorType(from_numpy(a.dtype), a.shape)}" for i, a in enumerate(arrays))
    text = f"func.func @main({arguments}) -> ({', '.join(results)}) {{\n{body}\n}}"
    with context, ir.Location.file("test", 1, 1):
        return interpret(parse_module(text, context), arrays)


def ints(*values: int, dtype: str = "i8") -> np.ndarray:
    return np.array(values).astype(to_numpy(dtype))


def floats(*values: float, dtype: str = "f32") -> np.ndarray:
    return np.array(values).astype(to_numpy(dtype))


A, B = (-128, -7, -1, 7, 100), (-1, 2, 3, -2, 50)
INTEGER: dict[str, Sequence[int]] = {
    "addi": (127, -5, 2, 5, -106), "subi": (-127, -9, -4, 9, 50), "muli": (-128, -14, -3, -14, -120), "divsi": (-128, -3, 0, -3, 2),
    "divui": (0, 124, 85, 0, 2), "remsi": (0, -1, -1, 1, 0), "remui": (-128, 1, 0, 7, 0), "floordivsi": (-128, -4, -1, -4, 2),
    "ceildivsi": (-128, -3, 0, -3, 2), "ceildivui": (1, 125, 85, 1, 2), "maxsi": (-1, 2, 3, 7, 100), "minsi": (-128, -7, -1, -2, 50),
    "maxui": (-1, -7, -1, -2, 100), "minui": (-128, 2, 3, 7, 50), "andi": (-128, 0, 3, 6, 32), "ori": (-1, -5, -1, -1, 118),
    "xori": (127, -5, -4, -7, 86),
}  # fmt: skip


@every("name", INTEGER)
def test_integers_wrap_and_the_op_says_what_is_unsigned(name: str) -> None:
    (got,) = run(f"%r = arith.{name} %x0, %x1 : tensor<5xi8>\nreturn %r : tensor<5xi8>", ints(*A), ints(*B), results=["tensor<5xi8>"])
    np.testing.assert_array_equal(got, ints(*INTEGER[name]))
    assert got.dtype == np.int8


@pytest.mark.parametrize(("name", "expected"), [("shli", (-60, 28)), ("shrsi", (-4, 1)), ("shrui", (60, 1))])
def test_shifts(name: str, expected: Sequence[int]) -> None:
    (got,) = run(f"%r = arith.{name} %x0, %x1 : tensor<2xi8>\nreturn %r : tensor<2xi8>", ints(-15, 7), ints(2, 2), results=["tensor<2xi8>"])
    np.testing.assert_array_equal(got, ints(*expected))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("addi", (0, 1, 0)), ("muli", (0, 0, 1)), ("subi", (0, 1, 0)), ("maxui", (0, 1, 1)), ("maxsi", (0, 0, 1)), ("xori", (0, 1, 0))],
)  # fmt: skip
def test_booleans_are_integers_of_one_bit(name: str, expected: Sequence[int]) -> None:
    x, y = ints(0, 0, 1, dtype="i1"), ints(0, 1, 1, dtype="i1")
    (got,) = run(f"%r = arith.{name} %x0, %x1 : tensor<3xi1>\nreturn %r : tensor<3xi1>", x, y, results=["tensor<3xi1>"])
    np.testing.assert_array_equal(got, ints(*expected, dtype="i1"))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("eq", "0010"), ("ne", "1101"), ("slt", "1001"), ("sle", "1011"), ("sgt", "0100"), ("sge", "0110"), ("ult", "0101"), ("ule", "0111"),
     ("ugt", "1000"), ("uge", "1010")],
)  # fmt: skip
def test_relations_of_integers(predicate: str, expected: str) -> None:
    x, y = ints(-1, 3, 4, 1), ints(5, -3, 4, 2)
    (got,) = run(f"%r = arith.cmpi {predicate}, %x0, %x1 : tensor<4xi8>\nreturn %r : tensor<4xi1>", x, y, results=["tensor<4xi1>"])
    assert "".join(str(int(v)) for v in got) == expected


@every(
    ("predicate", "expected"),
    [("false", "0000"), ("oeq", "1000"), ("ogt", "0100"), ("oge", "1100"), ("olt", "0010"), ("ole", "1010"), ("one", "0110"), ("ord", "1110"),
     ("ueq", "1001"), ("ugt", "0101"), ("uge", "1101"), ("ult", "0011"), ("ule", "1011"), ("une", "0111"), ("uno", "0001"), ("true", "1111")],
)  # fmt: skip
def test_relations_of_floats(predicate: str, expected: str) -> None:
    x, y = floats(0.0, 2, 1, NAN), floats(-0.0, 1, INF, 1)
    (got,) = run(f"%r = arith.cmpf {predicate}, %x0, %x1 : tensor<4xf32>\nreturn %r : tensor<4xi1>", x, y, results=["tensor<4xi1>"])
    assert "".join(str(int(v)) for v in got) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("addf", (4, NAN, 0, NAN)), ("subf", (-5.5, INF, 0, NAN)), ("mulf", (-3.5625, -INF, -0.0, NAN)), ("divf", (-0.75 / 4.75, NAN, NAN, NAN)),
     ("remf", (-0.75, NAN, NAN, NAN)), ("maximumf", (4.75, INF, 0.0, NAN)), ("minimumf", (-0.75, -INF, -0.0, NAN)),
     ("maxnumf", (4.75, INF, 0.0, 1)), ("minnumf", (-0.75, -INF, -0.0, 1))],
)  # fmt: skip
def test_floats_and_their_special_values(name: str, expected: Sequence[float]) -> None:
    x, y = floats(-0.75, INF, 0.0, NAN), floats(4.75, -INF, -0.0, 1)
    (got,) = run(f"%r = arith.{name} %x0, %x1 : tensor<4xf32>\nreturn %r : tensor<4xf32>", x, y, results=["tensor<4xf32>"])
    np.testing.assert_array_equal(got, floats(*expected))
    if name in ("maximumf", "minimumf"):
        assert np.signbit(got[2]) == (name == "minimumf")


CASTS: list[tuple[str, np.ndarray, np.ndarray]] = [
    ("extsi", ints(-1, 5), ints(-1, 5, dtype="i32")), ("extui", ints(-1, 5), ints(255, 5, dtype="i32")),
    ("extsi", ints(1, 0, dtype="i1"), ints(-1, 0, dtype="i16")), ("extui", ints(1, 0, dtype="i1"), ints(1, 0, dtype="i16")),
    ("trunci", ints(300, -129, dtype="i32"), ints(44, 127)), ("trunci", ints(3, 2, dtype="i32"), ints(1, 0, dtype="i1")),
    ("sitofp", ints(-1, 5), floats(-1, 5)), ("uitofp", ints(-1, 5), floats(255, 5)), ("uitofp", ints(1, 0, dtype="i1"), floats(1, 0)),
    ("fptosi", floats(-2.75, 2.75), ints(-2, 2)), ("fptoui", floats(200.5, 2.75), ints(-56, 2)),
    ("extf", floats(0.5, -3, dtype="bf16"), floats(0.5, -3)),
    ("truncf", floats(1 + 2.0**-8 + 2.0**-40, 2, dtype="f64"), floats(1 + 2.0**-7, 2, dtype="bf16")),
    ("bitcast", floats(1.0, -0.0), ints(0x3F800000, -(1 << 31), dtype="i32")),
]  # fmt: skip


@every(("name", "x", "expected"), CASTS, ids=[f"{n}-{x.dtype}-{e.dtype}" for n, x, e in CASTS])
def test_conversions(name: str, x: np.ndarray, expected: np.ndarray) -> None:
    kinds = [str(TensorType(from_numpy(a.dtype), a.shape)) for a in (x, expected)]
    (got,) = run(f"%r = arith.{name} %x0 : {kinds[0]} to {kinds[1]}\nreturn %r : {kinds[1]}", x, results=kinds[1:])
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_functions_in_every_type(dtype: str) -> None:
    x = floats(0.25, 0.5, 0.875, dtype=dtype)
    kind = f"tensor<3x{dtype}>"
    names: dict[str, Any] = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "atan": np.arctan, "floor": np.floor}
    names["rsqrt"] = lambda v: v**-0.5
    for name, function in names.items():
        (got,) = run(f"%r = math.{name} %x0 : {kind}\nreturn %r : {kind}", x, results=[kind])
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got.astype(float), function(x.astype(float)), rtol=4 * float(ml_dtypes.finfo(x.dtype).eps))


def test_rounding_functions() -> None:
    x = floats(0.5, 1.5, -0.5, -2.5, 2.4, -0.2, 0.49999997)
    expected = {"round": (1, 2, -1, -3, 2, -0.0, 0), "roundeven": (0, 2, -0.0, -2, 2, -0.0, 0), "trunc": (0, 1, -0.0, -2, 2, -0.0, 0)}
    for name, values in expected.items():
        (got,) = run(f"%r = math.{name} %x0 : tensor<7xf32>\nreturn %r : tensor<7xf32>", x, results=["tensor<7xf32>"])
        np.testing.assert_array_equal(got, floats(*values), name)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(x), name)


def test_division_by_zero_is_told() -> None:
    with pytest.raises(StepwellError, match=r"arith\.divsi.*division by 0"):
        run("%r = arith.divsi %x0, %x1 : tensor<2xi8>\nreturn %r : tensor<2xi8>", ints(1, 2), ints(1, 0), results=["tensor<2xi8>"])


# --- tensors

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
MOVED: list[tuple[str, str, np.ndarray]] = [
    ("tensor.collapse_shape %x0 [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>", "tensor<6x4xf32>", X.reshape(6, 4)),
    ("tensor.expand_shape %x0 [[0], [1], [2, 3]] output_shape [2, 3, 2, 2] : tensor<2x3x4xf32> into tensor<2x3x2x2xf32>", "tensor<2x3x2x2xf32>",
     X.reshape(2, 3, 2, 2)),
    ("tensor.extract_slice %x0[0, 1, 0] [2, 1, 2] [1, 1, 3] : tensor<2x3x4xf32> to tensor<2x2xf32>", "tensor<2x2xf32>", X[:, 1, ::3]),
    ("tensor.concat dim(1) %x0, %x0 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>", "tensor<2x6x4xf32>",
     np.concatenate([X, X], 1)),
    ("tensor.cast %x0 : tensor<2x3x4xf32> to tensor<?x3x?xf32>", "tensor<?x3x?xf32>", X),
]  # fmt: skip


@pytest.mark.parametrize(("op", "kind", "expected"), MOVED, ids=[op.split()[0] for op, _, _ in MOVED])
def test_tensors_taken_apart_and_put_together(op: str, kind: str, expected: np.ndarray) -> None:
    (got,) = run(f"%r = {op}\nreturn %r : {kind}", X, results=[kind])
    np.testing.assert_array_equal(got, expected)


def test_a_slice_inserted() -> None:
    part = floats(-1, -2, -3, -4)
    body = """%r = tensor.insert_slice %x1 into %x0[1, 2, 0] [1, 1, 4] [1, 1, 1] : tensor<4xf32> into tensor<2x3x4xf32>
      return %r, %x0 : tensor<2x3x4xf32>, tensor<2x3x4xf32>"""
    got, before = run(body, X, part, results=["tensor<2x3x4xf32>"] * 2)
    expected = X.copy()
    expected[1, 2] = part
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(before, X)


def test_elements_sizes_and_bodies() -> None:
    body = """
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %n = tensor.dim %x0, %c2 : tensor<2x3x4xf32>
      %e = tensor.extract %x0[%c0, %c2, %c2] : tensor<2x3x4xf32>
      %pair = tensor.from_elements %e, %e : tensor<2xf32>
      %inserted = tensor.insert %e into %pair[%c0] : tensor<2xf32>
      %made = tensor.generate %n {
      ^bb0(%i: index):
        %j = arith.index_cast %i : index to i64
        tensor.yield %j : i64
      } : tensor<?xi64>
      %z = arith.constant 9.0 : f32
      %padded = tensor.pad %pair low[1] high[2] {
      ^bb0(%i: index):
        tensor.yield %z : f32
      } : tensor<2xf32> to tensor<5xf32>
      return %inserted, %made, %padded : tensor<2xf32>, tensor<?xi64>, tensor<5xf32>"""
    inserted, made, padded = run(body, X, results=["tensor<2xf32>", "tensor<?xi64>", "tensor<5xf32>"])
    np.testing.assert_array_equal(inserted, [10, 10])
    np.testing.assert_array_equal(made, range(4))
    np.testing.assert_array_equal(padded, [9, 10, 10, 9, 9])


def test_an_element_that_is_not_there_is_told() -> None:
    body = """
      %c = arith.constant 3 : index
      %e = tensor.extract %x0[%c] : tensor<3xf32>
      %r = tensor.from_elements %e : tensor<1xf32>
      return %r : tensor<1xf32>"""
    with pytest.raises(StepwellError, match=r"tensor\.extract.*index 3 is outside of dimension 0 of \[3\]"):
        run(body, floats(1, 2, 3), results=["tensor<1xf32>"])


def test_what_nothing_was_written_to_shows() -> None:
    floating, integer = run("%f = tensor.empty() : tensor<2xf16>\n%i = tensor.empty() : tensor<2xi8>\nreturn %f, %i : tensor<2xf16>, tensor<2xi8>",
                            results=["tensor<2xf16>", "tensor<2xi8>"])  # fmt: skip
    assert np.isnan(floating.astype(float)).all()
    assert (integer == -0x55).all()


# --- control


def test_loops_carry_tensors_of_their_own() -> None:
    """The carried tensor is written to, what it began as and what else the loop reads is not."""
    body = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %zero = arith.constant 0.0 : f32
      %out, %total = scf.for %i = %c0 to %c3 step %c1 iter_args(%o = %x0, %t = %zero) -> (tensor<3xf32>, f32) {
        %e = tensor.extract %x0[%i] : tensor<3xf32>
        %next = arith.addf %t, %e : f32
        %changed = tensor.insert %next into %o[%i] : tensor<3xf32>
        scf.yield %changed, %next : tensor<3xf32>, f32
      }
      %same = scf.for %i = %c0 to %c3 step %c1 iter_args(%o = %out) -> (tensor<3xf32>) {
        %changed = tensor.insert %zero into %o[%i] : tensor<3xf32>
        scf.yield %x0 : tensor<3xf32>
      }
      return %out, %x0, %same : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>"""
    sums, before, same = run(body, floats(1, 2, 4), results=["tensor<3xf32>"] * 3)
    np.testing.assert_array_equal(sums, [1, 3, 7])
    np.testing.assert_array_equal(before, [1, 2, 4])
    np.testing.assert_array_equal(same, [1, 2, 4])


def test_branches_and_calls() -> None:
    body = """
      %c0 = arith.constant 0 : index
      %c = tensor.extract %x0[%c0] : tensor<1xi1>
      %r = scf.if %c -> tensor<1xi1> {
        scf.yield %x0 : tensor<1xi1>
      } else {
        %n = func.call @not(%x0) : (tensor<1xi1>) -> tensor<1xi1>
        scf.yield %n : tensor<1xi1>
      }
      return %r : tensor<1xi1>
    }
    func.func @not(%a: tensor<1xi1>) -> tensor<1xi1> {
      %one = arith.constant dense<true> : tensor<1xi1>
      %n = arith.xori %a, %one : tensor<1xi1>
      return %n : tensor<1xi1>"""
    for value in (False, True):
        np.testing.assert_array_equal(run(body, np.array([value]), results=["tensor<1xi1>"])[0], [True])


def test_an_op_without_a_meaning_is_named() -> None:
    with pytest.raises(StepwellError, match=r"^SW000 math\.ctpop of an unnamed node has no meaning that can be run"):
        run("%r = math.ctpop %x0 : tensor<2xi8>\nreturn %r : tensor<2xi8>", ints(1, 2), results=["tensor<2xi8>"])
    assert "math.ctpop" not in MEANINGS


def test_a_module_without_main() -> None:
    context = make_context()
    with context, ir.Location.file("test", 1, 1), pytest.raises(IRError, match="no function @main"):
        interpret(parse_module("func.func @other() { return }", context), [])


# --- structured ops


def generic(maps: Sequence[str], iterators: str, kinds: Sequence[str], out: str, body: str) -> str:
    names = [f"%x{i}" for i in range(len(kinds))]
    element = [k.rstrip(">").split("x")[-1] for k in (*kinds, out)]
    arguments = ", ".join(f"%{letter}: {e}" for letter, e in zip([*"abcdef"[: len(kinds)], "o"], element, strict=True))
    return f"""
      %init = arith.constant dense<0.0> : {out}
      %r = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}], iterator_types = [{iterators}]}}
        ins({", ".join(names)} : {", ".join(kinds)}) outs(%init : {out}) {{
      ^bb0({arguments}):
        {body}
        linalg.yield %y : {element[-1]}
      }} -> {out}
      return %r : {out}"""


@pytest.mark.parametrize("points", [1, 7, 1 << 21])
def test_a_convolution(points: int) -> None:
    """Strided, over windows, in parts of any size."""
    random = np.random.default_rng(3)
    x, w = random.normal(size=(3, 11)).astype(np.float32), random.normal(size=(4, 3, 3)).astype(np.float32)
    text = generic(
        ["(o, p, c, k) -> (c, 2 * p + k)", "(o, p, c, k) -> (o, c, k)", "(o, p, c, k) -> (o, p)"], '"parallel", "parallel", "reduction", "reduction"',
        ["tensor<3x11xf32>", "tensor<4x3x3xf32>"], "tensor<4x5xf32>", "%m = arith.mulf %a, %b : f32\n%y = arith.addf %o, %m : f32",
    )  # fmt: skip
    with mock.patch.object(structured, "POINTS", points):
        (got,) = run(text, x, w, results=["tensor<4x5xf32>"])
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), 3, axis=1)[:, ::2]
    np.testing.assert_allclose(got, np.einsum("cpk,ock->op", windows, w.astype(float)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("points", [2, 1 << 21])
def test_a_fold_that_is_not_known_goes_step_by_step(points: int) -> None:
    """x <- 2 x + a: the order matters."""
    x = np.random.default_rng(4).integers(-5, 5, (3, 6)).astype(np.float32)
    text = generic(["(i, r) -> (i, r)", "(i, r) -> (i)"], '"parallel", "reduction"', ["tensor<3x6xf32>"], "tensor<3xf32>",
                   "%t = arith.addf %o, %o : f32\n%y = arith.addf %t, %a : f32")  # fmt: skip
    with mock.patch.object(structured, "POINTS", points):
        (got,) = run(text, x, results=["tensor<3xf32>"])
    np.testing.assert_array_equal(got, x @ 2.0 ** np.arange(5, -1, -1))


def test_a_term_that_a_reduction_does_not_depend_on_counts_each_time() -> None:
    text = generic(["(i, r) -> (i)", "(i, r) -> (r)", "(i, r) -> (i)"], '"parallel", "reduction"', ["tensor<2xf32>", "tensor<5xf32>"],
                   "tensor<2xf32>", "%y = arith.addf %o, %a : f32")  # fmt: skip
    np.testing.assert_array_equal(run(text, floats(1, 3), np.zeros(5, np.float32), results=["tensor<2xf32>"])[0], [5, 15])


def test_broadcast_transposed_backwards_and_by_index() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = generic(["(i, j) -> (1 - j, i)", "(i, j) -> (0)", "(i, j) -> (i, j)"], '"parallel", "parallel"', ["tensor<2x3xf32>", "tensor<1xf32>"],
                   "tensor<3x2xf32>", """%i = linalg.index 0 : index
        %j = arith.index_cast %i : index to i32
        %f = arith.sitofp %j : i32 to f32
        %s = arith.mulf %a, %b : f32
        %y = arith.addf %s, %f : f32""")  # fmt: skip
    (got,) = run(text, x, floats(10), results=["tensor<3x2xf32>"])
    np.testing.assert_array_equal(got, x[::-1].T * 10 + np.arange(3)[:, None])


def test_reading_beside_an_operand_is_told() -> None:
    """The verifier sees it where sizes are known."""
    maps = "affine_map<(i, r) -> (i + r)>, affine_map<(i, r) -> (r)>, affine_map<(i, r) -> (i)>"
    text = f"""
      %x = tensor.cast %x0 : tensor<5xf32> to tensor<?xf32>
      %out = tensor.cast %x2 : tensor<4xf32> to tensor<?xf32>
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "reduction"]}}
        ins(%x, %x1 : tensor<?xf32>, tensor<3xf32>) outs(%out : tensor<?xf32>) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %y = arith.addf %o, %a : f32
        linalg.yield %y : f32
      }} -> tensor<?xf32>
      return %r : tensor<?xf32>"""
    with pytest.raises(StepwellError, match=r"linalg\.generic.*indices 0 to 5 of dimension 0 are outside of an operand of shape \[5\]"):
        run(text, *(np.zeros(n, np.float32) for n in (5, 3, 4)), results=["tensor<?xf32>"])


def test_named_structured_ops_mean_their_bodies() -> None:
    a, b = (np.random.default_rng(s).normal(size=shape).astype(np.float32) for s, shape in ((1, (3, 4)), (2, (4, 5))))
    text = """%init = arith.constant dense<1.0> : tensor<3x5xf32>
      %r = linalg.matmul ins(%x0, %x1 : tensor<3x4xf32>, tensor<4x5xf32>) outs(%init : tensor<3x5xf32>) -> tensor<3x5xf32>
      return %r : tensor<3x5xf32>"""
    np.testing.assert_allclose(run(text, a, b, results=["tensor<3x5xf32>"])[0], 1 + a.astype(float) @ b, atol=1e-6)
