"""Tunes a network: `stepwell.tune`, and what the command line adds to it."""

from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from stepwell.arguments import checked
from stepwell.database.database import chosen_database
from stepwell.database.provenance import provenance_of
from stepwell.database.records import Run
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.target.cores import available_cores, thread_count
from stepwell.dialects.target.registry import resolve
from stepwell.driver.lowering import import_source
from stepwell.driver.origin import Origin
from stepwell.driver.recorded import network_content
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.tuning.executor import Executor, LocalExecutor
from stepwell.tuning.live import Snapshot
from stepwell.tuning.native import NativeDevice
from stepwell.tuning.network import Network
from stepwell.tuning.ranking import Ranking, train
from stepwell.tuning.recorder import Recorder
from stepwell.tuning.run_records import recorded_result
from stepwell.tuning.sites import ALL_FLOORS
from stepwell.tuning.tuner import Settings, Tuned, Tuner

if TYPE_CHECKING:
    from stepwell.database.database import Database

LEARNED = 60.0
"""Seconds of a budget from which on a model is learned from the records first: that takes a second or two."""


@dataclass(frozen=True)
class Observers:
    """Functions that a tuning run calls."""

    on_update: Callable[[Snapshot], None] = lambda snapshot: None
    on_plan: Callable[[Plan], None] = lambda plan: None
    """Gets each plan that was confirmed."""


@checked
def tune(
    source: Source, *, budget: float = 600.0, threads: int | None = 1, inputs: Mapping[str, np.ndarray] | None = None, seed: int = 0,
    strategy: str = "annealing", rounding: bool = False, floors: tuple[str, ...] = ALL_FLOORS, again: bool = False,
    executor: Executor | None = None, observers: Observers | None = None, command: str = "", options: CompileOptions | None = None,
    **given: Unpack[CompileFields],
) -> Tuned:  # fmt: skip
    """Search the choices of a compilation for faster ones, for runs on `threads` threads (None: all cores), and return the plan that was confirmed.

    `budget` are seconds, in which those count that earlier runs spent on the same network with the same options on this machine, unless `again`:
    their records are used, and a longer budget goes on where they stopped. If they used it up, their result is returned and nothing is built.
    `inputs` are the data of runs by name, random ones if None. Candidates keep every bit of the results unless `rounding` allows otherwise.
    `floors` are kinds of sites: `schedule`, `algorithm`, `graph`. `strategy` is the name of a search strategy. `executor` builds and measures: by
    default processes of this machine. Ctrl-C ends the search; what is confirmed by then is the result. `options`, or their fields as keywords,
    determine how to compile, as in `stepwell.compile`; a `plan` among them is where tuning starts.

    Nothing else should run on the machine. Raises the errors of `lower`; InputError, also for a model that is neither a file nor bytes;
    UnsupportedError for a network that is more than a list of kernels of static sizes.
    """
    threads = thread_count(threads)
    settings = Settings(budget, threads, seed, strategy)
    for floor in floors:
        if floor not in ALL_FLOORS:
            raise InputError(f"floors: expected some of {', '.join(ALL_FLOORS)}, got {shown(floor)}")
    how = CompileOptions.combined(options, given, "tune")
    origin = Origin(source)
    portable = origin.portable()
    if portable is None:
        raise InputError(f"source: expected the path of a model or its content, got {shown(source)}")
    watching, target = observers or Observers(), resolve(how.machine)
    imported, _ = import_source(source, how)
    content = network_content(origin, imported, how)
    # Plans that round differently have runs of their own, which nothing but the same request finds.
    run = Run(_name(source), f"{content}{' with rounding' * rounding}", target.digest, threads, seed, budget)
    database = chosen_database()
    spent = 0.0 if again or database is None else database.spent(run.content, run.target, run.threads)
    if database is not None and spent >= budget:
        return recorded_result(database, run)
    with closing(LocalExecutor(available_cores())) if executor is None else nullcontext(executor) as used:
        elsewhere = not isinstance(used, LocalExecutor) and imported.content is not None and not imported.files
        network = Network(
            portable, how, name=run.network, content=content, threads=threads, put=used.store.put, inputs=inputs, rounding=rounding,
            floors=floors, sent=used.store.put(imported.content) if elsewhere and imported.content is not None else None,
        )  # fmt: skip
        provenance = provenance_of(target)
        tuner = Tuner(
            network, NativeDevice(network.program, used, threads, rounding=rounding), settings,
            Recorder(database, run, provenance, decides=not rounding), provenance, ranking=_ranking(database, budget, seed),
            on_update=watching.on_update, on_plan=watching.on_plan, command=command, spent=spent,
        )  # fmt: skip
        return tuner.run()


def _ranking(database: "Database | None", budget: float, seed: int) -> Ranking:
    """The model that the records teach, if there is time for it."""
    return Ranking() if database is None or budget < LEARNED else train(database.records(), seed=seed)


def _name(source: Source) -> str:
    return Path(source).stem if isinstance(source, (str, Path)) else "model"
