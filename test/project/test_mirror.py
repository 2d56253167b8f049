"""Test folders mirror the source: what tests a module lies in the folder of the same name (test/README.md)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIRRORED = ("compiler", "dialects", "passes")
"""Folders whose tests mirror them."""
ELSEWHERE = {
    "compiler/cache/test_cache.py": "the cache, not the command of that name",
    "compiler/cli/test_explain.py": "the option --explain, which prints what analysis/explain.py collects",
    "compiler/driver/test_limits.py": "limits from the options of compile down to the importer and passes",
    "compiler/frontends/onnx/test_defaults.py": "defaults of ONNX attributes",
    "compiler/frontends/onnx/test_inputs.py": "inputs of models",
    "compiler/integration/test_backend.py": "ONNX's backend interface",
    "dialects/graph/test_dialect.py": "the graph dialect",
    "passes/bufferize/test_memory.py": "memory plans, by which it checks bufferize",
    "passes/graph_to_linalg/errors.mlir": "errors of the conversion",
    "passes/linalg_to_affine/accesses.mlir": "the code of accesses",
    "passes/linalg_to_affine/constants.mlir": "constants in kernels",
    "passes/linalg_to_affine/fused_loops.mlir": "the loops that fused loops become",
    "passes/linalg_to_affine/intrinsics.mlir": "the code of intrinsics",
    "passes/schedule/test_fused_loops.py": "which loops are fused",
}
"""Tests whose name is a module's in another folder, and what they are about."""


def mirrored_tests() -> list[Path]:
    """Test files of the mirrored folders, relative to `test/`."""
    found = [path for top in MIRRORED for pattern in ("test_*.py", "*.mlir") for path in (ROOT / "test" / top).rglob(pattern)]
    return [path.relative_to(ROOT / "test") for path in found if "Inputs" not in path.parts]


def modules() -> dict[str, set[Path]]:
    """The folders that have a module of each name."""
    found: dict[str, set[Path]] = {}
    for path in (path for top in MIRRORED for path in (ROOT / top).rglob("*.py")):
        found.setdefault(path.stem, set()).add(path.parent.relative_to(ROOT))
    return found


def test_every_folder_of_tests_is_a_folder_of_the_source() -> None:
    folders = {path.parent for path in mirrored_tests()}
    assert len(folders) > 15
    assert [str(folder) for folder in sorted(folders) if not any((ROOT / folder).glob("*.py"))] == []


def test_a_test_that_is_named_after_a_module_lies_in_its_folder() -> None:
    places = modules()
    misplaced = []
    for path in mirrored_tests():
        folders = places.get(re.sub(r"^test_", "", path.stem), set())
        # The folder of the module, or one above it, where tests of several modules lie together.
        if folders and not any(path.parent == folder or path.parent in folder.parents for folder in folders):
            misplaced.append(path.as_posix())
    assert sorted(misplaced) == sorted(ELSEWHERE)
