"""Every graph op, compiled, against its reference: a sample of the cases that its definition gives.

scripts/check_ops.py goes through all of them, and on with others for as long as one likes.
"""

from itertools import combinations
from pathlib import Path

import check_ops
import numpy as np
import pytest
from guarded import EVERYWHERE, NAMED
from native_ops import NOT_NATIVE, SAMPLE, WAYS, instances, problems
from op_cases import LEFT_OUT, legal_dtypes, with_cases
from op_sweep import pairwise

from stepwell.dialects.core.types import FLOATS
from stepwell.dialects.graph import op_class, op_classes
from stepwell.plugin_files import load_file

pytestmark = pytest.mark.optimised

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "op.py"
OURS = [m for m, cls in sorted(op_classes("graph", "packed").items()) if cls.__module__.startswith("stepwell.dialects.")]
PARTS = 2


@pytest.mark.usefixtures("_runs_here")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", EVERYWHERE)
def test_ops(target: str, way: str, part: int) -> None:
    mnemonics = [m for m in OURS if m not in {*LEFT_OUT, *NOT_NATIVE}][part::PARTS]
    wrong = problems([single for m in mnemonics for single in instances(m, NAMED, first=SAMPLE, only=(target, way))])
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


# --- that nothing is missing


def test_every_op_is_tested_or_left_out_for_a_reason() -> None:
    assert set(OURS) <= {*with_cases(), *LEFT_OUT}
    assert {*NOT_NATIVE} <= set(OURS)
    assert all(legal_dtypes(m) for m in with_cases())


@pytest.mark.parametrize("mnemonic", NOT_NATIVE)
def test_what_is_listed_as_not_compiled_is_not(mnemonic: str) -> None:
    tried = list(instances(mnemonic, NAMED, first=4, only=(NAMED[0], "plain"))) or list(instances(mnemonic, NAMED, first=1))
    assert len(problems(tried)) == len(tried)


@pytest.mark.parametrize("count", [2, 7])
def test_every_op_is_run_for_several_targets(count: int) -> None:
    """Whatever targets a machine can run code for: it has the first of them."""
    for mnemonic in (m for m in OURS if m not in {*LEFT_OUT, *NOT_NATIVE}):
        found = [single.target for single in instances(mnemonic, EVERYWHERE[:count], first=SAMPLE)]
        assert len(found) == SAMPLE, mnemonic
        assert len(set(found)) >= 2, mnemonic


def test_rows_have_every_pair() -> None:
    factors = {"a": range(5), "b": range(3), "c": "xyz", "d": (True, False)}
    rows = list(pairwise(factors))
    for (m, x), (n, y) in combinations(factors.items(), 2):
        assert {(row[m], row[n]) for row in rows} == {(i, j) for i in x for j in y}
    assert len(rows) <= 20


def test_element_types_follow_from_inference() -> None:
    assert legal_dtypes("exp") == FLOATS
    assert legal_dtypes("xor") == ("i1",)
    assert "i1" in legal_dtypes("select")
    assert not {"ui8", "i1"} & set(legal_dtypes("neg"))


def test_an_op_of_a_plugin_is_tested_too() -> None:
    load_file(str(PLUGIN))
    assert "soft_shrink" in with_cases()
    assert legal_dtypes("soft_shrink") == FLOATS
    for way in WAYS:
        assert problems(list(instances("soft_shrink", NAMED, only=(NAMED[-1], way)))) == {}


# --- that mistakes would be seen


def test_one_wrong_element_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    every = (single for seed in range(100) for single in instances("sub", NAMED, seed))  # a machine that runs few targets has few of each seed
    large = (single for single in every if single.case.operands[0].size > 100 and single.expected[0].size > 100)
    tried = next(single for single in large if single.expected[0].dtype == np.float32)
    right = tried.expected[0].copy()
    assert problems([tried]) == {}
    wrong = np.nextafter(right, np.float32(0))
    place = np.unravel_index(np.argmax(np.where(np.isfinite(right), np.abs(right), 0)), right.shape)
    changed = right.copy()
    changed[place] = wrong[place]
    monkeypatch.setattr(op_class("sub"), "reference", staticmethod(lambda lhs, rhs: changed))
    del tried.expected
    (said,) = problems([tried]).values()
    assert "1 of " in said


# --- the script


def test_the_script_finds_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_ops.main(["--op", "neg", "--target", NAMED[0], "--way", "plain"]) == 0
    assert ", 0 wrong" in capsys.readouterr().out


def test_the_script_says_what_is_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_class("neg"), "reference", staticmethod(lambda x: x))
    assert check_ops.main(["--op", "neg", "--target", NAMED[0], "--way", "plain", "--seconds", "1"]) == 1
    said = capsys.readouterr().out
    assert "neg." in said
    assert ", 0 wrong" not in said
