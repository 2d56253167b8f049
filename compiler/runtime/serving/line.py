"""A line of requests that is fair to callers."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairLine(Generic[T]):
    """Entries of several callers: round robin over the callers, first come, first served for each. Every operation takes constant time.

    A caller with many entries delays another one by at most one entry for each caller.
    """

    def __init__(self) -> None:
        self._by_caller: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()

    def __iter__(self) -> Iterator[T]:
        return (entry for entries in self._by_caller.values() for entry in entries)

    def add(self, caller: Hashable, entry: T) -> None:
        """Add an entry behind the others of its caller."""
        self._by_caller.setdefault(caller, OrderedDict())[entry] = None

    def next(self) -> T | None:
        """Take the first entry of the caller whose turn it is; None if there is no entry."""
        if not self._by_caller:
            return None
        caller, entries = next(iter(self._by_caller.items()))
        entry, _ = entries.popitem(last=False)
        self._by_caller.move_to_end(caller)
        if not entries:
            del self._by_caller[caller]
        return entry

    def remove(self, caller: Hashable, entry: T) -> None:
        """Take out an entry that is in the line."""
        entries = self._by_caller[caller]
        del entries[entry]
        if not entries:
            del self._by_caller[caller]
