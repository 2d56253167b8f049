"""The plan in use, as a table: what a given plan or tuning records decided in a compilation."""

from typing import TYPE_CHECKING

from stepwell.cli.display import print_table, say

if TYPE_CHECKING:
    from stepwell.database.records import Decision
    from stepwell.pipelines.lowered import Lowered

COLUMNS = ("decided by", "kind", "site", "candidate", "time")


def show_plan_in_use(lowered: "Lowered", threads: int | None) -> None:
    """Print every decision of a plan or of tuning records for this number of threads, with the measured time relative to the default's."""
    rows = rows_of(lowered, threads)
    if not rows:
        say("plan in use: none, all decisions are the compiler's")
    print_table(COLUMNS, rows, title="plan in use:")


def rows_of(lowered: "Lowered", threads: int | None) -> list[list[str]]:
    """The rows of the table."""
    from stepwell.dialects.target.cores import thread_count
    from stepwell.driver.recorded import LocalRecords

    choices, recorded = lowered.state.choices, lowered.state.choices.recorded
    file = "" if choices.plan is None else choices.plan.name
    rows = [[file, choice.site.kind, choice.site.name, choice.chosen, ""] for choice in choices.made if choice.planned]
    if recorded is None:
        return rows
    records = LocalRecords.wanted(lowered.options, thread_count(threads))
    measured = {} if records is None else records.evidence(recorded, lowered.target.digest)
    source = "records of single kernels" if recorded.plan is None else "the plan in the records"
    return rows + [
        [source, taken.kind, taken.what if taken.is_of_kernel else taken.site, taken.candidate, _ratio(measured.get(place))]
        for place, taken in recorded.taken.items()
    ]


def _ratio(decision: "Decision | None") -> str:
    """The time relative to the default's, with its confidence interval."""
    return "" if decision is None else f"{decision.ratio:.3f} ({decision.low:.3f} to {decision.high:.3f})"
