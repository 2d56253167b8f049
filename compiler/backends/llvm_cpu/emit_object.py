"""Compiles LLVM IR to an object for any machine, in a process of its own: LLVM ends its process on an error."""

import json
import re
import subprocess
import sys

from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.support.names import printable
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.families import family_of

_SECONDS = 1800  # for one object
_CONSTANT = r"zeroinitializer|poison|undef|splat \([^)]*\)|<[^>]*>"
_OPERAND = rf"(%[\w.$-]+|{_CONSTANT})"
_COMPARED = re.compile(rf"^( *)%([\w.$-]+) = fcmp ([a-z ]+) <(\d+) x half> {_OPERAND}, {_OPERAND}", re.MULTILINE)
_CONVERTED = re.compile(rf"^( *)%([\w.$-]+) = fpext (<\d+ x |)half(>|) {_OPERAND} to (?:<\d+ x )?double>?", re.MULTILINE)


def object_of_text(text: str, target: Target) -> bytes:
    """An object of LLVM IR that every version of LLVM reads (`ir_text.portable`). Raises CodegenError if llvmlite's LLVM cannot make it."""
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


def main() -> None:
    """The process: answer one request as JSON on standard input with the object on standard output.

    Its fields are `text`, `triple`, `cpu`, `features`, `abi` and `relocations` as LLVM spells them; `halves` is false if comparisons of vectors of
    f16 and conversions of f16 to f64 must go by way of f32. On failure, the status is 1, and the last line on standard error the problem.
    """
    import llvmlite.binding as llvm

    request = json.load(sys.stdin.buffer)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        machine = llvm.Target.from_triple(request["triple"]).create_target_machine(
            cpu=request["cpu"], features=request["features"], opt=3, reloc=request["relocations"], codemodel="default", abiname=request["abi"]
        )
        module = llvm.parse_assembly(request["text"])
        module.triple, module.data_layout = request["triple"], str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        sys.exit(" ".join(str(error).split()))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    if not request["halves"]:  # after the passes, since they remove steps by way of f32
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
