"""How a node of each operator is added to a random graph: what it may be given, and which attributes it may have."""

from collections.abc import Callable

from random_graphs.net import STORING, Declined, Net

Maker = Callable[[Net, str], object]
OPERATORS: dict[str, Maker] = {}
# The modules that a graph's operators are from, none for all: what moves data makes long chains of views, the others what is fused.
THEMES: list[tuple[str, ...]] = [
    (),
    (),
    (),
    ("movement",),
    ("movement", "pointwise"),
    ("pointwise", "reductions"),
    ("windows", "pointwise"),
    ("quantised", "movement", "pointwise"),
    ("quantised", "windows"),
    ("recurrent", "stateful", "selection", "movement"),
]


def operator(*names: str, stored: bool = False) -> Callable[[Maker], Maker]:
    """Register how nodes of these operators are added; `stored` also with element types that are only stored."""

    def register(make: Maker) -> Maker:
        OPERATORS.update(dict.fromkeys(names, make))
        if stored:
            STORING.update(names)
        return make

    return register


def grow(net: Net, only: str | None = None) -> None:
    """Add nodes until there are as many as wanted, or nothing fits for long."""
    from random_graphs import families  # noqa: F401  (fills the table)

    wanted = net.r.choice([1, 2, 3, 4, 5, 6, 8, 10, 12])
    kinds = net.r.choice(THEMES)
    names = sorted(name for name, make in OPERATORS.items() if not kinds or make.__module__.rpartition(".")[2] in kinds)
    for attempt in range(6 * wanted + 10):
        if len(net.nodes) >= wanted:
            break
        name = only if only is not None and (attempt % 3 == 0 or not net.nodes) else str(net.r.choice(names))
        count = len(net.values)
        try:
            OPERATORS[name](net, name)
        except Declined as reason:
            net.declined[name, str(reason)] += 1
            used = {n for node in net.nodes for n in node.input}
            net.values = [v for i, v in enumerate(net.values) if i < count or v.name in used or v.name.startswith("v")]
