"""Search spaces of a few knobs with known times, and a tuner without noise, for tests of search strategies."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from random import Random

from stepwell.tuning.spaces import Score, Strategy, Trial

Point = tuple[int, ...]


class Grid:
    """A `Space` of points: each knob has a number of values from zero on. Points that are not `legal` are refused."""

    def __init__(self, sizes: Sequence[int], default: Point, legal: Callable[[Point], bool] = lambda point: True) -> None:
        self.sizes, self.legal = tuple(sizes), legal
        self.default = self.text(default)
        assert self.refusal(self.default) is None

    @staticmethod
    def text(point: Point) -> str:
        return ",".join(map(str, point))

    @staticmethod
    def point(text: str) -> Point:
        return tuple(map(int, text.split(",")))

    def size(self) -> int:
        return math.prod(self.sizes)

    def every(self) -> Iterator[str]:
        yield self.default
        for point in product(*map(range, self.sizes)):
            if self.legal(point) and self.text(point) != self.default:
                yield self.text(point)

    def sample(self, random: Random) -> str:
        for _ in range(20):
            point = tuple(random.randrange(size) for size in self.sizes)
            if self.legal(point):
                return self.text(point)
        return self.default

    def near(self, text: str) -> list[str]:
        return [other for line in self.lines(text).values() for other in line if other != text]

    def move(self, text: str, random: Random) -> str:
        return random.choice(self.near(text) or [text])

    def lines(self, text: str) -> dict[str, list[str]]:
        point = self.point(text)
        found = {}
        for knob, size in enumerate(self.sizes):
            line = [(*point[:knob], value, *point[knob + 1 :]) for value in range(size)]
            found[f"knob.{knob}"] = [self.text(other) for other in line if self.legal(other)]
        return found

    def cross(self, one: str, other: str, random: Random) -> str:
        made = tuple(random.choice(pair) for pair in zip(self.point(one), self.point(other), strict=True))
        return self.text(made) if self.legal(made) else one

    def refusal(self, text: str) -> str | None:
        point = self.point(text)
        inside = len(point) == len(self.sizes) and all(0 <= value < size for value, size in zip(point, self.sizes, strict=True))
        return None if inside and self.legal(point) else "it is not legal"

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        return [1.0 for _ in texts]

    def features(self, text: str) -> Mapping[str, float]:
        return {f"knob.{knob}": float(value) for knob, value in enumerate(self.point(text))}


def noise(text: str, seed: int) -> float:
    """A number between -1 and 1 that depends on the text alone: a model's error, or ruggedness."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{text}".encode(), digest_size=4).digest()) / 2**31 - 1


def tune(strategy: Strategy, space: Grid, time: Callable[[str], float | None], score: Score, budget: int, seed: int, batch: int = 16) -> list[Trial]:
    """The trials of a tuning that measures `budget` candidates without noise, the default first."""
    trials, random = [Trial(space.default, 0.0)], Random(seed)
    usual = time(space.default)
    assert usual is not None
    while len(trials) < budget:
        texts = strategy.propose(space, trials, score, min(batch, budget - len(trials)), 400, random)
        if not texts:
            break
        measured = {text: time(text) for text in texts}
        trials += [Trial(text, None if seconds is None else seconds - usual) for text, seconds in measured.items()]
    return trials
