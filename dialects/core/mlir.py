"""MLIR for the rest of the package: the bindings' names, contexts with our dialects, parsing with typed errors, and walks over IR."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from stepwell.dialects.core.bindings import *  # noqa: F403  (re-exports its `__all__`, the names of the bindings)
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
"""Held while a context is created: loading a dialect changes its class and tables of the whole process."""
_BUILT_IN = (  # importing them registers our dialects and carried attributes
    "stepwell.dialects.graph", "stepwell.dialects.packed", "stepwell.dialects.sched.schedule_info", "stepwell.dialects.core.module_info",
    "stepwell.dialects.core.kernel_info", "stepwell.dialects.target.dialect", "stepwell.dialects.flow.control", "stepwell.dialects.flow.boxes",
)  # fmt: skip
_imported: set[str] = set()
_dialects: list[Any] = []
_checks: dict[str, Callable[[ir.Operation], Sequence[Diagnostic]]] = {}


def register_dialect(dialect: Any) -> Any:
    """Load `dialect` (a subclass of `Dialect`) into every context created from now on; returns it.

    Raises StepwellError if its name is taken: contexts would contain neither.
    """
    name, ours = dialect.DIALECT_NAMESPACE, dialect.__module__.startswith("stepwell.")
    known = next((d for d in (_dialects if ours else registered_dialects()) if name == d.DIALECT_NAMESPACE), None)
    if known is not None and (known.__module__, known.__qualname__) == (dialect.__module__, dialect.__qualname__):
        _dialects.remove(known)  # the import of its module was interrupted, and is repeated
    elif known is not None:
        raise StepwellError(f"dialect '{name}' is already registered by {known.__module__}.{known.__qualname__}")
    elif not ours and _is_upstream(name):
        raise StepwellError(f"dialect '{name}' is one of MLIR's; choose another name")
    _dialects.append(dialect)
    extension(dialect)
    provide_module(name)
    return dialect


def _is_upstream(namespace: str) -> bool:
    """Whether every context has a dialect with that name."""
    try:
        bare_context().dialects[namespace]
    except IndexError:
        return False
    return True


def registered_dialects() -> list[Any]:
    """Our dialects, including those of plugins."""
    if not all(name in _imported for name in _BUILT_IN):
        with uninterrupted():  # otherwise some of their operations would be registered twice
            for name in _BUILT_IN:
                import_module(name)
                _imported.add(name)
    return list(_dialects)


def bare_context() -> ir.Context:
    """A context with upstream's dialects only. May be called from several threads at once.

    Multithreading is off: with threads on, verifiers written in Python deadlock on the GIL.
    """
    with _loading:
        context = ir.Context()
        context.enable_multithreading(False)
    return context


@dataclass
class _Shared:
    """A context, its dialects with their numbers of operations at its creation, and the number of times it was handed out."""

    managers: dict[str, passmanager.PassManager] = field(default_factory=dict, kw_only=True)  # first, to be destroyed before the context
    context: ir.Context
    contents: tuple[tuple[Any, int], ...]
    alone: int
    """The number of references to the context while it is unused; each IR in it holds one more.

    The bindings have no hook for the end of IR. The count is also right without the GIL: only the holder of a reference could add one.
    """
    uses: int = 1


MAX_USES = 200
"""The most times a context is handed out, because it keeps each type and attribute that it ever saw."""
MAX_SHARED = 4
"""The most contexts that wait for reuse; each takes about 3 MB."""
_shared: list[_Shared] = []


def make_context(*only: Any) -> ir.Context:
    """Like `bare_context`, with Stepwell's dialects loaded: the given ones, or all.

    Creating one takes 50 ms, so this may return an earlier one to which no reference is left, and which therefore holds no IR.
    """
    dialects = only or registered_dialects()
    contents = tuple((dialect, len(dialect.operations)) for dialect in dialects)  # a plugin may add operations to one of our dialects
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
    """The manager of a pipeline of upstream's passes, which a shared context keeps for its next run. Raises ValueError for a wrong pipeline.

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
    """Decorator: `parse_module` rejects a module in which `check` finds problems. Python cannot verify a dialect's attributes otherwise."""
    _checks[check.__qualname__] = check
    return check


def parse_module(text: str, context: ir.Context, source: str = "<string>") -> ir.Module:
    """The module in `text`. Raises IRError with every diagnostic and its position in `source` if it does not parse or verify."""
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
    """The position of a syntax error for which the parser emits no diagnostic: an unquoted op of a dialect defined at run time."""
    names = {op.OPERATION_NAME for dialect in registered_dialects() for op in dialect.operations}
    for found in re.finditer(r'(?<!["\w.])[A-Za-z_]\w*\.[\w.]+', text):
        if found.group() in names:
            try:  # parse the text up to here: if an op is expected next, this emits no diagnostic either
                ir.Module.parse(text[: found.end()], context)
            except ir.MLIRError as error:
                if not _diagnostics(error):
                    before, op = text[: found.start()], found.group()
                    line, column = before.count("\n") + 1, len(before[before.rfind("\n") + 1 :].encode()) + 1  # MLIR counts bytes
                    return Diagnostic("error", f"op '{op}' has no custom form: write it in the generic one, \"{op}\"(…) : (…) -> …", line, column)
    return Diagnostic("error", "the text does not parse, and the parser does not say why")


def report(op: ir.OpView, problem: str | None) -> bool:
    """Emit `problem` at the op, if there is one, and return the verifier's verdict."""
    if problem is not None:
        op.location.emit_error(f"'{op.OPERATION_NAME}' {problem}")
    return problem is None


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The operation that produces `value`, or None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant_attribute(value: ir.Value) -> ir.Attribute | None:
    """The attribute of the `arith.constant` that a value is, or None."""
    made = defining_op(value)
    return made.attributes["value"] if made is not None and made.name == "arith.constant" else None


def known_index(value: ir.Value) -> int | None:
    """The constant that a value of type index is defined as, or None."""
    attribute = constant_attribute(value)
    return None if attribute is None else ir.IntegerAttr(attribute).value


def ops_below(op: ir.Operation, name: str | None = None) -> list[ir.Operation]:
    """All operations inside `op` (itself excluded), in program order; with `name`, those with that name.

    Replaces the bindings' `walk`, which turns every exception of its callback into a RuntimeError, even an interrupt, which may come at any time.
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
                if len(inside):  # most ops have none, and this test is cheaper than an iterator
                    _collect(inside, name, found)


def mentions(op: ir.Operation, word: str) -> bool:
    """Whether a word stands in the text of `op`, long constants aside. Printing is done in C++ and takes less time than looking at each op here."""
    return word in op.get_asm(large_elements_limit=8, assume_verified=True)


def users(value: ir.Value) -> list[ir.Operation]:
    """The operations that use `value`, one entry per use."""
    return [use.owner.operation for use in value.uses]


def use_count(value: ir.Value) -> int:
    """The number of uses of `value`."""
    return sum(1 for _ in value.uses)


def replace_op(op: ir.Operation, values: Iterable[ir.Value]) -> None:
    """Replace the results of an op by these values, and erase it."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
