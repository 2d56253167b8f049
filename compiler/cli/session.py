"""Common parts of `run`, `compile` and `bisect`: the source of the model, instrumentation."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.backends.llvm_cpu.forks import allow_forks
from stepwell.cli import common
from stepwell.cli.common import UsageError, report_passes
from stepwell.cli.compile_options import check_compile_options, command_flags, compile_options, has_plugins, load_plugins, run_flags
from stepwell.cli.crashes import watch_for_crashes
from stepwell.cli.display import Progress, say
from stepwell.cli.printing import printer, printing
from stepwell.dialects.support.errors import IRError, ModelError
from stepwell.passes.framework.levels import IMPORTED, LevelPath, find_level
from stepwell.pipelines.routes import path_of

if TYPE_CHECKING:
    from stepwell.analysis.explain import Explanation
    from stepwell.backends.artifact import Artifact
    from stepwell.border.model import BorderModel
    from stepwell.driver.dynamic import DynamicModel
    from stepwell.passes.framework.instrumentation import Flags, Instrumentation
    from stepwell.pipelines.lowered import Lowered
    from stepwell.runtime.model import CompiledModel


@dataclass
class Session:
    """One command's compilation, with the instrumentation that its options request."""

    options: argparse.Namespace
    check_levels: Callable[[LevelPath], None] = lambda path: None
    """A further check of the options, given the levels of the backend; plugins may add some. Raises UsageError."""
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self._check()
        plugins = has_plugins(self.options)
        if not plugins:
            self._check_names()
        if common.is_program:
            watch_for_crashes("stepwell")
            allow_forks()  # before plugins, which may start threads
        if plugins:
            load_plugins(self.options)
            self._check_names()
        self.how = compile_options(self.options)
        self.explanation = _explanation() if self.options.explain is not None else None

    def _check(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if self.options.start is not None and self.options.shape:
            raise UsageError("--shape is for models: the IR given with --from has its shapes")
        if self.options.start is None and self.options.weights is not None:
            raise UsageError("--weights goes with --from LEVEL: a model has its own")

    def _check_names(self) -> None:
        """Raise UsageError for names that plugins may define: targets, backends and levels."""
        check_compile_options(self.options)
        path, start = self.path, self.options.start
        if start is None and self.options.model.endswith(".mlir"):
            raise UsageError(f"{self.options.model}: say at which level this IR is, with --from {'|'.join(path)}")
        if start is not None and start not in path:
            raise UsageError(f"--from {start}: expected one of the levels of backend {self.options.backend}: {path}")
        self.check_levels(path)

    @property
    def path(self) -> LevelPath:
        """The levels of the backend."""
        return path_of(self.options.backend)

    @contextmanager
    def watched(self) -> "Iterator[Instrumentation | None]":
        """Show progress while the block runs; yields the requested instrumentation, if any; prints the report of passes at the end."""
        if not self.watches:
            with Progress(self.path, self.options.start) as self.progress:
                yield None
            return
        # imported here, because they load the bindings
        from stepwell.passes.framework.instrumentation import DumpIR, Instruments, PassTimings, Statistics

        timings, counts = PassTimings(), Statistics()
        parts: list[Instrumentation] = [timings, counts, *([] if self.explanation is None else [self.explanation])]
        printed = printer(self.options, [step.name for stage in self.how.passes().stages for step in stage.steps]) if printing(self.options) else None
        if printed is not None:
            parts.append(printed)
        if self.options.dump_ir is not None:
            parts.append(DumpIR(self.options.dump_ir, flags=self._flags()))
        try:
            with Progress(self.path, self.options.start) as self.progress:
                yield Instruments(*parts)
        finally:
            report_passes(self.options, timings, counts.counts)

    def _flags(self) -> "Flags":
        """The options of the commands that are written to dumped files."""
        from stepwell.passes.framework.instrumentation import Flags

        def run(level: str) -> str:
            return run_flags(self.options, schedule=not find_level(level).scheduled)

        return Flags(command_flags(self.options), run)

    @property
    def watches(self) -> bool:
        """Whether the options request any output about passes."""
        given = self.options
        shown = (given.dump_ir is not None, given.time_passes, given.pass_statistics, given.explain is not None)
        return printing(given) or any(shown)

    def explain(self) -> None:
        """Print the output of `--explain`: at the end of a command, because a model with dynamic dimensions is compiled when it is run."""
        if self.explanation is not None:
            say(self.explanation.text(self.options.explain), end="", file=sys.stderr)

    def lower(self, level: str, shapes: Mapping[str, tuple[int, ...]] | None = None) -> "Lowered":
        """The model at a level, with `shapes` for inputs that are better known than from `--shape`.

        Raises UsageError if `--from` names a lower one.
        """
        from stepwell.driver.lowering import descend, lower

        start = self.options.start
        if start is not None and level not in self.path.since(start):
            raise UsageError(f"--emit {level} lies above --from {start}: models are only lowered")
        with self.watched() as instrumentation:
            if self.options.start is None:
                how = replace(self.how, shapes={**(self.how.shapes or {}), **(shapes or {})})
                given = self.options
                return lower(
                    given.model, level, options=how, threads=given.threads, on_level=self.progress.level, instrumentation=instrumentation
                )  # fmt: skip
            return descend(self.read(), level, on_level=self.progress.level, instrumentation=instrumentation)

    def start(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> "Lowered":
        """The model at the level of the given source, with `shapes` for inputs that are better known than from `--shape`."""
        from stepwell.driver.lowering import lower

        if self.options.start is not None:
            return self.read()
        how = replace(self.how, shapes={**(self.how.shapes or {}), **(shapes or {})})
        return lower(self.options.model, IMPORTED, options=how, threads=self.options.threads)

    def compile(self, threads: int | None, *, cache: bool) -> "CompiledModel | DynamicModel | BorderModel":
        """Code for the model; `cache` says whether it, or its kernels, may come from the cache."""
        if self.options.start is not None:
            from stepwell.driver.lowering import code_level

            return self.build(self.lower(code_level(self.how, self.options.start, watched=self.watches)), threads, cache=cache)
        from stepwell.driver.compilation import compile

        with self.watched() as instrumentation:
            return compile(
                self.options.model, options=self.how, threads=threads, cache=cache, on_level=self.progress.level, instrumentation=instrumentation
            )

    def build(self, lowered: "Lowered", threads: int | None = None, *, cache: bool = True) -> "CompiledModel":
        """Native code for a model at one of the levels from which code is generated."""
        from stepwell.driver.build import build

        with Progress(lowered.path, lowered.level) as progress:
            return build(lowered, threads=threads, cache=cache, on_level=progress.level)

    def artifact(self, lowered: "Lowered") -> "Artifact":
        """The code of a model at one of the levels from which code is generated; another machine may have to run it."""
        from stepwell.cache.disk import chosen_cache
        from stepwell.driver.build import make_artifact

        with Progress(lowered.path, lowered.level) as progress:
            return make_artifact(lowered, chosen_cache(True), progress.level)

    def read(self) -> "Lowered":
        """The model given with `--from`, at that level. Raises IRError or ModelError."""
        from stepwell.cli.files import read_text, read_weights
        from stepwell.driver.lowering import read_ir
        from stepwell.passes.framework.ir_files import used_weights

        file = self.options.model
        weights, weights_file = read_weights(file, self.options.weights)
        lowered = read_ir(read_text(file), self.options.start, weights, name=file, options=self.how, threads=self.options.threads)
        missing = sorted(used_weights(lowered.module) - set(weights))
        if missing:
            names = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
            beside = Path(file).with_suffix(".safetensors")
            where = f"{weights_file} lacks" if weights_file is not None else f"there is no {beside}, nor --weights FILE, to hold"
            raise ModelError(f"{file}: {where} {len(missing)} of the weights it uses: {names}")
        return lowered


def _explanation() -> "Explanation":
    from stepwell.analysis.explain import Explanation  # imported here, because it loads the bindings

    return Explanation()


def save_ir(lowered: "Lowered", file: Path) -> None:
    """Write IR to a file and the weights it uses beside it. Raises IRError or OSError."""
    from stepwell.passes.framework.ir_files import IRFiles, used_weights

    if file.suffix == ".safetensors":
        raise IRError(f"{file}: expected a file for IR, got the name of a weight table")
    IRFiles().write(file, lowered.text() + "\n", lowered.weights, used_weights(lowered.module))
