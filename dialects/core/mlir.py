"""MLIR as the rest of the package sees it: the bindings' names, contexts with our dialects, parsing with typed errors, and walks over IR."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from stepwell.dialects.core.bindings import *  # noqa: F403  (its `__all__`, the names of the bindings, is offered here)
from stepwell.dialects.core.bindings import Dialect, define, ir, passmanager, provide_module
from stepwell.dialects.core.diagnostics import Diagnostic, from_native, summary
from stepwell.dialects.core.nesting import DEEPEST, is_too_deep
from stepwell.dialects.core.op_fields import (
    attach_type_runs,
    attribute_fields as attribute_fields,
    create_operation as create_operation,
    define_group_accessors as define_group_accessors,
    operand_fields as operand_fields,
    result_fields as result_fields,
)
from stepwell.dialects.support.errors import IRError, StepwellError
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.processes import Lock, uninterrupted

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
    provide_module(name)
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

    managers: dict[str, passmanager.PassManager] = field(default_factory=dict, kw_only=True)  # the first field: they are to go before the context
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


def pass_manager(pipeline: str, context: ir.Context) -> passmanager.PassManager:
    """The manager of a pipeline of upstream's passes: one of before, if the context was shared and had one. Raises ValueError for wrong pipelines.

    A manager that runs again in its context need not collect the patterns of all ops again, which takes `canonicalize` longer than a small kernel.
    """
    with _loading:  # managers do not count as references to the context, so they are kept beside it
        kept = next((entry.managers for entry in _shared if entry.context is context), {})
    if pipeline not in kept:
        kept[pipeline] = passmanager.PassManager.parse(pipeline, context)
    return kept[pipeline]


def _build_context(dialects: Sequence[type[Dialect]]) -> ir.Context:
    with _loading:
        context = bare_context()
        with context, ir.Location.unknown():
            for dialect in dialects:
                define(dialect)
                attach_type_runs(dialect)
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
        found = _diagnostics(error) or [_silently_refused(text, context)]
        raise IRError(summary(found, source), diagnostics=found) from None
    found = [diagnostic for check in _checks.values() for diagnostic in check(module.operation)]
    if found:
        raise IRError(summary(found, source), diagnostics=found)
    return module


def _diagnostics(error: ir.MLIRError) -> list[Diagnostic]:
    return [diagnostic for record in error.error_diagnostics for diagnostic in from_native(record)]


def _silently_refused(text: str, context: ir.Context) -> Diagnostic:
    """Where and why the parser stopped without a diagnostic: it does so at an unquoted op of a dialect that was defined at run time."""
    names = {op.OPERATION_NAME for dialect in registered_dialects() for op in dialect.operations}
    for found in re.finditer(r'(?<!["\w.])[A-Za-z_]\w*\.[\w.]+', text):
        if found.group() in names:
            try:  # parse the text up to here: if an op is expected next, this gives no diagnostic either
                ir.Module.parse(text[: found.end()], context)
            except ir.MLIRError as error:
                if not _diagnostics(error):
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
