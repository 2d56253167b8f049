"""stepwell run: compiles a model, runs it, shows, checks, times and saves what comes out."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepwell.analysis.data_files import as_type, read_npz
from stepwell.cli.common import FAULT, OK, Parser, UsageError, number
from stepwell.cli.display import Progress, level_times, plural, print_table, quantity, seconds
from stepwell.cli.inputs import HELP, gather
from stepwell.cli.session import Session, add_model_options
from stepwell.cli.shapes import parse_given, shown_free_sizes, usual_values
from stepwell.cli.sweep import POINTS, ROUNDS, sweep
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.target.cores import MAX_THREADS
from stepwell.passes.framework.levels import MEANT
from stepwell.runtime.infos import tensors_of

if TYPE_CHECKING:
    from stepwell.analysis.compare import OutputCheck
    from stepwell.driver.dynamic import DynamicModel
    from stepwell.runtime.infos import TensorInfo
    from stepwell.runtime.model import CompiledModel

Arrays = Mapping[str, np.ndarray]
MEASURES = ("max abs error", "max rel error", "of the scale", "tolerance", "verdict")
DESCRIPTION = "Compile a model, run it once and show its outputs."
CHECKS = ("onnxruntime", "reference", "levels")
SAVED = ".npz"


def add_options(parser: Parser) -> None:
    """The options of `stepwell run`."""
    add_model_options(parser)
    add = parser.add_argument
    add("--input", action="append", default=[], metavar="NAME=DATA", help=HELP)
    add("--threads", type=number(1, MAX_THREADS), metavar="N", help="how many cores to use (default: all)")
    add("--no-cache", action="store_true", help="compile even if this model or its kernels were compiled before, and keep nothing of it")
    add("--repeat", type=number(1, 10**9), metavar="N", help="run N times more and show the median, least and mean time")
    add(
        "--check", metavar="|".join((*CHECKS, "FILE.npz")),
        help="compare the outputs with those of ONNX Runtime or of the ops' meanings in numpy, or with those that --save FILE.npz kept of another "
        f"run on the same inputs, or run every level down to {MEANT[-1]} by what its IR means and say between which two the outputs first "
        "differ; the status is 1 if they differ. With --from, append the ONNX model: onnxruntime:MODEL.onnx",
    )  # fmt: skip
    add(
        "--sweep", nargs="?", const=POINTS, type=number(1, 1000), metavar="N",
        help=f"instead, time N combinations of sizes (default: {POINTS}) of a model with free ones, from the first of each range that --shape gives "
        "to the last: one program for all sizes, code for each, and ONNX Runtime if it is installed, which take turns --repeat times "
        f"(default: {ROUNDS})",
    )  # fmt: skip
    add("--plot", metavar="FILE", help="with --sweep: draw the times to FILE.png, .svg or .pdf")
    add("--save", metavar="DIR|FILE.npz", help="save the outputs: one .npy file each in DIR, or all in FILE.npz")


def run(options: argparse.Namespace) -> int:
    """Do what the options say; returns the exit status. Raises StepwellError, UsageError or OSError."""
    session = Session(options)
    if options.sweep is not None:
        if options.check is not None or options.save is not None or options.input:
            raise UsageError("--sweep goes with none of --input, --check and --save: it runs on random data of many sizes")
        sweep(session)
        return OK
    if options.plot is not None:
        raise UsageError("--plot goes with --sweep")
    against = _parse_check(options)
    model = session.compile(options.threads, cache=not options.no_cache)
    given = parse_given(options.shape)
    inputs = gather(options.input, model.inputs, sizes=usual_values(given, model.inputs))
    with Progress() as progress:
        progress.say("run")
        outputs = tensors_of(model.run(inputs))
    session.explain()
    _show(model, outputs, shown_free_sizes(given, model.inputs))
    status = OK
    if against is not None:
        status = _check(against, session, inputs, outputs)
    if options.repeat is not None:
        _repeat(model, inputs, options.repeat)
    if options.save is not None:
        _save(outputs, options.save)
    return status


def _parse_check(options: argparse.Namespace) -> tuple[str, str | None] | None:
    """What to check against, and the ONNX model for it (None: the IR that was given) or the file of outputs. Raises UsageError."""
    if options.check is None:
        return None
    if options.check.endswith(SAVED):
        return SAVED, options.check
    kind, _, model = options.check.partition(":")
    if kind not in CHECKS:
        raise UsageError(f"--check {options.check}: expected {', '.join(CHECKS)} or a file{SAVED}")
    if kind == "levels":
        if model or options.start not in (None, *MEANT):
            raise UsageError(f"--check {options.check}: expected the model that is run, an ONNX model or IR at {', '.join(MEANT)}")
        return kind, None
    if options.start is None:
        return kind, model or options.model
    if not model and (kind == "onnxruntime" or options.start not in MEANT):
        raise UsageError(f"--check {kind} with --from {options.start} needs the ONNX model: --check {kind}:MODEL.onnx")
    return kind, model or None


def _show(model: "CompiledModel | DynamicModel", outputs: Arrays, free: str) -> None:
    total = sum(model.timings.values())
    print(f"compiled in {seconds(total)}: {level_times(model.timings)}")
    memory = model.memory
    sizes = f"weights {quantity(memory.weights_bytes, 'B')}, workspace {quantity(memory.workspace_bytes, 'B')}"
    print(f"{plural(model.kernels, 'distinct kernel')}, {sizes}")
    print(f"{plural(model.threads, 'thread')}\n", flush=True)
    if free:
        rows = [[kind, info.name, _typed(info)] for kind, side in (("input", model.inputs), ("output", model.outputs)) for info in side]
        print_table((f"free: {free}", "name", "type"), rows)
    print_table(("output", "type", "min", "max", "mean", "greatest at", "first"), [_summary(name, array) for name, array in outputs.items()])


def _typed(info: "TensorInfo") -> str:
    """A type with names and expressions for sizes that are free."""
    return f"{info.dtype.name}[{', '.join(map(str, info.shape))}]"


def _summary(name: str, array: np.ndarray) -> list[str]:
    kind = f"{array.dtype.name}[{'x'.join(map(str, array.shape))}]"
    if array.size == 0:
        return [name, kind, "", "", "", "", ""]
    numbers = array.astype(np.float64)
    first = " ".join(f"{value:.5g}" for value in numbers.flat[:4])
    at = np.unravel_index(int(np.argmax(numbers)), array.shape)
    where = ",".join(map(str, at)) if array.ndim else ""
    with np.errstate(invalid="ignore", over="ignore"):
        return [name, kind, f"{numbers.min():.5g}", f"{numbers.max():.5g}", f"{numbers.mean():.5g}", where, first + (" …" if array.size > 4 else "")]


def _check(against: tuple[str, str | None], session: Session, inputs: Arrays, outputs: Arrays) -> int:
    from stepwell.analysis.compare import check, compare, run_onnxruntime

    kind, source = against
    if kind == "levels":
        return _check_levels(session, inputs, outputs)
    with Progress() as progress:
        progress.say(f"check against {kind}")
        if source is None:
            results = compare(outputs, _interpret_ir(session, inputs))
        elif kind == SAVED:
            kind, results = source, compare(outputs, _saved(source, outputs))
        elif kind == "reference":
            results = check(source, outputs, inputs, _reference(source))
        else:
            results = compare(outputs, run_onnxruntime(source, inputs))
    print_table((f"against {kind}", *MEASURES), [verdict(r) for r in results])
    wrong = [r.name for r in results if not r.ok]
    if wrong:
        print(f"stepwell run: error: {len(wrong)} of {len(results)} outputs differ from {kind}: {', '.join(wrong)}", file=sys.stderr)
    return FAULT if wrong else OK


def _saved(file: str, outputs: Arrays) -> Arrays:
    """What `--save` kept of another run. Raises InputError if that was of a model with other outputs."""
    if not Path(file).is_file():
        raise InputError(f"--check {file}: there is no such file; stepwell run --save {file} writes it")
    expected = read_npz(Path(file))
    if expected.keys() != outputs.keys():
        raise InputError(f"--check {file}: expected outputs {', '.join(outputs)}, it has {', '.join(expected) or 'none'}")
    return {name: as_type(array, outputs[name].dtype) for name, array in expected.items()}


def verdict(result: "OutputCheck") -> list[str]:
    """A row of a table with `MEASURES`."""
    if result.problem is not None:
        return [result.name, result.problem, "", "", "", "WRONG"]
    errors = (result.max_abs, result.max_rel, result.scale_rel, result.tolerance)
    return [result.name, *(f"{error:.3g}" for error in errors), "ok" if result.ok else "WRONG"]


def _check_levels(session: Session, inputs: Arrays, outputs: Arrays) -> int:
    from stepwell.analysis.interpretation import compare_levels

    lowered = session.lower(session.options.start or MEANT[0], {name: array.shape for name, array in inputs.items()})
    with Progress() as progress:
        progress.say("run what the levels mean")
        steps = compare_levels(lowered, inputs, outputs)
    print_table(("level", "against", "output", *MEASURES), [[step.below, step.above, *verdict(r)] for step in steps for r in step.outputs])
    wrong = [step for step in steps if not step.ok]
    if wrong:
        names = ", ".join(r.name for r in wrong[0].outputs if not r.ok)
        print(f"stepwell run: error: the meaning changed between {wrong[0].above} and {wrong[0].below}: outputs {names}", file=sys.stderr)
    return FAULT if wrong else OK


def _reference(source: str) -> Callable[[Arrays], Arrays]:
    """A function that runs an ONNX model by the meanings of its graph ops."""

    def evaluated(inputs: Arrays) -> Arrays:
        from stepwell.dialects.core.mlir import make_context
        from stepwell.dialects.graph.evaluate import evaluate
        from stepwell.importer import import_for

        imported, taken = import_for(source, make_context(), inputs)
        return evaluate(imported.module, imported.weights, taken)

    return evaluated


def _interpret_ir(session: Session, inputs: Arrays) -> Arrays:
    from stepwell.analysis.interpretation import interpret

    return interpret(session.read(), inputs)


def _repeat(model: "CompiledModel | DynamicModel", inputs: Arrays, count: int) -> None:
    arrays = [inputs[info.name] for info in model.inputs]
    times = []
    with Progress() as progress:
        progress.say(f"run {count} times")
        for _ in range(count):
            begin = time.perf_counter()
            model(*arrays)
            times.append(time.perf_counter() - begin)
    print(f"{plural(count, 'run')}: median {seconds(statistics.median(times))}, least {seconds(min(times))}, mean {seconds(statistics.fmean(times))}")


def _save(outputs: Arrays, where: str) -> None:
    from stepwell.dialects.support.files import write_atomically

    path = Path(where)
    if path.suffix == ".npz":
        buffer = BytesIO()
        np.savez(buffer, **outputs)  # type: ignore[arg-type]  # its other parameter is a flag that no output is named after
        write_atomically(path, buffer.getvalue())
        print(f"saved {plural(len(outputs), 'output')} to {path}")
        return
    path.mkdir(parents=True, exist_ok=True)
    files = {name: path / f"{name.replace('/', '_')}.npy" for name in outputs}
    if len(set(files.values())) != len(files):
        raise UsageError(f"--save {where}: two outputs would be saved to one file; save them to a .npz file")
    for name, file in files.items():
        buffer = BytesIO()
        np.save(buffer, outputs[name])
        write_atomically(file, buffer.getvalue())
    print(f"saved {', '.join(map(str, files.values()))}")
