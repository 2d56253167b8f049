"""The generic lowering to affine and vector, by results: schedules must never change what is computed."""

import itertools

import numpy as np
import pytest
from covering import each, pairs
from hypothesis import example, given, settings, strategies as st
from linalg_model import run_kernel

from stepwell.dialects.core.sizes import evaluated, symbol
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import ScheduleError
from stepwell.passes.schedule.segments import MOST_LENGTHS, Rest, Segment, overlapping_segments, segments, vector_segments

EPSILON = np.finfo(np.float32).eps


def schedule(order, parallel, unroll, vector, width, block=(), prefetch=0, along=-1):
    def numbers(values):
        return "array<i64" + (": " + ", ".join(map(str, values)) if values else "") + ">"

    return (
        f"sched.nest = #sched.nest<{{order = {numbers(order)}, parallel = {parallel} : i64, unroll = {numbers(unroll)}, "
        f"vector = {vector} : i64, width = {width} : i64{f', block = {numbers(block)}' if any(block) else ''}"
        f"{f', prefetch = {prefetch} : i64, along = {along} : i64' if prefetch else ''}}}>"
    )


def product_body(m, n, k, sched):
    result = f"tensor<{m}x{n}xf32>"
    return f"""
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {result}
      %f = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %1 = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
        iterator_types = ["parallel", "parallel", "reduction"], {sched}}}
        ins(%x0, %x1 : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) outs(%f : {result}) {{
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %p = arith.mulf %a, %b fastmath<contract> : f32
        %s = arith.addf %acc, %p fastmath<contract> : f32
        linalg.yield %s : f32
      }} -> {result}
      %2 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}} ins(%x2 : tensor<{n}xf32>) outs(%1 : {result}) {{
      ^bb0(%b: f32, %o: f32):
        %s = arith.addf %o, %b : f32
        linalg.yield %s : f32
      }} -> {result}
      return %2 : {result}"""


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 13), st.integers(1, 37), st.integers(1, 20)),
    row_tile=st.integers(1, 5),
    column_tile=st.integers(1, 3),
    vector=st.sampled_from([-1, 1]),
    width=st.sampled_from([2, 4, 8, 16]),
    swap=st.booleans(),
    parallel=st.integers(0, 2),
    blocks=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)),
    prefetch=st.sampled_from([0, 4]),
    along=st.sampled_from([-1, 0, 1]),
)
@example((13, 37, 20), 2, 1, 1, 8, False, 1, (2, 1, 7), 8, -1)
@example((13, 37, 20), 5, 1, 1, 4, True, 2, (1, 2, 10), 0, -1)
@example((7, 9, 3), 2, 3, -1, 8, True, 0, (1, 1, 1), 4, -1)
@example((13, 37, 20), 5, 1, 1, 8, True, 1, (0, 0, 0), 1, 1)
def test_any_legal_schedule_of_a_product_gives_the_product(sizes, row_tile, column_tile, vector, width, swap, parallel, blocks, prefetch, along):
    m, n, k = sizes
    rng = np.random.default_rng(m * 1000 + n * 10 + k)
    a, b, bias = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32), rng.standard_normal(n).astype(np.float32)
    unroll = (min(row_tile, m), 1 if vector == 1 else min(column_tile, n), 1)
    steps = (unroll[0], width if vector == 1 else unroll[1], 1)
    block = tuple(n * step if n * step <= size else 0 for n, step, size in zip(blocks, steps, sizes, strict=True))
    sched = schedule((1, 0) if swap else (0, 1), parallel, unroll, vector, width, block, prefetch, along)
    got = run_kernel(product_body(m, n, k, sched), [a, b, bias], TensorType("f32", (m, n)), threads=2)
    bound = EPSILON * (k + 2) * (np.abs(a) @ np.abs(b) + np.abs(bias))
    assert (np.abs(got - (a.astype(np.float64) @ b + bias)) <= bound).all()


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 37), st.integers(1, 70)),
    dtype=st.sampled_from(["i8", "i16", "f32", "f64"]),
    rows=st.integers(1, 20),
    width=st.sampled_from([1, 2, 4, 8, 16, 32]),
    swap=st.booleans(),
)
@example((37, 70), "f32", 16, 16, False)
@example((37, 70), "i8", 20, 32, True)
@example((18, 21), "i16", 11, 8, False)
@example((9, 13), "f64", 4, 4, True)
@example((5, 16), "f32", 3, 16, False)
def test_an_input_that_lies_across_is_transposed_in_registers(sizes, dtype, rows, width, swap):
    m, n = sizes
    numbers = np.random.default_rng(m * 100 + n).integers(-100, 100, (2, m * n))
    kind = {"i8": np.int8, "i16": np.int16, "f32": np.float32, "f64": np.float64}[dtype]
    across, along = numbers[0].astype(kind).reshape(n, m), (numbers[1] // 50).astype(kind).reshape(m, n)
    unroll = (min(rows, m), 1)
    body = f"""
      %e = tensor.empty() : tensor<{m}x{n}x{dtype}>
      %1 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"], {schedule((1, 0) if swap else (0, 1), 0, unroll, 1, width)}}}
        ins(%x0, %x1 : tensor<{n}x{m}x{dtype}>, tensor<{m}x{n}x{dtype}>) outs(%e : tensor<{m}x{n}x{dtype}>) {{
      ^bb0(%a: {dtype}, %b: {dtype}, %o: {dtype}):
        %s = arith.{"subf" if dtype.startswith("f") else "subi"} %a, %b : {dtype}
        linalg.yield %s : {dtype}
      }} -> tensor<{m}x{n}x{dtype}>
      return %1 : tensor<{m}x{n}x{dtype}>"""
    np.testing.assert_array_equal(run_kernel(body, [across, along], TensorType(dtype, (m, n))), across.T - along)


@each({"step": [2, 3, 4, 5, -1, -2, -4], "width": [2, 4, 16]})
def test_elements_apart_in_a_row_are_picked_from_vectors_of_it(step, width):
    """Of a row that has not one element more than are read."""
    size, far = 21, abs(step)
    first = 0 if step > 0 else far * (size - 1)
    x = np.random.default_rng(width).standard_normal((3, far * (size - 1) + 1)).astype(np.float32)
    body = f"""
      %e = tensor.empty() : tensor<3x{size}xf32>
      %1 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j * {step} + {first})>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"], {schedule((0, 1), 0, (1, 1), 1, width)}}}
        ins(%x0 : tensor<3x{x.shape[1]}xf32>) outs(%e : tensor<3x{size}xf32>) {{
      ^bb0(%a: f32, %o: f32):
        %s = arith.negf %a : f32
        linalg.yield %s : f32
      }} -> tensor<3x{size}xf32>
      return %1 : tensor<3x{size}xf32>"""
    np.testing.assert_array_equal(run_kernel(body, [x], TensorType("f32", (3, size))), -x[:, ::step])


@pairs({
    ("length", "unroll"): [(2, 2), (2, 1), (4, 4), (4, 3), (4, 1)],
    "size": [5, 16, 21],
    ("width", "dtype"): [(2, "f64"), (4, "f32"), (16, "f32"), (16, "i8")],
})
def test_vectors_across_short_rows(length, unroll, size, width, dtype):
    """Whole rows of the tile are stored side by side, others element by element; what is read lies in short rows too, or along."""
    kind = {"i8": np.int8, "f32": np.float32, "f64": np.float64}[dtype]
    numbers = np.random.default_rng(size * width + length).integers(-50, 50, (3 * size * length + size,))
    x, along = numbers[:-size].astype(kind).reshape(3, size, length), numbers[-size:].astype(kind)
    result = f"tensor<3x{size}x{length}x{dtype}>"
    body = f"""
      %e = tensor.empty() : {result}
      %1 = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, j, {length - 1} - k)>, affine_map<(i, j, k) -> (i, j, k)>,
          affine_map<(i, j, k) -> (j)>, affine_map<(i, j, k) -> (i, j, k)>],
        iterator_types = ["parallel", "parallel", "parallel"], {schedule((0, 1, 2), 0, (1, 1, unroll), 1, width)}}}
        ins(%x0, %x0, %x1 : {result}, {result}, tensor<{size}x{dtype}>) outs(%e : {result}) {{
      ^bb0(%a: {dtype}, %b: {dtype}, %c: {dtype}, %o: {dtype}):
        %s = arith.{"subf" if dtype.startswith("f") else "subi"} %a, %b : {dtype}
        %t = arith.{"addf" if dtype.startswith("f") else "addi"} %s, %c : {dtype}
        linalg.yield %t : {dtype}
      }} -> {result}
      return %1 : {result}"""
    np.testing.assert_array_equal(run_kernel(body, [x, along], TensorType(dtype, (3, size, length))), x[..., ::-1] - x + along[:, None])


@pytest.mark.parametrize("size", [1, 7, 16, 49, 100])
def test_lanes_of_a_reduction_are_all_folded(size):
    x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
    body = f"""
      %init = arith.constant 2.5 : f32
      %e = tensor.empty() : tensor<3xf32>
      %f = linalg.fill ins(%init : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
      %1 = linalg.generic {{indexing_maps = [affine_map<(c, i) -> (c, i)>, affine_map<(c, i) -> (c)>], iterator_types = ["parallel", "reduction"],
        {schedule((0,), 0, (1, 1), 1, 8)}}} ins(%x0 : tensor<3x{size}xf32>) outs(%f : tensor<3xf32>) {{
      ^bb0(%i: f32, %acc: f32):
        %s = arith.addf %acc, %i : f32
        linalg.yield %s : f32
      }} -> tensor<3xf32>
      return %1 : tensor<3xf32>"""
    got = run_kernel(body, [x], TensorType("f32", (3,)))
    assert (np.abs(got - (x.astype(np.float64).sum(1) + 2.5)) <= EPSILON * (size + 2) * (np.abs(x).sum(1) + 2.5)).all()


def test_strided_window_and_epilogue_into_a_padded_result():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((2, 3, 11, 9), np.float32), rng.standard_normal((5, 3, 3, 2), np.float32)
    body = """
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<2x5x5x4xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x5x4xf32>) -> tensor<2x5x5x4xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, y, z) -> (n, c, h * 2 + y, w * 2 + z)>,
        affine_map<(n, f, h, w, c, y, z) -> (f, c, y, z)>, affine_map<(n, f, h, w, c, y, z) -> (n, f, h, w)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%x0, %x1 : tensor<2x3x11x9xf32>, tensor<5x3x3x2xf32>) outs(%f : tensor<2x5x5x4xf32>) {
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %p = arith.mulf %a, %b fastmath<contract> : f32
        %s = arith.addf %acc, %p fastmath<contract> : f32
        linalg.yield %s : f32
      } -> tensor<2x5x5x4xf32>
      %border = arith.constant 7.0 : f32
      %e1 = tensor.empty() : tensor<2x5x7x7xf32>
      %f1 = linalg.fill ins(%border : f32) outs(%e1 : tensor<2x5x7x7xf32>) -> tensor<2x5x7x7xf32>
      %2 = tensor.insert_slice %1 into %f1[0, 0, 1, 2] [2, 5, 5, 4] [1, 1, 1, 1] : tensor<2x5x5x4xf32> into tensor<2x5x7x7xf32>
      return %2 : tensor<2x5x7x7xf32>"""
    got = run_kernel(body, [x, w], TensorType("f32", (2, 5, 7, 7)))
    want = np.full((2, 5, 7, 7), 7.0)
    want[:, :, 1:6, 2:6] = 0
    for y, z in itertools.product(range(3), range(2)):
        want[:, :, 1:6, 2:6] += np.einsum("nchw,fc->nfhw", x[:, :, y : y + 9 : 2, z : z + 7 : 2].astype(np.float64), w[:, :, y, z])
    assert np.abs(got - want).max() <= EPSILON * 18 * np.abs(x).max() * np.abs(w).max() * 18


def test_a_kernel_with_two_stages_uses_scratch():
    x = np.random.default_rng(6).standard_normal((4, 33)).astype(np.float32)
    body = """
      %low = arith.constant 0xFF800000 : f32
      %e = tensor.empty() : tensor<4xf32>
      %f = linalg.fill ins(%low : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %m = linalg.generic {indexing_maps = [affine_map<(c, i) -> (c, i)>, affine_map<(c, i) -> (c)>], iterator_types = ["parallel", "reduction"]}
        ins(%x0 : tensor<4x33xf32>) outs(%f : tensor<4xf32>) {
      ^bb0(%i: f32, %acc: f32):
        %s = arith.maximumf %acc, %i : f32
        linalg.yield %s : f32
      } -> tensor<4xf32>
      %e1 = tensor.empty() : tensor<4x33xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(c, i) -> (c, i)>, affine_map<(c, i) -> (c)>, affine_map<(c, i) -> (c, i)>],
        iterator_types = ["parallel", "parallel"]} ins(%x0, %m : tensor<4x33xf32>, tensor<4xf32>) outs(%e1 : tensor<4x33xf32>) {
      ^bb0(%i: f32, %j: f32, %o: f32):
        %s = arith.subf %i, %j : f32
        linalg.yield %s : f32
      } -> tensor<4x33xf32>
      return %r : tensor<4x33xf32>"""
    np.testing.assert_array_equal(run_kernel(body, [x], TensorType("f32", (4, 33))), x - x.max(1, keepdims=True))


def test_an_illegal_schedule_is_refused_with_its_reason():
    sched = schedule((0, 1), 0, (1, 1, 2), 1, 4)
    with pytest.raises(ScheduleError, match=r"unroll: \[1, 1, 2\] is not legal, expected 3 numbers, 1 for each reduction of \[2\]"):
        run_kernel(product_body(2, 4, 3, sched), [np.zeros(s, np.float32) for s in ((2, 3), (3, 4), (4,))], TensorType("f32", (2, 4)))


@given(size=st.integers(1, 200), step=st.integers(1, 20))
def test_segments_cover_each_iteration_once(size, step):
    for cut in (segments(size, step), vector_segments(size, 1 << (step % 6))):
        covered = [i for s in cut for start in range(s.low, s.high, s.step) for i in range(start, start + s.step)]
        assert covered == list(range(size))


@given(factor=st.integers(1, 6), offset=st.integers(0, 5), step=st.integers(1, 30), n=st.integers(0, 40))
def test_segments_of_a_size_known_at_run_time_cover_each_iteration_once(factor, offset, step, n):
    size = factor * symbol("n") + offset
    covered, values = [], {"n": n}
    for part in segments(size, step):
        low, high = evaluated(part.low, values), evaluated(part.high, values)
        if isinstance(part, Rest):
            assert len(part.lengths) <= MOST_LENGTHS
            assert high == low or high - low in part.lengths
            covered += range(low, high)
        else:
            assert (high - low) % part.step == 0
            covered += range(low, high)
    assert covered == list(range(factor * n + offset))
    assert step % factor or offset or all(len(part.lengths) < step // factor for part in segments(size, step) if isinstance(part, Rest))


def test_booleans_read_along_a_vector_are_bytes_not_bits():
    rng = np.random.default_rng(9)
    mask, x = rng.random((5, 19)) < 0.5, rng.standard_normal((5, 19)).astype(np.float32)
    body = """
      %e = tensor.empty() : tensor<5x19xf32>
      %zero = arith.constant 0.0 : f32
      %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"], SCHEDULE} ins(%x0, %x1 : tensor<5x19xi1>, tensor<5x19xf32>) outs(%e : tensor<5x19xf32>) {
      ^bb0(%m: i1, %v: f32, %o: f32):
        %s = arith.select %m, %v, %zero : f32
        linalg.yield %s : f32
      } -> tensor<5x19xf32>
      return %1 : tensor<5x19xf32>""".replace("SCHEDULE", schedule((0, 1), 0, (1, 1), 1, 8))
    np.testing.assert_array_equal(run_kernel(body, [mask, x], TensorType("f32", (5, 19))), np.where(mask, x, 0))


@pytest.mark.parametrize("columns", [3, 19])
def test_epilogues_in_place_are_applied_in_their_order(columns):
    """Two that do not commute, in the nest of the product that they follow."""
    rng = np.random.default_rng(columns)
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (7, columns), (columns,)))
    result = f"tensor<5x{columns}xf32>"
    scaled = f"""%3 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}} ins(%x2 : tensor<{columns}xf32>) outs(%2 : {result}) {{
      ^bb0(%c: f32, %o: f32):
        %s = arith.mulf %o, %c : f32
        linalg.yield %s : f32
      }} -> {result}
      return %3"""
    body = product_body(5, columns, 7, schedule((0, 1), 0, (2, 1, 1), 1, 8)).replace("return %2", scaled)
    got = run_kernel(body, [a, b, bias], TensorType("f32", (5, columns)))
    bound = EPSILON * 10 * (np.abs(a) @ np.abs(b) + np.abs(bias)) * np.abs(bias)
    assert (np.abs(got - (a.astype(np.float64) @ b + bias) * bias) <= bound).all()


def test_a_last_vector_begins_inside_the_one_before():
    for size, width in itertools.product(range(1, 70), (1, 2, 4, 8, 16)):
        cut, halved = overlapping_segments(size, width), vector_segments(size, width)
        assert len(cut) <= 2
        assert {i for s in cut for i in range(s.low, s.high)} == set(range(size))
        assert all((s.high - s.low) % s.step == 0 and s.step <= width for s in cut)
        assert (cut == halved) == (len(halved) <= 2)
    assert overlapping_segments(27, 16) == [Segment(0, 16, 16), Segment(11, 27, 16)]
    assert overlapping_segments(55, 16) == [Segment(0, 48, 16), Segment(47, 55, 8)]
