"""The pass that gives each structured op its schedule, as an attribute."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.sched.plan_file import Entry, KernelEntry, Plan
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.choices import CHANGES_BITS, Candidate, check_machine, has_cost_model
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.recorded import Recorded, Taken
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg.structured import Structured, structured_ops
from stepwell.passes.schedule import defaults  # noqa: F401  (registers them)
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.candidates import SCHEDULE, ScheduleSpace, parse_schedule, schedule_text
from stepwell.passes.schedule.cost_model import CycleModel
from stepwell.passes.schedule.effects import offered
from stepwell.passes.schedule.intrinsics import considered
from stepwell.passes.schedule.kernel_digest import kernel_digest, kernel_nodes, loops_digest, schedule_content
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.schedulers import choose, first
from stepwell.passes.schedule.search import why_fixed
from stepwell.passes.schedule.space import to_json


@register_pass("assign-schedules", level="linalg", anchor="func.func")
@dataclass
class AssignSchedules(Pass):
    """Put a schedule on every structured op that has none: from a schedule file, from tuning records, or the default for its kind and target.

    A schedule that an op already has stays, unless the file has one for the op (docs/schedules.md).
    """

    file: str = ""  # path of a schedule file; defaults to the file of the run, if there is one

    def run(self, op: ir.Operation, state: PassState) -> None:
        file = Plan.from_source(self.file) if self.file else state.choices.plan
        found = structured_ops(op)
        given = {} if file is None else from_file(file, op, found, state.target)
        state.count("schedules from a file", len(given))
        recorded = None if state.choices.recorded is None else _KernelRecords(state.choices.recorded, op, found, state.target)
        for place, structured in enumerate(found):
            info = ScheduleInfo(structured.operation)
            if place in given or not info.is_scheduled:
                kept = None if recorded is None or place in given else recorded.nest(place)
                info.nest = nest = _chosen(structured, given.get(place), kept, state)
                took = kept is not None and nest == kept
                if recorded is not None and took:
                    recorded.take(place, nest)
                if state.decisions is not None:
                    _explain(structured, nest, " (from a file)" if place in given else " (from tuning records)" if took else "", state)
            else:
                state.decline(self.name, structured.operation, NoMatch("it carries a schedule already"))


def _chosen(op: Structured, given: Nest | None, recorded: Nest | None, state: PassState) -> Nest:
    """The schedule that is `given`, or else the decision (`PassState.choose`): the `recorded` one, or by default the one of `default_schedule`.

    Raises ScheduleError if results are to be reproducible and the given one may change them.
    """
    nest = given or default_schedule(op, state.target)
    if state.machine.reproducible and (given is not None or recorded is not None):
        order = arithmetic(default_schedule(op, state.target), op)
        if given is not None and arithmetic(given, op) != order:
            raise ScheduleError(f"{op.kind}{_nodes_text(op)}: the schedule {schedule_text(given, op)} {CHANGES_BITS}")
        recorded = recorded if recorded is not None and arithmetic(recorded, op) == order else None
    if not state.asked(SCHEDULE):  # naming schedules would take a tenth of this pass
        return recorded or nest
    space = ScheduleSpace(op, state.target, nest)
    [default] = space.nests
    kept = None if recorded is None else space.candidate(recorded).name

    def candidates() -> list[Candidate]:
        alone = given or (state.choices.recording and not has_cost_model(SCHEDULE))  # a tuner has a space of its own
        return [space.named(default)] if alone else space.all()

    role = "fill" if op.is_fill else op.kind
    chosen = state.choose(
        SCHEDULE, op.operation, candidates, default, role=role, space=space, planned=given is not None, recorded=kept, final=True
    )  # fmt: skip
    return space.nests[chosen]


class _KernelRecords:
    """The schedules that tuning records have for the ops of a kernel."""

    def __init__(self, records: Recorded, function: ir.Operation, ops: Sequence[Structured], target: Target | None) -> None:
        self._records, self._function, self._ops, self._target = records, function, ops, target
        self._digest, self._above = kernel_digest(function), loops_digest(function)
        self._entry = records.entry(self._digest)
        self._texts = {} if records.plan is not None else records.schedules.get((self._digest, self._above), {})
        for place in {*self._texts, *(() if self._entry is None else self._entry.ops)}:
            if place >= len(ops):
                records.ignore(f"kernel '{self._digest}', op {place}", f"there is no such op, it has {len(ops)} structured ops, counted from 0")

    def nest(self, place: int) -> Nest | None:
        """The schedule of an op; None if the records have none, or one that is not legal, which is noted."""
        op, where = self._ops[place], f"kernel '{self._digest}' (@{_name(self._function)}), op {place}{_nodes_text(self._ops[place])}"
        try:
            if self._entry is not None and place in self._entry.ops:
                return _legal(self._entry.ops[place], op, self._target, where)
            return parse_schedule(self._texts[place], op, self._target) if place in self._texts else None
        except ScheduleError as error:
            self._records.ignore(where, str(error.args[0]).removeprefix(f"{where}: "))
            return None

    def take(self, place: int, nest: Nest) -> None:
        """Note that an op has its schedule from here."""
        op, kernel = self._ops[place], KernelEntry({}, _name(self._function), tuple(kernel_nodes(self._function)))
        what = f"@{kernel.name}, op {place}: {op.kind}{_nodes_text(op)}"
        taken = Taken(SCHEDULE, schedule_content(self._digest, place), schedule_text(nest, op), what, is_of_kernel=True, above=self._above)
        self._records.take_schedule(taken, self._digest, kernel, place, _entry(op, nest))


def _explain(op: Structured, nest: Nest, origin: str, state: PassState) -> None:
    """Report, for `--explain`, an op's schedule, why there was no search for it, and why intrinsics of the target do not fit."""
    sizes = "x".join(map(str, op.sizes))
    state.did(AssignSchedules.name, op.operation, f"{op.kind} of {sizes}: {schedule_text(nest, op)}{origin}")
    if state.target is not None and not origin:
        start, is_start = first(op, state.target)
        if is_start and (fixed := why_fixed(op, start, state.target)) is not None:
            state.decline("search-schedules", op.operation, fixed)
    if op.kind == "contraction":
        refused: dict[NoMatch, list[str]] = {}
        for name, use in considered(op, state.target).items():
            if isinstance(use, NoMatch):
                refused.setdefault(use, []).append(name)
        for reason, names in refused.items():
            state.decline(f"intrinsics {', '.join(names)}", op.operation, reason)


def default_schedule(op: Structured, target: Target | None) -> Nest:
    """The default schedule of an op in its kernel, on one thread if it may not use more."""
    nest = choose(op, target)
    return nest if op.may_thread else replace(nest, parallel=0)


def from_file(file: Plan, function: ir.Operation, ops: Sequence[Structured], target: Target | None) -> dict[int, Nest]:
    """The schedules that a file has for ops of a function, by index in `ops`.

    Raises ScheduleError, naming kernel, op and knob, if a schedule is not legal, if the file is for another target, or if a kernel or op does not
    exist.
    """
    check_machine(file, target)
    if function.parent is not None:
        others = [f.operation for f in functions(function.parent.operation)]
        if function == others[0]:  # report it once for the module
            _check_kernels(file, others)
    digest = kernel_digest(function)
    entry = file.kernels.get(digest)
    if entry is None:
        return {}
    where = f"{file.name}: kernel '{digest}' (@{_name(function)})"
    for place in entry.ops:
        if place >= len(ops):
            raise ScheduleError(f"{where}: there is no op {place}, it has {len(ops)} structured ops, counted from 0")
    return {place: _legal(entry, ops[place], target, f"{where}, op {place}{_nodes_text(ops[place])}") for place, entry in entry.ops.items()}


def _check_kernels(file: Plan, kernels: Sequence[ir.Operation]) -> None:
    """Raise ScheduleError for the first kernel of a file that is missing from the module, saying where its nodes went."""
    known = {kernel_digest(kernel): kernel for kernel in kernels if _name(kernel) != "main"}
    for digest, entry in file.kernels.items():
        if digest in known:
            continue
        now = [f"{_name(kernel)} ({d})" for d, kernel in known.items() if entry.nodes and set(entry.nodes) & set(kernel_nodes(kernel))]
        every = [f"{_name(kernel)} ({d})" for d, kernel in known.items()]
        hint = f"its nodes are now computed by {', '.join(now)}" if now else f"the model has {', '.join(every)}"
        was = f" ({entry})" if str(entry) else ""
        raise ScheduleError(f"{file.name}: there is no kernel '{digest}'{was}: none computes what that did; {hint}")


def _name(function: ir.Operation) -> str:
    return ir.StringAttr(function.attributes["sym_name"]).value


def _nodes_text(op: Structured) -> str:
    nodes = node_names(op.operation.location)
    return f" of {' and '.join(nodes)}" if nodes else ""


def _legal(entry: Entry, op: Structured, target: Target | None, where: str) -> Nest:
    if entry.kind not in (None, op.kind) or entry.sizes not in (None, tuple(op.sizes)):
        raise ScheduleError(f"{where}: the file is about {entry.kind or 'an op'} of {list(entry.sizes or op.sizes)}, this is {op.kind} of {op.sizes}")
    try:
        return Nest.from_values({**default_schedule(op, target).values(op), **entry.knobs}, op, target)
    except ScheduleError as error:
        raise ScheduleError(f"{where} ({op.kind}): {error.args[0]}") from None


def _entry(op: Structured, nest: Nest) -> Entry:
    """The entry of a plan with all knobs of a schedule."""
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in nest.values(op).items()}
    return Entry(values, op.kind, tuple(op.sizes), tuple(node_names(op.operation.location)))


def schedules_of(module: ir.Operation, target: Target | None) -> Plan:
    """The schedules that the kernels of a module carry, with the legal values and the predicted costs."""
    kernels: dict[str, KernelEntry] = {}
    for function in functions(module):
        entries = {}
        for place, op in enumerate(structured_ops(function.operation)):
            if ScheduleInfo(op.operation).is_scheduled:
                nest = Nest.from_op(op, target)
                notes: dict[str, Any] = {"legal": to_json(offered(op, target, nest))}
                if target is not None and (seconds := (model := CycleModel(op, target)).seconds(model.cost(nest))) is not None:
                    notes["seconds"] = float(f"{seconds:.3g}")
                entries[place] = replace(_entry(op, nest), notes=notes)
        if entries:
            kernels[kernel_digest(function.operation)] = KernelEntry(entries, _name(function.operation), tuple(kernel_nodes(function.operation)))
    about = None if target is None else {"name": target.name, "cpu": target.cpu, "digest": target.digest}
    return Plan(kernels, target=about)
