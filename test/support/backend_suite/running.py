"""Compiles and runs a model, in the process that a watchdog watches: it cannot end the tests, whatever it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from backend_suite.cases import Value

import stepwell.backend
from stepwell.dialects.support.errors import UnsupportedError


@dataclass(frozen=True)
class Answer:
    """The outputs of a model, or why there are none: "unsupported" (UnsupportedError), or "error" (any other), and what it says."""

    outputs: Sequence[Value] | None
    failure: str = ""
    text: str = ""


def compile_and_run(model: bytes, inputs: Sequence[Value], options: Mapping[str, Any]) -> Answer:
    """Run once by ONNX's backend interface, compiled with the options of `stepwell.compile`."""
    try:
        prepared = stepwell.backend.prepare(onnx.load_model_from_string(model), "CPU", cache=False, **options)
        return Answer(tuple(prepared.run(list(inputs))))
    except UnsupportedError as error:
        return Answer(None, "unsupported", str(error))
    except Exception as error:  # whatever it is, it is the answer
        return Answer(None, "error", f"{type(error).__name__}: {error}")
