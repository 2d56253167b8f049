"""The comments of --verify-diagnostics: which line they mean, what they accept."""

import pytest

from stepwell.cli.diagnostics import expectations, mismatches
from stepwell.cli.optimize import pieces
from stepwell.dialects.core.diagnostics import Diagnostic

TEXT = """first
// expected-error @+2 {{two below}}
second
third // expected-warning {{here}}
// expected-note @-1 {{one above}}
// expected-error @above {{nearest above}}
// expected-remark @below {{nearest below}}
// expected-error-re @below {{a number {{[0-9]+}} (literally)}}
fourth
// expected-error @unknown {{nowhere}}
"""


def test_lines() -> None:
    assert [(e.kind, e.line, e.regex) for e in expectations(TEXT)] == [
        ("error", 4, False),
        ("warning", 4, False),
        ("note", 4, False),
        ("error", 3, False),  # the nearest line above without a comment
        ("remark", 9, False),
        ("error", 9, True),
        ("error", None, False),
    ]


def test_lines_of_a_later_piece() -> None:
    assert [e.line for e in expectations("x // expected-error {{a}}\ny\n// expected-error @above {{b}}", first_line=11)] == [11, 12]


@pytest.mark.parametrize(
    ("diagnostic", "accepted"),
    [
        (Diagnostic("error", "in a number 17 (literally) speaking", 9), True),
        (Diagnostic("error", "in a number seven (literally)", 9), False),
        (Diagnostic("error", "a number 17 literally", 9), False),
        (Diagnostic("error", "a number 17 (literally)", 8), False),
        (Diagnostic("warning", "a number 17 (literally)", 9), False),
    ],
)
def test_regular_expressions_are_only_inside_double_braces(diagnostic: Diagnostic, accepted: bool) -> None:
    [expected] = [e for e in expectations(TEXT) if e.regex]
    assert expected.accepts(diagnostic) is accepted


def test_each_comment_is_met_once() -> None:
    twice = [Diagnostic("error", "here it is", 1), Diagnostic("error", "here it is", 1)]
    [left] = mismatches(expectations("x // expected-error {{here}}"), twice)
    assert left.message == "unexpected error: here it is"


def test_without_a_line_is_unknown() -> None:
    assert mismatches(expectations("// expected-error @unknown {{nowhere}}"), [Diagnostic("error", "it is nowhere")]) == []
    assert len(mismatches(expectations("x // expected-error {{nowhere}}"), [Diagnostic("error", "it is nowhere")])) == 2


def test_only_expected_ignores_the_rest() -> None:
    got = [Diagnostic("remark", "by the way", 1), Diagnostic("error", "wrong", 1)]
    assert mismatches(expectations("x // expected-error {{wrong}}"), got, only_expected=True) == []
    [missing] = mismatches(expectations("x // expected-error {{right}}"), got, only_expected=True)
    assert missing.message == 'expected error "right" was not produced'


def test_pieces_know_their_first_lines() -> None:
    text = "a\nb\n// -----\nc\n// -----   \n// ----- no separator\nd\n"
    assert list(pieces(text)) == [("a\nb\n", 1), ("c\n", 4), ("// ----- no separator\nd\n", 6)]
