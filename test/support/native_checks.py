"""Small models that are compiled and judged: each at once, or all of a test in a few models at its end."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from collected import Collected
from every import running
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


def results_of(checks: Sequence[Check]) -> list[list[Arrays]]:
    """What the models of checks give, each time that they run: several are one model."""
    if len(checks) == 1:
        return [checks[0].runs(checks[0].model, checks[0].inputs)]
    given = {f"c{i}_{name}": array for i, one in enumerate(checks) for name, array in one.inputs.items()}
    runs = checks[0].runs(joined([one.model for one in checks]), given)
    return [[{o.name: found[f"c{i}_{o.name}"] for o in one.model.graph.output} for found in runs] for i, one in enumerate(checks)]


def judge_all(one: Check, runs: Sequence[Arrays]) -> None:
    """Raise what is wrong with the results of a check."""
    for results in runs:
        one.judge(results)


def batches(checks: Sequence[Check]) -> list[list[Check]]:
    """Checks in groups whose models can be joined."""
    groups: dict[Hashable, list[Check]] = {}
    for number, one in enumerate(checks):
        made = kind(one.model)
        groups.setdefault(number if made is None else (made, one.options, one.threads), []).append(one)
    return [group[start : start + TOGETHER] for group in groups.values() for start in range(0, len(group), TOGETHER)]


_collected = Collected("model", batches, results_of, judge_all)
natively_together = _collected.at_the_end
"""Compile the models that a test of many cases checks (see `every`) together, once all are drawn up; those that fail are named."""


def check(one: Check) -> None:
    """Compile, run and judge a model: now, or at the end of a test of `natively_together`."""
    _collected.check(one if one.name else replace(one, name=f"model {len(_collected.waiting or ())}"))


def check_model(model: ModelProto, inputs: Arrays, judge: Callable[[Arrays], None], *, threads: Sequence[int] = (), **options: Any) -> None:
    """As `check`, called after the case that runs (see `every`)."""
    check(Check("-".join(running), model, inputs, judge, tuple(options.items()), tuple(threads)))
