"""What --fast chooses by the record of costs."""

from pathlib import Path

import quick


def test_each_function_gets_as_much() -> None:
    counts = {"a.py::cheap": 10, "a.py::dear": 100, "b.py::single": 1, "b.py::new": 3}
    cases = [f"{function}[{i}]" for function, count in counts.items() for i in range(count)]
    record = {"a.py::cheap": 0.1, "a.py::dear": 1.0, "b.py::single": 50.0}
    runs = quick.chosen(cases, record, budget=11.5)
    kept = [case for case, does_run in zip(cases, runs, strict=True) if does_run]
    assert kept == [*cases[:10], *(f"a.py::dear[{i}]" for i in range(0, 100, 10)), *cases[-3:]]
    assert quick.chosen(cases, record, budget=1000.0) == [True] * len(cases)
    assert sum(quick.chosen(cases, {}, budget=1.0)) == len(cases)


def test_a_larger_budget_never_leaves_out_more_seconds() -> None:
    cases = [f"a.py::f{j}[{i}]" for j in range(20) for i in range(j + 1)]
    record = {f"a.py::f{j}": 0.3 * (j % 7) for j in range(20)}
    costs = [record[quick.function_of(case)] for case in cases]
    spent = [sum(cost for cost, runs in zip(costs, quick.chosen(cases, record, budget), strict=True) if runs) for budget in range(100)]
    assert spent == sorted(spent)
    assert all(seconds <= budget + 1e-9 for budget, seconds in enumerate(spent))


def test_long_tests_come_first_and_the_rest_stay_in_order() -> None:
    cases = ["a.py::one", "a.py::long", "b.py::two", "b.py::longest[x]"]
    assert quick.long_first(cases, {"a.py::long": 20.0, "b.py::longest": 40.0, "b.py::two": 9.0}) == [3, 1, 0, 2]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    assert quick.read_record(file) == {}
    costs = {"a.py::f[1]": 1.0, "a.py::f[2]": 3.0, "a.py::g": 0.01}
    quick.write_record(costs, file)
    assert quick.read_record(file) == {"a.py::f": 2.0}
    assert quick.outdated(costs, quick.read_record(file)) == []
    assert quick.outdated({"a.py::f[1]": 9.0, "a.py::g": 5.0, "a.py::h": 0.5}, quick.read_record(file)) == ["a.py::f", "a.py::g"]
