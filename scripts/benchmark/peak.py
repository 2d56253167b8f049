"""The highest rate of arithmetic that this machine reaches in code that takes our own way down: multiply-adds in registers, nothing else."""

import time

from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.registry import resolve
from stepwell.driver.build import compile_ir

__all__ = ["peak_flops", "source"]

STEPS = 1 << 20


def source(target: Target, threads: int, steps: int) -> str:
    """IR at level affine: each of `threads` threads does `steps` rounds of as many independent multiply-adds as registers hold."""
    lanes = target.lanes(32)
    chains = target.vector_registers * 3 // 4  # enough to hide the latency, and two registers left for the factors
    vector = f"vector<{lanes}xf32>"
    results = ", ".join([vector] * chains)
    rounds = "\n".join(f"      %n{i} = vector.fma %c{i}, %a, %b : {vector}" for i in range(chains))
    # Each starts elsewhere, or the compiler could see that they are all the same.
    starts = "\n".join(f"    %z{i} = arith.constant dense<{i}.0> : {vector}" for i in range(chains))
    # They are added up and stored, or the compiler would see that nobody wants them.
    sums = "\n".join(f"    %s{i} = arith.addf {f'%s{i - 1}' if i else '%z0'}, %r#{i} : {vector}" for i in range(chains))
    arena = "memref<?xi8> {stepwell.bytes = 0 : i64}"
    return f"""
module attributes {{stepwell.inputs = [], stepwell.outputs = [["sums", tensor<{threads}x{lanes}xf32>]]}} {{
  func.func @main(%out: memref<{threads}x{lanes}xf32>, %weights: {arena}, %workspace: {arena}) {{
{starts}
    %a = arith.constant dense<0.75> : {vector}
    %b = arith.constant dense<0.25> : {vector}
    affine.parallel (%t) = (0) to ({threads}) {{
    %r:{chains} = affine.for %i = 0 to {steps} iter_args({", ".join(f"%c{i} = %z{i}" for i in range(chains))}) -> ({results}) {{
{rounds}
      affine.yield {", ".join(f"%n{i}" for i in range(chains))} : {results}
    }}
{sums}
    affine.vector_store %s{chains - 1}, %out[%t, 0] : memref<{threads}x{lanes}xf32>, {vector}
    }}
    return
  }}
}}
"""


def peak_flops(threads: int, target: str = "host", *, steps: int = STEPS, repeats: int = 7) -> float:
    """Operations per second (a multiply-add is two) of code for `target` on `threads` threads: the best of some runs."""
    machine = resolve(target)
    model = compile_ir(source(machine, threads, steps), "affine", WeightTable(), threads=threads, target=machine)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        model()
        best = min(best, time.perf_counter() - start)
    chains = machine.vector_registers * 3 // 4
    return 2.0 * threads * steps * chains * machine.lanes(32) / best
