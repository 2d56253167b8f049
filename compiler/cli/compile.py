"""stepwell compile: writes a model at a level of IR, or the output of code generation."""

import argparse
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.cli.common import OK, Parser, UsageError, write_text
from stepwell.cli.compile_options import OTHERS, add_model_options, add_records_threads
from stepwell.cli.display import level_times, plural, quantity, say, seconds
from stepwell.cli.session import Session, save_ir
from stepwell.dialects.support.files import write_atomically
from stepwell.dialects.target.host import runs_here
from stepwell.pipelines.routes import CPU_PATH, DEFAULT

if TYPE_CHECKING:
    from stepwell.backends.artifact import Artifact
    from stepwell.backends.base import Backend
    from stepwell.pipelines.lowered import Lowered

DESCRIPTION = "Compile a model down to a level and write the result. Weights go to FILE.safetensors beside IR."
STDOUT = "-"
DEFAULT_EMITS = (*CPU_PATH, "llvm-ir", "header", "asm", "obj", "weights")
"""The possible outputs with the default backend, equal to `emits`: asking the backend takes much longer than showing help."""
DEFAULT_FILES = ("obj", "weights")
"""The outputs that are not text."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell compile`."""
    add_model_options(parser)
    add_records_threads(parser)
    text = f"what to write: {', '.join(DEFAULT_EMITS)}; {OTHERS}"
    parser.add_argument("--emit", required=True, metavar="LEVEL", help=text)
    parser.add_argument("-o", dest="output", default=STDOUT, metavar="FILE", help="where to write (default: standard output, without weights)")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""
    if options.backend == DEFAULT:
        _check(options, DEFAULT_EMITS, DEFAULT_FILES)
    session = Session(options)
    from stepwell.backends.registry import find_backend  # imported here and below, because it loads numpy, which help does not need

    backend: Backend = find_backend(options.backend)
    _check(options, emits(backend), backend.files())
    is_level = options.emit in backend.path
    lowered = session.lower(options.emit if is_level else backend.path.last)
    if is_level:
        _write_ir(lowered, options.output)
    else:
        data = _artifact(session, lowered, backend, options.emit)
        if options.output == STDOUT:
            write_text(data if isinstance(data, str) else data.decode())
        else:
            write_atomically(options.output, data)
    session.explain()
    _report(lowered, options)
    return OK


def _check(options: argparse.Namespace, known: Collection[str], files: Collection[str]) -> None:
    """Raise UsageError unless `--emit` names one of the `known` outputs, with a file to write to if it is one of `files`."""
    if options.emit not in known:
        raise UsageError(f"--emit {options.emit}: backend {options.backend} knows {', '.join(known)}")
    if options.emit in files and options.output == STDOUT:
        raise UsageError(f"--emit {options.emit} needs -o FILE")


def _write_ir(lowered: "Lowered", output: str) -> None:
    if output != STDOUT:
        save_ir(lowered, Path(output))
        return
    write_text(lowered.text() + "\n")
    from stepwell.passes.framework.ir_files import used_weights

    if used_weights(lowered.module):
        say("weights are written only with -o FILE", file=sys.stderr)


def emits(backend: "Backend") -> tuple[str, ...]:
    """The possible outputs for a model with a backend: the levels down to the one from which code is generated, and the backend's outputs."""
    return (*backend.path, *backend.translations(), *backend.listings(), *backend.files())


def _artifact(session: Session, lowered: "Lowered", backend: "Backend", kind: str) -> str | bytes:
    if kind in backend.translations():
        return str(_made(backend, kind, lambda: backend.translations()[kind](lowered), str))
    if kind in backend.files():
        return bytes(_made(backend, kind, lambda: backend.files()[kind](lowered), bytes))
    artifact = session.artifact(lowered) if runs_here(lowered.target) else _foreign(lowered, backend, kind)
    return str(_made(backend, kind, lambda: backend.listings()[kind](artifact), str))


def _foreign(lowered: "Lowered", backend: "Backend", kind: str) -> "Artifact":
    """The artifact of a model for another machine, without its weights, because it is only listed."""
    from stepwell.driver.build import artifact_without_code

    artifact = artifact_without_code(lowered)
    artifact.objects = dict(_made(backend, kind, lambda: backend.cross_compile(lowered), dict))
    return artifact


def _made(backend: "Backend", kind: str, action: Callable[[], object], cls: type) -> Any:
    from stepwell.backends.registry import checked_result

    return checked_result(backend.name, f"--emit {kind}", action, f"{cls.__name__}", lambda made: isinstance(made, cls))


def _report(lowered: "Lowered", options: argparse.Namespace) -> None:
    from stepwell.dialects.core.kernel_info import KernelInfo
    from stepwell.passes.framework.ir_files import used_weights

    kernels = sum(KernelInfo(op).is_kernel for op in lowered.module.body.operations)
    weights = sum(lowered.weights.entry(name).nbytes for name in used_weights(lowered.module))
    times = f"{seconds(sum(lowered.timings.values()))}: {level_times(lowered.timings)}" if lowered.timings else "no time"
    parts = [plural(kernels, "distinct kernel")] * (kernels > 0) + [f"weights {quantity(weights, 'B')}"]
    say(f"{options.emit} in {times}; {', '.join(parts)}", file=sys.stderr)
    if lowered.border is not None:
        nodes = ", ".join(map(str, (*lowered.border.before, *lowered.border.behind)))
        say(f"not in it, since they run in Python: {nodes or 'inputs and outputs of strings'}", file=sys.stderr)
