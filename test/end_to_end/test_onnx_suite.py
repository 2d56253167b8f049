"""A part of ONNX's backend suite natively, as it is and with inputs made constants: right, or unsupported by name and listed.

The part is a sixteenth of the cases (a 32nd with constants, a 64th folded; a fourth of that where operators are spelt out), always the same, and
those that ever failed, up to two of an operator. One of 48 is asked with free sizes too, of one program for all: there, some are still unsupported,
but none may be wrong; and some with free sizes as they come, where none may be either. scripts/onnx_suite.py runs all of it, with other options too.
The light networks are in test_networks.py.
"""

import functools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from backend_suite import verdicts
from backend_suite.cases import Case, by_operator, cases
from backend_suite.forms import forms_of
from backend_suite.joining import batches
from backend_suite.verdicts import Verdict, ever_failed, judge_together, listed, unexpected
from onnx import ModelProto
from watchdog import Watchdog

PARTS = 4  # tests of each form, each of some operators
EVERY = {"given": 16, "constants": 32, "folded": 64}  # of how many cases one is asked in each form, to be done in a few minutes
FAILED = 2  # cases that ever failed, of an operator
AT_NIGHT = {"test_center_crop_pad_crop", "test_center_crop_pad_pad"}  # each takes seconds; by day the case that does both
EVERY_FREE = 48
EVERY_AUTO = 64
EXPANDED = 4  # of cases that spell out an operator's function, in many kernels, one of so many times as many
WRONG_WHEN_FREE = {  # once
    "test_ConstantPad2d", "test_ZeroPad2d", "test_constantofshape_float_ones", "test_constantofshape_int_zeros", "test_dequantizelinear_axis",
    "test_linear_attention_decode_step", "test_linear_attention_gated_delta_mqa", "test_loop13_seq", "test_sequence_model6",
}  # fmt: skip


def checksum(name: str) -> int:
    """By which cases are drawn: a new case moves no other."""
    return zlib.crc32(name.encode())


def is_expanded(name: str) -> bool:
    """Whether a case is another one whose operator is replaced by its function."""
    return name.endswith("_expanded")


def is_drawn(name: str, every: int, rest: int = 0) -> bool:
    """Whether a case is one of `every`."""
    return checksum(name) % (every * EXPANDED if is_expanded(name) else every) == rest


@functools.cache
def failed_by_day() -> set[str]:
    """The cases that ever failed, without those of operators that are spelt out; of an operator with many, some, by the checksum of their names."""
    failed = {op: [c.name for c in group if c.name in ever_failed() and not is_expanded(c.name)] for op, group in by_operator().items()}
    return {name for names in failed.values() for name in sorted(names, key=checksum)[:FAILED]}


def is_asked(name: str, form: str) -> bool:
    """Whether a case is asked: one that is drawn, is listed, or ever failed."""
    return (name, form) in listed() or (name not in AT_NIGHT and (is_drawn(name, EVERY[form]) or (form == "given" and name in failed_by_day())))


@pytest.fixture(scope="module")
def dog() -> Iterator[Watchdog]:
    """The process that compiles and runs: one for all cases, whose forms have many kernels in common, and a new one after a crash."""
    with Watchdog(first="objects_once:share_plain_objects") as watchdog:
        yield watchdog


def judged(dog: Watchdog, cases: Iterable[Case], form: str, **options: str) -> list[Verdict]:
    """What comes of cases, many of them in one model."""
    return [verdict for batch in batches(cases) for verdict in judge_together(dog, batch, form, options)]


def of_part(part: int) -> list[Case]:
    """All cases of the operators of a part."""
    return [case for op in list(by_operator())[part::PARTS] for case in by_operator()[op]]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("form", EVERY)
def test_operators(dog: Watchdog, form: str, part: int) -> None:
    verdicts = judged(dog, [case for case in of_part(part) if form in forms_of(case) and is_asked(case.name, form)], form)
    assert verdicts
    assert unexpected(verdicts) == []


COMMON = {"test_add", "test_constant_pad", "test_matmul_2d", "test_softmax_axis_1", "test_transpose_default"}


def is_asked_when_free(case: Case) -> bool:
    """Whether a case is asked with free sizes."""
    return is_drawn(case.name, EVERY_FREE) or case.name in WRONG_WHEN_FREE | COMMON


@pytest.mark.parametrize("part", range(PARTS))
def test_one_program_for_all_sizes(dog: Watchdog, part: int) -> None:
    verdicts = judged(dog, filter(is_asked_when_free, of_part(part)), "free", specialise="never")
    assert [str(verdict) for verdict in verdicts if verdict.status not in ("passed", "unsupported")] == []
    passed = {verdict.op for verdict in verdicts if verdict.status == "passed"}
    assert {case.op for case in of_part(part) if case.name in COMMON} <= passed


UNSUPPORTED_WHEN_FREE = {  # once, also as code for the sizes that come
    "test_attention_4d", "test_attention_4d_attn_mask", "test_attention_4d_gqa", "test_attention_3d_causal_bf16", "test_rotary_embedding",
    "test_rotary_embedding_3d_input", "test_resize_downsample_scales_cubic", "test_quantizelinear_blocked_asymmetric",
    "test_dequantizelinear_blocked",
}  # fmt: skip


def comes_as_it_is(case: Case) -> bool:
    """Whether a case is asked with free sizes, where code for the sizes that come will do."""
    return is_drawn(case.name, EVERY_AUTO, 1) or case.name in UNSUPPORTED_WHEN_FREE


def test_free_sizes_as_they_come(dog: Watchdog) -> None:
    verdicts = judged(dog, filter(comes_as_it_is, cases()), "free")
    assert [str(verdict) for verdict in verdicts if verdict.status != "passed"] == []


# --- cases in one model


def test_what_is_wrong_in_one_model_with_others_is_named(dog: Watchdog) -> None:
    """A wrong result, a model that is refused, and one that ends the process, each among cases that are right."""
    chosen = [case for case in cases() if case.name in ("test_abs", "test_neg", "test_exp", "test_relu", "test_sign")]
    assert [verdict.status for verdict in judge_together(dog, chosen, "given", {})] == ["passed"] * len(chosen)
    wrong = [replace(case, expected=(case.expected[0] + 1,)) if case.name == "test_neg" else case for case in chosen]
    assert {v.case: v.status for v in judge_together(dog, wrong, "given", {})}["test_neg"] == "wrong"
    unknown = ModelProto.FromString(chosen[1].model)
    unknown.graph.node[0].op_type = "Nonesuch"
    refused = [*chosen[:1], replace(chosen[1], model=unknown.SerializeToString()), *chosen[2:]]
    statuses = {v.case: v.status for v in judge_together(dog, refused, "given", {})}
    assert statuses.pop(chosen[1].name) in ("unsupported", "error")
    assert set(statuses.values()) == {"passed"}


def test_every_case_is_in_one_batch() -> None:
    every = batches(cases())
    assert sorted(case.name for batch in every for case in batch) == sorted(case.name for case in cases())
    assert len(every) < 250


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
    assert ever_failed() | WRONG_WHEN_FREE | COMMON | UNSUPPORTED_WHEN_FREE | AT_NIGHT <= names
    assert {name for name, _ in listed()} <= ever_failed()


def test_a_sixteenth_is_asked() -> None:
    names = [case.name for group in by_operator().values() for case in group if not is_expanded(case.name)]
    assert 0.04 < sum(is_drawn(name, EVERY["given"]) for name in names) / len(names) < 0.09


def test_the_suite_is_all_there() -> None:
    groups = by_operator()
    assert sum(map(len, groups.values())) > 1700
    assert {"simple", "pytorch-converted", "pytorch-operator"} < set(groups)
    assert len(groups) > 180
