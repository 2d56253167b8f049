"""Which candidates are built next: strategies draft some at each site, and sites are taken by what they can still gain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from stepwell.tuning.headroom import Prospect, SiteState as Headroom, expected_gain, in_order
from stepwell.tuning.outcomes import log_times
from stepwell.tuning.ranking import Ranking, log_ratio, workload_features
from stepwell.tuning.recorder import Recorder
from stepwell.tuning.spaces import Trial, find_strategy
from stepwell.tuning.state import Draft, PartState, SiteState
from stepwell.tuning.subject import site_key

LAST = "droplet"
"""The strategy of the last stage: coordinate descent from the best candidate."""
SIMILAR = 4
"""The largest number of decisions about similar workloads that a search starts with."""
START = "start"
"""The strategy's name in records of such candidates."""


@dataclass
class Drafting:
    """Drafts candidates of sites."""

    ranking: Ranking
    recorder: Recorder
    effort: int
    """The largest number of candidates that a draft scores."""
    count: int
    """The number of candidates in a draft."""
    builds: int
    """The number of candidates of a site after which coordinate descent begins."""

    def recall(self, state: SiteState) -> None:
        """Begin with what earlier runs on this machine found about exactly this workload, and with what was decided about similar ones."""
        site, space = state.site, state.site.space
        state.trials.append(Trial(space.default, 0.0))
        candidates, samples, decision = self.recorder.known(site)
        times = log_times(samples, space.default)
        for candidate in candidates:
            if candidate.text != space.default and (candidate.text in times or not candidate.state.is_sound):
                state.add(Trial(candidate.text, times.get(candidate.text)), None)
        known = {trial.text for trial in state.trials} | {space.default}
        first = [decision.text] if decision is not None and decision.text != space.default else []
        similar = [text for text in self.recorder.starts(site, SIMILAR) if text not in known]
        state.drafts = [Draft(text, START) for text in dict.fromkeys([*first, *similar]) if space.refusal(text) is None]

    def fill(self, state: SiteState, strategy: str) -> None:
        """Let the strategy of a site draft more candidates, if there are none left."""
        if state.drafts or state.is_exhausted:
            return
        if len(state.trials) >= self.builds and not state.is_finishing:
            state.is_finishing, state.strategy = True, find_strategy(LAST)()
        texts = self._proposed(state)
        if not texts and not state.is_finishing:
            state.is_finishing, state.strategy = True, find_strategy(LAST)()
            texts = self._proposed(state)
        state.is_exhausted = not texts
        space = state.site.space
        [default] = space.predict([space.default])
        predictions = space.predict(texts)
        name = LAST if state.is_finishing else strategy
        state.drafts = [Draft(text, name, _finite(log_ratio(seconds, default))) for text, seconds in zip(texts, predictions, strict=True)]

    def _proposed(self, state: SiteState) -> list[str]:
        return state.strategy.propose(state.site.space, state.trials, self._score(state), self.count, self.effort, state.random)

    def _score(self, state: SiteState) -> Callable[[Sequence[str]], Sequence[float]]:
        """Scores candidates of a site by what was learned, or else by the analytic model."""
        space, site = state.site.space, state.site
        features = workload_features(site.workload, site.info.features)
        [default] = space.predict([space.default])
        is_learned = site.kind in self.ranking.learned

        def score(texts: Sequence[str]) -> Sequence[float]:
            own = [space.features(text) if is_learned else {} for text in texts]
            return self.ranking.score(site.kind, features, own, space.predict(texts), default)

        return score


def prospects(part: PartState, shares: dict[str, float], seconds: float) -> list[tuple[SiteState, Headroom]]:
    """The sites of a part, with what they can still gain; `shares` has the share of time of each site by its key, `seconds` are for a candidate."""
    found = []
    for key, state in part.sites.items():
        own = [Prospect(part.log_ratio_of(draft.predicted)) for draft in state.drafts]
        ahead = tuple(own) if own or state.is_exhausted or part.is_broken else (Prospect(0.0),)
        found.append((state, Headroom(key, shares[key], () if part.is_broken else ahead, tuple(state.attempts), seconds)))
    return found


def chosen(ranked: Sequence[tuple[SiteState, Headroom]], count: int) -> list[SiteState]:
    """The sites that can gain something, the one that is worth most first."""
    states = {site_key(state.site): state for state, _ in ranked}
    return [states[one.name] for one in in_order([headroom for _, headroom in ranked], count)]


def expected(ranked: Sequence[tuple[SiteState, Headroom]], seconds: float, count: int) -> float:
    """The fraction of the network's time that further tuning is expected to gain in so many seconds."""
    return expected_gain([headroom for _, headroom in ranked], seconds, count)


def _finite(number: float) -> float | None:
    return None if isnan(number) else number
