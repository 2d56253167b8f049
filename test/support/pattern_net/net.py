"""The net of patterns: each is tried on graphs in which it matches, and what it makes is compared and, where it can be, proven."""

import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pattern_net.comparing import Counts, Match, WrongError, compared, rewritten, small
from pattern_net.graphs import Graph, NotReadableError
from pattern_net.growing import grown
from pattern_net.mentions import mentions
from pattern_net.mutating import mutated, seeds, with_powers_of_four, with_root
from pattern_net.proving import proven
from pattern_net.scalars import is_of_scalars, tried

from stepwell.passes.framework.registry import passes
from stepwell.passes.framework.rewriting import Pattern, PatternPass


@dataclass(frozen=True)
class Effort:
    """How much is tried: all of it numbers, so that each run is the same."""

    tries: int
    """Graphs, grown and mutated ones each."""
    matches: int
    """Of each kind, after which no more graphs are tried."""
    proofs: int
    """Matches that are proven, after which no more proofs are tried."""
    attempts: int
    """Proofs that are tried."""
    rlimit: int
    """Of each element that is proven, in units of z3."""
    scalars: int
    """How many cases of an op on scalars there are for each that is run."""


WHOLE = Effort(tries=240, matches=16, proofs=5, attempts=16, rlimit=400_000, scalars=1)
SAMPLE = Effort(tries=12, matches=3, proofs=1, attempts=3, rlimit=50_000, scalars=8)
WITHOUT_TESTS = 8
"""How many times as many graphs are grown for a pattern that no graph of a FileCheck test matches by itself, such as a plugin's."""
NOT_RUN = "it makes an op of LLVM, which the interpreter does not run: see the tests of its pass"
ROUNDS = "it is about how a function is rounded, or which of two zeros is found"


@dataclass
class Outcome:
    """What became of a pattern."""

    pattern: Pattern
    pass_names: list[str]
    tried: int = 0
    matched: int = 0
    compared: int = 0
    proven: int = 0
    grown: list[int] = field(default_factory=list)
    """The numbers of the grown graphs that matched."""
    unproven: Counter[str] = field(default_factory=Counter)
    counts: Counts = field(default_factory=Counts)
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the pattern, with its root."""
        return self.pattern.label


def patterns() -> dict[Pattern, list[str]]:
    """Every pattern of every pass, plugins' included, with the names of its passes."""
    found: dict[Pattern, list[str]] = {}
    for name, cls in sorted(passes().items()):
        if issubclass(cls, PatternPass):
            for p in cls.all_patterns():
                found.setdefault(p, []).append(name)
    return found


def is_of_memory(p: Pattern) -> bool:
    """Whether a pattern is for accesses of memory, which nothing runs but native code."""
    return any(root.startswith(("memref.", "vector.", "affine.")) for root in p.roots())


def has_root(p: Pattern, graph: Graph) -> bool:
    """Whether a graph has an op that the pattern is for."""
    roots = {root.removeprefix("graph.") for root in p.roots()}
    return any(node.mnemonic in roots for node in graph.nodes())


@dataclass(frozen=True)
class Candidate:
    """A graph to try."""

    kind: str
    """`seed`, `grown` or `mutated`."""
    number: int
    graph: Graph


def candidates(
    p: Pattern, pass_names: Sequence[str], effort: Effort, first: Sequence[int], matching: list[Graph], of_kind: Counter[str]
) -> Iterator[Candidate]:
    """Graphs to try: those of tests, grown ones, of which those numbered `first` come first, and what becomes of those that match by changes.

    The caller collects those that match, and counts the matches of each kind.
    """
    given = list(dict.fromkeys(itertools.chain.from_iterable(seeds(name) for name in pass_names)))
    others = (other for graph in given for other in with_root(graph, mentions(p).roots))
    for number, graph in enumerate(itertools.chain((graph for graph in given if has_root(p, graph)), others)):
        if of_kind["seed"] >= effort.matches:
            break
        yield Candidate("seed", number, graph)
    own = zlib.crc32(p.label.encode())
    more = 1 if matching else WITHOUT_TESTS
    for number in dict.fromkeys((*first, *range(effort.tries * more))):
        if of_kind["grown"] >= effort.matches:
            break
        made = grown(p, own + number)
        if made is not None:
            yield Candidate("grown", number, made)
    for number in range(effort.tries if matching else 0):
        if of_kind["mutated"] >= effort.matches:
            break
        changed = mutated(matching[number % len(matching)], own + number)
        if changed is not None:
            yield Candidate("mutated", number, changed)


def examined(p: Pattern, pass_names: Sequence[str], effort: Effort, first: Sequence[int] = ()) -> Outcome:
    """Try a pattern; of the graphs that are grown, those numbered `first` come first."""
    outcome = Outcome(p, list(pass_names))
    if is_of_scalars(p):
        outcome.tried, outcome.matched, outcome.compared, outcome.problems = tried(p, outcome.counts, effort.scalars)
        outcome.unproven[ROUNDS if outcome.compared else NOT_RUN] = 1
        return outcome
    matching: list[Graph] = []
    of_kind: Counter[str] = Counter()
    attempts = 0
    for candidate in candidates(p, pass_names, effort, first, matching, of_kind):
        graph = candidate.graph
        try:
            match = rewritten(p, graph, outcome.counts)
        except NotReadableError:
            continue
        except WrongError as error:
            outcome.problems.append(f"{error}\n{graph}")
            continue
        outcome.tried += 1
        if match is None:
            continue
        of_kind[candidate.kind] += 1
        outcome.matched += 1
        if candidate.kind != "mutated":
            matching.append(graph)
        if candidate.kind == "grown":
            outcome.grown.append(candidate.number)
        try:
            outcome.compared += compared(p, match, outcome.tried)
        except WrongError as error:
            outcome.problems.append(f"{error}\n{shown(match)}")
            continue
        if attempts < effort.attempts and outcome.proven < effort.proofs and small(match.before) and small(match.after):
            attempts += 1
            why_not = unproven(p, graph, match, effort, outcome)
            outcome.proven += not why_not
            if why_not:
                outcome.unproven[why_not] += 1
    return outcome


def unproven(p: Pattern, graph: Graph, match: Match, effort: Effort, outcome: Outcome) -> str:
    """Why a match is not proven, as it is or with constants that need no rounding; nothing if it is."""
    proof = proven(match, effort.rlimit)
    if proof.holds:
        return ""
    try:
        exact = rewritten(p, with_powers_of_four(graph), outcome.counts)
    except (NotReadableError, WrongError):
        exact = None
    return "" if exact is not None and proven(exact, effort.rlimit).holds else proof.why_not


def shown(match: Match) -> str:
    """Both graphs as text."""
    return f"before:\n{match.before}\nafter:\n{match.after}"
