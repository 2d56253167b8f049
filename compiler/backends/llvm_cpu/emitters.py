"""From the llvm dialect to objects for any machine that LLVM knows. The host's own come from MLIR's execution engine (`objects`)."""

from collections.abc import Callable
from typing import TypeAlias

from stepwell.backends.llvm_cpu.emit_object import object_of_text
from stepwell.backends.llvm_cpu.ir_text import portable
from stepwell.backends.llvm_cpu.objects import compile_unit, make_engine_context, whole_module
from stepwell.dialects.core.mlir import ir, llvm
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.host import host
from stepwell.runtime.openmp import openmp

Emitter: TypeAlias = Callable[[ir.Module, Target, str], bytes]
"""Makes one object of a module in the llvm dialect, with all its functions, the named one among them. Raises CodegenError if that is impossible."""


def engine_object(module: ir.Module, target: Target, entry: str) -> bytes:
    """An object for this machine's family, by the execution engine of MLIR: the same code as runs here."""
    libraries = tuple(runtime.path for runtime in (openmp(),) if runtime is not None)
    return compile_unit(whole_module(module, entry), make_engine_context(), libraries)


def text_object(module: ir.Module, target: Target, entry: str) -> bytes:
    """An object for any machine that llvmlite's LLVM knows."""
    return object_of_text(portable(llvm_ir(module)), target)


def emitter_for(target: Target) -> Emitter:
    """The emitter for a target."""
    return engine_object if target.family == host().family else text_object


def llvm_ir(module: ir.Module) -> str:
    """The LLVM IR of a module in the llvm dialect."""
    text: str | None = llvm.translate_module_to_llvmir(module.operation)
    if text is None:
        raise CodegenError("the module cannot be translated to LLVM IR")
    return text
