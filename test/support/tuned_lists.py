"""A subject of tuning without kernels, for the simulated device: sites with a list of candidates, and a knob that orders them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from stepwell.database.records import Workload, WorkloadInfo
from stepwell.dialects.sched.plan_file import Plan
from stepwell.tuning.device import Built, Contest, Fault, Measurement, Request, Turns
from stepwell.tuning.executor import Executor
from stepwell.tuning.simulated import SimulatedDevice, SimulatedKernel, SimulatedNetwork, SimulatedSite
from stepwell.tuning.subject import Part, Taken, Texts


class ListedSpace:
    """Candidates `n=0`, `n=1`, …, of which the first is the default; the prediction says nothing."""

    def __init__(self, count: int) -> None:
        self.texts = [f"n={number}" for number in range(count)]
        self.default = self.texts[0]

    def size(self) -> int:
        return len(self.texts)

    def every(self):
        yield from self.texts

    def sample(self, random: Random) -> str:
        return random.choice(self.texts)

    def near(self, text: str) -> list[str]:
        place = self.texts.index(text)
        return [self.texts[other] for other in (place - 1, place + 1) if 0 <= other < len(self.texts)]

    def move(self, text: str, random: Random) -> str:
        return random.choice(self.near(text) or [text])

    def lines(self, text: str) -> dict[str, list[str]]:
        return {"n": self.texts}

    def cross(self, one: str, other: str, random: Random) -> str:
        return random.choice((one, other))

    def refusal(self, text: str) -> str | None:
        return None if text in self.texts else f"there is no {text}"

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        return [1e-3] * len(texts)

    def features(self, text: str) -> Mapping[str, float]:
        return {"n": float(self.texts.index(text))}


@dataclass(frozen=True)
class ListedSite:
    kind: str
    name: str
    workload: Workload
    info: WorkloadInfo
    space: ListedSpace


class ListedSubject:
    """Kernels `k0`, `k1`, … with one site each, of a simulated device."""

    name = "simulated"

    def __init__(self, device: SimulatedDevice, candidates: int = 12) -> None:
        self.device = device
        [self.whole] = device.build([SimulatedNetwork()], 1.0)
        self.parts = []
        for name in device.sites:
            site = ListedSite("schedule", name, Workload("schedule", name, "", "t", 1), WorkloadInfo(name, self.name), ListedSpace(candidates))
            [default] = device.build([SimulatedKernel(name, site.space.default)], 1.0)
            assert isinstance(default, Built)
            self.parts.append(Part(name, [site], default))

    def request(self, part: str, texts: Texts) -> SimulatedKernel:
        return SimulatedKernel(part, texts.get(f"schedule/{part}", "n=0"))

    def request_whole(self, taken: Taken) -> SimulatedNetwork:
        return SimulatedNetwork(tuple((part, text) for part, texts in sorted(taken.items()) for text in texts.values()))

    def exchanged(self, built: Mapping[str, Built]) -> Built | None:
        return None

    def plan(self, taken: Taken) -> Plan:
        return Plan({}, choices={"schedule": {part: text for part, texts in taken.items() for text in texts.values()}})

    def rebased(self, texts: Texts) -> "ListedSubject":
        raise NotImplementedError


@dataclass(frozen=True)
class AskDevice:
    """Asks a device in another process."""

    device: SimulatedDevice
    method: str
    arguments: tuple[object, ...]

    def answer(self) -> object:
        return getattr(self.device, self.method)(*self.arguments)


class PooledDevice:
    """A simulated device whose answers come from processes of an executor. `after` is called after each measurement, with their number."""

    def __init__(self, device: SimulatedDevice, executor: Executor, after: Callable[[int], None] = lambda number: None) -> None:
        self.device, self.executor, self.after, self.measured = device, executor, after, 0

    def build(self, requests: Sequence[Request[Built]], timeout: float) -> list[Built | Fault]:
        found = self.executor.build([AskDevice(self.device, "build", ([request], timeout)) for request in requests], timeout)
        return [one if isinstance(one, Fault) else one[0] for one in found]

    def check(self, contests: Sequence[Contest], timeout: float) -> dict[str, list[Fault | None]]:
        return self.executor.run(AskDevice(self.device, "check", (contests, timeout)), timeout)

    def measure(self, measurement: Measurement) -> Turns | Fault:
        self.measured += 1
        self.after(self.measured)
        return self.executor.run(AskDevice(self.device, "measure", (measurement,)), 60.0)


def simulated(seed: int, gains: Mapping[str, Mapping[str, float]], **noise: float) -> SimulatedDevice:
    """A device whose kernels take a millisecond each, with the true log ratios of some candidates; all others are slower by a tenth."""
    sites = {name: SimulatedSite(1e-3, "n=0", dict(ratios), {}) for name, ratios in gains.items()}
    return SimulatedDevice(sites, seed=seed, spread=0.02, handicap=6.0, **noise)
