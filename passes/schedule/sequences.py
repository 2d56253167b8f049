"""Decides how the work of a recurrent layer is split over threads."""

from collections.abc import Sequence
from math import prod

from stepwell.dialects.target.description import Target


def chunks_on_threads(
    steps: int, directions: int, batch: int, weights: Sequence[int], bits: int, target: Target, divisible: bool = True
) -> int:  # fmt: skip
    """The number of chunks into which the batch of a recurrent layer is cut; each chunk runs all steps on its own thread in each direction.

    Returns 0 if it is cheaper to start threads in each step for the products alone, or to start none. `weights` are the numbers of elements, of
    `bits` each, by which a state is multiplied in each direction. A chunk is large enough that two chunks take no longer on one thread than both at
    once, because the code is made for any number of threads. A batch that is not `divisible` stays one chunk.
    """
    size = prod(weights)
    costs = target.costs
    least = costs.cached_rows if size * bits // 8 <= costs.kept_share * target.caches.l2 else costs.far_rows

    start = costs.threaded_work // 2  # iterations that cost as much as starting threads: two threads pay from twice as many on

    def step(rows: int) -> float:
        return max(rows, least) * size / costs.contraction_rate

    def cost(chunks: int) -> float:
        return start + -(-directions * chunks // target.cores) * steps * step(batch // chunks)

    together = directions * steps * min(step(batch), step(batch) / target.cores + start)
    counts = range(1, (batch if divisible else min(batch, 1)) + 1)
    legal = [n for n in counts if batch % n == 0 and (n == 1 or batch // n >= least) and directions * n > 1]
    best = min(legal, key=cost, default=0)
    return best if best and cost(best) < together else 0
