"""Versions of kernels for small values of a dynamic size: passes propose them, and this file chooses and makes them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from stepwell.dialects.core.kernel_info import KernelInfo, Version
from stepwell.dialects.core.mlir import func, ir, ops_below, replace_op
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.symbolic_shapes import fewer, hints_around
from stepwell.dialects.support.errors import PassError, shown
from stepwell.dialects.support.origins import line_of
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState
from stepwell.passes.framework.rewriting import functions, retyped

ONE_VERSION, TWO_VERSIONS = "one version", "two versions"
"""The names of the candidates in plans: the same code for all sizes, and a version for small ones beside it."""


class Subject(Protocol):
    """A kernel or a structured op, which may have versions."""

    @property
    def operation(self) -> ir.Operation:
        """Its operation."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class VersionProposal(Generic[S]):
    """A version of a kernel, or of a structured op, for small sizes: where it would run, how it is made, and whether it pays."""

    site: ir.Operation
    """The op that the choice is about."""
    size: Size
    most: int
    """The version runs where `size` is at most `most`."""
    specialise: Callable[[S], None] = lambda copy: None
    """Transforms the copy, which computes the same before and after."""
    hints: Mapping[str, int] | None = None
    """The likely values of symbols in the version; None for the fraction of the usual ones that `fewer` gives."""
    pays: bool = True
    """Whether the pass would make the version by its own model of costs."""
    seconds: Callable[[], tuple[float, float]] | None = None
    """Predicts the time with one version and with two."""
    reason: str = ""
    """The advantage of the version, for `--explain`."""


class VersionPass(Pass, Generic[S]):
    """A pass that gives subjects a version for small sizes. A subclass proposes and copies; this class chooses and reports.

    The kind of choice in plans is the name of the pass.
    """

    same_bits: ClassVar[bool] = False
    """Whether a version computes the same bits as the code for all sizes."""

    def subjects(self, op: ir.Operation) -> Iterable[S]:
        """The subjects that may get a version, in `op`."""
        raise NotImplementedError

    def propose(self, subject: S, state: PassState) -> VersionProposal[S] | NoMatch | None:
        """The version that a subject may get. None, or NoMatch with the reason, if it has one for all sizes."""
        raise NotImplementedError

    def copy(self, subject: S, proposal: VersionProposal[S]) -> S:
        """The copy of a subject that becomes the version."""
        raise NotImplementedError

    def run(self, op: ir.Operation, state: PassState) -> None:
        for subject in self.subjects(op):
            found = self.propose(subject, state)
            if isinstance(found, VersionProposal):
                self._choose(subject, found, state)
            elif isinstance(found, NoMatch):
                state.decline(self.name, subject.operation, found)
            elif found is not None:
                expected = "propose must give a VersionProposal, NoMatch or None"
                raise PassError(f"pass '{self.name}': {expected}, got {shown(found)}{line_of(self.propose)}")

    def _choose(self, subject: S, proposal: VersionProposal[S], state: PassState) -> None:
        def candidates() -> list[Candidate]:
            seconds = (None, None) if proposal.seconds is None else proposal.seconds()
            names = (ONE_VERSION, TWO_VERSIONS)
            return [Candidate(name, time, arithmetic="one" if self.same_bits else name) for name, time in zip(names, seconds, strict=True)]

        if state.choose(self.name, proposal.site, candidates, TWO_VERSIONS if proposal.pays else ONE_VERSION) == ONE_VERSION:
            state.decline(self.name, subject.operation, NoMatch(f"one version computes all values of {proposal.size}"))
            return
        proposal.specialise(self.copy(subject, proposal))
        why = f", {proposal.reason}" if proposal.reason else ""
        state.did(self.name, subject.operation, f"gets a version for {proposal.size} up to {proposal.most}{why}")
        state.count(self.name)


class KernelVersionPass(VersionPass[func.FuncOp]):
    """A pass that gives kernels a version for small sizes. A subclass proposes it.

    rewrite: @k  ->  @k and a copy @k.few {stepwell.version = {of = "k", size = "n", most = 2}, stepwell.kernel_hints = {n = 1}}

    `merge-versions` makes one function of both later.
    """

    def subjects(self, op: ir.Operation) -> Iterable[func.FuncOp]:
        """The kernels without a version. A version gets no versions of its own."""
        kernels = [function for function in functions(op) if KernelInfo(function).is_kernel]
        done = {version.of for kernel in kernels if (version := KernelInfo(kernel).version) is not None}
        return [kernel for kernel in kernels if KernelInfo(kernel).version is None and kernel.sym_name.value not in done]

    def copy(self, subject: func.FuncOp, proposal: VersionProposal[func.FuncOp]) -> func.FuncOp:
        """A copy of a kernel in front of it, with the condition under which it runs."""
        copy: func.FuncOp = subject.operation.clone(ir.InsertionPoint(subject)).opview
        copy.operation.attributes["sym_name"] = ir.StringAttr.get(f"{subject.sym_name.value}.few")
        info = KernelInfo(copy)
        info.hints = proposal.hints or fewer(proposal.size.symbols, hints_around(subject.operation))
        info.version = Version(subject.sym_name.value, proposal.size, proposal.most)
        return copy


def launches(kernel: func.FuncOp) -> list[ir.Operation]:
    """The calls of a kernel in its module."""
    calls, name = ops_below(kernel.operation.parent.operation, "func.call"), kernel.sym_name.value
    return [call for call in calls if ir.FlatSymbolRefAttr(call.attributes["callee"]).value == name]


def add_argument(kernel: func.FuncOp, copy: func.FuncOp, place: int, operands: Mapping[ir.Operation, ir.Value]) -> ir.Value:
    """Give a kernel on tensors and its version one more argument at `place`: the operand of each launch. Returns the version's argument."""
    for call, operand in operands.items():
        with ir.InsertionPoint(call), call.location:
            given = [*call.operands[:place], operand, *call.operands[place:]]
            made = func.CallOp([result.type for result in call.results], kernel.sym_name.value, given)
        replace_op(call, made.results)
    kind = next(iter(operands.values())).type
    for function in (kernel, copy):
        block, info = function.regions[0].blocks[0], KernelInfo(function)
        behind = list(block.arguments)[place:]
        for old, moved in zip([None, *behind], [kind, *(argument.type for argument in behind)], strict=True):
            new = block.add_argument(moved, function.location)
            if old is not None:
                old.replace_all_uses_with(new)
        for _ in behind:
            block.erase_argument(place)
        retyped(function)
        if info.overwrites:
            info.overwrites = [(argument + (argument >= place), result) for argument, result in info.overwrites]
    added: ir.Value = copy.regions[0].blocks[0].arguments[place]
    return added
