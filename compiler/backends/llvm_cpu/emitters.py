"""From the llvm dialect to objects for any machine that LLVM knows. The host's own come from MLIR's execution engine (`objects`)."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TypeAlias

from stepwell.backends.llvm_cpu.ir_text import portable
from stepwell.backends.llvm_cpu.objects import compile_unit, make_engine_context, whole_module
from stepwell.dialects.core.mlir import ir, llvm
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.support.names import printable
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.families import family_of
from stepwell.dialects.target.host import host
from stepwell.runtime.openmp import openmp

_SECONDS = 1800  # for one object
Emitter: TypeAlias = Callable[[ir.Module, Target, str], bytes]
"""Makes one object of a module in the llvm dialect, with all its functions, the named one among them. Raises CodegenError if that is impossible."""


def engine_object(module: ir.Module, target: Target, entry: str) -> bytes:
    """An object for this machine's family, by the execution engine of MLIR: the same code as runs here."""
    libraries = tuple(runtime.path for runtime in (openmp(),) if runtime is not None)
    return compile_unit(whole_module(module, entry), make_engine_context(), libraries)


def text_object(module: ir.Module, target: Target, entry: str) -> bytes:
    """An object for any machine that llvmlite's LLVM knows."""
    return object_of_text(portable(llvm_ir(module)), target)


def object_of_text(text: str, target: Target) -> bytes:
    """An object of LLVM IR as text, which llvmlite reads, in a separate process: LLVM ends its process on an error. Raises CodegenError."""
    features, family = ",".join(f"+{name}" for name in sorted(target.features)), family_of(target.triple)
    machine = {"triple": target.triple, "cpu": target.cpu, "features": features, "abi": family.abi, "relocations": family.relocations}
    request = {"text": text, "halves": family.compiles_halves, **machine}
    command = [sys.executable, "-c", "from stepwell.backends.llvm_cpu.emit_object import main; main()"]
    try:
        done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise CodegenError(f"no object for target {target.name} ({printable(target.triple)}): LLVM took more than {_SECONDS} seconds") from None
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"the process of LLVM ended with status {done.returncode}"
        raise CodegenError(f"no object for target {target.name} ({printable(target.triple)}): {printable(reason)}")
    return done.stdout


def emitter_for(target: Target) -> Emitter:
    """The emitter for a target."""
    return engine_object if target.family == host().family else text_object


def llvm_ir(module: ir.Module) -> str:
    """The LLVM IR of a module in the llvm dialect."""
    text: str | None = llvm.translate_module_to_llvmir(module.operation)
    if text is None:
        raise CodegenError("the module cannot be translated to LLVM IR")
    return text
