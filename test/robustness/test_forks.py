"""Forked processes: data loaders and servers that load a model first and fork then."""

import pytest
from watchdog import Watchdog


@pytest.mark.parametrize("first", ["json", "sklearn"])
def test_children_run_and_compile(first: str) -> None:
    """scikit-learn has OpenMP not look after forks (KMP_INIT_AT_FORK=FALSE)."""
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:forked_children", first, seconds=150)
    assert outcome.kind == "returned", str(outcome)


def test_forks_beside_threads_that_compile_and_run() -> None:
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:forks_beside_compiling", 4, seconds=200)
    assert outcome.kind == "returned", str(outcome)
    assert outcome.value == [0] * 4, str(outcome)


def test_nothing_is_looked_for_in_each_compilation() -> None:
    """A process that is forked while another thread looks for a module waits for it, for good."""
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:modules_looked_for_again", seconds=100)
    assert outcome.value == {}, str(outcome)


def test_a_runtime_that_was_started_before_runs_on_one_thread() -> None:
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:forked_where_openmp_was_started_before", seconds=100)
    assert outcome.kind == "returned", str(outcome)
    (note,) = outcome.value
    assert "was started with KMP_INIT_AT_FORK=FALSE before Stepwell was used: models run on one thread in forked processes" in note
