"""The only module that imports the MLIR bindings. It repairs their classes for ops defined in Python (`ext`), and reads which fields ops have.

All private names of the bindings that we use or replace are in this file, except `_dialect_obj` (dialects/graph/base.py). None has a public way:
- `ext.irdl.operands_` and `results_` are replaced: `ext` calls them when it defines a dialect, and they allow one type for a group;
- `_mlir_module` of a dialect is dropped after each load: `ext` keeps the IR of the definition there, and with it a whole context;
- `_fields` of an op is read: `ext` keeps the declared fields nowhere else, and annotations lack what it derives from them;
- `erase` of the base class of ops is replaced ([erasing.py](erasing.py)): MLIR has no listener that lets Python refuse.
Ops are built by `create_operation` (op_fields.py), not by the constructors of `ext`, which treat `False` and empty arrays as absent.
"""

import sys
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from stepwell.dialects.core.deferred import defer, without_named_ops
from stepwell.dialects.core.erasing import guard_erase
from stepwell.dialects.support.processes import uninterrupted

with uninterrupted():  # an interrupt would leave native code half initialised, for good
    without_named_ops()
    defer("torch_mlir.dialects.llvm")
    from torch_mlir import ir, passmanager, rewrite
    from torch_mlir.dialects import affine, arith, bufferization, cf, ext, func, linalg, llvm, math, memref, scf, tensor, ub, vector, x86
    from torch_mlir.execution_engine import ExecutionEngine

__all__ = [
    "Attribute", "Dialect", "ExecutionEngine", "Operand", "Operation", "OptionalOperand", "Pure", "Region", "Result", "VariadicOperand",
    "VariadicResult", "affine", "arith", "bufferization", "cf", "func", "ir", "linalg", "llvm", "math", "memref", "passmanager", "rewrite", "scf",
    "tensor", "ub", "vector", "x86",
]  # fmt: skip

Pure = ext.Pure
Region: TypeAlias = ir.Region

# Field kinds of an operation class. The values of one variadic field may have different types: IRDL alone does not allow that, but the
# type runs of op_fields.py do (so concat and fused stay variadic). The op's `infer` checks the types of operands and results, because its
# messages can say more than a constraint; type checkers see the types that the accessors return.
if TYPE_CHECKING:

    class Dialect:
        """Declares `ext.Dialect` for type checkers."""

        DIALECT_NAMESPACE: ClassVar[str]
        operations: ClassVar[list[Any]]
        _mlir_module: ClassVar[ir.Module | None]

        def __init_subclass__(cls, *, name: str, **kwargs: Any) -> None: ...

        @classmethod
        def load(cls) -> None: ...

    class Operation(ir.OpView):
        """Declares `ext.Operation` for type checkers."""

        OPERATION_NAME: ClassVar[str]
        _fields: list[Any]

        def __init_subclass__(cls, *, name: str | None = None, traits: list[Any] | None = None, dialect: Any = None, **kwargs: Any) -> None: ...

    class Attribute(ir.Attribute):
        """Declares `ext.Attribute` for type checkers."""

        def __init_subclass__(cls, *, name: str | None = None, dialect: Any = None, **kwargs: Any) -> None: ...

        @classmethod
        def get(cls, *args: Any, context: Any = None) -> Any: ...

    Operand: TypeAlias = ir.Value[Any]
    Result: TypeAlias = ir.Value[Any]
    OptionalOperand: TypeAlias = ir.Value[Any] | None
    VariadicOperand: TypeAlias = Sequence[ir.Value[Any]]
    VariadicResult: TypeAlias = Sequence[ir.Value[Any]]
else:
    Dialect, Operation, Attribute = ext.Dialect, ext.Operation, ext.Attribute
    Operand = ext.Operand[Any]
    Result = ext.Result[Any]
    OptionalOperand = ext.Operand[Any] | None
    VariadicOperand = Sequence[ext.Operand[Any]]
    VariadicResult = Sequence[ext.Result[Any]]


TYPE_RUNS = 64  # the most changes of type along a variadic group


def _in_runs(define: Any) -> Any:
    """Define a variadic group as many groups, each for a run of values of one type, because IRDL requires one type for all values of a group."""

    def define_in_runs(constraints: Any, names: Any, variadicities: Any, **where: Any) -> Any:
        groups = []
        for constraint, name, variadicity in zip(constraints, names, variadicities, strict=True):
            groups.append((constraint, name, variadicity))
            if variadicity == ext.Variadicity.variadic:
                groups += [(constraint.owner.clone().results[0], f"{name}{run}", variadicity) for run in range(1, TYPE_RUNS)]
        return define(*map(list, zip(*groups, strict=True)), **where)

    return define_in_runs


def _repair_ext() -> None:
    if hasattr(ext, "_repaired"):  # an interrupt removed this module after this line, and it is imported again
        return
    ext._repaired = True
    guard_erase(ir.Operation.__base__)  # a base of every op class too
    ext.irdl.operands_ = _in_runs(ext.irdl.operands_)
    ext.irdl.results_ = _in_runs(ext.irdl.results_)
    # Attribute classes without a registered name fail as field types; these are the names of their storage kinds.
    ir.DenseI64ArrayAttr.attr_name = "builtin.dense_array"
    ir.BoolAttr.attr_name = "builtin.integer"
    ir.DenseElementsAttr.attr_name = "builtin.dense_typed_elements"


def declared_fields(cls: type[Operation]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """The operands, attributes, results and regions that an op class declares, as definitions of `ext`."""
    operands, attributes, results, regions = ext.partition_fields(cls._fields)
    return operands, attributes, results, regions


def define(dialect: type[Dialect]) -> None:
    """Load a dialect into the current context, and drop the definition that `ext` keeps."""
    dialect.load()
    dialect._mlir_module = None


def provide_module(dialect: str) -> None:
    """Register an empty module for a dialect: otherwise the bindings try to import one at each view of an op."""
    module = f"{ext.__package__}.{dialect}"
    sys.modules.setdefault(module, types.ModuleType(module))


with uninterrupted():
    _repair_ext()
    provide_module("omp")  # the only upstream dialect that we use and the wheel has no module for
