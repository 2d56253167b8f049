"""Selects the cases of behaviour tests for `scripts/test --fast`, by the recorded cost of each test.

Each test function gets the same allowance of CPU seconds, the largest for which the total stays within the budget. Cheap tests therefore run
completely, a test with many expensive cases runs some of them, evenly spread, and a function with a single case above the allowance is skipped. Tests
without a record have no known cost: a new test always runs.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stepwell.dialects.support.files import write_atomically

VARIABLE = "STEPWELL_TEST_BUDGET"
"""An environment variable of pytest: the budget in CPU seconds. Without it all cases run."""
RECORD = Path(__file__).resolve().parent.parent / "test" / "costs.json"
_WORTH_A_LINE = 0.1
_LONG = 10.0

Record = Mapping[str, float]
"""Mean CPU seconds per case of a test function on the reference machine (`budget.Budget.unit`), by `test/FILE.py::function`."""


def function_of(case: str) -> str:
    """The test function of a case, both as pytest names."""
    return case.partition("[")[0]


def read_record(file: Path = RECORD) -> Record:
    """The record of the checkout; empty if there is none."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def write_record(costs: Mapping[str, float], file: Path = RECORD) -> None:
    """Record the costs of cases in a full run; functions with negligible cost are left out."""
    cases = defaultdict(list)
    for case, seconds in costs.items():
        cases[function_of(case)].append(seconds)
    lines = {function: round(sum(found) / len(found), 3) for function, found in sorted(cases.items()) if sum(found) >= _WORTH_A_LINE}
    write_atomically(file, json.dumps(lines, indent=0) + "\n")


def allowance(cases: Mapping[str, int], record: Record, budget: float) -> float:
    """The allowance of each function in CPU seconds, given its number of cases."""
    high = max((record.get(function, 0.0) * count for function, count in cases.items()), default=0.0)
    if sum(record.get(function, 0.0) * count for function, count in cases.items()) <= budget:
        return high
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        total = sum(_kept(count, record.get(function, 0.0), middle) * record.get(function, 0.0) for function, count in cases.items())
        low, high = (middle, high) if total <= budget else (low, middle)
    return low


def _kept(count: int, seconds: float, allowed: float) -> int:
    return count if seconds * count <= allowed else int(allowed / seconds)


def chosen(cases: Sequence[str], record: Record, budget: float) -> list[bool]:
    """Whether each case runs."""
    places = defaultdict(list)
    for place, case in enumerate(cases):
        places[function_of(case)].append(place)
    allowed = allowance({function: len(found) for function, found in places.items()}, record, budget)
    runs = [False] * len(cases)
    for function, found in places.items():
        kept = _kept(len(found), record.get(function, 0.0), allowed)
        for i in range(kept):
            runs[found[i * len(found) // kept]] = True
    return runs


def long_first(cases: Iterable[str], record: Record) -> list[int]:
    """The order in which to run cases: long ones first, so that no process is left with one at the end; otherwise unchanged."""
    costs = [record.get(function_of(case), 0.0) for case in cases]
    return sorted(range(len(costs)), key=lambda place: -costs[place] if costs[place] >= _LONG else 0.0)


def outdated(costs: Mapping[str, float], record: Record) -> list[str]:
    """Functions whose cases cost far more than recorded, most expensive first: `--fast` underestimates them."""
    cases = defaultdict(list)
    for case, seconds in costs.items():
        cases[function_of(case)].append(seconds)
    means = {function: sum(found) / len(found) for function, found in cases.items()}
    return sorted((f for f, mean in means.items() if mean > 1 + 3 * record.get(f, 0.0)), key=lambda f: -means[f])
