"""stepwell run: compiles a model, runs it, and shows, checks, times and saves the outputs."""

import argparse
import importlib.util
import os
from functools import partial

from stepwell.cli.common import OK, Parser, UsageError, number
from stepwell.cli.compile_options import add_input_options, add_model_options
from stepwell.cli.session import Session
from stepwell.passes.framework.levels import LevelPath
from stepwell.pipelines.routes import CPU_PATH

DESCRIPTION = "Compile a model, run it once and show its outputs."
CHECKS = ("onnxruntime", "reference", "f64", "levels")
OF_IR = ("levels", "f64")
"""The checks that use the IR of the running model, so that no other model can be named."""
SAVED = ".npz"
POINTS = 8
"""The default number of shape combinations that `--sweep` times."""
ROUNDS = 10
"""The default number of runs of each engine on each of them."""
PICTURES = (".png", ".svg", ".pdf")


def add_options(parser: Parser) -> None:
    """The options of `stepwell run`."""
    add_model_options(parser)
    add_input_options(parser)
    add = parser.add_argument
    add("--no-cache", action="store_true", help="compile even if this model or its kernels were compiled before, and keep nothing of it")
    add("--repeat", type=number(1, 10**9), metavar="N", help="run N times more and show the median, least and mean time")
    add(
        "--check", metavar="|".join((*CHECKS, "FILE.npz")),
        help="compare the outputs with those of ONNX Runtime or of the ops' meanings in numpy, or with those that --save FILE.npz kept of another "
        "run on the same inputs, or with the network evaluated in f64 by our own references (f64), "
        f"or run every level down to {CPU_PATH.interpretable[-1]} by what its IR means and say between which two the outputs first "
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


def make_default() -> argparse.Namespace:
    """The options without any given."""
    parser = Parser()
    add_options(parser)
    return parser.parse_args(["model"])


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""
    against = _parse_check(options)
    _check_sweep(options)
    if os.path.isdir(options.model):
        _check_bundle(options)
        from stepwell.cli.run_bundle import run_bundle

        return run_bundle(options, against)
    session = Session(options, partial(_check_levels, options, against))
    if options.sweep is not None:
        from stepwell.cli.sweep import sweep

        sweep(session, options.repeat or ROUNDS)
        return OK
    from stepwell.cli.execute import execute  # imported here and above, because these load numpy

    return execute(session, against)


def _parse_check(options: argparse.Namespace) -> tuple[str, str | None] | None:
    """The kind of check, and the ONNX model for it (None: the given IR) or the file of outputs. Raises UsageError."""
    if options.check is None:
        return None
    if options.check.endswith(SAVED):
        return "file", options.check
    kind, _, model = options.check.partition(":")
    if kind not in CHECKS:
        raise UsageError(f"--check {options.check}: expected {', '.join(CHECKS)} or a file{SAVED}")
    if kind in OF_IR or options.start is not None:
        return kind, model or None
    return kind, model or (None if os.path.isdir(options.model) else options.model)


def _check_bundle(options: argparse.Namespace) -> None:
    """Raise UsageError for options that a bundle does not take, since it is compiled."""
    taken = {"command", "version", "model", "input", "inputs", "threads", "repeat", "check", "save", "shape", "traceback"}
    default = vars(make_default())
    given = [name for name, value in vars(options).items() if name not in taken and value != default.get(name)]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')}: {options.model} is a bundle, which is compiled already")


def _check_levels(options: argparse.Namespace, against: tuple[str, str | None] | None, path: LevelPath) -> None:
    """Raise UsageError if the kind of check does not apply to IR at the level of `--from`."""
    if against is None:
        return
    kind, model = against
    if kind in OF_IR:
        levels = path.interpretable if kind == "levels" else path.in_f64
        if model or options.start not in (None, *levels):
            raise UsageError(f"--check {options.check}: expected the model that is run, an ONNX model or IR at {', '.join(levels)}")
    elif model is None and (kind == "onnxruntime" or options.start not in path.interpretable):
        raise UsageError(f"--check {kind} with --from {options.start} needs the ONNX model: --check {kind}:MODEL.onnx")


def _check_sweep(options: argparse.Namespace) -> None:
    """Raise UsageError unless the options given with `--sweep` fit it, and the picture for `--plot`, if any, can be written."""
    if options.sweep is None:
        if options.plot is not None:
            raise UsageError("--plot goes with --sweep")
        return
    if options.check is not None or options.save is not None or options.input:
        raise UsageError("--sweep goes with none of --input, --check and --save: it runs on random data of many sizes")
    if options.start is not None:
        raise UsageError("--sweep is for models: IR given with --from has its sizes")
    if options.plot is not None and not options.plot.endswith(PICTURES):
        raise UsageError(f"--plot {options.plot}: expected a file {', '.join(PICTURES)}")
    if options.plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install matplotlib")
