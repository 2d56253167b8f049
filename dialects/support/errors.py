"""The typed errors of Stepwell: few classes, each with stable codes that docs/errors.md explains."""

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.dialects.core.diagnostics import Diagnostic


class StepwellError(Exception):
    """Base class of every error that Stepwell raises on purpose.

    `code` is stable (docs/errors.md has a section for each); the message names the problem, its position, the reason and the accepted values.
    `details` lists every single problem if the message summarises several.
    """

    code = "SW000"

    def __init_subclass__(cls, code: str | None = None) -> None:
        if code is not None:
            cls.code = code

    def __init__(self, message: str, *, code: str | None = None, details: Sequence[str] = ()) -> None:
        if code is not None:
            self.code = code
        self.details = tuple(details)
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.code} {super().__str__()}"


class ModelError(StepwellError, code="SW001"):
    """The model is malformed: not ONNX, truncated, inconsistent, or its data is missing."""


class UnsupportedError(StepwellError, code="SW002"):
    """The model is valid, but uses an unsupported feature; every such node is listed."""


class InputError(StepwellError, code="SW003"):
    """An input array of a compiled model (or a user's option) does not fit; the message names it, the expectation and the given value."""


class InferenceError(StepwellError, code="SW004"):
    """Operand types or attributes do not fit an operation; raised by an op's `infer`."""


class ElementTypeError(InferenceError):
    """An operation, or all of Stepwell, does not support an element type, of which ONNX has more; the model is not wrong."""


class PassError(StepwellError, code="SW005"):
    """A pass or lowering failed: names the phase, pass, pattern, op and node, and the IR before it if it is known."""


class PipelineError(StepwellError, code="SW006"):
    """A pass pipeline is misspelled: unknown pass, unknown or ill-typed option, unbalanced parentheses."""


class CodegenError(StepwellError, code="SW007"):
    """Native code could not be generated or loaded for a kernel."""


class IRError(StepwellError, code="SW008"):
    """A file of IR cannot be parsed or does not verify.

    `diagnostics` are MLIR's messages about its text, with lines and columns, if the text is wrong.
    """

    def __init__(self, message: str, *, code: str | None = None, details: Sequence[str] = (), diagnostics: "Sequence[Diagnostic]" = ()) -> None:
        super().__init__(message, code=code, details=details)
        self.diagnostics = tuple(diagnostics)


class ScheduleError(PassError, code="SW009"):
    """A schedule is missing or not legal for its op and target, in IR or in a schedule file: names kernel, op and knob."""


class IndexRangeError(StepwellError, code="SW010"):
    """A value known only at run time does not fit: an index, a declared size, or the branch taken. Names the node and the expectation."""


class SizesDifferError(IndexRangeError):
    """Data-dependent sizes that the code assumes to be equal differ, and one of them is 1: it may be a broadcast."""


class LimitError(StepwellError, code="SW011"):
    """Compiling or running the model would exceed a limit; the message names the node, the limit and the needed amount."""


class ResourceError(StepwellError, code="SW012"):
    """The machine lacks a resource: memory, stack, a file to write, a process."""


class QueueFullError(StepwellError, code="SW013"):
    """The queue of streams has no room for another request; the message names the capacity of the queue and the time that the caller waited."""


class DeadlineError(StepwellError, code="SW014"):
    """The deadline of a request to streams passed before its run had ended; the message says whether the request still waited."""


class ModelWarning(UserWarning):
    """A model's file deviates from the standard, and was accepted; the message names the deviation and its interpretation."""


class BusyWarning(UserWarning):
    """Other processes kept the machine busy while something was timed."""


class RecordWarning(UserWarning):
    """Tuning records cannot be used or kept; the message names their file and the reason."""


def warn_caller(warning: Warning) -> None:
    """Issue a warning at the position, outside this package, that called into it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "stepwell":
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def shown(value: object) -> str:
    """A value in a message: short, on one line, with its type if that is informative."""
    try:
        text = repr(value)
    except Exception:  # a foreign object's
        text = ""
    if not text or len(text) > 60 or not text.isprintable():
        return f"a {type(value).__name__}"
    return text
