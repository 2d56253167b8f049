"""LLVM's own linker in memory, for machines that `image` does not support, and its compiler, for the helpers of `support`."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import llvmlite.binding as llvm

from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.support.processes import Lock
from stepwell.runtime.openmp import openmp

_numbers = itertools.count(1)
# LLVM does not guarantee that several threads can create and dispose of JITs at once.
_lock = Lock()


def link(objects: Mapping[str, bytes], imports: Mapping[str, int] | None, exports: Sequence[str]) -> tuple[dict[str, int], Callable[[], None]]:
    """Link objects; returns the addresses of the exports, and a function that unloads them. Without `imports`, LLVM searches the process.

    Raises CodegenError if LLVM fails.
    """
    builder = llvm.JITLibraryBuilder()
    for data in objects.values():
        builder.add_object_img(data)
    if imports is None:
        builder.add_current_process()
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        _initialize()
        jit = llvm.create_lljit_compiler(_machine(), suppress_errors=True)
        try:
            tracker = builder.link(jit, f"stepwell-{next(_numbers)}")
        except RuntimeError as error:
            jit.close()
            raise CodegenError(f"the objects of {', '.join(objects)} cannot be linked: {error}") from None

    def unload() -> None:
        with _lock:
            tracker.close()
            jit.close()

    return {name: int(tracker[name]) for name in exports}, unload


def compile_helpers(text: str) -> bytes:
    """Compile functions given as LLVM IR to an object."""
    with _lock:
        _initialize()
        data: bytes = _machine().emit_object(llvm.parse_assembly(text))
    return data


def _machine() -> llvm.TargetMachine:
    return llvm.Target.from_default_triple().create_target_machine(opt=3, jit=True, codemodel="large")


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    runtime = openmp()
    if runtime is not None:
        llvm.load_library_permanently(runtime.path)
