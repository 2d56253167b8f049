"""The levels of IR that a model goes through, highest first."""

from stepwell.dialects.support.errors import InputError, shown

LEVELS = ("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm")
MEANT = LEVELS[:4]
"""The levels whose IR can be interpreted."""
OUTLINED = "graph-opt"
"""From this level on each kernel is a function."""
PACKED = "linalg"
"""From this level on each weight has its place in memory."""


def check_level(level: str) -> str:
    """`level` itself. Raises InputError if it is not a level."""
    if not isinstance(level, str) or level not in LEVELS:
        raise InputError(f"unknown level {shown(level)}; the levels are: {', '.join(LEVELS)}")
    return level


def levels_between(start: str, end: str) -> tuple[str, ...]:
    """The levels from `start` (exclusive) down to `end` (inclusive). Raises InputError if `end` lies above `start`."""
    first, last = LEVELS.index(check_level(start)), LEVELS.index(check_level(end))
    if last < first:
        raise InputError(f"level '{end}' lies above '{start}': lowering goes downwards only")
    return LEVELS[first + 1 : last + 1]
