"""A dot product of a machine: SSE's `pmaddwd`, which multiplies eight pairs of 16 bits and adds neighbours.

    stepwell compile model.onnx --load examples/plugins/own_intrinsic.py --target x86-64-v2 --emit asm

The declaration states the block of a contraction that it computes: `lanes` sums of `depth` products. The cost model decides where to use it.
"""

import numpy as np

from stepwell.plugin import arith, intrinsic, ir, llvm


@intrinsic("pmaddwd.128", features={"sse2"}, lanes=4, depth=2, operands=("s16", "s16"), instructions=2)
def pmaddwd_128(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of 16 bits, added in pairs to sums of 32."""
    return arith.addi(acc, llvm.call_intrinsic(acc.type, "llvm.x86.sse2.pmadd.wd", [x, y], [], []))


if __name__ == "__main__":
    import small_models

    import stepwell

    # Bytes, summed in 32 bits: the product reads them directly, because there is an instruction for them (pass narrow-products).
    random = np.random.default_rng(0)
    x, w = random.integers(-128, 128, (16, 64), np.int8), random.integers(-128, 128, (64, 24), np.int8)
    y = x.astype(np.int32) @ w.astype(np.int32)
    model = small_models.chain([("MatMulInteger", ["x", "w"], {})], x, y, w=w)
    small_models.check(model, x, y, kernels=1, target="x86-64-v2")
    assert "pmaddwd.128" in stepwell.lower(model, "scheduled", target="x86-64-v2").text()
