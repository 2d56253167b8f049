"""Products with few rows that read a transposed matrix where it lies, natively."""

import numpy as np
from covering import pairs
from native_checks import Arrays, check_model, natively_together
from onnx import helper

import stepwell

RNG = np.random.default_rng(41)


@natively_together
@pairs({
    "dtype": [np.float32, np.float64, np.float16],
    ("x", "y", "is_inside"): [
        ((1, 64), (513, 64), True),
        ((2, 3, 1, 19), (2, 3, 33, 19), True),
        ((2, 3, 4, 16), (2, 3, 5, 16), True),
        ((4, 2, 7), (1, 9, 7), False),  # eight rows for each matrix
        ((5, 16), (40, 16), False),
    ],
    "disable": [(), ("fuse-producers",)],
})
def test_products(x: tuple[int, ...], y: tuple[int, ...], is_inside: bool, dtype: type, disable: tuple[str, ...]) -> None:
    left, right = (RNG.standard_normal(shape).astype(dtype) for shape in (x, y))
    order = [*range(len(y) - 2), len(y) - 1, len(y) - 2]
    nodes = [helper.make_node("Transpose", ["y"], ["t"], perm=order), helper.make_node("MatMul", ["x", "t"], ["z"])]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    sides = [helper.make_tensor_value_info(n, kind, shape) for n, shape in (("x", x), ("y", y))]
    graph = helper.make_graph(nodes, "g", sides, [helper.make_tensor_value_info("z", kind, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    want = left.astype(np.float64) @ np.swapaxes(right, -1, -2).astype(np.float64)
    bound = np.abs(left).astype(np.float64) @ np.swapaxes(np.abs(right), -1, -2).astype(np.float64)
    unit = np.finfo(dtype).eps / 2
    sums = x[-1] * (np.finfo(np.float32).eps / 2 if dtype == np.float16 else unit)  # f16 is summed in f32 and rounded once

    def judge(got: Arrays) -> None:
        assert np.all(np.abs(got["z"] - want) <= bound * sums + np.abs(want) * 2 * unit + np.finfo(dtype).tiny)

    check_model(proto, {"x": left, "y": right}, judge, threads=[2], disable=disable)
    kernels = stepwell.lower(proto, "graph-opt", disable=disable).text().count("stepwell.kernel")
    assert kernels == (1 if is_inside and not disable else 2)
