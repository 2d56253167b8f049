"""The state of a tuner: for each part of a network the best code so far, for each site the candidates that were tried."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from stepwell.tuning.confirm import Confirmation
from stepwell.tuning.device import Built
from stepwell.tuning.headroom import Attempt
from stepwell.tuning.spaces import Strategy, Trial
from stepwell.tuning.subject import Part, Texts, TunedSite

DEFAULT_CODE = "the default"
"""The name of the default among the codes of a part."""


@dataclass(frozen=True)
class Draft:
    """A candidate that may be built."""

    text: str
    strategy: str
    predicted: float | None = None
    """The predicted logarithm of its time relative to the default's."""


@dataclass
class SiteState:
    """A site, and what was tried there."""

    site: TunedSite
    strategy: Strategy
    random: Random
    """Random numbers of its own, so that what is proposed here does not depend on other sites."""
    trials: list[Trial] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    """The same candidates with what was predicted for them, if anything was."""
    drafts: list[Draft] = field(default_factory=list)
    """Candidates that the strategy proposed, and that were not built yet, the most promising first."""
    is_exhausted: bool = False
    """Whether the strategy has nothing to propose any more."""
    is_finishing: bool = False
    """Whether coordinate descent has begun, the last stage."""

    @property
    def best(self) -> Trial | None:
        """The fastest candidate that was measured."""
        measured = [trial for trial in self.trials if trial.log_ratio is not None]
        return min(measured, key=lambda trial: trial.log_ratio or 0.0, default=None)

    def add(self, trial: Trial, predicted: float | None) -> None:
        """Add a candidate that was tried; `predicted` is the predicted logarithm of its time relative to the default's."""
        self.trials.append(trial)
        self.attempts.append(Attempt(predicted, trial.log_ratio))


@dataclass(frozen=True)
class Incumbent:
    """Code of a part that was confirmed."""

    texts: Texts
    built: Built
    log_ratio: float
    confirmation: Confirmation


@dataclass
class PartState:
    """A part of a network, with its default code and the best so far."""

    part: Part
    sites: Mapping[str, SiteState]
    default: Built
    share: float
    """Its share of the network's time with the default code."""
    texts: Texts = field(default_factory=dict)
    """The candidates of the best code so far, the incumbent: those that differ from the default."""
    incumbent: Built | None = None
    log_ratio: float = 0.0
    """The estimated logarithm of the incumbent's time relative to the default's."""
    confirmed: "Incumbent | None" = None
    """The best code that was confirmed to be faster than the default."""
    is_broken: bool = False
    """Whether its own default code failed, so that nothing can be compared with it."""
    code: dict[str, str] = field(default_factory=dict)
    """By the digest of code that was measured, the candidate that has it."""

    @property
    def best(self) -> Built:
        """The incumbent's code."""
        return self.incumbent or self.default

    def log_ratio_of(self, predicted: float | None) -> float:
        """A predicted logarithm of a time relative to the default's as one relative to the incumbent's; 0 without a prediction."""
        return 0.0 if predicted is None else predicted - self.log_ratio

    @property
    def is_new(self) -> bool:
        """Whether its incumbent is neither the default nor confirmed."""
        return self.incumbent is not None and (self.confirmed is None or self.confirmed.texts != self.texts)

    def confirm(self, confirmation: Confirmation) -> None:
        """Keep the incumbent as confirmed."""
        if self.incumbent is not None:
            self.log_ratio = math.log(confirmation.ratio.value)
            self.confirmed = Incumbent(self.texts, self.incumbent, self.log_ratio, confirmation)

    def reset(self, to: "Incumbent | None") -> None:
        """Go back to what was confirmed before, or to the default."""
        self.confirmed = to
        self.texts, self.incumbent, self.log_ratio = ({}, None, 0.0) if to is None else (to.texts, to.built, to.log_ratio)

    def take(self, texts: Texts, built: Built, log_ratio: float) -> None:
        """Make a candidate the incumbent."""
        self.texts, self.incumbent, self.log_ratio = dict(texts), built, log_ratio
