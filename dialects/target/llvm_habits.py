"""Habits of LLVM's optimiser that schedules reckon with. They were found by reading the code that it makes for x86-64."""

WRITTEN_OUT = 8
"""Rounds of an innermost loop around a register tile up to which LLVM unrolls it completely."""
UNROLLED = 32
"""Rounds of all summed loops together up to which LLVM unrolls them completely."""
LOADS_AHEAD = 4
"""Registers for loads that LLVM moves ahead of their use, where each vector is used once."""
ROOM = 0.625
"""The part of the registers that accumulators may take before LLVM moves them about to have room for its loads."""
OPERANDS_IN_TURN = 2
"""Registers for the operands that a tile multiplies its vectors by, one after the other."""
CROWDED = 0.5
"""The part of the registers that accumulators may take where LLVM also keeps elements of overlapping windows for some rounds."""
CROWDED_COST = 1.15
"""How many times as long a tile with more of them takes."""
ROLLED_ROUNDS = 2
"""Rounds of blocks of an intrinsic around which LLVM keeps a loop instead of unrolling it: it then hoists all loads and spills the accumulators."""
