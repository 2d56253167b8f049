"""A budget for the loss: keeps the fewest layers in floats with which a quantised network stays within it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepwell.dialects.support.errors import InputError

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Kept:
    """The result of a search for the fewest layers in floats."""

    layers: tuple[str, ...]
    """The layers that stay in floats, the most harmful first."""
    model: "ModelProto"
    """The network with these in floats and all others quantised."""
    loss: float
    """The loss of that network, in the unit of the budget."""
    tries: tuple[tuple[int, float], ...]
    """Each measured network, in order: the number of layers in floats, and the loss."""


@dataclass
class _Search:
    quantise: "Callable[[frozenset[str]], ModelProto]"
    loss: "Callable[[ModelProto], float]"
    budget: float
    layers: Sequence[str]
    tries: list[tuple[int, float]] = field(default_factory=list)
    lost: dict[frozenset[str], float] = field(default_factory=dict)
    best: "tuple[frozenset[str], ModelProto] | None" = None
    """The network with the fewest layers in floats that meets the budget so far."""

    def fits(self, kept: Sequence[str]) -> bool:
        """Whether the network with these layers in floats meets the budget."""
        names = frozenset(kept)
        if names not in self.lost:
            model = self.quantise(names)
            self.lost[names] = self.loss(model)
            self.tries.append((len(names), self.lost[names]))
            if self.lost[names] <= self.budget and (self.best is None or len(names) < len(self.best[0])):
                self.best = (names, model)
        return self.lost[names] <= self.budget


def check_budget(budget: float) -> None:
    """Raise InputError unless a budget is a number that is not negative."""
    if not budget >= 0:
        raise InputError(f"budget: expected points that may be lost, 0 or more, got {budget}")


def within_budget(
    quantise: "Callable[[frozenset[str]], ModelProto]", layers: Sequence[str], loss: "Callable[[ModelProto], float]", budget: float
) -> Kept:
    """Find few layers that must stay in floats, so that `loss` of the network is at most `budget`.

    `quantise` makes the network in which the layers with these names are in floats; `layers` are all names, the most harmful first; `loss` measures a
    network, in the unit of `budget` (such as points of accuracy). First the shortest sufficient prefix of `layers` is found: its length is doubled,
    starting from none, then bisected. Then each of these layers, the least harmful first, is quantised again if the others suffice. So n layers cost
    about 2 log(n) networks, plus one for each layer found. None of these can be left out alone, provided that another layer in floats never increases
    the loss; a smaller set of others may exist. Raises InputError if the loss exceeds the budget even with all layers in floats, or for a budget that
    is not a number.
    """
    check_budget(budget)
    search = _Search(quantise, loss, budget, layers)
    short, enough = -1, 0  # a length that does not suffice, and the next to try
    while not search.fits(layers[:enough]):
        if enough == len(layers):
            lost = search.lost[frozenset(layers)]
            raise InputError(f"budget: even with all {len(layers)} layers in floats the network loses {lost:.3g}, more than {budget:.3g}")
        short, enough = enough, min(max(1, 2 * enough), len(layers))
    while enough - short > 1:
        middle = (short + enough) // 2
        if search.fits(layers[:middle]):
            enough = middle
        else:
            short = middle
    kept = list(layers[:enough])
    for name in reversed(layers[:enough]):
        fewer = [other for other in kept if other != name]
        if search.fits(fewer):
            kept = fewer
    assert search.best is not None
    names, model = search.best
    return Kept(tuple(name for name in layers if name in names), model, search.lost[names], tuple(search.tries))
