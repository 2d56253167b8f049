"""The C compiler of the system: makes libraries of the run time and a model's object."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from stepwell.bundling.project import LIBRARIES
from stepwell.dialects.support.errors import CodegenError, ResourceError
from stepwell.dialects.support.names import printable_lines

FLAGS = ("-std=c99", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-Wall", "-Wextra")
_SECONDS = 600  # for one command


def find_compiler(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """The command of the C compiler: `CC`, else `cc`, `gcc` or `clang`; None if there is none."""
    chosen = environment.get("CC")
    if chosen:
        words = shlex.split(chosen)
        return words if words and shutil.which(words[0]) else None
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    return None if found is None else [found]


def compiler() -> list[str]:
    """Like `find_compiler`. Raises ResourceError if there is none."""
    found = find_compiler()
    if found is None:
        given = os.environ.get("CC")
        what = f"CC={given} is no command" if given else "there is no cc, gcc or clang"
        raise ResourceError(f"bundle: {what}; --kind object needs no C compiler, and writes the run time as a file to compile elsewhere")
    return found


def compile_c(command: Sequence[str], source: Path, result: Path, flags: Sequence[str] = ()) -> None:
    """Compile a file of C. Raises CodegenError with what the compiler says."""
    _run([*command, *FLAGS, *flags, "-c", str(source), "-o", str(result)])


def archive(objects: Sequence[Path], result: Path) -> None:
    """A static library of objects. Raises ResourceError without `ar`, CodegenError if it fails."""
    tool = os.environ.get("AR") or shutil.which("ar")
    if not tool:
        raise ResourceError("bundle: there is no ar, which makes static libraries; --kind object needs none")
    result.unlink(missing_ok=True)
    _run([tool, "rcsD", str(result), *map(str, objects)])


def link_shared(command: Sequence[str], objects: Sequence[Path], result: Path, name: str) -> None:
    """A shared library of objects. Raises CodegenError with what the linker says."""
    wanted = ["-Wl,--as-needed", *(f"-l{library}" for library in LIBRARIES)]
    checks = ["-Wl,-z,defs", "-Wl,-z,text", "-Wl,-z,noexecstack", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--gc-sections", "-Wl,-Bsymbolic"]
    _run([*command, "-shared", "-fPIC", f"-Wl,-soname,lib{name}.so", *checks, "-o", str(result), *map(str, objects), *wanted])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise CodegenError(f"bundle: {command[0]} took more than {_SECONDS} seconds") from None
    if done.returncode:
        said = printable_lines(done.stderr.decode(errors="replace").strip())
        raise CodegenError(f"bundle: {shlex.join(command)} failed:\n{said[-2000:]}")
