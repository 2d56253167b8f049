"""Fused loops around several ops, by results: whatever is fused, the same comes out, and buffers between them shrink to slices."""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from integer_convolutions import draw, model
from linalg_model import run_kernel
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.mlir import ir, make_context, ops_below, parse_module
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import IRError, PassError
from stepwell.dialects.target.registry import resolve
from stepwell.driver.lowering import descend
from stepwell.passes.bufferize.kernels import _pack_chunks
from stepwell.passes.bufferize.packing import Lifetime
from stepwell.passes.framework.decisions import Decisions
from stepwell.passes.framework.registry import PassState
from stepwell.passes.linalg.fused_loops import FusedLoops, Slice
from stepwell.passes.linalg.stages import stages_on_memrefs, stages_on_tensors
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.fuse_loops import FuseLoops
from stepwell.pipelines.pipeline import Pipeline

EPSILON = np.finfo(np.float32).eps


def in_loops(*loops: tuple[str, int, int, int]) -> str:
    entries = [f'{{loop = "{name}", dim = {dim} : i64, step = {step} : i64, chunks = {chunks} : i64}}' for name, dim, step, chunks in loops]
    return f"sched.fused = #sched.fused<[{', '.join(entries)}]>"


def two_products(b: int, m: int, k: int, n: int, o: int, first: str, second: str) -> str:
    middle, result = f"tensor<{b}x{m}x{n}xf32>", f"tensor<{b}x{m}x{o}xf32>"
    return f"""
      %zero = arith.constant 0.0 : f32
      %e0 = tensor.empty() : {middle}
      %f0 = linalg.fill ins(%zero : f32) outs(%e0 : {middle}) -> {middle}
      %0 = {generic("%x0", f"tensor<{b}x{m}x{k}xf32>", "%x1", f"tensor<{k}x{n}xf32>", "%f0", middle, first)}
      %e1 = tensor.empty() : {result}
      %f1 = linalg.fill ins(%zero : f32) outs(%e1 : {result}) -> {result}
      %1 = {generic("%0", middle, "%x2", f"tensor<{n}x{o}xf32>", "%f1", result, second)}
      return %1 : {result}"""


def generic(lhs: str, lhs_type: str, rhs: str, rhs_type: str, out: str, out_type: str, loops: str) -> str:
    """out(b, i, j) += lhs(b, i, k) * rhs(k, j)"""
    return f"""linalg.generic {{indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (k, j)>,
        affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]{", " + loops if loops else ""}}}
        ins({lhs}, {rhs} : {lhs_type}, {rhs_type}) outs({out} : {out_type}) {{
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %p = arith.mulf %a, %b fastmath<contract> : f32
        %s = arith.addf %acc, %p fastmath<contract> : f32
        linalg.yield %s : f32
      }} -> {out_type}"""


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    chunks=st.integers(1, 4),
    level=st.integers(0, 2),
    threads=st.integers(1, 2),
)
def test_products_in_fused_loops_give_their_products(sizes, steps, chunks, level, threads):
    batch, rows = sizes[0] * steps[0], sizes[1] * steps[1]
    k, n, o = sizes[2:]
    loops = [("batch", 0, steps[0], chunks), ("rows", 1, steps[1], 1)][:level]
    rng = np.random.default_rng(sum(sizes))
    x, u, v = (rng.standard_normal(s, np.float32) for s in ((batch, rows, k), (k, n), (n, o)))
    body = two_products(batch, rows, k, n, o, *[in_loops(*loops)] * 2 if loops else ["", ""])
    got = run_kernel(body, [x, u, v], TensorType("f32", (batch, rows, o)), threads=threads)
    bound = EPSILON * (k + n + 2) * (np.abs(x) @ np.abs(u) @ np.abs(v))
    assert (np.abs(got - x.astype(np.float64) @ u @ v) <= bound).all()


def on_memrefs(lhs: str, lhs_shape: str, rhs: str, rhs_shape: str, out: str, out_shape: str, loops: str) -> str:
    """`generic` on memrefs of f32."""
    types = [f"memref<{shape}xf32>" for shape in (lhs_shape, rhs_shape, out_shape)]
    return generic(lhs, types[0], rhs, types[1], out, types[2], loops).removesuffix(f" -> {types[2]}")


def loops_of(first: str, second: str) -> tuple[FusedLoops, ir.Value]:
    """The fused loops of two products on memrefs, and the buffer between them; 4 batches of 6 rows."""

    text = f"""func.func @kernel(%x: memref<4x6x3xf32>, %u: memref<3x5xf32>, %v: memref<5x6xf32>, %y: memref<4x6x6xf32>) {{
      %m = memref.alloc() : memref<4x6x5xf32>
      {on_memrefs("%x", "4x6x3", "%u", "3x5", "%m", "4x6x5", first)}
      {on_memrefs("%m", "4x6x5", "%v", "5x6", "%y", "4x6x6", second)}
      return
    }}"""
    module = parse_module(text, CONTEXT)
    loops_of.module = module  # keeps what is returned alive
    found = ops_below(module.operation, "linalg.generic")
    return FusedLoops(stages_on_memrefs([Structured(op) for op in found])), ops_below(module.operation, "memref.alloc")[0].results[0]


CONTEXT = make_context()
WHOLE = 4 * 6 * 5 * 4  # bytes between the products


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ([], [], None),
        ([("b", 0, 1, 2)], [("b", 0, 1, 2)], Slice(1, 1, 2, 128)),  # six rows of five numbers, in whole cache lines
        ([("b", 0, 2, 1)], [("b", 0, 2, 1)], Slice(1, 1, 1, 256)),
        ([("b", 0, 1, 1), ("r", 1, 2, 1)], [("b", 0, 1, 1), ("r", 1, 2, 1)], Slice(2, 1, 1, 64)),
        ([("b", 0, 1, 1), ("r", 1, 2, 1)], [("b", 0, 1, 1), ("c", 2, 1, 1)], Slice(1, 1, 1, 128)),
        ([("b", 0, 1, 2), ("r", 1, 2, 1)], [("b", 0, 1, 2), ("r", 1, 2, 1)], Slice(2, 1, 2, 64)),  # each of the outer loop's chunks has its own
        ([("b", 0, 1, 1)], [("other", 0, 1, 1)], None),
        ([("b", 0, 1, 1), ("r", 1, 2, 1)], [("c", 0, 1, 1), ("r", 1, 3, 1)], None),  # loops of one name in different ones are two
    ],
)
def test_a_buffer_shrinks_in_the_loops_that_all_its_users_share(first, second, kept):
    with CONTEXT:
        fused, buffer = loops_of(*(in_loops(*loops) if loops else "" for loops in (first, second)))
        assert fused.slice_of(buffer, WHOLE) == kept


def test_rows_and_as_many_positions_are_one_walk():
    # 6 rows of 5 in steps of 2, read as 30 positions in steps of 10; batches are another walk, though of as many rounds.
    text = """func.func @kernel(%x: memref<4x6x3xf32>, %u: memref<3x5xf32>, %y: memref<4x30xf32>) {{
      %m = memref.alloc() : memref<4x6x5xf32>
      %v = memref.collapse_shape %m [[0], [1, 2]] : memref<4x6x5xf32> into memref<4x30xf32>
      {first}
      linalg.generic {{indexing_maps = [affine_map<(b, i) -> (b, i)>, affine_map<(b, i) -> (b, i)>], iterator_types = ["parallel", "parallel"],
        {second}}} ins(%v : memref<4x30xf32>) outs(%y : memref<4x30xf32>) {{
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      }}
      return
    }}"""
    with CONTEXT:
        first = on_memrefs("%x", "4x6x3", "%u", "3x5", "%m", "4x6x5", in_loops(("r", 1, 2, 1)))
        module = parse_module(text.format(first=first, second=in_loops(("r", 1, 10, 1))), CONTEXT)
        fused = FusedLoops(stages_on_memrefs([Structured(op) for op in ops_below(module.operation, "linalg.generic")]))
        buffer = ops_below(module.operation, "memref.alloc")[0].results[0]
        assert fused.slice_of(buffer, WHOLE) == Slice(1, 1, 1, 192)  # 4 x 2 x 5 numbers, in whole cache lines
        first = on_memrefs("%x", "4x6x3", "%u", "3x5", "%m", "4x6x5", in_loops(("r", 0, 2, 1)))
        module = parse_module(text.format(first=first, second=in_loops(("r", 1, 15, 1))), CONTEXT)
        with pytest.raises(PassError, match="it reads what other rounds make"):
            FusedLoops(stages_on_memrefs([Structured(op) for op in ops_below(module.operation, "linalg.generic")]))


def test_what_an_inner_loop_uses_lives_until_that_loop_ends():
    # The first product's result is used in every round of the inner loop, so also after the third product was made in the one before.
    first, inner = [("b", 0, 1, 1)], [("b", 0, 1, 1), ("r", 1, 2, 1)]
    text = f"""func.func @kernel(%x: memref<4x6x3xf32>, %u: memref<3x5xf32>, %v: memref<5x5xf32>, %y: memref<4x6x5xf32>) {{
      %m = memref.alloc() : memref<4x6x5xf32>
      %n = memref.alloc() : memref<4x6x5xf32>
      {on_memrefs("%x", "4x6x3", "%u", "3x5", "%m", "4x6x5", in_loops(*first))}
      {on_memrefs("%m", "4x6x5", "%v", "5x5", "%n", "4x6x5", in_loops(*inner))}
      {on_memrefs("%n", "4x6x5", "%v", "5x5", "%y", "4x6x5", in_loops(*inner))}
      return
    }}"""
    with CONTEXT:
        module = parse_module(text, CONTEXT)
        products = ops_below(module.operation, "linalg.generic")
        fused = FusedLoops(stages_on_memrefs([Structured(op) for op in products]))
        m, n = (op.results[0] for op in ops_below(module.operation, "memref.alloc"))
        assert fused.slice_of(m, WHOLE) == Slice(1, 1, 1, 128)
        assert fused.slice_of(n, WHOLE) == Slice(2, 1, 1, 64)
        assert set(fused.alive(m, fused.slice_of(m, WHOLE))) == set(products)
        assert set(fused.alive(n, fused.slice_of(n, WHOLE))) == set(products[1:])


def test_each_run_of_neighbours_in_a_loop_has_a_number():
    text = f"""func.func @kernel(%x: memref<4x6x3xf32>, %u: memref<3x5xf32>, %v: memref<5x5xf32>, %y: memref<4x6x5xf32>) {{
      %m = memref.alloc() : memref<4x6x5xf32>
      %n = memref.alloc() : memref<4x6x5xf32>
      {on_memrefs("%x", "4x6x3", "%u", "3x5", "%m", "4x6x5", in_loops(("b", 0, 1, 1)))}
      {on_memrefs("%m", "4x6x5", "%v", "5x5", "%n", "4x6x5", in_loops(("c", 0, 1, 1)))}
      {on_memrefs("%n", "4x6x5", "%v", "5x5", "%y", "4x6x5", in_loops(("c", 0, 1, 1)))}
      return
    }}"""
    with CONTEXT:
        module = parse_module(text, CONTEXT)
        fused = FusedLoops(stages_on_memrefs([Structured(op) for op in ops_below(module.operation, "linalg.generic")]))
        m, n = (op.results[0] for op in ops_below(module.operation, "memref.alloc"))
        assert fused.slice_of(m, WHOLE) is None
        assert fused.slice_of(n, WHOLE) == Slice(1, 2, 1, 128)


def epilogue_reading(place: str, offset: int) -> str:
    """A product in a loop over b whose result is added at `place` of a buffer to another product's, in the same loop."""
    b = f"b + {offset}" if offset else "b"
    shape = f"{4 + offset}x4x5"
    written = on_memrefs("%x", "4x4x3", "%u", "3x5", "%m", shape, in_loops(("b", 0, 1, 1))).replace("-> (b, i, j)>", f"-> ({b}, i, j)>")
    return f"""func.func @kernel(%x: memref<4x4x3xf32>, %u: memref<3x5xf32>, %y: memref<4x4x5xf32>) {{
      %m = memref.alloc() : memref<{shape}xf32>
      {written}
      {on_memrefs("%x", "4x4x3", "%u", "3x5", "%y", "4x4x5", in_loops(("b", 0, 1, 1)))}
      linalg.generic {{indexing_maps = [affine_map<(b, i, j) -> ({place}, j)>, affine_map<(b, i, j) -> (b, i, j)>],
        iterator_types = ["parallel", "parallel", "parallel"]}} ins(%m : memref<{shape}xf32>) outs(%y : memref<4x4x5xf32>) {{
      ^bb0(%a: f32, %o: f32):
        %s = arith.addf %o, %a : f32
        linalg.yield %s : f32
      }}
      return
    }}"""


def test_what_an_epilogue_reads_is_made_in_its_round():
    with CONTEXT:
        module = parse_module(epilogue_reading("b, i", 0), CONTEXT)
        stages = stages_on_memrefs([Structured(op) for op in ops_below(module.operation, "linalg.generic")])
        assert [len(stage.members) for stage in stages] == [1, 2]
        [alloc] = ops_below(module.operation, "memref.alloc")
        assert FusedLoops(stages).slice_of(alloc.results[0], 4 * 4 * 5 * 4) == Slice(1, 1, 1, 128)
        for place, offset in (("i, b", 0), ("b + 1, i", 1)):  # columns; and rows that do not begin where the buffer does
            other = parse_module(epilogue_reading(place, offset), CONTEXT)
            with pytest.raises(PassError, match="it reads what other rounds make"):
                FusedLoops(stages_on_memrefs([Structured(op) for op in ops_below(other.operation, "linalg.generic")]))


def test_a_buffer_of_which_others_read_a_slice_stays_whole():
    # The products share their loops, but the copy behind them reads the first one's result of all rounds.
    loops = in_loops(("b", 0, 1, 1))
    text = f"""func.func @kernel(%x: memref<4x6x3xf32>, %u: memref<3x5xf32>, %v: memref<5x6xf32>, %y: memref<4x6x6xf32>, %z: memref<4x6x2xf32>) {{
      %m = memref.alloc() : memref<4x6x5xf32>
      {on_memrefs("%x", "4x6x3", "%u", "3x5", "%m", "4x6x5", loops)}
      {on_memrefs("%m", "4x6x5", "%v", "5x6", "%y", "4x6x6", loops)}
      %s = memref.subview %m[0, 0, 0] [4, 6, 2] [1, 1, 1] : memref<4x6x5xf32> to memref<4x6x2xf32, strided<[30, 5, 1]>>
      linalg.generic {{indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>],
        iterator_types = ["parallel", "parallel", "parallel"]}} ins(%s : memref<4x6x2xf32, strided<[30, 5, 1]>>) outs(%z : memref<4x6x2xf32>) {{
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      }}
      return
    }}"""
    with CONTEXT:
        module = parse_module(text, CONTEXT)
        every = ops_below(module.operation, "linalg.generic")
        fused = FusedLoops(stages_on_memrefs([Structured(op) for op in every]))
        buffer = ops_below(module.operation, "memref.alloc")[0].results[0]
        assert fused.slice_of(buffer, WHOLE) is None
        assert set(fused.alive(buffer, None)) == set(every)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([("b", 0, 1, 1)], [("b", 1, 1, 1)], "take 6 and 4 rounds"),
        ([("b", 0, 1, 2)], [("b", 0, 1, 1)], "in 1 and 2 chunks"),
        ([("b", 0, 2, 1)], [("b", 2, 4, 1)], "steps of 4"),
        ([("b", 3, 1, 1)], [], "parallel dimensions are"),
        ([("r", 1, 2, 1)], [("r", 1, 3, 1)], "take 2 and 3 rounds"),
    ],
)
def test_loops_that_cannot_be_fused(first, second, message):
    with CONTEXT, pytest.raises(PassError, match=message):
        loops_of(*(in_loops(*loops) if loops else "" for loops in (first, second)))


@pytest.mark.parametrize(
    ("loops", "message"), [([("b", 0, 0, 1)], "step and chunks 1 or more"), ([("b", 0, 2, 1), ("r", 1, 3, 2)], "chunks 1 but for the first")]
)
def test_loops_that_make_no_sense_for_any_op(loops, message):
    with CONTEXT, pytest.raises(IRError, match=message):
        loops_of(in_loops(*loops), "")


def test_a_result_must_be_made_in_the_round_that_uses_it():
    # Both go round six times, but the first makes rows while the second goes over columns and wants all rows each time.
    with CONTEXT, pytest.raises(PassError, match="it reads what other rounds make"):
        loops_of(in_loops(("l", 1, 1, 1)), in_loops(("l", 2, 1, 1)))


def test_chunks_that_are_in_different_ops_of_a_loop_do_not_share_memory():
    one, two, other = Slice(1, 5, 3, 128), Slice(1, 5, 3, 256), Slice(1, 6, 2, 64)
    lifetimes = [Lifetime(128, 0, 1), Lifetime(256, 2, 3), Lifetime(100, 0, 4), Lifetime(64, 5, 6)]
    places, total = _pack_chunks(lifetimes, [one, two, None, other])
    taken = []  # by each chunk of each buffer while the first loop runs
    for index in (0, 1):
        start, kept = places[index]
        taken += [(start + chunk * kept.bytes, start + chunk * kept.bytes + lifetimes[index].size, chunk) for chunk in range(3)]
    for a in taken:
        assert a[1] <= total
        assert all(a[1] <= b[0] or b[1] <= a[0] for b in taken if a[2] != b[2])
        assert a[1] <= places[2][0] or places[2][0] + 100 <= a[0]
    assert places[2][1] is None
    assert places[3][1].bytes == 64
    assert total == 3 * 256 + 128  # the first two share each chunk's memory, and the last lies where they were


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize(("filters", "channels", "size"), [(32, 128, 28), (64, 32, 14), (24, 64, 30), (256, 128, 8)])
def test_what_is_fused_are_neighbours(filters: int, channels: int, size: int, floats: bool) -> None:
    """Stages of one name that others lie between would be two loops, with all that the first makes stored between them."""
    x, w = draw(np.uint8, 1, channels, size, size), draw(np.int8, filters, channels, 3, 3) // 4
    if floats:
        made = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
        sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x.shape), ("y", None))]
        graph = helper.make_graph([made], "g", sides[:1], sides[1:], [numpy_helper.from_array(w.astype(np.float32), "w")])
        network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    else:
        network = model({"x": x}, {"w": w}, ["x", "w"], {"pads": [1, 1, 1, 1]})
    pipeline = Pipeline.default().replace("use-winograd", "use-winograd{most-bytes=0 tile=4}")
    module = stepwell.lower(network, "scheduled", target="x86-64-v3", pipeline=pipeline).module
    with module.context:
        kernels = [stages_on_tensors(kernel) for kernel in ops_below(module.operation, "func.func")]
        found = [[stage.root.fused[0].loop for stage in stages if stage.root.fused] for stages in kernels]
    assert max(map(len, found)) >= 4  # of five stages and two of filters
    for loops in found:
        runs = [name for name, _ in groupby(loops) if not name.startswith("inner")]
        assert len(runs) == len(set(runs))


def test_without_a_target_nothing_is_fused():
    with make_context(), ir.Location.unknown():
        body = two_products(2, 8, 3, 5, 4, "", "")
        arguments = "%x0: tensor<2x8x3xf32>, %x1: tensor<3x5xf32>, %x2: tensor<5x4xf32>"
        module = ir.Module.parse(f"func.func @f({arguments}) -> tensor<2x8x4xf32> {{ {body} }}")
        [function] = ops_below(module.operation, "func.func")
        decisions = Decisions()
        FuseLoops().run(function, PassState(decisions=decisions))
        assert "there is no target" in decisions.declined[0].what
        assert "fused" not in str(module)


WINOGRAD = """
func.func @main(%x: tensor<1x1x14x6x65xi16>, %w: tensor<3x1x3x3x65x64x1xui8>) -> tensor<1x3x12x4x64xi32> {
  %y = "packed.integer_winograd_conv"(%x, %w) {group = 1 : i64, tile = 4 : i64, transformed = false}
    : (tensor<1x1x14x6x65xi16>, tensor<3x1x3x3x65x64x1xui8>) -> tensor<1x3x12x4x64xi32>
  return %y : tensor<1x3x12x4x64xi32>
}
"""


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_neighbouring_runs_of_stages_have_loops_of_their_own(cores: int) -> None:
    """Transforms of data and of filters, which have as many rounds of the same dimension, or not."""
    target = replace(resolve("x86-64-v4-bf16"), cores=cores)
    model = descend(stepwell.read_ir(WINOGRAD, "graph", WeightTable(), target=target), "linalg")
    found = [[loop.loop for loop in ScheduleInfo(op).fused] for op in ops_below(model.module.operation, "linalg.generic")]
    assert [loops for loops in found if loops][:4] == [["inner3"], ["inner3"], ["inner3_"], ["inner3_"]]
    descend(model, "affine")
