"""Default schedules that depend on how many cores there are, and on what is known of sizes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stepwell.dialects.core.mlir import make_context, ops_below, parse_module
from stepwell.dialects.target.registry import resolve
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.defaults import contraction, default
from stepwell.passes.schedule.nest import Nest

TARGET = resolve("x86-64-v4")


def running_sum(batch: int, rows: int, columns: int) -> str:
    """y[b, i, j] = x[b, 0, j] + … + x[b, i, j]"""
    matrices, state = f"tensor<{batch}x{rows}x{columns}xf32>", f"tensor<{batch}x{columns}xf32>"
    whole, row = "affine_map<(b, j, i) -> (b, i, j)>", "affine_map<(b, j, i) -> (b, j)>"
    return f"""func.func @f(%x: {matrices}, %s: {state}, %y: {matrices}) -> {matrices} {{
      %0:2 = linalg.generic {{indexing_maps = [{whole}, {row}, {whole}], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x : {matrices}) outs(%s, %y : {state}, {matrices}) {{
      ^bb0(%a: f32, %sum: f32, %o: f32):
        %next = arith.addf %sum, %a : f32
        linalg.yield %next, %next : f32, f32
      }} -> ({state}, {matrices})
      return %0#1 : {matrices}
    }}"""


@pytest.mark.parametrize(
    ("sizes", "cores", "is_split"),
    [((1, 1024, 256), 2, False), ((1, 1024, 1024), 2, True), ((1, 1024, 1024), 8, False), ((8, 1024, 1024), 2, False), ((1, 1024, 4096), 8, True)],
)
def test_rows_of_a_scan_are_split_among_cores_where_each_gets_a_long_part(sizes: tuple[int, int, int], cores: int, is_split: bool) -> None:
    with make_context() as context:
        module = parse_module(running_sum(*sizes), context)
        [op] = ops_below(module.operation, "linalg.generic")
        found = default(Structured(op), replace(TARGET, cores=cores))
    assert found.vector == 1
    assert (found.vector in found.order[: found.parallel]) == is_split


def product(x: str, w: str, y: str, indices: str, maps: Sequence[str], size: str) -> str:
    """A product of `x` and `w`, of these shapes, which sums over the last of `indices`; `size` stands for a size of `x` and `y` that is `?`."""
    x, w, y = (f"tensor<{shape}xf32>" for shape in (x, w, y))
    iterators = ", ".join([*['"parallel"'] * indices.count(","), '"reduction"'])
    return f"""module attributes {{stepwell.size_hints = {{m = 130 : i64, few = 5 : i64}}}} {{
    func.func @f(%x: {x}, %w: {w}, %y: {y}) -> {y} attributes {{stepwell.kernel, stepwell.sizes = ["{size}", "{size}"]}} {{
      %0 = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{indices} -> {found}>" for found in maps)}], iterator_types = [{iterators}]}}
        ins(%x, %w : {x}, {w}) outs(%y : {y}) {{
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %m = arith.mulf %a, %b : f32
        %s = arith.addf %acc, %m : f32
        linalg.yield %s : f32
      }} -> {y}
      return %0 : {y}
    }}
    }}"""


def nest_of(text: str) -> Nest:
    """What is chosen for a product."""
    with make_context() as context:
        module = parse_module(text, context)
        [op] = ops_below(module.operation, "linalg.generic")
        return contraction(Structured(op), TARGET)


@pytest.mark.parametrize(("rows", "size", "tile"), [("?", "m", 8), ("?", "2*m", 8), ("130", "1", 10), ("?", "few", 5)])
def test_tiles_of_rows_that_only_a_run_counts_have_a_common_number_of_them(rows: str, size: str, tile: int) -> None:
    """130 rows are 13 tiles of 10, but 32, 64 or 128 are tiles of 8 without a rest."""
    found = nest_of(product(f"{rows}x64", "64x32", f"{rows}x32", "(i, j, k)", ("(i, k)", "(k, j)", "(i, j)"), size))
    assert (found.vector, found.unroll) == (1, (tile, 1, 1))


@pytest.mark.parametrize(
    ("rows", "panels", "tile", "prefetch", "along"),
    [("32", 64, 8, 1, 1), ("21", 64, 7, 1, 1), ("?", 64, 8, 1, 1), ("200", 64, 10, 32, -1), ("32", 2, 9, 32, -1), ("1", 64, 1, 8, -1)],
)
def test_few_rows_ask_for_the_next_panel_of_weights_that_no_second_cache_holds(rows: str, panels: int, tile: int, prefetch: int, along: int) -> None:
    """Weights in panels of 32 columns of 2048. More rows, or panels that the second cache holds, ask for what the first one lacks of the same one."""
    shapes = f"{rows}x2048", f"{panels}x2048x32", f"{rows}x{panels}x32"
    found = nest_of(product(*shapes, "(i, p, j, k)", ("(i, k)", "(p, k, j)", "(i, p, j)"), "m"))
    assert (found.unroll[0], found.prefetch, found.along) == (tile, prefetch, along)


@pytest.mark.parametrize(
    ("shapes", "rights", "asks"),
    [
        (("200x2048", "64x2048x32", "200x64x32"), "(p, k, j)", True),
        (("200x128", "64x128x32", "200x64x32"), "(p, k, j)", False),  # 16 kB: the first cache holds it
        (("200x256", "64x256x16", "200x64x16"), "(p, k, j)", True),  # two panels of 16 kB, and as much of ten rows as goes by
        (("200x192", "64x192x16", "200x64x16"), "(p, k, j)", False),
        (("200x2048", "2048x64x32", "200x64x32"), "(k, p, j)", False),  # what the next round reads is elsewhere
        (("200x2048", "64x2048x8", "200x64x8"), "(p, k, j)", False),  # half a line in each round
    ],
)
def test_panels_that_leave_the_first_cache_are_asked_for_some_rounds_before(shapes: tuple[str, str, str], rights: str, asks: bool) -> None:
    found = nest_of(product(*shapes, "(i, p, j, k)", ("(i, k)", rights, "(i, p, j)"), "1"))
    assert (found.prefetch, found.along) == (32 if asks else 0, -1)


def prefetch_of(x: str, w: str, y: str, indices: str, maps: Sequence[str]) -> int:
    """The prefetch distance in the default schedule of a product."""
    with make_context() as context:
        module = parse_module(product(x, w, y, indices, maps, ""), context)
        [op] = ops_below(module.operation, "linalg.generic")
        return contraction(Structured(op), TARGET).prefetch


@pytest.mark.parametrize(
    ("positions", "blocks", "tiles", "channels", "distance"),
    [
        (36, 8, 7, 64, 128),  # to the next pair of panels
        (36, 8, 49, 128, 256),
        (36, 8, 7, 144, 256),  # the largest legal distance
        (36, 8, 7, 256, 32),  # two pairs of panels exceed the first cache
        (36, 8, 196, 64, 0),  # so many tiles pass a pair that waiting for it once does not count
        (1, 2, 7, 64, 0),  # all of it is in the first cache
    ],
)  # fmt: skip
def test_panels_that_few_tiles_pass_are_prefetched(positions: int, blocks: int, tiles: int, channels: int, distance: int) -> None:
    shapes = f"{positions}x{tiles}x{channels}", f"{positions}x{blocks}x{channels}x16", f"{positions}x{blocks}x{tiles}x16"
    assert prefetch_of(*shapes, "(p, f, t, l, c)", ["(p, t, c)", "(p, f, c, l)", "(p, f, t, l)"]) == distance


@pytest.mark.parametrize(("panels", "depth", "distance"), [(128, 1024, 8), (8, 256, 0)])
def test_one_row_prefetches_a_matrix_in_memory(panels: int, depth: int, distance: int) -> None:
    shapes = f"1x{depth}", f"{panels}x{depth}x32", f"1x{panels}x32"
    assert prefetch_of(*shapes, "(r, p, l, c)", ["(r, c)", "(p, c, l)", "(r, p, l)"]) == distance
