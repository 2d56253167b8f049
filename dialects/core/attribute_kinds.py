"""The kinds of values of carried attributes: how to read each from an attribute, check it and write it."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


def plain(expected: str, accepted: Callable[[Any], bool], encode: Callable[[Any], ir.Attribute] = to_attribute) -> Kind[Any]:
    """The kind of Python values that `accepted` holds for."""
    return Kind(expected, lambda attribute: python_value(attribute, accepted), encode)


FIELD_TYPES: dict[Any, Kind[Any]] = {
    int: plain("a whole number", lambda value: type(value) is int),
    str: plain("a string", is_text),
    bool: plain("true or false", lambda value: isinstance(value, bool)),
    tuple[int, ...]: plain(
        "integers as array<i64: ...>", lambda value: isinstance(value, tuple) and all(type(n) is int for n in value),
        lambda numbers: ir.DenseI64ArrayAttr.get(list(numbers)),
    ),
    int | Size: Kind('a whole number, or a size as text, such as "4*n"', _size, SIZE.encode),
    tuple[int | Size, ...]: Kind('integers as array<i64: ...>, or sizes such as ["2*n", 3]', _numbers_or_sizes),
}  # fmt: skip
"""The kinds of the fields of records, by their types; dialects add their attributes."""


def filled_in(cls: type[T], attribute: ir.Attribute, word: str = "field", kinds: Mapping[Any, Kind[Any]] = FIELD_TYPES) -> T:
    """A dataclass from a dictionary of its fields, whose types are in `kinds`.

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
        kind = kinds[field.type]
        if field.name in given:
            try:
                values[field.name] = kind.decode(given[field.name])
            except ValueError as error:
                problem = f": {error}" if error.args else f" must be {kind.expected}, got {given[field.name]}"
                raise ValueError(f"{word} '{field.name}'{problem}") from None
        elif field.default is dataclasses.MISSING:
            raise ValueError(f"{word} '{field.name}' is missing, expected {kind.expected}")
    return cls(**values)


def written(value: Any, optional: Collection[str] = (), kinds: Mapping[Any, Kind[Any]] = FIELD_TYPES) -> ir.Attribute:
    """The dictionary of a dataclass's fields, from which `filled_in` makes it again, without `optional` fields that have their default."""
    fields = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return to_attribute({f.name: kinds[f.type].encode(entry) for f, entry in fields if f.name not in optional or entry != f.default})


def record(cls: type[T], optional: Collection[str] = (), kinds: Mapping[Any, Kind[Any]] = FIELD_TYPES) -> Kind[T]:
    """The kind of a dataclass, as a dictionary of its fields. Those with a default may be left out, and the `optional` ones are (see `written`)."""
    names = ", ".join(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]  # a dataclass: mypy has no bound for these
    return Kind(
        f"a dictionary with the fields {names}",
        lambda attribute: filled_in(cls, attribute, kinds=kinds),
        lambda value: written(value, optional, kinds),
    )


def records(one: Kind[T], expected: str, complaint: Callable[[list[T]], str | None] = lambda _: None) -> Kind[list[T]]:
    """The kind of a list of values of the kind `one`, as a whole without a `complaint`."""

    def decode(attribute: ir.Attribute) -> list[T]:
        if not isinstance(attribute, ir.ArrayAttr):
            raise ValueError
        found = [one.decode(entry) for entry in attribute]
        wrong = complaint(found)
        if wrong:
            raise ValueError(wrong)
        return found

    return Kind(expected, decode, lambda values: ir.ArrayAttr.get([one.encode(value) for value in values]))
