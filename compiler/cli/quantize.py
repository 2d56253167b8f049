"""stepwell quantize: converts a float network to an integer one, calibrated on data, or only its weights to low-bit types."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.cli.common import OK, Parser, UsageError, number
from stepwell.cli.compile_options import add_common_options, load_plugins
from stepwell.cli.display import Progress, plural, print_table, quantity, say
from stepwell.dialects.target.cores import MAX_THREADS
from stepwell.quantizer.options import METHODS, OP_TYPES, QuantizeOptions

if TYPE_CHECKING:
    import onnx

    from stepwell.quantizer.insert import Quantized
    from stepwell.quantizer.quality import Quality

DESCRIPTION = """Write a network of floats as one of 8-bit integers, in ONNX's Q/DQ format, with ranges of activations from runs on samples;
or, with --weights, with its matrices alone in 4 or 8 bits, which needs no samples (docs/quantizer.md)."""
FLAGS = ("symmetric_activations", "reduce_range", "quantize_results", "fuse_additions", "equalize", "correct_bias")
CALIBRATED = (
    "data", "percentile", "histograms", "batch", "batches", "report", "labels", "budget", "method", "per_channel", "op_types", *FLAGS,
)  # fmt: skip
OF_WEIGHTS = ("block", "form", "zero_points")
BITS = {"int4": 4, "int8": 8}


def add_options(parser: Parser) -> None:
    """The options of `stepwell quantize`."""
    switch: dict[str, Any] = {"action": "store_true", "default": None}  # which says whether it was given
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file")
    add("-o", "--output", metavar="OUT.onnx", required=True, help="the file to write")
    add("--keep-float", action="append", default=[], metavar="NODE", help="leave a node in float: its name, or a pattern (*/head/*); may be repeated")
    activations = parser.add_argument_group("weights and activations in 8 bits")
    add = activations.add_argument
    add(
        "--data", metavar="FILE.npz|DIR",
        help="samples: an array for each input, with samples along its first axis; or a folder of files (.npz, .npy, .pb, images), a batch each",
    )  # fmt: skip
    add("--batch", type=number(1, 10**6), metavar="N", help="samples in one run, where the model does not say (default: 1)")
    add("--batches", type=number(1, 10**9), metavar="N", help="how many batches to run (default: all)")
    add("--method", choices=METHODS, help=f"how ranges follow from what was seen (default: {QuantizeOptions().method})")
    add("--percentile", type=float, metavar="P", help=f"what --method percentile keeps, in percent (default: {QuantizeOptions().percentile})")
    add("--per-channel", action=argparse.BooleanOptionalAction, help="a scale for each channel of weights (default), or one for all")
    add("--symmetric", dest="symmetric_activations", **switch, help="activations as int8 around 0, not as uint8 with a zero point")
    add("--reduce-range", **switch, help="weights in 7 bits, for engines whose sums of two products saturate in 16 bits")
    add("--quantize-results", **switch, help="quantise the result of every product: ONNX Runtime's integer kernels need that")
    add("--fuse-additions", **switch, help="leave in float what a product hands to an addition alone")
    add("--equalize", **switch, help="equalise the ranges of weights across layers first")
    add("--correct-bias", **switch, help="take the mean error of each layer off by its bias")
    add("--op-types", metavar="OP,…", help=f"quantise these operators only, of {', '.join(sorted(OP_TYPES))}")
    add("--histograms", metavar="FILE.npz", help="keep what was seen in FILE, not in the cache, and read it from there if nothing has changed")
    add("--report", metavar="FILE.html", help="show what each layer loses, what hurts most first, and write a page with a picture of each to FILE")
    add("--labels", metavar="KEY", help="the array of labels among the samples: says how many the network gets right before and after")
    lost = "leave the few layers in float without which more points of accuracy, or without --labels of agreement with the floats, would be lost"
    add("--budget", type=float, metavar="POINTS", help=lost)
    add("--threads", type=number(1, MAX_THREADS), metavar="N", help="how many cores to use (default: all)")
    add("--no-cache", action="store_true", help="neither read nor keep compiled code and histograms")
    alone = parser.add_argument_group("weights alone")
    add = alone.add_argument
    add("--weights", choices=BITS, help="store the matrices of MatMul and Gemm in so many bits; activations stay in floats")
    add("--block", type=int, metavar="N", help="rows of a column that share a scale: 16, 32, 64 or 128 (default: 32)")
    add("--zero-points", **switch, help="a zero point for each block, too")
    add("--form", metavar="OP", help="write MatMulNBits, of com.microsoft (default), or DequantizeLinear with blocks, of opset 21")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status. Raises StepwellError, UsageError or OSError."""
    _check(options)
    load_plugins(options)
    if options.weights is not None:
        _quantize_weights(options)
    else:
        _quantize(options)
    return OK


def _check(options: argparse.Namespace) -> None:
    """Raise UsageError for options that exclude each other."""
    others, side = (CALIBRATED, "--weights") if options.weights is not None else (OF_WEIGHTS, "--data")
    given = [name for name in others if getattr(options, name) is not None]
    if given:
        option = "symmetric" if given[0] == "symmetric_activations" else given[0]
        raise UsageError(f"--{option.replace('_', '-')} does not go with {side}")
    if options.weights is None and options.data is None:
        raise UsageError("expected --data FILE.npz|DIR to calibrate with, or --weights int4|int8, which needs none")
    if options.percentile is not None and options.method != "percentile":
        raise UsageError("--percentile goes with --method percentile")
    if options.budget is not None:
        from stepwell.quantizer.budget import check_budget

        check_budget(options.budget)
    for name, file in (("-o", options.output), ("--report", options.report)):
        if file is not None and not Path(file).parent.is_dir():
            raise UsageError(f"{name} {file}: there is no folder {Path(file).parent}")
    if options.report is not None:
        from stepwell.quantizer.report import check_report

        check_report()


def _quantize(options: argparse.Namespace) -> None:
    chosen = quantize_options(options)
    from stepwell.quantizer import Calibrated, accuracy, compare, quantized_within

    how: dict[str, Any] = {"cache": not options.no_cache, "threads": options.threads}
    said, quality = {}, None
    with Progress(doing="prepare") as progress:
        source = Calibrated(
            options.model, options.data, chosen, labels=options.labels, batch=options.batch, limit=options.batches,
            histograms=options.histograms, on_batch=lambda done, every: progress.say(f"calibrate: {done} of {every} batches"),
            on_step=progress.say, **how,
        )  # fmt: skip
        if options.budget is not None:
            found = quantized_within(source, options.budget, on_step=progress.say, **how)
            made = found.network
            said["in float"] = ", ".join(found.kept.layers) or "nothing has to be"
            said["agreement" if options.labels is None else "accuracy"] = f"{found.accuracy:.2f} % -> {found.accuracy - found.kept.loss:.2f} %"
        else:
            progress.say("quantise")
            made = source.quantized()
            if options.labels is not None:
                progress.say("accuracy")
                said["accuracy"] = " -> ".join(f"{accuracy(model, source.samples, **how):.2f} %" for model in (made.floats, made.model))
        if options.report is not None:
            quality = compare(made.floats, made.model, source.samples, on_step=progress.say, **how)
    made.save(options.output)
    if quality is not None:
        _report(quality, made, options, said, source.equalized)
    if options.equalize:
        count = sum("equalised over" in line for line in source.equalized)
        say(f"{plural(count, 'pair')} of layers equalised; {plural(len(source.equalized) - count, 'layer')} left: --report lists why")
    _say(made, options.output)
    for name, text in said.items():
        say(f"{name}: {text}")


def _report(quality: "Quality", made: "Quantized", options: argparse.Namespace, said: Mapping[str, str], notes: Sequence[str]) -> None:
    """Print the table, and write the page."""
    from stepwell.quantizer.report import HEADER, NUMBERS, rows, save_html

    print_table(HEADER, rows(quality), title="what hurts most first", numbers=NUMBERS)
    given = [name.replace("_", " ") for name in FLAGS if getattr(options, name)]
    method = made.options.method + (f" {made.options.percentile}" if made.options.method == "percentile" else "")
    facts = {"data": options.data, "method": ", ".join([method, "per channel" if made.options.per_channel else "per tensor", *given]), **said}
    save_html(options.report, quality, title=f"{Path(options.model).name}, quantised", facts=facts, notes=notes)


def quantize_options(options: argparse.Namespace) -> QuantizeOptions:
    """The QuantizeOptions of the command line. Raises InputError."""
    given = {name: getattr(options, name) for name in ("method", "percentile", "per_channel", *FLAGS) if getattr(options, name) is not None}
    types = OP_TYPES if options.op_types is None else frozenset(name for name in options.op_types.split(",") if name)
    return QuantizeOptions(**given, op_types=types, keep_float=frozenset(options.keep_float))


def _say(made: "Quantized", output: str) -> None:
    from stepwell.quantizer.plan import candidates

    every = candidates(made.floats, made.options)
    say(f"{len(made.layers)} of {plural(len(every), 'product')} and {plural(len(made.parameters), 'value')} quantised")
    say(f"{output}: weights {_stored(made.floats)} -> {_stored(made.model)}")


def _stored(model: "onnx.ModelProto") -> str:
    from stepwell.frontends.onnx.tensors import data_bytes, packed_size

    return quantity(sum(packed_size(tensor.data_type, data_bytes(tensor)) for tensor in model.graph.initializer), "B")


def _quantize_weights(options: argparse.Namespace) -> None:
    from stepwell.quantizer.prepare import loaded, save
    from stepwell.quantizer.weights_only import quantize_weights

    given = {name: getattr(options, name) for name in OF_WEIGHTS if getattr(options, name) is not None}
    with Progress(doing="quantise weights"):
        made = quantize_weights(options.model, bits=BITS[options.weights], keep_float=options.keep_float, **given)
        save(made, options.output)
    say(f"{options.output}: weights {_stored(loaded(options.model))} -> {_stored(made)}")
