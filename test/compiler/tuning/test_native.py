"""Kernels and networks that are tuned, in native code: built alone, run in place, compared bit by bit, timed in processes of their own."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepwell
from stepwell.database.records import State
from stepwell.dialects.support.errors import InputError, ScheduleError, UnsupportedError
from stepwell.options import CompileOptions
from stepwell.tuning.builds import KernelBuild, compiled_kernel
from stepwell.tuning.device import WHOLE, Arm, Built, Contest, Fault, Measurement, Turns
from stepwell.tuning.executor import LocalExecutor
from stepwell.tuning.measuring import PARTS
from stepwell.tuning.native import NativeDevice
from stepwell.tuning.network import Network
from stepwell.tuning.subject import site_key

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx")
HOW = CompileOptions(shapes={"image": (1, 1, 8, 8)})


@pytest.fixture(scope="module")
def executor():
    found = LocalExecutor(2)
    yield found
    found.close()


@pytest.fixture(scope="module")
def network(executor):
    return Network(DIGITS, HOW, name="digits", threads=1, put=executor.store.put)


@pytest.fixture(scope="module")
def device(network, executor):
    return NativeDevice(network.program, executor, 1)


def kernel_part(network):
    """The part of a convolution, and the site of its contraction."""
    for part in network.parts:
        for site in part.sites:
            if site.info.name.endswith(":contraction") and part.name != PARTS and site.space.size() > 100:
                return part, site
    raise AssertionError


def test_a_kernel_built_alone_has_the_code_that_it_has_in_the_network(network):
    for name, kernel in network._kernels.items():
        assert compiled_kernel(kernel, {}, HOW).code == network.program.objects[name]


def test_every_bit_of_a_candidate_is_compared(network, device):
    part, site = kernel_part(network)
    others = list(site.space.near(site.space.default))[:6]
    built = device.build([network.request(part.name, {site_key(site): text}) for text in others], 60.0)
    assert all(isinstance(one, Built) for one in built)
    kernel = network._kernels[part.name]
    wrong_text = re.sub(r"arith\.addf (%\w+), (%\w+)", r"arith.subf \1, \2", kernel.text, count=1)
    assert wrong_text != kernel.text
    [wrong] = device.build([KernelBuild(replace(kernel, text=wrong_text), {}, HOW)], 60.0)
    assert isinstance(wrong, Built)
    arms = [Arm("", part.default), Arm("", part.default), *(Arm(text, one) for text, one in zip(others, built, strict=True)), Arm("wrong", wrong)]
    found = device.check([Contest(part.name, tuple(arms))], 60.0)[part.name]
    assert [fault is None for fault in found] == [True] * (len(arms) - 1) + [False]
    assert found[-1] == Fault(State.DIFFERS, "its results have other bits than the default's")


def test_code_that_cannot_run_is_a_fault_of_its_own(network, device):
    part, _ = kernel_part(network)
    code = part.default.code
    damaged = Built("damaged", replace(code, code=code.code[:100]))
    contest = Contest(part.name, (Arm("", part.default), Arm("", part.default), Arm("sound", part.default), Arm("damaged", damaged)))
    found = device.check([contest], 60.0)[part.name]
    assert [None if fault is None else fault.state for fault in found] == [None, None, None, State.FAILED]
    assert isinstance(device.measure(Measurement((contest,), ({part.name: 3},))), Fault)


def test_kernels_are_timed_in_the_network(network, device):
    part, _ = kernel_part(network)
    contests = (Contest(part.name, (Arm("", part.default), Arm("", part.default))),)
    turns = tuple({part.name: number % 2} for number in range(8))
    found = device.measure(Measurement(contests, turns))
    assert isinstance(found, Turns)
    assert len(found.samples) == len(found.disturbed) == 8
    assert all(sample[part.name].cpu > 0 and sample[part.name].wall > 0 for sample in found.samples)
    assert found.seconds >= sum(sample[part.name].wall for sample in found.samples)
    two = device.measure(Measurement(contests, turns[:2], threads=2))
    assert isinstance(two, Turns)
    assert all(sample[part.name].cpu is None for sample in two.samples)


def test_networks_are_timed_as_a_whole_and_where_they_differ(network, device):
    parts = next(part for part in network.parts if part.name == PARTS)
    site = next(site for site in parts.sites if site.kind == "fusion")
    other = next(text for text in site.space.every() if text != site.space.default)
    [built] = device.build([network.request(PARTS, {site_key(site): other})], 120.0)
    assert isinstance(built, Built)
    arms = (Arm("", parts.default), Arm("", parts.default), Arm(other, built))
    for name in (WHOLE, PARTS):
        contest = Contest(name, arms)
        assert device.check([contest], 60.0)[name] == [None, None, None]
        found = device.measure(Measurement((contest,), tuple({name: number % 3} for number in range(6))))
        assert isinstance(found, Turns)
        assert all(sample[name].cpu > 0 for sample in found.samples)


def test_a_plan_that_was_tuned_keeps_every_bit(executor, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path / "tuning.sqlite"))
    data = {"image": np.random.default_rng(3).standard_normal((1, 1, 8, 8)).astype(np.float32)}
    result = stepwell.tune(DIGITS, budget=3.0, floors=("schedule",), inputs=data, executor=executor, options=HOW)
    assert result.status == "finished"
    assert sum(site.tried for site in result.story.sites) > 0
    want = stepwell.compile(DIGITS, options=HOW, threads=1).run(data)
    if result.plan is not None:
        got = stepwell.compile(DIGITS, options=replace(HOW, plan=result.plan), threads=1).run(data)
        assert all(got[name].tobytes() == want[name].tobytes() for name in want)
    again = stepwell.tune(DIGITS, budget=3.0, floors=("schedule",), inputs=data, executor=executor, options=HOW)
    assert again.status == "recorded"
    assert (again.plan is None) == (result.plan is None)


def test_what_cannot_be_tuned_says_why(network, executor, tmp_path):
    part, site = kernel_part(network)
    bad = network.request(part.name, {site_key(site): "order=0 vector=99 width=3"})
    with pytest.raises(ScheduleError, match=f"kernel '{part.name}', op {site.op}"):
        bad.answer()
    with pytest.raises(InputError, match="floors: expected"):
        stepwell.tune(DIGITS, budget=1.0, floors=("cellar",), options=HOW)
    with pytest.raises(InputError, match="budget: expected"):
        stepwell.tune(DIGITS, budget=0.0, options=HOW)
    with pytest.raises(InputError, match="inputs: expected image"):
        Network(DIGITS, HOW, name="digits", threads=1, put=executor.store.put, inputs={"picture": np.zeros(3)})
    with pytest.raises((UnsupportedError, stepwell.ModelError), match="image"):
        Network(DIGITS, CompileOptions(), name="digits", threads=1, put=executor.store.put)
