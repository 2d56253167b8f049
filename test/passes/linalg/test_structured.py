"""What `Structured` says of a linalg.generic: which op sums, and whether its sum may be cut into blocks."""

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.passes.framework.rewriting import ops_below
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
