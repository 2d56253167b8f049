"""The options of every command that compiles, and the `CompileOptions` made from them.

Modules that load numpy or the passes are imported where they are used: help and option errors do not need them.
"""

import argparse
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from stepwell.backends.llvm_cpu.phases import SWITCHES
from stepwell.cli import common
from stepwell.cli.common import Parser, UsageError, add_explain_option, check_target, number, parse_limits, usage_errors
from stepwell.cli.printing import add_print_options
from stepwell.cli.shapes import fixed
from stepwell.dialects.core.sizes import is_name
from stepwell.dialects.support.numbers import whole_number
from stepwell.dialects.target.cores import MAX_THREADS
from stepwell.options import CompileOptions, about, default_of, flags
from stepwell.pipelines.routes import CPU_PATH, DEFAULT, backend_names, check_backend

if TYPE_CHECKING:
    from stepwell.pipelines.pipeline import Pipeline

_INPUT_HELP = """name=FILE.npy|FILE.npz|FILE.pb|FILE.txt|IMAGE|random[:SEED]; the name may be left out where the model has one input, or for
an .npz file with an array for each. A .txt file has a string on each line. Images must have the input's size; they become channels × height ×
width (1 channel grey, 3 RGB, 4 RGBA), for floating-point inputs divided by 255. Inputs not given are random:0: a standard normal distribution,
integers of the whole range of their type (0 to 9 where the model may read them as indices, sizes or counts), strings that the model knows"""
KINDS_OF_DATA = ("usual", "extreme")
_KINDS_HELP = "what random floats are: usual (the default), or extreme: the ends of the type, subnormal numbers, infinities and NaN among them"


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


def add_input_options(parser: Parser) -> None:
    """The options of every command that runs a model."""
    add = parser.add_argument
    add("--input", action="append", default=[], metavar="NAME=DATA", help=_INPUT_HELP)
    add("--inputs", choices=KINDS_OF_DATA, default=KINDS_OF_DATA[0], help=_KINDS_HELP)
    add("--threads", type=number(1, MAX_THREADS), metavar="N", help="how many cores to use (default: all)")


def add_records_threads(parser: Parser) -> None:
    """`--threads` of commands that run nothing: only tuning records depend on it."""
    text = "with --tuning: take what was recorded for N threads (default: all cores)"
    parser.add_argument("--threads", type=number(1, MAX_THREADS), metavar="N", help=text)


def add_compile_options(parser: Parser) -> None:
    """The options that determine how a model is compiled, and those that every command has."""
    add_flags(parser, flags())
    add_pipeline_edits(parser)
    add_common_options(parser)


def add_flags(parser: Parser, names: Iterable[str]) -> None:
    """The flags of fields of `CompileOptions`."""
    every = flags()
    for name in names:
        flag, default = every[name], default_of(name)
        more = {"disable": ", ".join(SWITCHES), "backend": f"there are {', '.join(backend_names())}, and plugins' own"}.get(name, "")
        notes = [about(name).words, *filter(None, (more, flag.syntax)), *["may be repeated"] * flag.repeated]
        text = "; ".join(notes) + (f" (default: {default})" if isinstance(default, str) else "")
        if flag.is_switch:
            parser.add_argument(flag.name, action="store_true", help=text)
        elif flag.repeated:
            parser.add_argument(flag.name, action="append", default=[], metavar=flag.metavar, help=text)
        else:
            others = [] if flag.other_name is None else [flag.other_name]
            parser.add_argument(flag.name, *others, choices=flag.choices or None, default=default, metavar=flag.metavar, help=text)


def add_pipeline_edits(parser: Parser) -> None:
    """The options that edit the pipeline."""
    add = parser.add_argument
    place = "NAME, STAGE/NAME or NAME#2 say which pass; may be repeated"
    add("--insert-after", action="append", default=[], metavar="NAME=PASS", help=f"put a pass behind another: {place}")
    add("--insert-before", action="append", default=[], metavar="NAME=PASS", help="put a pass in front of another")
    add("--replace-pass", action="append", default=[], metavar="NAME=PASS", help="put a pass in the place of another")
    add("--remove-pass", action="append", default=[], metavar="NAME", help="leave a pass out")


def add_common_options(parser: Parser) -> None:
    """The options of every command."""
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="run a plugin first; may be repeated")
    parser.add_argument("--traceback", action="store_true", help="on an error print the Python traceback too")


def has_plugins(options: argparse.Namespace) -> bool:
    """Whether there are plugins to load, which may add targets and backends."""
    from stepwell import plugin_files

    return bool(options.load or plugin_files.installed())


def load_plugins(options: argparse.Namespace) -> None:
    """Load installed plugins and those that were asked for; a process that runs this command alone warns of what they read and do not declare."""
    from stepwell import plugin_files

    if common.is_program and has_plugins(options):
        from stepwell.plugin_reads import check_reads

        check_reads()
    plugin_files.load_installed()
    for file in options.load:
        plugin_files.load_file(file)


def check_compile_options(options: argparse.Namespace) -> None:
    """Raise UsageError for errors in these options that do not depend on the model or the passes; call it after plugins are loaded."""
    check_target(options.target)
    with usage_errors("--backend"):
        check_backend(options.backend)
    for name, parse in PARSERS.items():
        parse(getattr(options, flags()[name].attribute))


def compile_options(options: argparse.Namespace) -> CompileOptions:
    """The `CompileOptions` of the command line; call it after plugins are loaded. Raises UsageError, and StepwellError for wrong files."""
    check_compile_options(options)
    given = {name: getattr(options, flag.attribute) for name, flag in flags().items()}
    given |= {name: parse(given[name]) for name, parse in PARSERS.items()}
    made = CompileOptions(**given | {"pipeline": given_pipeline(options)})
    if made.disable:
        with usage_errors("--disable"):
            made.passes()
    return made


def given_pipeline(options: argparse.Namespace) -> "Pipeline | None":
    """The pipeline that the command line describes; None for the default one. Raises UsageError or PipelineError."""
    if options.pipeline is None and not any(getattr(options, name) for name in ("insert_after", "insert_before", "replace_pass", "remove_pass")):
        return None
    from stepwell.pipelines.pipeline import Pipeline

    kind = options.target or "host", options.backend
    pipeline = Pipeline.default(*kind) if options.pipeline is None else Pipeline.from_source(options.pipeline, *kind)
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


SHARED = ("limits", "target", "plan")
"""The options that `stepwell-opt` has too."""
EDITS = ("--insert-after", "--insert-before", "--replace-pass", "--remove-pass")


def command_flags(options: argparse.Namespace, *, schedule: bool = True) -> str:
    """The options that both tools take, as text for a shell; `schedule` selects whether to include the one for schedules."""
    shared = [name for name in SHARED if schedule or name != "plan"]
    return shlex.join([*_repeated("--load", options.load), *(part for name in shared for part in _as_given(options, name))])


def run_flags(options: argparse.Namespace, *, schedule: bool = True) -> str:
    """The options that `stepwell` takes when it starts from IR, as text for a shell."""
    own = [part for name, flag in flags().items() if flag.goes_with_ir and name not in SHARED for part in _as_given(options, name)]
    own += [part for edit in EDITS for part in _repeated(edit, getattr(options, edit[2:].replace("-", "_")))]
    return " ".join(filter(None, (command_flags(options, schedule=schedule), shlex.join(own))))


def _as_given(options: argparse.Namespace, name: str) -> list[str]:
    """The words of the command line that set an option; none for its default."""
    flag = flags()[name]
    value = getattr(options, flag.attribute)
    if flag.repeated:
        return _repeated(flag.name, value)
    return [] if value == default_of(name) else [flag.name] if flag.is_switch else [flag.name, value]


def _repeated(flag: str, values: Iterable[str]) -> list[str]:
    return [part for value in values for part in (flag, value)]


def parse_hints(texts: list[str]) -> dict[str, int] | None:
    """Likely sizes by the names of dynamic dimensions from `name=128`; None if there are none. Raises UsageError."""
    hints: dict[str, int] = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not is_name(name) or not (likely := whole_number(size)):
            raise UsageError(f"--size-hint {text}: expected NAME=SIZE, the name of a free dimension and a whole number from 1, as in batch=8")
        if name in hints:
            raise UsageError(f"--size-hint {text}: a size of '{name}' is given twice")
        hints[name] = likely
    return hints or None


PARSERS: dict[str, Callable[[list[str]], Any]] = {"shapes": fixed, "size_hints": parse_hints, "limits": parse_limits}
"""Convert the texts of a flag to the value of an option, if that is not the value itself. They raise UsageError."""
