"""Which cases share a model."""

from collections.abc import Hashable, Iterable

from backend_suite.cases import Case
from joined_models import TOGETHER, kind
from onnx import ModelProto


def batches(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases in groups whose models can be joined."""
    groups: dict[Hashable, list[Case]] = {}
    for case in cases:
        groups.setdefault(kind(ModelProto.FromString(case.model)) or case.name, []).append(case)
    return [group[start : start + TOGETHER] for group in groups.values() for start in range(0, len(group), TOGETHER)]
