"""A benchmark run: engine processes started, fed, checked against each other, and timed turn by turn."""

import compileall
import importlib.util
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np

from benchmark.cores import UNDISTURBED, Cores
from benchmark.jobs import PEERS, Contestant, Failure, Feed, Job, Loaded, Turn
from benchmark.models import Network, call_network
from benchmark.peers import Converter
from benchmark.process import EngineProcess
from benchmark.results import Cell, Comparison, Start
from stepwell.analysis.load import busy_seconds

__all__ = ["Protocol", "Session", "scaled_error"]

REFERENCE = Contestant("onnxruntime")
CALLS = 1000  # timed runs in a turn of the network that does next to nothing

Outputs = list[list[np.ndarray]]
"""All outputs, for each set of inputs."""


@dataclass(frozen=True)
class Protocol:
    """The settings of the measurement."""

    rounds: int = 10
    processes: int = 1
    """The number of processes of each engine, one after the other, among which the rounds are divided, because memory placement in one is random."""
    runs: int = 10
    """Timed runs in one turn of an engine."""
    warm_up: int = 3
    warm_seconds: float = 0.1
    images: int = 3
    """Different inputs, which the runs take in turn."""
    spin: bool = True
    repeats: int = 0
    """The most repetitions of a turn in which the machine provides less of its cores than it can. The turn in which it provided most counts."""
    pause: float = 0.5
    """Seconds around each turn in which everything sleeps: workers of the previous engine may spin a while after its last run."""
    classical: bool = False
    starts: bool = True
    """Whether cold and warm starts and the overhead of a call are measured."""
    callers: int = 0
    """The number of callers in a turn of several callers, each with `runs` requests; 0 for the runs of one."""
    keep: bool = False
    """Whether a process continues with the next network: for many small ones. Memory is not measured then."""


@dataclass
class Turns:
    """The number of turns, by number of threads."""

    kept: int = 0
    repeated: int = 0
    disturbed: int = 0
    """The number of counted turns before or after which the machine provided less than UNDISTURBED, in spite of repetitions."""


@dataclass
class Session:
    """Runs networks in contestants on numbers of threads, and fills a Comparison."""

    contestants: Sequence[Contestant]
    threads: Sequence[int]
    protocol: Protocol
    say: Callable[[str], None] = lambda text: None
    """Receives progress messages."""
    cores: Cores | None = field(default=None, init=False)
    """Measures the available cores while `run` runs, if turns are to be repeated."""
    turns: dict[int, Turns] = field(default_factory=dict, init=False)
    """Counts by number of threads."""
    converter: Converter | None = None
    """Makes the files of PEERS; needed if one of them takes part."""
    same_code: set[tuple[str, str]] = field(default_factory=set)
    """By network, labels of contestants that are not timed, because their code equals that of the first one."""

    def run(self, networks: Sequence[Network]) -> Comparison:
        """Measure everything. Failures are recorded, and the rest continues."""
        comparison = Comparison([n.name for n in networks], list(self.contestants), list(self.threads), self.protocol.classical)
        self.foreign = self.timed = 0.0
        self.versions: dict[str, str] = {}
        comparison.tolerances = {n.name: n.tolerance for n in networks}
        comparison.same_code = self.same_code
        comparison.cases = {n.name: n.case for n in networks if n.case is not None}
        with ExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-bench-"))
            processes = stack.enter_context(_Processes())
            if self.protocol.repeats:
                self.say("seeing what the machine gives of its cores")
                self.cores = stack.enter_context(Cores(self.threads, Path(scratch)))
            if self.protocol.starts:
                _compile_source()
                self._overhead(comparison, Path(scratch))
            for network in networks:
                comparison.weights_bytes[network.name] = network.weights_bytes
                cache = Path(scratch) / "cache"
                if self.protocol.starts:
                    self._starts(comparison, network, cache)
                self._network(comparison, network, cache, processes)
                if not self.protocol.keep:
                    processes.close()
                    shutil.rmtree(cache, ignore_errors=True)
        comparison.settings |= {"versions": self.versions}
        if self.cores is not None:
            seen = {count: {"gain": self.cores.gain(count), **asdict(turns)} for count, turns in self.turns.items()}
            comparison.settings["cores"] = seen
        if self.timed:
            comparison.settings["cores kept busy by others while timing"] = round(self.foreign / self.timed, 3)
        return comparison

    def _job(self, contestant: Contestant, network: Network, threads: int, cache: Path | None) -> Job:
        folder = None if cache is None else str(cache / contestant.label.replace("/", "_"))
        file = network.floats if contestant.of_floats and network.floats is not None else network.path
        if contestant.engine in PEERS:
            if self.converter is None:
                raise Failure("nothing converts files for it here")
            self.say(f"{network.name}: converting for {contestant.label}")
            file = self.converter.converted(contestant.engine, network)
        p = self.protocol
        return Job(contestant, str(file), threads, p.spin, network.shapes, folder, network.level, not p.keep, p.callers or 1)

    def _able(self, network: Network) -> list[Contestant]:
        """The contestants that can run a network: only Stepwell runs IR."""
        able = [c for c in self.contestants if network.level is None or c.engine == "stepwell"]
        return [c for c in able if (network.name, c.label) not in self.same_code]

    def _starts(self, comparison: Comparison, network: Network, cache: Path) -> None:
        """Cold and warm starts, one process after the other, on the largest number of threads."""
        _read(network.path)
        for contestant in self._able(network):
            start = comparison.starts[network.name, contestant.label] = Start()
            try:
                for warmth in ("cold", "warm"):
                    self.say(f"{network.name}: {warmth} start of {contestant.label}")
                    with EngineProcess(self._job(contestant, network, max(self.threads), cache)) as process:
                        loaded = process.load()
                        process.feed(network.feeds(loaded.inputs, 1))
                        first = process.turn(0, 0, 1).seconds[0]
                    setattr(start, warmth, loaded.load_seconds + first)
                    start.importing = loaded.import_seconds
            except Failure as failure:
                self._failed_to_start(start, contestant.label, failure)

    def _network(self, comparison: Comparison, network: Network, cache: Path, processes: "_Processes") -> None:
        """Load, check and time a network in all contestants, in as many processes of each as the protocol says."""
        given: list[Feed] = []
        takes_part = [(contestant, threads) for contestant in self._able(network) for threads in self.threads]
        rounds, parts = self.protocol.rounds, min(self.protocol.processes, self.protocol.rounds)
        for part in range(parts):
            outputs: dict[tuple[str, int], Outputs] = {}
            live: dict[tuple[str, int], EngineProcess] = {}
            for contestant, threads in takes_part:
                key = contestant.label, threads
                cell = comparison.cell(network.name, *key)
                self.say(f"{network.name}: loading {contestant.label} on {threads}")
                try:
                    # A peer's own cache is only for its warm start: it shall run what it makes when it is used plainly.
                    job = self._job(contestant, network, threads, cache if contestant.engine == "stepwell" else None)
                    process = processes.process_for(key, job)
                    loaded = process.load(job)
                    given = given or network.feeds(loaded.inputs, self.protocol.images)
                    process.feed(given)
                    outputs[key] = process.outputs()
                    cell.settings = loaded.settings
                    self._remember(contestant, loaded, cell)
                    live[key] = process
                except Failure as failure:
                    cell.fail(str(failure), is_fault=network.case is None and self._must_run(contestant.label))
            self._check(comparison, network, given, outputs)
            live = {key: process for key, process in live.items() if not comparison.cell(network.name, *key).lack}
            self._rounds(comparison, network.name, live, range(rounds * part // parts, rounds * (part + 1) // parts), self.protocol.runs)
            if part + 1 < parts:
                takes_part = [(contestant, threads) for contestant, threads in takes_part if (contestant.label, threads) in live]
                processes.close()
        for key, process in live.items():
            cell = comparison.cell(network.name, *key)
            try:
                cell.memory |= {} if self.protocol.keep else process.memory()
            except Failure as failure:
                cell.fail(str(failure), self._must_run(key[0]))

    def _remember(self, contestant: Contestant, loaded: Loaded, cell: Cell) -> None:
        self.versions[contestant.label] = loaded.version
        if loaded.resident_before is not None:
            cell.memory["before"] = loaded.resident_before

    def _check(self, comparison: Comparison, network: Network, given: list[Feed], outputs: dict[tuple[str, int], Outputs]) -> None:
        """Compare all outputs with those of ONNX Runtime on one thread, of a process of its own if it is not among the contestants.

        Nobody else runs IR, and ONNX Runtime may lack an operator: then with those of the last contestant, a peer where there is one.
        """
        want, why = outputs.get((REFERENCE.label, 1)), "no other engine runs IR"
        tried = comparison.cells.get((network.name, REFERENCE.label, 1))
        if tried is not None and tried.lack:
            why = f"onnxruntime: {tried.lack}"
        elif want is None and given and network.level is None:
            self.say(f"{network.name}: reference outputs")
            try:
                with EngineProcess(self._job(REFERENCE, network, 1, None)) as process:
                    process.load()
                    process.feed(given)
                    want = process.outputs()
            except Failure as failure:
                why = str(failure)
        if want is None and (network.level is not None or network.case is not None):
            label, want = next(((key[0], found) for key, found in reversed(outputs.items())), ("nothing", None))
            why = f"{why}: outputs are compared with those of {label}"
        if (REFERENCE.label, 1) not in outputs and (want is None or network.level is not None or network.case is not None):
            comparison.settings.setdefault("not checked", {})[network.name] = why
        self._check_bits(comparison, network, outputs)
        for key, got in outputs.items():
            cell = comparison.cell(network.name, *key)
            if any(c.label == key[0] and c.of_floats for c in self.contestants):
                continue  # it computes something else
            try:
                if want is not None:
                    cell.error = max([cell.error or 0.0, *(_error(g, w) for g, w in zip(got, want, strict=True))])
            except Failure as failure:
                cell.failure = str(failure)
            if not self._is_ours(key[0]) and (cell.failure or comparison.is_wrong(network.name, cell)):
                cell.fail(cell.failure or f"its outputs differ by {cell.error:.2g} of their scale", is_fault=False)

    def _check_bits(self, comparison: Comparison, network: Network, outputs: dict[tuple[str, int], Outputs]) -> None:
        """Plans must not change a bit of the outputs: their contestant fails if it does not have those of plain Stepwell."""
        plain = next((c.label for c in self.contestants if c.is_ours), None)
        for label in (c.label for c in self.contestants if c.plans):
            for threads in self.threads:
                pair = outputs.get((plain or "", threads)), outputs.get((label, threads))
                if pair[0] is not None and pair[1] is not None and not _same_bits(pair[0], pair[1]):
                    comparison.cell(network.name, label, threads).fail("its outputs have other bits than those without a plan", is_fault=True)

    def _is_ours(self, label: str) -> bool:
        return any(contestant.label == label and contestant.engine == "stepwell" for contestant in self.contestants)

    def _must_run(self, label: str) -> bool:
        """Whether the run fails where it does: ours, and the reference, without which nothing is known to be right."""
        return label == REFERENCE.label or self._is_ours(label)

    def _failed_to_start(self, start: Start, label: str, failure: Failure) -> None:
        """Record a failure of a contestant that must run. Peers that take no part are recorded when they are loaded for timing."""
        start.failure = str(failure) if self._must_run(label) else None

    def _rounds(self, comparison: Comparison, network: str, live: dict[tuple[str, int], EngineProcess], rounds: range, runs: int) -> None:
        """The turns, round by round; who begins changes from round to round."""
        time.sleep(self.protocol.pause)
        for number in rounds:
            keys = list(live)
            shift = number % max(1, len(keys))
            for key in keys[shift:] + keys[:shift]:
                self.say(f"{network}: round {number + 1} of {self.protocol.rounds}, {key[0]} on {key[1]}")
                cell = comparison.cell(network, *key)
                try:
                    turn = self._turn(live[key], key[1], runs)
                    cell.rounds.append(turn.seconds)
                    cell.latencies += turn.latencies
                except Failure as failure:
                    cell.fail(str(failure), self._must_run(key[0]))
                    del live[key]

    def _turn(self, process: EngineProcess, threads: int, runs: int) -> Turn:
        """A turn and the pause after it; repeated as the protocol says where the machine gave less of its cores before or after it than it can."""
        tries: list[tuple[float, Turn]] = []
        given = self._share(threads)
        while not tries or (tries[-1][0] < UNDISTURBED and len(tries) <= self.protocol.repeats):
            before, start = busy_seconds(), time.perf_counter()
            protocol, callers = self.protocol, self.protocol.callers
            warm = protocol.warm_up * max(callers, 1), protocol.warm_seconds
            turn = process.throughput(callers, *warm, runs * callers) if callers else process.turn(*warm, runs)
            after, end = busy_seconds(), time.perf_counter()
            if before is not None and after is not None:
                self.foreign += max(0.0, after - before - turn.cpu)
                self.timed += end - start
            time.sleep(self.protocol.pause)
            given_before, given = given, self._share(threads)
            tries.append((min(given_before, given), turn))
        share, kept = max(tries, key=lambda found: found[0])
        count = self.turns.setdefault(threads, Turns())
        count.kept, count.repeated, count.disturbed = count.kept + 1, count.repeated + len(tries) - 1, count.disturbed + (share < UNDISTURBED)
        return kept

    def _share(self, threads: int) -> float:
        return 1.0 if self.cores is None else self.cores.share(threads)

    def _overhead(self, comparison: Comparison, folder: Path) -> None:
        """The cost of a call in each engine, on one thread. Variants count as plain engines here."""
        network = call_network(folder)
        aside = Comparison([network.name], list(self.contestants), [1])
        with ExitStack() as stack:
            live = {}
            for contestant in [c for c in self.contestants if not c.variant]:
                self.say(f"overhead of a call of {contestant.label}")
                try:
                    # Compiled anew, so that our libraries are in memory before the first start that is timed, like those of the peers.
                    cache = folder / "call" if contestant.engine == "stepwell" else None
                    process = stack.enter_context(EngineProcess(self._job(contestant, network, 1, cache)))
                    process.feed(network.feeds(process.load().inputs, 1))
                    live[contestant.label, 1] = process
                except Failure as failure:
                    self._failed_to_start(comparison.starts.setdefault(("call", contestant.label), Start()), contestant.label, failure)
            self._rounds(aside, network.name, live, range(min(5, self.protocol.rounds)), CALLS)
        for label, _ in live:
            statistic = aside.statistic(network.name, label, 1)
            if statistic is not None:
                comparison.overhead[label] = statistic


class _Processes:
    """Processes by label and threads, each kept until `close`."""

    def __init__(self) -> None:
        self._alive: dict[tuple[str, int], EngineProcess] = {}

    def process_for(self, key: tuple[str, int], job: Job) -> EngineProcess:
        """The process; a new one if there is none or it has ended."""
        process = self._alive.get(key)
        if process is None or not process.is_alive:
            if process is not None:
                process.close()
            process = self._alive[key] = EngineProcess(job)
        return process

    def close(self) -> None:
        """End all processes."""
        while self._alive:
            self._alive.popitem()[1].close()

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def scaled_error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference over the largest absolute value. Raises Failure for another shape, and for values that have no difference."""
    if got.shape != want.shape:
        raise Failure(f"an output has the shape {got.shape}, ONNX Runtime's has {want.shape}")
    if not want.size:
        return 0.0
    a, b = (array.astype(np.float64) for array in (got, want))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        difference = float(np.where(same, 0.0, np.abs(a - b)).max())
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    if not np.isfinite(difference):
        raise Failure("an output is NaN or infinite where ONNX Runtime's is not, or the other way round")
    return difference / scale


def _same_bits(one: Outputs, other: Outputs) -> bool:
    pairs = [(a, b) for mine, theirs in zip(one, other, strict=True) for a, b in zip(mine, theirs, strict=True)]
    return all(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def _error(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    if len(got) != len(want):
        raise Failure(f"there are {len(got)} outputs, of ONNX Runtime {len(want)}")
    return max(map(scaled_error, got, want), default=0.0)


def _compile_source() -> None:
    """Compile our source to bytecode, as pip does: the benchmark times the compilation of a network."""
    for package in ("stepwell", "stepwell.dialects", "stepwell.passes"):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            compileall.compile_dir(folder, quiet=2)


def _read(path: Path) -> None:
    """Read the file into memory, so that the disk is not measured."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
