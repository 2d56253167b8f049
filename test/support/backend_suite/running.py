"""Compiles and runs a model, in the process that a watchdog watches: it cannot end the tests, whatever it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import stepwell
from stepwell.dialects.support.errors import UnsupportedError


@dataclass(frozen=True)
class Answer:
    """The outputs of a model, or why there are none: "unsupported" (UnsupportedError), or "error" (any other), and what it says."""

    outputs: Sequence[np.ndarray] | None
    failure: str = ""
    text: str = ""


def compile_and_run(model: bytes, inputs: Sequence[np.ndarray], options: Mapping[str, Any]) -> Answer:
    """Compile with the options of `stepwell.compile`, run once."""
    try:
        return Answer(stepwell.compile(model, cache=False, **options)(*inputs))
    except UnsupportedError as error:
        return Answer(None, "unsupported", str(error))
    except Exception as error:  # whatever it is, it is the answer
        return Answer(None, "error", f"{type(error).__name__}: {error}")
