"""The options of every command that compiles, and the `CompileOptions` made from them.

What loads numpy or the passes is imported where it is used: help and errors in options do without.
"""

import argparse
import shlex
from typing import TYPE_CHECKING

from stepwell.arguments import PRECISIONS, SPECIALISE
from stepwell.backends.llvm_cpu.phases import SWITCHES
from stepwell.cli.common import Parser, UsageError, add_explain_option, add_limit_option, check_backend, check_target, parse_limits
from stepwell.cli.printing import add_print_options
from stepwell.cli.shapes import fixed
from stepwell.dialects.core.sizes import is_name
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.numbers import whole_number
from stepwell.pipelines.routes import CPU_PATH, DEFAULT, backend_names

if TYPE_CHECKING:
    from stepwell.options import CompileOptions
    from stepwell.pipelines.pipeline import Pipeline

INPUT_HELP = """name=FILE.npy|FILE.npz|FILE.pb|FILE.txt|IMAGE|random[:SEED]; the name may be left out where the model has one input, or for
an .npz file with an array for each. A .txt file has a string on each line. Images must have the input's size; they become channels × height ×
width (1 channel grey, 3 RGB, 4 RGBA), for floating-point inputs divided by 255. Inputs not given are random:0: a standard normal distribution,
integers of the whole range of their type (0 to 9 where the model may read them as indices, sizes or counts), strings that the model knows"""
KINDS_OF_DATA = ("usual", "extreme")
KINDS_HELP = "what random floats are: usual (the default), or extreme: the ends of the type, subnormal numbers, infinities and NaN among them"


OTHERS = f"other backends than {DEFAULT} have others"


def add_model_options(parser: Parser) -> None:
    """The options of every command that compiles and shows how."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file, or one of a format that a plugin reads; with --from a .mlir file")
    add("--from", dest="start", metavar="LEVEL", help=f"go on from IR at a level: {CPU_PATH}; {OTHERS}")
    add("--weights", metavar="FILE", help="with --from: the weight table (default: FILE.safetensors beside FILE.mlir)")
    add_compile_options(parser)
    add_print_options(parser)
    add("--dump-ir", metavar="DIR", help="write the IR after each pass to a numbered file in DIR, and a reproducer if one fails")
    add("--time-passes", action="store_true", help="print the time of each pass to standard error")
    add("--pass-statistics", action="store_true", help="print what our passes counted to standard error")
    add_explain_option(parser)


def add_compile_options(parser: Parser) -> None:
    """The options that say how a model is compiled, and those that every command has."""
    add = parser.add_argument
    add_shape_option(parser)
    text = "of a model with free dimensions: one program for all sizes (never), code for each combination (always), or both (auto, the default)"
    add("--specialise", choices=SPECIALISE, default=SPECIALISE[0], help=text)
    text = "about how large a free dimension is, for the choices that code for all sizes is made by; may be repeated"
    add("--size-hint", action="append", default=[], metavar="NAME=128", help=text)
    add_pipeline_options(parser)
    add("--disable", action="append", default=[], metavar="NAME", help=f"switch something off; may be repeated: {', '.join(SWITCHES)}")
    add("--libm", action="store_true", help="take exp, tanh and the like from the system's libm, element by element; short for --disable expand-math")
    add("--strict", action="store_true", help="use no algorithm that lets infinities and NaN spread, or that rounds more than the direct one")
    text = "what to store weights and activations of products in (default: f32, as the model has them)"
    add("--precision", choices=PRECISIONS, default=PRECISIONS[0], help=text)
    text = "a node that stays in f32 for all that, or a pattern such as '*/attention/*'; may be repeated"
    add("--keep-f32", action="append", default=[], metavar="NODE", help=text)
    add_schedule_options(parser)
    text = f"what makes code and runs it (default: {DEFAULT}); there are {', '.join(backend_names())}, and plugins' own"
    add("--backend", default=DEFAULT, metavar="NAME", help=text)
    add_limit_option(parser)
    add_common_options(parser)


def add_pipeline_options(parser: Parser) -> None:
    """`--pipeline` and what edits it."""
    add = parser.add_argument
    text = "the passes to go through: a file as `stepwell pipeline -o FILE` writes it, or text; stages that it leaves out are the default ones"
    add("--pipeline", metavar="FILE|TEXT", help=text)
    place = "NAME, STAGE/NAME or NAME#2 say which pass; may be repeated"
    add("--insert-after", action="append", default=[], metavar="NAME=PASS", help=f"put a pass behind another: {place}")
    add("--insert-before", action="append", default=[], metavar="NAME=PASS", help="put a pass in front of another")
    add("--replace-pass", action="append", default=[], metavar="NAME=PASS", help="put a pass in the place of another")
    add("--remove-pass", action="append", default=[], metavar="NAME", help="leave a pass out")


def add_schedule_options(parser: Parser) -> None:
    """`--target` and `--plan`."""
    parser.add_argument("--target", metavar="NAME", help="the machine to compile for (default: the one that IR is for, else host)")
    text = "choices and schedules to take in the place of those that would be taken (stepwell inspect --emit-plan writes such a file)"
    parser.add_argument("--plan", "--schedule", metavar="FILE", help=text)


def add_shape_option(parser: Parser) -> None:
    """`--shape`."""
    text = "the shape of an input with free dimensions; may be repeated. In 1x3x32..1024x? (or {32..1024}) one size is of a range, and one stays free"
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help=text)


def add_common_options(parser: Parser) -> None:
    """The options of every command."""
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="run a plugin first; may be repeated")
    parser.add_argument("--traceback", action="store_true", help="on an error print the Python traceback too")


def are_there_plugins(options: argparse.Namespace) -> bool:
    """Whether there are plugins to load, which may add targets and backends."""
    from stepwell import plugin_files

    return bool(options.load or plugin_files.installed())


def load_plugins(options: argparse.Namespace) -> None:
    """Load installed plugins and those that were asked for."""
    from stepwell import plugin_files

    plugin_files.load_installed()
    for file in options.load:
        plugin_files.load_file(file)


def check_compile_options(options: argparse.Namespace) -> None:
    """Raise UsageError for what is wrong with these options whatever the model and the passes are; call it after plugins are loaded."""
    check_target(options.target)
    check_backend(options.backend)
    fixed(options.shape)
    parse_hints(options.size_hint)
    parse_limits(options.limit)


def compile_options(options: argparse.Namespace) -> "CompileOptions":
    """The `CompileOptions` of the command line; call it after plugins are loaded. Raises UsageError, and StepwellError for wrong files."""
    check_compile_options(options)
    from stepwell.options import CompileOptions

    made = CompileOptions(
        target=options.target, backend=options.backend, shapes=fixed(options.shape), specialise=options.specialise,
        size_hints=parse_hints(options.size_hint), pipeline=given_pipeline(options),
        disable=options.disable, libm=options.libm, strict=options.strict, precision=options.precision, keep_f32=options.keep_f32,
        plan=options.plan, limits=parse_limits(options.limit),
    )  # fmt: skip
    if made.disable:
        try:
            made.passes()
        except InputError as error:
            raise UsageError(f"--disable: {error.args[0]}") from None
    return made


def given_pipeline(options: argparse.Namespace) -> "Pipeline | None":
    """The pipeline that the command line asks for; None for the default one. Raises UsageError or PipelineError."""
    if options.pipeline is None and not any(getattr(options, name) for name in ("insert_after", "insert_before", "replace_pass", "remove_pass")):
        return None
    from stepwell.pipelines.pipeline import Pipeline

    kind = options.target or "host", options.backend
    pipeline = Pipeline.default(*kind) if options.pipeline is None else Pipeline.of(options.pipeline, *kind)
    edits = {"insert-after": Pipeline.insert_after, "insert-before": Pipeline.insert_before, "replace-pass": Pipeline.replace}
    for flag, edit in edits.items():
        for text in getattr(options, flag.replace("-", "_")):
            name, found, passes = text.partition("=")
            if not found or not passes:
                raise UsageError(f"--{flag} {text}: expected NAME=PASS, as in fuse-operators=my-pass{{n=4}}")
            pipeline = edit(pipeline, name, passes)
    for name in options.remove_pass:
        pipeline = pipeline.remove(name)
    return pipeline


def plugin_flags(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The options of both tools that say what a pass may do, if given."""
    flags = [*(("--load", file) for file in options.load), *(("--limit", text) for text in options.limit)]
    return [*flags, ("--target", options.target)] if options.target is not None else flags


def command_flags(options: argparse.Namespace, *, schedule: bool = True) -> str:
    """What both tools take of the options, as text for a shell; `schedule` is whether to have the one for schedules too."""
    flags = plugin_flags(options)
    if schedule and options.plan is not None:
        flags.append(("--plan", options.plan))
    return shlex.join(part for flag in flags for part in flag)


def run_flags(options: argparse.Namespace, *, schedule: bool = True) -> str:
    """What `stepwell` takes of the options where it goes on from IR, as text for a shell."""
    repeated = ("disable", "keep_f32", "insert_after", "insert_before", "replace_pass", "remove_pass")
    own = [part for flag in repeated for part in _repeated(options, flag)]
    own += ["--pipeline", options.pipeline] if options.pipeline is not None else []
    own += ["--precision", options.precision] if options.precision != PRECISIONS[0] else []
    own += ["--backend", options.backend] if options.backend != DEFAULT else []
    own += [flag for flag in ("--libm", "--strict") if getattr(options, flag[2:])]
    return " ".join(filter(None, (command_flags(options, schedule=schedule), shlex.join(own))))


def _repeated(options: argparse.Namespace, name: str) -> list[str]:
    return [part for value in getattr(options, name) for part in (f"--{name.replace('_', '-')}", value)]


def parse_hints(texts: list[str]) -> dict[str, int] | None:
    """Likely sizes by the names of free dimensions from `name=128`; None where there are none. Raises UsageError."""
    hints: dict[str, int] = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not is_name(name) or not (number := whole_number(size)):
            raise UsageError(f"--size-hint {text}: expected NAME=SIZE, the name of a free dimension and a whole number from 1, as in batch=8")
        if name in hints:
            raise UsageError(f"--size-hint {text}: a size of '{name}' is given twice")
        hints[name] = number
    return hints or None
