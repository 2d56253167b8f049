"""Default schedules that depend on how many cores there are."""

from dataclasses import replace

import pytest

from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.target.registry import resolve
from stepwell.passes.framework.rewriting import ops_below
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.defaults import default

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
