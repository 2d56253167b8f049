"""Attributes that carry facts from level to level, each with a name, a kind of value and a place, behind typed classes.

For each kind of operation that carries some, a class (`ModuleInfo`, `KernelInfo`, …) has a field per attribute. Its name is spelled there and
nowhere else; reading checks its value; `parse_module` checks all of them in a text. docs/levels.md lists who writes and reads what.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from stepwell.dialects.core.attribute_kinds import Kind
from stepwell.dialects.core.diagnostics import Diagnostic, diagnosed
from stepwell.dialects.core.mlir import ir, on_parse, ops_below
from stepwell.dialects.support.errors import IRError, StepwellError

T = TypeVar("T")
PREFIXES = ("stepwell.", "sched.", "target.")
"""The prefixes of our attributes' names: as MLIR requires, the dialect or project that they belong to."""
_NEEDED: Any = object()


class Carried(Generic[T]):
    """An attribute as a field of a `Carrier`. It reads as `default` where it is absent, or raises `error` if it has none.

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
        """What is wrong with an attribute of this name, "" for nothing; and its value."""
        try:
            return "", self.kind.decode(attribute)
        except ValueError as error:
            more = f"attribute '{self.name}': {error}, in {attribute}" if error.args else ""
            return more or f"attribute '{self.name}' must be {self.kind.expected}, got {attribute}", cast(T, None)


class Carrier:
    """An operation with the attributes that it carries. A subclass has a `Carried` field for each."""

    on: ClassVar[tuple[str, ...]] = ()
    """The names of the operations; a whole dialect's as "linalg."."""
    what: ClassVar[str] = ""
    """These operations in a word, for messages."""

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
        """Its attributes by name."""
        return {field.name: field for field in vars(cls).values() if isinstance(field, Carried)}

    def problems(self) -> Iterator[str]:
        """What is wrong with attributes that are each valid by themselves."""
        yield from ()


_carriers: dict[str, type[Carrier]] = {}


def carriers() -> tuple[type[Carrier], ...]:
    """All classes of carriers that are known so far."""
    return tuple(_carriers.values())


@on_parse
def problems_in(module: ir.Operation) -> list[Diagnostic]:
    """What is wrong with our attributes on the operations of a module: unknown names, a wrong place, a wrong value."""
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
