"""What `run` and `compile` share: their options, where the model comes from, what watches the passes."""

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.cli.common import Parser, UsageError, add_limit_option, parse_limits, target_name
from stepwell.cli.display import Progress
from stepwell.dialects.support.errors import InputError, IRError, ModelError
from stepwell.driver.levels import LEVELS, LIBM, check_disable, techniques

if TYPE_CHECKING:
    from stepwell.driver.dynamic import DynamicModel
    from stepwell.driver.lowered import Lowered
    from stepwell.passes.framework.instrumentation import Flags, Instrumentation
    from stepwell.runtime.model import CompiledModel


def add_model_options(parser: Parser) -> None:
    """The options of every command that compiles."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="an ONNX file; with --from a .mlir file")
    add_shape_option(parser)
    add("--from", dest="start", choices=LEVELS, metavar="LEVEL", help=f"go on from IR at a level: {', '.join(LEVELS)}")
    add("--weights", metavar="FILE", help="with --from: the weight table (default: FILE.safetensors beside FILE.mlir)")
    disable = add("--disable", action="append", default=[], metavar="TECHNIQUE", help="switch off a technique; may be repeated")
    parser.late_help[disable] = lambda: f"switch off a technique; may be repeated: {', '.join(techniques())}"
    add("--libm", action="store_true", help="take exp, tanh and the like from the system's libm, element by element; short for --disable expand-math")
    add("--strict", action="store_true", help="use no algorithm that lets infinities and NaN spread, or that rounds more than the direct one")
    add_schedule_options(parser, "host")
    add_limit_option(parser)
    add("--print-ir-after-all", action="store_true", help="print the IR after each pass to standard error")
    add("--dump-ir", metavar="DIR", help="write the IR after each pass to a numbered file in DIR, and a reproducer if one fails")
    add("--time-passes", action="store_true", help="print the time of each pass to standard error")
    add_common_options(parser)


def add_schedule_options(parser: Parser, default: str | None = None) -> None:
    """`--target`, with its default, and `--schedule`."""
    parser.add_argument("--target", type=target_name, default=default, metavar="NAME", help="the machine to compile for (default: host)")
    text = "schedules for kernels of the model, to be used for those that would be chosen (stepwell inspect --emit-schedule writes such a file)"
    parser.add_argument("--schedule", metavar="FILE", help=text)


def add_shape_option(parser: Parser) -> None:
    """`--shape`."""
    text = "the shape of an input with free dimensions; may be repeated"
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help=text)


def add_common_options(parser: Parser) -> None:
    """The options of every command."""
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="run a plugin first; may be repeated")
    parser.add_argument("--traceback", action="store_true", help="on an error print the Python traceback too")


def load_plugins(options: argparse.Namespace) -> None:
    """Load installed plugins and those that were asked for."""
    from stepwell import plugins

    plugins.load_installed()
    for file in options.load:
        plugins.load_file(file)


def command_flags(options: argparse.Namespace, *, schedule: bool = True) -> str:
    """The options that both commands have, as text for a shell, where they are given; `schedule` is whether to have the one for schedules too."""
    flags = [*(("--load", file) for file in options.load), *(("--limit", text) for text in options.limit)]
    if options.target not in (None, "host"):
        flags.append(("--target", options.target))
    if schedule and options.schedule is not None:
        flags.append(("--schedule", options.schedule))
    return shlex.join(part for flag in flags for part in flag)


def parse_shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name from `name=1x3x224x224`. Raises UsageError."""
    shapes = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split("x")) if sizes else ()
        except ValueError:
            raise UsageError(f"--shape {text}: expected NAME=SIZExSIZE…, as in image=1x3x224x224") from None
        if not name or any(size < 0 for size in shape):
            raise UsageError(f"--shape {text}: expected NAME=SIZExSIZE…, as in image=1x3x224x224")
        if name in shapes:
            raise UsageError(f"--shape {text}: the shape of '{name}' is given twice")
        shapes[name] = shape
    return shapes


@dataclass
class Session:
    """One command's way from a model to IR or code, watched as its options say."""

    options: argparse.Namespace
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        load_plugins(self.options)
        self.shapes = parse_shapes(self.options.shape)
        try:
            self.disable = check_disable([*self.options.disable, *([LIBM] if self.options.libm else [])])
        except InputError as error:
            raise UsageError(f"--disable: {error.args[0]}") from None
        self.limits = parse_limits(self.options.limit)
        if self.options.start is not None and self.shapes:
            raise UsageError("--shape is for ONNX models: the IR given with --from has its shapes")
        if self.options.start is None and self.options.weights is not None:
            raise UsageError("--weights goes with --from LEVEL: an ONNX model has its own")
        if self.options.start is None and self.options.model.endswith(".mlir"):
            raise UsageError(f"{self.options.model}: say at which level this IR is, with --from {'|'.join(LEVELS)}")

    @contextmanager
    def watched(self) -> "Iterator[Instrumentation | None]":
        """Progress on screen while the block runs, and the instrumentation that was asked for, if any; the report of passes at the end."""
        if not self.watches:
            with Progress(self.options.start) as self.progress:
                yield None
            return
        from stepwell.passes.framework.instrumentation import DumpIR, Instruments, PassTimings, PrintIR  # here, because they load the bindings

        timings = PassTimings()
        parts: list[Instrumentation] = [timings]
        if self.options.print_ir_after_all:
            parts.append(PrintIR())
        if self.options.dump_ir is not None:
            parts.append(DumpIR(self.options.dump_ir, flags=self._flags()))
        try:
            with Progress(self.options.start) as self.progress:
                yield Instruments(*parts)
        finally:
            if self.options.time_passes:
                sys.stderr.write(timings.report())

    def _flags(self) -> "Flags":
        """What the commands need that are written to dumped files."""
        from stepwell.passes.framework.instrumentation import Flags

        own = " ".join([*(f"--disable {name}" for name in self.disable), *(["--strict"] if self.options.strict else [])])

        def run(level: str) -> str:
            shared = command_flags(self.options, schedule=LEVELS.index(level) < LEVELS.index("scheduled"))
            return f"{shared} {own}".strip()

        return Flags(command_flags(self.options), run)

    @property
    def watches(self) -> bool:
        """Whether anything is to be seen of the passes."""
        return bool(self.options.print_ir_after_all or self.options.dump_ir is not None or self.options.time_passes)

    def lower(self, level: str, shapes: Mapping[str, tuple[int, ...]] | None = None) -> "Lowered":
        """The model at a level, with `shapes` for inputs that `--shape` names none for. Raises UsageError if `--from` names a lower one."""
        from stepwell.driver.lowering import descend, lower

        if self.options.start is not None:
            first, last = LEVELS.index(self.options.start), LEVELS.index(level)
            if last < first:
                raise UsageError(f"--emit {level} lies above --from {self.options.start}: data goes down the stair only")
        with self.watched() as instrumentation:
            if self.options.start is None:
                return lower(
                    self.options.model, level, target=self.options.target, shapes={**(shapes or {}), **self.shapes}, disable=self.disable,
                    strict=self.options.strict, schedule=self.options.schedule, limits=self.limits, on_level=self.progress.level,
                    instrumentation=instrumentation,
                )  # fmt: skip
            return descend(self.read(), level, on_level=self.progress.level, instrumentation=instrumentation)

    def compile(self, threads: int | None, *, cache: bool) -> "CompiledModel | DynamicModel":
        """Code for the model; `cache` is whether it may be one that was compiled before."""
        if self.options.start is not None:
            from stepwell.driver.lowering import code_level

            return self.build(self.lower(code_level(self.options.start, watched=self.watches)), threads)
        from stepwell.driver.compilation import compile

        with self.watched() as instrumentation:
            return compile(
                self.options.model, threads=threads, target=self.options.target, shapes=self.shapes, disable=self.disable, cache=cache,
                strict=self.options.strict, schedule=self.options.schedule, limits=self.limits, on_level=self.progress.level,
                instrumentation=instrumentation,
            )  # fmt: skip

    def build(self, lowered: "Lowered", threads: int | None = None) -> "CompiledModel":
        """Native code for a model at one of the levels that it is made from."""
        from stepwell.driver.native import build

        with Progress(lowered.level) as progress:
            return build(lowered, threads=threads, on_level=progress.level)

    def read(self) -> "Lowered":
        """The model given with `--from`, at that level. Raises IRError or ModelError."""
        from stepwell.cli.files import read_text, read_weights
        from stepwell.driver.lowering import read_ir
        from stepwell.passes.framework.ir_files import used_weights

        file = self.options.model
        weights, weights_file = read_weights(file, self.options.weights)
        lowered = read_ir(
            read_text(file), self.options.start, weights, target=self.options.target, name=file, disable=self.disable, strict=self.options.strict,
            schedule=self.options.schedule, limits=self.limits,
        )  # fmt: skip
        missing = sorted(used_weights(lowered.module) - set(weights))
        if missing:
            names = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
            beside = Path(file).with_suffix(".safetensors")
            where = f"{weights_file} lacks" if weights_file is not None else f"there is no {beside}, nor --weights FILE, to hold"
            raise ModelError(f"{file}: {where} {len(missing)} of the weights it uses: {names}")
        return lowered


def save_ir(lowered: "Lowered", file: Path) -> None:
    """Write IR to a file and the weights it uses beside it. Raises IRError or OSError."""
    from stepwell.passes.framework.ir_files import IRFiles, used_weights

    if file.suffix == ".safetensors":
        raise IRError(f"{file}: expected a file for IR, got the name of a weight table")
    IRFiles().write(file, lowered.text() + "\n", lowered.weights, used_weights(lowered.module))
