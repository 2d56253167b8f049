"""Fits of costs to records: planted constants come back, what no record shows stays, and the file with the fitted costs is a target."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from commands import DIGITS
from planted_costs import MACHINE, NETWORKS, records, schedules

import stepwell
from stepwell import plugin_files
from stepwell.cli import tuning_train
from stepwell.cli.common import OK, Parser, UsageError
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.target import registry
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.numbers import Pipes
from stepwell.dialects.target.registry import resolve
from stepwell.passes.schedule.quantities import quantities_of
from stepwell.tuning import training as training_module
from stepwell.tuning.target_file import target_file, tuned_target
from stepwell.tuning.training import AT_BOUND, FITTED, RATES, UNUSED, Measured, _largest, _stacked, constants_of, fit, measured_schedules, train

PLANTED = replace(MACHINE.costs, bytes_per_cycle=(48.0, 5.0, 6.0), tile_start=24.0, window=512.0, exposed=0.25)
"""A second cache at a third of the bandwidth that is assumed, transfers that overlap less, and tiles that take longer to begin but overlap more."""


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the machine, and leave the registries as they were."""
    monkeypatch.setattr(registry, "_REGISTERED", {**registry._REGISTERED, MACHINE.name: MACHINE})
    monkeypatch.setattr(plugin_files, "_loaded", dict(plugin_files._loaded))


def test_arrays_have_the_predictions_of_single_nests() -> None:
    nests = [quantities_of(features) for candidates in schedules().values() for _, features in candidates]
    assert len(nests) > 200
    for costs in (MACHINE.costs, PLANTED):
        single = [nest.cycles(MACHINE.pipes, costs, max) for nest in nests if nest is not None]
        assert _stacked([nest for nest in nests if nest is not None]).cycles(MACHINE.pipes, costs, _largest) == pytest.approx(single, rel=1e-12)


def test_planted_costs_are_found_and_order_networks_that_were_left_out() -> None:
    training = train(records(PLANTED), MACHINE)
    found, planted = constants_of(training.costs), constants_of(PLANTED)
    for name in ("bytes_per_cycle[0]", "bytes_per_cycle[1]", "bytes_per_cycle[2]", "exposed", "window", "fold"):
        assert found[name] == pytest.approx(planted[name], rel=0.02), name
    # Most tiles have two loops inside: the sum of what they start with is known better than its parts.
    assert found["tile_start"] == pytest.approx(24, rel=0.15)
    assert found["tile_start"] + 2 * found["loop_start"] == pytest.approx(30, rel=0.03)
    assert [one.network for one in training.held_out] == sorted(NETWORKS)
    for one in training.held_out:
        assert one.before.correlation is not None
        assert one.before.correlation < 0.98
        assert one.after.correlation == pytest.approx(1, abs=0.005), one.network
        assert one.after.regret == pytest.approx(1)
    assert training.is_better
    assert training.unusable == 0
    others = replace(training.costs, **{name: getattr(MACHINE.costs, name) for name in (RATES, *FITTED)})
    assert others == MACHINE.costs


def test_a_network_is_predicted_by_costs_fitted_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[set[str]] = []

    def noted(measured: Sequence[Measured], pipes: Pipes, costs: Costs) -> tuple[Costs, dict[str, str]]:
        fitted.append({name for one in measured for name in one.networks})
        return (PLANTED if len(fitted) == 2 else costs), dict.fromkeys(constants_of(costs), "")

    monkeypatch.setattr(training_module, "fit", noted)
    held_out = train(records(PLANTED), MACHINE).held_out
    assert fitted == [*({*NETWORKS} - {network} for network in sorted(NETWORKS)), {*NETWORKS}]
    assert [one.after == one.before for one in held_out] == [True, False, True, True]
    assert held_out[1].after.correlation == pytest.approx(1)


def test_noise_and_outliers_cost_little() -> None:
    training = train(records(PLANTED, noise=0.03, outliers=0.1), MACHINE)
    found = constants_of(training.costs)
    assert found["bytes_per_cycle[1]"] == pytest.approx(5, rel=0.05)
    assert found["exposed"] == pytest.approx(0.25, rel=0.08)
    assert 14 < found["tile_start"] < 34
    assert training.is_better


def test_constants_without_evidence_stay() -> None:
    """On one core no threads start; and without vectors along a sum nothing is folded."""
    alone = [
        (*rest, replace(candidate, features={**candidate.features, "starts": 0.0, "folds": 0.0}), samples, network)
        for *rest, candidate, samples, network in records(replace(PLANTED, fold=3.0, threads_start=30000.0), noise=0.01)
    ]
    training = train(alone, MACHINE)
    for one in training.constants:
        assert (one.note == UNUSED) == (one.name in ("fold", "threads_start")), one
        assert one.note != UNUSED or one.after == one.before


def test_a_constant_moves_by_a_factor_of_four_at_most() -> None:
    measured, _ = measured_schedules(records(replace(PLANTED, bytes_per_cycle=(48.0, 1.0, 6.0), exposed=0.1, tile_start=8.0)), MACHINE)
    costs, notes = fit(measured, MACHINE.pipes, MACHINE.costs)
    assert (costs.bytes_per_cycle[1], notes["bytes_per_cycle[1]"]) == (4.0, AT_BOUND)
    whole = replace(MACHINE.costs, exposed=0.8, fold=0.0)
    costs, notes = fit(measured, MACHINE.pipes, whole)
    assert costs.exposed <= 1  # it is a fraction
    assert "fold" not in notes  # no factor changes zero
    assert costs.fold == 0
    assert fit([], MACHINE.pipes, MACHINE.costs)[0] == MACHINE.costs


def test_only_schedules_of_the_target_with_their_quantities_count() -> None:
    every = list(records(PLANTED, networks=("mixed", "small")))
    others = [(replace(workload, target="another"), *rest) for workload, *rest in every]
    panels = [(replace(workload, kind="panels"), *rest) for workload, *rest in every]
    bare = [(*rest, replace(candidate, features={"compute": inf}), samples, network) for *rest, candidate, samples, network in every[:5]]
    measured, unusable = measured_schedules([*others, *panels, *every[5:], *bare], MACHINE)
    assert len(measured) == 6
    assert unusable == 5
    assert sum(len(one.log_ratios) for one in measured) == len(every) - 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "got 0 of 0 in 0"),
        (["products"], "got 72 of 3 in 1"),
        (["products", "mixed"], "got 133 of 6 in 2"),
    ],
)
def test_too_few_records_are_refused(given: list[str], said: str) -> None:
    with pytest.raises(InputError, match=f"at least 64 measured schedules of 8 ops in 2 networks for target 'planted', {said}; `stepwell tune`"):
        train(records(PLANTED, networks=given), MACHINE)


def test_a_fit_that_helps_no_other_network_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Times by the present costs: there is nothing to gain."""
    options, find = parsed("--target", MACHINE.name), lambda: records(MACHINE.costs)
    assert tuning_train.execute(options, find) == OK
    assert "keep the present ones" in capsys.readouterr().out


def parsed(*arguments: str) -> argparse.Namespace:
    parser = Parser()
    tuning_train.add_options(parser)
    return parser.parse_args(arguments)


def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "costs.py"

    def find() -> Iterator:
        yield from records(PLANTED, noise=0.01)

    assert tuning_train.execute(parsed("--target", MACHINE.name), find) == OK
    out = capsys.readouterr().out
    assert all(text in out for text in ("network left out", *NETWORKS, "bytes_per_cycle[1]", "rank correlation"))
    assert tuning_train.execute(parsed("--target", MACHINE.name, "--json", "-o", str(file)), find) == OK
    told = json.loads(capsys.readouterr().out)
    assert (told["target"], told["tuned"], told["file"]) == ("planted", "planted-tuned", str(file))
    assert told["after"]["correlation"] > told["before"]["correlation"]
    assert [one["network"] for one in told["held_out"]] == sorted(NETWORKS)
    plugin_files.load_file(file)
    loaded = resolve("planted-tuned")
    assert loaded == replace(MACHINE, name="planted-tuned", costs=loaded.costs)
    assert constants_of(loaded.costs) == {one["name"]: one["after"] for one in told["constants"]}
    for wrong in ("costs", str(tmp_path / "nowhere" / "costs.py")):
        with pytest.raises(UsageError, match="expected the name of a Python file"):
            tuning_train.execute(parsed("-o", wrong), find)
    with pytest.raises(UsageError, match="unknown target 'none'"):
        tuning_train.execute(parsed("--target", "none"), find)


def test_the_file_is_a_target_for_which_models_are_compiled(tmp_path: Path) -> None:
    host = resolve("host")
    evil = 'a\n"""\nraise SystemExit'  # names of networks come from files
    found = train(records(PLANTED), MACHINE)
    training = replace(found, target=host, held_out=(replace(found.held_out[0], network=evil), *found.held_out[1:]))
    file = tmp_path / "tuned.py"
    file.write_text(target_file(training, datetime(2026, 12, 1, 9, 30)))
    assert "2026-12-01 at 09:30" in file.read_text()
    plugin_files.load_file(file)
    assert resolve("host-tuned") == tuned_target(training)
    assert resolve("host-tuned").digest == host.digest
    assert tuned_target(replace(training, target=tuned_target(training))).name == "host-tuned"
    image = np.random.default_rng(3).standard_normal((2, 1, 8, 8), np.float32)
    model = stepwell.compile(DIGITS, target="host-tuned", shapes={"image": image.shape}, threads=1)
    (expected,) = onnxruntime.InferenceSession(DIGITS).run(None, {"image": image})
    (scores,) = model.run({"image": image}).values()
    assert scores == pytest.approx(expected, rel=1e-4, abs=1e-4)
