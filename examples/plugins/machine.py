"""A family of machines in one file: LoongArch with vectors of 256 bits.

    stepwell compile model.onnx --load examples/plugins/machine.py --target loong-board --emit scheduled
    stepwell compile model.onnx --load examples/plugins/machine.py --target loong-board --emit obj -o model.o

It states the width of registers, the capabilities of instructions, the dot products and the costs. Passes ask the target, so
schedules follow from these; no pass names a machine.
"""

import numpy as np

from stepwell.plugin import Caches, Capabilities, Costs, Family, Pipes, Vectors, arith, describe, intrinsic, ir, register_family, register_target


def vectors(features: frozenset[str]) -> Vectors:
    """The vector registers: 256 bits with the vector extension, and single floats without."""
    return Vectors(bits=256 if "lasx" in features else 64, count=32, fma=True)


def capabilities(features: frozenset[str]) -> Capabilities:
    """Vectors of any element type can be loaded and stored under a mask; the maximum of a float and a NaN is the float."""
    return Capabilities(masked_bits=frozenset({8, 16, 32, 64}) if "lasx" in features else frozenset())


def pipes(cpu: str, registers: Vectors) -> Pipes:
    """An in-order core: one instruction of each kind per cycle."""
    return Pipes(fmas=1, latency=5, loads=1)


LOONGARCH = register_family(Family(
    name="loongarch64", architectures=("loongarch64",), vectors=vectors, capabilities=capabilities, pipes=pipes,
    caches=Caches(l1d=32 << 10, l2=512 << 10, l3=2 << 20, l3_cores=4),
    costs=Costs(threads_start=30000.0, threaded_work=1 << 17, flops_per_byte=8.0),
))  # fmt: skip
register_target("loong-board", lambda: describe("loong-board", "loongarch64-unknown-linux-gnu", "la464", frozenset({"f", "d", "lsx", "lasx"})))


@intrinsic("widening-mac.256", features={"lasx"}, lanes=8, depth=1, operands=("s16", "s16"))
def widening_mac(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of 16 bits, each added to its sum of 32: LLVM chooses the instructions."""
    return arith.addi(acc, arith.muli(arith.extsi(acc.type, x), arith.extsi(acc.type, y)))


if __name__ == "__main__":
    import small_models

    import stepwell

    random = np.random.default_rng(0)
    x, w = random.integers(-128, 128, (16, 64), np.int8), random.integers(-128, 128, (64, 24), np.int8)
    product = small_models.chain([("MatMulInteger", ["x", "w"], {})], x, x.astype(np.int32) @ w.astype(np.int32), w=w)
    assert 'intrinsic = "widening-mac.256"' in stepwell.lower(product, "scheduled", target="loong-board").text()

    # On x86-64, where threads start faster, 65,536 additions are enough for threads.
    a = random.standard_normal((256, 256), np.float32)
    added = small_models.chain([("Add", ["x", "x"], {})], a, a + a)
    threads = {name: "parallel = 0" not in stepwell.lower(added, "scheduled", target=name).text() for name in ("x86-64-v3", "loong-board")}
    assert threads == {"x86-64-v3": True, "loong-board": False}, threads
