"""Intrinsics by results: integers are exact whatever computes them, on every layout, with what is left over, by plugins' intrinsics too."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from covering import split_by_day
from linalg_model import kernel_text

import stepwell
from stepwell.dialects.core.mlir import arith, ir, vector
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target import dot_products
from stepwell.dialects.target.host import host

RNG = np.random.default_rng(17)
USUAL = [i for i in dot_products.all_dot_products() if i.name != dot_products.PORTABLE]
OF_VECTORS, OF_TILES = (tuple(i for i in USUAL if (i.tile is None) is without) for without in (True, False))
TYPES = {"s8": (-128, 128, "si"), "u8": (0, 256, "ui"), "s16": (-(1 << 15), 1 << 15, "si"), "u16": (0, 1 << 16, "ui"), "b16": (-256, 257, "f")}


def draw(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random integers with the extremes among them, as int64: those that bf16 holds have sums that f32 holds, whatever their order."""
    low, high, _ = TYPES[kind]
    values = RNG.integers(low, high, shape)
    values.flat[:: max(1, values.size // 5)] = RNG.choice([low, high - 1])
    return values


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "b16":
        return values.astype(to_numpy("bf16"))
    return values.astype(f"{'u' if kind[0] == 'u' else ''}int{kind[1:]}").view(f"int{kind[1:]}")


def attribute(unroll: tuple[int, ...], vector: int, width: int, intrinsic: str) -> str:
    steps = ", ".join(map(str, unroll))
    order = ", ".join(str(d) for d in range(len(unroll)) if d < 2)
    return (
        f'sched.nest = #sched.nest<{{intrinsic = "{intrinsic}", order = array<i64: {order}>, parallel = 1 : i64, unroll = array<i64: {steps}>, '
        f"vector = {vector} : i64, width = {width} : i64}}>"
    )


def product_body(kinds: tuple[str, str], m: int, n: int, k: int, *, transposed: bool, sched: str = "") -> str:
    a, b = ("bf16" if kind == "b16" else f"i{kind[1:]}" for kind in kinds)
    number, letter, start = ("f32", "f", "3.0") if "b16" in kinds else ("i32", "i", "3")
    rhs, shape = ("(i, j, k) -> (j, k)", f"{n}x{k}") if transposed else ("(i, j, k) -> (k, j)", f"{k}x{n}")
    result = f"tensor<{m}x{n}x{number}>"
    return f"""
      %zero = arith.constant {start} : {number}
      %e = tensor.empty() : {result}
      %f = linalg.fill ins(%zero : {number}) outs(%e : {result}) -> {result}
      %1 = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<{rhs}>, affine_map<(i, j, k) -> (i, j)>],
        iterator_types = ["parallel", "parallel", "reduction"]{", " + sched if sched else ""}}}
        ins(%x0, %x1 : tensor<{m}x{k}x{a}>, tensor<{shape}x{b}>) outs(%f : {result}) {{
      ^bb0(%p: {a}, %q: {b}, %acc: {number}):
        %pw = arith.ext{TYPES[kinds[0]][2]} %p : {a} to {number}
        %qw = arith.ext{TYPES[kinds[1]][2]} %q : {b} to {number}
        %m = arith.mul{letter} %pw, %qw : {number}
        %s = arith.add{letter} %acc, %m : {number}
        linalg.yield %s : {number}
      }} -> {result}
      return %1 : {result}"""


def run(body: str, a: np.ndarray, b: np.ndarray, kinds: tuple[str, str], shape: tuple[int, ...]) -> np.ndarray:
    inputs = [stored(a, kinds[0]), stored(b, kinds[1])]
    model = stepwell.compile_ir(kernel_text(body, inputs, TensorType("f32" if "b16" in kinds else "i32", shape)), "linalg", WeightTable(), threads=2)
    return model.run({"x0": inputs[0], "x1": inputs[1]})["y"]


@pytest.fixture
def _supported(chosen: dot_products.Intrinsic) -> None:
    if missing := chosen.features - host().features:
        pytest.skip(f"this machine has no {', '.join(sorted(missing))}")


def of_each_intrinsic(test: Callable[..., None], among: tuple[dot_products.Intrinsic, ...] = OF_VECTORS) -> Any:
    """Run a test with each intrinsic that this machine has; it is skipped with the others, so that all machines have the same tests."""
    return pytest.mark.usefixtures("_supported")(pytest.mark.parametrize("chosen", among, ids=[i.name for i in among])(test))


def check_product(kinds: tuple[str, str], sizes: tuple[int, int, int], *, transposed: bool, sched: str = "") -> None:
    m, n, k = sizes
    a, b = draw(kinds[0], (m, k)), draw(kinds[1], (n, k) if transposed else (k, n))
    got = run(product_body(kinds, m, n, k, transposed=transposed, sched=sched), a, b, kinds, (m, n))
    sums = a @ (b.T if transposed else b) + 3
    want = sums if "b16" in kinds else sums.astype(np.uint64).astype(np.uint32).view(np.int32)  # sums in 32 bits wrap around
    np.testing.assert_array_equal(got, want)


@of_each_intrinsic
@split_by_day("calls", [2], [1])
def test_lanes_along_columns(chosen: dot_products.Intrinsic, calls: int) -> None:
    # Columns, rows and sums that leave something over: 2 vectors and 3 columns, 4 rows in threes, an odd sum.
    sizes = (4, 2 * chosen.lanes * calls + 3, 5 * chosen.depth + 1)
    check_product(chosen.operands, sizes, transposed=False, sched=attribute((3, 1, 1), 1, chosen.lanes * calls, chosen.name))


@of_each_intrinsic
@split_by_day("calls", [1], [2])
def test_lanes_along_the_sum(chosen: dot_products.Intrinsic, calls: int) -> None:
    step = chosen.lanes * chosen.depth * calls
    check_product(chosen.operands, (4, 5, 2 * step + step // 2 + 3), transposed=True, sched=attribute((3, 2, 1), 2, step, chosen.name))


@of_each_intrinsic
def test_operands_in_the_other_order(chosen: dot_products.Intrinsic) -> None:
    kinds = (chosen.operands[1], chosen.operands[0])
    check_product(kinds, (3, chosen.lanes + 1, 4 * chosen.depth), transposed=False, sched=attribute((2, 1, 1), 1, chosen.lanes, chosen.name))


def tiles_body(chosen: dot_products.Intrinsic, m: int, n: int, k: int) -> str:
    """A product whose right-hand side has `depth` neighbours of each column side by side, as tiles read it."""
    depth, number, letter = chosen.depth, chosen.result, chosen.result[0]
    a, b = ("bf16" if kind == "b16" else f"i{kind[1:]}" for kind in chosen.operands)
    result, start = f"tensor<{m}x{n}x{number}>", "3.0" if letter == "f" else "3"
    return f"""
      %zero = arith.constant {start} : {number}
      %e = tensor.empty() : {result}
      %f = linalg.fill ins(%zero : {number}) outs(%e : {result}) -> {result}
      %1 = linalg.generic {{indexing_maps = [affine_map<(i, j, k, l) -> (i, k * {depth} + l)>, affine_map<(i, j, k, l) -> (k, j, l)>,
        affine_map<(i, j, k, l) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
        ins(%x0, %x1 : tensor<{m}x{k}x{a}>, tensor<{k // depth}x{n}x{depth}x{b}>) outs(%f : {result}) {{
      ^bb0(%p: {a}, %q: {b}, %acc: {number}):
        %pw = arith.ext{TYPES[chosen.operands[0]][2]} %p : {a} to {number}
        %qw = arith.ext{TYPES[chosen.operands[1]][2]} %q : {b} to {number}
        %m = arith.mul{letter} %pw, %qw : {number}
        %s = arith.add{letter} %acc, %m : {number}
        linalg.yield %s : {number}
      }} -> {result}
      return %1 : {result}"""


@partial(of_each_intrinsic, among=OF_TILES)
def test_tiles_of_all_numbers_of_rows_and_steps(chosen: dot_products.Intrinsic) -> None:
    """Whole tiles, and those of what is left over of rows and of the sum."""
    for m, steps in ((16, 16), (33, 17), (47, 40), (40, 5), (70, 35), (24, 16)):
        n, k = 64, steps * chosen.depth
        a, b = draw(chosen.operands[0], (m, k)), draw(chosen.operands[1], (k, n))
        grouped = np.ascontiguousarray(b.reshape(steps, chosen.depth, n).transpose(0, 2, 1))
        inputs = [stored(a, chosen.operands[0]), stored(grouped, chosen.operands[1])]
        text = kernel_text(tiles_body(chosen, m, n, k), inputs, TensorType(chosen.result, (m, n)))
        model = stepwell.compile_ir(text, "linalg", WeightTable(), threads=2)
        assert f'intrinsic = "{chosen.name}"' in model.ir("scheduled"), (m, steps)
        np.testing.assert_array_equal(model.run({"x0": inputs[0], "x1": inputs[1]})["y"], (a @ b + 3).astype(to_numpy(chosen.result)))


@pytest.mark.parametrize("kinds", [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8"), ("s16", "s16"), ("s8", "s16"), ("u16", "s8")])
@pytest.mark.parametrize("transposed", [False, True])
def test_what_is_chosen_by_default_is_exact(kinds: tuple[str, str], transposed: bool) -> None:
    check_product(kinds, (7, 75, 70), transposed=transposed)


def scheduled(kinds: tuple[str, str], target: str, transposed: bool = False) -> str:
    """The intrinsic that a product is given on a target, or none."""
    inputs = [np.zeros((64, 64), f"int{kind[1:]}") for kind in kinds]
    body = product_body(kinds, 64, 64, 64, transposed=transposed)
    lowered = stepwell.read_ir(kernel_text(body, inputs, TensorType("i32", (64, 64))), "linalg", WeightTable(), target=target)
    found = re.findall(r'intrinsic = "([^"]+)"', stepwell.descend(lowered, "scheduled").text())
    assert len(found) <= 1
    return found[0] if found else "none"


def test_targets_choose_what_they_have() -> None:
    assert scheduled(("s8", "s8"), "x86-64-v2") == "none"
    assert scheduled(("u8", "s8"), "x86-64-v4-vnni") == scheduled(("s8", "u8"), "x86-64-v4-vnni") == "vpdpbusd.512"
    assert scheduled(("s8", "s8"), "x86-64-v4-vnni") == "vpdpwssd.512"
    assert scheduled(("u8", "s8"), "avx-vnni") == "vpdpbusd.256"
    assert scheduled(("s8", "s8"), "avx-vnni") == "vpdpwssd.256"
    assert scheduled(("s8", "s8"), "x86-64-v3") == scheduled(("u8", "s8"), "x86-64-v3") == "pmaddwd.256"
    assert scheduled(("s8", "s8"), "x86-64-v3", transposed=True) == "pmaddwd.256"
    assert scheduled(("s8", "s16"), "x86-64-v4") == "pmaddwd.512"
    assert scheduled(("u16", "s16"), "x86-64-v4") == "none"  # an unsigned number of 16 bits is none with a sign
    assert scheduled(("s8", "s8"), "aarch64-dotprod") == "sdot.128"
    assert scheduled(("u8", "u8"), "aarch64-dotprod") == "udot.128"
    assert scheduled(("u8", "s8"), "aarch64-dotprod") == "smlal.128"  # neither dot product takes both signs
    assert scheduled(("s8", "s8"), "aarch64-neon") == "smlal.128"


def test_a_convolution_of_integers() -> None:
    x, w = draw("u8", (2, 5, 9, 20)), draw("s8", (6, 5, 3, 3))
    body = """
      %zero = arith.constant 0 : i32
      %e = tensor.empty() : tensor<2x6x7x18xi32>
      %f = linalg.fill ins(%zero : i32) outs(%e : tensor<2x6x7x18xi32>) -> tensor<2x6x7x18xi32>
      %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, y, z) -> (n, c, h + y, w + z)>,
        affine_map<(n, f, h, w, c, y, z) -> (f, c, y, z)>, affine_map<(n, f, h, w, c, y, z) -> (n, f, h, w)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%x0, %x1 : tensor<2x5x9x20xi8>, tensor<6x5x3x3xi8>) outs(%f : tensor<2x6x7x18xi32>) {
      ^bb0(%a: i8, %b: i8, %acc: i32):
        %aw = arith.extui %a : i8 to i32
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %aw, %bw : i32
        %s = arith.addi %acc, %p : i32
        linalg.yield %s : i32
      } -> tensor<2x6x7x18xi32>
      return %1 : tensor<2x6x7x18xi32>"""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(run(body, x, w, ("u8", "s8"), (2, 6, 7, 18)), np.einsum("nchwyz,fcyz->nfhw", windows, w))


def test_a_plugin_declares_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_products, "_INTRINSICS", dict(dot_products._INTRINSICS))
    calls = []

    @dot_products.intrinsic("mine", features=(), lanes=4, depth=2, operands=("s16", "s16"), instructions=0.1)
    def emit(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        """A fixed sequence of vector ops: products, then the sum of the even and of the odd ones."""
        calls.append(x.type)
        wide = ir.VectorType.get([8], acc.type.element_type)
        products = arith.muli(arith.extsi(wide, x), arith.extsi(wide, y))
        even, odd = vector.deinterleave(products)
        return arith.addi(acc, arith.addi(even, odd))

    assert scheduled(("s8", "s8"), "x86-64-v2") == "mine"
    check_product(("s8", "s8"), (5, 21, 7), transposed=False, sched=attribute((2, 1, 1), 1, 4, "mine"))
    assert calls


@pytest.mark.parametrize(
    ("width", "name", "message"),
    [
        (4, "pmaddwd.256", "knob 'width': 4 is not legal for the intrinsic 'pmaddwd.256', expected a multiple of 8"),
        (8, "sdot.128", "knob 'intrinsic': 'sdot.128' is not legal, expected one of none, pmaddwd.256"),
    ],
)
def test_what_is_not_legal_is_named(width: int, name: str, message: str) -> None:
    body = product_body(("s8", "s8"), 8, 8, 8, transposed=False, sched=attribute((2, 1, 1), 1, width, name))
    text = kernel_text(body, [np.zeros((8, 8), np.int8)] * 2, TensorType("i32", (8, 8)))
    with pytest.raises(ScheduleError, match=message):
        stepwell.descend(stepwell.read_ir(text, "linalg", WeightTable(), target="x86-64-v3"), "affine")
