"""Threads: compiling in several at once, compiling while models run, how many of them a run may have."""

from collections.abc import Iterator

import numpy as np
import pytest
from robustness_programs import network
from watchdog import Outcome, Watchdog

import stepwell
from stepwell.cli.main import main as command
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.target.cores import MAX_THREADS, available_cores, thread_count


@pytest.fixture
def dog() -> Iterator[Watchdog]:
    """A child process that has loaded nothing of what compiles."""
    with Watchdog() as dog:
        yield dog


def returned(outcome: Outcome) -> object:
    assert outcome.kind == "returned", str(outcome)
    return outcome.value


def test_threads_compile_at_once_cold_and_warm(dog: Watchdog) -> None:
    returned(dog.call("robustness_programs:compile_in_threads", 8, 2, seconds=240))


def test_threads_share_a_model_with_free_dimensions(dog: Watchdog) -> None:
    returned(dog.call("robustness_programs:free_rows_in_threads", 6, seconds=240))


def test_compiling_beside_runs(dog: Watchdog) -> None:
    returned(dog.call("robustness_programs:compile_beside_runs", 3, seconds=240))


@pytest.mark.parametrize("threads", [0, -1, "a", 2**33, True, 1.5, MAX_THREADS + 1, 100000, [1]])
def test_numbers_of_threads_that_are_refused(threads: object) -> None:
    expected = f"threads: expected a whole number from 1 to {MAX_THREADS}, .*got {threads!r}".replace("[1]", r"\[1\]")
    with pytest.raises(stepwell.InputError, match=expected):
        stepwell.compile(network(), threads=threads)  # type: ignore[arg-type]
    with pytest.raises(stepwell.InputError, match=expected):
        stepwell.compile_ir("", "graph", WeightTable(), threads=threads)  # type: ignore[arg-type]


def test_numbers_of_threads_that_are_taken() -> None:
    assert thread_count(None) == available_cores()
    assert thread_count(np.int64(3)) == 3
    assert thread_count(MAX_THREADS) == MAX_THREADS


@pytest.mark.parametrize("threads", ["0", "-1", "a", "1.5", "100000", "9" * 5000])
def test_command_refuses_numbers_of_threads(threads: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "none.onnx", f"--threads={threads}"]) == 2
    assert f"--threads: expected a number from 1 to {MAX_THREADS}, got '{threads}'" in capsys.readouterr().err


def test_as_many_threads_as_are_allowed(dog: Watchdog) -> None:
    returned(dog.call("robustness_programs:many_threads_in_a_run", [3, available_cores() + 5, MAX_THREADS], seconds=120))
