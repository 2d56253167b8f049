"""A new element type: `f8E3M4`, a float of 8 bits with a mantissa of four, computed in f32 and stored as itself.

    stepwell run mix.graph.mlir --from graph --load examples/plugins/own_element_type.py

One entry suffices: the MLIR name, and the numpy dtype, which defines the meaning of the bits. Every op of the graph
dialect on floats accepts the type; native code reads and writes bytes, and rounds each result once. Run by itself, it compiles such a model.
"""

import ml_dtypes
import numpy as np

from stepwell.plugin import ElementKind, ElementType, WeightTable, register_element_type

SMALL = register_element_type(ElementType("f8E3M4", ElementKind.FLOAT, 8, np.dtype(ml_dtypes.float8_e3m4), compute="f32"))

MIX = """
func.func @main(%x: tensor<16x64xf8E3M4> {stepwell.name = "x"}, %w: tensor<64x32xf8E3M4> {stepwell.name = "w"})
    -> (tensor<16x32xf8E3M4> {stepwell.name = "y"}) {
  %0 = "graph.matmul"(%x, %w) : (tensor<16x64xf8E3M4>, tensor<64x32xf8E3M4>) -> tensor<16x32xf8E3M4> loc("mix")
  %1 = "graph.tanh"(%0) : (tensor<16x32xf8E3M4>) -> tensor<16x32xf8E3M4> loc("bend")
  return %1 : tensor<16x32xf8E3M4> loc("end")
}
"""


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The expected result: each op computes in f32 and rounds once."""
    mixed = (x.astype(np.float32) @ w.astype(np.float32)).astype(SMALL.numpy)
    return np.tanh(mixed.astype(np.float32)).astype(SMALL.numpy)


if __name__ == "__main__":
    import stepwell

    random = np.random.default_rng(0)
    x, w = (random.integers(-4, 5, shape).astype(np.float32) / 16 for shape in ((16, 64), (64, 32)))  # sums are exact in any order
    inputs = {"x": x.astype(SMALL.numpy), "w": w.astype(SMALL.numpy)}
    model = stepwell.compile_ir(MIX, "graph", WeightTable(), threads=1)
    got = model.run(inputs)["y"]
    np.testing.assert_array_equal(got.astype(np.float32), expected(**inputs).astype(np.float32))
    print(f"{got.dtype}{list(got.shape)} from {model.kernels} kernels: as expected")
