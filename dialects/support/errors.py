"""The typed errors of Stepwell: few classes, each with stable codes that docs/errors.md explains."""

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.dialects.core.diagnostics import Diagnostic


class StepwellError(Exception):
    """Base of every error that Stepwell raises on purpose.

    `code` is stable (docs/errors.md has a section for each); the message says what, where, why and what would be accepted.
    `details` lists every single problem where the message sums up several.
    """

    code = "SW000"

    def __init__(self, message: str, *, code: str | None = None, details: Sequence[str] = ()) -> None:
        if code is not None:
            self.code = code
        self.details = tuple(details)
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.code} {super().__str__()}"


class ModelError(StepwellError):
    """The model is malformed: not ONNX, truncated, inconsistent, or its data is missing."""

    code = "SW001"


class UnsupportedError(StepwellError):
    """The model is valid, but uses something that Stepwell does not support; every such node is listed."""

    code = "SW002"


class InputError(StepwellError):
    """An input array handed to a compiled model (or a user's option) does not fit: which, what was expected, what came."""

    code = "SW003"


class InferenceError(StepwellError):
    """Operand types or attributes do not fit an operation; raised by an op's `infer`."""

    code = "SW004"


class ElementTypeError(InferenceError):
    """An operation, or all of Stepwell, does not take an element type, of which ONNX has more: no fault of the model."""


class PassError(StepwellError):
    """A pass or lowering failed: names the phase, pass, pattern, op and node, and the IR before it where that is known."""

    code = "SW005"


class PipelineError(StepwellError):
    """A pass pipeline is misspelled: unknown pass, unknown or ill-typed option, unbalanced parentheses."""

    code = "SW006"


class CodegenError(StepwellError):
    """Native code could not be made or loaded for a kernel."""

    code = "SW007"


class IRError(StepwellError):
    """A file of IR cannot be parsed or does not verify.

    `diagnostics` are what MLIR said of its text, with lines and columns, where it is the text that is wrong.
    """

    code = "SW008"

    def __init__(self, message: str, *, code: str | None = None, details: Sequence[str] = (), diagnostics: "Sequence[Diagnostic]" = ()) -> None:
        super().__init__(message, code=code, details=details)
        self.diagnostics = tuple(diagnostics)


class ScheduleError(PassError):
    """A schedule is missing or not legal for its op and target, in IR or in a schedule file: names kernel, op and knob."""

    code = "SW009"


class IndexRangeError(StepwellError):
    """What only a run has does not fit: an index, a size that is declared, or the branch that is taken. Names the node and what was expected."""

    code = "SW010"


class SizesDifferError(IndexRangeError):
    """Sizes that only the data of a run have told are not equal, where the code takes them to be, and one of them is 1: it may be a broadcast."""


class LimitError(StepwellError):
    """Compiling or running the model would cost more than it may: which node, which limit, what it would take."""

    code = "SW011"


class ResourceError(StepwellError):
    """The machine does not give what is needed: memory, stack, a file to write, a process."""

    code = "SW012"


class ModelWarning(UserWarning):
    """A model's file has something against the standard, and was accepted: what it says, and how it was taken."""


class BusyWarning(UserWarning):
    """Other processes kept the machine busy while something was timed."""


def warn_caller(warning: Warning) -> None:
    """Issue a warning at the place, outside of this package, that called into it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "stepwell":
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def shown(value: object) -> str:
    """A value in a message: short, on one line, its type where that says more."""
    try:
        text = repr(value)
    except Exception:  # somebody else's
        text = ""
    if not text or len(text) > 60 or not text.isprintable():
        return f"a {type(value).__name__}"
    return text
