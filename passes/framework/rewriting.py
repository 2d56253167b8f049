"""Rewrite patterns and dialect conversion: the only wrapper around the bindings' drivers, which avoids their traps.

- The drivers take a truthy result as "no match": here a pattern returns values, or NoMatch with its reason, and reasons are kept.
- The drivers do not see ops that a pattern builds: here patterns run to a fixpoint, and a conversion ends with a walk for ops that
  should be gone (the drivers report success with illegal ops left in).
- The drivers hold callbacks by raw pointer: here every callback lives as long as the run.
- An exception in a pattern does not say where it came from: here pattern, op and node are added.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from stepwell.dialects.core.erasing import through_driver
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, ops_below, rewrite
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import UndecidedError
from stepwell.dialects.core.types import type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.flow.control import CONTROL, called_by
from stepwell.dialects.graph import GraphBuilder, constant_value
from stepwell.dialects.graph.base import ops_with
from stepwell.dialects.graph.known import FOLD_ELEMENTS
from stepwell.dialects.graph.traits import Trait
from stepwell.dialects.support.errors import InferenceError, PassError, StepwellError
from stepwell.dialects.support.origins import plugin_line
from stepwell.passes.framework.crash_record import recorder
from stepwell.passes.framework.decisions import NoMatch as NoMatch, expect as expect  # most users that decline are patterns
from stepwell.passes.framework.registry import Pass, PassState

CAST = "builtin.unrealized_conversion_cast"  # a cast to another type of the same memory
FIXPOINT_ROUNDS = 64  # more mean that patterns undo each other
SETTLED_BYTES = 1 << 26
"""Bytes of new weights after which unused ones are searched for."""


@dataclass(frozen=True)
class Pattern:
    """A named rewrite of one kind of op, or of all graph ops with a trait.

    `rewrite(op, rw)` returns the replacement value(s), or returns or raises NoMatch before building anything.
    """

    name: str
    root: str | type[Trait]
    rewrite: Callable[[Any, "Rewriter"], Any]
    benefit: int = 1

    @property
    def label(self) -> str:
        """Its name with its root, because one function may make patterns for several ops."""
        return f"{self.name}({self.root.removeprefix('graph.') if isinstance(self.root, str) else self.root.__name__})"

    @property
    def summary(self) -> str:
        """Its description: the first line of its docstring."""
        return (self.rewrite.__doc__ or "rewritten").strip().splitlines()[0].removeprefix("rewrite: ")

    def roots(self) -> list[str]:
        """The names of the ops that it applies to; for a trait, of all ops registered so far, including those of plugins."""
        return [self.root] if isinstance(self.root, str) else [cls.OPERATION_NAME for cls in ops_with(self.root)]


def pattern(root: Any, *, benefit: int = 1) -> Callable[[Callable[[Any, "Rewriter"], Any]], Pattern]:
    """Make a Pattern from a function; `root` is an op class, a trait that ops state, or an op's full name."""

    def make(function: Callable[[Any, "Rewriter"], Any]) -> Pattern:
        named = isinstance(root, str) or issubclass(root, Trait)
        return Pattern(function.__name__, root if named else root.OPERATION_NAME, function, benefit)

    return make


class Rewriter(GraphBuilder):
    """The builder of a pattern: a GraphBuilder at the matched op's position and location, with the run's state."""

    def __init__(self, state: PassState) -> None:
        super().__init__(state.weights)
        self.state = state

    def known(self, value: ir.Value, limit: int = FOLD_ELEMENTS) -> Any:
        """The array in `value`, if it is known at compile time (including weights), or None. Evaluates ops of up to `limit` elements."""
        return constant_value(value, self.state.weights, limit)


def apply_patterns(op: ir.Operation, patterns: Sequence[Pattern], state: PassState, *, top_down: bool = False) -> int:
    """Apply `patterns` below `op` until none matches, from the last op or, with `top_down`, from the first; returns the number of rewrites.

    Raises PassError naming the pattern, op and node when a pattern fails, or when the patterns do not terminate.
    """
    total = 0
    config = rewrite.GreedyRewriteConfig()
    config.use_top_down_traversal = top_down
    by_root: dict[str, list[Pattern]] = {}
    for p in sorted(patterns, key=lambda p: -p.benefit):
        for root in p.roots():
            by_root.setdefault(root, []).append(p)
    for _ in range(FIXPOINT_ROUNDS):
        run = _Run(state, op)
        native = rewrite.RewritePatternSet()
        for root, candidates in by_root.items():
            native.add(root, run.callback(candidates))
        frozen = native.freeze()
        try:
            rewrite.apply_patterns_and_fold_greedily(op, frozen, config)
        except (ir.MLIRError, RuntimeError) as error:  # the latter when the driver gave up, because two patterns undo each other
            raise PassError(f"patterns {', '.join(p.name for p in patterns)}: {error}") from None
        finally:
            del frozen, native
            run.callbacks.clear()  # they refer to the run, and a cycle would keep the IR until the garbage collector finds it
        total += run.matches
        if not run.matches:
            return total
        run.forget_declined()
    raise PassError(f"patterns {', '.join(p.name for p in patterns)} still match after {FIXPOINT_ROUNDS} rounds: two of them undo each other")


class _Run:
    """One run of a native driver: owns its callbacks, counts matches and collects reasons."""

    def __init__(self, state: PassState, top: ir.Operation) -> None:
        self.state = state
        self.top = top
        self.matches = 0
        self.noted = len(state.decisions.entries) if state.decisions is not None else 0
        self.callbacks: list[Any] = []

    def callback(self, candidates: Sequence[Pattern]) -> Callable[[Any, Any], bool]:
        """The driver's callback for ops of one name: tries the patterns for such ops, best first, until one matches.

        There is one callback for all of them: entering the insertion point and the location costs more than most patterns need to decline.
        """
        rw = Rewriter(self.state)

        def declared(op: ir.OpView, result: "list[ir.Value] | NoMatch") -> "list[ir.Value] | NoMatch":
            return result if isinstance(result, NoMatch) else of_types(as_declared(op, result, rw), [old.type for old in op.operation.results])

        def call(op: ir.OpView, native: Any) -> bool:
            with native.ip, op.location, through_driver(op.operation, native.erase_op):
                for p in candidates:
                    result = guarded(p, op, lambda p=p: declared(op, checked(op, p.rewrite(op, rw))))  # type: ignore[misc]  # mypy does not infer a lambda with a default
                    if not isinstance(result, NoMatch):
                        break
                    self.state.decline(p.name, op, result)
                else:
                    return True
            self.matches += 1
            self.state.did(p.name, op, p.summary)
            native.replace_op(op, result)
            drop_unused_weights(self.top, self.state.weights)
            return False

        self.callbacks.append(call)
        return call

    def forget_declined(self) -> None:
        """Forget the refusals of this run: the next one tries every op again."""
        decisions = self.state.decisions
        if decisions is not None:
            decisions.entries[self.noted :] = [entry for entry in decisions.entries[self.noted :] if entry.done]


def checked(op: Any, result: Any) -> "list[ir.Value] | NoMatch":
    """The replacement for `op` as a list. Raises TypeError for a wrong number of values, which would crash the drivers."""
    if isinstance(result, NoMatch):
        return result
    values = [result] if isinstance(result, ir.Value) else result
    count = len(op.operation.results)
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, ir.Value) for value in values):
        raise TypeError(f"expected {count} values or NoMatch, got {type(result).__name__}")
    if len(values) != count:
        raise TypeError(f"expected {count} values to replace {count} results, got {len(values)}")
    return list(values)


def of_types(values: list[ir.Value], types: Sequence[Any]) -> list[ir.Value]:
    """The replacement of an op, if it has the expected types. Raises TypeError otherwise: users would have wrong types, or crash."""
    for index, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value.type != kind:
            raise TypeError(f"expected a {kind} to replace result {index}, got a {value.type}")
    return values


def replace_results(op: ir.Operation, values: Sequence[ir.Value], b: GraphBuilder) -> list[ir.Value]:
    """Replace an op's results by values, cast to the types of the results; returns them. The op stays, without users."""
    with ir.InsertionPoint(op), op.location:
        made = of_types(as_declared(op, values, b), [old.type for old in op.results])
    for old, new in zip(op.results, made, strict=True):
        old.replace_all_uses_with(new)
    return made


def as_declared(op: Any, result: Sequence[ir.Value], b: GraphBuilder) -> list[ir.Value]:
    """The replacement with the types of `op`'s results, where a size is expressed differently.

    One may be a number and the other a symbol that is assumed to equal it, or an expression that inference found in another way.
    """
    values = []
    for value, old in zip(result, op.operation.results, strict=True):
        if value.type != old.type and isinstance(value.type, ir.RankedTensorType) and isinstance(old.type, ir.RankedTensorType):
            given, wanted = type_of(value), type_of(old)
            free = not (given.is_static and wanted.is_static) and None not in (*given.shape, *wanted.shape)
            values.append(b.reshape(value, shape=wanted.shape) if free and given.dtype == wanted.dtype else value)
        else:
            values.append(value)
    return values


def guarded(p: Pattern, op: ir.OpView, action: Callable[[], Any]) -> Any:
    """Run a pattern's body; turn what it raises into one error that names pattern, op and node, and a plugin's line.

    A pattern does not match if it raises NoMatch, or needs the value of a size that is known only at run time.
    """

    def failure(what: str, error: Exception) -> PassError:
        return PassError(f"pattern '{p.name}' on '{op.operation.name}' at {op.location}{what}{plugin_line(error)}")

    record = recorder()
    if record is not None:
        record.on_op(p, op)
    try:
        return action()
    except NoMatch as declined:
        return NoMatch(declined.reason)  # the raised one refers to frames, and so to IR
    except UndecidedError as error:
        return NoMatch(str(error.args[0]))
    except InferenceError as error:
        raise failure(f" built an op that does not fit: {error.args[0]}", error) from error
    except ir.MLIRError as error:
        raise failure(f": {error}", error) from error
    except StepwellError:
        raise
    except Exception as error:
        raise failure(f": {type(error).__name__}: {error}", error) from error


class PatternPass(Pass):
    """A pass that applies `patterns` until none matches."""

    patterns: ClassVar[Sequence[Pattern]] = ()
    top_down: ClassVar[bool] = False
    """Whether to start at the first op: patterns that move ops down then visit each op once, and merge ops that meet."""

    @classmethod
    def all_patterns(cls) -> Sequence[Pattern]:
        """Every pattern that the pass may apply, for any target; for listing and testing patterns."""
        return cls.patterns

    def run(self, op: ir.Operation, state: PassState) -> None:
        state.count(self.name, apply_patterns(op, self.patterns, state, top_down=self.top_down))


@dataclass(frozen=True)
class Conversion:
    """A named lowering of one kind of op.

    `lower(op, operands, state)` builds at the op's position and returns the replacement value(s), or NoMatch with the reason. `operands` are the op's
    operands as converted so far.
    """

    name: str
    root: str
    lower: Callable[[Any, Sequence[ir.Value], PassState], Any]


def convert(
    op: ir.Operation,
    conversions: Sequence[Conversion],
    state: PassState,
    *,
    legal: Iterable[str],
    illegal: Collection[str],
    convert_type: Callable[[Any], Any] | None = None,
) -> None:
    """Full dialect conversion of everything below `op`: only ops of the dialects `legal` remain, and none of those named `illegal`.

    Raises PassError with one line for each op that could not be lowered (op, node, reason).
    """
    problems: list[str] = []
    callbacks: list[Any] = []
    converter = rewrite.TypeConverter()
    type_callback = convert_type or (lambda t: t)
    callbacks.append(type_callback)
    converter.add_conversion(type_callback)
    native = rewrite.RewritePatternSet()

    def lowered(op: ir.OpView, made: Sequence[ir.Value]) -> "list[ir.Value] | NoMatch":
        result = checked(op, made)
        return result if isinstance(result, NoMatch) else of_types(result, [type_callback(old.type) for old in op.operation.results])

    def callback(c: Conversion) -> Callable[[Any, Any, Any, Any], bool]:
        def call(target: Any, adaptor: Any, _converter: Any, rewriter: Any) -> bool:
            with rewriter.ip, target.location:
                named = Pattern(c.name, c.root, cast(Any, c.lower))
                result = guarded(named, target, lambda: lowered(target, c.lower(target, list(adaptor.operands), state)))
            if isinstance(result, NoMatch):
                problems.append(f"'{target.operation.name}' at {target.location}: {result.reason}")
                return True
            rewriter.replace_op(target, result)
            return False

        callbacks.append(call)
        return call

    for c in conversions:
        native.add_conversion(c.root, callback(c), converter)
    target = rewrite.ConversionTarget()
    for dialect in legal:
        target.add_legal_dialect(dialect)
    for name in illegal:
        target.add_illegal_op(name)
    frozen = native.freeze()
    try:
        rewrite.apply_full_conversion(op, target, frozen)
    except ir.MLIRError as error:
        known = {c.root for c in conversions}
        missing = sorted({o.name for o in ops_below(op) if o.name in illegal and o.name not in known})
        problems.extend(f"no lowering is registered for '{name}'" for name in missing)
        raise PassError("conversion failed: " + ("; ".join(dict.fromkeys(problems)) or str(error))) from None
    left = [o for o in ops_below(op) if o.name in illegal]
    if left:
        raise PassError("conversion left " + "; ".join(f"'{o.name}' at {o.location}" for o in left))


def used_weights(module: Any) -> set[str]:
    """The names of the weights that a module uses, through its parameters or its arena."""
    return {ir.StringAttr(op.attributes["id"]).value for op in ops_below(module.operation, "graph.parameter")} | ModuleInfo(module).arena.keys()


def drop_unused_weights(op: Any, weights: WeightTable) -> None:
    """Free weights that passes made and that the module `op` no longer uses, if they take many bytes."""
    if weights.unsettled_bytes >= SETTLED_BYTES and op.operation.name == "builtin.module":
        weights.keep_only(used_weights(op))


def functions(module: ir.Operation) -> list[Any]:
    """The functions of a module, in order."""
    return [o.opview for o in module.regions[0].blocks[0].operations if o.operation.name == "func.func"]


def program_functions(module: ir.Operation) -> list[Any]:
    """`@main`, then the functions of regions: those that launch kernels. Declarations are excluded."""
    found = [f for f in functions(module) if len(f.regions[0].blocks) and not KernelInfo(f).is_kernel]
    return sorted(found, key=lambda f: f.sym_name.value != "main")


def innermost_first(found: Mapping[str, Any]) -> list[str]:
    """The functions of a program by name, callees before callers."""
    done: dict[str, None] = {}
    waiting = ["main"]
    while waiting:
        ops = [o.operation for o in found[waiting[-1]].regions[0].blocks[0].operations if o.operation.name in CONTROL]
        missing = [name for op in ops for name in called_by(op) if name not in done]
        if missing:
            waiting += missing
        else:
            done.setdefault(waiting.pop())
    return list(done)


def retyped(function: ir.OpView) -> None:
    """Make a function's type agree with the arguments of its block and with its returned values."""
    block = function.regions[0].blocks[0]
    returned = [v.type for v in list(block.operations)[-1].operation.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], returned))


def find_function(module: ir.Operation, name: str) -> Any:
    """The function of that name. Raises PassError if there is none."""
    for function in functions(module):
        if function.sym_name.value == name:
            return function
    raise PassError(f"the module has no function @{name}")


def main_function(module: ir.Operation) -> Any:
    """`@main`, for a pass that is about to change it. Raises PassError if there is none, or only a declaration."""
    main = find_function(module, "main")
    if not len(main.regions[0].blocks):
        raise PassError("@main has no body")
    return main


def clone_into(op: ir.Operation, mapping: dict[ir.Value, ir.Value], ip: ir.InsertionPoint) -> ir.Operation:
    """Clone `op` at `ip` with operands replaced by `mapping`, also inside its regions; adds its results to `mapping`."""
    new: ir.Operation = op.operation.clone(ip)

    # An op's operands are defined before it or around it, so one walk in program order finds all of them mapped.
    for old, fresh in zip([op.operation, *ops_below(op)], [new, *ops_below(new)], strict=True):
        for i, v in enumerate(old.operands):
            if v in mapping:
                fresh.operands[i] = mapping[v]
        for r0, r1 in zip(old.regions, fresh.regions, strict=True):
            for b0, b1 in zip(r0.blocks, r1.blocks, strict=True):
                mapping.update(zip(b0.arguments, b1.arguments, strict=True))
        mapping.update(zip(old.results, fresh.results, strict=True))
    return new


def reinterpreted(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A tensor or buffer as another type of the same memory; below the level `affine`, both buffers are the same pointer."""
    return ir.Operation.create(CAST, results=[kind], operands=[value]).results[0]
