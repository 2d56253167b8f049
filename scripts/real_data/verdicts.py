"""Whether Stepwell's quantiser does what is asked of it: a small loss, none above that of ONNX Runtime's best setting, and agreement."""

from collections.abc import Sequence
from dataclasses import dataclass

from real_data.compare import Summary

__all__ = ["LEAST_AGREEMENT", "MOST_LOSS", "Verdict", "verdicts"]

MOST_LOSS = 0.5  # points of accuracy
LEAST_AGREEMENT = 99.0  # percent


@dataclass(frozen=True)
class Verdict:
    """The best setting of each quantiser on one task, each in its own engine."""

    task: str
    ours: Summary
    theirs: Summary

    @property
    def problems(self) -> list[str]:
        """The requirements that are not met. A quantised network that is correct more often than the float network counts as losing nothing."""
        found = []
        if self.ours.loss > MOST_LOSS:
            found.append(f"the loss is above {MOST_LOSS} points")
        if self.ours.loss > max(self.theirs.loss, 0.0):
            found.append("ONNX Runtime's quantiser loses less")
        if self.ours.agreement < LEAST_AGREEMENT:
            found.append(f"agreement is below {LEAST_AGREEMENT:g} %")
        return found


def verdicts(found: Sequence[Summary]) -> list[Verdict]:
    """A verdict for each task; the best setting is that with the least loss, if there is any, and among equal ones that with the most
    agreement."""
    return [Verdict(task, _best(found, task, "stepwell"), _best(found, task, "onnxruntime")) for task in dict.fromkeys(s.task for s in found)]


def _best(found: Sequence[Summary], task: str, quantiser: str) -> Summary:
    own = [s for s in found if (s.task, s.quantiser, s.engine) == (task, quantiser, quantiser)]
    return min(own, key=lambda s: (max(s.loss, 0.0), -s.agreement))
