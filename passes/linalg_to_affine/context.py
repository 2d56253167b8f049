"""The computation and the loops of a nest: shared by all of its loops and register tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg.views import origin
from stepwell.passes.linalg_to_affine.masks import masked_lanes
from stepwell.passes.linalg_to_affine.scalar_body import ScalarBody
from stepwell.passes.linalg_to_affine.values import given_number, known_array
from stepwell.passes.schedule.intrinsics import Use
from stepwell.passes.schedule.nest import Nest


@dataclass(frozen=True)
class Shrunk:
    """A memref that holds only the slice of a buffer used in one iteration of the fused loops, along `places` (result indices of the access maps)."""

    value: ir.Value
    places: frozenset[int]


@dataclass(frozen=True)
class Enclosing:
    """The fused loops around a nest: their induction variables, the dimension that each walks, and the buffers that are slices."""

    ivs: Sequence[ir.Value]
    places: Mapping[int, int]
    shrunk: Mapping[ir.Value, Shrunk]


ALONE = Enclosing((), {}, {})


@dataclass
class _Emitted:
    """Values that are read or prepared once, for all versions of a nest."""

    bodies: dict[Structured, ScalarBody] = field(default_factory=dict)
    numbers: dict[ir.Value, ir.Value | None] = field(default_factory=dict)
    texts: dict[ir.AffineMap, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NestContext:
    """A stage and its schedule: structured ops over one output, namely an optional fill, a root, and element-wise epilogues.

    The root's accumulators stay in registers from the fill's value to the epilogues' result, and are stored once. An output that moves along a
    reduction loop, such as a scan's, is stored in each iteration of it.
    """

    root: Structured
    nest: Nest
    initial: ir.Value | None = None
    """The value that the fill writes."""
    epilogues: Sequence[Structured] = ()
    enclosing: Enclosing = ALONE
    intrinsic: Use | None = None
    """How the nest's intrinsic computes the root."""
    target: Target | None = None
    _emitted: _Emitted = field(default_factory=_Emitted)

    @cached_property
    def sizes(self) -> list[int]:
        """The extents of the root's dimensions; see `Structured.sizes`."""
        return self.root.sizes

    @property
    def machine(self) -> Target:
        """The target, or a generic machine if there is none."""
        return self.target or GENERIC

    @property
    def costs(self) -> Costs:
        """The costs of the target, or common ones."""
        return self.machine.costs

    @property
    def fma(self) -> bool:
        """Whether products and sums are contracted where that is allowed: if the target has fused multiply-adds, or results are reproducible."""
        return self.machine.contracts

    @property
    def is_reproducible(self) -> bool:
        """Whether results have the same bits on all machines, so that no order is left to LLVM."""
        return self.machine.reproducible

    @cached_property
    def lanes_reduce(self) -> bool:
        """Whether vectors lie along a reduction dimension."""
        return self.nest.vector in self.root.reduction_dims

    @cached_property
    def constant_inputs(self) -> dict[int, np.ndarray]:
        """Maps the index of each small constant input whose elements are emitted into the code to its elements."""
        return {n: array for n, access in enumerate(self.root.inputs) if (array := known_array(access)) is not None}

    @cached_property
    def written_out(self) -> set[int]:
        """The reduction dimensions that are unrolled completely because inputs in the code move along them."""
        along = {d for n in self.constant_inputs for d in self.root.reduction_dims if self.root.inputs[n].kind(d) != "scalar"}
        return along - {self.nest.vector}

    @cached_property
    def shown(self) -> list[bool]:
        """For each output, whether it moves along a reduction dimension, so that each iteration stores it."""
        return [any(out.kind(d) != "scalar" for d in self.root.reduction_dims) for out in self.root.outputs]

    @cached_property
    def use(self) -> Use | None:
        """How an intrinsic computes the root, if one does; numbers that are emitted into the code need no vectors."""
        return self.intrinsic if not self.constant_inputs else None

    @cached_property
    def may_repeat(self) -> bool:
        """Whether elements may be computed twice, by two overlapping vectors.

        True if the nest is a reduction and nothing reads what it stores: neither a sum in blocks, nor an op that overwrites its own input.
        """
        out, *more = self.root.outputs
        starts = not out.used or self.initial is not None
        if more or any(self.shown) or self.lanes_reduce or not self.root.reduction_dims or not starts or self.use is not None:
            return False
        if self.enclosing.ivs or any(self.nest.blocks.get(d) for d in self.root.reduction_dims) or out.kind(self.nest.vector) != "vector":
            return False
        target = origin(out.value)
        if not isinstance(target, ir.BlockArgument):
            return False
        function = target.owner.owner.operation
        if function.name not in KernelInfo.on or KernelInfo(function).in_place:
            return False
        read = [a for member in (self.root, *self.epilogues) for a in member.inputs if a.used and a.is_shaped]
        return all(origin(a.value) != target for a in read)

    @cached_property
    def masked_lanes(self) -> int:
        """The lanes of the last vector of a dynamic dimension, if it is masked; otherwise 0.

        Vectors for an intrinsic are always whole.
        """
        return 0 if self.use is not None else masked_lanes(self.root, self.nest, self.epilogues, self.target)

    def memory(self, access: Access) -> ir.Value:
        """The memref that an access refers to."""
        shrunk = self.enclosing.shrunk.get(access.value)
        return shrunk.value if shrunk else access.value

    def body(self, op: Structured) -> ScalarBody:
        """The body of the root or of an epilogue, prepared for repeated emission."""
        if op not in self._emitted.bodies:
            self._emitted.bodies[op] = ScalarBody(op, fma=self.fma)
        return self._emitted.bodies[op]

    def given_number(self, access: Access) -> ir.Value | None:
        """The one element that an access reads, if it is an argument of the kernel that the kernel does not write; see `values.given_number`."""
        numbers = self._emitted.numbers
        if access.value not in numbers:
            numbers[access.value] = given_number(access)
        return numbers[access.value]

    def text(self, address: ir.AffineMap) -> str:
        """The text of an address. Printing it takes longer than creating it, so it is cached."""
        texts = self._emitted.texts
        if address not in texts:
            texts[address] = str(address)
        return texts[address]
