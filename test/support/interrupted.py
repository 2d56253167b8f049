"""Raises an exception in a call, as handlers of signals do, at every moment at which they can: behind and before each call of a function."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = str(Path(__file__).resolve().parents[2])
TESTS = str(Path(ROOT, "test"))


class Interrupt(Exception):
    """What the handler raises."""


def interrupted(call: Callable[[], object], prepare: Callable[[], object]) -> Iterator[int]:
    """Interrupt `call` at its first moment, at its second and so on, until it ends before; yields after each, with the number of the moment.

    `prepare` is called before each. Moments inside of other packages are left out, and so is the very beginning of what native code calls.
    """
    moment, ended = 0, False
    while not ended:
        prepare()
        left = moment

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal left
            file = frame.f_code.co_filename
            if not file.startswith(ROOT) or file.startswith(TESTS) or ".venv" in file:
                return
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Interrupt

        sys.setprofile(profile)
        try:
            call()
            sys.setprofile(None)
            ended = True
        except Interrupt:
            yield moment
        finally:
            sys.setprofile(None)
        moment += 1
