"""Find the passes and pipelines that the bindings register, and write them to passes/upstream_names.py.

The bindings cannot enumerate their passes, but their library holds every pass's name as a string: whatever looks like a name (and
whatever a longer string ends with, as the linker merges strings with equal tails) is tried by parsing a pipeline of it.
Run it when the pinned version of torch-mlir changes: `python scripts/list_upstream_passes.py`; with --check it only compares.
"""

import argparse
import re
import textwrap
from pathlib import Path

from stepwell.dialects.mlir import ir, make_context, passmanager

TARGET = Path(__file__).resolve().parent.parent / "passes" / "upstream_names.py"
LIBRARY = "_mlir_libs/libTorchMLIRAggregateCAPI"


def candidates(library: bytes) -> set[str]:
    """Everything in the library that could be the name of a pass."""
    strings = {piece.group(1).decode() for chunk in library.split(b"\0") if (piece := re.search(rb"([a-z][a-z0-9-]{1,70})$", chunk[-72:]))}
    return {text[i:] for text in strings for i in range(len(text) - 1) if text[i].isalpha()}


def anchor_of(name: str, context: ir.Context) -> str | None:
    """The operation that the pass `name` runs on, or None if there is no such pass."""
    try:
        passmanager.PassManager.parse(f"builtin.module({name})", context)
    except ValueError as error:
        restricted = re.search(r"restricted to '([\w.]+)'", str(error))
        return restricted.group(1) if restricted else None
    return "builtin.module"


def module_text(anchors: dict[str, str]) -> str:
    """The source of passes/upstream_names.py."""
    lines = [
        '"""The names of upstream\'s passes and pipelines by the operation they run on; written by scripts/list_upstream_passes.py."""',
        "",
        "NAMES = {",
    ]
    for anchor in sorted(set(anchors.values())):
        names = textwrap.wrap(" ".join(sorted(n for n, a in anchors.items() if a == anchor)), 138, break_on_hyphens=False)
        lines += [f'    "{anchor}": (', *(f'        "{line}{" " * (line is not names[-1])}"' for line in names), "    ),"]
    return "\n".join([*lines, "}", ""])


def main() -> int:
    """Write the file, or with --check say whether it is what would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the file is out of date; write nothing")
    check = parser.parse_args().check
    [library] = [path for path in Path(str(ir.__file__)).parent.glob(f"{LIBRARY}.*") if path.suffix in (".so", ".dylib")]
    context = make_context()
    found = {name: anchor for name in candidates(library.read_bytes()) if (anchor := anchor_of(name, context))}
    text = module_text(found)
    if check:
        return int(TARGET.read_text() != text)
    TARGET.write_text(text)
    print(f"{len(found)} passes and pipelines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
