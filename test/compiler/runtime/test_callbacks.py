"""Functions that compiled code calls let no exception through, however long they are."""

import dis
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.runtime.callbacks import catching_all

PROBLEMS: list[BaseException] = []


def written(statements: int) -> Callable[[Any], None]:
    """A function of so many statements, the last of which divides by its argument; what is raised goes to PROBLEMS."""
    body = "".join(f"        a{i} = x\n" for i in range(statements))
    scope: dict[str, Any] = {"problems": PROBLEMS}
    exec(f"def made(x):\n    try:\n{body}        1 // x\n    except BaseException as error:\n        problems[:] = [error]\n", scope)
    return scope["made"]


@pytest.mark.parametrize("statements", [1, 40, 3000])
def test_the_first_instructions_are_covered_too(statements: int) -> None:
    """A handler of a signal runs before the first statement: what it raises is caught where the rest of the body's is."""
    plain = written(statements)
    before = list(dis._parse_exception_table(plain.__code__)) if hasattr(plain.__code__, "co_exceptiontable") else []
    function = catching_all(plain)
    if before:  # what it is like comes first: code whose table is wrong may go on for ever
        first, *others = dis._parse_exception_table(function.__code__)
        assert (first.start, first.end, first.target, first.depth, first.lasti) == (0, before[0].start, *before[0][2:])
        assert others == before
    PROBLEMS.clear()
    function(1)
    assert not PROBLEMS
    function(0)
    assert isinstance(PROBLEMS.pop(), ZeroDivisionError)
