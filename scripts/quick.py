"""Which cases of behaviour tests `scripts/test --fast` runs, by what each test was recorded to cost.

Each test function gets the same allowance of CPU seconds, the largest with which all together stay within the budget. So cheap tests run
whole, one with many dear cases runs some of them, evenly spread, and a function of which a single case is dearer is left out. What is not in the
record costs nothing, as far as is known: a new test runs.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stepwell.dialects.support.files import write_atomically

VARIABLE = "STEPWELL_TEST_BUDGET"
"""In the environment of pytest: the budget in CPU seconds. Without it all cases run."""
RECORD = Path(__file__).resolve().parent.parent / "test" / "costs.json"
_WORTH_A_LINE = 0.1
_LONG = 10.0

Record = Mapping[str, float]
"""CPU seconds of a case on the machine of reference (`budget.Budget.unit`), the mean of a test function's, by `test/FILE.py::function`."""


def function_of(case: str) -> str:
    """The test function of a case, by pytest's names for both."""
    return case.partition("[")[0]


def read_record(file: Path = RECORD) -> Record:
    """The record of the checkout; empty if there is none."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def write_record(costs: Mapping[str, float], file: Path = RECORD) -> None:
    """Record what cases cost in a whole run; functions that cost next to nothing are left out."""
    cases = defaultdict(list)
    for case, seconds in costs.items():
        cases[function_of(case)].append(seconds)
    lines = {function: round(sum(found) / len(found), 3) for function, found in sorted(cases.items()) if sum(found) >= _WORTH_A_LINE}
    write_atomically(file, json.dumps(lines, indent=0) + "\n")


def allowance(cases: Mapping[str, int], record: Record, budget: float) -> float:
    """CPU seconds that each function may take, given how many cases there are of each."""
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
    """Of each case whether it runs."""
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
    """The order in which to run cases: those that take long first, so that no process is left with one at the end; else as they are."""
    costs = [record.get(function_of(case), 0.0) for case in cases]
    return sorted(range(len(costs)), key=lambda place: -costs[place] if costs[place] >= _LONG else 0.0)


def outdated(costs: Mapping[str, float], record: Record) -> list[str]:
    """Functions whose cases cost far more than the record says, dearest first: `--fast` takes them for quicker than they are."""
    cases = defaultdict(list)
    for case, seconds in costs.items():
        cases[function_of(case)].append(seconds)
    means = {function: sum(found) / len(found) for function, found in cases.items()}
    return sorted((f for f, mean in means.items() if mean > 1 + 3 * record.get(f, 0.0)), key=lambda f: -means[f])
