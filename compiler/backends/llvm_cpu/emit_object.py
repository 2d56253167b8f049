"""The process that compiles LLVM IR to an object for any machine: a request as JSON on standard input, the object on standard output."""

import json
import re
import sys

_CONSTANT = r"zeroinitializer|poison|undef|splat \([^)]*\)|<[^>]*>"
_OPERAND = rf"(%[\w.$-]+|{_CONSTANT})"
_COMPARED = re.compile(rf"^( *)%([\w.$-]+) = fcmp ([a-z ]+) <(\d+) x half> {_OPERAND}, {_OPERAND}", re.MULTILINE)
_CONVERTED = re.compile(rf"^( *)%([\w.$-]+) = fpext (<\d+ x |)half(>|) {_OPERAND} to (?:<\d+ x )?double>?", re.MULTILINE)


def main() -> None:
    """Answer one request: `text`, `triple`, `cpu`, `features`, `abi` and `relocations` as LLVM spells them.

    `halves` is false if LLVM must get no comparisons of vectors of f16 and no conversions of f16 to f64.

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
    if not request["halves"]:  # the module may have had none: LLVM's passes remove a step by way of f32
        module = llvm.parse_assembly(by_way_of_f32(str(module)))
    sys.stdout.buffer.write(machine.emit_object(module))


def by_way_of_f32(text: str) -> str:
    """LLVM IR that compares vectors of f16 as f32, and converts f16 to f64 in two steps; all of this is exact.

    rewrite: %c = fcmp P <N x half> %x, %y          ->  %a = fpext %x; %b = fpext %y; %c = fcmp P <N x float> %a, %b
    rewrite: %d = fpext <N x half> %x to <N x double>  ->  %a = fpext <N x half> %x to <N x float>; %d = fpext <N x float> %a to <N x double>
    """
    text = _COMPARED.sub(
        r"\1%wide.\2.x = fpext <\4 x half> \5 to <\4 x float>\n\1%wide.\2.y = fpext <\4 x half> \6 to <\4 x float>\n"
        r"\1%\2 = fcmp \3 <\4 x float> %wide.\2.x, %wide.\2.y", text
    )  # fmt: skip
    return _CONVERTED.sub(r"\1%wide.\2 = fpext \3half\4 \5 to \3float\4\n\1%\2 = fpext \3float\4 %wide.\2 to \3double\4", text)
