"""How a network is quantised: one object for the whole package."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from stepwell.dialects.support.errors import InputError, shown

METHODS = ("minmax", "percentile", "entropy", "mse")
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that sum products; those with stored weights are the layers of a network."""
ELEMENTWISE = ("Add", "Mul")
POOLS = ("AveragePool", "GlobalAveragePool", "MaxPool")
OP_TYPES = frozenset((*PRODUCTS, *ELEMENTWISE, *POOLS, "Concat"))


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """How a network is quantised. Raises InputError naming the invalid field."""

    method: str = "mse"
    """The method that derives the range of an activation from its histogram (`ranges.py`)."""
    percentile: float = 99.99
    """The share of the numbers, in percent, that the method "percentile" keeps on each side."""
    per_channel: bool = True
    """Whether each filter of weights has a scale of its own."""
    symmetric_activations: bool = False
    """Whether activations are int8 around 0, instead of uint8 with a zero point."""
    reduce_range: bool = False
    """Whether weights take 7 bits, for engines whose instructions saturate sums of two products in 16 bits."""
    equalize: bool = False
    """Whether scales of neighbouring layers are equalised first (`equalize.py`)."""
    correct_bias: bool = False
    """Whether the mean error of each layer goes into its bias (`correct_bias.py`)."""
    quantize_results: bool = False
    """Whether the result of every product is quantised, even if only float operators read it: the integer kernels of ONNX Runtime need that."""
    fuse_additions: bool = False
    """Whether a product's result that only an addition reads stays in float: kernels that add in registers lose nothing by it."""
    keep_float: frozenset[str] = frozenset()
    """Nodes that stay in float: names, or patterns such as "*/attention/*"."""
    op_types: frozenset[str] = OP_TYPES
    """The operators that are quantised."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"method: expected {', '.join(METHODS)}, got {shown(self.method)}")
        is_number = isinstance(self.percentile, (int, float)) and not isinstance(self.percentile, bool)
        if not (is_number and math.isfinite(self.percentile) and 50 < self.percentile <= 100):
            raise InputError(f"percentile: expected a number above 50, up to 100, got {shown(self.percentile)}")
        for entry in fields(self):
            if isinstance(entry.default, bool) and not isinstance(getattr(self, entry.name), bool):
                raise InputError(f"{entry.name}: expected True or False, got {shown(getattr(self, entry.name))}")
        object.__setattr__(self, "keep_float", _names("keep_float", self.keep_float))
        object.__setattr__(self, "op_types", _names("op_types", self.op_types))
        unknown = sorted(self.op_types - OP_TYPES)
        if unknown:
            raise InputError(f"op_types: expected some of {', '.join(sorted(OP_TYPES))}, got '{unknown[0]}'")

    def keeps(self, node: str) -> bool:
        """Whether a node of that name stays in float."""
        return node in self.keep_float or any(fnmatchcase(node, pattern) for pattern in self.keep_float)


def _names(field: str, given: Iterable[str]) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(name, str) for name in given):
        raise InputError(f"{field}: expected names, got {shown(given)}")
    return frozenset(given)
