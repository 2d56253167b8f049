"""Messages about models without a shape-polymorphic program."""

from collections.abc import Iterator
from contextlib import contextmanager

from stepwell.dialects.support.errors import InferenceError, PassError, UnsupportedError

ALWAYS = "with specialise='always' it is"
_NONE = "one program for all sizes is not supported: "


def no_program(why: str) -> str:
    """The message of a command about such a model."""
    return f"{_NONE}{why.removeprefix(_NONE).removesuffix(f'; {ALWAYS}')}; code is made for each combination"


@contextmanager
def shape_polymorphic_errors() -> Iterator[None]:
    """Inside this context, passes that need a static size report that there is no code for all sizes."""
    try:
        yield
    except (PassError, InferenceError) as error:
        raise UnsupportedError(f"{_NONE}{error.args[0]}; {ALWAYS}") from error
