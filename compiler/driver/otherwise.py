"""A second program of a model, for runs whose data contradict the assumptions of the first."""

from collections.abc import Callable
from typing import Any

from stepwell.dialects.support.errors import ModelWarning, SizesDifferError, StepwellError, warn_caller
from stepwell.dialects.support.processes import Lock


class Otherwise:
    """Returns the model for inputs that another one has refused; it is compiled on first use. Safe to call from several threads."""

    def __init__(self, compile: Callable[[], Any]) -> None:
        self._compile, self._turn = compile, Lock()
        self._made: Any = None

    def __call__(self, error: SizesDifferError) -> Any:
        """The model, after a ModelWarning the first time. Raises `error` if there cannot be one."""
        with self._turn:
            if self._made is None:
                try:
                    self._made = self._compile()
                except StepwellError as problem:
                    raise error from problem
                warn_caller(ModelWarning(f"{error.args[0]}: runs in which such a size is 1 are computed by a program in which any may be"))
        return self._made
