"""stepwell: compiles, runs and inspects ONNX models."""

import sys
from collections.abc import Collection, Sequence
from importlib import import_module

from stepwell.cli.common import OK, Parser, guarded, protect_explain, run_program, version_line
from stepwell.cli.display import say

COMMANDS = {
    "run": "compile a model, run it, show its outputs; check and time it",
    "compile": "write a model at a level of IR, or as LLVM IR, assembly or an object",
    "bundle": "write a model as a library in C, with its header and weights, which runs without Python",
    "inspect": "show a model's inputs, outputs, operators, arithmetic and weights, and all that is not supported; or its plan of memory",
    "quantize": "write a network of floats as one of 8-bit integers, calibrated on data; or its weights alone in 4 or 8 bits",
    "pipeline": "show the passes that a model goes through, and write them to a file to be edited",
    "bisect": "find the pass, then the kernel or op, that makes a model give other results",
    "diff": "show how the IR of two files differs, numbers of values and locations aside",
    "cache": "show what is kept of compiled models on disk, say where, or clear it",
    "tune": "measure other choices of a compilation, and write a plan with those that are faster",
    "tuning": "show the records of tuning, exchange them with other machines, or remove them",
}

DESCRIPTION = """A deep learning compiler: ONNX models through levels of IR (graph, linalg, affine, llvm) to native code.

Exit status: 0 fine, 1 the model or the data is at fault, 2 the command line is."""


def make_parser(complete: Collection[str] = tuple(COMMANDS)) -> Parser:
    """The parser of the command, with one for each subcommand; only those of the commands in `complete` have options."""
    parser = Parser(prog="stepwell", description=DESCRIPTION)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, help_text in COMMANDS.items():
        if name in complete:
            module = import_module(f"stepwell.cli.{name}")
            module.add_options(commands.add_parser(name, help=help_text, description=module.DESCRIPTION))
        else:
            commands.add_parser(name, help=help_text)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return run_program("stepwell", _run, arguments)


def _run(given: Sequence[str]) -> int:
    parser = make_parser([name for name in given if name in COMMANDS][:1])
    options = parser.parse_args(protect_explain(given))
    if options.version:
        say(version_line("stepwell"))
        return OK
    if options.command is None:
        parser.error(f"expected a command: {', '.join(COMMANDS)}")
    command = import_module(f"stepwell.cli.{options.command}")
    return guarded(f"stepwell {options.command}", lambda: int(command.run(options)), show_traceback=options.traceback)


if __name__ == "__main__":
    sys.exit(main())
