"""Inference, verifier and reference of every op say the same about random operands."""

from typing import Any

import hypothesis
import numpy as np
import pytest
from every import every
from hypothesis import given, settings
from op_cases import LEFT_OUT, cases, cases_and_random, with_cases
from op_random import Case, Random, loosened, type_of_array

from stepwell.dialects.graph.base import compatible, map_groups, op_class, op_classes

MNEMONICS = with_cases()


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def run(mnemonic: str, case: Case) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        return tuple(map(np.asarray, as_tuple(op_class(mnemonic).reference(*case.operands, **case.attributes))))


EXAMPLES = pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.nightly)])


@EXAMPLES
@every("mnemonic", MNEMONICS)
def test_reference_gives_the_inferred_types(mnemonic: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases(mnemonic))
    def check(case: Case) -> None:
        inferred = as_tuple(op_class(mnemonic).infer(*map_groups(type_of_array, case.operands), **case.attributes))
        results = run(mnemonic, case)
        assert len(inferred) == len(results)
        for expected, result in zip(inferred, results, strict=True):
            got = type_of_array(result)
            assert compatible(expected, got), f"inferred {expected}, the reference gives {got}"
            if mnemonic not in (
                "dynamic_reshape", "dynamic_expand", "dynamic_slice", "range", "non_zero", "top_k", "unique", "non_max_suppression",
            ):  # fmt: skip
                assert expected == got

    check()


@EXAMPLES
@every("mnemonic", [m for m in MNEMONICS if m != "constant"])
def test_inference_with_dynamic_dimensions_allows_what_comes(mnemonic: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases_and_random(mnemonic))
    def check(drawn: tuple[Case, Random]) -> None:
        case, random = drawn
        types = map_groups(type_of_array, case.operands)
        # Sizes that an op has to know (the rank that a shape operand gives, the length of index vectors) stay.
        known = {"dynamic_reshape": [1], "dynamic_expand": [1], "gather_nd": [1], "scatter_nd": [1]}.get(mnemonic, [])
        loose = [t if i in known else map_groups(lambda u: loosened(random, u), [t])[0] for i, t in enumerate(types)]
        inferred = as_tuple(op_class(mnemonic).infer(*loose, **case.attributes))
        for expected, result in zip(inferred, run(mnemonic, case), strict=True):
            assert compatible(expected, type_of_array(result)), f"inferred {expected} from {loose}, the reference gives {type_of_array(result)}"

    check()


@every("mnemonic", MNEMONICS)
def test_reference_leaves_its_operands_alone(mnemonic: str) -> None:
    @settings(max_examples=5, phases=[hypothesis.Phase.generate])
    @given(cases(mnemonic))
    def check(case: Case) -> None:
        for array in case.operands:
            for a in array if isinstance(array, list) else [] if array is None else [array]:
                a.flags.writeable = False
        before = run(mnemonic, case)
        for first, second in zip(before, run(mnemonic, case), strict=True):
            assert first.tobytes() == second.tobytes()

    check()


def test_every_op_with_inference_has_cases() -> None:
    ours = {m: cls for m, cls in op_classes("graph", "packed").items() if cls.__module__.startswith("stepwell.dialects.")}
    assert {m for m, cls in ours.items() if cls.infer is not None} == set(ours) - set(LEFT_OUT) | {"bind_sizes", "keep", "require"}
