"""Confirmations on the simulated device: gains that are real, gains that are not, faults, and the whole network."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from simulated_contests import contest

from stepwell.database.records import Decision, Phase, State
from stepwell.dialects.support.errors import InputError
from stepwell.tuning.compete import Pace
from stepwell.tuning.confirm import Confirmation, confirm, confirm_whole
from stepwell.tuning.device import WHOLE, Arm, Built, Contest
from stepwell.tuning.simulated import SimulatedDevice, SimulatedNetwork, SimulatedSite
from stepwell.tuning.statistics import holm

RATIOS = {"fast": -0.03, "even": 0.0, "slow": 0.02}
DEVICE = SimulatedDevice({f"k{i}": SimulatedSite(0.003, log_ratios=RATIOS, faults={"crash": State.CRASHED}) for i in range(4)}, rest=0.004)


def confirmed(device: SimulatedDevice, contests: Sequence[Contest], processes: int = 8, threads: int = 1, seed: int = 1) -> dict[str, Confirmation]:
    return confirm(
        device, contests, processes=processes, deadline=math.inf, random=random.Random(seed), threads=threads, pace=Pace(seconds=0.3),
    )  # fmt: skip


def test_real_gains_are_accepted_and_their_intervals_contain_the_truth() -> None:
    inside = total = 0
    for seed in range(40):
        device = replace(DEVICE, seed=seed, outliers=0.02)
        found = confirmed(device, [contest(device, "k0", ["fast"]), contest(device, "k1", ["even"]), contest(device, "k2", ["slow"])])
        assert [confirmation.accepted for confirmation in found.values()] == [True, found["k1"].accepted, False]
        for confirmation, truth in zip(found.values(), (-0.03, 0.0, 0.02), strict=True):
            inside += confirmation.ratio.low <= math.exp(truth) <= confirmation.ratio.high
            inside += confirmation.twin.low <= 1 <= confirmation.twin.high
            total += 2
        assert [confirmation.adjusted for confirmation in found.values()] == holm([confirmation.p for confirmation in found.values()])
    assert 0.91 <= inside / total <= 0.985


def test_what_is_stored() -> None:
    found = confirmed(DEVICE, [contest(DEVICE, "k0", ["fast"]), contest(DEVICE, "k1", ["slow"])])
    first = found["k0"]
    assert first.decision == Decision("fast", "default", first.ratio.value, first.ratio.low, first.ratio.high, first.p)
    assert found["k1"].decision.text == "default"
    assert found["k1"].decision.ratio > 1
    assert [(samples.text, samples.clock, samples.phase) for samples in first.samples] == [
        (text, clock, Phase.CONFIRM) for text in ("default", "fast") for clock in ("cpu", "wall")
    ]
    assert first.processes == 8


def test_an_arm_that_crashes_is_not_accepted_and_others_are() -> None:
    found = confirmed(DEVICE, [contest(DEVICE, "k0", ["fast"]), contest(DEVICE, "k1", ["crash"])])
    assert (found["k0"].accepted, found["k0"].fault) == (True, None)
    assert (found["k1"].accepted, found["k1"].p, found["k1"].fault and found["k1"].fault.state) == (False, 1.0, State.CRASHED)
    broken = replace(DEVICE, sites={**DEVICE.sites, "k0": replace(DEVICE.sites["k0"], faults={"default": State.TIMED_OUT})})
    found = confirmed(broken, [contest(DEVICE, "k0", ["fast"]), contest(DEVICE, "k1", ["fast"])])
    assert [(confirmation.accepted, confirmation.fault is None) for confirmation in found.values()] == [(False, False), (True, True)]


def test_a_disturbed_machine_needs_more_processes_or_says_so() -> None:
    busy = confirmed(replace(DEVICE, load=0.5), [contest(DEVICE, "k0", ["fast"])], threads=2)["k0"]
    assert busy.accepted
    assert busy.discarded > 0
    assert "thrown away" in busy.notes[0]
    busier = replace(DEVICE, load=0.8)
    counts = [confirmed(busier, [contest(DEVICE, "k0", ["fast"])], processes, threads=2)["k0"].processes for processes in (8, 20)]
    assert counts == [8, 20]
    lost = confirmed(replace(DEVICE, load=1.0), [contest(DEVICE, "k0", ["fast"])], threads=2)["k0"]
    assert (lost.accepted, lost.processes, lost.p) == (False, 0, 1.0)
    assert lost.samples == ()


def test_the_deadline_ends_a_confirmation() -> None:
    seconds, progress = itertools.count(0.0, 1.0), []
    found = confirm(
        DEVICE, [contest(DEVICE, "k0", ["fast"])], processes=50, deadline=10, random=random.Random(1), clock=lambda: next(seconds),
        on_progress=lambda done, of: progress.append((done, of)),
    )["k0"]  # fmt: skip
    assert progress == [(number, 50) for number in range(1, found.processes + 1)]
    assert 1 < found.processes < 10


def whole(device: SimulatedDevice, *choices: tuple[str, str]) -> Contest:
    """The contest of a tuned network."""
    networks = [SimulatedNetwork(), SimulatedNetwork(), SimulatedNetwork(choices)]
    built = [code for code in device.build(networks, timeout=1) if isinstance(code, Built)]
    return Contest(WHOLE, tuple(Arm(text, code) for text, code in zip(["untuned", "untuned", "tuned"], built, strict=True)))


def test_the_whole_network_is_tested_against_the_untuned_one() -> None:
    for choices, accepted, truth in (((("k0", "fast"), ("k1", "fast")), True, None), ((("k0", "slow"),), False, None), ((), False, 1.0)):
        found = confirm_whole(DEVICE, whole(DEVICE, *choices), processes=8, deadline=math.inf, random=random.Random(2))
        expected = truth or (0.016 + sum(0.003 * math.expm1(RATIOS[text]) for _, text in choices)) / 0.016
        assert found.accepted is accepted
        assert found.ratio.low <= expected <= found.ratio.high
        assert {samples.phase for samples in found.samples} == {Phase.WHOLE}
    with pytest.raises(InputError, match="three arms"):
        confirmed(DEVICE, [contest(DEVICE, "k0", ["fast", "slow"])])
