"""A model for WebAssembly: one module with its run time, and the ES module that loads it in browsers and in Node."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from stepwell.backends.artifact import Artifact
from stepwell.bundling import project
from stepwell.bundling.helpers import helper_object
from stepwell.bundling.tables import Tables
from stepwell.bundling.toolchain import ModuleTools
from stepwell.cache.disk import Cache
from stepwell.dialects.target.description import Target
from stepwell.runtime import support

WEIGHTS_SECTION = "stepwell.weights"
"""The custom section of a module that has the content of the file of embedded weights."""
_CUSTOM = 0  # the number of a custom section (WebAssembly core specification, 5.5.3)


def write_module(
    tables: Tables, sources: Mapping[str, str], weights: bytes | None, work: Path, tools: ModuleTools, version: str, store: Cache | None
) -> list[str]:
    """Write the module and its companions to the folder `work`; returns the names of the files.

    `sources` are the run time's files in C by name. With `weights`, the content of their file, they are part of the module. `store` has
    helpers that were compiled before. Raises CodegenError if the compiler or the linker fails.
    """
    name = tables.name
    objects = []
    for number, data in enumerate(_objects(tables.artifact, tables.target, store)):
        objects.append(work / f"object_{number}.o")
        objects[-1].write_bytes(data)
    for file, text in (*sources.items(), ("stepwell_wasm.h", project.template("wasm.h", name)), ("wasm.c", project.template("wasm.c", name))):
        (work / file).write_text(text, encoding="utf-8")
    tools.link(work / "wasm.c", objects, work / f"{name}.wasm")
    if weights is not None:
        with (work / f"{name}.wasm").open("ab") as module:
            module.write(custom_section_head(WEIGHTS_SECTION, len(weights)))
            module.write(weights)
    for ending in ("mjs", "d.mts"):
        (work / f"{name}.{ending}").write_text(project.module_text(f"module.{ending}", tables, version), encoding="utf-8")
    return [f"{name}.wasm", f"{name}.mjs", f"{name}.d.mts"]


def custom_section_head(name: str, count: int) -> bytes:
    """The bytes before the content, of `count` bytes, of a custom section."""
    text = name.encode()
    inner = bytes(_leb128(len(text))) + text
    return bytes([_CUSTOM, *_leb128(len(inner) + count)]) + inner


def _objects(artifact: Artifact, target: Target, store: Cache | None) -> Iterator[bytes]:
    """The objects of an artifact, and the functions that its code calls and no library has."""
    yield from artifact.objects.values()
    helpers = sorted(name for name in support.HELPERS if any(name.encode() in data for data in artifact.objects.values()))
    if helpers:
        yield helper_object(helpers, target, store)


def _leb128(number: int) -> Iterator[int]:
    """The bytes of an unsigned number, 7 bits each, the lowest first."""
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number
