"""The report on a tuning run: one page of HTML with its tables and pictures, without external files."""

import os
from collections.abc import Sequence
from pathlib import Path

from stepwell.dialects.support.files import write_atomically
from stepwell.dialects.support.names import printable, printable_lines
from stepwell.tuning.figures import FIGURES
from stepwell.tuning.plots import check_packages, svg_element
from stepwell.tuning.story import Outcome, Site, Story
from stepwell.tuning.texts import count_of, duration, percent, time_text

NEEDED = ("matplotlib", "jinja2")
HEADER = ("site", "kind", "share of time", "candidates", "tried", "result", "time relative to default", "saved", "default", "chosen")
NUMBERS = (2, 3, 4, 6, 7)
"""The columns of numbers."""
STATUSES = {"running": "not finished", "interrupted": "interrupted: what had been confirmed by then was kept", "failed": "failed"}


def check_report() -> None:
    """Raise InputError unless the packages for making a page are installed."""
    check_packages(NEEDED)


def rows(story: Story) -> list[list[str]]:
    """The rows of the table of sites, for the columns `HEADER`: the sites that save most first, then by their share of time."""
    ordered = sorted(story.sites, key=lambda site: (-(site.saved or 0.0), -(site.share or 0.0)))
    return [[*map(printable, _cells(site))] for site in ordered]


def _cells(site: Site) -> list[str]:
    space, chosen = "" if site.space is None else f"{site.space:,}", site.chosen if site.outcome == Outcome.CONFIRMED else ""
    best, saved = "" if site.best is None else str(site.best), "" if site.saved is None else time_text(site.saved)
    return [site.name, site.kind, percent(site.share), space, f"{site.tried:,}", site.outcome, best, saved, site.default, chosen]


def summary(story: Story) -> dict[str, str]:
    """The results of the run by the name of each fact; texts are printable."""
    run = story.run
    failed = sum(attempt.measured is None for attempt in story.attempts)
    outcomes = [f"{len(sites)} {outcome}" for outcome in Outcome if (sites := story.with_outcome(outcome))]
    excluded = sum(test.ratio.excludes_one() for test in story.self_tests)
    facts = {
        "network": run.network,
        "whole network, tuned against untuned": "not measured" if story.whole is None else f"{story.whole} (interval at 95 %)",
        "one run of the untuned network": "" if story.untuned is None else time_text(story.untuned),
        "sites": ", ".join([str(len(story.sites)), *outcomes]),
        "candidates": f"{count_of(len(story.attempts), 'candidate')} tried, {failed:,} of them without a measurement",
        "A/A arm": f"{excluded:,} of {count_of(len(story.self_tests), 'interval')} exclude 1" if story.self_tests else "",
        "threads": str(run.threads),
        "budget": f"{duration(run.budget)}, of which {duration(run.spent)} were spent",
        "status": STATUSES.get(run.status, run.status),
    }
    return {name: printable(text) for name, text in facts.items() if text}


def provenance(story: Story) -> dict[str, str]:
    """Where and with what the run was made, by the name of each fact; texts are printable."""
    made, run = story.provenance, story.run
    facts = {
        "run": story.identifier, "model and options": run.content, "target": f"{made.target_name} ({run.target})", "CPU": made.cpu,
        "cores": str(made.cores), "microcode": made.microcode, "caches": ", ".join(f"{size / 1024:,.0f} KiB" for size in made.caches),
        "features": " ".join(made.features), "system": made.system, "seed": str(run.seed), **made.versions,
    }  # fmt: skip
    return {printable(name): printable(text) for name, text in facts.items() if text}


def save_report(path: str | os.PathLike[str], story: Story) -> None:
    """Write the report as one page.

    It has a summary, the command that repeats the run, pictures, the table of sites, decisions that were rolled back, faults with plans to reproduce
    them, and the provenance. Raises InputError if matplotlib or jinja2 is missing, OSError if the file cannot be written.
    """
    check_report()
    from jinja2 import Environment, StrictUndefined

    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(template)
    text = page.render(
        title=f"Tuning of {printable(story.run.network)}", facts=summary(story), provenance=provenance(story), command=printable(story.command),
        pictures=[(name, caption, svg_element(story, name)) for name, (_, caption) in FIGURES.items()],
        header=HEADER, numbers=NUMBERS, sites=rows(story), rolled_back=_rolled_back(story), faults=_faults(story),
        plan=printable_lines(story.run.plan), notes=[printable(note) for note in story.notes],
    )  # fmt: skip
    write_atomically(path, text)


def _rolled_back(story: Story) -> list[Sequence[str]]:
    """For each decision that was rolled back: site, kind, the candidate, its confirmed ratio."""
    return [
        [printable(site.name), printable(site.kind), printable(site.chosen), "" if site.best is None else str(site.best)]
        for site in story.with_outcome(Outcome.ROLLED_BACK)
    ]


def _faults(story: Story) -> list[Sequence[str]]:
    """For each fault: site, kind, candidate, state, message, plan."""
    return [
        [*map(printable, (fault.site, fault.kind, fault.text, fault.state)), printable_lines(fault.message), printable_lines(fault.plan)]
        for fault in story.faults
    ]
