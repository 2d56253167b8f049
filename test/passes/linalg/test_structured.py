"""What `Structured` says of a linalg.generic: which op sums, and whether its sum may be cut into blocks."""

import pytest

from stepwell.dialects.core.mlir import ir, make_context, ops_below, parse_module
from stepwell.passes.linalg.structured import Structured

MAPS = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>"
ROWS = f'indexing_maps = [{MAPS}], iterator_types = ["parallel", "reduction"]'


def only_generic(module: ir.Module) -> Structured:
    [op] = ops_below(module.operation, "linalg.generic")
    return Structured(op)


def sums_of_rows(weight: str) -> ir.Module:
    text = f"""func.func @f(%x: tensor<4x3xf32>, %o: tensor<4xf32>, %given: tensor<3xf32>) -> tensor<4xf32> {{
      %constant = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
      %0 = linalg.generic {{{ROWS}}} ins(%x, {weight} : tensor<4x3xf32>, tensor<3xf32>) outs(%o : tensor<4xf32>) {{
      ^bb0(%a: f32, %b: f32, %total: f32):
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %total, %p : f32
        linalg.yield %s : f32
      }} -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    return parse_module(text, ir.Context.current)


def test_a_sum_is_cut_into_blocks_where_no_operand_is_a_constant() -> None:
    """The numbers of a constant are written into the code, which is written for whole sums."""
    with make_context():
        for weight, allowed in (("%given", True), ("%constant", False)):
            module = sums_of_rows(weight)
            op = only_generic(module)
            assert op.combiner == "arith.addf"
            assert (op.can_block(0), op.can_block(1)) == (True, allowed)


def test_an_op_of_two_sums_has_no_combiner() -> None:
    """Not even where the first result is what is added to the last accumulator: who asks for a combiner combines one result."""
    maps = ROWS.replace("affine_map<(i, j) -> (j)>", "affine_map<(i, j) -> (i)>")
    with make_context():
        text = f"""func.func @f(%x: tensor<4x3xf32>, %o: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
          %0:2 = linalg.generic {{{maps}}} ins(%x : tensor<4x3xf32>) outs(%o, %o : tensor<4xf32>, tensor<4xf32>) {{
          ^bb0(%a: f32, %first: f32, %last: f32):
            %s = arith.addf %last, %a : f32
            linalg.yield %s, %first : f32, f32
          }} -> (tensor<4xf32>, tensor<4xf32>)
          return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
        }}"""
        module = parse_module(text, ir.Context.current)
        assert only_generic(module).combiner is None


@pytest.mark.parametrize(
    ("where", "along"),
    [
        ("%row, %j", ("strided", "vector")),  # the row is another in each iteration of i
        ("%two, %j", ("scalar", "vector")),
        ("%two, %later", ("scalar", "vector")),
        ("%two, %before", ("scalar", "strided")),
        ("%two, %twice", ("scalar", "strided")),
        ("%two, %masked", ("scalar", "strided")),
        ("%j, %two", ("scalar", "strided")),
        ("%two, %row", ("strided", "scalar")),
        ("%two, %sum", ("vector", "vector")),
        ("%two, %both", ("strided", "vector")),
        ("%two, %two", ("scalar", "scalar")),
    ],
)
def test_reads_of_the_body_are_vectors_where_only_the_last_index_grows_by_one(where: str, along: tuple[str, str]) -> None:
    with make_context():
        text = f"""func.func @f(%x: tensor<9x32xf32>, %rows: tensor<8xindex>, %o: tensor<8x6xf32>) -> tensor<8x6xf32> {{
          %two = arith.constant 2 : index
          %0 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
              ins(%rows : tensor<8xindex>) outs(%o : tensor<8x6xf32>) {{
          ^bb0(%row: index, %out: f32):
            %i = linalg.index 0 : index
            %j = linalg.index 1 : index
            %next = arith.addi %j, %two : index
            %later = arith.subi %next, %two : index
            %before = arith.subi %two, %j : index
            %twice = arith.addi %j, %j : index
            %masked = arith.andi %j, %two : index
            %sum = arith.addi %i, %j : index
            %both = arith.addi %row, %j : index
            %v = tensor.extract %x[{where}] : tensor<9x32xf32>
            linalg.yield %v : f32
          }} -> tensor<8x6xf32>
          return %0 : tensor<8x6xf32>
        }}"""
        module = parse_module(text, ir.Context.current)
        op = only_generic(module)
        [read] = op.reads
        assert (op.read_kind(read, 0), op.read_kind(read, 1)) == along
        assert op.can_vectorise(1) == (along[1] != "strided")
        assert not op.can_vectorise(0)  # along which the output is not contiguous


@pytest.mark.parametrize(
    ("bound", "place", "why"),
    [
        ("%row", "%k, %j", None),
        ("%two", "%two, %j", None),
        ("%j", "%two, %j", "whose rounds depend on it"),
        ("%row", "%j, %k", "not neighbours along it"),
        ("%row", "%last, %j", "not neighbours along it"),  # what a loop hands on may be different in each lane
    ],
)
def test_loops_of_the_body_have_the_same_rounds_for_all_lanes(bound: str, place: str, why: str | None) -> None:
    with make_context():
        text = f"""func.func @f(%x: tensor<9x32xf32>, %rows: tensor<8xindex>, %o: tensor<8x6xf32>) -> tensor<8x6xf32> {{
          %two = arith.constant 2 : index
          %start = arith.constant 0.0 : f32
          %0 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
              ins(%rows : tensor<8xindex>) outs(%o : tensor<8x6xf32>) {{
          ^bb0(%row: index, %out: f32):
            %j = linalg.index 1 : index
            %0:2 = scf.for %k = %two to {bound} step %two iter_args(%total = %start, %last = %two) -> (f32, index) {{
              %v = tensor.extract %x[{place}] : tensor<9x32xf32>
              %s = arith.addf %total, %v : f32
              scf.yield %s, %j : f32, index
            }}
            linalg.yield %0#0 : f32
          }} -> tensor<8x6xf32>
          return %0 : tensor<8x6xf32>
        }}"""
        module = parse_module(text, ir.Context.current)
        op = only_generic(module)
        found = op.why_not_vector(1)
        assert found is None if why is None else found is not None and why in found
