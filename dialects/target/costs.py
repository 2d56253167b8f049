"""What things cost on a machine, beyond what its vectors and pipes say. Passes ask `Target.costs`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Costs that fit any core of the last ten years; a family or a machine may state its own."""

    bytes_per_cycle: tuple[float, float, float] = (48.0, 16.0, 6.0)
    """Bytes that one core moves in a cycle into its first cache, its second, and the last."""
    clock: float = 3.0e9
    """Cycles in a second, about: to state predicted costs in seconds. No choice depends on it."""
    exposed: float = 0.1
    """The part of a transfer that arithmetic and other transfers do not hide."""
    flops_per_byte: float = 4.0
    """Floating-point operations that one core does in the time that a byte read from memory once adds to a kernel.

    A core that does 105 GFLOP/s and reads 20 GB/s would have 5, but some of the reading overlaps with arithmetic: ratios of F(4, 3) to F(2, 3)
    measured for 256 to 512 channels on 7x7 to 28x28 positions, on one thread and on two, correspond to 2.5 to 5.8, most of them near 4.
    """
    resident_bytes: int = 16 << 20
    """Bytes of weights up to which a kernel may read more of them to compute less."""
    page_bytes: int = 4096
    """Bytes that hardware prefetching does not look beyond."""
    prefetch_streams: int = 8
    """Streams of memory that hardware prefetching follows at once."""
    window: float = 256.0
    """Instructions that a core looks ahead: shorter pieces of work run side by side."""
    threads_start: float = 8000.0
    """Cycles until the threads of a parallel loop run and are waited for."""
    threaded_work: int = 1 << 15
    """Iterations of an element-wise loop below which starting threads costs more than it saves (measured by `scripts/bench.py --fork-join`)."""
    contraction_rate: int = 4
    """Iterations that a contraction does in the time of one of an element-wise loop: its operands come from caches and registers."""
    panel_registers: int = 2
    """Vector registers that a panel of packed weights spans. Rows of a product reuse the loads of a panel, and for one row several panels are read
    at once, each a stream of memory. A register tile is as wide."""
    arithmetic_rows: int = 64
    """Rows of a product from which on it is bound by arithmetic; with fewer, reading the weights from memory takes a good part of the time."""
    conversion_rows: int = 8
    """Rows of a product up to which each weight in few bits is made a float for each row: to store it and load it again takes as long."""


COMMON = Costs()
"""Those of a machine of which nothing else is known."""
