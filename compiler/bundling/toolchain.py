"""The C compiler and its companions that make libraries or a module of the run time and a model's objects: the system's, or cross compilers."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stepwell.bundling.project import LIBRARIES
from stepwell.dialects.support.errors import CodegenError, ResourceError
from stepwell.dialects.support.names import printable_lines
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.host import host

_FLAGS = ("-std=c99", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-Wall", "-Wextra")
_CHECKS = ("-z,defs", "-z,text", "-z,noexecstack", "-z,relro", "-z,now", "--gc-sections", "-Bsymbolic", "--as-needed")
"""Options of the linker: nothing may be missing, and no code may change when the library is loaded."""
_STACK = 1 << 20  # bytes of the stack of a module
_MODULE = (
    "--target=wasm32-wasi", "-std=c99", "-Oz", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint", "-msign-ext", "-fvisibility=hidden",
    "-ffunction-sections", "-fdata-sections", "-Wall", "-Wextra", "-nostartfiles", "-Wl,--no-entry,--gc-sections,--strip-all,--compress-relocations",
    f"-Wl,--fatal-warnings,--stack-first,-z,stack-size={_STACK}",
)  # fmt: skip
"""Options for a module: the stack lies below all data, so that one that is too deep ends the run and damages nothing."""
_MODULE_PACKAGES = "clang lld wasi-libc libclang-rt-dev-wasm32"
"""Debian's packages for modules: the compiler, its linker, headers and mathematical functions in C, and arithmetic of the compiler."""
_SECONDS = 600  # for one command


@dataclass(frozen=True)
class Tools:
    """A C compiler with its options, and an archiver."""

    compiler: tuple[str, ...]
    archiver: str

    def compile(self, source: Path, result: Path) -> None:
        """Compile a file of C. Raises CodegenError with the compiler's message."""
        _run([*self.compiler, *_FLAGS, *shlex.split(os.environ.get("CFLAGS", "")), "-c", str(source), "-o", str(result)])

    def archive(self, objects: Sequence[Path], result: Path) -> None:
        """Make a static library of objects. Raises CodegenError with the archiver's message."""
        result.unlink(missing_ok=True)
        _run([self.archiver, "rcsD", str(result), *map(str, objects)])

    def link(self, objects: Sequence[Path], result: Path, name: str) -> None:
        """Make a shared library of objects. Raises CodegenError with the linker's message."""
        flags = [f"-Wl,{option}" for option in (f"-soname,lib{name}.so", *_CHECKS)]
        _run([*self.compiler, "-shared", "-fPIC", *flags, "-o", str(result), *map(str, objects), *(f"-l{library}" for library in LIBRARIES)])


@dataclass(frozen=True)
class ModuleTools:
    """A C compiler that makes modules of WebAssembly."""

    compiler: tuple[str, ...]

    def link(self, source: Path, objects: Sequence[Path], result: Path) -> None:
        """Make a module of a file of C and objects. Raises CodegenError with the message of the compiler or the linker."""
        _run([*self.compiler, *_MODULE, str(source), *map(str, objects), "-o", str(result), "-lm"])


def find_module_tools() -> ModuleTools:
    """The tools for modules: `CC` of the environment, else `clang`. Raises ResourceError if there is none, or one that cannot make modules."""
    chosen = shlex.split(os.environ.get("CC", "")) or ["clang"]
    install = f"WebAssembly needs clang with its linker and a C library (on Debian: apt install {_MODULE_PACKAGES})"
    if shutil.which(chosen[0]) is None:
        raise ResourceError(f"bundle: there is no {shlex.join(chosen)}; {install}")
    tools = ModuleTools(tuple(chosen))
    with tempfile.TemporaryDirectory(prefix="stepwell-tools-") as temporary:
        trial = Path(temporary) / "trial.c"
        trial.write_text("#include <stdlib.h>\n", encoding="utf-8")
        try:
            tools.link(trial, [], trial.with_suffix(".wasm"))
        except CodegenError as error:
            raise ResourceError(f"bundle: {shlex.join(chosen)} makes no modules; {install}: {str(error).splitlines()[-1]}") from None
    return tools


def find_tools(target: Target) -> Tools:
    """The tools for a target: `CC` and `AR` of the environment, else the system's, or for another family of machines those with its name before them.

    Raises ResourceError if there are none.
    """
    own = target.family == host().family
    before = "" if own else f"{target.triple.partition('-')[0]}-linux-gnu-"
    chosen = shlex.split(os.environ.get("CC", ""))
    if chosen:
        found = chosen if shutil.which(chosen[0]) else []
        what = f"CC={shlex.join(chosen)} is no command"
    else:
        names = ("cc", "gcc", "clang") if own else ("gcc", "cc")
        found = [path for name in names if (path := shutil.which(before + name)) is not None][:1]
        what = "there is no cc, gcc or clang" if own else f"there is no {before}gcc (on Debian: apt install gcc-{before.removesuffix('-')})"
    if not found:
        raise ResourceError(f"bundle: {what}; --kind object needs no C compiler, and writes the run time as a file to compile elsewhere")
    archiver = os.environ.get("AR") or shutil.which(f"{before}ar") or shutil.which("ar")
    if archiver is None:
        raise ResourceError(f"bundle: there is no {before}ar, which makes static libraries; --kind object needs none")
    return Tools(tuple(found), archiver)


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise CodegenError(f"bundle: {command[0]} took more than {_SECONDS} seconds") from None
    if done.returncode:
        said = printable_lines(done.stderr.decode(errors="replace").strip())
        raise CodegenError(f"bundle: {shlex.join(command)} failed:\n{said[-2000:]}")
