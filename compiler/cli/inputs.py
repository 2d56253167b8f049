"""Input data from the command line: arrays from files, or seeded random numbers."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.analysis.archives import Archive
from stepwell.analysis.data_files import DATA_FILES, IMAGES, as_type, picked, read_data
from stepwell.analysis.random_inputs import random_array, random_value
from stepwell.cli.common import UsageError
from stepwell.cli.shapes import sized
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.limits import Limits
from stepwell.signature import MAP, is_string

if TYPE_CHECKING:
    from stepwell.signature import TensorInfo

SEED_DIGITS = 100


def gather(
    specifications: Sequence[str], inputs: "Sequence[TensorInfo]", seed: int = 0, sizes: Mapping[str, int] | None = None,
    limits: Limits | None = None, *, extreme: bool = False, words: Callable[[str], Sequence[str]] = lambda name: (),
) -> dict[str, Any]:  # fmt: skip
    """An array for each of the model's inputs: as specified, and otherwise random data from `seed`, with `extreme` floats or not.

    `words` returns the vocabulary of an input of strings, if it is known. Dynamic sizes of random data are, by name, those of the data that are read,
    else those of `sizes`. Raises UsageError for an invalid specification or an unknown name, InputError for a file that cannot be read or used,
    LimitError for one that is larger than `limits` allow.
    """
    infos = {info.name: info for info in inputs}
    given: dict[str, np.ndarray | int] = {}
    for specification in specifications:
        for name, data in _specified(specification, infos, limits).items():
            if name in given:
                raise UsageError(f"--input {specification}: input '{name}' is given twice")
            given[name] = data
    numbers = dict(sizes or {})
    for name, data in given.items():
        if isinstance(data, np.ndarray) and data.ndim == len(infos[name].shape):
            numbers.update({size: n for size, n in zip(infos[name].shape, data.shape, strict=True) if isinstance(size, str)})
    found = {}
    for index, (name, info) in enumerate(infos.items()):
        data = given.get(name, seed)
        found[name] = data if isinstance(data, np.ndarray) else _random(sized(info, numbers), data, index, extreme, words(name))
    return found


def _specified(specification: str, infos: "Mapping[str, TensorInfo]", limits: Limits | None) -> dict[str, np.ndarray | int]:
    named = [name for name in infos if specification.startswith(f"{name}=")]
    if named:
        name = max(named, key=len)  # a name may contain an equals sign
        return {name: load(infos[name], specification[len(name) + 1 :], limits)}
    if specification.endswith(".npz") and Path(specification).is_file():
        arrays = Archive(Path(specification), limits)
        unknown = [name for name in arrays if name not in infos]
        if not unknown:
            return {name: as_type(picked(arrays, name, infos[name]), infos[name].dtype) for name in arrays}
        if len(infos) != 1:
            raise InputError(f"{specification}: there is no input '{unknown[0]}'; the model's inputs: {', '.join(infos)}")
    if "=" in specification and not Path(specification).exists():
        unknown_name = specification.partition("=")[0]
        raise UsageError(f"--input {specification}: there is no input '{unknown_name}'; the model's inputs: {', '.join(infos) or 'none'}")
    if len(infos) != 1:
        raise UsageError(f"--input {specification}: expected NAME=…, as the model has {len(infos)} inputs: {', '.join(infos)}")
    [(name, info)] = infos.items()
    return {name: load(info, specification, limits)}


def load(info: "TensorInfo", what: str, limits: Limits | None = None) -> np.ndarray | int:
    """The array for an input specified by `what`: the path of a file, or `random[:SEED]`, for which the seed is returned."""
    if found := re.fullmatch(r"random(?::(\d+))?", what):
        digits = found.group(1) or "0"
        if len(digits) > SEED_DIGITS:
            raise UsageError(f"input '{info.name}': expected a seed of at most {SEED_DIGITS} digits, got one of {len(digits)}")
        return int(digits)
    path = Path(what)
    if not path.is_file():
        raise InputError(f"input '{info.name}': there is no file {what}")
    if path.suffix.lower() not in DATA_FILES:
        raise UsageError(f"input '{info.name}': expected a file .npy, .npz, .pb, .txt or an image ({', '.join(IMAGES)}), got {what}")
    return read_data(path, info, limits)


def _random(info: "TensorInfo", seed: int, index: int, extreme: bool, words: Sequence[str]) -> Any:
    if info.form == (MAP,):
        return random_value(info, seed, index, words)
    if info.form:
        raise UsageError(f"input '{info.name}' is {info}: say what it consists of, as in --shape {info.name}=1x3,2x3 (or {info.name}=nothing)")
    if not info.is_static:
        example = "x".join(str(size) if isinstance(size, int) else "1" for size in info.shape)
        raise UsageError(f"input '{info.name}' {info} has free dimensions: give data for it, or its shape as in --shape {info.name}={example}")
    return random_value(info, seed, index, words) if is_string(info.dtype) else random_array(info, seed, index, extreme=extreme)
