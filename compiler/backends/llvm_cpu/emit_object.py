"""The process that compiles LLVM IR to an object for any machine: a request as JSON on standard input, the object on standard output."""

import json
import sys


def main() -> None:
    """Answer one request: `text`, `triple`, `cpu`, `features`, `abi` and `relocations` as LLVM spells them.

    On failure, the last line on standard error is the problem, the status 1.
    """
    import llvmlite.binding as llvm

    request = json.load(sys.stdin.buffer)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        machine = llvm.Target.from_triple(request["triple"]).create_target_machine(
            cpu=request["cpu"], features=request["features"], opt=3, reloc=request["relocations"], codemodel="default",
            abiname=request["abi"],
        )
        module = llvm.parse_assembly(request["text"])
        module.triple, module.data_layout = request["triple"], str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        sys.exit(" ".join(str(error).split()))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    sys.stdout.buffer.write(machine.emit_object(module))
