"""Link objects into the running process, without a linker, and unload them when nobody needs them any more."""

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import llvmlite.binding as llvm

from stepwell.dialects.errors import CodegenError

from . import elf, support
from .openmp import OpenMP, address_in, openmp

_LIBRARIES = {"linux": ("libm.so.6", "libgcc_s.so.1"), "darwin": ("libSystem.dylib",)}
_numbers = itertools.count(1)
# Creating and disposing of JITs from several threads at once is not something LLVM promises to survive.
_lock = threading.Lock()


class LoadedCode:
    """Objects that are linked and mapped executable, until `close` or the garbage collector takes them away.

    Each has a JIT of its own, so that two models may define the same names, and unloading gives all memory back.
    The addresses are valid as long as this object is open: keep it as long as anything may call them.
    """

    def __init__(self, jit: llvm.LLJIT, tracker: llvm.ResourceTracker, names: Iterable[str]) -> None:
        self._jit = jit
        self._tracker = tracker
        self._names = frozenset(names)
        self.closed = False

    def address(self, name: str) -> int:
        """The address of the exported function `name`. Raises CodegenError if the code is closed or did not export it."""
        if self.closed:
            raise CodegenError(f"@{name}: the code was unloaded")
        if name not in self._names:
            raise CodegenError(f"@{name} is not exported; exported: {', '.join(sorted(self._names))}")
        return int(self._tracker[name])

    def function(self, name: str, arguments: int) -> Callable[..., None]:
        """A callable for the exported function `name` of `arguments` pointers (integers), which releases the GIL while it runs.

        It keeps this object alive.
        """
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(self.address(name))
        function.keep = self  # type: ignore[attr-defined]
        return function

    def close(self) -> None:
        """Unload the code. Nothing may be running in it, and none of its addresses may be used from now on."""
        if self.closed:
            return
        self.closed = True
        with _lock:
            self._tracker.close()
            self._jit.close()

    def __del__(self) -> None:
        # While the interpreter ends, LLVM's own teardown has perhaps begun; the process's end frees everything anyway.
        if not getattr(self, "closed", True) and not sys.is_finalizing():
            self.close()


def load(objects: Mapping[str, bytes], exports: Sequence[str] = ("main",)) -> LoadedCode:
    """Link `objects` (by the name of the function each defines) with each other, OpenMP and the C and maths libraries.

    Raises CodegenError for a damaged object, for a function that two objects define, for one that none defines (naming who needs it).
    """
    imports = _resolve(objects, exports)
    builder = llvm.JITLibraryBuilder()
    for data in objects.values():
        builder.add_object_img(data)
    if imports is None:
        builder.add_current_process()
    else:
        helpers = [name for name, address in imports.items() if address is None]
        if helpers:
            builder.add_ir(support.module(helpers))
        for name, address in imports.items():
            if address is not None:
                builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        _initialize()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=3, jit=True)
        jit = llvm.create_lljit_compiler(machine, suppress_errors=True)
        try:
            tracker = builder.link(jit, f"stepwell-{next(_numbers)}")
        except RuntimeError as error:
            jit.close()
            raise CodegenError(f"the objects of {', '.join(objects)} cannot be linked: {error}") from None
    return LoadedCode(jit, tracker, exports)


def _resolve(objects: Mapping[str, bytes], exports: Sequence[str]) -> dict[str, int | None] | None:
    """The address of each function that is needed from outside of `objects`; None for those that `support` has.

    The whole result is None where the objects are not ELF: there the JIT looks into the process by itself.
    """
    if not all(elf.is_elf(data) for data in objects.values()):
        if any(elf.is_elf(data) for data in objects.values()) or sys.platform == "linux":
            bad = next(name for name, data in objects.items() if not elf.is_elf(data))
            raise CodegenError(f"the object of @{bad} is not an ELF object")
        return None
    defined: dict[str, str] = {}
    needed: dict[str, str] = {}
    for name, data in objects.items():
        symbols = elf.symbols(data)
        for symbol in symbols.defined:
            if symbol in defined:
                raise CodegenError(f"@{symbol} is defined by two objects: of @{defined[symbol]} and of @{name}")
            defined[symbol] = name
        for symbol in symbols.undefined:
            needed.setdefault(symbol, name)
    missing = [f"@{symbol}, exported" for symbol in exports if symbol not in defined]
    found: dict[str, int | None] = {}
    for symbol in sorted(needed.keys() - defined.keys()):
        address = _address(symbol)
        if address is not None or symbol in support.HELPERS:
            found[symbol] = address
        else:
            missing.append(f"@{symbol}, called by @{needed[symbol]}")
    if missing:
        raise CodegenError(f"no object or library defines {'; '.join(missing)}")
    return found


def _address(symbol: str) -> int | None:
    if symbol.startswith(("__kmpc_", "omp_")):
        runtime: OpenMP | None = openmp()
        return None if runtime is None else runtime.symbol(symbol)
    for library in _libraries():
        address = address_in(library, symbol)
        if address is not None:
            return address
    return None


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The process itself first (the C library), then those that it may not have loaded for everybody."""
    return (ctypes.CDLL(None), *(ctypes.CDLL(name) for name in _LIBRARIES.get(sys.platform, ())))


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    runtime = openmp()
    if runtime is not None:
        llvm.load_library_permanently(runtime.path)
