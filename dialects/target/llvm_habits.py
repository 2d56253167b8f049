"""Habits of LLVM's optimiser that schedules take into account, found by reading its code for x86-64."""

WRITTEN_OUT = 8
"""The largest trip count of an innermost loop around a register tile that LLVM unrolls completely."""
UNROLLED = 32
"""The largest total trip count of all reduction loops that LLVM unrolls completely."""
LOADS_AHEAD = 4
"""Registers for loads that LLVM moves ahead of their use, if each vector is used once."""
ROOM = 0.625
"""The fraction of the registers that accumulators may use before LLVM moves them to make room for its loads."""
OPERANDS_IN_TURN = 2
"""Registers for the operands by which a tile multiplies its vectors, one after the other."""
CROWDED = 0.5
"""The fraction of the registers that accumulators may use if LLVM also keeps elements of overlapping windows for some iterations."""
CROWDED_COST = 1.15
"""The slowdown of a tile with more accumulators than that."""
ROLLED_ROUNDS = 2
"""The trip count of a loop over blocks of an intrinsic that LLVM does not unroll, so that it hoists all loads and spills the accumulators."""
