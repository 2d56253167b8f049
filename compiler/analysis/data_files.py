"""Arrays for the inputs of models from files: .npy, .npz, .pb and images."""

from pathlib import Path

import numpy as np

from stepwell.analysis.archives import Archive, read_npy, readable
from stepwell.dialects.support.errors import InputError, ModelError, UnsupportedError
from stepwell.dialects.support.limits import Limits
from stepwell.signature import STRING, TensorInfo, is_string

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")
"""Pillow's names of the accepted image formats.

Pillow knows more, goes by the content, and starts other programs for some, such as Ghostscript for EPS.
"""
TEXT = ".txt"
DATA_FILES = (".npy", ".npz", ".pb", TEXT, *IMAGES)


def read_data(path: Path, info: TensorInfo, limits: Limits | None = None) -> np.ndarray:
    """The array for an input in a file of one of the kinds `DATA_FILES`.

    Raises InputError if it cannot be read or used, LimitError if it is larger than `limits.value_bytes`.
    """
    suffix = path.suffix.lower()
    if suffix not in DATA_FILES:
        raise InputError(f"{path}: expected a file {', '.join(DATA_FILES)}")
    if suffix == ".npy":
        array = read_npy(path, limits)
    elif suffix == ".npz":
        array = _pick(Archive(path, limits), info, path)
    elif suffix == ".pb":
        array = _read_tensor(path)
    elif suffix == TEXT:
        array = _read_lines(path, info)
    else:
        array = _read_image(path, info)
    return as_type(array, info.dtype)


def as_type(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array from a file: numpy saves types that it does not know, such as bfloat16, as raw bytes, and strings at their largest length."""
    if is_string(dtype) and array.dtype.kind == "U":
        return array.astype(STRING)
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array


def _pick(arrays: Archive, info: TensorInfo, path: Path) -> np.ndarray:
    if info.name in arrays or len(arrays) == 1:
        return picked(arrays, info.name if info.name in arrays else next(iter(arrays)), info)
    raise InputError(f"{path}: expected an array '{info.name}' or a single one, got {', '.join(arrays) or 'none'}")


def picked(arrays: Archive, name: str, info: TensorInfo) -> np.ndarray:
    """An array of an archive for an input. Raises InputError, before it is unpacked, if its shape does not fit."""
    shape = arrays.shape(name)
    if not info.form and not info.fits(shape):
        raise InputError(f"{arrays.path}: input '{info.name}' is {info}, got the shape {list(shape)}")
    return arrays[name]


def _read_lines(path: Path, info: TensorInfo) -> np.ndarray:
    """The lines of a text file as strings: a vector, or a matrix of one column or one row if the input has that shape."""
    if not is_string(info.dtype) or info.form:
        raise InputError(f"{path}: lines of text need an input of strings; '{info.name}' is {info}")
    with readable(path, "file of text in UTF-8"):
        lines = path.read_text(encoding="utf-8").splitlines()
    array = np.array(lines, STRING)
    return array if len(info.shape) == 1 else array.reshape(1, -1) if info.shape[:1] == (1,) and info.shape[1:] != (1,) else array.reshape(-1, 1)


def _read_tensor(path: Path) -> np.ndarray:
    """The tensor of a file, whose data may lie beside it, in the same folder or below."""
    from google.protobuf.message import DecodeError
    from onnx import TensorProto

    from stepwell.frontends.contents import read_file
    from stepwell.frontends.onnx.tensors import ExternalData, string_array, tensor_array
    from stepwell.frontends.onnx.text import has_odd_names

    try:
        tensor = TensorProto.FromString(read_file(path))
        has_odd_names([tensor])  # or text that is not a tensor
        tensor.name = path.name
        if tensor.data_type == TensorProto.STRING:
            return string_array(tensor)
        return ExternalData(path.absolute().parent).array(tensor) if tensor.data_location == TensorProto.EXTERNAL else tensor_array(tensor)
    except DecodeError:
        raise InputError(f"{path}: not a readable tensor (onnx.TensorProto)") from None
    except (ModelError, UnsupportedError) as error:
        raise InputError(f"{path}: not a readable tensor (onnx.TensorProto): {error.args[0]}") from None


def _read_image(path: Path, info: TensorInfo) -> np.ndarray:
    """An image as [1,] channels, height, width, or height, width; floats from 0 to 1, 8-bit integers unchanged."""
    from PIL import Image

    rank = len(info.shape)
    channels = 1 if rank == 2 else info.shape[-3] if rank in (3, 4) else None
    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    if channels not in modes or (rank == 4 and info.shape[0] not in (1, None) and not isinstance(info.shape[0], str)):
        raise InputError(f"{path}: an image needs an input of shape [1x]CxHxW with 1, 3 or 4 channels, or HxW; '{info.name}' is {info}")
    if info.dtype.kind != "f" and info.dtype.name not in ("uint8", "bfloat16"):
        raise InputError(f"{path}: an image needs an input of floating point or uint8; '{info.name}' is {info}")
    with readable(path, f"image ({', '.join(FORMATS)})"), Image.open(path, formats=FORMATS) as image:
        width, height = image.size
        if any(isinstance(want, int) and want != got for want, got in zip(info.shape[-2:], (height, width), strict=True)):
            raise InputError(f"{path}: the image is {width} wide and {height} high, input '{info.name}' is {info}; resize it first")
        pixels = np.asarray(image.convert(modes[channels]))
    planes = pixels if rank == 2 else np.atleast_3d(pixels).transpose(2, 0, 1)
    if rank == 4:
        planes = planes[None]
    if info.dtype.name == "uint8":
        return np.ascontiguousarray(planes)
    return np.ascontiguousarray((planes.astype(np.float32) / 255).astype(info.dtype))
