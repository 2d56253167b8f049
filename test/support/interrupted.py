"""Raises an exception in a call, as handlers of signals do, at every moment at which they can: behind each call, and where a function begins."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = str(Path(__file__).resolve().parents[2])
TESTS = str(Path(ROOT, "test"))


class Interrupt(Exception):
    """What the handler raises."""


def interrupted_at(call: Callable[[], object], moment: int) -> bool:
    """Interrupt a call at a moment, which counts from 0; whether it had that many.

    Moments inside of other packages are left out, and so is the very beginning of what native code calls.
    """
    left = moment

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        file = frame.f_code.co_filename
        if event == "c_call":  # not before a call of native code
            return
        if not file.startswith(ROOT) or file.startswith(TESTS) or ".venv" in file:
            return
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise Interrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.setprofile(before)
    return False


def interrupted(call: Callable[[], object], prepare: Callable[[], object]) -> Iterator[int]:
    """Interrupt `call` at its first moment, at its second and so on, until it ends before; yields after each, with the number of the moment.

    `prepare` is called before each.
    """
    for moment in itertools.count():
        prepare()
        if not interrupted_at(call, moment):
            return
        yield moment
