"""What is said where a model gets no program for all sizes."""

from collections.abc import Iterator
from contextlib import contextmanager

from stepwell.dialects.support.errors import InferenceError, PassError, UnsupportedError

ALWAYS = "with specialise='always' it is"
_NONE = "one program for all sizes is not supported: "


def no_program(why: str) -> str:
    """What a command says of a model that gets none."""
    return f"{_NONE}{why.removeprefix(_NONE).removesuffix(f'; {ALWAYS}')}; code is made for each combination"


@contextmanager
def for_all_sizes() -> Iterator[None]:
    """Passes that need a size in numbers say that there is no code for all of them."""
    try:
        yield
    except (PassError, InferenceError) as error:
        raise UnsupportedError(f"{_NONE}{error.args[0]}; {ALWAYS}") from error
