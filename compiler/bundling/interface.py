"""The interface in C of a shared library (`bundle.h`), for ctypes."""

import _ctypes
import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from stepwell.bundling.manifest import ABI
from stepwell.dialects.support.errors import IndexRangeError, InputError, LimitError, ModelError, ResourceError, StepwellError, UnsupportedError

MAX_RANK = 16
"""STEPWELL_MAX_RANK."""
_MESSAGE = 512  # bytes
_UNVERIFIED, _COPIED = 1, 2  # STEPWELL_UNVERIFIED, STEPWELL_COPIED
_ERRORS: Mapping[int, type[StepwellError]] = {
    1: InputError, 2: ModelError, 3: UnsupportedError, 4: ResourceError, 5: LimitError, 6: InputError, 7: IndexRangeError, 8: ResourceError,
}  # fmt: skip
"""The error for each `enum stepwell_status`."""
Handle: TypeAlias = ctypes.c_void_p


class Tensor(ctypes.Structure):
    """`stepwell_tensor`."""

    _fields_ = [  # as ctypes has it
        ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
    ]  # fmt: skip


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(Tensor))
"""The type of `allocate`."""


class _OpenOptions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("abi", "size", "tensor_size", "flags")]


class _ContextOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32), ("threads", ctypes.c_int32), ("spin_microseconds", ctypes.c_int32), ("reserved", ctypes.c_int32),
        ("allocate", ALLOCATE), ("user", ctypes.c_void_p),
    ]  # fmt: skip


class Interface:
    """The functions of a bundle's library. Raises ModelError if it cannot be loaded."""

    def __init__(self, library: Path, name: str) -> None:
        self._name = name
        if f"{library.resolve()} (deleted)" in _mapped_files():  # the system would give the library that it has under this name
            raise ModelError(f"{library} was replaced after this process had loaded it; close the models of the one before first")
        try:
            self._library = ctypes.CDLL(str(library))
            self.run = self._function("run", ctypes.c_int)
            self.reset, self.context_free, self.close = (self._function(function, None) for function in ("reset", "context_free", "close"))
            self.cancel = self._function("cancel", None)
            self.context_bytes = self._function("context_bytes", ctypes.c_size_t)
            self._open, self._verify, self._context_new = (self._function(function, ctypes.c_int) for function in ("open", "verify", "context_new"))
            self._error = self._function("error", ctypes.c_char_p)
        except (OSError, AttributeError) as error:
            raise ModelError(f"{library}: {error}") from None

    def open(self, weights: bytes | None, *, verify: bool, copied: bool) -> Handle:
        """Open the model with the file of its weights. Raises StepwellError."""
        flags = (0 if verify else _UNVERIFIED) | (_COPIED if copied else 0)
        model, options = Handle(), _OpenOptions(ABI, ctypes.sizeof(_OpenOptions), ctypes.sizeof(Tensor), flags)
        self._checked(self._open, weights, ctypes.byref(options), ctypes.byref(model))
        return model

    def verify(self, model: Handle) -> None:
        """Compare the digest of the weights. Raises StepwellError."""
        self._checked(self._verify, model)

    def context(self, model: Handle, threads: int, allocate: object, *, spins: bool = True) -> Handle:
        """A context with a function of type `ALLOCATE`, which must live as long. Unless it `spins`, idle threads sleep at once.

        Raises StepwellError.
        """
        context, options = Handle(), _ContextOptions(ctypes.sizeof(_ContextOptions), threads, -1 if spins else 0, 0, allocate, None)
        self._checked(self._context_new, model, ctypes.byref(options), ctypes.byref(context))
        return context

    def unload(self) -> None:
        """Unload the library, unless another model has it too. No function may be called afterwards."""
        _ctypes.dlclose(self._library._handle)

    def error(self, status: int, context: Handle) -> StepwellError:
        """The error for the status of a run."""
        return _error(status, self._error(context))

    def _function(self, name: str, result: type | None) -> "Callable[..., int]":
        function = self._library[f"{self._name}_{name}"]
        function.restype = result
        return function

    def _checked(self, function: "Callable[..., int]", *arguments: object) -> None:
        message = ctypes.create_string_buffer(_MESSAGE)
        status = function(*arguments, message, ctypes.c_size_t(_MESSAGE))
        if status:
            raise _error(status, message.value)


def _mapped_files() -> frozenset[str]:
    """The files that this process has mapped, as Linux names them; empty on other systems."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    return frozenset(line[line.index("/") :] for line in lines if "/" in line)


def _error(status: int, message: object) -> StepwellError:
    text = message.decode(errors="replace") if isinstance(message, bytes) else ""
    return _ERRORS.get(status, ResourceError)(text)
