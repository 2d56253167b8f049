"""`stepwell.bundle`: a compiled model as a folder with libraries or a module, weights, and what programs need to find them."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from stepwell.arguments import checked
from stepwell.backends.artifact import Artifact
from stepwell.bundling import project
from stepwell.bundling.c_text import check_name, identifier
from stepwell.bundling.helpers import helper_object
from stepwell.bundling.manifest import FILE, HEAD_BYTES, ModelFile, WeightsFile
from stepwell.bundling.relocatable import merged
from stepwell.bundling.tables import State, Tables, check_artifact
from stepwell.bundling.toolchain import ModuleTools, Tools, find_module_tools, find_tools
from stepwell.bundling.webassembly import write_module
from stepwell.cache.disk import Cache, Kept, chosen_cache
from stepwell.dialects.support.digests import file_digest
from stepwell.dialects.support.errors import InputError, UnsupportedError, shown
from stepwell.dialects.support.files import replacing, write_atomically
from stepwell.dialects.support.installed import version
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.host import runs_here
from stepwell.dialects.target.registry import resolve
from stepwell.driver.artifact import Signature
from stepwell.driver.bound import growing_caches
from stepwell.driver.compilation import Compilation
from stepwell.driver.origin import Origin
from stepwell.driver.pairs import check_pairs
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.pipelines.routes import DEFAULT
from stepwell.runtime import elf, support

_LIBRARIES = ("static", "shared")
KINDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("x86_64", "aarch64", "riscv64"), (*_LIBRARIES, "object")), "wasm32": ("module",),
}  # fmt: skip
"""The kinds of a bundle's code for each family of machines: a library to link, one to load, one object and the run time in C, made without a C
compiler; or a module of WebAssembly."""
_OPENMP = "__kmpc_"


@checked
def bundle(
    source: Source, folder: str | os.PathLike[str], *, kinds: Sequence[str] | None = None, prefix: str | None = None, embed: bool = False,
    options: CompileOptions | None = None, cache: bool = True, **given: Unpack[CompileFields],
) -> Path:  # fmt: skip
    """Compile a model and write it to `folder` as a library with an interface in C, or as a module of WebAssembly; returns the folder.

    `kinds` are some of `KINDS` of the target's family (default: both libraries, or the module). `prefix` begins all names in C (default: the name of
    the model's file). With `embed`, the weights are part of the code instead of a file. `options` and `given` are as for `compile`; what depends on
    data is compiled for all data (`same_data_sizes=False`). Raises UnsupportedError for a model that needs Python or a compiler at run time, naming
    why, ResourceError without a C compiler, CodegenError if that fails, and what `compile` raises.
    """
    combined = CompileOptions.combined(options, given, "bundle")
    if combined.backend != DEFAULT:
        raise UnsupportedError(f"a bundle of code by backend '{combined.backend}' is not supported; supported: {DEFAULT}")
    target = resolve("host" if combined.target is None else combined.target)
    if target.family not in KINDS:
        raise UnsupportedError(f"a bundle for target {target.name} is not supported; supported: machines of {', '.join(KINDS)}")
    possible = KINDS[target.family]
    if kinds is None:
        kinds = tuple(kind for kind in possible if kind != "object")
    if not kinds or any(kind not in possible for kind in kinds):
        raise InputError(f"kinds: expected some of {', '.join(possible)} for target {target.name}, got {shown(kinds)}")
    tools = find_module_tools() if "module" in kinds else find_tools(target) if set(kinds) & set(_LIBRARIES) else None
    origin = Origin(source)
    name = check_name(_default_name(origin) if prefix is None else prefix)
    artifact, states = with_state(origin, replace(combined, same_data_sizes=False), cache=cache)
    source_facts = _source_facts(origin, Path(folder))
    return write(artifact, states, Path(folder), name, target, kinds, tools, embed=embed, source=source_facts, store=chosen_cache(cache))


def with_state(origin: Origin, options: CompileOptions, *, cache: bool) -> tuple[Artifact, list[State]]:
    """The artifact of a model, and the state that `options.bind` gives it (`BoundModel`): outputs that are inputs of the next run."""
    unbound = compiled(origin, replace(options, bind=None), cache=cache)
    if options.bind is None:
        return unbound, []
    pairs = check_pairs(options.bind, unbound.inputs, unbound.outputs)
    numbers = [{info.name: i for i, info in enumerate(side)} for side in (unbound.inputs, unbound.outputs)]
    indices = [(numbers[0][taker], numbers[1][giver]) for taker, giver in pairs.items()]
    if unbound.general is None:
        return unbound, [State(taker, giver) for taker, giver in indices]
    bound = compiled(origin, replace(options, bind=pairs, specialise="never"), cache=cache)
    growing = growing_caches(unbound.inputs, bound.inputs, [taker for taker, _ in indices])
    states = []
    for taker, giver in indices:
        if taker not in growing:
            states.append(State(taker, giver))
            continue
        length, capacity = growing[taker]
        axis = list(unbound.inputs[taker].shape).index(length)
        states.append(State(taker, giver, axis, length, capacity, str(unbound.outputs[giver].shape[axis])))
    return bound, states


def compiled(origin: Origin, options: CompileOptions, *, cache: bool) -> Artifact:
    """The artifact of a model. Raises UnsupportedError if its code depends on the shapes or values of inputs."""
    cross = not runs_here(resolve("host" if options.target is None else options.target))
    made = Compilation(origin=origin, options=options, threads=1, cache=cache, cross=cross).result().made
    if not isinstance(made, Signature):
        check_artifact(made)
        return made
    if made.border is not None:
        raise UnsupportedError("a bundle of a model with strings or maps, which runs partly in Python, is not supported")
    for name, reason in made.values.items():
        raise UnsupportedError(f"a bundle of a model that is compiled for values of input '{name}' is not supported: {reason}; give them as `values`")
    free = ", ".join(f"'{info.name}' {info}" for info in made.inputs if not info.is_static or info.form)
    why = f": {made.why_not_general}" if made.why_not_general else ""
    raise UnsupportedError(f"a bundle of a model that is compiled for each shape of its inputs ({free}) is not supported{why}; give their shapes")


def write(
    artifact: Artifact, states: Sequence[State], folder: Path, name: str, target: Target, kinds: Sequence[str], tools: Tools | ModuleTools | None, *,
    embed: bool, source: ModelFile | None = None, store: Cache | None = None,
) -> Path:  # fmt: skip
    """Write a bundle of an artifact; see `bundle`.

    `tools` are the C compiler and its companions, where they are needed; `source` is what the manifest says of the model; `store` has helpers that
    were compiled before.
    """
    weights = artifact.weights.read() if isinstance(artifact.weights, Kept) else artifact.weights
    artifact = replace(artifact, weights=weights)
    digest = project.digest_of_weights(weights.data)
    number = version("stepwell") or "0"
    tables = Tables(name, artifact, target, digest, embedded=embed and not isinstance(tools, ModuleTools), states=states)
    sources = {
        f"{name}.h": project.header(tables, number), f"{name}_tables.h": tables.text(), f"{name}.c": project.source(name),
        "stepwell_runtime.c": project.template("runtime.c", name),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stepwell-bundle-") as temporary:
        work = Path(temporary)
        if isinstance(tools, ModuleTools):
            content = _weights_head(weights, digest) + weights.tobytes() if embed else None
            made = write_module(tables, sources, content, work, tools, number, store)
        else:
            code = code_object(artifact, name, target, weights if embed else None, store)
            made = _write_libraries(tables, sources, code, kinds, work, tools, number)
        for file in made:
            write_atomically(folder / file, (work / file).read_bytes())
    if not embed:
        with replacing(folder / f"{name}.weights") as unfinished, unfinished.open("wb") as weights_file:
            weights_file.write(_weights_head(weights, digest))
            weights_file.write(weights.data)
    kept = None if embed else WeightsFile(f"{name}.weights", weights.nbytes, HEAD_BYTES, digest.hex())
    written = [*made, *([] if kept is None else [kept.file])]
    write_atomically(folder / FILE, project.manifest(tables, number, kept, source, written).text)
    return folder


def _write_libraries(
    tables: Tables, sources: Mapping[str, str], code: bytes, kinds: Sequence[str], work: Path, tools: Tools | None, number: str
) -> list[str]:
    """Write libraries, and what programs need to find them, to the folder `work`; returns the names of the files."""
    name = tables.name
    texts = {
        f"{name}Config.cmake": project.cmake_config(name), f"{name}.pc": project.pkg_config(name, number),
        "CMakeLists.txt": project.cmake_lists(name), "example.c": project.template("example.c", name),
    }  # fmt: skip
    for file, text in (*sources.items(), *texts.items()):
        (work / file).write_text(text, encoding="utf-8")
    (work / f"{name}.o").write_bytes(code)
    made = [f"{name}.h", *texts]
    if tools is not None:
        runtime = work / f"{name}_runtime.o"
        tools.compile(work / f"{name}.c", runtime)
        objects = [runtime, work / f"{name}.o"]
        if "static" in kinds:
            tools.archive(objects, work / f"lib{name}.a")
            made.append(f"lib{name}.a")
        if "shared" in kinds:
            tools.link(objects, work / f"lib{name}.so", name)
            made.append(f"lib{name}.so")
    if "object" in kinds:
        made += [f"{name}.o", *(file for file in sources if file not in made)]
    return made


def code_object(
    artifact: Artifact, name: str, target: Target, embedded: np.ndarray | None = None, store: Cache | None = None
) -> bytes:  # fmt: skip
    """One object of all functions of an artifact; its global names begin with `name`. With `embedded`, it holds these weights."""
    objects = dict(artifact.objects)
    undefined = {symbol for data in objects.values() for symbol in elf.read(data).undefined}
    helpers = sorted(undefined & support.HELPERS.keys())
    if helpers:
        objects["helpers"] = helper_object(helpers, target, store)
    names = {"main": f"{name}_code_main", "sizes": f"{name}_code_sizes"}
    names |= {symbol: f"{name}_kmpc_{symbol.removeprefix(_OPENMP)}" for symbol in undefined if symbol.startswith(_OPENMP)}
    constants = {} if embedded is None else {f"{name}_embedded_weights": (embedded.data, HEAD_BYTES)}
    return merged(objects, names, constants)


def _source_facts(origin: Origin, folder: Path) -> ModelFile | None:
    """The file that the model was read from, so that its outputs can be compared; None for a model in memory."""
    digest = file_digest(origin.source) if isinstance(origin.source, Path) else None
    return None if digest is None else ModelFile(os.path.relpath(str(origin.source), folder), digest.hex())


def _weights_head(weights: np.ndarray, digest: bytes) -> bytes:
    """The first page of the file of the weights, which says what they are; behind it follows the arena (`struct head` of runtime.c)."""
    head = b"STEPWELL" + np.array([1, HEAD_BYTES], "<u4").tobytes() + np.array([weights.nbytes], "<u8").tobytes() + digest
    return head + bytes(HEAD_BYTES - len(head))


def _default_name(origin: Origin) -> str:
    """The prefix for a model without a given one."""
    stem = origin.source.name.split(".")[0] if isinstance(origin.source, Path) else "model"
    name = identifier(stem)[:64].lstrip("_")
    return name if name and not name.startswith("stepwell") else f"model_{name}"

