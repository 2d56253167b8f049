"""Find the OpenMP runtime library, load it once, and set the number of threads of a call."""

import ctypes
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from stepwell.dialects.support.installed import files
from stepwell.dialects.support.processes import Lock

_NAMES = {"linux": ("libomp.so", "libomp.so.5"), "darwin": ("libomp.dylib",)}
_INIT_AT_FORK = "KMP_INIT_AT_FORK"
_LOADED = re.compile(r"(/\S*/lib(?:omp|iomp5)[\w.-]*\.so[\w.]*)$")


class OpenMP:
    """The loaded OpenMP runtime: its path, its symbols, and the thread count of the calling thread.

    A forked process has none of its parent's threads. The runtime resets itself there unless KMP_INIT_AT_FORK forbids it, which
    scikit-learn sets; so we start the runtime without that variable. If another library started it before us, parallel regions in a
    forked process would wait for the lost threads forever, so that process runs on one thread.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.library = ctypes.CDLL(path)
        # PyDLL keeps the GIL: these calls take less time than releasing it.
        calls = ctypes.PyDLL(path)
        self._set: Callable[[int], None] = calls.omp_set_num_threads
        self.get_threads: Callable[[], int] = calls.omp_get_max_threads
        """Returns the number of threads for parallel regions of this thread."""
        self._known: Callable[[], int] | None = getattr(calls, "kmp_get_num_known_threads", None)
        self._block: Callable[[int], None] | None = getattr(calls, "kmp_set_blocktime", None)
        get_block: Callable[[], int] | None = getattr(calls, "kmp_get_blocktime", None)
        forbidden = os.environ.pop(_INIT_AT_FORK, None)
        try:
            self.get_threads()
            self._block_time = 0 if get_block is None else get_block()  # read once: later calls return what any thread has set
        finally:
            if forbidden is not None:
                os.environ[_INIT_AT_FORK] = forbidden
        self._is_forked = self._is_single = False
        self._looking = Lock()
        os.register_at_fork(after_in_child=functools.partial(setattr, self, "_is_forked", True))

    def set_threads(self, threads: int, before: int | None = None) -> int:
        """Set the number of threads for parallel regions of this thread; returns the previous number, which is `before` if that is given."""
        if self._is_forked:
            self._look_at_threads()
        if self._is_single:
            threads = 1
        before = self.get_threads() if before is None else before
        if before != threads:
            self._set(threads)
        return before

    def bound_block_time(self, milliseconds: int) -> None:
        """Let the other threads of this thread's team wait for its next parallel region at most that long before they sleep, if the runtime can.

        A waiting thread keeps its core busy, by default for 200 ms; `KMP_BLOCKTIME` and `OMP_WAIT_POLICY` may say less.
        """
        if self._block is not None and self._block_time > milliseconds:
            self._block(milliseconds)

    @property
    def has_threads(self) -> bool:
        """Whether the runtime has started threads, as far as it reports that."""
        return self._known is None or self._known() > 1

    def _look_at_threads(self) -> None:
        """In a forked process, before any model runs: check whether the runtime still expects the parent's threads."""
        with self._looking:
            if not self._is_forked:
                return
            self._is_single = self._known is not None and self._known() > 1
            self._is_forked = False
        if self._is_single:
            warnings.warn(
                f"{self.path} was started with {_INIT_AT_FORK}=FALSE before Stepwell was used: models run on one thread in forked processes. "
                f"Unset it, or use Stepwell before that library.", stacklevel=4,
            )  # fmt: skip


def address_in(library: ctypes.CDLL, name: str) -> int | None:
    """The address of the function `name` in a loaded library, or None."""
    function = getattr(library, name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def find_libomp() -> str | None:
    """The path of the OpenMP runtime to use, or None.

    In this order: `STEPWELL_LIBOMP`; one that the process has already loaded (two LLVM OpenMP runtimes in one process abort);
    the one of the package `cmeel-libomp`; one on the library path of the system.
    """
    chosen = os.environ.get("STEPWELL_LIBOMP")
    if chosen is not None:
        return chosen if Path(chosen).is_file() else None
    return _loaded() or _packaged() or _installed()


def _loaded() -> str | None:
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None  # not Linux: loaded libraries are unknown
    for line in lines:
        match = _LOADED.search(line)
        if match:
            return match[1]
    return None


def _packaged() -> str | None:
    for path in files("cmeel-libomp"):
        if path.name in _NAMES.get(sys.platform, ()) and path.is_file():
            return str(path.resolve())
    return None


def _installed() -> str | None:
    for name in _NAMES.get(sys.platform, ()):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return _loaded() or name
    return None


@functools.cache
def openmp() -> OpenMP | None:
    """The process's OpenMP runtime, loaded on first use; None if there is none, with a warning the first time."""
    path = find_libomp()
    reason = "no libomp was found"
    if path is not None:
        try:
            return OpenMP(path)
        except (OSError, AttributeError) as error:
            reason = f"{path} cannot be used: {error}"
    warnings.warn(f"{reason}; models run on one thread. `pip install cmeel-libomp`, or set STEPWELL_LIBOMP to its path.", stacklevel=2)
    return None
