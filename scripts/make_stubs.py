#!/usr/bin/env python3
"""Create files that mypy needs but the wheels lack: stubs of the MLIR bindings, and a folder with the layout of the installed package.

    python scripts/make_stubs.py [BUILD_DIR]

BUILD_DIR/typing/stepwell links to the sources (mypy cannot follow an editable install with a package-dir mapping), and BUILD_DIR/stubs/torch_mlir
holds the stubs. `mypy_path` in pyproject.toml refers to both.
"""

import re
import shutil
import sys
from pathlib import Path

from nanobind import stubgen
from torch_mlir import ir

ROOT = Path(__file__).resolve().parent.parent
NATIVE = "torch_mlir._mlir_libs._mlir"
ANYTHING = "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"

# The Python files of the bindings re-export the native modules and add little to them; the additions that we use are written here.
PYTHON_LEVEL = {
    "__init__.pyi": "",
    "_mlir_libs/__init__.pyi": ANYTHING,
    "ir.pyi": f"from {NATIVE}.ir import *\n",
    "passmanager.pyi": f"from {NATIVE}.passmanager import *\n",
    "rewrite.pyi": f"from {NATIVE}.rewrite import *\n",
    "execution_engine.pyi": ANYTHING,
    "runtime/__init__.pyi": ANYTHING,
    "dialects/__init__.pyi": ANYTHING,  # generated op builders and `ext`: untyped
}

# The bindings return the most derived class where their signature names a base class (an attribute, type, op or expression). Members that a base
# class lacks must therefore be allowed, or every access would need a cast.
OPEN_CLASSES = ("AffineExpr", "Attribute", "Location", "OpView", "Operation", "Type", "Value")
OPEN = """
    def __getattr__(self, name: str) -> Any: ...
    def __iter__(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __len__(self) -> int: ...
"""

# Replacements applied to the generated text, in this order.
REPAIRS = (
    # Sibling modules are named relative to the package's last component.
    (r"(?<![\w.])_mlir\.(?=ir\b|rewrite\b|passmanager\b)", f"{NATIVE}."),
    (r"import _mlir\n", f"import {NATIVE}.ir\n"),
    # `typing` has Self, and numpy's arrays are buffers, only in newer versions of Python.
    (r"\bSelf, ", ""),
    (r"from typing_extensions import Buffer, ", "from typing import Any\nfrom typing_extensions import Self, "),
    (r"\bBuffer\b", "Any"),
    # `Value` without arguments is a value of any type.
    (r'_T = TypeVar\("_T", bound=Type\)', 'from typing_extensions import TypeVar as _TypeVar\n_T = _TypeVar("_T", bound=Type, default=Any)'),
    # The binding loses the type.
    (r"-> (list\[)?object\b", r"-> \1Any"),
    (r"attach_diagnostic_handler\(self, callback: object\) -> Any", "attach_diagnostic_handler(self, callback: Any) -> DiagnosticHandler"),
    # An op class of ours may use this name for its result, with another type.
    (r"def result\(self\) -> \w+(\[\w+\])?:", "def result(self) -> Any:"),
    # Defined in some subclasses only.
    (r"(class Attribute:\n)", r"\1    attr_name: str\n"),
    (rf"(class (?:{'|'.join(OPEN_CLASSES)})\b.*:\n)", rf"\1{OPEN}"),
)


def link_package(folder: Path) -> None:
    """Create the package `stepwell` in `folder` with symbolic links to the three source folders."""
    package = folder / "stepwell"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for entry in sorted((ROOT / "compiler").iterdir()):
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    for name in ("dialects", "passes"):
        (package / name).symlink_to(ROOT / name)


def write_stubs(folder: Path) -> None:
    """Write the stub package `torch_mlir` into `folder`."""
    package = folder / "torch_mlir"
    shutil.rmtree(package, ignore_errors=True)
    # The bindings replace the native Context by a Python subclass created at import, which the stub generator cannot name.
    native = sys.modules[f"{NATIVE}.ir"]
    native.Context = ir.Context.__mro__[1]  # type: ignore[attr-defined]
    libs = package / "_mlir_libs"
    libs.mkdir(parents=True)
    stubgen.main(["-q", "-r", "-P", "-m", NATIVE, "-O", str(libs)])
    for stub in (libs / "_mlir").glob("*.pyi"):
        text = stub.read_text()
        for pattern, replacement in REPAIRS:
            text = re.sub(pattern, replacement, text)
        stub.write_text(text)
    for name, text in PYTHON_LEVEL.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make(build: Path) -> None:
    """Recreate both folders under `build`."""
    link_package(build / "typing")
    write_stubs(build / "stubs")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build")
