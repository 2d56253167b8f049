"""The schedule of a structured op: its own loop nest and its fused loops; and the schedule of loops around such ops."""

from collections.abc import Iterator, Sequence

from stepwell.dialects.core.attribute_kinds import COUNT, FIELD_TYPES, FLAG, Kind, filled_in, record, records, written
from stepwell.dialects.core.carried import Carried, Carrier
from stepwell.dialects.core.mlir import ir, known_index
from stepwell.dialects.sched.dialect import FusedAttr, NestAttr
from stepwell.dialects.sched.fused_loops import FusedLoop, complaint
from stepwell.dialects.sched.nest import NestKnobs, NestVersion
from stepwell.dialects.support.errors import PassError, ScheduleError


def _nest(attribute: ir.Attribute) -> NestKnobs:
    if not isinstance(attribute, NestAttr):
        raise ValueError
    return filled_in(NestKnobs, ir.DictAttr(attribute.knobs), "knob")


def _loops(attribute: ir.Attribute) -> tuple[FusedLoop, ...]:
    if not isinstance(attribute, FusedAttr):
        raise ValueError
    loops = []
    for i, entry in enumerate(ir.ArrayAttr(attribute.loops)):
        try:
            loops.append(filled_in(FusedLoop, entry))
        except ValueError as error:
            raise ValueError(f"loop {i}: {error}") from None
    wrong = complaint(loops)
    if wrong:
        raise ValueError(wrong)
    return tuple(loops)


def _complaint(versions: list[NestVersion]) -> str | None:
    """A problem with the versions of a nest; None if there is none."""
    if len({version.dim for version in versions}) != 1 or len({version.count for version in versions}) != len(versions):
        return "expected versions for different counts of one dimension"
    return None


NEST: Kind[NestKnobs] = Kind("a #sched.nest", _nest, lambda nest: NestAttr.get(written(nest, NestKnobs.__annotations__)))
LOOPS: Kind[tuple[FusedLoop, ...]] = Kind(
    "a #sched.fused", _loops, lambda loops: FusedAttr.get(ir.ArrayAttr.get([written(loop, ("prefetch", "rest")) for loop in loops]))
)
FIELD_TYPES[NestKnobs] = NEST
VERSIONS: Kind[list[NestVersion]] = records(record(NestVersion), "a list of dictionaries with the fields dim, count, nest", _complaint)


class ScheduleInfo(Carrier):
    """The schedule of a structured op."""

    on, what = ("linalg.",), "a structured op (linalg)"

    nest: Carried[NestKnobs] = Carried("sched.nest", NEST, error=ScheduleError)
    """The nest of the op's own loops; raises ScheduleError if there is none."""
    versions: Carried[Sequence[NestVersion]] = Carried("sched.versions", VERSIONS, (), ScheduleError)
    """The nests that replace it for small numbers of iterations of one dynamic dimension."""
    fused: Carried[tuple[FusedLoop, ...]] = Carried("sched.fused", LOOPS, (), PassError)
    """The loops in which it is fused with its neighbours in the kernel, outermost first."""
    part: Carried[int] = Carried("sched.part", COUNT, 0, PassError)
    """The number of products that are summed separately before they are added to the others, to reduce rounding errors; 0 for all."""

    @property
    def is_scheduled(self) -> bool:
        """Whether it has a nest."""
        return ScheduleInfo.nest.name in self.attributes

    def problems(self) -> Iterator[str]:
        for name in self.attributes:
            for field, kind in ((ScheduleInfo.nest, NestAttr), (ScheduleInfo.fused, FusedAttr)):
                if name != field.name and isinstance(self.attributes[name], kind):
                    yield f"a {field.kind.expected.removeprefix('a ')} is the attribute '{field.name}', not '{name}'"


class LoopInfo(Carrier):
    """How the iterations of a loop around structured ops run."""

    on, what = ("scf.for",), "a loop (scf.for)"

    is_parallel: Carried[bool] = Carried("sched.parallel", FLAG, False)
    """Whether they run on threads: each writes only parts of the carried values that no other iteration reads or writes."""

    @property
    def rounds(self) -> int | None:
        """The trip count; None unless the loop counts from 0 to a constant in steps of 1."""
        low, high, step = (known_index(self.op.operands[i]) for i in range(3))
        return high if low == 0 and step == 1 else None

    @staticmethod
    def parallel_around(op: ir.Operation) -> ir.Operation | None:
        """The loop around an op whose iterations run on threads; None if there is none."""
        while (parent := op.parent) is not None:
            op = parent.operation
            if op.name in LoopInfo.on and LoopInfo(op).is_parallel:
                return op
        return None

    def problems(self) -> Iterator[str]:
        if self.is_parallel:
            wrong = "a loop whose rounds run on threads must"
            if self.rounds is None:
                yield f"{wrong} count from 0 to a constant in steps of 1"
            if LoopInfo.parallel_around(self.op) is not None:
                yield f"{wrong} not be inside another one"
