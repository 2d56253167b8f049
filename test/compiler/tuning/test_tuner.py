"""The tuner on a simulated device: what it finds, keeps, rolls back, and survives."""

import math
import multiprocessing
import os
import signal

import pytest
from tuned_lists import ListedSubject, simulated

from stepwell.database.database import Database
from stepwell.database.records import Provenance, Run, State
from stepwell.dialects.support.errors import InputError
from stepwell.tuning.recorder import Recorder
from stepwell.tuning.tuner import Settings, Tuned, Tuner

NOWHERE = Provenance("t", "simulated", (), (), 2, "", "")
GAINS = {"k0": {"n=3": -0.2, "n=4": -0.1}, "k1": {"n=7": -0.08}, "k2": {}, "k3": {}}


def tune(device, database=None, *, subject=None, rounds=4, confirmations=2, budget=1e6, threads=1, **more) -> Tuned:
    settings = Settings(budget, threads=threads, rounds=rounds, processes=6, confirmations=confirmations, strategy="exhaustive")
    run = Run("simulated", "c", "t", threads, 0, budget)
    tuner = Tuner(subject or ListedSubject(device), device, settings, Recorder(database, run, NOWHERE), NOWHERE, clock=lambda: 0.0, **more)
    return tuner.run()


def test_it_finds_confirms_and_plans_the_best_candidates():
    result = tune(simulated(1, GAINS))
    assert result.status == "finished"
    assert result.plan is not None
    assert result.plan.choices == {"schedule": {"k0": "n=3", "k1": "n=7"}}
    truth = (math.exp(-0.2) + math.exp(-0.08) + 2) / 4
    assert result.ratio is not None
    assert result.ratio.low < truth < result.ratio.high
    assert result.ratio.value == pytest.approx(truth, abs=0.01)


def test_a_network_that_cannot_be_improved_has_no_plan():
    found = [tune(simulated(seed, {"k0": {}, "k1": {}, "k2": {}})).plan for seed in range(20)]
    assert found.count(None) >= 19


def test_equal_seeds_give_equal_results():
    one, other = (tune(simulated(3, GAINS)) for _ in range(2))
    assert one.plan is not None
    assert other.plan is not None
    assert one.plan.text == other.plan.text
    assert one.ratio == other.ratio


def test_candidates_that_fail_crash_hang_or_differ_cost_only_themselves():
    device = simulated(5, GAINS, failing=0.1, crashing=0.1, hanging=0.1, differing=0.1)
    device.sites["k0"].faults["n=4"] = State.DIFFERS  # type: ignore[index]  # it is a dict
    for text in ("n=3", "n=7"):
        for site in device.sites.values():
            site.faults[text] = State.BUILT  # type: ignore[index]
    result = tune(device)
    assert result.plan is not None
    assert result.plan.choices["schedule"] == {"k0": "n=3", "k1": "n=7"}
    states = {fault.state for fault in result.story.faults}
    assert State.DIFFERS.value in states
    differing = next(fault for fault in result.story.faults if fault.text == "n=4" and fault.site == "k0")
    assert '"k0": "n=4"' in differing.plan


def test_ctrl_c_keeps_what_is_confirmed():
    plans = []

    def stop(plan):
        plans.append(plan)
        raise KeyboardInterrupt

    result = tune(simulated(1, GAINS), on_plan=stop)
    assert result.status == "interrupted"
    assert result.plan is plans[0]


def test_records_are_kept_and_used_again(tmp_path):
    device = simulated(1, GAINS)
    with Database.opened(tmp_path / "t.sqlite", machine="m") as database:
        first = tune(device, database)
        assert first.plan is not None
        assert database.plan("c", "t", 1) == first.plan.text
        assert {workload.content: decision.text for workload, decision in database.decisions("t", 1).items()} == {"k0": "n=3", "k1": "n=7"}
        tried = {site.name: site.tried for site in first.story.sites}
        built = []

        class Counting(type(device)):
            def build(self, requests, timeout):
                built.extend(requests)
                return super().build(requests, timeout)

        again = tune(Counting(**vars(device)), database, subject=ListedSubject(device))
        assert again.plan is not None
        assert again.plan.choices == first.plan.choices
        assert sum(tried.values()) > len(built) > 0  # the winners, the whole network, and nothing that was tried before


def test_a_killed_tuning_is_resumed(tmp_path):
    device = simulated(1, GAINS)

    def build_and_be_killed(path):
        class Killed(type(device)):
            built = 0

            def build(self, requests, timeout):
                Killed.built += len(requests)
                if Killed.built > 12:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().build(requests, timeout)

        with Database.opened(path, machine="m") as database:
            tune(Killed(**vars(device)), database, subject=ListedSubject(device))

    child = multiprocessing.get_context("fork").Process(target=build_and_be_killed, args=(tmp_path / "t.sqlite",))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    with Database.opened(tmp_path / "t.sqlite", machine="m") as database:
        before = {(record[0].content, record[2].text) for record in database.records()}
        assert before
        result = tune(device, database)
        assert result.plan is not None
        assert result.plan.choices == {"schedule": {"k0": "n=3", "k1": "n=7"}}
        after = {(record[0].content, record[2].text) for record in database.records()}
        assert before < after
        assert [record.run.status for record in database.runs()] == ["running", "finished"]


def test_settings_are_checked():
    for name, value in (("budget", 0.0), ("budget", math.inf), ("threads", 0), ("batch", 0), ("strategy", "none")):
        with pytest.raises(InputError, match=name):
            Settings(**{"budget": 1.0, name: value})
