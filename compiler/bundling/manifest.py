"""`manifest.json`: the description of a bundle, for programs that load bundles which they do not know."""

import json
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes  # noqa: F401  (numpy then knows the names of its types)
import numpy as np

from stepwell.dialects.support.errors import ModelError
from stepwell.dialects.support.files import read_utf8
from stepwell.records import RecordError, from_json, to_json
from stepwell.signature import TensorInfo, type_name

FILE = "manifest.json"
FORMAT, ABI = 1, 1
"""The version of the manifest, and of the interface in C (STEPWELL_ABI_VERSION)."""
HEAD_BYTES = 4096
"""The bytes before the weights in their file: a page, so that they can be mapped (HEAD of runtime.c)."""
ONNX_NUMBERS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11, "uint32": 12,
    "uint64": 13, "bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4_e2m1fn": 23, "float8_e8m0fnu": 24, "uint2": 25, "int2": 26,
}  # fmt: skip
"""ONNX's numbers of the element types that the interface in C has (TensorProto.DataType)."""


@dataclass(frozen=True)
class Entry:
    """An input or an output."""

    name: str
    dtype: str
    onnx_dtype: int
    shape: tuple[int | str | None, ...]
    """Its sizes: a free one is its name, or null if only a run can tell it."""

    @classmethod
    def from_info(cls, info: TensorInfo) -> "Entry":
        """The entry for an input or output."""
        return cls(info.name, type_name(info.dtype), ONNX_NUMBERS[info.dtype.name], info.shape)

    @property
    def info(self) -> TensorInfo:
        """The input or output. Raises TypeError or ValueError for an unknown element type."""
        return TensorInfo(self.name, self.shape, np.dtype(self.dtype))


@dataclass(frozen=True)
class Machine:
    """The machine that a bundle was compiled for."""

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    """The features that are compared when the bundle is opened."""


@dataclass(frozen=True)
class WeightsFile:
    """The file of the weights."""

    file: str
    bytes: int
    offset: int
    blake2b: str


@dataclass(frozen=True)
class ModelFile:
    """The file that the bundle was made of."""

    path: str
    """Its path from the bundle's folder."""
    blake3: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of the file."""

    format: int
    abi: int
    name: str
    stepwell: str
    """The version of Stepwell."""
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    state: tuple[str, ...]
    """The inputs of the model that a bundle keeps from run to run."""
    symbols: tuple[str, ...]
    """The free sizes."""
    workspace_bytes: int | None
    """The bytes of the workspace of each context; null if they depend on free sizes."""
    sizes_known_only_by_a_run: bool
    target: Machine
    weights: WeightsFile | None
    """Null if the weights are embedded."""
    source: ModelFile | None
    files: tuple[str, ...]

    @property
    def text(self) -> str:
        """The manifest as it is written."""
        return json.dumps(to_json(self), indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a folder. Raises ModelError if there is none, or one that this version of Stepwell cannot read."""
    file = folder / FILE
    text = read_utf8(file, "folder", "the manifest of a bundle", ModelError)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelError(f"{file}: expected the manifest of a bundle, got no JSON") from None
    if not isinstance(given, dict) or (given.get("format"), given.get("abi")) != (FORMAT, ABI):
        raise ModelError(f"{file}: expected the manifest of a bundle of format {FORMAT} and interface {ABI}")
    try:
        manifest = from_json(Manifest, given, FILE)
        infos = [entry.info for entry in (*manifest.inputs, *manifest.outputs)]
    except (RecordError, TypeError, ValueError) as error:
        raise ModelError(f"{file}: {error.args[0] if error.args else error}") from None
    odd = next((info for info in infos if info.dtype.name not in ONNX_NUMBERS), None)
    if odd is not None or not manifest.name.isidentifier() or not manifest.name.isascii():
        raise ModelError(f"{file}: expected a name in C and types of numbers, got {manifest.name!r} and {odd}")
    if manifest.weights is not None and Path(manifest.weights.file).name != manifest.weights.file:
        raise ModelError(f"{file}: expected weights that lie beside it, got {manifest.weights.file!r}")
    return manifest
