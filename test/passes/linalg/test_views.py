"""Where the elements of views lie: the strides that numpy's own views have."""

import numpy as np
import pytest

from stepwell.dialects.core.mlir import ir, make_context, ops_below, parse_module
from stepwell.dialects.core.sizes import symbol
from stepwell.passes.linalg.views import exact_shape, strides

WHOLE = np.zeros((3, 8, 5, 6), np.float32)
FOLDED = "%e = tensor.expand_shape %p [[0], [1, 2], [3]] output_shape [3, 2, 2, 3] : tensor<3x4x3xf32> into tensor<3x2x2x3xf32>"
FILLED = ["%z = arith.constant 0.0 : f32", "%f = linalg.fill ins(%z : f32) outs(%p : tensor<3x4x3xf32>) -> tensor<3x4x3xf32>"]
SLICE = "%p = tensor.extract_slice %t[0, 2, 1, 0] [3, 4, 1, 3] [1, 1, 1, 2] : tensor<3x8x5x6xf32> to "


@pytest.mark.parametrize(
    ("lines", "view"),
    [
        ([], WHOLE),
        ([f"{SLICE}tensor<3x4x1x3xf32>"], WHOLE[:, 2:6, 1:2, ::2]),
        ([f"{SLICE}tensor<3x4x3xf32>"], WHOLE[:, 2:6, 1, ::2]),  # the dimension of size 1 is left out
        (
            [f"{SLICE}tensor<3x4x3xf32>", FOLDED],
            WHOLE[:, 2:6, 1, ::2].reshape(3, 2, 2, 3),
        ),
        (
            [f"{SLICE}tensor<3x4x1x3xf32>", "%e = tensor.collapse_shape %p [[0], [1, 2], [3]] : tensor<3x4x1x3xf32> into tensor<3x4x3xf32>"],
            WHOLE[:, 2:6, 1:2, ::2].reshape(3, 4, 3),
        ),
        (["%e = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<3x8x5x6xf32> into tensor<24x30xf32>"], WHOLE.reshape(24, 30)),
        (
            [
                "%p = tensor.extract_slice %t[0, 0, 0, 0] [1, 1, 1, 1] [1, 1, 1, 1] : tensor<3x8x5x6xf32> to tensor<1x1x1x1xf32>",
                "%c = tensor.collapse_shape %p [] : tensor<1x1x1x1xf32> into tensor<f32>",
                "%e = tensor.expand_shape %c [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>",
            ],
            WHOLE[:1, 0, 0, :1],  # a scalar in between
        ),
        (
            [f"{SLICE}tensor<3x4x3xf32>", *FILLED],
            WHOLE[:, 2:6, 1, ::2],  # it writes into the slice
        ),
    ],
)
def test_strides_of_views(lines: list[str], view: np.ndarray) -> None:
    context = make_context()
    body = "\n".join(lines)
    with context, ir.Location.unknown():
        module = parse_module(f"func.func @f(%t: tensor<3x8x5x6xf32>) {{\n{body}\nreturn\n}}", context)
        values = [op.results[0] for op in ops_below(module.operation) if len(op.results) and op.name != "arith.constant"]
        value = values[-1] if values else module.body.operations[0].regions[0].blocks[0].arguments[0]
        found = strides(value)
    assert np.shares_memory(view, WHOLE)
    # A dimension of size 1 is never stepped over: any stride will do.
    stepped = [i for i, size in enumerate(view.shape) if size > 1]
    assert len(found) == view.ndim
    assert [found[i] for i in stepped] == [view.strides[i] // view.itemsize for i in stepped]


def test_strides_of_sizes_known_at_run_time_are_expressions() -> None:
    text = """func.func @f(%x: tensor<?x8x?xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n, m"]} {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : tensor<?x8x?xf32>
      %s = tensor.extract_slice %x[0, 2, 0] [%n, 3, 5] [1, 2, 1] : tensor<?x8x?xf32> to tensor<?x3x5xf32>
      %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x8x?xf32> into tensor<?x?xf32>
      return
    }"""
    context = make_context()
    with context, ir.Location.unknown():
        module = parse_module(text, context)
        [sliced], [merged] = (ops_below(module.operation, f"tensor.{name}") for name in ("extract_slice", "collapse_shape"))
        m = symbol("m")
        assert strides(sliced.results[0]) == [8 * m, 2 * m, 1]
        assert strides(merged.results[0]) == [m, 1]
        assert exact_shape(merged.results[0]) == [8 * symbol("n"), m]
