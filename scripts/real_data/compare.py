"""The paired comparison: every network answers the same samples, and each answer is held against that of the floats."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from real_data.trial import Answer, Trial

__all__ = ["Result", "Summary", "judged", "summaries"]


@dataclass(frozen=True)
class Result:
    """The answers of one network in one engine, sample by sample."""

    task: str
    fold: int
    quantiser: str
    """"none" for the network of floats."""
    setting: str
    engine: str
    scores: dict[str, list[float]]
    """Scores by name; samples without a known truth are omitted."""
    agrees: list[bool]
    """Whether the answer is that of the floats in Stepwell."""


def judged(trial: Trial, floats: Sequence[Answer], answers: Sequence[Answer], quantiser: str, setting: str, engine: str) -> Result:
    """Score answers, and compare them with those of the floats."""
    known = [(answer, truth) for answer, truth in zip(answers, trial.truths, strict=True) if truth is not None]
    scores = {name: [score(answer, truth) for answer, truth in known] for name, score in trial.scores.items()}
    agrees = [answer == other for answer, other in zip(answers, floats, strict=True)]
    return Result(trial.task, trial.fold, quantiser, setting, engine, scores, agrees)


@dataclass(frozen=True)
class Summary:
    """One setting in one engine over all folds of a task; accuracies and what derives from them in percent, losses in points."""

    task: str
    quantiser: str
    setting: str
    engine: str
    folds: int
    samples: int
    accuracy: dict[str, float]
    loss: float
    """Accuracy of the floats minus this one: the mean over the folds, which have the same size up to one sample."""
    error: float
    """Standard error of the loss, from the differences sample by sample."""
    lost: int
    """Samples that only the floats get right (or better)."""
    won: int
    """Samples that only this network gets right (or better)."""
    agreement: float


def summaries(results: Sequence[Result]) -> list[Summary]:
    """A summary for each task, quantiser, setting and engine, in the order of their first results.

    Raises ValueError for a result without one of floats in the same task and fold.
    """
    floats = {(r.task, r.fold): r for r in results if r.quantiser == "none" and r.engine == "stepwell"}
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if (result.task, result.fold) not in floats:
            raise ValueError(f"{result.task}, fold {result.fold}: there is no result of the floats to compare with")
        groups.setdefault((result.task, result.quantiser, result.setting, result.engine), []).append(result)
    return [_summary(group, [floats[r.task, r.fold] for r in group]) for group in groups.values()]


def _summary(group: Sequence[Result], floats: Sequence[Result]) -> Summary:
    first = group[0]
    judged_by = next(iter(first.scores))
    pairs = [zip(r.scores[judged_by], f.scores[judged_by], strict=True) for r, f in zip(group, floats, strict=True)]
    by_fold = [[before - after for after, before in fold] for fold in pairs]
    differences = [difference for fold in by_fold for difference in fold]
    agrees = [agree for result in group for agree in result.agrees]
    accuracy = {name: 100 * statistics.fmean(statistics.fmean(r.scores[name]) for r in group) for name in first.scores}
    deviation = statistics.stdev(differences) if len(differences) > 1 else math.nan
    return Summary(
        first.task, first.quantiser, first.setting, first.engine, len(group), len(differences), accuracy,
        loss=100 * statistics.fmean(statistics.fmean(fold) for fold in by_fold),
        error=100 * deviation / math.sqrt(len(differences)),
        lost=sum(difference > 0 for difference in differences),
        won=sum(difference < 0 for difference in differences),
        agreement=100 * statistics.fmean(agrees),
    )  # fmt: skip
