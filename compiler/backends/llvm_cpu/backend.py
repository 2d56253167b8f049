"""The built-in backend: machine code by LLVM for the CPU, an object for each function, linked in memory."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stepwell.backends.artifact import Artifact
from stepwell.backends.base import Backend, Code
from stepwell.backends.llvm_cpu.phases import CPU, SEQUENTIAL
from stepwell.backends.registry import register_backend
from stepwell.cache.disk import Cache
from stepwell.cache.fingerprint import code_generation
from stepwell.dialects.core.size_table import SIZES_FUNCTION, gives_status
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.extensions import extending_modules
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.host import runs_here
from stepwell.pipelines.phases import Phase
from stepwell.pipelines.routes import CPU_PATH, DEFAULT
from stepwell.plugin_files import of_code_generation
from stepwell.runtime.buffers import pack_arena
from stepwell.runtime.executable import Executable, NativeExecutable, NativeSized
from stepwell.runtime.general import Sized
from stepwell.runtime.index_checks import IndexChecks
from stepwell.runtime.loader import LoadedCode, load
from stepwell.runtime.openmp import openmp
from stepwell.signature import boxed_results

if TYPE_CHECKING:
    from stepwell.backends.llvm_cpu.objects import Unit
    from stepwell.pipelines.lowered import Lowered

_WHOLE = "main"  # the name of an object with all functions


@register_backend(DEFAULT)
class LLVMOnCPU(Backend):
    """Codegen can start at either level, llvm or affine. From affine, each function is lowered separately, in parallel processes."""

    path = CPU_PATH
    code_levels = ("affine", "llvm")
    description = "machine code by LLVM for the CPU"

    def phases(self, target: "str | Target") -> Sequence[Phase]:
        """Without an OpenMP run time, parallel loops become sequential ones."""
        return CPU if openmp() is not None else SEQUENTIAL

    def prepare(self, kernels: int) -> None:
        """Start the compiler's processes if there is enough work for them."""
        from stepwell.backends.llvm_cpu.pool import prestart

        prestart(kernels)

    def generate(self, lowered: "Lowered", store: Cache | None, reached: Callable[[], None]) -> Code:
        """Objects; those of kernels that were compiled before, for this or another model, come from `store`."""
        units = self.units(lowered, reached)
        objects, keys = objects_of(units, lowered.target, store)
        kernels = len(objects) - 1 - sum(map(gives_status, objects))
        return Code(objects, kernels, keys, {unit.name: unit.nodes for unit in units if unit.nodes is not None}, lowered.info.located)

    def units(self, lowered: "Lowered", reached: Callable[[], None] = lambda: None) -> "list[Unit]":
        """The inputs of code generation for a model, one for each function."""
        from stepwell.backends.llvm_cpu.objects import split_module
        from stepwell.passes.framework.runner import PassRunner
        from stepwell.pipelines.stages import grouped

        pipeline, level = "", self.path.last
        runner = PassRunner(lowered.state, optimistic=True)
        if lowered.level != level:
            stage = lowered.pipeline.stage(level)
            pipeline = grouped(stage.per_function)
            runner.run(lowered.module, grouped(stage.whole), level=level)
        else:  # handwritten IR, whose @main may still take each argument separately
            runner.run(lowered.module, "pack-arguments", level=level)
        units = split_module(lowered.module, pipeline, lowered.target if pipeline else None)
        if pipeline:  # the rest of this level is part of object generation
            reached()
        return units

    def cross_compile(self, lowered: "Lowered") -> dict[str, bytes]:
        """One object of all functions."""
        return {_WHOLE: _emitted(lowered, "main")}

    def load(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Executable:
        """Objects that are linked into this process."""
        return _executable(artifact, load(artifact.objects), weights, threads)(workspace_bytes=artifact.workspace_bytes)

    def load_sized(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Sized:
        """Like `load`: one code for all sizes, with a workspace for each combination."""
        code = load(artifact.objects, ("main", SIZES_FUNCTION))
        return NativeSized(code, _executable(artifact, code, weights, threads))

    def translations(self) -> "Mapping[str, Callable[[Lowered], str]]":
        """LLVM IR, and the header of the object."""

        def llvm_ir(lowered: "Lowered") -> str:
            from stepwell.backends.llvm_cpu.emitters import llvm_ir as text_of  # imported here and below, because the bindings take long to load

            return text_of(lowered.module)

        def header(lowered: "Lowered") -> str:
            from stepwell.backends.llvm_cpu.c_header import c_header

            return c_header(lowered.info)

        return {"llvm-ir": llvm_ir, "header": header}

    def listings(self) -> Mapping[str, Callable[[Artifact], str]]:
        """The disassembly of the objects."""

        def disassembled(artifact: Artifact) -> str:
            from stepwell.backends.llvm_cpu.disassemble import disassemble

            return disassemble(artifact.objects, artifact.nodes, artifact.lines)

        return {"asm": disassembled}

    def files(self) -> "Mapping[str, Callable[[Lowered], bytes]]":
        """One object of all functions, for the target, and the arena of all weights."""

        def exported(lowered: "Lowered") -> bytes:
            from stepwell.backends.llvm_cpu.c_header import EXPORTED
            from stepwell.dialects.core.llvm_ops import llvm_functions
            from stepwell.dialects.core.mlir import ir

            with lowered.module.context:
                for function in llvm_functions(lowered.module.operation):
                    name = ir.StringAttr(function.attributes["sym_name"]).value
                    function.attributes["sym_name"] = ir.StringAttr.get(EXPORTED.get(name, name))
            return _emitted(lowered, EXPORTED["main"])

        def arena(lowered: "Lowered") -> bytes:
            return pack_arena(lowered.weights, lowered.info.arena, lowered.info.weights_bytes).tobytes()

        return {"obj": exported, "weights": arena}


def _executable(artifact: Artifact, code: LoadedCode, weights: np.ndarray, threads: int) -> Callable[..., NativeExecutable]:
    """Makes an executable of an artifact's code; what depends on sizes is missing."""
    checks, boxed = IndexChecks(artifact.checks), boxed_results(artifact.groups)
    arguments = len(artifact.inputs) + len(artifact.outputs) + checks.hidden
    symbols = () if artifact.general is None else artifact.general.symbols
    return partial(
        NativeExecutable, code, weights, threads=threads, arguments=arguments, late=artifact.late, boxed=boxed, checks=checks, symbols=symbols
    )


def _emitted(lowered: "Lowered", entry: str) -> bytes:
    """One object of all functions, `entry` among them."""
    from stepwell.backends.llvm_cpu.emitters import emitter_for
    from stepwell.dialects.core.locations import place_calls
    from stepwell.passes.affine_to_llvm.set_target import confine_all

    target = lowered.target
    place_calls(lowered.module.operation)
    if not runs_here(target):
        confine_all(lowered.module.operation, target)
    return emitter_for(target)(lowered.module, target, entry)


def objects_of(units: "Sequence[Unit]", target: Target, store: Cache | None) -> tuple[dict[str, bytes], dict[str, str]]:
    """The object of each unit by its name, and its key in the cache if it is there."""
    from stepwell.backends.llvm_cpu.pool import compile_units

    generation = code_generation(target) if store is not None else None
    if store is None or generation is None:
        return compile_units(units), {}
    # A pass of a plugin may write the names of nodes into the code.
    extended = bool(of_code_generation() or extending_modules(code_generation=True))
    keys = {unit.name: key_of(generation, unit.name, unit.bytecode if extended else unit.digest, unit.pipeline) for unit in units}
    known = {name: store.get("objects", key) for name, key in keys.items()}
    made = compile_units([unit for unit in units if known[unit.name] is None])
    kept = {name: key for name, key in keys.items() if name not in made or store.put("objects", key, made[name])}
    return {name: data if data is not None else made[name] for name, data in known.items()}, kept
