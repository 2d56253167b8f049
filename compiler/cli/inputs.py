"""Input data from the command line: arrays from .npy, .npz, .pb and image files, or seeded random numbers."""

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepwell.analysis.random_inputs import random_array
from stepwell.cli.common import UsageError
from stepwell.cli.shapes import sized
from stepwell.dialects.support.errors import InputError

if TYPE_CHECKING:
    from stepwell.runtime.infos import TensorInfo

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tiff")
HELP = """name=FILE.npy|FILE.npz|FILE.pb|IMAGE|random[:SEED]; the name may be left out where the model has one input, or for an .npz file
with an array for each. Images must have the input's size; they become channels × height × width (1 channel grey, 3 RGB, 4 RGBA), for
floating-point inputs divided by 255. Inputs not given are random:0, a standard normal distribution (integers: 0 to 9)"""


def gather(
    specifications: Sequence[str], inputs: "Sequence[TensorInfo]", seed: int = 0, sizes: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:  # fmt: skip
    """An array for each of the model's inputs: what the specifications say, random data of a `seed` for the rest.

    Free sizes of random data, by name, are those of the data that are read, else those of `sizes`. Raises UsageError for a specification that makes
    no sense or an unknown name, InputError for a file that cannot be read or used.
    """
    infos = {info.name: info for info in inputs}
    given: dict[str, np.ndarray | int] = {}
    for specification in specifications:
        for name, data in _specified(specification, infos).items():
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
        found[name] = data if isinstance(data, np.ndarray) else _random(sized(info, numbers), data, index)
    return found


def _specified(specification: str, infos: "Mapping[str, TensorInfo]") -> dict[str, np.ndarray | int]:
    named = [name for name in infos if specification.startswith(f"{name}=")]
    if named:
        name = max(named, key=len)  # a name may have an equals sign in it
        return {name: load(infos[name], specification[len(name) + 1 :])}
    if specification.endswith(".npz") and Path(specification).is_file():
        arrays = read_npz(Path(specification))
        unknown = [name for name in arrays if name not in infos]
        if not unknown:
            return {name: as_type(array, infos[name].dtype) for name, array in arrays.items()}
        if len(infos) != 1:
            raise InputError(f"{specification}: there is no input '{unknown[0]}'; the model's inputs: {', '.join(infos)}")
    if "=" in specification and not Path(specification).exists():
        unknown_name = specification.partition("=")[0]
        raise UsageError(f"--input {specification}: there is no input '{unknown_name}'; the model's inputs: {', '.join(infos) or 'none'}")
    if len(infos) != 1:
        raise UsageError(f"--input {specification}: expected NAME=…, as the model has {len(infos)} inputs: {', '.join(infos)}")
    [(name, info)] = infos.items()
    return {name: load(info, specification)}


def load(info: "TensorInfo", what: str) -> np.ndarray | int:
    """The array that `what` names, for an input: the path of a file, or `random[:SEED]`, of which this gives the seed."""
    if found := re.fullmatch(r"random(?::(\d+))?", what):
        return int(found.group(1) or 0)
    path = Path(what)
    suffix = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"input '{info.name}': there is no file {what}")
    if suffix == ".npy":
        array = _read_npy(path)
    elif suffix == ".npz":
        array = _pick(read_npz(path), info.name, path)
    elif suffix == ".pb":
        array = _read_tensor(path)
    elif suffix in IMAGES:
        array = _read_image(path, info)
    else:
        raise UsageError(f"input '{info.name}': expected a file .npy, .npz, .pb or an image ({', '.join(IMAGES)}), got {what}")
    return as_type(array, info.dtype)


def _random(info: "TensorInfo", seed: int, index: int) -> np.ndarray:
    if info.form:
        raise UsageError(f"input '{info.name}' is {info}: say what it consists of, as in --shape {info.name}=1x3,2x3 (or {info.name}=nothing)")
    if not all(isinstance(size, int) for size in info.shape):
        example = "x".join(str(size) if isinstance(size, int) else "1" for size in info.shape)
        raise UsageError(f"input '{info.name}' {info} has free dimensions: give data for it, or its shape as in --shape {info.name}={example}")
    return random_array(info, seed, index)


def as_type(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array from a file: numpy saves types that it does not know, as bfloat16, as bare bytes."""
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array


def _read_npy(path: Path) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy file: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: expected one array, got an archive")
    return array


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive by name. Raises InputError if it is none."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise InputError(f"{path}: not a readable .npz file: {error}") from None


def _pick(arrays: Mapping[str, np.ndarray], name: str, path: Path) -> np.ndarray:
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise InputError(f"{path}: expected an array '{name}' or a single one, got {', '.join(arrays) or 'none'}")


def _read_tensor(path: Path) -> np.ndarray:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        array: np.ndarray = onnx.numpy_helper.to_array(tensor)
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a readable tensor (onnx.TensorProto): {error}") from None
    return array


def _read_image(path: Path, info: "TensorInfo") -> np.ndarray:
    """An image as [1,] channels, height, width, or height, width; floats from 0 to 1, 8-bit integers as they are."""
    from PIL import Image, UnidentifiedImageError

    rank = len(info.shape)
    channels = 1 if rank == 2 else info.shape[-3] if rank in (3, 4) else None
    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    if channels not in modes or (rank == 4 and info.shape[0] not in (1, None) and not isinstance(info.shape[0], str)):
        raise InputError(f"{path}: an image needs an input of shape [1x]CxHxW with 1, 3 or 4 channels, or HxW; '{info.name}' is {info}")
    if info.dtype.kind != "f" and info.dtype.name not in ("uint8", "bfloat16"):
        raise InputError(f"{path}: an image needs an input of floating point or uint8; '{info.name}' is {info}")
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert(modes[channels]))
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: not a readable image: {error}") from None
    expected = info.shape[-2:]
    if any(isinstance(want, int) and want != got for want, got in zip(expected, pixels.shape[:2], strict=True)):
        height, width = pixels.shape[:2]
        raise InputError(f"{path}: the image is {width} wide and {height} high, input '{info.name}' is {info}; resize it first")
    planes = pixels if rank == 2 else np.atleast_3d(pixels).transpose(2, 0, 1)
    if rank == 4:
        planes = planes[None]
    if info.dtype.name == "uint8":
        return np.ascontiguousarray(planes)
    return np.ascontiguousarray((planes.astype(np.float32) / 255).astype(info.dtype))
