"""The artifact of a compiled model: assembled to run, stored in the cache, and loaded from it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.backends.artifact import Artifact, Infos
from stepwell.backends.registry import find_backend, made_by
from stepwell.cache.disk import Cache, Kept
from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.layout import Joined, Slot
from stepwell.dialects.core.sizes import Assumption, parse
from stepwell.dialects.support.digests import file_digest, key_of
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.otherwise import Otherwise
from stepwell.runtime.about import About
from stepwell.runtime.general import General, GeneralProgram
from stepwell.runtime.late_sizes import LateSizes
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import WeightPool, Weights, unshared
from stepwell.signature import OutputGroup, TensorInfo

if TYPE_CHECKING:
    from stepwell.border.border import Border

@dataclass
class Signature:
    """The inputs and outputs of a model that code is made of when it is run: for shapes, and for values of inputs."""

    inputs: Infos
    outputs: Infos
    warnings: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    """For each input whose values code is made for, what needs them."""
    why_not_general: str = ""
    """Why there is no program for all sizes, if that was tried."""
    by_shape: bool = True
    """Whether code is made for shapes, of all inputs."""
    border: "Border | None" = None
    """As in `Artifact`."""


def assemble(
    artifact: Artifact, *, threads: int | None, snapshots: Mapping[str, Callable[[], str]], timings: Mapping[str, float],
    pool: WeightPool | None = None, otherwise: Otherwise | None = None,
) -> CompiledModel:  # fmt: skip
    """Load the code of a model and make it ready to run. `snapshots` has its IR by level; the listings of its backend are added.
    The `pool` has the weights of other programs of the model, which it shares; `otherwise` gives what runs data that contradict this one.

    The time is added to the last of the `timings`.
    """
    if artifact.general is not None:
        free = ", ".join(f"'{info.name}' {info}" for info in artifact.inputs)
        raise UnsupportedError(f"a program for all sizes ({free}) from IR is not supported; supported: from the ONNX model, or IR with sizes")
    begin = time.perf_counter()
    backend, count, weights = find_backend(artifact.backend), thread_count(threads), _weights_of(artifact, pool)
    load = partial(backend.load, artifact, _taken(artifact, weights), count)
    executable = made_by(artifact.backend, "load", load, "an Executable", lambda made: hasattr(made, "run"))
    make = _maker(artifact, weights, _about(artifact, snapshots, timings, time.perf_counter() - begin), otherwise)
    return make(inputs=artifact.inputs, outputs=artifact.outputs, executable=executable, workspace_bytes=artifact.workspace_bytes)


def assemble_general(
    artifact: Artifact, *, threads: int | None, snapshots: Mapping[str, Callable[[], str]], timings: Mapping[str, float],
    pool: WeightPool | None = None, otherwise: Otherwise | None = None,
) -> GeneralProgram | None:  # fmt: skip
    """As `assemble`, for code for all sizes; None if the backend makes none."""
    begin = time.perf_counter()
    backend, count, weights = find_backend(artifact.backend), thread_count(threads), _weights_of(artifact, pool)
    load = partial(backend.load_sized, artifact, _taken(artifact, weights), count)
    sized = made_by(artifact.backend, "load_sized", load, "a function of a table and bytes, or None", lambda made: made is None or callable(made))
    if sized is None or artifact.general is None:
        return None
    about = _about(artifact, snapshots, timings, time.perf_counter() - begin)
    return GeneralProgram(
        artifact.inputs, artifact.outputs, artifact.general, artifact.checks, sized, _maker(artifact, weights, about, otherwise), about, weights
    )  # fmt: skip


def _weights_of(artifact: Artifact, pool: WeightPool | None) -> Weights:
    memory = artifact.weights.read() if isinstance(artifact.weights, Kept) else artifact.weights
    if pool is None:
        return unshared(memory, artifact.places)
    artifact.weights = np.empty(0, np.uint8)  # the pool gives back parts of that memory
    return pool.place(memory, artifact.places)


def _taken(artifact: Artifact, weights: Weights) -> np.ndarray:
    """What the code takes for its weights."""
    return weights.table() if artifact.places else weights.arena()


def _maker(artifact: Artifact, weights: Weights, about: About, otherwise: Otherwise | None) -> Callable[..., CompiledModel]:
    """Makes a CompiledModel of its inputs, outputs, executable and workspace."""
    return partial(
        CompiledModel, weights=weights, about=about, objects=artifact.objects, checks=artifact.checks, groups=artifact.groups, otherwise=otherwise
    )


def _about(artifact: Artifact, snapshots: Mapping[str, Callable[[], str]], timings: Mapping[str, float], loading: float) -> About:
    """What is told of the code; the time of loading is added to the last of the `timings`."""
    spent = {name: seconds + loading * (name == list(timings)[-1]) for name, seconds in timings.items()}
    listings = {name: partial(show, artifact) for name, show in find_backend(artifact.backend).listings().items()}
    return About({**snapshots, **listings}, spent, artifact.kernels)


def keep(store: Cache, key: str, made: Artifact | Signature, files: Mapping[Path, bytes], folder: Path | None) -> None:
    """Store a model under `key`. `files` maps its external data files, which lie below `folder`, to digests of the content that was read."""
    record: dict[str, Any] = {"inputs": _to_json(made.inputs), "outputs": _to_json(made.outputs), "warnings": list(made.warnings)}
    if made.border is not None:
        record["border"] = made.border.to_json()
    if isinstance(made, Artifact):
        if made.weights_key is None or len(made.object_keys) != len(made.objects):
            return
        record["code"] = {
            "objects": made.object_keys, "weights": made.weights_key, "workspace_bytes": made.workspace_bytes, "nodes": made.nodes,
            "kernels": made.kernels, "backend": made.backend, "checks": [_check_to_json(check) for check in made.checks],
            "lines": made.lines, "places": list(made.places),
        }  # fmt: skip
        if made.groups:
            record["code"]["groups"] = [[group.info.to_json(), group.held, group.count] for group in made.groups]
        if made.late is not None:
            record["code"]["late"] = made.late.to_json()
        if made.general is not None:
            slots = [slot.record for slot in made.general.layout]
            joined = None if made.general.joined is None else made.general.joined.record
            assumed = [assumption.record for assumption in made.general.assumptions]
            record["code"]["general"] = {
                "symbols": list(made.general.symbols), "layout": slots, "joined": joined, "workspace_bytes": made.general.workspace_bytes,
                "most_bytes": made.general.most_bytes, "assumptions": assumed,
                "elements": made.general.elements, "most_value_bytes": made.general.most_value_bytes,
            }  # fmt: skip
    else:
        record.update(values=dict(made.values), by_shape=made.by_shape, why_not_general=made.why_not_general)
    if files and folder is not None:
        # Their content is part of the key, but the next lookup cannot know their names: so store a list of them, then the model.
        digests = {str(file.relative_to(folder)): digest for file, digest in files.items()}
        if not store.put("models", key, json.dumps({"files": list(digests)}).encode()):
            return
        key = _key_with(key, digests)
    store.put("models", key, json.dumps(record).encode())
    store.trim()


def recall(store: Cache, key: str, folder: Path | None) -> tuple[Artifact | Signature, dict[Path, bytes]] | None:
    """The model stored under `key`, and the digests of its external data files; None if it or a part of it is missing."""
    record, found = _record(store, key), dict[str, bytes]()
    if record is not None and "files" in record:
        digests = {name: file_digest(folder / name) for name in record["files"]} if folder is not None else {}
        found = {name: digest for name, digest in digests.items() if digest is not None}
        record = _record(store, _key_with(key, found)) if len(found) == len(record["files"]) else None
    made = None if record is None else _made(store, record)
    return None if made is None else (made, {folder / name: digest for name, digest in found.items()} if folder is not None else {})


def _made(store: Cache, record: Mapping[str, Any]) -> Artifact | Signature | None:
    """What a record is of; None if a part of it is missing."""
    inputs, outputs = _from_json(record["inputs"]), _from_json(record["outputs"])
    code = record.get("code")
    border = _border(record["border"]) if "border" in record else None
    if code is None:
        return Signature(inputs, outputs, record["warnings"], record["values"], record["why_not_general"], record["by_shape"], border)
    objects: dict[str, bytes] = {}
    for name, where in code["objects"].items():
        data = store.get("objects", where)
        if data is None:
            return None
        objects[name] = data
    weights = store.read("weights", code["weights"])
    if weights is None:
        return None
    checks = [_check_from_json(entry) for entry in code["checks"]]
    return Artifact(
        inputs, outputs, objects, weights, code["workspace_bytes"], code["nodes"], code["objects"], code["weights"], code["kernels"], checks,
        code["backend"], code["lines"], record["warnings"], _general(code["general"]) if "general" in code else None,
        LateSizes.from_json(code["late"], [(info.shape, info.dtype) for info in outputs]) if "late" in code else None,
        [OutputGroup(TensorInfo.from_json(info), held, count) for info, held, count in code.get("groups", ())],
        [(offset, size) for offset, size in code["places"]],
        border,
    )  # fmt: skip


def _general(record: Mapping[str, Any]) -> General:
    layout, assumptions = list(map(Slot.of_record, record["layout"])), list(map(Assumption.of_record, record["assumptions"]))
    numbers = record["workspace_bytes"], record["most_bytes"]
    joined = None if record["joined"] is None else Joined.of_record(record["joined"])
    return General(record["symbols"], layout, *numbers, assumptions, record["elements"], joined, record["most_value_bytes"])


def _record(store: Cache, key: str) -> dict[str, Any] | None:
    data = store.get("models", key)
    return None if data is None else dict(json.loads(data))


def _key_with(key: str, files: Mapping[str, bytes]) -> str:
    """The key of a model combined with digests of files."""
    return key_of(key, *(part for file in files.items() for part in file))


def _check_to_json(check: IndexCheck) -> dict[str, Any]:
    sizes = [size if isinstance(size, int) else str(size) for size in (*check.sizes, check.count)]
    return {**vars(check), "sizes": sizes[:-1], "count": sizes[-1]}


def _check_from_json(entry: Mapping[str, Any]) -> IndexCheck:
    *sizes, count = (parse(size) if isinstance(size, str) else size for size in (*entry["sizes"], entry["count"]))
    return IndexCheck(**{**entry, "dims": tuple(entry["dims"]), "sizes": tuple(sizes), "count": count})


def _border(record: Mapping[str, Any]) -> "Border":
    from stepwell.border.border import Border  # here, because few models have one

    return Border.from_json(record)


def _to_json(infos: Infos) -> list[Any]:
    return [info.to_json() for info in infos]


def _from_json(entries: list[Any]) -> list[TensorInfo]:
    return [TensorInfo.from_json(entry) for entry in entries]
