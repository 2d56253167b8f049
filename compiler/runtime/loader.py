"""Link objects into the running process, without a linker, and unload them when they are no longer needed."""

import ctypes
import platform
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from stepwell.dialects.support.errors import CodegenError, UnsupportedError
from stepwell.dialects.target.description import REQUIRES
from stepwell.dialects.target.families import family_of
from stepwell.dialects.target.host import host
from stepwell.runtime import elf, support
from stepwell.runtime.image import Image, runs
from stepwell.runtime.openmp import address_in, openmp

_LIBRARIES = {"linux": ("libm.so.6", "libgcc_s.so.1"), "darwin": ("libSystem.dylib",)}


class LoadedCode:
    """Objects linked and mapped executable, until `close` or garbage collection unloads them.

    Each is linked separately, so that two models may define the same names, and unloading frees all memory.
    Addresses are valid while this object is open: keep it as long as anything may call them.
    """

    def __init__(self, addresses: Mapping[str, int], unload: Callable[[], None]) -> None:
        self._addresses = dict(addresses)
        self._unload = weakref.finalize(self, unload)
        # At interpreter exit other threads may still run the code; the end of the process frees it anyway.
        self._unload.atexit = False

    @property
    def closed(self) -> bool:
        """Whether the code has been unloaded."""
        return not self._unload.alive

    def address(self, name: str) -> int:
        """The address of the exported function `name`. Raises CodegenError if the code is closed or did not export it."""
        if self.closed:
            raise CodegenError(f"@{name}: the code was unloaded")
        if name not in self._addresses:
            raise CodegenError(f"@{name} is not exported; exported: {', '.join(sorted(self._addresses))}")
        return self._addresses[name]

    def function(self, name: str, arguments: int, *, status: bool = False) -> Callable[..., Any]:
        """A callable for the exported function `name` of `arguments` pointers (integers), which releases the GIL while it runs.

        It returns the function's i64 if there is a `status`, else None, and keeps this object alive.
        """
        function = ctypes.CFUNCTYPE(ctypes.c_int64 if status else None, *[ctypes.c_void_p] * arguments)(self.address(name))
        function.keep = self  # type: ignore[attr-defined]  # the callable keeps this object alive
        return function

    def packed_function(self, name: str, arguments: int, *, status: bool = True) -> Callable[[Sequence[int]], int | None]:
        """Like `function`, for a function that takes one pointer to an array of `arguments` pointers, and returns a status (`Verdict`).

        Without `status` it is one that always returns 0, which is not read: that takes a hundredth of a call of a small model.
        """
        function = ctypes.CFUNCTYPE(ctypes.c_int64 if status else None, ctypes.c_char_p)(self.address(name))
        pack = struct.Struct(f"{arguments}Q").pack

        def call(addresses: Sequence[int]) -> int | None:
            return function(pack(*addresses))

        call.keep = self  # type: ignore[attr-defined]  # the callable keeps this object alive
        return call

    def close(self) -> None:
        """Unload the code. It must not be running, and none of its addresses may be used afterwards."""
        self._unload()


def load(objects: Mapping[str, bytes], exports: Sequence[str] = ("main",)) -> LoadedCode:
    """Link `objects` (by the name of the function each defines) with each other, OpenMP and the C and maths libraries.

    Raises CodegenError for a damaged object, a function that two objects define, or one that none defines (naming its user), and
    UnsupportedError for code that needs instructions that this machine lacks.
    """
    bad = next((name for name, data in objects.items() if not elf.is_elf(data)), None)
    if bad is not None:
        if sys.platform == "linux" or any(map(elf.is_elf, objects.values())):
            raise CodegenError(f"the object of @{bad} is not an ELF object")
        from stepwell.runtime.jit import link  # imported here and below, because LLVM takes tens of megabytes, and most programs do not need it

        return LoadedCode(*link(objects, None, exports))
    files = {name: elf.read(data) for name, data in objects.items()}
    _check_instructions(files.values())
    imports, helpers = _resolve(files, exports)
    if helpers:
        from stepwell.runtime.jit import compile_helpers

        objects = {**objects, "": compile_helpers(support.module(helpers))}
        files[""] = elf.read(objects[""])
    family_of(platform.machine()).before_code()  # cached code may have been compiled by a process that has ended
    if runs(list(files.values()), platform.machine()):
        image = Image(files, imports)
        return LoadedCode({name: image.addresses[name] for name in exports}, image.close)
    from stepwell.runtime.jit import link

    return LoadedCode(*link(objects, imports, exports))


def _check_instructions(files: Iterable[elf.Object]) -> None:
    """Raise UnsupportedError for objects that declare features that this machine lacks."""
    needs = {name for file in files for symbol in file.defined if symbol.startswith(REQUIRES) for name in symbol.rpartition(":")[2].split(",")}
    missing = sorted(needs - host().features) if needs else ()
    if missing:
        raise UnsupportedError(f"the code is for a machine with {', '.join(missing)}, which this one lacks: it can be written to a file, not run")


def _resolve(files: Mapping[str, elf.Object], exports: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """The address of each external function that the objects need, and the names of those that `support` provides."""
    defined: dict[str, str] = {}
    needed: dict[str, str] = {}
    for name, file in files.items():
        for symbol in file.defined:
            if symbol in defined:
                raise CodegenError(f"@{symbol} is defined by two objects: of @{defined[symbol]} and of @{name}")
            defined[symbol] = name
        for symbol in file.undefined:
            needed.setdefault(symbol, name)
    missing = [f"@{symbol}, exported" for symbol in exports if symbol not in defined]
    found: dict[str, int] = {}
    helpers = []
    for symbol in sorted(needed.keys() - defined.keys()):
        address = _address(symbol)
        if address is not None:
            found[symbol] = address
        elif symbol in support.HELPERS:
            helpers.append(symbol)
        else:
            missing.append(f"@{symbol}, called by @{needed[symbol]}")
    if missing:
        raise CodegenError(f"no object or library defines {'; '.join(missing)}")
    return found, helpers


def _address(symbol: str) -> int | None:
    if symbol.startswith(("__kmpc_", "omp_")):
        runtime = openmp()
        return None if runtime is None else address_in(runtime.library, symbol)
    for library in _libraries():
        address = address_in(library, symbol)
        if address is not None:
            return address
    return None


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The process itself (with the C library), then libraries that it may have loaded privately."""
    return (ctypes.CDLL(None), *(ctypes.CDLL(name) for name in _LIBRARIES.get(sys.platform, ())))
