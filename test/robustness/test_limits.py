"""Models of unusual shape, and memory that cannot be had."""

import numpy as np
import pytest
from robustness.programs import network
from watchdog import Watchdog

import stepwell


def test_thousands_of_inputs_and_outputs() -> None:
    """More than ctypes takes arguments; a time by their square was 85 s."""
    with Watchdog() as dog:
        outcome = dog.call("robustness.programs:compile_wide", 1501, seconds=90)
    assert outcome.kind == "returned", str(outcome)
