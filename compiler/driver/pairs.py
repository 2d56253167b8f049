"""Pairs of an input and the output that the next call takes for it."""

from collections.abc import Mapping, Sequence

from stepwell.dialects.support.errors import InputError, shown
from stepwell.runtime.infos import TensorInfo

_USUAL = ("past_key_values", "past")  # how the names of caches begin, of which results begin with `present`


def usual_pairs(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> dict[str, str]:
    """The inputs, each with its output, named as caches usually are: `past_key_values.0.key` and `present.0.key`, or `past_0` and `present_0`.

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
    """Pairs of an input and the output that it takes next. Raises InputError for names that there are not, and for types that differ."""
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
