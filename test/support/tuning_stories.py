"""Made-up stories of tuning runs: any number of sites, hostile names, runs in which everything failed."""

import math
import random

from stepwell.database.records import Phase, Provenance, Run, State
from stepwell.tuning.story import Attempt, Milestone, Outcome, Ratio, SelfTest, Site, Story, StoryFault

PROVENANCE = Provenance(
    "x86-64-v4", "Imaginary CPU 9000", ("avx2", "avx512f"), (32768, 1048576, 33554432), 8, "0xd0003a5", "Linux 6.1", {"stepwell": "0.1.0"}
)
KINDS = ("schedule", "winograd", "fusion", "panels")
OUTCOMES = (Outcome.CONFIRMED, Outcome.KEPT, Outcome.CONFIRMED, Outcome.ROLLED_BACK, Outcome.KEPT, Outcome.UNTRIED)
HOSTILE = (
    "$\\frac{1}{2}$ and $x$", "<script>alert('x')</script>&amp;", "line\nbreak", "\x1b[31mred\x1b[0m", "[bold red]markup[/] [link=x]",
    "שלום_conv", "\u202eevil", "a" * 500, "中文卷积", "_hidden", "'\"--> ]]>", "",
)  # fmt: skip
"""Names that break code that does not escape them: mathematics, HTML, ends of lines, terminals, rich's markup, direction, length, fonts."""
UNTUNED = 0.0213  # seconds


def story(count: int, *, names: tuple[str, ...] = (), tries: int = 12, seed: int = 0) -> Story:
    """A run with `count` sites, of which a third are confirmed and a sixth rolled back; `names` are used in turn."""
    rng = random.Random(seed)
    weights = sorted((rng.expovariate(1) + 0.02 for _ in range(count)), reverse=True)
    sites, attempts, milestones, best = [], [], [Milestone(Ratio(1.0), 0, 0.0)], 1.0
    for index, weight in enumerate(weights):
        name = names[index % len(names)] if names else f"layer{index // 4}/block{index % 4}/conv{index}+batchnormalization{index}:contraction"
        kind = names[-1 - index % len(names)] if names else KINDS[index % len(KINDS)]
        site = _site(name, kind, index, 0.95 * weight / sum(weights), tries, rng)
        sites.append(site)
        for number in range(site.tried):
            attempts.append(_attempt(site, number, 0.4 * len(attempts) + 1, rng))
        if site.outcome == Outcome.CONFIRMED and site.share is not None and site.best is not None:
            best -= site.share * (1 - site.best.value)
            at = attempts[-1].at
            milestones.append(Milestone(Ratio(best * 0.995), len(attempts), at))
            if index % 9 == 2:
                milestones.append(Milestone(Ratio(best, best - 0.005, best + 0.005), len(attempts), at, confirmed=True))
    tests = [_self_test(sites[index % count], rng) for index in range(6 * count)]
    faults = [StoryFault(a.kind, a.site, a.text, a.state, a.message, '{"version": 2}\n') for a in attempts if a.state == State.CRASHED][:20]
    spent = 0.4 * len(attempts) + 20
    run = Run(names[0] if names else "resnet50-v1", "0a5c", "target", 1, seed, 600.0, spent, "finished", best, best - 0.004, best + 0.004)
    return Story(run, PROVENANCE, "7", "stepwell tune resnet50.onnx --budget 10m --seed 0", UNTUNED, sites, attempts, milestones, tests, faults)


def _site(name: str, kind: str, index: int, share: float, tries: int, rng: random.Random) -> Site:
    outcome = OUTCOMES[index % len(OUTCOMES)]
    value = rng.uniform(0.8, 0.99) if outcome == Outcome.CONFIRMED else rng.uniform(0.98, 1.03)
    ratio = Ratio(value, value - rng.uniform(0.002, 0.009), value + rng.uniform(0.002, 0.009))
    is_tried, saved = outcome != Outcome.UNTRIED, UNTUNED * share * (1 - value) if outcome == Outcome.CONFIRMED else None
    return Site(
        kind, name, "unroll.1=4 vector=4", outcome, (name,), share, 10 ** (index % 5 + 1), tries if is_tried else 0, ratio if is_tried else None,
        f"unroll.1=2 width={index}", saved,
    )  # fmt: skip


def _attempt(site: Site, number: int, at: float, rng: random.Random) -> Attempt:
    measured, failed = math.exp(rng.gauss(0.15, 0.25)), rng.random() < 0.1
    state, message = (State.CRASHED, "signal 11") if failed else (State.BUILT, "")
    ratio = None if failed else Ratio(measured, measured * 0.99, measured * 1.01)
    predicted = measured * math.exp(rng.gauss(0, 0.15))
    return Attempt(site.kind, site.name, f"candidate {number}", "annealing", state, message, at, predicted, ratio)


def _self_test(site: Site, rng: random.Random) -> SelfTest:
    value, error = math.exp(rng.gauss(0, 0.002)), rng.uniform(0.003, 0.006)
    return SelfTest(site.kind, site.name, Phase.SEARCH, Ratio(value, value - error, value + error))


def failed_story() -> Story:
    """A run in which every candidate failed."""
    sites = [Site("schedule", "conv", "unroll.1=4", Outcome.KEPT, ("conv",), 0.9, 1000, 3)]
    attempts = [Attempt("schedule", "conv", f"c{i}", "random", State.CRASHED, "signal 11", None, 1.1) for i in range(3)]
    faults = [StoryFault("schedule", "conv", a.text, a.state, a.message, '{"version": 2}') for a in attempts]
    run = Run("net", "0a5c", "target", 2, 1, 30.0, 30.0, "interrupted")
    return Story(run, PROVENANCE, sites=sites, attempts=attempts, faults=faults)
