"""The artifact of a compiled model: assembled to run, stored in the cache, and loaded from it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from stepwell.backends.artifact import Artifact, Infos
from stepwell.backends.registry import checked_result, find_backend
from stepwell.border.border import Border
from stepwell.cache.disk import Cache, Kept
from stepwell.dialects.support.digests import file_digest, key_of
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.otherwise import Otherwise
from stepwell.records import RecordError, read, write
from stepwell.runtime.about import About
from stepwell.runtime.general import GeneralProgram
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import WeightPool, Weights, unshared


@dataclass
class Signature:
    """The inputs and outputs of a model that is compiled when it is run: for shapes, and for values of inputs."""

    inputs: Infos
    outputs: Infos
    warnings: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    """For each input whose values code is specialised for, the reason."""
    why_not_general: str = ""
    """Why there is no shape-polymorphic program, if one was tried."""
    by_shape: bool = True
    """Whether code is specialised for the shapes of all inputs."""
    border: Border | None = None
    """Like the field of `Artifact`."""


def assemble(
    artifact: Artifact, *, threads: int | None, snapshots: Mapping[str, Callable[[], str]], timings: Mapping[str, float],
    pool: WeightPool | None = None, otherwise: Otherwise | None = None,
) -> CompiledModel:  # fmt: skip
    """Load the code of a model and make it ready to run. `snapshots` has its IR by level; the listings of its backend are added.

    The `pool` has the weights of other programs of the model, which are shared; `otherwise` returns the model that runs data which contradict this
    one. The time is added to the last of the `timings`.
    """
    if artifact.general is not None:
        free = ", ".join(f"'{info.name}' {info}" for info in artifact.inputs)
        raise UnsupportedError(f"a program for all sizes ({free}) from IR is not supported; supported: from the ONNX model, or IR with sizes")
    begin = time.perf_counter()
    backend, count, weights = find_backend(artifact.backend), thread_count(threads), _weights_of(artifact, pool)
    load = partial(backend.load, artifact, _taken(artifact, weights), count)
    executable = checked_result(artifact.backend, "load", load, "an Executable", lambda made: hasattr(made, "run"))
    make = _maker(artifact, weights, _about(artifact, snapshots, timings, time.perf_counter() - begin), otherwise)
    return make(inputs=artifact.inputs, outputs=artifact.outputs, executable=executable, workspace_bytes=artifact.workspace_bytes)


def assemble_general(
    artifact: Artifact, *, threads: int | None, snapshots: Mapping[str, Callable[[], str]], timings: Mapping[str, float],
    pool: WeightPool | None = None, otherwise: Otherwise | None = None,
) -> GeneralProgram | None:  # fmt: skip
    """Like `assemble`, for shape-polymorphic code; None if the backend does not support it."""
    begin = time.perf_counter()
    backend, count, weights = find_backend(artifact.backend), thread_count(threads), _weights_of(artifact, pool)
    load = partial(backend.load_sized, artifact, _taken(artifact, weights), count)
    sized = checked_result(artifact.backend, "load_sized", load, "a Sized, or None", lambda made: made is None or hasattr(made, "complete"))
    if sized is None or artifact.general is None:
        return None
    about = _about(artifact, snapshots, timings, time.perf_counter() - begin)
    return GeneralProgram(
        artifact.inputs, artifact.outputs, artifact.general, sized, _maker(artifact, weights, about, otherwise), about, weights
    )  # fmt: skip


def _weights_of(artifact: Artifact, pool: WeightPool | None) -> Weights:
    memory = artifact.weights.read() if isinstance(artifact.weights, Kept) else artifact.weights
    if pool is None:
        return unshared(memory, artifact.places)
    artifact.weights = np.empty(0, np.uint8)  # the pool releases parts of that memory
    return pool.place(memory, artifact.places)


def _taken(artifact: Artifact, weights: Weights) -> np.ndarray:
    """The memory that the code takes for its weights."""
    return weights.table() if artifact.places else weights.arena()


def _maker(artifact: Artifact, weights: Weights, about: About, otherwise: Otherwise | None) -> Callable[..., CompiledModel]:
    """A function that makes a CompiledModel from its inputs, outputs, executable and workspace."""
    return partial(CompiledModel, weights=weights, about=about, objects=artifact.objects, groups=artifact.groups, otherwise=otherwise)


def _about(artifact: Artifact, snapshots: Mapping[str, Callable[[], str]], timings: Mapping[str, float], loading: float) -> About:
    """The description of the code; the time of loading is added to the last of the `timings`."""
    spent = {name: seconds + loading * (name == list(timings)[-1]) for name, seconds in timings.items()}
    listings = {name: partial(show, artifact) for name, show in find_backend(artifact.backend).listings().items()}
    return About({**snapshots, **listings}, spent, artifact.kernels, artifact.plan or None)


@dataclass(frozen=True)
class ExternalFiles:
    """Stored for a model with external weight files, which are part of the key of its record."""

    files: Sequence[str]
    """Their paths in the folder of the model's file."""


def keep(store: Cache, key: str, made: Artifact | Signature, files: Mapping[Path, bytes], folder: Path | None) -> None:
    """Store a model under `key`. `files` maps its external data files, which are below `folder`, to digests of the content that was read."""
    if isinstance(made, Artifact) and not made.is_stored:
        return
    if files and folder is not None:
        # Their content is part of the key, but the next lookup cannot know their names: so store a list of them, then the model.
        digests = {str(file.relative_to(folder)): digest for file, digest in files.items()}
        if not store.put("models", key, write(ExternalFiles(list(digests)))):
            return
        key = _key_with(key, digests)
    store.put("models", key, write(made))
    store.trim()


def recall(store: Cache, key: str, folder: Path | None) -> tuple[Artifact | Signature, dict[Path, bytes]] | None:
    """The model stored under `key`, and the digests of its external data files; None if it or a part of it is missing."""
    made, found = _record(store, key), dict[str, bytes]()
    if isinstance(made, ExternalFiles):
        digests = {name: file_digest(folder / name) for name in made.files} if folder is not None else {}
        found = {name: digest for name, digest in digests.items() if digest is not None}
        made = _record(store, _key_with(key, found)) if len(found) == len(made.files) else None
    if made is None or isinstance(made, ExternalFiles) or not (isinstance(made, Signature) or _read_parts(store, made)):
        return None
    return made, {folder / name: digest for name, digest in found.items()} if folder is not None else {}


def _read_parts(store: Cache, artifact: Artifact) -> bool:
    """Read the code of an artifact, and find its weights; returns whether all of that exists."""
    objects = {name: store.get("objects", key) for name, key in artifact.object_keys.items()}
    weights = None if artifact.weights_key is None else store.read("weights", artifact.weights_key)
    found = {name: data for name, data in objects.items() if data is not None}
    if weights is None or len(found) < len(objects):
        return False
    artifact.objects, artifact.weights = found, weights
    return True


def _record(store: Cache, key: str) -> Artifact | Signature | ExternalFiles | None:
    """The record stored under a key; None if it is missing, or not such a record."""
    data = store.get("models", key)
    if data is None:
        return None
    try:
        found = read(data, Artifact, Signature, ExternalFiles)
    except RecordError:
        return None
    assert isinstance(found, (Artifact, Signature, ExternalFiles))  # tells mypy their common base
    return found


def _key_with(key: str, files: Mapping[str, bytes]) -> str:
    """The key of a model combined with digests of files."""
    return key_of(key, *(part for file in files.items() for part in file))
