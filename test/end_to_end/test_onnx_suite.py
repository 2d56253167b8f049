"""A part of ONNX's backend suite natively, as it is and with inputs made constants: right, or unsupported by name and listed.

The part is a third of the cases (a sixth in one form), always the same, and every case that ever failed. A quarter is asked with free sizes too,
of one program for all: there, some are still unsupported, but none may be wrong; and some with free sizes as they come, where none may be either.
scripts/onnx_suite.py runs all of it, with other options too. The light networks are in test_networks.py.
"""

import zlib
from collections.abc import Iterator

import pytest
from backend_suite import verdicts
from backend_suite.cases import Case, by_operator
from backend_suite.forms import forms_of
from backend_suite.verdicts import Verdict, ever_failed, judge, listed, unexpected
from watchdog import Watchdog

CHUNK = 24  # cases of an operator in one test
EVERY = {"given": 3, "constants": 3, "folded": 6}  # of how many cases one is asked in each form, to be done in a few minutes
EVERY_FREE = 4
EVERY_AUTO = 24
WRONG_WHEN_FREE = {  # once
    "test_ConstantPad2d", "test_ZeroPad2d", "test_constantofshape_float_ones", "test_constantofshape_int_zeros", "test_dequantizelinear_axis",
    "test_linear_attention_decode_step", "test_linear_attention_gated_delta_mqa", "test_loop13_seq", "test_sequence_model6",
}  # fmt: skip


def chunks() -> list[tuple[str, str, int]]:
    """Form, operator, and which piece of the cases."""
    return [(form, op, n) for form in EVERY for op in by_operator() for n in range(len(of(op, form)[::CHUNK]))]


def of(op: str, form: str) -> list[Case]:
    """The cases of an operator that are asked in a form."""
    return [case for case in by_operator()[op] if form in forms_of(case) and is_asked(case.name, form)]


def is_asked(name: str, form: str) -> bool:
    """Whether a case is asked: by a checksum of its name, so that a new case moves no other; also if it ever failed or is listed."""
    return zlib.crc32(name.encode()) % EVERY[form] == 0 or (name, form) in listed() or (form == "given" and name in ever_failed())


@pytest.fixture(scope="module")
def dog() -> Iterator[Watchdog]:
    """The process that compiles and runs: one for all cases, and a new one after a crash."""
    with Watchdog() as watchdog:
        yield watchdog


@pytest.mark.parametrize(("form", "op", "piece"), chunks())
def test_operator(dog: Watchdog, form: str, op: str, piece: int) -> None:
    verdicts = [judge(dog, case, form, {}) for case in of(op, form)[piece * CHUNK : (piece + 1) * CHUNK]]
    assert unexpected(verdicts) == []


def of_free_sizes(op: str) -> list[Case]:
    """The cases of an operator that are asked with free sizes."""
    return [case for case in by_operator()[op] if zlib.crc32(case.name.encode()) % EVERY_FREE == 0 or case.name in WRONG_WHEN_FREE]


@pytest.mark.parametrize("op", [op for op in by_operator() if of_free_sizes(op)])
def test_one_program_for_all_sizes(dog: Watchdog, op: str) -> None:
    verdicts = [judge(dog, case, "free", {"specialise": "never"}) for case in of_free_sizes(op)]
    assert [str(verdict) for verdict in verdicts if verdict.status not in ("passed", "unsupported")] == []
    assert op not in {"Add", "MatMul", "Softmax", "Pad", "Transpose"} or any(verdict.status == "passed" for verdict in verdicts)


UNSUPPORTED_WHEN_FREE = {  # once, also as code for the sizes that come
    "test_attention_4d", "test_attention_4d_attn_mask", "test_attention_4d_gqa", "test_attention_3d_causal_bf16", "test_rotary_embedding",
    "test_rotary_embedding_3d_input", "test_resize_downsample_scales_cubic", "test_quantizelinear_blocked_asymmetric",
    "test_dequantizelinear_blocked",
}  # fmt: skip


def as_they_come(op: str) -> list[Case]:
    """The cases of an operator that are asked with free sizes, where code for the sizes that come will do."""
    return [case for case in by_operator()[op] if zlib.crc32(case.name.encode()) % EVERY_AUTO == 1 or case.name in UNSUPPORTED_WHEN_FREE]


@pytest.mark.parametrize("op", [op for op in by_operator() if as_they_come(op)])
def test_free_sizes_as_they_come(dog: Watchdog, op: str) -> None:
    verdicts = [judge(dog, case, "free", {}) for case in as_they_come(op)]
    assert [str(verdict) for verdict in verdicts if verdict.status != "passed"] == []


def test_the_list_can_only_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listed case that passes, one that is unsupported and not listed, and whatever else goes wrong, listed or not, fail."""
    name, form = "test_listed", "given"  # the list is empty
    monkeypatch.setattr(verdicts, "listed", lambda: {(name, form): "a reason"})
    assert unexpected([Verdict(name, "", form, "unsupported"), Verdict("test_abs", "Abs", form, "passed")]) == []
    assert len(unexpected([Verdict(name, "", form, "passed")])) == 1
    assert len(unexpected([Verdict("test_abs", "Abs", "given", "unsupported")])) == 1
    wrong = [Verdict(case, "", form, status) for case in (name, "test_abs") for status in ("wrong", "error", "died", "timeout", "raised")]
    assert len(unexpected(wrong)) == len(wrong)


def test_what_failed_is_remembered() -> None:
    names = {case.name for group in by_operator().values() for case in group}
    assert ever_failed() | WRONG_WHEN_FREE | UNSUPPORTED_WHEN_FREE <= names
    assert {name for name, _ in listed()} <= ever_failed()


def test_a_third_is_asked() -> None:
    names = [case.name for group in by_operator().values() for case in group]
    assert 0.3 < sum(zlib.crc32(name.encode()) % EVERY["given"] == 0 for name in names) / len(names) < 0.37


def test_the_suite_is_all_there() -> None:
    groups = by_operator()
    assert sum(map(len, groups.values())) > 1700
    assert {"simple", "pytorch-converted", "pytorch-operator"} < set(groups)
    assert len(groups) > 180
