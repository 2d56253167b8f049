"""The files of a bundle for those who use it: header, CMake package, pkg-config, example, manifest."""

import hashlib
from collections.abc import Sequence
from importlib.resources import files as package_files

import stepwell.bundling
from stepwell.bundling.c_text import comment
from stepwell.bundling.manifest import ABI, FORMAT, HEAD_BYTES, Entry, Machine, Manifest, ModelFile, WeightsFile
from stepwell.bundling.tables import Tables, raw_signature
from stepwell.dialects.support.names import printable
from stepwell.dialects.target.families import family_of

LIBRARIES = ("m", "pthread")
"""The libraries that a program links a static bundle with, besides the one of C."""


def template(file: str, name: str, **values: str) -> str:
    """A file of this folder with its placeholders replaced: `@NAME@` is the bundle's name."""
    text = package_files(stepwell.bundling).joinpath(file).read_text(encoding="utf-8").replace("@NAME@", name)
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def header(tables: Tables, version: str) -> str:
    """`NAME.h`."""
    name, artifact = tables.name, tables.artifact
    signature = raw_signature(name, artifact)
    raw = ""
    if signature is not None:
        size = max(artifact.workspace_bytes, 1)
        raw = f"""
/* The model as one function, without memory of its own and without other threads. `weights` are the bytes behind the first page of their file, and
   `workspace` {size} bytes, both at a multiple of 64; arrays are aligned to their elements, and nothing overlaps what is written. Returns 0, or
   another number if an index in the data is out of range. */
#define STEPWELL_WORKSPACE_{name} {size}
#define STEPWELL_WEIGHTS_OFFSET_{name} {HEAD_BYTES}
STEPWELL_PUBLIC_{name} {signature};
"""
    target = comment(printable(tables.target.name))
    return template("bundle.h", name, VERSION=version, TARGET=target, SIGNATURE=_signature_text(tables), RAW=raw)


def module_text(file: str, tables: Tables, version: str) -> str:
    """The ES module that loads a WebAssembly module, or its types."""
    return template(file, tables.name, VERSION=version, SIGNATURE=_signature_text(tables))


def source(name: str) -> str:
    """`NAME.c`, which makes the run time one of this model."""
    return "\n".join([
        f"/* The run time of {name}. With -DSTEPWELL_BARE there is only the function {name}. */", f"#define STEPWELL_NAME {name}",
        f'#define STEPWELL_HEADER "{name}.h"', f'#define STEPWELL_TABLES "{name}_tables.h"', '#include "stepwell_runtime.c"', "",
    ])  # fmt: skip


def cmake_config(name: str) -> str:
    """`NAMEConfig.cmake`: `find_package(NAME)` defines the targets `NAME::NAME` (static) and `NAME::shared`, if their libraries are there."""
    return f"""\
# find_package({name} PATHS ...) defines {name}::{name}, the static library, and {name}::shared, and {name}_WEIGHTS, the file of the weights.
set({name}_WEIGHTS "${{CMAKE_CURRENT_LIST_DIR}}/{name}.weights")
find_package(Threads REQUIRED)
if(EXISTS "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a" AND NOT TARGET {name}::{name})
  add_library({name}::{name} STATIC IMPORTED)
  set_target_properties({name}::{name} PROPERTIES IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}" INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
endif()
if(EXISTS "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.so" AND NOT TARGET {name}::shared)
  add_library({name}::shared SHARED IMPORTED)
  set_target_properties({name}::shared PROPERTIES IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
endif()
"""


def cmake_lists(name: str) -> str:
    """`CMakeLists.txt`, which builds the example."""
    return f"""\
cmake_minimum_required(VERSION 3.16)
project({name}_example C)
find_package({name} REQUIRED PATHS "${{CMAKE_CURRENT_SOURCE_DIR}}" NO_DEFAULT_PATH)
add_executable(example example.c)
set_target_properties(example PROPERTIES C_STANDARD 99)
if(TARGET {name}::{name})
  target_link_libraries(example {name}::{name})
else()
  target_link_libraries(example {name}::shared)
endif()
"""


def pkg_config(name: str, version: str) -> str:
    """`NAME.pc`."""
    private = " ".join(f"-l{library}" for library in LIBRARIES)
    return f"""\
prefix=${{pcfiledir}}
Name: {name}
Description: a model compiled by Stepwell
Version: {version}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} -l{name}
Libs.private: {private}
"""


def _signature_text(tables: Tables) -> str:
    """The inputs and outputs for a comment, a line each."""
    lines = [f"   {kind} {printable(str(info))} {printable(info.name)}" for kind, infos in tables.sides.items() for info in infos]
    return comment("".join(f"\n{line}" for line in lines))


def manifest(
    tables: Tables, version: str, weights: WeightsFile | None, source: ModelFile | None, files: Sequence[str]
) -> Manifest:  # fmt: skip
    """`manifest.json`."""
    artifact, target, general = tables.artifact, tables.target, tables.artifact.general
    bits = family_of(target.triple).feature_bits() or target.features  # an engine compares all that a module needs
    needed = tuple(sorted(feature for feature in target.features if feature in bits))
    inputs, outputs = (tuple(map(Entry.from_info, infos)) for infos in tables.sides.values())
    return Manifest(
        format=FORMAT, abi=ABI, name=tables.name, stepwell=version, inputs=inputs, outputs=outputs,
        state=tuple(artifact.inputs[state.input].name for state in tables.states), symbols=() if general is None else tuple(general.symbols),
        workspace_bytes=artifact.workspace_bytes if general is None else None, sizes_known_only_by_a_run=artifact.late is not None,
        target=Machine(target.name, target.triple, target.cpu, needed), weights=weights, source=source, files=tuple(sorted(files)),
    )  # fmt: skip


def digest_of_weights(data: memoryview) -> bytes:
    """The digest of weights that the run time compares: BLAKE2b with 32 bytes."""
    return hashlib.blake2b(data, digest_size=32).digest()
