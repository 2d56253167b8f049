"""The attributes of kernels, and of the views of scratch memory that serve as their buffers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stepwell.dialects.core.attribute_kinds import COUNT, COUNTS, FLAG, PAIRS, SIZE, SIZES, TEXTS, record
from stepwell.dialects.core.carried import Carried, Carrier
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, Size

NO_INLINE = "llvm.no_inline"
"""Upstream's attribute for functions that are never inlined; kernels have it."""


@dataclass(frozen=True)
class Version:
    """Marks a second version of the kernel named `of`: it runs instead of that kernel if `size` is at most `most`."""

    of: str
    size: int | Size
    most: int


@dataclass(frozen=True)
class Concat:
    """A kernel that only concatenates its arguments. If the size `one` is 1, they lie contiguously in the result."""

    one: int | Size
    arguments: tuple[int, ...]
    """The numbers of these arguments, in order."""


REGION_MEMORY = 4
"""The number of the last operands of a region function: weights, its workspace, the workspace of @main, and the table."""


class KernelInfo(Carrier):
    """The attributes of a function that is, or may be, a kernel."""

    on, what = ("func.func", "llvm.func"), "a function"

    is_kernel: Carried[bool] = Carried("stepwell.kernel", FLAG, False)
    """Whether it computes a fusion group in destination-passing style: its last arguments are the destinations of its results."""
    results: Carried[int] = Carried("stepwell.results", COUNT, 1)
    """On memrefs, the number of destinations among the arguments; they come last, before the scratch."""
    in_place: Carried[Sequence[tuple[int, int]]] = Carried("stepwell.in_place", PAIRS, ())
    """Pairs of an argument and the number of the result whose destination may share its memory."""
    overwrites: Carried[Sequence[tuple[int, int]]] = Carried("stepwell.overwrites", PAIRS, ())
    """Pairs of an argument and the number of the result that differs from it only in the part that the kernel writes."""
    sizes: Carried[Sequence[tuple[Dim, ...]]] = Carried("stepwell.sizes", SIZES, ())
    """For each argument, its dynamic dimensions as expressions of symbols; empty if all are static."""
    symbols: Carried[Sequence[str]] = Carried("stepwell.size_arguments", TEXTS, ())
    """The symbols of the arguments of type index, in order."""
    scratch_bytes: Carried[int | Size | None] = Carried("stepwell.scratch_bytes", SIZE, None)
    """The bytes of its scratch, which is its last argument, as a number or an expression of symbols; None if it has none."""

    version: Carried[Version | None] = Carried("stepwell.version", record(Version), None)
    """Set for a second version of another kernel for small sizes; from level affine on both are one function."""
    concat: Carried[Concat | None] = Carried("stepwell.concat", record(Concat), None)
    """Set if it only concatenates its arguments along a dimension outside of which a dynamic dimension lies."""
    hints: Carried[Mapping[str, int]] = Carried("stepwell.kernel_hints", COUNTS, {})
    """Typical values of symbols in this kernel, if they differ from the module's (`ModuleInfo.size_hints`)."""

    is_region: Carried[bool] = Carried("stepwell.region", FLAG, False)
    """Whether it is a branch of a conditional or a loop body, which `@main` or another such function calls."""

    def make_kernel(self) -> None:
        """Mark a function as a kernel, which is never inlined."""
        self.is_kernel = True
        self.attributes[NO_INLINE] = ir.UnitAttr.get()

    def first_destination(self, arguments: int) -> int:
        """The number of the first destination, for a kernel on memrefs with that many arguments."""
        return arguments - self.results - int(self.scratch_bytes is not None)

    def problems(self) -> Iterator[str]:
        of_kernels = [field.name for name, field in vars(KernelInfo).items() if isinstance(field, Carried) and name not in ("is_kernel", "is_region")]
        for name in of_kernels:
            if name in self.attributes and not self.is_kernel and not (self.is_region and name == KernelInfo.sizes.name):
                yield f"attribute '{name}' is for a kernel, which has the attribute '{KernelInfo.is_kernel.name}'"
        for _, result in self.in_place:
            if result >= self.results:
                yield f"attribute '{KernelInfo.in_place.name}': there is no result {result}, the kernel has {self.results}"


@dataclass(frozen=True)
class Slice:
    """The stored part of a buffer that only ops in the same fused loops use: one step of each of the first `loops`, once for each chunk."""

    loops: int
    run: int
    """The trip count of the outermost loop."""
    chunks: int
    """The number of chunks of the outermost loop."""
    bytes: int | Size
    """The bytes of a slice; on a view, the distance in bytes between the slices of neighbouring chunks."""


class BufferInfo(Carrier):
    """The attributes of a view of scratch memory that serves as a buffer."""

    on, what = ("memref.view",), "a memref.view"

    slice: Carried[Slice | None] = Carried("stepwell.slice", record(Slice), None)
    """Set if the memory holds only a slice of the view's type."""


def function_around(op: ir.Operation) -> ir.Operation | None:
    """The function that contains an op, or the op itself if it is one; None outside of functions."""
    inner: ir.Operation | None = op
    while inner is not None and inner.name != "func.func":
        inner = None if inner.parent is None else inner.parent.operation
    return inner
