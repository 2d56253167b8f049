#!/usr/bin/env python3
"""Print a digest of each network's IR at every level, to check that moving or renaming code leaves it unchanged.

    .venv/bin/python scripts/ir_digest.py [NETWORK ...] [--target NAME] [--against DIR] [--rename OLD=NEW]...

With --against, the package of another checkout lowers the same networks; the script prints how many operations differ, and the first one. It ignores
locations, names of attributes, the description of the target and the digests in names of kernels; --rename gives other words in the IR of that
checkout that have new names.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from checkouts import linked

from benchmark.models import KNOWN, Network, find

SCRIPTS = Path(__file__).resolve().parent
DICTIONARY = re.compile(r"\{([^{}]*)\}")
KERNEL_DIGEST = re.compile(r"_[0-9a-f]{8}\b")  # at the end of a kernel's name: a digest of its text, which includes names of attributes


def main() -> int:
    """Run the comparison; returns 0, or 1 if the other checkout's IR differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"an ONNX file or one of {', '.join(KNOWN)} (default: all of these)")
    parser.add_argument("--target", default="x86-64-v3", metavar="NAME", help="what to lower for (default: x86-64-v3)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout of stepwell")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="a word of the other checkout's IR that has a new name")
    zoo = SCRIPTS.parent / "build" / "zoo"
    parser.add_argument("--zoo", type=Path, default=zoo, metavar="DIR", help="where the networks are kept (default: build/zoo)")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)  # for the processes that load one of the two packages
    options = parser.parse_args()
    networks = find(options.networks or KNOWN, options.zoo)
    if options.write is not None:
        for network in networks:
            write_levels(network, options.target, options.write, [text.partition("=")[::2] for text in options.rename])
        return 0
    renames = [f"--rename={text}" for text in options.rename]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environments = {folder / "ours": dict(os.environ)}
        if options.against is not None:
            environments[folder / "theirs"] = {**os.environ, "PYTHONPATH": str(linked(options.against, folder))}
        differing = 0
        for network in networks:
            for out, environment in environments.items():
                out.mkdir(exist_ok=True)
                command = [sys.executable, __file__, str(network.path.absolute()), "--target", options.target, "--write", str(out)]
                command += renames if out.name == "theirs" else []
                subprocess.run(command, check=True, env=environment, cwd=folder)
            differing += report(network.name, *environments)
    return int(differing > 0)


def report(network: str, ours: Path, theirs: Path | None = None) -> int:
    """Print a line for each level of a network, and the differences; returns the number of levels that differ. Deletes the files."""
    differing = 0
    for file in sorted(ours.iterdir()):
        level = file.name.split("-", 1)[1]
        mine = file.read_text().splitlines()
        digest = hashlib.sha256("\n".join(mine).encode()).hexdigest()[:16]
        line = f"{network:14} {level:10} {digest}  {len(mine):7} operations"
        if theirs is not None:
            other = theirs / file.name
            lines = other.read_text().splitlines() if other.is_file() else []
            other.unlink(missing_ok=True)
            pairs = [pair for pair in zip_longest(mine, lines) if pair[0] != pair[1]]
            differing += bool(pairs)
            line += f"  {len(pairs)} DIFFER\n  theirs: {pairs[0][1]}\n  ours:   {pairs[0][0]}" if pairs else "  the same"
        print(line, flush=True)
        file.unlink()
    return differing


def renamed(line: str, renames: Sequence[tuple[str, str]]) -> str:
    """A line with words replaced."""
    for old, new in renames:
        line = re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", new, line)
    return line


def in_order(text: str) -> str:
    """An attribute's text with the entries of its innermost dictionaries in alphabetical order, which does not depend on other names."""
    return DICTIONARY.sub(lambda found: "{" + ", ".join(sorted(re.split(r", (?=[\w.]+ = )", found[1]))) + "}", text)


def write_levels(network: Network, target: str, folder: Path, renames: Sequence[tuple[str, str]]) -> None:
    """Write the IR of each level as text to a numbered file named after the level, with one operation per line."""
    import stepwell

    lowered = stepwell.lower(network.path, "llvm", target=target)
    for number, (level, op) in enumerate(lowered.snapshots.items()):
        (folder / f"{number}-{level}").write_text("".join(f"{line}\n" for line in lines(op, {}, renames)))


def lines(op: Any, numbers: dict[Any, str], renames: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Each operation below `op`: its name, its operands, the values of its attributes in alphabetical order, and its types."""
    inputs = " ".join(numbers[operand] for operand in op.operands)
    for result in op.results:
        numbers[result] = f"%{len(numbers)}"
    attributes = sorted(in_order(renamed(KERNEL_DIGEST.sub("_", str(op.attributes[name])), renames)) for name in attribute_names(op))
    kinds = ", ".join(str(result.type) for result in op.results)
    blocks = " ".join(numbers[block] for block in op.successors)
    yield f"{renamed(op.name, renames)}({inputs}) [{blocks}] {{{', '.join(attributes)}}} : {kinds}"
    for region in op.regions:
        for block in region.blocks:
            numbers[block] = f"^{len(numbers)}"
            for argument in block.arguments:
                numbers[argument] = f"%{len(numbers)}"
        for block in region.blocks:
            yield f"{numbers[block]}({', '.join(str(argument.type) for argument in block.arguments)})"
            for inner in block.operations:
                yield from lines(inner.operation, numbers, renames)


def attribute_names(op: Any) -> list[str]:
    """The names of an operation's attributes, except the target of a module, because checkouts may describe it in different detail."""
    names = [entry if isinstance(entry, str) else entry.name for entry in op.attributes]
    return [name for name in names if not name.startswith("target.")]


if __name__ == "__main__":
    sys.exit(main())
