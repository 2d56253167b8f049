"""What a loop nest computes and how its loops go: the same in all of its loops and register tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.properties import cached_property
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
    """A memref that holds a slice of a buffer: along `places` (results of the accesses' maps), only what one round of the fused loops uses."""

    value: ir.Value
    places: frozenset[int]


@dataclass(frozen=True)
class Enclosing:
    """The fused loops around a nest: their induction variables, which of them walks which dimension, and the buffers that are slices."""

    ivs: Sequence[ir.Value]
    places: Mapping[int, int]
    shrunk: Mapping[ir.Value, Shrunk]


ALONE = Enclosing((), {}, {})


@dataclass
class _Emitted:
    """What was read or prepared once, for all versions of a nest."""

    bodies: dict[Structured, ScalarBody] = field(default_factory=dict)
    numbers: dict[ir.Value, ir.Value | None] = field(default_factory=dict)
    texts: dict[ir.AffineMap, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NestContext:
    """A stage and its schedule: structured ops over one output, namely an optional fill, a root, and element-wise epilogues.

    The root's accumulators live in registers from the fill's value to the epilogues' result, and are stored once. An output that moves
    along a summed loop, as that of a scan does, is stored in each of its rounds.
    """

    root: Structured
    nest: Nest
    initial: ir.Value | None = None
    """What the fill writes."""
    epilogues: Sequence[Structured] = ()
    enclosing: Enclosing = ALONE
    intrinsic: Use | None = None
    """How the intrinsic that the nest names computes the root."""
    target: Target | None = None
    _emitted: _Emitted = field(default_factory=_Emitted)

    @cached_property
    def sizes(self) -> list[int]:
        """The extents of the root's dimensions; see `Structured.sizes`."""
        return self.root.sizes

    @property
    def fma(self) -> bool:
        """Whether the target has fused multiply-adds, so that what may be contracted is."""
        return (self.target or GENERIC).contracts

    @cached_property
    def lanes_reduce(self) -> bool:
        """Whether vectors lie along a summed dimension."""
        return self.nest.vector in self.root.reduction_dims

    @cached_property
    def known(self) -> dict[int, np.ndarray]:
        """The inputs, by number, whose few elements are written into the code."""
        return {n: array for n, access in enumerate(self.root.inputs) if (array := known_array(access)) is not None}

    @cached_property
    def written_out(self) -> set[int]:
        """The summed dimensions whose rounds follow each other without a loop: inputs whose elements are in the code move along them."""
        along = {d for n in self.known for d in self.root.reduction_dims if self.root.inputs[n].kind(d) != "scalar"}
        return along - {self.nest.vector}

    @cached_property
    def shown(self) -> list[bool]:
        """For each output, whether it moves along a summed dimension, so that each round stores it."""
        return [any(out.kind(d) != "scalar" for d in self.root.reduction_dims) for out in self.root.outputs]

    @cached_property
    def use(self) -> Use | None:
        """How an intrinsic computes the root, if one does: numbers that are written into the code need no vectors of them."""
        return self.intrinsic if not self.known else None

    @cached_property
    def may_repeat(self) -> bool:
        """Whether elements may be computed twice, by two vectors one after the other.

        The nest sums, and what it stores is nowhere read: neither by a sum in blocks, nor by an op that overwrites what it reads.
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
        """The lanes of the last vector of a dimension whose size is known only at run time, if it is computed under a mask; else 0.

        Vectors that an intrinsic takes are whole.
        """
        return 0 if self.use is not None else masked_lanes(self.root, self.nest, self.epilogues, self.target)

    def memory(self, access: Access) -> ir.Value:
        """The memref that an access goes to."""
        shrunk = self.enclosing.shrunk.get(access.value)
        return shrunk.value if shrunk else access.value

    def body(self, op: Structured) -> ScalarBody:
        """The body of the root or of an epilogue, to be emitted many times."""
        if op not in self._emitted.bodies:
            self._emitted.bodies[op] = ScalarBody(op, fma=self.fma)
        return self._emitted.bodies[op]

    def given_number(self, access: Access) -> ir.Value | None:
        """The one element that an access reads, if a kernel is given it and does not write it; see `values.given_number`."""
        numbers = self._emitted.numbers
        if access.value not in numbers:
            numbers[access.value] = given_number(access)
        return numbers[access.value]

    def text(self, address: ir.AffineMap) -> str:
        """The text of an address. To print it takes longer than to make it, so it is kept."""
        texts = self._emitted.texts
        if address not in texts:
            texts[address] = str(address)
        return texts[address]
