"""A search strategy: a class that proposes the candidates that a tuning builds and measures next.

    stepwell tune model.onnx --strategy beam --load examples/plugins/own_strategy.py

This one keeps a beam: it looks at the neighbours of the fastest few trials, and of these proposes the ones with the largest scores. Run by itself,
it tunes a space of 180 tiles whose times are known.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from stepwell.plugin import Score, Space, Trial, register_strategy

WIDTH = 3
"""The number of trials whose neighbours are looked at."""


@register_strategy("beam")
class Beam:
    """The neighbours of the fastest trials, or of the default as long as nothing was measured, by score."""

    def propose(self, space: Space, trials: Sequence[Trial], score: Score, count: int, effort: int, random: Random) -> list[str]:
        """At most `count` of them; none if all neighbours were tried."""
        tried = {trial.text for trial in trials}
        measured = [(trial.log_ratio, trial.text) for trial in trials if trial.log_ratio is not None]
        beam = [text for _, text in sorted(measured)[:WIDTH] if space.refusal(text) is None] or [space.default]
        near = [text for text in dict.fromkeys(near for text in beam for near in space.near(text)) if text not in tried][:effort]
        scores = dict(zip(near, score(near), strict=True))
        return sorted(near, key=lambda text: -scores[text])[:count]


class Tiles:
    """A `Space` for the example: register tiles of so many rows and columns, which must fit into 32 registers."""

    default = "1 x 1"

    def size(self) -> int:
        """All combinations, also those that do not fit."""
        return 12 * 15

    def every(self) -> Iterator[str]:
        """Row by row."""
        return (text for rows in range(1, 13) for columns in range(1, 16) if self.refusal(text := f"{rows} x {columns}") is None)

    def sample(self, random: Random) -> str:
        """Any tile that fits."""
        return random.choice(list(self.every()))

    def near(self, text: str) -> list[str]:
        """One row or column more or less."""
        rows, columns = self.knobs(text)
        around = [f"{rows + i} x {columns + j}" for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1))]
        return [other for other in around if self.refusal(other) is None]

    def move(self, text: str, random: Random) -> str:
        """One of `near`."""
        return random.choice(self.near(text) or [text])

    def lines(self, text: str) -> Mapping[str, Sequence[str]]:
        """The tiles with the same columns, and those with the same rows."""
        rows, columns = self.knobs(text)
        return {
            "rows": [other for other in self.every() if self.knobs(other)[1] == columns],
            "columns": [other for other in self.every() if self.knobs(other)[0] == rows],
        }

    def cross(self, one: str, other: str, random: Random) -> str:
        """The rows of one and the columns of the other."""
        mixed = f"{self.knobs(one)[0]} x {self.knobs(other)[1]}"
        return mixed if self.refusal(mixed) is None else one

    def refusal(self, text: str) -> str | None:
        """A register for each element of the tile, each row and each column."""
        rows, columns = self.knobs(text)
        if not (1 <= rows <= 12 and 1 <= columns <= 15):
            return "there is no such tile"
        registers = rows * columns + rows + columns
        return None if registers <= 32 else f"it needs {registers} registers, of 32"

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        """The analytic model counts the loads for each element, and nothing else."""
        return [(rows + columns) / (rows * columns) for rows, columns in map(self.knobs, texts)]

    def features(self, text: str) -> Mapping[str, float]:
        """Both knobs."""
        return dict(zip(("rows", "columns"), map(float, self.knobs(text)), strict=True))

    @staticmethod
    def knobs(text: str) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = text.split(" x ")
        return int(rows), int(columns)


if __name__ == "__main__":
    import math

    def seconds(text: str) -> float:
        """What a run would take: columns are loaded together, so that they cost less than rows."""
        rows, columns = Tiles.knobs(text)
        return (rows + math.ceil(columns / 4)) / (rows * columns) + 0.01

    space, strategy, random = Tiles(), Beam(), Random(0)
    trials = [Trial(space.default, 0.0)]

    def score(texts: Sequence[str]) -> list[float]:
        """Larger is better: the analytic prediction, negative."""
        return [-math.inf if time is None else -time for time in space.predict(texts)]

    while texts := strategy.propose(space, trials, score, 8, 1000, random):
        trials += [Trial(text, math.log(seconds(text) / seconds(space.default))) for text in texts]
    best = min(trials, key=lambda trial: trial.log_ratio or 0.0).text
    print(f"{best}, after {len(trials)} of {len(list(space.every()))} tiles")
    assert seconds(best) == min(map(seconds, space.every()))
    assert len(trials) == len({trial.text for trial in trials})
