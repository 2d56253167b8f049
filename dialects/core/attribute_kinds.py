"""The kinds of values of carried attributes: how to read each from an attribute, check it and write it."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from stepwell.dialects.core.attributes import sizes_value, to_attribute, to_python
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.size_parser import parse, parse_all
from stepwell.dialects.core.sizes import Dim, Size, size_text
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import InferenceError

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of values.

    `decode` reads the value from an attribute. It raises ValueError if the attribute is of another kind, with a message if there is more to
    say than `expected`. `encode` makes an attribute from a value.
    """

    expected: str
    decode: Callable[[ir.Attribute], T]
    encode: Callable[[T], ir.Attribute] = to_attribute


def python_value(attribute: ir.Attribute, accepted: Callable[[Any], bool]) -> Any:
    """The Python value of an attribute. Raises ValueError if it has none, or one that is not accepted."""
    try:
        value = to_python(attribute)
    except InferenceError:
        raise ValueError from None
    if not accepted(value):
        raise ValueError
    return value


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 0."""
    return type(value) is int and value >= 0


def is_text(value: object) -> bool:
    """Whether a value is a printable string: our texts are names and reasons, and messages and listings contain them."""
    return isinstance(value, str) and value.isprintable()


def _flag(attribute: ir.Attribute) -> bool:
    if not isinstance(attribute, ir.UnitAttr):
        raise ValueError
    return True


def _texts(attribute: ir.Attribute) -> list[str]:
    return list(python_value(attribute, lambda value: isinstance(value, tuple) and all(map(is_text, value))))


def _counts(attribute: ir.Attribute) -> dict[str, int]:
    return dict(python_value(attribute, lambda value: isinstance(value, dict) and all(map(is_count, value.values()))))


def _pairs(attribute: ir.Attribute) -> list[tuple[int, int]]:
    numbers = python_value(attribute, lambda value: isinstance(value, tuple) and len(value) % 2 == 0 and all(map(is_count, value)))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _sizes(attribute: ir.Attribute) -> list[tuple[Dim, ...]]:
    """The entries of a list of sizes as text, such as `["n, 2*s + 1", ""]`."""
    try:
        return [parse_all(text) if text else () for text in _texts(attribute)]
    except InferenceError as error:
        raise ValueError(error.args[0]) from None


def _size(attribute: ir.Attribute) -> int | Size:
    value = python_value(attribute, lambda value: is_count(value) or is_text(value))
    try:
        return parse(value) if isinstance(value, str) else int(value)
    except InferenceError as error:
        raise ValueError(error.args[0]) from None


def _from_sizes(shapes: Iterable[Sequence[Dim]]) -> ir.Attribute:
    return to_attribute([", ".join(map(size_text, sizes)) for sizes in shapes])


def _typed_names(attribute: ir.Attribute) -> list[tuple[str, TensorType]]:
    """The entries of a list of `["name", tensor<…>]`."""
    if not isinstance(attribute, ir.ArrayAttr):
        raise ValueError
    found = []
    for entry in attribute:
        parts = list(entry) if isinstance(entry, ir.ArrayAttr) else []
        if len(parts) != 2 or not isinstance(parts[0], ir.StringAttr) or not isinstance(parts[1], ir.TypeAttr):
            raise ValueError
        try:
            name = parts[0].value
            if not is_text(name):
                raise ValueError
            found.append((name, TensorType.from_mlir(parts[1].value)))
        except InferenceError as error:
            raise ValueError(f"'{parts[0].value}': {error.args[0]}") from None
    return found


def _from_typed_names(values: list[tuple[str, TensorType]]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.StringAttr.get(name), ir.TypeAttr.get(kind.to_mlir())]) for name, kind in values])


FLAG: Kind[bool] = Kind("nothing but its name", _flag, lambda _: ir.UnitAttr.get())
COUNT: Kind[int] = Kind("a whole number from 0", lambda attribute: int(python_value(attribute, is_count)))
TEXT: Kind[str] = Kind("a string of printable characters", lambda attribute: str(python_value(attribute, is_text)))
TEXTS: Kind[list[str]] = Kind(
    "a list of strings of printable characters", _texts, lambda values: ir.ArrayAttr.get([ir.StringAttr.get(text) for text in values])
)
COUNTS: Kind[dict[str, int]] = Kind("a dictionary of whole numbers from 0", _counts, lambda values: to_attribute(dict(values)))
PAIRS: Kind[list[tuple[int, int]]] = Kind(
    "pairs of whole numbers from 0 as array<i64: ...>", _pairs, lambda pairs: ir.DenseI64ArrayAttr.get([n for pair in pairs for n in pair])
)
SIZE: Kind[int | Size] = Kind(
    'a whole number from 0, or a size as text, such as "4*n"', _size, lambda size: to_attribute(str(size) if isinstance(size, Size) else size)
)
SIZES: Kind[list[tuple[Dim, ...]]] = Kind('lists of sizes as text, such as ["n, 2*s + 1", ""]', _sizes, _from_sizes)
TYPED_NAMES: Kind[list[tuple[str, TensorType]]] = Kind('a list of ["name", tensor<…>]', _typed_names, _from_typed_names)

def _numbers_or_sizes(attribute: ir.Attribute) -> tuple[int | Size, ...]:
    """Sizes as `array<i64: ...>`, or as a list of numbers and text if one is dynamic."""
    try:
        return sizes_value(attribute)
    except InferenceError:
        raise ValueError from None


def _plain_field(accepted: Callable[[Any], bool]) -> Callable[[ir.Attribute], Any]:
    return lambda attribute: python_value(attribute, accepted)


FIELD_TYPES: dict[Any, tuple[Callable[[ir.Attribute], Any], str]] = {
    int: (_plain_field(lambda value: type(value) is int), "a whole number"),
    str: (_plain_field(is_text), "a string"),
    bool: (_plain_field(lambda value: isinstance(value, bool)), "true or false"),
    tuple[int, ...]: (
        _plain_field(lambda value: isinstance(value, tuple) and all(type(n) is int for n in value)), "integers as array<i64: ...>"
    ),
    int | Size: (_size, 'a whole number, or a size as text, such as "4*n"'),
    tuple[int | Size, ...]: (_numbers_or_sizes, 'integers as array<i64: ...>, or sizes such as ["2*n", 3]'),
}  # fmt: skip
"""How `filled_in` reads a field of each type, and what it expects; dialects add their attributes."""


def filled_in(cls: type[T], attribute: ir.Attribute, word: str = "field") -> T:
    """A dataclass from a dictionary of its fields, annotated as int, str, bool, tuple[int, ...], int | Size or tuple[int | Size, ...].

    Raises ValueError that names an unknown, missing or mistyped field, called a `word` in the message.
    """
    known: Any = dataclasses.fields(cls)  # type: ignore[arg-type]  # a dataclass: mypy has no bound for these
    names = ", ".join([field.name for field in known])
    if not isinstance(attribute, ir.DictAttr):
        raise ValueError(f"expected a dictionary with the {word}s {names}")
    given = {entry.name: entry.attr for entry in attribute}
    unknown = given.keys() - {field.name for field in known}
    if unknown:
        raise ValueError(f"there is no {word} '{next(name for name in given if name in unknown)}', expected {names}")
    values = {}
    for field in known:
        if field.name in given:
            decode, expected = FIELD_TYPES[field.type]
            try:
                values[field.name] = decode(given[field.name])
            except ValueError:
                raise ValueError(f"{word} '{field.name}' must be {expected}, got {given[field.name]}") from None
        elif field.default is dataclasses.MISSING:
            raise ValueError(f"{word} '{field.name}' is missing, expected {FIELD_TYPES[field.type][1]}")
    return cls(**values)


def record(cls: type[T]) -> Kind[T]:
    """The kind of a dataclass, written as a dictionary of its fields; fields with their default may be left out."""
    names = ", ".join(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]  # a dataclass: mypy has no bound for these

    def encode(value: T) -> ir.Attribute:
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]  # a dataclass: mypy has no bound for these
        return to_attribute({name: str(entry) if isinstance(entry, Size) else entry for name, entry in fields.items()})

    return Kind(f"a dictionary with the fields {names}", lambda attribute: filled_in(cls, attribute), encode)
