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
    resident_bytes: int = 16 << 20
    """The largest number of bytes of weights that a kernel may read in addition in order to compute less."""
    page_bytes: int = 4096
    """Bytes of a page, which hardware prefetching does not cross."""
    prefetch_streams: int = 8
    """The number of memory streams that hardware prefetching follows at once."""
    window: float = 256.0
    """Instructions in a core's out-of-order window: shorter pieces of work overlap."""
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
    arithmetic_rows: int = 64
    """The smallest number of rows for which a product is bound by arithmetic; with fewer, a good part of the time is spent reading the weights."""
    conversion_rows: int = 8
    """The largest number of rows for which low-bit weights are converted to float once per row.

    Storing and reloading the floats would take as long.
    """


COMMON = Costs()
"""The costs of a machine of which nothing else is known."""
