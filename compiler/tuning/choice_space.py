"""The search space of a site at which a pass chooses among listed candidates, such as methods for a convolution."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from stepwell.dialects.support.errors import shown
from stepwell.passes.framework.choices import Candidate, Choice

Check = Callable[[str], str | None]
"""Why a candidate is not legal, or computes other bits; None if neither. It may lower the model."""


class ChoiceSpace:
    """The candidates of a recorded choice (`tuning.spaces.Space`); the default is the one that was chosen."""

    def __init__(self, choice: Choice, *, rounding: bool = False, check: Check | None = None) -> None:
        """With `rounding`, candidates may compute other bits than the default. `check` is asked once for each candidate, when `refusal` is."""
        self.choice, self.default, self._check = choice, choice.chosen, check
        found = {one.name: (one, seconds) for one, seconds in zip(choice.candidates, choice.seconds, strict=True)}
        self._candidates: dict[str, Candidate] = {name: one for name, (one, _) in found.items()}
        self._seconds = {name: seconds for name, (_, seconds) in found.items()}
        usual = self._candidates[self.default]
        allowed = (name for name, one in self._candidates.items() if name != self.default and (rounding or one.has_bits_of(usual)))
        self._allowed = [self.default, *allowed]
        self._refusals: dict[str, str | None] = {self.default: None}

    def size(self) -> int:
        """See `Space`."""
        return len(self._allowed)

    def every(self) -> Iterator[str]:
        """See `Space`."""
        yield from self._allowed

    def sample(self, random: Random) -> str:
        """See `Space`."""
        return random.choice(self._allowed)

    def near(self, text: str) -> list[str]:
        """See `Space`: candidates have no order, so all others."""
        return [name for name in self._allowed if name != text]

    def move(self, text: str, random: Random) -> str:
        """See `Space`."""
        return random.choice(self.near(text) or [text])

    def lines(self, text: str) -> dict[str, list[str]]:
        """See `Space`: the one knob is the choice itself, its values in the order of the pass."""
        return {self.choice.site.kind: [name for name in self._candidates if name in (*self._allowed, text)]}

    def cross(self, one: str, other: str, random: Random) -> str:
        """See `Space`."""
        return random.choice((one, other))

    def refusal(self, text: str) -> str | None:
        """See `Space`."""
        if text not in self._candidates:
            return f"expected one of {', '.join(self._candidates)}, got {shown(text)}"
        if text not in self._allowed:
            return f"it may compute other bits than {self.default}"
        if text not in self._refusals:
            self._refusals[text] = None if self._check is None else self._check(text)
        return self._refusals[text]

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        """See `Space`."""
        return [self._seconds[text] for text in texts]

    def features(self, text: str) -> dict[str, float]:
        """See `Space`: those that the pass gives, and the prediction in seconds."""
        seconds = self._seconds[text]
        given = {name: float(value) for name, value in self._candidates[text].features.items()}
        return given if seconds is None else {**given, "seconds": seconds}
