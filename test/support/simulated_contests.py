"""Contests on a simulated device."""

from collections.abc import Sequence

from stepwell.tuning.device import Arm, Built, Contest
from stepwell.tuning.simulated import SimulatedDevice, SimulatedKernel


def contest(device: SimulatedDevice, site: str, candidates: Sequence[str]) -> Contest:
    """A contest of a site's default, its twin, and some candidates, which must build."""
    default = device.sites[site].default
    texts = [default, default, *candidates]
    built = device.build([SimulatedKernel(site, text) for text in texts], timeout=1)
    return Contest(site, tuple(Arm(text, code) for text, code in zip(texts, built, strict=True) if isinstance(code, Built)))


def regret(device: SimulatedDevice, contest: Contest, arm: int) -> float:
    """The true log ratio of an arm to the fastest one that works."""
    sound = [device.log_ratio(contest.name, other.text) for other in contest.arms if device.fate(contest.name, other.text) == "built"]
    return device.log_ratio(contest.name, contest.arms[arm].text) - min(sound)
