"""A dot product that a machine has: SSE's `pmaddwd`, which multiplies eight pairs of 16 bits and adds neighbours up.

    stepwell compile model.onnx --load examples/plugins/own_intrinsic.py --target x86-64-v2 --emit asm

It is declared with the block of a contraction that it computes: `lanes` sums of `depth` products. The cost model says where it pays.
"""

import numpy as np

from stepwell.plugin import arith, intrinsic, ir, llvm


@intrinsic("pmaddwd.128", features={"sse2"}, lanes=4, depth=2, operands=("s16", "s16"), instructions=2)
def pmaddwd_128(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of 16 bits, added in pairs to sums of 32."""
    return arith.addi(acc, llvm.call_intrinsic(acc.type, "llvm.x86.sse2.pmadd.wd", [x, y], [], []))


# A product of two matrices of bytes, summed in 32 bits, at level linalg: each function is a kernel, whose last argument is its result.
PRODUCT = """
module attributes {stepwell.inputs = [["x", tensor<16x64xi8>], ["w", tensor<64x32xi8>]], stepwell.outputs = [["y", tensor<16x32xi32>]]} {
  func.func @main(%x: tensor<16x64xi8>, %w: tensor<64x32xi8>, %arena: memref<?xi8>) -> tensor<16x32xi32> {
    %d = tensor.empty() : tensor<16x32xi32>
    %y = call @product(%x, %w, %d) : (tensor<16x64xi8>, tensor<64x32xi8>, tensor<16x32xi32>) -> tensor<16x32xi32>
    return %y : tensor<16x32xi32>
  }
  func.func private @product(%x: tensor<16x64xi8>, %w: tensor<64x32xi8>, %d: tensor<16x32xi32>) -> tensor<16x32xi32>
      attributes {llvm.no_inline, stepwell.kernel} {
    %zero = arith.constant 0 : i32
    %sums = linalg.fill ins(%zero : i32) outs(%d : tensor<16x32xi32>) -> tensor<16x32xi32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x, %w : tensor<16x64xi8>, tensor<64x32xi8>) outs(%sums : tensor<16x32xi32>) {
    ^bb0(%a: i8, %b: i8, %sum: i32):
      %wide_a = arith.extsi %a : i8 to i32
      %wide_b = arith.extsi %b : i8 to i32
      %m = arith.muli %wide_a, %wide_b : i32
      %s = arith.addi %sum, %m : i32
      linalg.yield %s : i32
    } -> tensor<16x32xi32>
    return %y : tensor<16x32xi32>
  }
}
"""


if __name__ == "__main__":
    import stepwell
    from stepwell.plugin import WeightTable

    random = np.random.default_rng(0)
    x, w = random.integers(-128, 128, (16, 64), np.int8), random.integers(-128, 128, (64, 32), np.int8)
    model = stepwell.compile_ir(PRODUCT, "linalg", WeightTable(), threads=1, target="x86-64-v2")
    np.testing.assert_array_equal(model.run({"x": x, "w": w})["y"], x.astype(np.int32) @ w.astype(np.int32))
    assert "pmaddwd.128" in stepwell.descend(stepwell.read_ir(PRODUCT, "linalg", WeightTable(), target="x86-64-v2"), "scheduled").text()
    print("the product is exact, and made of pmaddwd")
