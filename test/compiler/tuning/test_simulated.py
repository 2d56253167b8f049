"""The simulated device: its answers are functions of the seed and of the request, and its noise is what its fields say."""

import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
from simulated_contests import contest

from stepwell.database.records import State
from stepwell.dialects.support.errors import InputError
from stepwell.tuning.blocks import Entry, measurement_of, read_blocks
from stepwell.tuning.device import WHOLE, Arm, Built, Contest, Fault, Turns
from stepwell.tuning.simulated import SimulatedDevice, SimulatedKernel, SimulatedNetwork, SimulatedSite

DEVICE = SimulatedDevice(
    {"a": SimulatedSite(0.003, log_ratios={"fast": -0.2}, faults={"wrong": State.DIFFERS, "bad": State.CRASHED, "slow": State.TIMED_OUT}),
     "b": SimulatedSite(0.001, log_ratios={"fast": -0.5}, faults={"none": State.FAILED})},
    rest=0.002,
)  # fmt: skip


def test_answers_depend_on_the_request_alone() -> None:
    entries = [Entry(contest(DEVICE, "a", ["fast", "x"]), (0, 1, 2, 3)), Entry(contest(DEVICE, "b", ["fast"]), (0, 1, 2))]
    first, second = (measurement_of(entries, 24, random.Random(seed), 1, 60) for seed in (1, 2))
    copy = pickle.loads(pickle.dumps(DEVICE))
    assert [DEVICE.measure(first), DEVICE.measure(second)] == [copy.measure(request) for request in (second, first)][::-1]
    assert DEVICE.measure(first) != DEVICE.measure(second)
    assert replace(DEVICE, seed=1).measure(first) != DEVICE.measure(first)
    assert DEVICE.log_ratio("a", "x") == copy.log_ratio("a", "x") != DEVICE.log_ratio("b", "x")
    turns = DEVICE.measure(first)
    assert isinstance(turns, Turns)
    assert turns.seconds == pytest.approx(sum(0.002 + sum(sample.wall or 0 for sample in turn.values()) for turn in turns.samples))


def test_faults_are_found_where_they_belong() -> None:
    texts = ["default", "default", "wrong", "bad", "slow", "fast"]
    built = DEVICE.build([SimulatedKernel("a", text) for text in texts] + [SimulatedKernel("b", "none")], timeout=1)
    assert [isinstance(code, Built) for code in built] == [True] * 6 + [False]
    assert len({code.digest for code in built if isinstance(code, Built)}) == 5
    checked = DEVICE.check([contest(DEVICE, "a", texts[2:])], timeout=1)["a"]
    assert [fault and fault.state for fault in checked] == [None, None, State.DIFFERS, State.CRASHED, State.TIMED_OUT, None]
    everything = Entry(contest(DEVICE, "a", texts[2:]), tuple(range(6)))
    for arms, state in (((0, 1, 2, 5), None), ((0, 1, 3), State.CRASHED), ((0, 1, 4), State.TIMED_OUT)):
        result = DEVICE.measure(measurement_of([replace(everything, arms=arms)], 12, random.Random(1), 1, 60))
        assert (result.state if isinstance(result, Fault) else None) is state
    # Runs that take longer than the time-out, and an arm that is loaded but does not run.
    assert isinstance(DEVICE.measure(measurement_of([replace(everything, arms=(0, 1))], 12, random.Random(1), 1, 0.01)), Fault)
    assert isinstance(DEVICE.measure(measurement_of([replace(everything, arms=(0, 3), idle=True)], 12, random.Random(1), 1, 60)), Turns)
    for request in (SimulatedKernel("c", "x"), "a"):
        with pytest.raises(InputError):
            DEVICE.build([request], timeout=1)


def test_chances_are_those_of_the_fields() -> None:
    device = replace(DEVICE, failing=0.1, crashing=0.2, hanging=0.05, differing=0.1)
    fates = [device.fate("b", f"c{number}") for number in range(1000)]
    found = {state: fates.count(state) / 1000 for state in State}
    expected = {State.BUILT: 0.55, State.FAILED: 0.1, State.CRASHED: 0.2, State.TIMED_OUT: 0.05, State.DIFFERS: 0.1}
    assert all(abs(found[state] - chance) < 0.04 for state, chance in expected.items())
    assert device.fate("b", "default") is State.BUILT
    ratios = [device.log_ratio("b", f"c{number}") for number in range(1000)]
    assert np.mean(ratios) == pytest.approx(0.1, abs=0.01)
    assert np.std(ratios) == pytest.approx(0.1, abs=0.01)
    with pytest.raises(InputError):
        replace(DEVICE, load=1.5)


def test_noise_is_that_of_the_fields() -> None:
    device = replace(DEVICE, load=0.3, steps_back=0.1, place=0.0, drift=0.0, noise=0.02)
    entry = Entry(contest(device, "a", ["fast"]), (0, 1, 2))
    for threads in (1, 2):
        measurement = measurement_of([entry], 1500, random.Random(1), threads, 60)
        turns = device.measure(measurement)
        assert isinstance(turns, Turns)
        blocks = read_blocks(entry, measurement, turns)
        assert np.isnan(blocks.wall).mean() == pytest.approx(0.1, abs=0.03)
        assert np.isnan(blocks.cpu).all() == (threads == 2)
        assert blocks.disturbed.mean() == pytest.approx(0.3, abs=0.03)
        calm = blocks.undisturbed
        assert np.nanmean(calm, axis=0) - np.log(0.003) == pytest.approx([0, 0, -0.2], abs=0.006)
        assert np.nanstd(calm, axis=0) == pytest.approx(0.02, rel=0.2)
        assert np.nanmean(np.where(blocks.disturbed, blocks.wall, np.nan)) > np.nanmean(calm) + 0.1


def test_the_whole_network_is_the_sum_of_its_sites() -> None:
    device = replace(DEVICE, noise=1e-6, place=0.0, drift=0.0)
    choices = [SimulatedNetwork(), SimulatedNetwork(), SimulatedNetwork((("b", "fast"),)), SimulatedNetwork((("a", "fast"), ("b", "fast")))]
    built = device.build(choices, timeout=1)
    arms = tuple(Arm(str(choice.choices), code) for choice, code in zip(choices, built, strict=True) if isinstance(code, Built))
    entry = Entry(Contest(WHOLE, arms), (0, 1, 2, 3))
    measurement = measurement_of([entry], 16, random.Random(1), 1, 60)
    turns = device.measure(measurement)
    assert isinstance(turns, Turns)
    seconds = np.exp(np.median(read_blocks(entry, measurement, turns).wall, axis=0))
    fast_a, fast_b = 0.003 * np.exp(-0.2), 0.001 * np.exp(-0.5)
    assert seconds == pytest.approx([0.006, 0.006, 0.005 + fast_b, 0.002 + fast_a + fast_b], rel=1e-4)
