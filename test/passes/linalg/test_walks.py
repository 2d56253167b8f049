"""How loops go through operands: along one dimension, in stretches of their own, or not so."""

import pytest

from stepwell.dialects.core.mlir import ir, make_context, ops_below, parse_module
from stepwell.passes.linalg.structured import Structured, Walk, walk

SIZES = {"n": 2, "y": 4, "x": 5, "k": 3, "l": 2}  # of the loops


def reading(place: str, shape: str) -> ir.Module:
    """A reduction over k and l whose first operand is read at `place`."""
    loops = ", ".join(SIZES)
    maps = [f"affine_map<({loops}) -> ({at})>" for at in (place, "k, l", "n, y, x")]
    return parse_module(
        f"""func.func @f(%a: tensor<{shape}xf32>, %w: tensor<3x2xf32>, %o: tensor<2x4x5xf32>) -> tensor<2x4x5xf32> {{
          %0 = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}}
            ins(%a, %w : tensor<{shape}xf32>, tensor<3x2xf32>) outs(%o : tensor<2x4x5xf32>) {{
          ^bb0(%x: f32, %y: f32, %z: f32):
            %s = arith.addf %z, %x : f32
            linalg.yield %s : f32
          }} -> tensor<2x4x5xf32>
          return %0 : tensor<2x4x5xf32>
        }}""",
        ir.Context.current,
    )


@pytest.mark.parametrize(
    ("place", "shape", "want"),
    [
        ("n, y, x", "2x4x5", Walk(1, 1, 2, 5)),
        ("n, x, y", "2x5x4", Walk(2, 1, 10, 1)),
        ("n, y * 3 + k, x", "2x12x5", Walk(1, 3, 2, 15)),  # windows side by side
        ("n, k + y * 4, x", "2x15x5", Walk(1, 4, 2, 20)),  # and with a gap
        ("n, y * 2 + k, x", "2x9x5", None),  # they overlap
        ("n, y * 4 + k + l, x", "2x16x5", Walk(1, 4, 2, 20)),
        ("n, y * 3 + k + l, x", "2x13x5", None),
        ("n, y * 3 + k + 1, x", "2x13x5", None),  # the first one starts elsewhere than the operand does
        ("n, y * 3 - k + 2, x", "2x12x5", None),
        ("n, y + n, x + y", "2x6x9", None),  # in two dimensions
        ("n, y floordiv 2, x", "2x2x5", None),
        ("n, k, x", "2x3x5", None),  # not at all
    ],
)
def test_walks(place: str, shape: str, want: Walk | None) -> None:
    with make_context():
        module = reading(place, shape)
        op = Structured(ops_below(module.operation, "linalg.generic")[0])
        assert walk(op, op.inputs[0], list(SIZES).index("y")) == want
