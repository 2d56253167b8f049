"""The main part of `stepwell run`: compiles a model, runs it on inputs, and shows, checks, times and saves its outputs."""

import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepwell.analysis.archives import npz_bytes
from stepwell.border.model import BorderModel
from stepwell.cli.common import OK
from stepwell.cli.display import Progress, level_times, plural, print_table, quantity, say, seconds
from stepwell.cli.inputs import gather
from stepwell.cli.session import Session
from stepwell.cli.shapes import parse_given, shown_free_sizes, usual_values
from stepwell.signature import is_string, tensors_of, type_name

if TYPE_CHECKING:
    from stepwell.bundling.loading import BundledModel
    from stepwell.driver.dynamic import DynamicModel
    from stepwell.runtime.model import CompiledModel
    from stepwell.signature import TensorInfo

Arrays = Mapping[str, np.ndarray]
COMPILED = ("levels", "reference")
"""The checks of the compiled part alone, without nodes that run in Python."""


def execute(session: Session, against: tuple[str, str | None] | None) -> int:
    """Run the model of a session with its options; `against` is the reference for the outputs. Returns the exit status."""
    options = session.options
    model = session.compile(options.threads, cache=not options.no_cache)
    given = parse_given(options.shape)
    sizes, extreme = usual_values(given, model.inputs), options.inputs == "extreme"
    words = model.border.words if isinstance(model, BorderModel) else lambda name: ()
    inputs = gather(options.input, model.inputs, sizes=sizes, limits=session.how.limits, extreme=extreme, words=words)
    with Progress(doing="run"):
        outputs = tensors_of(model.run(inputs))
    session.explain()
    _show(model, outputs, shown_free_sizes(given, model.inputs))
    if why := getattr(model, "why_not_general", ""):
        from stepwell.driver.all_sizes import no_program

        say(f"{no_program(why)}\n")
    status = OK
    if against is not None:
        from stepwell.cli.checks import check_outputs

        if isinstance(model, BorderModel) and against[0] in COMPILED and not model.inner.outputs:
            say(f"no check against {against[0]}: nothing of the model is compiled, all of it runs in Python\n")
        elif isinstance(model, BorderModel) and against[0] in COMPILED:
            crossing = model.crossing(inputs)
            status = check_outputs(against, session, crossing, tensors_of(model.inner.run(crossing)))
        else:
            status = check_outputs(against, session, inputs, outputs)
    if options.repeat is not None:
        repeat(model, inputs, options.repeat)
    if options.save is not None:
        save(outputs, options.save)
    return status


def _show(model: "CompiledModel | DynamicModel | BorderModel", outputs: Arrays, free: str) -> None:
    total = sum(model.timings.values())
    say(f"compiled in {seconds(total)}: {level_times(model.timings)}")
    memory = model.memory
    sizes = f"weights {quantity(memory.weights_bytes, 'B')}, workspace {quantity(memory.workspace_bytes, 'B')}"
    say(f"{plural(model.kernels, 'distinct kernel')}, {sizes}")
    say(f"{plural(model.threads, 'thread')}\n", flush=True)
    if free:
        rows = [[kind, info.name, _typed(info)] for kind, side in (("input", model.inputs), ("output", model.outputs)) for info in side]
        print_table((f"free: {free}", "name", "type"), rows)
    show_outputs(outputs)


def show_outputs(outputs: Arrays) -> None:
    """Print a table of outputs."""
    print_table(("output", "type", "min", "max", "mean", "greatest at", "first"), [_summary(name, array) for name, array in outputs.items()])


def _typed(info: "TensorInfo") -> str:
    """A type with names and expressions for dynamic sizes."""
    return str(info) if info.form else f"{type_name(info.dtype)}[{', '.join(map(str, info.shape))}]"


def _summary(name: str, array: np.ndarray) -> list[str]:
    kind = f"{type_name(array.dtype)}[{'x'.join(map(str, array.shape))}]"
    if array.size == 0:
        return [name, kind, "", "", "", "", ""]
    if is_string(array.dtype):
        shown = " ".join(map(repr, array.reshape(-1)[:4].tolist()))
        return [name, kind, "", "", "", "", shown + (" …" if array.size > 4 else "")]
    numbers = array.astype(np.float64)
    first = " ".join(f"{value:.5g}" for value in numbers.flat[:4])
    at = np.unravel_index(int(np.argmax(numbers)), array.shape)
    where = ",".join(map(str, at)) if array.ndim else ""
    with np.errstate(invalid="ignore", over="ignore"):
        return [name, kind, f"{numbers.min():.5g}", f"{numbers.max():.5g}", f"{numbers.mean():.5g}", where, first + (" …" if array.size > 4 else "")]


def repeat(model: "CompiledModel | DynamicModel | BorderModel | BundledModel", inputs: Arrays, count: int) -> None:
    """Run a model so many times, and print how long that takes."""
    import statistics

    arrays = [inputs[info.name] for info in model.inputs]
    times = []
    with Progress(doing=f"run {count} times"):
        for _ in range(count):
            begin = time.perf_counter()
            model(*arrays)
            times.append(time.perf_counter() - begin)
    say(f"{plural(count, 'run')}: median {seconds(statistics.median(times))}, least {seconds(min(times))}, mean {seconds(statistics.fmean(times))}")


def save(outputs: Arrays, where: str) -> None:
    """Write outputs to a folder or an archive, and print their names."""
    from stepwell.dialects.support.files import write_atomically
    from stepwell.dialects.support.names import file_names

    path = Path(where)
    outputs = {name: array.astype(str) if is_string(array.dtype) else array for name, array in outputs.items()}  # which numpy saves as data
    if path.suffix == ".npz":
        content, names = npz_bytes(outputs)
        write_atomically(path, content)
        say(f"saved {plural(len(outputs), 'output')} to {path}{_renamed(names)}")
        return
    path.mkdir(parents=True, exist_ok=True)
    names = file_names(outputs)
    files = {name: path / f"{chosen}.npy" for name, chosen in names.items()}
    for name, file in files.items():
        buffer = BytesIO()
        np.save(buffer, outputs[name])
        write_atomically(file, buffer.getvalue())
    say(f"saved {', '.join(map(str, files.values()))}{_renamed(names)}")


def _renamed(names: Mapping[str, str]) -> str:
    """The outputs that are saved under other names than their own, as text."""
    return "".join(f"; '{name}' as '{chosen}'" for name, chosen in names.items() if name != chosen)
