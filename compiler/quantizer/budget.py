"""A budget for the loss: keeps the fewest layers in floats with which a quantised network stays within it."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stepwell.dialects.support.errors import InputError

Loss = Callable[[frozenset[str]], float]
"""Measures the network in which the layers with these names are in floats and all others quantised."""


@dataclass(frozen=True)
class Kept:
    """The result of a search for the fewest layers in floats."""

    layers: tuple[str, ...]
    """The layers that stay in floats, the most harmful first."""
    loss: float
    """The loss of the network with these in floats and all others quantised, in the unit of the budget."""
    tries: tuple[tuple[int, float], ...]
    """Each measured network, in order: the number of layers in floats, and the loss."""


def check_budget(budget: float) -> None:
    """Raise InputError unless a budget is a number that is not negative."""
    if not budget >= 0:
        raise InputError(f"budget: expected points that may be lost, 0 or more, got {budget}")


def within_budget(loss: Loss, order: Callable[[], Sequence[str]], budget: float) -> Kept:
    """Find few layers that must stay in floats, so that the `loss` is at most `budget`, in the same unit (such as points of accuracy).

    `order` returns all layers, the most harmful first, and is called if some must stay in floats. First its shortest sufficient prefix is found: the
    length is doubled, starting from none, then bisected. Then each of these layers, the least harmful first, is quantised again if the others
    suffice. So n layers cost about 2 log(n) networks, plus one for each layer found. None of these can be left out alone, provided that another
    layer in floats never increases the loss; a smaller set of others may exist. Raises InputError if the loss exceeds the budget even with all
    layers in floats, or for a budget that is not a number.
    """
    check_budget(budget)
    measured: dict[frozenset[str], float] = {}

    def fits(kept: Sequence[str]) -> bool:
        names = frozenset(kept)
        if names not in measured:
            measured[names] = loss(names)
        return measured[names] <= budget

    layers = [] if fits([]) else order()
    short, enough = -1, 0  # a length that does not suffice, and the next to try
    while not fits(layers[:enough]):
        if enough == len(layers):
            lost = measured[frozenset(layers)]
            raise InputError(f"budget: even with all {len(layers)} layers in floats the network loses {lost:.3g}, more than {budget:.3g}")
        short, enough = enough, min(max(1, 2 * enough), len(layers))
    between = range(short + 1, enough)
    enough = short + 1 + bisect_left(between, True, key=lambda length: fits(layers[:length]))
    kept = list(layers[:enough])
    for name in reversed(layers[:enough]):
        fewer = [other for other in kept if other != name]
        if fits(fewer):
            kept = fewer
    least = min((names for names, lost in measured.items() if lost <= budget), key=len)
    return Kept(tuple(name for name in layers if name in least), measured[least], tuple((len(names), lost) for names, lost in measured.items()))
