#!/usr/bin/env python3
"""Benchmark Stepwell against its peers or another checkout, profile it, or measure the effect of each of its switches.

    .venv/bin/python scripts/bench.py [NETWORK | FILE.onnx | FILE.mlir --from LEVEL ...] [options]
    .venv/bin/python scripts/bench.py --operators [REGEX]
    .venv/bin/python scripts/bench.py --tuned [--budget 10m] [NETWORK ...]
    .venv/bin/python scripts/bench.py --int8 [NETWORK ...]
    .venv/bin/python scripts/bench.py --weights int4 [NETWORK ...]
    .venv/bin/python scripts/bench.py --precision bf16 [NETWORK ...]
    .venv/bin/python scripts/bench.py --engines stepwell,onnxruntime,openvino,mnn,ncnn
    .venv/bin/python scripts/bench.py --engines stepwell --against DIR
    .venv/bin/python scripts/bench.py --profile NETWORK [--against DIR]
    .venv/bin/python scripts/bench.py --ablate [NETWORK ...]
    .venv/bin/python scripts/bench.py --throughput [--callers 8] [NETWORK ...]
    .venv/bin/python scripts/bench.py --fork-join

Nothing else should run on the machine. See docs/benchmarks.md.
"""

import argparse
import datetime
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import environment
from environment import installed

from benchmark.options import OF_TUNED, make_parser

if TYPE_CHECKING:
    from benchmark.jobs import Contestant
    from benchmark.models import Network

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("onnxruntime",)
EXTRA = ("openvino", "matplotlib")  # optional in other environments, but not in the checkout's own


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested benchmark. Returns 0, or 1 if an engine failed or gave wrong results, or 2 for wrong usage (argparse)."""
    from benchmark.jobs import ENGINES, PEERS, Failure

    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.processes is None:
        options.processes = OF_TUNED if options.tuned else 1
    profiles = options.profile is not None
    if profiles and options.networks:
        parser.error(f"--profile is followed by its networks: give it {' '.join(options.networks)}, too, or leave them out")
    if profiles and (options.ablate or options.switch):
        parser.error("--profile shows the kernels of Stepwell as it is: it takes none of --ablate, --switch")
    if options.engines is None:
        options.engines = [engine for engine in ENGINES if installed(engine)]
        for engine in set(ENGINES) - set(options.engines):
            print(f"note: {engine} is not installed and left out (pip install '.[bench]')", file=sys.stderr)
    for engine in options.engines:
        if engine not in PEERS and not installed(engine):
            parser.error(f"{engine} is not installed: pip install '.[bench]', or leave it out with --engines")
    if options.plot and (options.ablate or profiles or "stepwell" not in options.engines or len(options.engines) < 2):
        parser.error("--plot draws how stepwell compares with peers: it needs both")
    if options.plot and not installed("matplotlib"):
        parser.error("--plot needs matplotlib: pip install '.[bench]'")
    if options.operators is not None and any((options.networks, options.ablate, options.switch, profiles, options.plot, options.schedule)):
        parser.error("--operators compares operators with peers: it takes no network, and none of --ablate, --switch, --profile, --plot, --schedule")
    beside = (options.operators is not None, options.ablate, options.switch, profiles, options.plot, options.schedule, options.level)
    kinds = {"--int8": options.int8, "--weights": options.weights, "--precision": options.precision}
    fewer = [name for name, chosen in kinds.items() if chosen]
    if fewer and any((*beside, len(fewer) > 1)):
        others = [name for name in kinds if name != fewer[0]]
        none = ", ".join([*others, "--operators", "--from", "--ablate", "--switch", "--profile", "--plot", "--schedule"])
        parser.error(f"{fewer[0]} compares networks of fewer bits: it takes none of {none}")
    if fewer and not options.int8 and PEERS.keys() & set(options.engines):
        parser.error(f"{fewer[0]}: {', '.join(PEERS)} take no networks with weights of few bits or of halves")
    if options.throughput and (any((*beside, *fewer, options.tuned, options.classical)) or PEERS.keys() & set(options.engines)):
        other = "--operators, --int8, --weights, --precision, --tuned, --from, --ablate, --switch, --profile, --plot, --schedule, --classical"
        parser.error(f"--throughput compares how engines serve several callers: it takes none of {other}, and not {', '.join(PEERS)}")
    if options.callers and not options.throughput:
        parser.error("--callers is the number of those of --throughput")
    if options.schedule and len(options.profile or options.networks) != 1:
        parser.error("--schedule names kernels of one network: give that")
    problem = prepare(options)
    if problem is not None:
        parser.error(problem)
    if PEERS.keys() & set(options.engines) and not (options.fork_join or profiles or options.ablate or options.switch):
        environment.make_peers()
    try:
        if options.fork_join:
            return fork_join(options)
        if profiles:
            return profile(options) if options.against is None else compare_kernels(options)
        return ablate(options) if options.ablate or options.switch else compare(options)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1


def compare(options: argparse.Namespace) -> int:
    """Compare Stepwell with its peers."""
    from benchmark.jobs import Contestant
    from benchmark.models import KNOWN, find, find_cases, find_int8, find_precision, find_weights
    from benchmark.peers import Converter
    from benchmark.plot import plot
    from benchmark.quantised import Weights
    from benchmark.results import to_json
    from benchmark.session import Protocol, Session
    from benchmark.tables import console, show_comparison, show_operators, show_throughput
    from benchmark.throughput import sharing
    from benchmark.tuned import make_plans
    from stepwell.dialects.target.cores import available_cores

    images, rounds, runs = (1, 1, 100) if options.classical else (options.images, options.rounds, options.runs)
    protocol = Protocol(
        rounds=rounds, processes=options.processes, runs=runs, repeats=options.repeats, warm_up=options.warm_up,
        images=images, spin=options.spin == "on", pause=options.pause,
        classical=options.classical, starts=not (options.no_starts or options.throughput) and options.operators is None,
        keep=options.operators is not None, callers=(options.callers or 8) if options.throughput else 0,
    )  # fmt: skip
    settings = describe(protocol)
    with progress() as say:
        say("writing networks that are missing")
        if options.operators is not None:
            networks = find_cases(options.operators, options.zoo)
        elif options.int8:
            networks = find_int8(options.networks, options.zoo, options.seed)
        elif options.weights:
            how = Weights(int(options.weights.removeprefix("int")), options.block, options.zero_points, options.accuracy_level)
            networks = find_weights(options.networks, how, options.zoo, options.seed)
        elif options.precision:
            networks = find_precision(options.networks, options.precision, options.zoo, options.seed, shapes(options))
        else:
            networks = find(options.networks or KNOWN, options.zoo, options.seed, shapes(options), options.level)
        computed = "bf16" if options.precision == "bf16" else ""
        plain = Contestant("stepwell", target=options.target, plugins=plugins(options), precision=computed)
        contestants = [plain if engine == "stepwell" else replace(plain, engine=engine, plugins=()) for engine in options.engines]
        if options.pipeline or options.schedule:
            pipeline, schedule = given(options)
            contestants.append(replace(plain, variant=variant(options), pipeline=pipeline, schedule=schedule))
        if options.tuned:
            settings["tuning"] = {"budget": options.budget} | make_plans(
                networks, options.threads, options.budget, options.plans, options.target, say, seed=options.seed
            )
            contestants.append(replace(plain, variant="plans", plans=str(options.plans)))
        if options.bundle:
            contestants.append(replace(plain, variant="a bundle", bundled=True))
        if options.copied:
            contestants.append(replace(plain, variant="a bundle of copied weights", bundled=True, copied=True))
        if options.reproducible:
            contestants.append(replace(plain, variant="the same bits everywhere", reproducible=True))
        if options.against is not None:
            contestants.append(replace(plain, checkout=str(options.against)))
        if (options.int8 or options.weights or options.precision) and "stepwell" in options.engines:
            contestants.append(replace(plain, variant="floats", of_floats=True, precision=""))
        threads = [available_cores()] if options.throughput else options.threads
        session = Session(sharing(contestants) if options.throughput else contestants, threads, protocol, say, Converter(options.zoo / "peers"))
        comparison = session.run(networks)
    comparison.settings |= settings
    if options.operators is not None:
        comparison.settings["files"] = {network.name: str(network.path) for network in networks}
        show_operators(console(), comparison, options.verbose)
    elif options.throughput:
        show_throughput(console(), comparison, protocol.callers)
    else:
        show_comparison(console(), comparison)
    if options.json:
        options.json.write_text(to_json(comparison))
    if options.plot:
        plot(comparison, options.plot, note=caption(comparison.settings))
    return int(bool(comparison.failures()))


def same_code(contestants: "Sequence[Contestant]", network: "Network", say: Callable[[str], None]) -> "list[Contestant]":
    """The variants whose code for a network equals that of the first one: their IR at the last level is the same, character by character."""
    from benchmark.engines import last_ir
    from stepwell.dialects.support.errors import StepwellError

    base, *variants = contestants
    found: list[Contestant] = []
    plain: str | None = None
    for contestant in (base, *variants):
        say(f"{network.name}: the code of {contestant.label}")
        try:
            text = last_ir(contestant, str(network.path), network.shapes, network.level)
        except StepwellError:  # the error is reported when the model is loaded for timing
            text = None
        if contestant is base:
            plain = text
        elif text is not None and text == plain:
            found.append(contestant)
    return found


def ablate(options: argparse.Namespace) -> int:
    """Compare Stepwell with itself, with one switch off at a time."""
    from benchmark.jobs import Contestant, Failure
    from benchmark.models import KNOWN, find
    from benchmark.results import to_json
    from benchmark.session import Protocol, Session
    from benchmark.tables import console, show_ablation
    from stepwell.pipelines.pipeline import Pipeline

    known = (Pipeline.from_source(options.pipeline, options.target) if options.pipeline else Pipeline.default(options.target)).switches()
    for name in options.switch or ():
        if name not in known:
            raise Failure(f"there is no switch '{name}'; there are {', '.join(known)}")
    pipeline, schedule = given(options)
    base = Contestant("stepwell", target=options.target, plugins=plugins(options), pipeline=pipeline, schedule=schedule)
    contestants = [base, *(replace(base, disable=(name,)) for name in options.switch or known)]
    protocol = Protocol(
        rounds=options.rounds, processes=options.processes, runs=options.runs, repeats=options.repeats, warm_up=options.warm_up,
        images=options.images, spin=options.spin == "on", pause=options.pause, starts=False,
    )  # fmt: skip
    settings = describe(protocol)
    with progress() as say:
        networks = find(options.networks or KNOWN, options.zoo, options.seed, shapes(options), options.level)
        session = Session(contestants, options.threads, protocol, say)
        session.same_code = {(n.name, c.label) for n in networks for c in same_code(contestants, n, say)}
        comparison = session.run(networks)
    comparison.settings |= settings
    show_ablation(console(), comparison)
    if options.json:
        options.json.write_text(to_json(comparison))
    return int(bool(comparison.failures()))


def profile(options: argparse.Namespace) -> int:
    """Profile the kernels of networks, for each number of threads."""
    import json

    from benchmark.jobs import Contestant, Job
    from benchmark.models import KNOWN, feeds, find
    from benchmark.process import EngineProcess
    from benchmark.tables import console, show_profile

    pipeline, schedule = given(options)
    contestant = Contestant("stepwell", target=options.target, plugins=plugins(options), pipeline=pipeline, schedule=schedule)
    found = []
    for network in find(options.profile or KNOWN, options.zoo, options.seed, shapes(options), options.level):
        for threads in options.threads:
            job = Job(contestant, str(network.path), threads, options.spin == "on", network.shapes, level=network.level)
            with progress() as say, EngineProcess(job) as process:
                say(f"{network.name}: compiling")
                process.feed(feeds(process.load().inputs, 1))
                say(f"{network.name}: replaying its calls on {threads}")
                made = process.profile(options.rounds * options.runs)
            show_profile(console(), network.name, threads, made)
            found.append({"network": network.name, "threads": threads, **asdict(made)})
    if options.json:
        options.json.write_text(json.dumps({"settings": describe(None), "profiles": found}, indent=1) + "\n")
    return 0


def compare_kernels(options: argparse.Namespace) -> int:
    """Compare the kernels of networks between this checkout and another one, for each number of threads."""
    import json

    from benchmark.jobs import Contestant
    from benchmark.kernels import measure
    from benchmark.models import KNOWN, find
    from benchmark.session import Protocol
    from benchmark.tables import console, show_kernel_sums, show_kernels

    pipeline, schedule = given(options)
    ours = Contestant("stepwell", target=options.target, plugins=plugins(options), pipeline=pipeline, schedule=schedule)
    contestants = replace(ours, checkout=str(options.against)), ours
    protocol = Protocol(
        rounds=options.rounds, processes=options.processes, runs=options.runs, images=1, spin=options.spin == "on", pause=options.pause, starts=False
    )
    settings, found = describe(protocol), []
    for network in find(options.profile or KNOWN, options.zoo, options.seed, shapes(options), options.level):
        for threads in options.threads:
            with progress() as say:
                found.append(measure(contestants, network, threads, protocol, say))
            show_kernels(console(), found[-1])
    show_kernel_sums(console(), found)
    if options.json:
        options.json.write_text(json.dumps({"settings": settings, "comparisons": [asdict(one) for one in found]}, indent=1) + "\n")
    return 0


def fork_join(options: argparse.Namespace) -> int:
    """Measure the overhead of threads, for each number of threads above one."""
    import json

    from benchmark.forks import measure
    from benchmark.tables import console, show_fork_join

    settings = describe(None)
    with progress() as say:
        say("timing short loops")
        found = [times for threads in options.threads if threads > 1 for times in measure(threads, options.rounds * options.runs)]
    show_fork_join(console(), found)
    if options.json:
        options.json.write_text(json.dumps({"settings": settings, "loops": [asdict(times) for times in found]}, indent=1) + "\n")
    return 0


def describe(protocol: object) -> dict[str, object]:
    """The context of a measurement: machine, date, revision, protocol, and other work on the machine."""
    from benchmark.system import describe_machine
    from stepwell.analysis.load import foreign_load

    busy = foreign_load()
    if busy is not None and busy > 0.05:
        print(f"warning: other processes keep {busy:.2f} cores busy; figures will be off, those of several threads most", file=sys.stderr)
    settings: dict[str, object] = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "revision": revision()}
    settings |= {"machine": describe_machine(), "cores kept busy by others before": busy}
    return settings | ({"protocol": asdict(protocol)} if protocol is not None else {})  # type: ignore[call-overload]


def revision() -> str | None:
    """The commit of the checkout, with `+` if files differ from it; None without a checkout."""
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["diff", "HEAD", "--stat"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changes else "")


def caption(settings: dict[str, object]) -> str:
    """The caption below the plot."""
    machine, versions = settings["machine"], settings["versions"]
    assert isinstance(machine, dict)
    assert isinstance(versions, dict)
    engines = ", ".join(f"{engine} {version}" for engine, version in versions.items() if engine != "stepwell")
    return f"{machine['processor']}, {machine['cores']} cores; {engines}; bars: ratio of times, lines: middle half of the rounds"


def shapes(options: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """The shapes given by `--shape`, with a number for each dimension. Raises Failure."""
    from benchmark.jobs import Failure
    from stepwell.cli.common import UsageError
    from stepwell.cli.shapes import parse_given

    try:
        given = parse_given(options.shape)
    except UsageError as error:
        raise Failure(str(error)) from None
    numbers = {name: tuple(size for size in shape if isinstance(size, int)) for name, shape in given.items()}
    if any(len(numbers[name]) != len(shape) for name, shape in given.items()):
        raise Failure("--shape: a benchmark is of one shape; expected sizes in numbers")
    return numbers


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows the progress on standard error if that is a terminal. It is redrawn only between measurements, so that timed code is not disturbed."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    width = 0

    def say(text: str) -> None:
        nonlocal width
        sys.stderr.write(f"\r{text:{width}}")
        sys.stderr.flush()
        width = len(text)

    try:
        yield say
    finally:
        sys.stderr.write("\r" + " " * width + "\r")


def prepare(options: argparse.Namespace) -> str | None:
    """Load the plugins, which may define names used by other options, and check these. Returns the problem, or None."""
    from stepwell.dialects.sched.plan_file import Plan
    from stepwell.dialects.support.errors import StepwellError
    from stepwell.dialects.target.host import runs_here
    from stepwell.dialects.target.registry import resolve
    from stepwell.passes.framework.levels import find_level
    from stepwell.pipelines.pipeline import Pipeline
    from stepwell.plugin_files import load_file

    try:
        for file in options.load:
            load_file(file)
        if not runs_here(resolve(options.target)):
            return f"this machine lacks instructions of '{options.target}'"
        if options.level is not None:
            find_level(options.level)
        if options.pipeline:
            Pipeline.from_source(options.pipeline, options.target)
        if options.schedule:
            Plan.from_source(options.schedule)
    except StepwellError as error:
        return str(error)
    return None


def plugins(options: argparse.Namespace) -> tuple[str, ...]:
    """The plugins, by paths that are valid in every process."""
    return tuple(str(Path(file).resolve()) for file in options.load)


def given(options: argparse.Namespace) -> tuple[str, str]:
    """The pipeline and the schedule for Stepwell, by paths that are valid in every process, or the text of the pipeline."""
    pipeline, schedule = (str(Path(text).resolve()) if text and "(" not in text else text or "" for text in (options.pipeline, options.schedule))
    return pipeline, schedule


def variant(options: argparse.Namespace) -> str:
    """The name of Stepwell with these options."""
    pipeline = options.pipeline or ""
    return " and ".join(filter(None, (Path(pipeline).name if "(" not in pipeline else "the pipeline", Path(options.schedule or "").name)))


if __name__ == "__main__":
    ours = Path(sys.prefix).resolve() == environment.VENV.resolve()
    environment.need(__doc__, "bench", *NEEDED, *(EXTRA if ours else ()))
    sys.exit(main())
