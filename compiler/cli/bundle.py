"""stepwell bundle: writes a compiled model as a library in C, or a module of WebAssembly, with its weights and what build tools need to find them."""

import argparse
from pathlib import Path

from stepwell.cli.common import OK, Parser, UsageError, usage_errors
from stepwell.cli.compile_options import add_compile_options, check_compile_options, compile_options, has_plugins, load_plugins
from stepwell.cli.display import Progress, plural, print_table, quantity, say

DESCRIPTION = """Compile a model to a library with an interface in C, which runs without Python, or to a module of WebAssembly (docs/deploy.md).

The code needs the instructions of --target, by default those of this machine."""
KINDS = ("static", "shared", "object", "module")
"""The kinds of `bundle.writing`, which loads numpy, for all families of machines."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell bundle`."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file, or one of a format that a plugin reads")
    add("-o", "--output", metavar="DIR", required=True, help="the folder to write to; it is made if it does not exist")
    text = (
        "a static library, a shared one, or an object and the run time in C, made without a C compiler; may be repeated (default: both libraries); "
        "for WebAssembly a module, which is all there is"
    )
    add("--kind", action="append", choices=KINDS, help=text)
    add("--embed", action="store_true", help="put the weights into the code; by default they are a file, which is mapped into memory")
    add("--prefix", metavar="NAME", help="what all names in C begin with (default: the name of the model's file)")
    bind = "a state, such as a KV cache: the output is the input of the next run, and grows in place; may be repeated"
    add("--bind", action="append", default=[], metavar="INPUT=OUTPUT", help=bind)
    add("--no-cache", action="store_true", help="compile even if this model or its kernels were compiled before, and keep nothing of it")
    add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""
    pairs = dict(_pair(text) for text in options.bind)
    if not has_plugins(options):
        check_compile_options(options)
    load_plugins(options)
    how = compile_options(options)
    from stepwell.bundling.c_text import check_name  # imported here and below, because these load the compiler, which help does not need
    from stepwell.bundling.writing import bundle

    if options.prefix is not None:
        with usage_errors("--prefix"):
            check_name(options.prefix)
    kinds = tuple(dict.fromkeys(options.kind)) if options.kind else None
    with Progress(doing="compile and write the bundle"):
        folder = bundle(
            options.model, options.output, kinds=kinds, prefix=options.prefix, embed=options.embed, bind=pairs or None, options=how,
            cache=not options.no_cache,
        )  # fmt: skip
    _show(folder)
    return OK


def _pair(text: str) -> tuple[str, str]:
    taker, found, giver = text.partition("=")
    if not found or not taker or not giver:
        raise UsageError(f"--bind {text}: expected INPUT=OUTPUT, as in past=present")
    return taker, giver


def _show(folder: Path) -> None:
    """Print what was written."""
    from stepwell.bundling.manifest import read_manifest

    manifest = read_manifest(folder)
    print_table((f"{manifest.name} in {folder}", "size"), [[file, quantity((folder / file).stat().st_size, "B")] for file in manifest.files])
    workspace = manifest.workspace_bytes
    what = "workspace by the sizes of inputs" if workspace is None else f"workspace {quantity(workspace, 'B')} for each caller"
    needs = ", ".join(manifest.target.features) or "nothing beyond the architecture"
    say(f"{plural(len(manifest.inputs), 'input')}, {plural(len(manifest.outputs), 'output')}, {what}")
    say(f"for {manifest.target.triple} with {needs}")
