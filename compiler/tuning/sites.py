"""The sites of a model: the places where a tuner may choose, with their search spaces and their keys in the database."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from stepwell.database.records import Workload, WorkloadInfo
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import func, ir, ops_below
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.sched.plan_file import Entry, KernelEntry, Plan
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.choices import Choice
from stepwell.passes.framework.levels import IMPORTED
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg.stages import stages_on_tensors
from stepwell.passes.linalg.structured import Structured, structured_ops
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.candidates import SCHEDULE
from stepwell.passes.schedule.cost_model import body_cost
from stepwell.passes.schedule.kernel_digest import DIGITS, kernel_digest, loops_digest, schedule_content
from stepwell.passes.schedule.nest import Nest
from stepwell.pipelines.lowered import Lowered
from stepwell.tuning.choice_space import Check, ChoiceSpace
from stepwell.tuning.schedule_space import ScheduleSpace

GRAPH, ALGORITHM = "graph", "algorithm"
FLOORS: Mapping[str, str] = {SCHEDULE: SCHEDULE, "fusion": GRAPH, "producers": GRAPH, "loops": GRAPH}
"""Maps kinds of choices to their floors; other kinds, those of plugins too, are on the floor `algorithm`."""
ALL_FLOORS = (SCHEDULE, ALGORITHM, GRAPH)
Relower = Callable[[Plan], Lowered]
"""Lowers the model with a plan to the level of schedules. Raises StepwellError."""


@dataclass(frozen=True, eq=False)
class Site:
    """A place where a tuner may choose."""

    kind: str
    name: str
    """Unique among the sites of its kind: for a schedule the kernel's digest and the index of the op, else the name in plans."""
    floor: str
    """`schedule`, `algorithm` or `graph`."""
    nodes: tuple[str, ...]
    """The ONNX nodes that it computes; those of all launches of a kernel."""
    workload: Workload
    info: WorkloadInfo
    space: ScheduleSpace | ChoiceSpace
    launches: int = 1
    """The number of launches of its kernel in a run, as far as it is known; 1 for a site that belongs to no kernel."""
    kernel: str = ""
    """The digest of the kernel of a schedule."""
    op: int = 0
    """The index of the structured op in it."""

    @property
    def seconds(self) -> float | None:
        """The predicted time of the default in one run: of all launches of a kernel."""
        [seconds] = self.space.predict([self.space.default])
        return None if seconds is None else seconds * self.launches


def floor_of(kind: str) -> str:
    """The floor of a kind of choice."""
    return FLOORS.get(kind, ALGORITHM)


def find_sites(
    lowered: Lowered, *, network: str = "", content: str = "", threads: int = 1, rounding: bool = False, floors: Iterable[str] = ALL_FLOORS,
    relower: Relower | None = None, in_place: Collection[str] = (),
) -> list[Site]:  # fmt: skip
    """The sites of a model at level `scheduled` whose choices were recorded (`lower(…, recording=True)`).

    `network` is the model's name, `content` its digest in tuning records (`network_content`), by default that of its IR. With `rounding`, candidates
    may compute other bits than the default. `relower` finds out, when a candidate is examined (`refusal`), whether the schedules that follow from it
    still sum in the same order. `in_place` are the names of kernels whose result shares memory with an input. The module must live as long as the
    sites.
    """
    wanted, found = set(floors), list[Site]()
    with lowered.module.context:
        if wanted & {ALGORITHM, GRAPH}:
            found += [site for site in _choices(lowered, network, content, threads, rounding, relower) if site.floor in wanted]
        if SCHEDULE in wanted:
            found += _schedules(lowered, network, threads, rounding, in_place)
    return found


def plan_of(chosen: Mapping[Site, str], target: Target | None = None, base: Plan | None = None) -> Plan:
    """The plan that takes these candidates, and otherwise what `base` says; for any machine, or for `target` alone."""
    choices = {kind: dict(sites) for kind, sites in (base.choices if base is not None else {}).items()}
    kernels = dict(base.kernels) if base is not None else {}
    for site, text in chosen.items():
        if isinstance(site.space, ChoiceSpace):
            choices.setdefault(site.kind, {})[site.name] = text
            continue
        op, known = site.space.op, kernels.get(site.kernel, KernelEntry({}, site.info.name.partition(":")[0], site.nodes))
        knobs = {name: list(value) if isinstance(value, tuple) else value for name, value in site.space.knob_values(text).items()}
        entry = Entry(knobs, op.kind, tuple(op.sizes), tuple(node_names(op.operation.location)))
        kernels[site.kernel] = replace(known, ops={**known.ops, site.op: entry})
    about = None if target is None else {"name": target.name, "cpu": target.cpu, "digest": target.digest}
    return Plan(kernels, "tuned plan", about, choices)


# -- schedules -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    """A kernel of a module, with all functions that compute the same."""

    function: func.FuncOp
    digest: str
    calls: list[ir.Operation]


def _kernels(module: ir.Operation) -> list[_Kernel]:
    """The kernels of a module, each once; a version for small sizes is called where its kernel is."""
    calls: dict[str, list[ir.Operation]] = {}
    for call in ops_below(module, "func.call"):
        calls.setdefault(ir.FlatSymbolRefAttr(call.attributes["callee"]).value, []).append(call)
    found: dict[str, _Kernel] = {}
    for function in functions(module):
        info = KernelInfo(function)
        if info.is_kernel:
            own = calls.get(function.sym_name.value if info.version is None else info.version.of, [])
            kernel = found.setdefault(digest := kernel_digest(function.operation), _Kernel(function, digest, []))
            kernel.calls.extend(own)
    return list(found.values())


def _roots(function: func.FuncOp) -> Iterator[tuple[int, Structured]]:
    """The structured ops of a kernel that have nests, by index: fills and epilogues are part of another op's."""
    stages = stages_on_tensors(function.operation)
    inside = {member.operation for stage in stages for member in stage.members if member is not stage.root}
    for place, op in enumerate(structured_ops(function.operation)):
        if op.operation not in inside and ScheduleInfo(op.operation).is_scheduled and 0 not in op.sizes:
            yield place, op


def _schedules(lowered: Lowered, network: str, threads: int, rounding: bool, in_place: Collection[str]) -> Iterator[Site]:
    target = lowered.target
    for kernel in _kernels(lowered.module.operation):
        above = loops_digest(kernel.function.operation)
        for place, op in _roots(kernel.function):
            shares = kernel.function.sym_name.value in in_place
            space = ScheduleSpace(op, target, Nest.from_op(op, target), rounding=rounding, threads=threads, in_place=shares)
            own = node_names(op.operation.location)
            others = [node for call in kernel.calls for node in node_names(call.location)] if len(kernel.calls) > 1 else []
            nodes = tuple(dict.fromkeys([*own, *others]))
            name = f"{kernel.function.sym_name.value}:{op.kind if not op.is_fill else 'fill'}"
            workload = Workload(SCHEDULE, schedule_content(kernel.digest, place), above, target.digest, threads)
            info = WorkloadInfo(name, network, nodes, _features(op, len(kernel.calls)))
            launches = max(1, len(kernel.calls))
            yield Site(SCHEDULE, workload.content, SCHEDULE, nodes, workload, info, space, launches, kernel.digest, place)


def _features(op: Structured, launches: int) -> dict[str, float]:
    """Numbers that describe a structured op: near ones are similar workloads."""
    iterations, operations = float(prod(op.sizes)), max(1.0, body_cost(op, fma=False))
    moved = sum(access.bytes for access in op.accesses if access.is_shaped)
    kinds = {f"is {kind}": float(op.kind == kind) for kind in ("contraction", "reduction", "elementwise", "other")}
    return {
        **{f"size.{d}": float(size) for d, size in enumerate(op.sizes)},
        **kinds,
        "dimensions": float(len(op.sizes)),
        "summed": float(prod(op.sizes[d] for d in op.reduction_dims)),
        "bits": float(max(element_bits(access.element_type) for access in op.accesses)),
        "iterations": iterations,
        "operations": iterations * operations,
        "bytes": float(moved),
        "fused": float(len(op.fused)),
        "launches": float(launches),
    }  # fmt: skip


# -- other choices -------------------------------------------------------------------------------------------------------------------


def _choices(lowered: Lowered, network: str, content: str, threads: int, rounding: bool, relower: Relower | None) -> Iterator[Site]:
    content = content or key_of(str(lowered.snapshots[IMPORTED].get_asm(enable_debug_info=False)))[:DIGITS]
    usual = sums_of(lowered) if relower is not None else Counter[str]()
    for choice in lowered.state.choices.made:
        kind, name = choice.site.kind, choice.site.name
        if kind == SCHEDULE:
            continue
        check = None if relower is None else _check_of(choice, lowered.options.chosen, relower, None if rounding else usual)
        space = ChoiceSpace(choice, rounding=rounding, check=check)
        nodes = tuple(choice.site.nodes)
        features = {"candidates": float(len(choice.candidates)), **space.features(space.default)}
        workload = Workload(kind, f"{content}:{name}", "", lowered.target.digest, threads)
        yield Site(kind, name, floor_of(kind), nodes, workload, WorkloadInfo(name, network, nodes, features), space)


def _check_of(choice: Choice, base: Plan | None, relower: Relower, usual: Counter[str] | None) -> Check:
    """Lowers the model with a candidate: why that fails, or which sums then have another order than the `usual` ones (unless that is None)."""

    def check(text: str) -> str | None:
        given = Plan({}) if base is None else base
        choices = {**given.choices, choice.site.kind: {**given.choices.get(choice.site.kind, {}), choice.site.name: text}}
        try:
            other = relower(replace(given, choices=choices))
        except StepwellError as error:
            return str(error.args[0])
        with other.module.context:
            sums = sums_of(other) if usual is not None else Counter[str]()
        return None if usual is None or sums == usual else f"schedules that follow from it sum otherwise: {_difference(usual, sums)}"

    return check


def sums_of(lowered: Lowered) -> Counter[str]:
    """The orders of sums other than that of the loops, in the schedules of a model (`arithmetic`), with the number of launches that have each."""
    found: Counter[str] = Counter()
    for kernel in _kernels(lowered.module.operation):
        for _, op in _roots(kernel.function):
            text = arithmetic(Nest.from_op(op, lowered.target), op)
            if text:
                found[text] += max(1, len(kernel.calls))
    return found


def _difference(usual: Counter[str], other: Counter[str]) -> str:
    gone, new = usual - other, other - usual
    return "; ".join(f"{what} {', '.join(sorted(texts))}" for what, texts in (("no more", gone), ("now", new)) if texts)
