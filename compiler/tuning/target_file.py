"""A plugin file with a target whose costs were fitted to records."""

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import datetime

from stepwell.dialects.support.names import printable
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.description import Target
from stepwell.tuning.ranking_quality import BEST
from stepwell.tuning.training import Quality, Training

SUFFIX = "-tuned"
WIDTH = 120
"""The length of lines, in characters, that is exceeded only by a single long value."""


def tuned_target(training: Training) -> Target:
    """The target with the fitted costs, under a name of its own: `host-tuned` for the host."""
    target = training.target
    return replace(target, name=target.name.removesuffix(SUFFIX) + SUFFIX, costs=training.costs)


def target_file(training: Training, when: datetime) -> str:
    """The text of a plugin that registers the tuned target, for `--load FILE.py --target NAME`."""
    target, usual = tuned_target(training), Costs()
    name = printable(target.name).replace("\\", "\\\\").replace('"', '\\"')  # in a docstring
    source = f"{training.candidates} schedules of {training.workloads} ops in {len(training.held_out)} networks"
    told = [
        f"# {printable(found.network)}: {found.candidates} schedules of {found.workloads} ops, {change(found.before, found.after)}"
        for found in training.held_out
    ]
    simple = [f"{field}={getattr(target, field)!r}" for field in ("vector_bits", "vector_registers", "fma", "cores", "contraction", "vector_maths")]
    costs = [f"{field.name}={value!r}" for field in fields(usual) if (value := getattr(target.costs, field.name)) != getattr(usual, field.name)]
    lines = [
        *_filled([f"name={target.name!r}", f"triple={target.triple!r}", f"cpu={target.cpu!r}"], 4),
        "    features=frozenset({", *_filled(map(repr, sorted(target.features)), 8), "    }),",
        *_filled(simple, 4),
        f"    caches={target.caches!r},",
        f"    pipes={target.pipes!r},",
        "    costs=Costs(", *_filled(costs, 8), "    ),",
    ]  # fmt: skip
    return "\n".join([
        '"""A target whose costs were fitted to measured times of its schedules.',
        "",
        f"    stepwell compile model.onnx --load FILE.py --target {name}",
        "",
        f"`stepwell tuning train` wrote it on {when:%Y-%m-%d} at {when:%H:%M}, from {source}.",
        f"In networks that were left out: {change(training.before, training.after)}.",
        '"""',
        "",
        "from stepwell.plugin import Caches, Costs, Pipes, Target, register_target",
        "",
        "# Each network was predicted by costs that were fitted to the others.",
        *told,
        "TARGET = Target(",
        *lines,
        ")  # fmt: skip",
        f"register_target({target.name!r}, TARGET)",
        "",
    ])  # fmt: skip


def change(before: Quality, after: Quality) -> str:
    """The quality of predictions before and after a fit, such as `rank correlation 0.71 before, 0.83 after; regret 1.04 before, 1.01 after`."""
    parts = [("rank correlation", before.correlation, after.correlation), (f"regret of the best {BEST}", before.regret, after.regret)]
    return "; ".join(f"{what} {old:.2f} before, {new:.2f} after" for what, old, new in parts if old is not None and new is not None)


def _filled(parts: Iterable[str], indent: int) -> list[str]:
    """Lines of parts, each followed by a comma, as many in a line as its length allows."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= WIDTH:
            lines[-1] += f" {part},"
        else:
            lines.append(f"{' ' * indent}{part},")
    return lines
