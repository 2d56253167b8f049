"""The cost of starting the threads of a parallel loop and waiting for them, and the smallest loop that gains from them."""

import statistics
import time
from dataclasses import dataclass

import numpy as np

__all__ = ["ForkJoin", "measure"]

CALLS = 64  # of the kernel in one run, so that the call from Python does not count
SIZES = tuple(1 << n for n in range(9, 19))  # elements
LANES = 16


@dataclass(frozen=True)
class ForkJoin:
    """Seconds of one loop over so many elements on one thread and on `threads`: medians."""

    threads: int
    elements: int
    serial: float
    threaded: float


def module(elements: int, parallel: int) -> str:
    """A chain of element-wise kernels at the level `scheduled`, on `parallel` threaded loops (0 or 1)."""
    kind = f"tensor<{elements // LANES}x{LANES}xf32>"
    calls = []
    for i in range(CALLS):
        calls.append(f"%t{i} = tensor.empty() : {kind}")
        calls.append(f"%{i + 1} = call @kernel(%{'x' if i == 0 else i}, %t{i}) : ({kind}, {kind}) -> {kind}")
    return f"""
      func.func private @kernel(%x: {kind}, %out: {kind}) -> {kind} attributes {{stepwell.kernel, llvm.no_inline}} {{
        %one = arith.constant 1.0 : f32
        %y = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"], sched.nest = #sched.nest<{{order = array<i64: 0, 1>, parallel = {parallel} : i64,
          unroll = array<i64: 1, 1>, vector = 1 : i64, width = {LANES} : i64}}>}} ins(%x : {kind}) outs(%out : {kind}) {{
        ^bb0(%a: f32, %o: f32):
          %s = arith.addf %a, %one : f32
          linalg.yield %s : f32
        }} -> {kind}
        return %y : {kind}
      }}
      func.func @main(%x: {kind} {{stepwell.name = "x"}}, %weights: memref<?xi8>) -> ({kind} {{stepwell.name = "y"}}) {{
        {chr(10).join(calls)}
        return %{CALLS} : {kind}
      }}"""


def measure(threads: int, rounds: int) -> list[ForkJoin]:
    """The times of each of `SIZES`, serial and threaded in turn, `rounds` times."""
    import stepwell
    from stepwell.dialects.core.weights import WeightTable

    found = []
    for elements in SIZES:
        models = [stepwell.compile_ir(module(elements, p), "scheduled", WeightTable(), threads=threads) for p in (0, 1)]
        x = {"x": np.random.default_rng(0).standard_normal((elements // LANES, LANES), np.float32)}
        times: list[list[float]] = [[], []]
        for turn in range(rounds + 3):
            for model, kept in zip(models, times, strict=True):
                start = time.perf_counter()
                model.run(x)
                if turn >= 3:
                    kept.append((time.perf_counter() - start) / CALLS)
        found.append(ForkJoin(threads, elements, *(statistics.median(kept) for kept in times)))
    return found
