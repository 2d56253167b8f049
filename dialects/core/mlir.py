"""The one module that imports the MLIR bindings: it re-exports their names, makes contexts, and repairs `ext`."""

import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from stepwell.dialects.core.deferred import defer, without_named_ops
from stepwell.dialects.core.diagnostics import Diagnostic, from_native, summary
from stepwell.dialects.core.erasing import guard_erase
from stepwell.dialects.core.nesting import DEEPEST, is_too_deep
from stepwell.dialects.support.errors import IRError, StepwellError
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.processes import Lock, uninterrupted

with uninterrupted():  # an interrupt would leave native code half initialised, for good
    without_named_ops()
    defer("torch_mlir.dialects.llvm")
    from torch_mlir import ir, passmanager, rewrite
    from torch_mlir.dialects import affine, arith, bufferization, cf, ext as _ext, func, linalg, llvm, math, memref, scf, tensor, ub, vector, x86
    from torch_mlir.execution_engine import ExecutionEngine

__all__ = [
    "Attribute", "Dialect", "ExecutionEngine", "Operand", "Operation", "OptionalOperand", "Pure", "Region", "Result", "VariadicOperand",
    "VariadicResult", "affine", "arith", "attribute_fields", "bare_context", "bufferization", "cf", "create_operation", "define_group_accessors",
    "defining_op", "diagnostics", "func", "ir", "linalg", "llvm", "make_context", "math", "memref", "on_parse", "operand_fields", "operand_group",
    "parse_module", "passmanager", "register_dialect", "registered_dialects",
    "result_fields", "result_group", "rewrite", "scf", "tensor", "ub", "use_count", "users", "vector", "x86",
]  # fmt: skip

Pure = _ext.Pure
Region: TypeAlias = ir.Region

# Field kinds of an operation class. The values of one variadic field may have different types: IRDL alone would not let them, but
# `_TypeRuns` below does (so concat and fused stay variadic). Types of operands and results are checked by the op's `infer`, so that a
# message can say more than a constraint can; type checkers see what the accessors return.
if TYPE_CHECKING:

    class Dialect:
        """What type checkers see of `ext.Dialect`."""

        DIALECT_NAMESPACE: str
        operations: list[Any]

        def __init_subclass__(cls, *, name: str, **kwargs: Any) -> None: ...

    class Operation(ir.OpView):
        """What type checkers see of `ext.Operation`."""

        OPERATION_NAME: ClassVar[str]
        _fields: list[Any]

        def __init_subclass__(cls, *, name: str | None = None, traits: list[Any] | None = None, dialect: Any = None, **kwargs: Any) -> None: ...

    class Attribute(ir.Attribute):
        """What type checkers see of `ext.Attribute`."""

        def __init_subclass__(cls, *, name: str | None = None, dialect: Any = None, **kwargs: Any) -> None: ...

        @classmethod
        def get(cls, *args: Any, context: Any = None) -> Any: ...

    Operand: TypeAlias = ir.Value[Any]
    Result: TypeAlias = ir.Value[Any]
    OptionalOperand: TypeAlias = ir.Value[Any] | None
    VariadicOperand: TypeAlias = Sequence[ir.Value[Any]]
    VariadicResult: TypeAlias = Sequence[ir.Value[Any]]
else:
    Dialect, Operation, Attribute = _ext.Dialect, _ext.Operation, _ext.Attribute
    Operand = _ext.Operand[Any]
    Result = _ext.Result[Any]
    OptionalOperand = _ext.Operand[Any] | None
    VariadicOperand = Sequence[_ext.Operand[Any]]
    VariadicResult = Sequence[_ext.Result[Any]]


def _keep_falsy_attributes(self: Any, attr: Any) -> Any:
    """`False`, `[]` and empty arrays are attributes like any other: the bindings take them for absent."""
    if attr is not None:
        return attr
    return self.default_factory() if self.default_factory else None


TYPE_RUNS = 64  # how many times the type may change along a variadic group


def _in_runs(define: Any) -> Any:
    """IRDL requires one type for all values of a variadic group; so a group is defined as many, each for a run of values of one type."""

    def define_in_runs(constraints: Any, names: Any, variadicities: Any, **where: Any) -> Any:
        groups = []
        for constraint, name, variadicity in zip(constraints, names, variadicities, strict=True):
            groups.append((constraint, name, variadicity))
            if variadicity == _ext.Variadicity.variadic:
                groups += [(constraint.owner.clone().results[0], f"{name}{run}", variadicity) for run in range(1, TYPE_RUNS)]
        return define(*map(list, zip(*groups, strict=True)), **where)

    return define_in_runs


class _TypeRuns:
    """Gives IRDL's verifier the lengths of the runs while it verifies an op, and removes them afterwards: nothing else sees them.

    For ops with one variadic field of operands or of results, whose length follows from the others; it must be the last one.
    """

    @staticmethod
    def verify_invariants(view: Any) -> bool:
        op = view.operation
        for fields, values, sizes_name in _variadic_groups(view):
            runs: list[int] = []
            singles = len(fields) - 1
            for i, value in enumerate(values):
                if i <= singles or value.type != values[i - 1].type:
                    runs.append(0)
                runs[-1] += 1
            if len(runs) > singles + TYPE_RUNS:
                op.location.emit_error(f"'{op.name}' has values of more than {TYPE_RUNS} types in a row ({sizes_name})")
                return False
            op.attributes[sizes_name] = ir.DenseI32ArrayAttr.get(runs + [0] * (singles + TYPE_RUNS - len(runs)), op.context)
        return True

    @staticmethod
    def verify_region_invariants(view: Any) -> bool:
        for _, _, sizes_name in _variadic_groups(view):
            del view.operation.attributes[sizes_name]
        return True


def _variadic_groups(view: Any) -> list[tuple[Any, list[Any], str]]:
    op, cls = view.operation, type(view)
    groups = ((operand_fields(cls), list(op.operands), "operandSegmentSizes"), (result_fields(cls), list(op.results), "resultSegmentSizes"))
    return [g for g in groups if any(kind == "variadic" for _, kind in g[0])]


def _attach_type_runs(dialect: Any) -> None:
    """Let ops of a dialect that was just loaded have operands, or results, of several types in one variadic field."""
    for cls in dialect.operations:
        if "variadic" in [kind for fields in (operand_fields(cls), result_fields(cls)) for _, kind in fields]:
            ir.DynamicOpTrait.attach(cls.OPERATION_NAME, _TypeRuns)


def _repair_ext() -> None:
    if hasattr(_ext, "_repaired"):  # an interrupt took this module away after this, and it is imported again
        return
    _ext._repaired = True
    guard_erase(ir.Operation.__base__)  # which every class of an op has, too
    _ext.AttributeDef.process_attr = _keep_falsy_attributes
    _ext.irdl.operands_ = _in_runs(_ext.irdl.operands_)
    _ext.irdl.results_ = _in_runs(_ext.irdl.results_)
    # Attribute classes without a registered name fail as field types; these are the names of their storage kinds.
    ir.DenseI64ArrayAttr.attr_name = "builtin.dense_array"
    ir.BoolAttr.attr_name = "builtin.integer"
    ir.DenseElementsAttr.attr_name = "builtin.dense_typed_elements"


def _provide_module(dialect: str) -> None:
    """For each view of an op the bindings try to import a module with its dialect's name, again and again if there is none."""
    module = f"{_ext.__package__}.{dialect}"
    sys.modules.setdefault(module, types.ModuleType(module))


with uninterrupted():
    _repair_ext()
    _provide_module("omp")  # the dialect of upstream's that the wheel has no module for, and we use
_loading = Lock()
"""Held while a context is made: a dialect being loaded is stored in its class, and registered in tables of the whole process."""
_BUILT_IN = (  # importing them registers our dialects and what operations carry
    "stepwell.dialects.graph", "stepwell.dialects.packed", "stepwell.dialects.sched.schedule_info", "stepwell.dialects.core.module_info",
    "stepwell.dialects.core.kernel_info", "stepwell.dialects.target.dialect", "stepwell.dialects.flow.control", "stepwell.dialects.flow.boxes",
)  # fmt: skip
_imported: set[str] = set()
_dialects: list[Any] = []
_checks: dict[str, Callable[[ir.Operation], Sequence[Diagnostic]]] = {}


def register_dialect(dialect: Any) -> Any:
    """Load `dialect` (a subclass of `Dialect`) into every context made from now on; returns it.

    Raises StepwellError if another one has its name: contexts would hold neither.
    """
    name, ours = dialect.DIALECT_NAMESPACE, dialect.__module__.startswith("stepwell.")
    known = next((d for d in (_dialects if ours else registered_dialects()) if name == d.DIALECT_NAMESPACE), None)
    if known is not None and (known.__module__, known.__qualname__) == (dialect.__module__, dialect.__qualname__):
        _dialects.remove(known)  # its module was interrupted while it was imported, and is imported again
    elif known is not None:
        raise StepwellError(f"dialect '{name}' is already registered by {known.__module__}.{known.__qualname__}")
    elif not ours and _is_upstream(name):
        raise StepwellError(f"dialect '{name}' is one of MLIR's; choose another name")
    _dialects.append(dialect)
    extension(dialect)
    _provide_module(name)
    return dialect


def _is_upstream(namespace: str) -> bool:
    """Whether every context has a dialect of that name."""
    try:
        bare_context().dialects[namespace]
    except IndexError:
        return False
    return True


def registered_dialects() -> list[Any]:
    """Our dialects, plugins' included."""
    if not all(name in _imported for name in _BUILT_IN):
        with uninterrupted():  # or some of their operations would be registered twice
            for name in _BUILT_IN:
                import_module(name)
                _imported.add(name)
    return list(_dialects)


def bare_context() -> ir.Context:
    """A context with only upstream's dialects. May be called from several threads at once.

    Multithreading is off: with threads on, verifiers written in Python deadlock on the GIL.
    """
    with _loading:
        context = ir.Context()
        context.enable_multithreading(False)
    return context


@dataclass
class _Shared:
    """A context, its dialects with their numbers of operations when it was made, and how often it was given out."""

    context: ir.Context
    contents: tuple[tuple[Any, int], ...]
    alone: int
    """The number of references to the context while nobody uses it: all IR in it holds one.

    The bindings have no hook for the end of IR. The count is right without the GIL too: whoever could add a reference has one.
    """
    uses: int = 1


MAX_USES = 200
"""How often a context is given out: it keeps each type and attribute that it ever saw."""
MAX_SHARED = 4
"""How many contexts wait for the next user, about 3 MB each."""
_shared: list[_Shared] = []


def make_context(*only: Any) -> ir.Context:
    """As `bare_context`, with Stepwell's dialects loaded: those given, or all of them.

    It takes a twentieth of a second to make one, so this may be one of before, of which no reference is left, and so no IR.
    """
    dialects = only or registered_dialects()
    contents = tuple((dialect, len(dialect.operations)) for dialect in dialects)  # a plugin may add operations to a dialect of ours
    with _loading:
        for entry in _shared:
            if entry.contents == contents and sys.getrefcount(entry.context) <= entry.alone:
                entry.uses += 1
                if entry.uses >= MAX_USES:
                    _shared.remove(entry)
                entry.context.allow_unregistered_dialects = False
                return entry.context
        entry = _Shared(_build_context(dialects), contents, 0)
        entry.alone = sys.getrefcount(entry.context)
        _shared.append(entry)
        del _shared[:-MAX_SHARED]
        return entry.context


def _build_context(dialects: Sequence[Any]) -> ir.Context:
    with _loading:
        context = bare_context()
        with context, ir.Location.unknown():
            for dialect in dialects:
                dialect.load()
                _attach_type_runs(dialect)
                dialect._mlir_module = None  # its definition: IR, which would keep the context of the class's last load
    return context


@contextmanager
def diagnostics(context: ir.Context) -> Iterator[list[str]]:
    """Collect the diagnostics emitted inside the block as `location: message` lines instead of printing them."""
    lines: list[str] = []

    def collect(diagnostic: Any) -> bool:
        lines.append(_diagnostic_text(diagnostic))
        return True

    handler = context.attach_diagnostic_handler(collect)
    try:
        yield lines
    finally:
        handler.detach()


def _diagnostic_text(diagnostic: Any) -> str:
    notes = "".join(f"\n  note: {_diagnostic_text(note)}" for note in diagnostic.notes)
    return f"{diagnostic.location}: {diagnostic.message}{notes}"


def on_parse(check: Callable[[ir.Operation], Sequence[Diagnostic]]) -> Callable[[ir.Operation], Sequence[Diagnostic]]:
    """Decorator: `parse_module` rejects a module in which `check` finds problems. Python has no other way to verify a dialect's attributes."""
    _checks[check.__qualname__] = check
    return check


def parse_module(text: str, context: ir.Context, source: str = "<string>") -> ir.Module:
    """The module in `text`. Raises IRError with every diagnostic, and its place in `source`, when it does not parse or verify."""
    if is_too_deep(text):
        found = [Diagnostic("error", f"the text is nested more than {DEEPEST} deep, which is more than the parser is given")]
        raise IRError(summary(found, source), diagnostics=found)
    try:
        module = ir.Module.parse(text, context)
    except ir.MLIRError as error:
        found = _told(error) or [_silently_refused(text, context)]
        raise IRError(summary(found, source), diagnostics=found) from None
    found = [diagnostic for check in _checks.values() for diagnostic in check(module.operation)]
    if found:
        raise IRError(summary(found, source), diagnostics=found)
    return module


def _told(error: ir.MLIRError) -> list[Diagnostic]:
    return [diagnostic for record in error.error_diagnostics for diagnostic in from_native(record)]


def _silently_refused(text: str, context: ir.Context) -> Diagnostic:
    """Where and why the parser stopped without a diagnostic: it does so at an unquoted op of a dialect that was defined at run time."""
    names = {op.OPERATION_NAME for dialect in registered_dialects() for op in dialect.operations}
    for found in re.finditer(r'(?<!["\w.])[A-Za-z_]\w*\.[\w.]+', text):
        if found.group() in names:
            try:  # parse the text up to here: if an op is expected next, this gives no diagnostic either
                ir.Module.parse(text[: found.end()], context)
            except ir.MLIRError as error:
                if not _told(error):
                    before, op = text[: found.start()], found.group()
                    line, column = before.count("\n") + 1, len(before[before.rfind("\n") + 1 :].encode()) + 1  # MLIR counts bytes
                    return Diagnostic("error", f"op '{op}' has no custom form: write it in the generic one, \"{op}\"(…) : (…) -> …", line, column)
    return Diagnostic("error", "the text does not parse, and the parser does not say why")


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The operation that makes `value`, or None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def known_index(value: ir.Value) -> int | None:
    """The number that a value of type index is known to be."""
    made = defining_op(value)
    return ir.IntegerAttr(made.attributes["value"]).value if made is not None and made.name == "arith.constant" else None


def ops_below(op: ir.Operation, name: str | None = None) -> list[ir.Operation]:
    """All operations inside `op` (itself excluded), in program order; with `name`, those of that name.

    Instead of the bindings' `walk`, which turns whatever its callback raises into a RuntimeError: an interrupt too, which comes at any moment.
    """
    found: list[ir.Operation] = []
    _collect(op.operation.regions, name, found)
    return found


def _collect(regions: Any, name: str | None, found: list[ir.Operation]) -> None:  # no inner function: a cycle with itself would keep the IR
    for region in regions:
        for block in region:
            for view in block:
                inner = view.operation
                if name is None or inner.name == name:
                    found.append(inner)
                inside = inner.regions
                if len(inside):  # most ops have none, and to ask is cheaper than to look
                    _collect(inside, name, found)


def users(value: ir.Value) -> list[ir.Operation]:
    """The operations that use `value`, one entry per use."""
    return [use.owner.operation for use in value.uses]


def use_count(value: ir.Value) -> int:
    """How many uses `value` has."""
    return sum(1 for _ in value.uses)


@cache
def _fields_of(cls: Any) -> tuple[tuple[tuple[str, str], ...], tuple[Any, ...], tuple[tuple[str, str], ...]]:
    operands, attributes, results, _ = _ext.partition_fields(cls._fields)
    return tuple((f.name, f.variadicity.name) for f in operands), tuple(attributes), tuple((f.name, f.variadicity.name) for f in results)


def operand_fields(cls: Any) -> tuple[tuple[str, str], ...]:
    """The operand fields of an op class as (name, "single" | "optional" | "variadic"), in order."""
    return _fields_of(cls)[0]


def attribute_fields(cls: Any) -> tuple[Any, ...]:
    """The attribute fields of an op class (each with `name` and `constraint`, its attribute class), in order."""
    return _fields_of(cls)[1]


def result_fields(cls: Any) -> tuple[tuple[str, str], ...]:
    """The result fields of an op class, as `operand_fields`."""
    return _fields_of(cls)[2]


def operand_group(op: ir.Operation, cls: Any, name: str) -> Any:
    """The operands of field `name`: a value, a list for a variadic field, None for an absent optional one."""
    return _group(op, operand_fields(cls), name, list(op.operands), "operandSegmentSizes")


def result_group(op: ir.Operation, cls: Any, name: str) -> Any:
    """The results of field `name`, as `operand_group`."""
    return _group(op, result_fields(cls), name, list(op.results), "resultSegmentSizes")


def _group(op: ir.Operation, fields: Sequence[tuple[str, str]], name: str, values: list[Any], sizes_name: str) -> Any:
    index = [n for n, _ in fields].index(name)
    multiple = [i for i, (_, kind) in enumerate(fields) if kind != "single"]
    if len(multiple) > 1:
        sizes = list(ir.DenseI32ArrayAttr(op.attributes[sizes_name]))
    else:  # the one group of unknown size takes what the others leave
        sizes = [1] * len(fields)
        for i in multiple:
            sizes[i] = len(values) - (len(fields) - 1)
    start = sum(sizes[:index])
    group = values[start : start + sizes[index]]
    if fields[index][1] == "variadic":
        return group
    return group[0] if group else None


def create_operation(cls: Any, operands: Sequence[Any], results: Sequence[Any], attributes: dict[str, ir.Attribute], **where: Any) -> Any:
    """Build an op of `cls` from operands and result types by field (None absent, list variadic); returns its view.

    Segment sizes are written only if two or more fields vary in length: otherwise they follow from the number of operands, and
    hand-written IR does not need them.
    """
    attributes = dict(attributes)
    flat = []
    for fields, groups, sizes_name in ((operand_fields(cls), operands, "operandSegmentSizes"), (result_fields(cls), results, "resultSegmentSizes")):
        lists = [[] if g is None else list(g) if isinstance(g, (list, tuple)) else [g] for g in groups]
        if sum(kind != "single" for _, kind in fields) > 1:
            attributes[sizes_name] = ir.DenseI32ArrayAttr.get([len(g) for g in lists])
        flat.append([v for g in lists for v in g])
    regions = sum(isinstance(f, _ext.RegionDef) for f in cls._fields)
    return ir.Operation.create(cls.OPERATION_NAME, operands=flat[0], results=flat[1], attributes=attributes, regions=regions, **where).opview


def define_group_accessors(cls: Any) -> None:
    """Replace the operand and result accessors of an op class by ones that need no segment sizes with a single varying field."""
    for fields, group in ((operand_fields(cls), operand_group), (result_fields(cls), result_group)):
        if any(kind != "single" for _, kind in fields):
            for name, _ in fields:
                setattr(cls, name, _group_accessor(name, group))


def _group_accessor(name: str, group: Any) -> property:
    return property(lambda self: group(self.operation, type(self), name))
