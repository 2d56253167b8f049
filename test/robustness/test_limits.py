"""Models of unusual shape, memory that cannot be had, Ctrl-C while a model runs."""

import re

from watchdog import Watchdog


def test_thousands_of_inputs_and_outputs() -> None:
    """More than ctypes takes arguments; a time by their square was 85 s."""
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:compile_wide", 1501, seconds=90)
    assert outcome.kind == "returned", str(outcome)


def test_memory_that_cannot_be_had() -> None:
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:run_without_memory", 5000, seconds=90)
    assert outcome.kind == "returned", str(outcome)
    assert len(outcome.value) == 3
    for error in outcome.value:
        assert re.fullmatch(r"SW012 the run: out of memory, for 100000000 bytes of outputs and [1-9]\d{8} of workspace", error)


def test_interrupted_runs_leave_the_model_as_it_was() -> None:
    with Watchdog() as dog:
        outcome = dog.call("robustness_programs:interrupt_runs", 900, 6, seconds=90)
    assert outcome.kind == "returned", str(outcome)
    assert outcome.value == (6, 1)
