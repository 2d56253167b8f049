"""What convolutions cost by Winograd's minimal filtering and directly, in one measure."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeVar

from stepwell.dialects.packed.winograd import TAPS
from stepwell.dialects.target.costs import Costs
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.registry import PassState

READINGS_OF_A_CUT = 6
"""How often a byte of a result that is cut counts as read from memory.

Two convolutions with a pooling behind them, 64 or 128 channels of 112x112 and 224x224 positions, took as much longer where they were cut as 9 to 11
of it, with AVX-512 on one thread and on two. Results that stay in a core's own cache cost less: with 8, squeezenet's 16 channels of 55x55 positions
would be computed directly, which takes a fifth longer than F(4, 3) with its cut.
"""


DIRECT = "direct"
"""What plans call the direct method."""


@dataclass(frozen=True, order=True)
class Variant:
    """A way to compute a convolution; those that store less come first in order."""

    stored: int  # numbers that its filters take
    cost: float  # in floating-point operations
    tile: int  # 0 for the direct method
    transformed: bool  # its filters, now

    @property
    def name(self) -> str:
        """What plans call it."""
        if self.tile == 0:
            return DIRECT
        return f"F({self.tile}, {TAPS})" + ("" if self.transformed else ", filters transformed in each run")


@dataclass(frozen=True)
class Arithmetic:
    """What the numbers of a convolution cost, in floating-point operations of f32."""

    product: float = 2.0
    """A product with its addition, directly."""
    transformed: float = 2.0
    """The same of transformed numbers."""
    stored: int = 4
    """Bytes of a filter's number."""
    kept: int = 4
    """Bytes of a transformed one."""
    result: int = 4
    """Bytes of a number of the result, as what follows reads it."""


@dataclass(frozen=True)
class Sizes:
    """A blocked 3x3 convolution with stride 1, each of whose filters reads `channels`."""

    images: int
    rows: int
    columns: int
    channels: int
    filters: int
    group: int


class Options(Protocol):
    """The fields of a pass that weighs these costs."""

    flops_per_byte: float
    most_bytes: int


T = TypeVar("T", bound=Options)


def for_target(options: T, costs: Costs) -> T:
    """A pass's options, with the target's costs for those that are not given."""
    made = copy(options)
    if options.flops_per_byte < 0:
        made.flops_per_byte = costs.flops_per_byte
    made.most_bytes = options.most_bytes or costs.resident_bytes
    return made


def winograd_cost(tile: int, of: Sizes, flops_per_byte: float, numbers: Arithmetic = Arithmetic()) -> float:
    """The convolution by F(tile, 3) in floating-point operations, memory traffic converted to these.

    A transform of n x n numbers by two matrices, half of them zeros, would be n^3 multiply-adds for each number of channels or filters, and
    counts twice: rows share sums, but a transform waits for what it loads and stores.

    A result that does not fill its tiles is cut, which is a kernel of its own; and what follows, a pooling or the borders of the next convolution, is
    no longer a part of this one's.
    """
    size = tile + TAPS - 1
    tiles = of.images * prod(-(-n // tile) for n in (of.rows, of.columns))
    transforms = 4 * (size**3 * of.channels * of.group + (tile * size**2 + tile**2 * size) * of.filters)
    both = of.channels * of.filters
    cut = READINGS_OF_A_CUT * numbers.result * of.images * of.rows * of.columns * of.filters if of.rows % tile or of.columns % tile else 0
    return tiles * (numbers.transformed * size**2 * both + transforms) + flops_per_byte * (numbers.kept * size**2 * both + cut)


def direct_cost(of: Sizes, flops_per_byte: float, numbers: Arithmetic = Arithmetic()) -> float:
    """The direct convolution in the same measure."""
    return TAPS**2 * of.channels * of.filters * (numbers.product * of.images * of.rows * of.columns + flops_per_byte * numbers.stored)


def chosen(kind: str, op: Any, variants: Sequence[Variant], default: Variant, state: PassState) -> Variant:
    """The variant that is chosen for a convolution (`PassState.choose`)."""
    named = {variant.name: variant for variant in variants}

    def candidates() -> list[Candidate]:
        features = {name: {"operations": one.cost, "stored": one.stored, "tile": one.tile} for name, one in named.items()}
        return [Candidate(name, state.machine.seconds(one.cost), features[name]) for name, one in named.items()]

    return named[state.choose(kind, op, candidates, default.name)]


def best(found: Sequence[Sequence[Variant]], slack: float) -> Variant:
    """The variant to take, of the same ones for each of several numbers of images: of those that at worst cost, against the best one, at most `slack`
    more than the one that does least, the one that stores least."""
    least = [min(variant.cost for variant in variants) for variants in found]
    worst = [max(variant.cost / best for variant, best in zip(same, least, strict=True)) for same in zip(*found, strict=True)]
    return min(variant for variant, cost in zip(found[-1], worst, strict=True) if cost <= (1 + slack) * min(worst))
