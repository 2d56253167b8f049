"""Costs on a machine that do not follow from its vectors and pipelines. Passes ask `Target.costs`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Costs that fit any core of the last ten years; a family or a machine may state its own."""

    bytes_per_cycle: tuple[float, float, float] = (48.0, 16.0, 6.0)
    """Bytes per cycle that one core moves into its first cache, its second, and the last."""
    clock: float = 3.0e9
    """Approximate cycles per second, to state predicted costs in seconds. No choice depends on it."""
    exposed: float = 0.1
    """The fraction of a transfer that arithmetic and other transfers do not hide."""
    flops_per_byte: float = 4.0
    """Floating-point operations that one core does in the time by which reading one more byte from memory prolongs a kernel.

    A core that does 105 GFLOP/s and reads 20 GB/s would have 5, but some of the reading overlaps with arithmetic: ratios of F(4, 3) to F(2, 3),
    measured for 256 to 512 channels on 7x7 to 28x28 positions, on one thread and on two, correspond to 2.5 to 5.8, most of them near 4.
    """
    write_reads: float = 2.0
    """Bytes read in the time of a byte written: the line is read first (write allocate) and written back later."""
    last_cache: float = 1 / 3
    """The time of a byte from the last cache, relative to a byte from memory."""
    nest_share: float = 0.8
    """The fraction of a cache that the data of one nest may fill in predictions; the rest is left for everything else."""
    kept_share: float = 0.75
    """The fraction of a core's own cache that data may fill if they are to stay there: slices of fused loops, the weights of a recurrent layer."""
    streamed_share: float = 0.25
    """The fraction for values passed between fused loops, if slices of their operands and results go through the cache as well."""
    step_share: float = 0.5
    """The fraction of the first cache that the values between the two steps of a separable pooling may fill."""
    resident_bytes: int = 16 << 20
    """The largest number of bytes of weights that a kernel may read in addition in order to compute less."""
    page_bytes: int = 4096
    """Bytes of a page, which hardware prefetching does not cross."""
    prefetch_streams: int = 8
    """The number of memory streams that hardware prefetching follows at once."""
    window: float = 256.0
    """Instructions in a core's out-of-order window: shorter pieces of work overlap."""
    tile_start: float = 8.0
    """Cycles to begin and end a register tile, without its stores."""
    loop_start: float = 3.0
    """Cycles to begin one loop over a reduction dimension inside a register tile."""
    fold: float = 1.0
    """Cycles to add the upper half of one accumulator's lanes to the lower half."""
    summed_block: int = 128
    """The smallest block of a reduction dimension, in iterations: with fewer, storing and loading partial sums costs more than the block saves."""
    accumulators: int = 8
    """Accumulators that keep the pipes busy: two fused multiply-adds per cycle at a latency of four cycles."""
    prefetch_rounds: int = 32
    """Prefetch distance in iterations of a register tile: about 320 cycles, as panels may come from the last cache.

    The gains are listed in docs/measurements/choices.md.
    """
    near_prefetch_rounds: int = 8
    """The same for dot products, whose iterations take longer, and for one row by a matrix in memory, which reads several panels at once."""
    panel_passes: int = 5
    """The largest number of tiles of rows that pass panels for which prefetching the next panels pays."""
    panels_share: float = 0.6
    """The fraction of the first cache that the panels of a tile may fill if those of the next tile are prefetched beside them."""
    memcpy_bytes: int = 1 << 16
    """The shortest contiguous run that is worth a call of `memcpy`: more than a first cache holds of source and destination together.

    `memcpy` may write whole lines where vector stores have to read each line first: it is 1.26 times as fast for 80 kB to 600 kB, 0.9 times for 3 kB.
    """
    copied_bytes: int = 1 << 18
    """Bytes of a contiguous run that one iteration copies: long enough for full speed, short enough to balance threads."""
    threads_start: float = 8000.0
    """Cycles to start the threads of a parallel loop and to wait for them."""
    threaded_work: int = 1 << 15
    """Iterations of an element-wise loop below which starting threads costs more than it saves (measured by `scripts/bench.py --fork-join`)."""
    contraction_rate: int = 4
    """Iterations of a contraction in the time of one of an element-wise loop: its operands come from caches and registers."""
    panel_registers: int = 2
    """Vector registers that a panel of packed weights spans, and so the width of a register tile.

    Rows of a product reuse the loads of a panel; for one row several panels are read at once, each as a memory stream of its own.
    """
    low_bit_registers: int = 4
    """Vector registers that a panel of low-bit weights spans: so many accumulators hide their latency, and the weights are one memory stream."""
    halved_panel: float = 0.05
    """The fraction of a product's time that halving the width of its panels adds."""
    tile_rows: int = 4
    """The smallest number of rows for which filling a tile register is worth it, if an instruction on vectors takes the same neighbours."""
    packing_rows: int = 16
    """The smallest number of rows for which packing a large matrix at run time is worth it."""
    padding_columns: int = 256
    """The smallest number of columns for which re-striding the rows of the left-hand side costs less than it saves."""
    widening_reads: int = 32
    """The smallest number of reads of an element for which storing it in the wider type of its products is worth it."""
    cached_rows: int = 2
    """Rows of a product whose arithmetic takes as long as reading the weights from a core's own cache: fewer rows take no less time."""
    far_rows: int = 4
    """The same for weights in the last cache."""
    arithmetic_rows: int = 64
    """The smallest number of rows for which a product is bound by arithmetic; with fewer, a good part of the time is spent reading the weights."""
    converted_weights: int = 1 << 20
    """Low-bit weights that are converted to float at once for a product of many rows: few enough for a cache, enough for all threads."""
    waiting_sums: int = 1 << 10
    """Sums of scale blocks that wait for their scales: few enough for the first cache, beside the weights that stream through it.

    The gains are listed in docs/measurements/choices.md.
    """
    conversion_rows: int = 8
    """The largest number of rows for which low-bit weights are converted to float once per row.

    Storing and reloading the floats would take as long.
    """

    @property
    def handed_on(self) -> float:
        """Bytes read from memory in the time that a byte takes from one kernel to the next: it is written and read again."""
        return self.write_reads + 1


SLOW = {"arith.divf": 5, "arith.divsi": 20, "arith.divui": 20, "arith.remsi": 20, "arith.remui": 20, "arith.remf": 20, "math.sqrt": 6, "math.absf": 1}
"""The time of an op on a vector relative to an addition, if it is not 1: rough, for any core of the last ten years."""

COMMON = Costs()
"""The costs of a machine of which nothing else is known."""
