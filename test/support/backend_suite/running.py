"""Compiles and runs a model, in the process that a watchdog watches: it cannot end the tests, whatever it does."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from backend_suite.cases import Value

import stepwell
import stepwell.backend
from stepwell.dialects.support.errors import UnsupportedError


@dataclass(frozen=True)
class Answer:
    """The outputs of a model, or why there are none: "unsupported" (UnsupportedError), or "error" (any other), and what it says."""

    outputs: Sequence[Value] | None
    failure: str = ""
    text: str = ""


def compile_and_run(model: bytes, inputs: Sequence[Value], options: Mapping[str, Any]) -> Answer:
    """Run once by ONNX's backend interface, compiled with the options of `stepwell.compile`, or as a bundle, if there is an option `bundle`."""
    try:
        if "bundle" in options:
            return Answer(_bundled(model, inputs, {name: value for name, value in options.items() if name != "bundle"}))
        prepared = stepwell.backend.prepare(onnx.load_model_from_string(model), "CPU", cache=False, **options)
        return Answer(tuple(prepared.run(list(inputs))))
    except UnsupportedError as error:
        return Answer(None, "unsupported", str(error))
    except Exception as error:  # whatever it is, it is the answer
        return Answer(None, "error", f"{type(error).__name__}: {error}")


def _bundled(model: bytes, inputs: Sequence[Value], options: Mapping[str, Any]) -> Sequence[Value]:
    """The outputs by a bundle. Values for which code is made are part of it. Raises UnsupportedError for sequences, which a bundle takes apart."""
    compiled = stepwell.compile(model, cache=False, **options)
    if any(info.form for side in (compiled.inputs, compiled.outputs) for info in side):
        raise UnsupportedError("a sequence or an optional among the inputs or outputs")
    given = dict(zip((info.name for info in compiled.inputs), inputs, strict=True))
    values = {name: given[name] for name in getattr(compiled, "values", {})}
    with tempfile.TemporaryDirectory() as folder:
        stepwell.bundle(model, folder, prefix="model", kinds=("shared",), cache=False, values=values or None, **options)
        made = stepwell.load(folder, threads=1)
        try:
            return made(*(given[info.name] for info in made.inputs))
        finally:
            made.close()
