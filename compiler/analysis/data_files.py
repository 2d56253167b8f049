"""Arrays for the inputs of models from files: .npy, .npz, .pb and images."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stepwell.dialects.support.errors import InputError
from stepwell.runtime.infos import TensorInfo

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tiff")
DATA_FILES = (".npy", ".npz", ".pb", *IMAGES)


def read_data(path: Path, info: TensorInfo) -> np.ndarray:
    """The array that a file of one of the kinds `DATA_FILES` holds for an input. Raises InputError if it cannot be read or used."""
    suffix = path.suffix.lower()
    if suffix not in DATA_FILES:
        raise InputError(f"{path}: expected a file {', '.join(DATA_FILES)}")
    if suffix == ".npy":
        array = read_npy(path)
    elif suffix == ".npz":
        array = _pick(read_npz(path), info.name, path)
    elif suffix == ".pb":
        array = _read_tensor(path)
    else:
        array = _read_image(path, info)
    return as_type(array, info.dtype)


def as_type(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array from a file: numpy saves types that it does not know, as bfloat16, as bare bytes."""
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array


def read_npy(path: Path) -> np.ndarray:
    """The array of a file. Raises InputError if it holds none."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy file: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: expected one array, got an archive")
    return array


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive by name. Raises InputError if it is none."""
    from zipfile import BadZipFile  # here, because it loads every kind of compression

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, BadZipFile, AttributeError, TypeError) as error:
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


def _read_image(path: Path, info: TensorInfo) -> np.ndarray:
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
