"""Hostile models end in time, in little memory, and with success or one typed error. `scripts/hostile.py` runs the long ones."""

import re
from collections.abc import Iterator

import pytest
from covering import by_day
from hostile_models import CORPUS
from watchdog import GIB, Watchdog

SECONDS = 60.0  # each takes a few; machines differ
MEMORY = 2 * GIB
DEAR = {"nested_loops"}
"""More than ten seconds."""


@pytest.fixture(scope="module")
def dog() -> Iterator[Watchdog]:
    with Watchdog() as watchdog:
        yield watchdog


@pytest.mark.parametrize("name", by_day(CORPUS, lambda name: name not in DEAR))
def test_hostile_model(name: str, dog: Watchdog) -> None:
    outcome = dog.call("hostile_models:compile_model", CORPUS[name](), seconds=SECONDS, memory=MEMORY)
    assert outcome.kind == "returned", str(outcome)
    assert outcome.value == "compiled" or re.match(r"SW0\d\d ", outcome.value), outcome.value
    assert "internal error" not in outcome.value
    assert len(outcome.value) < 20_000
    assert "Traceback" not in outcome.value
