"""A target: its registers and caches, and the rounding that is allowed there.

    stepwell compile model.onnx --load examples/plugins/target.py --target small-core --emit scheduled

Schedules and code are made for it; its names in LLVM (`triple`, `cpu`) determine the instructions.
"""

from stepwell.plugin import Caches, Pipes, Target, register_target

SMALL_CORE = Target(
    name="small-core", triple="x86_64-unknown-linux-gnu", cpu="x86-64-v2", features=frozenset({"sse2", "sse4.2", "popcnt"}),
    vector_bits=128, vector_registers=16, fma=False, cores=1,
    caches=Caches(l1d=16 << 10, l2=128 << 10, l3=128 << 10),
    pipes=Pipes(fmas=1, latency=5, loads=1),
    contraction=False, vector_maths=False,
)  # fmt: skip
register_target("small-core", SMALL_CORE)


if __name__ == "__main__":
    import numpy as np
    import small_models

    import stepwell

    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(2, 16)
    w = np.linspace(-1, 1, 128, dtype=np.float32).reshape(16, 8)
    y = np.exp(x.astype(np.float64) @ w).astype(np.float32)
    model = small_models.chain([("MatMul", ["x", "w"], {}), ("Exp", ["@"], {})], x, y, w=w)
    small_models.check(model, x, y, target="small-core")
    assert "ymm" not in stepwell.compile(model, threads=1, target="small-core").ir("asm")
