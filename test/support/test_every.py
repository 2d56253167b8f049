"""Many cases in one test: all run, and each that fails or skips itself is named."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from every import check_each, every


def failure(test: Callable[..., None], **fixtures: object) -> str:
    with pytest.raises(AssertionError) as caught:
        test(**fixtures)
    return str(caught.value)


def test_all_failing_cases_are_named_with_what_they_say() -> None:
    seen = []

    @every("x", [1, 2, 3, 4])
    def test(x: int) -> None:
        seen.append(x)
        assert x % 2, f"{x} is even\nand more"

    said = failure(test)
    assert seen == [1, 2, 3, 4]
    assert said.startswith("2 of 4 cases failed: 2, 4\n2: AssertionError: 2 is even")
    assert "    and more" in said


def test_other_errors_are_failures_and_an_interrupt_ends_the_test() -> None:
    @every("what", [KeyError("k"), pytest.fail.Exception("f")], ids=repr)
    def test(what: BaseException) -> None:
        raise what

    assert re.search(r"KeyError.*\n.*Failed: f", failure(test))
    with pytest.raises(KeyboardInterrupt):
        check_each([("a", 1), ("b", 2)], interrupt)


def interrupt(_: int) -> None:
    raise KeyboardInterrupt


def test_names_of_cases() -> None:
    @every(("a", "b"), [(1, len), pytest.param(2, "x", id="second"), (3, "long " * 100)])
    def test(a: int, b: object) -> None:
        raise ValueError

    assert re.match(r"3 of 3 cases failed: 1-len, second, 3-long .*\.\.\.\n", failure(test))

    @every("a, b", [(1, 2), (3, 4)], ids=["first", "second"])
    def other(a: int, b: int) -> None:
        assert a > 1

    assert failure(other).startswith("1 of 2 cases failed: first")


def test_a_skipped_case_is_not_reported_as_done() -> None:
    @every("x", [1, 2])
    def test(x: int) -> None:
        if x == 2:
            pytest.skip("no room")

    with pytest.raises(pytest.skip.Exception, match="1 of 2 cases: 2: no room"):
        test()


def test_no_cases_and_marks_of_cases_are_errors() -> None:
    assert "no cases" in failure(every("x", [])(lambda x: None))
    assert "whole test" in failure(every("x", [pytest.param(1, marks=pytest.mark.zoo)])(lambda x: None))


def test_cases_can_be_nested_and_made_late() -> None:
    def late() -> Iterator[int]:
        yield from (1, 2)

    @every("x", late)
    @every("y", [1, 2])
    def test(x: int, y: int) -> None:
        assert x + y < 4

    assert "1 of 2 cases failed: 2\n2: AssertionError: 1 of 2 cases failed: 2" in failure(test)


@every("number", [0, 1, 2])
def test_each_case_has_fixtures_of_its_own(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    import every as module

    assert module.SHOWN == 12
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(module, "SHOWN", number)
    (tmp_path / "file").touch()
    print(number)


@every("x", [1, 2])
@pytest.mark.parametrize("given", ["a", "b"])
def test_parametrize_still_counts(given: str, x: int) -> None:
    assert given in "ab"
    assert x
