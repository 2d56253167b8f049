"""The C interface through which a run asks for memory and whether to go on: a struct of functions, whose address its table holds.

docs/sizes.md says how a program in C provides it. Compiled code checks the version when a run begins.
"""

VERSION = 1
"""The first field of the struct, an i64. It changes whenever a function changes its meaning, or the order does."""
FUNCTIONS = ("enter", "poll", "keep")
"""The fields behind it. Each is `void (*)(struct stepwell_runtime *, int64_t *table, int64_t)`, and writes its answer to the table."""
ENTRIES = 2
"""How many entries of the table belong to the interface: its last ones."""
RUNTIME, ANSWER = -2, -1
"""The entries for the address of the struct and for the answer, counted from the end of the table that @main takes."""
