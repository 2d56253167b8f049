"""Find the passes, pipelines and dialects that the bindings register, and write them to passes/framework/upstream_names.json.

The bindings cannot enumerate these, but their library contains every name as a string. The script tries each string that looks like a name, and each
suffix of a longer string (the linker merges strings with equal ends). Run it when the pinned version of torch-mlir changes: `python
scripts/list_upstream_passes.py`; with --check it only compares.
"""

import argparse
import json
import re
from pathlib import Path

from stepwell.dialects.core.mlir import ir, make_context, passmanager, registered_dialects

TARGET = Path(__file__).resolve().parent.parent / "passes" / "framework" / "upstream_names.json"
LIBRARY = "_mlir_libs/libTorchMLIRAggregateCAPI"


def candidates(library: bytes, characters: str) -> set[str]:
    """Everything in the library that could be a name made of `characters`."""
    strings = {found.group(1).decode() for found in re.finditer(rf"([a-z][{characters}]{{1,70}})\0".encode(), library)}
    return {text[i:] for text in strings for i in range(len(text) - 1) if text[i].isalpha()}


def anchor_of(name: str, context: ir.Context) -> str | None:
    """The operation on which the pass `name` runs, or None if there is no such pass."""
    try:
        passmanager.PassManager.parse(f"builtin.module({name})", context)
    except ValueError as error:
        restricted = re.search(r"restricted to '([\w.]+)'", str(error))
        return restricted.group(1) if restricted else None
    return "builtin.module"


def is_dialect(name: str, context: ir.Context) -> bool:
    """Whether a dialect of this name is registered by upstream, and not by us or a plugin."""
    try:
        context.get_dialect_descriptor(name)
    except ValueError:
        return False
    return all(name != dialect.DIALECT_NAMESPACE for dialect in registered_dialects())


def data_text(anchors: dict[str, str], dialects: list[str]) -> str:
    """The text of passes/framework/upstream_names.json."""
    passes = {anchor: sorted(name for name, a in anchors.items() if a == anchor) for anchor in sorted(set(anchors.values()))}
    return json.dumps({"passes": passes, "dialects": sorted(dialects)}, indent=1) + "\n"


def main() -> int:
    """Write the file, or with --check report whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the file is out of date; write nothing")
    check = parser.parse_args().check
    [library] = [path for path in Path(str(ir.__file__)).parent.glob(f"{LIBRARY}.*") if path.suffix in (".so", ".dylib")]
    context = make_context()
    strings = library.read_bytes()
    found = {name: anchor for name in candidates(strings, "a-z0-9-") if (anchor := anchor_of(name, context))}
    dialects = [name for name in candidates(strings, "a-z0-9_") if is_dialect(name, context)]
    text = data_text(found, dialects)
    if check:
        return int(TARGET.read_text() != text)
    TARGET.write_text(text)
    print(f"{len(found)} passes and pipelines, {len(dialects)} dialects")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
