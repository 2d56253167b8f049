"""The attributes of kernels, and of the views of scratch memory that are their buffers."""

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
    """Of which kernel a function is a second version: it runs instead of `of` where `size` is at most `most`."""

    of: str
    size: int | Size
    most: int


@dataclass(frozen=True)
class Concat:
    """A kernel that only concatenates its arguments. Where the size `one` is 1, they are contiguous in the result."""

    one: int | Size
    arguments: tuple[int, ...]
    """Their numbers, in order."""


REGION_MEMORY = 4
"""The last operands of a function of a region: weights, its workspace, that of @main, and the table."""


class KernelInfo(Carrier):
    """The attributes of a function that is, or may be, a kernel."""

    on, what = ("func.func", "llvm.func"), "a function"

    is_kernel: Carried[bool] = Carried("stepwell.kernel", FLAG, False)
    """Whether it computes a fusion group in destination-passing style: its last arguments are where its results go."""
    results: Carried[int] = Carried("stepwell.results", COUNT, 1)
    """On memrefs: how many of the arguments are destinations; they come last, before the scratch."""
    in_place: Carried[Sequence[tuple[int, int]]] = Carried("stepwell.in_place", PAIRS, ())
    """Arguments, each with the result (by number) whose destination may share its memory."""
    overwrites: Carried[Sequence[tuple[int, int]]] = Carried("stepwell.overwrites", PAIRS, ())
    """Arguments, each with the result (by number) that is what it is but for a part: the kernel writes that part, where the rest is already."""
    sizes: Carried[Sequence[tuple[Dim, ...]]] = Carried("stepwell.sizes", SIZES, ())
    """For each argument the dimensions of its type that are known only at run time, as expressions of symbols; none if all are static."""
    symbols: Carried[Sequence[str]] = Carried("stepwell.size_arguments", TEXTS, ())
    """The symbols that its arguments of type index are, in order."""
    scratch_bytes: Carried[int | Size | None] = Carried("stepwell.scratch_bytes", SIZE, None)
    """The size of its scratch, which is its last argument, perhaps an expression of symbols; None if it has none."""

    version: Carried[Version | None] = Carried("stepwell.version", record(Version), None)
    """Set if it is a version of another kernel for small sizes; from level affine on both are one function."""
    concat: Carried[Concat | None] = Carried("stepwell.concat", record(Concat), None)
    """Set if it only concatenates its arguments along a dimension behind a free one."""
    hints: Carried[Mapping[str, int]] = Carried("stepwell.kernel_hints", COUNTS, {})
    """About how large symbols are in it, if not as the module says (`ModuleInfo.size_hints`)."""

    is_region: Carried[bool] = Carried("stepwell.region", FLAG, False)
    """Whether it is a branch of a conditional or the body of a loop, which `@main` or another such function calls."""

    def make_kernel(self) -> None:
        """Mark a function as a kernel, which is never inlined."""
        self.is_kernel = True
        self.attributes[NO_INLINE] = ir.UnitAttr.get()

    def first_destination(self, arguments: int) -> int:
        """The number of the first argument that is a destination, of so many arguments of a kernel on memory."""
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
    """What is kept of a buffer that only ops in the same fused loops use: one step of each of the first `loops`, once per chunk."""

    loops: int
    run: int
    """The number of the outermost loop."""
    chunks: int
    """Of the outermost loop."""
    bytes: int | Size
    """The size of a slice; on a view, the distance from one chunk's slice to the next."""


class BufferInfo(Carrier):
    """The attributes of a view of scratch memory that is a buffer."""

    on, what = ("memref.view",), "a memref.view"

    slice: Carried[Slice | None] = Carried("stepwell.slice", record(Slice), None)
    """Set if the memory holds no more than a slice of the view's type."""


def function_around(op: ir.Operation) -> ir.Operation | None:
    """The function that an op is, or is in; None outside of functions."""
    inner: ir.Operation | None = op
    while inner is not None and inner.name != "func.func":
        inner = None if inner.parent is None else inner.parent.operation
    return inner
