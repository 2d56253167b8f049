"""stepwell compile: writes a model at a level of the stair, or what is made of the last one."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.cli.common import OK, Parser, UsageError, write_text
from stepwell.cli.display import level_times, plural, quantity, seconds
from stepwell.cli.session import Session, add_model_options, save_ir
from stepwell.dialects.support.files import write_atomically
from stepwell.passes.framework.levels import LEVELS

if TYPE_CHECKING:
    from stepwell.driver.lowered import Lowered

DESCRIPTION = "Compile a model as far as a level of the stair and write what is there. Weights go to FILE.safetensors beside IR."
STDOUT = "-"
ARTIFACTS = ("llvm-ir", "asm", "obj")  # what `--emit` knows beside the levels


def add_options(parser: Parser) -> None:
    """The options of `stepwell compile`."""
    add_model_options(parser)
    emits = (*LEVELS, *ARTIFACTS)
    parser.add_argument("--emit", required=True, choices=emits, metavar="LEVEL", help=f"what to write: {', '.join(emits)}")
    parser.add_argument("-o", dest="output", default=STDOUT, metavar="FILE", help="where to write (default: standard output, without weights)")


def run(options: argparse.Namespace) -> int:
    """Do what the options say; returns the exit status. Raises StepwellError, UsageError or OSError."""
    if options.emit == "obj" and options.output == STDOUT:
        raise UsageError("--emit obj needs -o FILE")
    session = Session(options)
    lowered = session.lower(options.emit if options.emit in LEVELS else LEVELS[-1])
    if options.emit in LEVELS:
        _write_ir(lowered, options.output)
    else:
        data = _artifact(session, lowered, options.emit)
        if options.output == STDOUT:
            write_text(data if isinstance(data, str) else data.decode())
        else:
            write_atomically(options.output, data)
    _report(lowered, options)
    return OK


def _write_ir(lowered: "Lowered", output: str) -> None:
    if output != STDOUT:
        save_ir(lowered, Path(output))
        return
    write_text(lowered.text() + "\n")
    from stepwell.passes.framework.ir_files import used_weights

    if used_weights(lowered.module):
        print("weights are written only with -o FILE", file=sys.stderr)


def _artifact(session: Session, lowered: "Lowered", kind: str) -> str | bytes:
    from stepwell.codegen.artifacts import llvm_ir, whole_object

    if kind == "llvm-ir":
        return llvm_ir(lowered.module)
    if kind == "obj":
        return whole_object(lowered.module)
    return session.build(lowered).ir(kind)


def _report(lowered: "Lowered", options: argparse.Namespace) -> None:
    from stepwell.dialects.core.kernel_info import KernelInfo
    from stepwell.passes.framework.ir_files import used_weights

    kernels = sum(KernelInfo(op).is_kernel for op in lowered.module.body.operations)
    weights = sum(lowered.weights.entry(name).nbytes for name in used_weights(lowered.module))
    times = f"{seconds(sum(lowered.timings.values()))}: {level_times(lowered.timings)}" if lowered.timings else "no time"
    parts = [plural(kernels, "distinct kernel")] * (kernels > 0) + [f"weights {quantity(weights, 'B')}"]
    print(f"{options.emit} in {times}; {', '.join(parts)}", file=sys.stderr)
