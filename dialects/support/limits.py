"""Limits of a compilation: the largest cost of a model before it runs, and the consumption so far."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from stepwell.dialects.support.errors import InputError, LimitError
from stepwell.dialects.support.memory import memory_of_process
from stepwell.dialects.support.numbers import whole_number

KNOWN_ELEMENTS = 1024
"""The largest input, in elements, for whose values code is specialised."""
DEFAULT = "default"
"""The key in the metadata of a field: its default in words, if that is not a constant."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _part_of_memory(part: int, most: str) -> int:
    """The field of a limit that defaults to a fraction of the memory available to this process, at most `most`."""
    bound = int(most[:-1]) * _UNITS[most[-1]]
    text = f"1/{part} of the memory that the process may have, at most {most}"
    return field(default_factory=lambda: min(memory_of_process() // part, bound), metadata={DEFAULT: text})


@dataclass(frozen=True)
class Limits:
    """The largest cost of a model before it runs. Folding that would exceed it is left to run time; exceeding another limit is a LimitError."""

    fold_bytes: int = 1 << 28
    """The largest growth of constants by compile-time computation, in bytes (at least 4 times the model's own weights are allowed)."""
    fold_operations: int = 1 << 33
    """The largest total number of arithmetic operations at compile time."""
    unrolled_operations: int = 1 << 14
    """The largest total number of nodes from unrolled loops. Other loops stay loops, at every level."""
    operations: int = 1 << 18
    """The largest number of nodes of a model, with its functions and unrolled loops expanded."""
    value_bytes: int = _part_of_memory(4, "16G")
    """The largest value in bytes: a weight, an input, an intermediate or final result."""
    workspace_bytes: int = _part_of_memory(2, "32G")
    """The largest memory of a run for intermediate results, in bytes."""
    loop_rounds: int = 1 << 40
    """The largest number of iterations of a loop while a model runs."""
    seconds: float = float("inf")
    """The time limit for compiling, in seconds. Checked between nodes and passes, so it may be exceeded by the time of a pass."""

    def __post_init__(self) -> None:
        for name, value in self.items():
            kinds = (int, float) if name == "seconds" else (int,)
            if not isinstance(value, kinds) or isinstance(value, bool) or not value >= 0:
                raise InputError(f"limit '{name}': expected a number from 0, got {value!r}")

    def items(self) -> list[tuple[str, float]]:
        """The limits by name."""
        return [(f.name, getattr(self, f.name)) for f in fields(self)]

    def key(self) -> str:
        """The limits that compiled code may depend on, as text for a key of the cache."""
        return repr(replace(self, seconds=0.0))

    @staticmethod
    def parse(texts: Sequence[str]) -> "Limits":
        """Limits from `NAME=NUMBER`, where K, M, G and T after the number mean powers of 1024. Raises InputError."""
        values: dict[str, float] = {}
        known = [name for name, _ in Limits().items()]
        for text in texts:
            name, _, number = text.partition("=")
            name = name.replace("-", "_")
            if name not in known:
                raise InputError(f"there is no limit '{name}'; the limits are: {', '.join(known)}")
            if name in values:
                raise InputError(f"limit '{name}' is given twice")
            values[name] = _number(name, number)
        return Limits(**values)  # type: ignore[arg-type]  # each field takes its kind of number


def _number(name: str, text: str) -> float:
    digits, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "")
    if (whole := whole_number(digits)) is not None:
        return whole * _UNITS[unit]
    try:
        if name == "seconds":
            return float(text)
    except ValueError:
        pass
    raise InputError(f"limit '{name}': expected a number from 0, perhaps with K, M, G or T behind it, got '{text}'")


@dataclass
class Budget:
    """The limits of one compilation, and their consumption so far. The importer and all passes of a model share one."""

    limits: Limits = field(default_factory=Limits)
    given_bytes: int = 0
    """The bytes of the model's own weights."""
    held_bytes: int = 0
    """The growth of constants so far, in bytes."""
    operations: int = 0
    unrolled: int = 0
    began: float = field(default_factory=time.perf_counter)

    @property
    def fold_bytes(self) -> int:
        """The allowed growth of constants, in bytes."""
        return max(self.limits.fold_bytes, 4 * self.given_bytes)

    def objection(self, made: int, operations: int, freed: int = 0) -> str | None:
        """Why not to compute something of `made` bytes at compile time, after which `freed` bytes are unused; None if it may be computed."""
        if self.held_bytes + made - freed > self.fold_bytes:
            return f"it makes {made} bytes, and constants have grown by {self.held_bytes} of {self.fold_bytes} bytes already ({how_to('fold_bytes')})"
        if self.operations + operations > self.limits.fold_operations:
            total = self.limits.fold_operations
            return f"it takes {operations} operations, and {self.operations} of {total} are spent already ({how_to('fold_operations')})"
        return None

    def spend(self, made: int, operations: int, freed: int = 0) -> None:
        """Record a compile-time computation, with the arguments of `objection`."""
        self.held_bytes += made - freed
        self.operations += operations

    def check_time(self, where: str) -> None:
        """Raise LimitError if compiling has taken too long; `where` names the next step."""
        spent = time.perf_counter() - self.began
        if spent > self.limits.seconds:
            raise LimitError(f"{where}: compiling has taken {spent:.1f} s, more than {self.limits.seconds:g} ({how_to('seconds')})")


def how_to(limit: str) -> str:
    """How to raise a limit, for messages."""
    return f"limit {limit}; to raise it: limits=Limits({limit}=…) or --limit {limit}=…"


def over(what: str, limit: str, value: float, limits: Limits) -> LimitError:
    """The error for something that would consume `value` of a limit."""
    return LimitError(f"{what} would take {value}, more than {getattr(limits, limit)} ({how_to(limit)})")
