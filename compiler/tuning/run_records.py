"""Runs of tuning as the database has them: their results and their stories."""

from typing import TYPE_CHECKING

from stepwell.database.of_run import records_of_run
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError, shown
from stepwell.tuning.recorded import SiteRecords, story_from_records
from stepwell.tuning.story import Ratio, Story
from stepwell.tuning.tuner import Tuned

if TYPE_CHECKING:
    from stepwell.database.database import Database
    from stepwell.database.records import Run, RunRecord

RECORDED = "recorded"
"""The status of a result that earlier runs found."""


def recorded_result(database: "Database", run: "Run") -> Tuned:
    """The best result that earlier runs on this machine confirmed for a network, of which there is one; without a plan if none."""
    alike = [
        record for record in database.runs()
        if record.machine == database.machine
        and (record.run.content, record.run.target, record.run.threads) == (run.content, run.target, run.threads)
    ]  # fmt: skip
    with_plan = [record for record in alike if record.run.plan and record.run.ratio is not None]
    if not with_plan:
        return Tuned(None, None, RECORDED, _story(database, alike[-1]))
    best = min(with_plan, key=lambda record: record.run.ratio or 1.0)
    ratio = Ratio(best.run.ratio or 1.0, best.run.low or 0.0, best.run.high or 1.0)
    return Tuned(Plan.parse(best.run.plan, "tuning records"), ratio, RECORDED, _story(database, best))


def find_story(database: "Database", identifier: str | None) -> Story:
    """The story of the run with that number, or of the last one. Raises InputError if there is none."""
    runs = database.runs()
    found = [record for record in runs if identifier in (None, str(record.id))]
    if not found:
        known = ", ".join(str(record.id) for record in runs[-5:])
        raise InputError(f"run: expected one of the records ({known or 'there are none'}), got {shown(identifier)}")
    return _story(database, found[-1])


def _story(database: "Database", record: "RunRecord") -> Story:
    sites = [
        SiteRecords(one.workload, one.info, one.candidates, one.samples, one.decision) for one in records_of_run(database, record.id)
    ]  # fmt: skip
    return story_from_records(record.run, record.provenance, sites, identifier=str(record.id))
