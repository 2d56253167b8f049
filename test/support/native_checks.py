"""Small models that are compiled and judged: each at once, or all of a test in a few models at its end."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
from every import message, running
from joined_models import TOGETHER, joined, kind
from onnx import ModelProto

import stepwell

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Check:
    """A model, what it is given, and what fails where its results are not right; `options` are of `stepwell.compile`.

    It is compiled once, and runs on each number of `threads`, if there are some.
    """

    name: str
    model: ModelProto
    inputs: Arrays
    judge: Callable[[Arrays], None]
    options: tuple[tuple[str, Any], ...] = ()
    threads: tuple[int, ...] = ()

    def runs(self, model: ModelProto, inputs: Arrays) -> list[Arrays]:
        """What a model gives that is compiled with this one's options."""
        compiled = self.compile(model)
        results = [] if self.threads else [compiled.run(inputs)]
        for count in self.threads:
            compiled.threads = count
            results.append(compiled.run(inputs))
        return results

    def compile(self, model: ModelProto) -> Any:
        """A model with this one's options."""
        return stepwell.compile(model, **dict(self.options))


_waiting: list[Check] | None = None


def check(one: Check) -> None:
    """Compile, run and judge a model: now, or at the end of a test of `natively_together`."""
    if _waiting is not None:
        _waiting.append(one if one.name else replace(one, name=f"model {len(_waiting)}"))
    else:
        for results in one.runs(one.model, one.inputs):
            one.judge(results)


def check_model(model: ModelProto, inputs: Arrays, judge: Callable[[Arrays], None], *, threads: Sequence[int] = (), **options: Any) -> None:
    """As `check`, called after the case that runs (see `every`)."""
    check(Check("-".join(running), model, inputs, judge, tuple(options.items()), tuple(threads)))


def natively_together(test: Callable[..., None]) -> Callable[..., None]:
    """Compile the models that a test of many cases checks (see `every`) together, once all are drawn up; those that fail are named."""

    @wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        global _waiting
        waiting: list[Check] = []
        _waiting = waiting
        try:
            test(*arguments, **fixtures)
        finally:
            _waiting = None
        assert waiting, "the test checks no model"
        failed = [failure for batch in batches(waiting) for failure in failures(batch)]
        if failed:
            raise AssertionError(message(failed, len(waiting))) from failed[0][1]

    return run


def batches(checks: Sequence[Check]) -> list[list[Check]]:
    """Checks in groups whose models can be joined."""
    groups: dict[Hashable, list[Check]] = {}
    for number, one in enumerate(checks):
        made = kind(one.model)
        groups.setdefault(number if made is None else (made, one.options, one.threads), []).append(one)
    return [group[start : start + TOGETHER] for group in groups.values() for start in range(0, len(group), TOGETHER)]


def failures(checks: Sequence[Check]) -> list[tuple[str, Exception]]:
    """What is wrong, by the names of the checks. Of models that fail together each half is tried by itself, down to a single one."""
    try:
        if len(checks) == 1:
            all_results = [checks[0].runs(checks[0].model, checks[0].inputs)]
        else:
            given = {f"c{i}_{name}": array for i, one in enumerate(checks) for name, array in one.inputs.items()}
            runs = checks[0].runs(joined([one.model for one in checks]), given)
            all_results = [
                [{o.name: found[f"c{i}_{o.name}"] for o in one.model.graph.output} for found in runs] for i, one in enumerate(checks)
            ]
    except Exception as error:  # whatever it is, it is the failure of one of them
        middle = len(checks) // 2
        return [(checks[0].name, error)] if not middle else [*failures(checks[:middle]), *failures(checks[middle:])]
    failed: list[tuple[str, Exception]] = []
    for one, runs in zip(checks, all_results, strict=True):
        try:
            for results in runs:
                one.judge(results)
        except Exception as error:  # an assertion, mostly
            failed.append((one.name, error))
    return failed
