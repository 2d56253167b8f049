"""Cases of any op: by its maker in the table, else derived from its definition; and the element types that it takes."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st
from op_random import Case, Random, type_of_array
from op_sweep import Row, Sweep

from op_cases.derived import derive
from op_cases.table import CASES
from stepwell.dialects.core.types import DTYPES
from stepwell.dialects.graph import op_class, op_classes
from stepwell.dialects.graph.base import graph_ops, map_groups
from stepwell.dialects.support.errors import InferenceError

REGION = "its region is made of other ops"
LEFT_OUT = {
    "parameter": "it names an entry of a weight table, which other ops' constants do", "yield": "it ends a region",
    "fused": REGION, "if": REGION, "loop": REGION,
    "bind_sizes": "it has no results: end_to_end/test_data_sizes.py",
    "keep": "it has no results: end_to_end/test_changing_sizes.py",
    "require": "it has no results: compiler/frontends/onnx/test_control_flow.py",
}  # fmt: skip
"""The ops that there are no cases of, and why."""
PROBES = 4  # cases of an element type that must all be refused before it counts as illegal


def with_cases() -> list[str]:
    """The ops that there are cases of, plugins' included."""
    others = {cls.mnemonic() for cls in graph_ops() if not cls.__module__.startswith("stepwell.")}  # plugins', of dialects of their own, too
    return sorted({*op_classes("graph", "packed"), *others} - set(LEFT_OUT))


def case_of(mnemonic: str, r: Random) -> Case:
    """A random case of one op. Raises LookupError for an op that needs a maker in the table and has none."""
    return CASES[mnemonic](r) if mnemonic in CASES else derive(op_class(mnemonic), r)


@cache
def legal_dtypes(mnemonic: str) -> tuple[str, ...]:
    """The element types of what the op computes on: those of which its `infer` accepts a case."""
    return tuple(dtype for dtype in DTYPES if any(accepts(mnemonic, Row(seed, dtype, 2 + seed % 3, (), False)) for seed in range(PROBES)))


def accepts(mnemonic: str, row: Row) -> bool:
    """Whether the op's `infer` takes the case of a row."""
    try:
        made = case_of(mnemonic, Sweep(row, room=64))
        op_class(mnemonic).infer(*map_groups(type_of_array, made.operands), **made.attributes)
    except (InferenceError, LookupError):
        return False
    return True


@st.composite
def cases(draw: Callable[..., Any], mnemonic: str, dtypes: Sequence[str] | None = None) -> Case:
    """A random case of one op; `dtypes` narrows the element types that it computes on."""
    return case_of(mnemonic, Random(draw, dtypes or legal_dtypes(mnemonic)))


@st.composite
def cases_and_random(draw: Callable[..., Any], mnemonic: str) -> tuple[Case, Random]:
    """A random case and where it came from, for more of it."""
    random = Random(draw, legal_dtypes(mnemonic))
    return case_of(mnemonic, random), random
