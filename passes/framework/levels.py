"""Levels of IR with their properties, and the paths of levels that backends take a model through."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stepwell.dialects.support.errors import InputError, shown

IMPORTED = "graph"
"""The level of imported IR, where every path begins."""


@dataclass(frozen=True)
class Level:
    """A level of IR: its name, and the properties of IR at this level."""

    name: str
    outlined: bool = False
    """Each kernel is a function, which `@main` calls."""
    arena: bool = False
    """Weights lie in one arena, the last argument of `@main` on tensors, and the ops of `graph` have been lowered."""
    scheduled: bool = False
    """Schedules have been chosen, so that a schedule file would come too late."""
    buffers: bool = False
    """`@main` and kernels take buffers for their results and a workspace; otherwise they take and return tensors."""
    per_function: bool = False
    """The last passes of the stage that leads to this level may run on each function separately."""
    interpretable: bool = False
    """The IR can be run op by op: before the arena by the references of graph ops, afterwards by the interpreter."""
    checked: bool = True
    """`@main` and kernels fulfil the contract in docs/kernels.md, against which edited IR and plugins are checked."""
    dialects: tuple[str, ...] = ()
    """The dialects whose ops kernels may contain in addition to those of the contract."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z][\w-]*", self.name):
            raise InputError(f"expected the name of a level, of letters, digits, - and _, got {shown(self.name)}")
        for fact, needed in (("arena", "outlined"), ("scheduled", "arena"), ("buffers", "arena")):
            if getattr(self, fact) and not getattr(self, needed):
                raise InputError(f"level '{self.name}': {fact}=True needs {needed}=True")

    @property
    def in_f64(self) -> bool:
        """Whether the IR can be run in f64: references of graph ops can; the interpreter uses the types of the IR."""
        return self.interpretable and not self.arena


_REGISTERED: dict[str, Level] = {}


def register_level(level: Level) -> Level:
    """Register a level of IR, for the paths of backends and for passes, and return it.

    Raises InputError if another level has its name.
    """
    if not isinstance(level, Level):
        raise InputError(f"expected a Level, got {shown(level)}")
    if _REGISTERED.get(level.name, level) != level:
        raise InputError(f"level '{level.name}' is already there")
    _REGISTERED[level.name] = level
    return level


register_level(Level("graph", interpretable=True))
register_level(Level("graph-opt", outlined=True, interpretable=True))
register_level(Level("linalg", outlined=True, arena=True, interpretable=True))
register_level(Level("scheduled", outlined=True, arena=True, scheduled=True, interpretable=True))
register_level(Level("affine", outlined=True, arena=True, scheduled=True, buffers=True))
# Not checked: its @main may take each argument separately or all packed into one.
register_level(Level("llvm", outlined=True, arena=True, scheduled=True, buffers=True, per_function=True, checked=False))


def level_names() -> tuple[str, ...]:
    """The names of all levels: ours from the highest to the lowest, then those of plugins."""
    return tuple(_REGISTERED)


def find_level(name: str) -> Level:
    """The level with that name. Raises InputError if there is none."""
    if not isinstance(name, str) or name not in _REGISTERED:
        raise InputError(f"unknown level {shown(name)}; the levels are: {', '.join(_REGISTERED)}")
    return _REGISTERED[name]


class LevelPath:
    """The levels that a backend takes a model through, highest first; iterates over their names.

    Raises InputError for a level that does not exist or occurs twice, and for one that lacks a property of the level above.
    """

    def __init__(self, *names: str) -> None:
        self.levels = tuple(find_level(name) for name in names)
        self.names = tuple(names)
        if self.names[:1] != (IMPORTED,) or len(set(names)) != len(names):
            raise InputError(f"expected a path of different levels that begins at {IMPORTED}, got {', '.join(names) or 'none'}")
        for above, below in zip(self.levels, self.levels[1:], strict=False):
            lost = [fact for fact in ("outlined", "arena", "scheduled", "buffers") if getattr(above, fact) and not getattr(below, fact)]
            if lost:
                raise InputError(f"level '{below.name}' cannot come below '{above.name}': it lacks {lost[0]}=True, which holds above")

    @property
    def last(self) -> str:
        """The level from which code is generated."""
        return self.names[-1]

    @property
    def stages(self) -> tuple[str, ...]:
        """The levels that a stage of passes leads to: all but the first."""
        return self.names[1:]

    @property
    def outlined(self) -> str:
        """The first level at which each kernel is a function. Raises InputError if there is none; so do the next ones."""
        return self._first("outlined kernels", lambda level: level.outlined)

    @property
    def packed(self) -> str:
        """The first level at which weights lie in an arena."""
        return self._first("an arena", lambda level: level.arena)

    @property
    def interpretable(self) -> tuple[str, ...]:
        """The levels whose IR can be interpreted."""
        return tuple(level.name for level in self.levels if level.interpretable)

    @property
    def in_f64(self) -> tuple[str, ...]:
        """The levels whose IR can be interpreted in f64."""
        return tuple(level.name for level in self.levels if level.in_f64)

    def above(self, level: str) -> str:
        """The level from which the stage of `level` starts. Raises InputError if there is none."""
        place = self._place(level)
        if place == 0:
            raise InputError(f"there is no level above '{level}'")
        return self.names[place - 1]

    def since(self, level: str) -> tuple[str, ...]:
        """The levels from `level` (inclusive) to the last. Raises InputError if the path lacks it."""
        return self.names[self._place(level) :]

    def between(self, start: str, end: str) -> tuple[str, ...]:
        """The levels from `start` (exclusive) down to `end` (inclusive). Raises InputError if `end` lies above `start` or the path lacks one."""
        first, last = self._place(start), self._place(end)
        if last < first:
            raise InputError(f"level '{end}' lies above '{start}': lowering goes downwards only")
        return self.names[first + 1 : last + 1]

    def begins_with(self, other: "LevelPath") -> bool:
        """Whether this path follows another one to its end."""
        return self.names[: len(other.names)] == other.names

    def _place(self, level: str) -> int:
        if find_level(level).name not in self.names:
            raise InputError(f"the path {self} has no level '{level}'")
        return self.names.index(level)

    def _first(self, what: str, holds: Callable[[Level], bool]) -> str:
        for level in self.levels:
            if holds(level):
                return level.name
        raise InputError(f"the path {self} has no level with {what}")

    def __contains__(self, level: object) -> bool:
        return level in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        return ", ".join(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LevelPath) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)
