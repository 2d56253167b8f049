"""Attributes that pass facts from level to level, each with a name, a kind of value and an op that it belongs to, behind typed classes.

For each kind of operation with such attributes, a class (`ModuleInfo`, `KernelInfo`, …) has one field for each. The attribute's name is spelled
only there; reading checks its value, and `parse_module` checks all of them in a text. docs/levels.md lists their writers and readers.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from stepwell.dialects.core.attribute_kinds import Kind
from stepwell.dialects.core.diagnostics import Diagnostic, diagnosed
from stepwell.dialects.core.mlir import ir, on_parse, ops_below
from stepwell.dialects.support.errors import IRError, StepwellError

T = TypeVar("T")
PREFIXES = ("stepwell.", "sched.", "target.")
"""The prefixes of our attributes' names. MLIR requires the name of a dialect or project."""
_NEEDED: Any = object()


class Carried(Generic[T]):
    """An attribute as a field of a `Carrier`. An absent one reads as `default`, or raises `error` if it has no default.

    Setting it to None or False removes it.
    """

    def __init__(self, name: str, kind: Kind[Any], default: Any = _NEEDED, error: type[StepwellError] = IRError) -> None:
        self.name, self.kind, self.default, self.error = name, kind, default, error

    @overload
    def __get__(self, carrier: None, owner: Any = None) -> "Carried[T]": ...
    @overload
    def __get__(self, carrier: "Carrier", owner: Any = None) -> T: ...
    def __get__(self, carrier: "Carrier | None", owner: Any = None) -> "Carried[T] | T":
        if carrier is None:
            return self
        if self.name in carrier.attributes:
            problem, value = self.read(carrier.attributes[self.name])
            if problem:
                raise self.error(f"{carrier.where}: {problem}")
            return value
        if self.default is _NEEDED:
            raise self.error(f"{carrier.where}: has no attribute '{self.name}', expected {self.kind.expected}")
        return cast(T, self.default)

    def __set__(self, carrier: "Carrier", value: T) -> None:
        if value is None or value is False:
            self.__delete__(carrier)
        else:
            carrier.attributes[self.name] = self.kind.encode(value)

    def __delete__(self, carrier: "Carrier") -> None:
        if self.name in carrier.attributes:
            del carrier.attributes[self.name]

    def read(self, attribute: ir.Attribute) -> tuple[str, T]:
        """The problem with an attribute of this name ("" if there is none), and its value."""
        try:
            return "", self.kind.decode(attribute)
        except ValueError as error:
            more = f"attribute '{self.name}': {error}, in {attribute}" if error.args else ""
            return more or f"attribute '{self.name}' must be {self.kind.expected}, got {attribute}", cast(T, None)


class Carrier:
    """An operation with its attributes. A subclass has a `Carried` field for each."""

    on: ClassVar[tuple[str, ...]] = ()
    """The names of the operations; "linalg." stands for all of that dialect."""
    what: ClassVar[str] = ""
    """A word for these operations, for messages."""

    def __init__(self, op: Any) -> None:
        self.op: ir.Operation = op.operation
        self.attributes: Any = self.op.attributes

    def __init_subclass__(cls) -> None:
        _carriers[cls.__qualname__] = cls

    @property
    def where(self) -> str:
        """The operation in a message."""
        return f"'{self.op.name}' at {self.op.location}"

    @classmethod
    def carried(cls) -> dict[str, Carried[Any]]:
        """All attributes by name."""
        return {field.name: field for field in vars(cls).values() if isinstance(field, Carried)}

    def problems(self) -> Iterator[str]:
        """The problems of attributes that are each valid alone."""
        yield from ()


_carriers: dict[str, type[Carrier]] = {}


def carriers() -> tuple[type[Carrier], ...]:
    """All classes of carriers that are imported so far."""
    return tuple(_carriers.values())


@on_parse
def problems_in(module: ir.Operation) -> list[Diagnostic]:
    """The problems of our attributes in a module: unknown names, a wrong op, a wrong value."""
    found: list[Diagnostic] = []
    homes = {name: (cls, field) for cls in carriers() for name, field in cls.carried().items()}
    by_op: dict[str, list[type[Carrier]]] = {}

    def tell(op: ir.Operation, message: str) -> None:
        found.append(diagnosed(f"'{op.name}': {message}", op.location))

    for op in (module.operation, *ops_below(module)):
        if op.name not in by_op:
            by_op[op.name] = [cls for cls in carriers() if any(op.name == n or (n[-1] == "." and op.name.startswith(n)) for n in cls.on)]
        known, sound = by_op[op.name], True
        for name in op.attributes:
            if name in homes:
                cls, field = homes[name]
                problem = field.read(op.attributes[name])[0] if cls in known else f"attribute '{name}' is for {cls.what}"
            elif name.startswith(PREFIXES):
                names = [other for cls in known for other in cls.carried()]
                problem = f"there is no attribute '{name}'; expected {', '.join(names) or 'none of ours'} here"
            else:
                continue
            if problem:
                sound = False
                tell(op, problem)
        if sound:
            for cls in known:
                for problem in cls(op).problems():
                    tell(op, problem)
    return found
