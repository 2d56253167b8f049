"""A second program of a model, for inputs that contradict the assumptions of the first."""

from collections.abc import Callable
from typing import Any

from stepwell.dialects.support.errors import ModelWarning, StepwellError, warn_caller
from stepwell.dialects.support.processes import Lock


class Otherwise:
    """Returns the model for inputs that another one has refused; it is compiled on first use. Safe to call from several threads."""

    def __init__(self, compile: Callable[[], Any], note: str) -> None:
        """`note` is the text of the warning about its use."""
        self._compile, self._note, self._turn = compile, note, Lock()
        self._made: Any = None
        self._is_noted = False

    def __call__(self, error: StepwellError) -> Any:
        """The model, after a ModelWarning the first time. Raises `error` if there cannot be one."""
        made = self.compiled(error)
        self.warn(error)
        return made

    def compiled(self, error: StepwellError) -> Any:
        """The model. Raises `error` if there cannot be one."""
        with self._turn:
            if self._made is None:
                try:
                    self._made = self._compile()
                except StepwellError as problem:
                    raise error from problem
        return self._made

    def warn(self, error: StepwellError) -> None:
        """Report once, as a ModelWarning, that the model runs inputs with this error."""
        if not self._is_noted:
            self._is_noted = True
            warn_caller(ModelWarning(f"{error.args[0]}: {self._note}"))
