"""The costs of convolutions by Winograd's minimal filtering and by the direct method, in one unit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

from stepwell.dialects.packed.winograd import TAPS
from stepwell.dialects.target.costs import Costs
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.registry import PassState

DIRECT = "direct"
"""The name of the direct method in plans."""


@dataclass(frozen=True, order=True)
class Variant:
    """A method for computing a convolution; variants that store less are ordered first."""

    stored: int  # number of stored filter elements
    cost: float  # in floating-point operations
    tile: int  # 0 for the direct method
    transformed: bool  # whether its filters are transformed at compile time

    @property
    def name(self) -> str:
        """The name in plans."""
        if self.tile == 0:
            return DIRECT
        return f"F({self.tile}, {TAPS})" + ("" if self.transformed else ", filters transformed in each run")


@dataclass(frozen=True)
class Arithmetic:
    """The costs of a convolution's elements, in floating-point operations of f32."""

    product: float = 2.0
    """A product with its addition, in the direct method."""
    transformed: float = 2.0
    """A product with its addition, of transformed numbers."""
    stored: int = 4
    """Bytes of a filter's element."""
    kept: int = 4
    """Bytes of a transformed element."""
    result: int = 4
    """Bytes of an element of the result, as its consumer reads it."""


@dataclass(frozen=True)
class Sizes:
    """A blocked 3x3 convolution with stride 1; each of its filters reads `channels` channels."""

    images: int
    rows: int
    columns: int
    channels: int
    filters: int
    group: int


@dataclass
class CostOptions:
    """The options of a pass that compares these costs."""

    flops_per_byte: float = -1.0  # -1 for the target's
    handed_on: float = -1.0  # bytes read in the time of a byte from one kernel to the next; -1 for the target's
    most_bytes: int = 0  # 0 for the target's `resident_bytes`

    def for_target(self, costs: Costs) -> Self:
        """The options, with the target's costs for those that are not set."""
        flops_per_byte = costs.flops_per_byte if self.flops_per_byte < 0 else self.flops_per_byte
        handed_on = costs.handed_on if self.handed_on < 0 else self.handed_on
        return replace(self, flops_per_byte=flops_per_byte, handed_on=handed_on, most_bytes=self.most_bytes or costs.resident_bytes)


def winograd_cost(tile: int, of: Sizes, options: CostOptions, numbers: Arithmetic = Arithmetic()) -> float:
    """The convolution by F(tile, 3) in floating-point operations, memory traffic converted to these.

    A transform of n x n numbers by two matrices, half of whose elements are zeros, would be n^3 multiply-adds for each channel or filter, and
    counts twice: rows share sums, but a transform waits for its loads and stores.

    A result that does not fill its tiles is cut, which is a kernel of its own; and what follows, a pooling or the borders of the next convolution, is
    no longer a part of this one's: the result is handed on twice. Measured with a pooling behind, the cut took up to twice as long as this predicts
    (docs/measurements/choices.md).
    """
    size = tile + TAPS - 1
    tiles = of.images * prod(-(-n // tile) for n in (of.rows, of.columns))
    transforms = 4 * (size**3 * of.channels * of.group + (tile * size**2 + tile**2 * size) * of.filters)
    both = of.channels * of.filters
    cut = 2 * options.handed_on * numbers.result * of.images * of.rows * of.columns * of.filters if of.rows % tile or of.columns % tile else 0
    return tiles * (numbers.transformed * size**2 * both + transforms) + options.flops_per_byte * (numbers.kept * size**2 * both + cut)


def direct_cost(of: Sizes, flops_per_byte: float, numbers: Arithmetic = Arithmetic()) -> float:
    """The cost of the direct convolution in the same unit."""
    return TAPS**2 * of.channels * of.filters * (numbers.product * of.images * of.rows * of.columns + flops_per_byte * numbers.stored)


def chosen(kind: str, op: Any, variants: Sequence[Variant], default: Variant, state: PassState, *, exact: bool = False) -> Variant:
    """The variant chosen for a convolution (`PassState.choose`). All variants of integers are `exact`.

    Those of floats round differently: transforms at compile time, too, round once, and those in a run after each operation.
    """
    named = {variant.name: variant for variant in variants}

    def candidates() -> list[Candidate]:
        features = {name: {"operations": one.cost, "stored": one.stored, "tile": one.tile} for name, one in named.items()}
        return [Candidate(name, state.machine.seconds(one.cost), features[name], "exact" if exact else name) for name, one in named.items()]

    return named[state.choose(kind, op, candidates, default.name)]


def best(found: Sequence[Sequence[Variant]], slack: float) -> Variant:
    """The best variant for several numbers of images; `found` has the same variants for each. Its worst cost, relative to the best for a number, is
    at most `slack` more than the least possible; of several such variants it is the one with the smallest filters."""
    least = [min(variant.cost for variant in variants) for variants in found]
    worst = [max(variant.cost / best for variant, best in zip(same, least, strict=True)) for same in zip(*found, strict=True)]
    return min(variant for variant, cost in zip(found[-1], worst, strict=True) if cost <= (1 + slack) * min(worst))
