"""The checks of indices of loaded code: the memory for how far they reach, and the error if one is out of range."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from stepwell.dialects.core.index_checks import IndexCheck, widths
from stepwell.dialects.support.errors import IndexRangeError


class IndexChecks:
    """The checks of a model, whose code gives a hidden result for each tensor of indices behind its outputs: how far these reach."""

    def __init__(self, checks: Sequence[IndexCheck]) -> None:
        self.checks = tuple(checks)
        self._starts = list(itertools.accumulate(widths(checks), initial=0))

    @property
    def hidden(self) -> int:
        """The number of hidden results."""
        return len(self._starts) - 1

    def parts(self) -> list[np.ndarray]:
        """New memory for the hidden results of a run."""
        buffer = np.empty(self._starts[-1], np.uint64)
        return [buffer[start:end] for start, end in itertools.pairwise(self._starts)]

    def error(self, number: int, parts: Sequence[np.ndarray], sizes: Mapping[str, int]) -> IndexRangeError:
        """The error for the check of that number, which code has found an index out of range for; `sizes` are the values of symbols."""
        check = self.checks[number]
        return IndexRangeError(str(check.with_sizes(sizes).problem(parts[check.result].tolist())))

    def raise_any(self, results: Sequence[np.ndarray], sizes: Mapping[str, int] | None = None) -> None:
        """Raise IndexRangeError for the first check that hidden results do not pass: for code that does not compare them itself."""
        for check in self.checks:
            problem = check.with_sizes(sizes or {}).problem(results[check.result].reshape(-1).view(np.uint64).tolist())
            if problem is not None:
                raise IndexRangeError(problem)
