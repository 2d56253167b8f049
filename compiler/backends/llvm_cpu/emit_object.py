"""Compiles LLVM IR to an object for any machine, in a process of its own: LLVM ends its process on an error."""

import json
import subprocess
import sys

from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.support.names import printable
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.families import family_of


def object_of_text(text: str, target: Target) -> bytes:
    """An object of LLVM IR that every version of LLVM reads (`ir_text.portable`). Raises CodegenError if llvmlite's LLVM cannot make it."""
    features = ",".join(f"+{name}" for name in sorted(target.features))
    machine = {"triple": target.triple, "cpu": target.cpu, "features": features, "abi": family_of(target.triple).abi}
    command = [sys.executable, "-c", "from stepwell.backends.llvm_cpu.emit_object import main; main()"]
    done = subprocess.run(command, input=json.dumps({"text": text, **machine}).encode(), capture_output=True, check=False)
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"the process of LLVM ended with status {done.returncode}"
        raise CodegenError(f"no object for target {target.name} ({printable(target.triple)}): {printable(reason)}")
    return done.stdout


def main() -> None:
    """The process: answer one request as JSON on standard input with the object on standard output.

    Its fields are `text`, `triple`, `cpu`, `features` and `abi` as LLVM spells them. On failure, the status is 1, and the last line on standard error
    the problem.
    """
    import llvmlite.binding as llvm

    request = json.load(sys.stdin.buffer)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        machine = llvm.Target.from_triple(request["triple"]).create_target_machine(
            cpu=request["cpu"], features=request["features"], opt=3, reloc="pic", codemodel="default", abiname=request["abi"]
        )
        module = llvm.parse_assembly(request["text"])
        module.triple, module.data_layout = request["triple"], str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        sys.exit(" ".join(str(error).split()))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    sys.stdout.buffer.write(machine.emit_object(module))
