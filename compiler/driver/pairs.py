"""Pairs of an input and the output that feeds it in the next call, and checks of their sizes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import Size, evaluated
from stepwell.dialects.support.errors import InputError, shown
from stepwell.signature import TensorInfo, shape_text

_USUAL = ("past_key_values", "past")  # name prefixes of cache inputs; the outputs begin with `present`


def usual_pairs(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> dict[str, str]:
    """Maps inputs to outputs with the usual names of caches: `past_key_values.0.key` and `present.0.key`, or `past_0` and `present_0`.

    Raises InputError if there are none.
    """
    given, pairs = {info.name for info in outputs}, {}
    for info in inputs:
        begins = next((begin for begin in _USUAL if info.name.startswith(begin)), None)
        name = None if begins is None else f"present{info.name.removeprefix(begins)}"
        if name in given:
            pairs[info.name] = name
    if not pairs:
        names = " and ".join(", ".join(info.name for info in side) or "none" for side in (inputs, outputs))
        raise InputError(f"bind: no inputs and outputs are named as caches usually are (past…, present…); give pairs of {names}")
    return pairs


def check_pairs(pairs: Mapping[str, str], inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> dict[str, str]:
    """Pairs of an input and the output that feeds it in the next call. Raises InputError for unknown names, and for types that differ."""
    takers, givers = ({info.name: info for info in side} for side in (inputs, outputs))
    found: dict[str, str] = {}
    for taker, giver in pairs.items():
        for kind, name, known in (("input", taker, takers), ("output", giver, givers)):
            if name not in known:
                raise InputError(f"bind: expected an {kind} of the model, got {shown(name)}; it has {', '.join(known) or 'none'}")
        takes, gives = takers[taker], givers[giver]
        if takes.form or gives.form:
            raise InputError(f"bind: input '{taker}' {takes} and output '{giver}' {gives} must be tensors")
        if takes.dtype != gives.dtype or len(takes.shape) != len(gives.shape):
            raise InputError(f"bind: input '{taker}' {takes} cannot take output '{giver}' {gives}: expected one dtype and one rank")
        if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(takes.shape, gives.shape, strict=True)):
            raise InputError(f"bind: input '{taker}' {takes} cannot take output '{giver}' {gives}: its sizes are others")
        if giver in found.values():
            raise InputError(f"bind: output '{giver}' is given to two inputs, expected one for each")
        found[taker] = giver
    if not found:
        raise InputError("bind: expected at least one pair of an input and an output, got none")
    return found


class ContradictionError(InputError):
    """Sizes that contradict the names, or the expressions, that the model gives its dimensions."""


Sizes: TypeAlias = Callable[[Mapping[str, int]], Mapping[str, int]]
"""Computes the sizes of a model's inputs and outputs, by their texts, from values of symbols; others than those that follow mean nothing."""


def sizes_without_code(infos: Sequence[TensorInfo], values: Mapping[str, int]) -> dict[str, int]:
    """The sizes of some inputs that follow from values of symbols: for a model without a program that computes them (`Sizes`)."""
    texts = {size for info in infos for size in info.shape if isinstance(size, str) and not info.is_unranked}
    return {text: evaluated(size, values) for text in texts if values.keys() >= set((size := _expression(text)).symbols)}


def _expression(text: str) -> Size:
    size = parse(text)
    assert isinstance(size, Size)  # its text was no number
    return size


def check_sizes(infos: Sequence[TensorInfo], shapes: Sequence[Any], sizes: Sizes, kind: str = "input") -> None:
    """Raise InputError if shapes do not fit those of some inputs of a model, which the message calls `kind`; `sizes` computes those that follow.

    Raises ContradictionError if they give one symbol two sizes. Shapes of sequences and optionals are not checked. A size that is computed from
    others may depend on inputs that are not among these: then it must be the same wherever it occurs.
    """
    bound: dict[str, tuple[int, str]] = {}
    computed: list[tuple[TensorInfo, str, int]] = []
    for info, shape in zip(infos, shapes, strict=True):
        if info.form or shape is None:  # checked with the array, or by the import
            continue
        if not info.fits(shape):
            raise InputError(f"{kind} '{info.name}': expected {info}, got shape {shape_text(shape)}")
        for size, came in zip(info.shape, shape, strict=True):
            if isinstance(size, str):
                first, where = bound.setdefault(size, (came, info.name))
                if first != came:
                    raise ContradictionError(f"{kind} '{info.name}': expected {size} = {first}, as in {kind} '{where}', got {came}")
                if not size.isidentifier():
                    computed.append((info, size, came))
    found = sizes({name: number for name, (number, _) in bound.items()}) if computed else {}
    for info, size, came in computed:
        names = _expression(size).symbols
        if bound.keys() >= set(names) and came != (expected := found[size]):
            of = " and ".join(dict.fromkeys(f"'{bound[name][1]}'" for name in names))
            raise ContradictionError(f"{kind} '{info.name}': expected {size} = {expected}, as the sizes of {of} say, got {came}")
