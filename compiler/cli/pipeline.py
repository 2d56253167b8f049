"""stepwell pipeline: shows the passes that a model goes through, or writes them to an editable file."""

import argparse
import sys
from typing import TYPE_CHECKING

from stepwell.cli.common import OK, Parser, UsageError
from stepwell.cli.compile_options import add_compile_options, compile_options, load_plugins
from stepwell.cli.display import Progress, print_table, say, seconds

if TYPE_CHECKING:
    from stepwell.backends.base import Backend

DESCRIPTION = """Show the passes that a model goes through, stage by stage: options, what each does, who brought it, how it is switched off.
With MODEL, the time that each takes on it too, and whether it changes anything. -o FILE writes what --pipeline FILE reads."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell pipeline`."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="an ONNX file to send through the passes")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the pipeline there instead")
    add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""
    if options.output is not None and options.model is not None:
        raise UsageError("-o FILE writes the pipeline, and goes without MODEL")
    if options.model is None and options.shape:
        raise UsageError("--shape goes with MODEL")
    load_plugins(options)
    how = compile_options(options)
    pipeline = how.passes()
    if options.output is not None:
        pipeline.save(options.output)
        return OK
    from stepwell.cli.listing import option_values, summary
    from stepwell.passes.framework.registry import passes
    from stepwell.passes.framework.upstream import upstream_summary

    known, measured = passes(), {}
    if options.model is not None:
        from stepwell.driver.lowering import lower
        from stepwell.passes.framework.instrumentation import Changes

        watcher = Changes()
        with Progress() as progress:
            lower(options.model, pipeline.path.last, options=how, on_level=progress.level, instrumentation=watcher)
        texts = ((seconds(elapsed), "yes" if changed else "") for elapsed, changed in watcher.entries)
        measured = {(s, i): next(texts) for s, stage in enumerate(pipeline.stages) for i, _ in enumerate(stage.steps)}
    from stepwell.backends.registry import find_backend  # imported here, because it loads numpy, which help does not need

    backend: Backend = find_backend(how.backend)
    code = f"code from {' or '.join(backend.code_levels)}: {backend.description}"
    say(f"backend: {how.backend}, {code}; from {_by(type(backend).__module__)}\nlevels: {backend.path}\n")
    for s, stage in enumerate(pipeline.stages):
        rows = []
        for i, step in enumerate(stage.steps):
            cls = known.get(step.name)
            where = "".join(f"{name}(" for name in step.path) + step.name + ")" * len(step.path)
            given = step.element.options
            values = option_values(cls, given) if cls is not None else " ".join(f"{name}={value}" for name, value in given.items())
            switches = ", ".join(cls.switches) if cls is not None else ""
            by = _by(cls.__module__) if cls is not None else "MLIR"
            rows.append([where, *measured.get((s, i), ()), values, summary(cls) if cls is not None else upstream_summary(step.name), switches, by])
            if stage.cut == i + 1:
                rows.append(["— from here on each function by itself —"] + [""] * (len(rows[-1]) - 1))
        header = ("pass", *(("time", "changes") if measured else ()), "options", "what it does", "switched off by --disable", "from")
        print_table(header, rows, title=f"to {stage.name}", numbers=(1,) if measured else ())
    sys.stdout.flush()
    return OK


def _by(module: str) -> str:
    """The origin of a pass: us, or the file of a plugin."""
    if module.partition(".")[0] == "stepwell":
        return "Stepwell"
    return getattr(sys.modules.get(module), "__file__", None) or module
