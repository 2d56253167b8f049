"""Which tests are asked about a fault in a file: those that name its pass or module first, then those of its folder, then wider ones."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# By folder: where its own tests lie, and the wider ones that run what its code makes.
_NATIVE = ("test/lowering", "test/test_random_models.py", "test/test_chains.py")
_TESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "passes/graph": (("test/passes/graph",), ("test/test_techniques.py", "test/test_model.py", "test/test_random_models.py")),
    "passes/graph_to_linalg": (("test/lowering/graph_to_linalg", "test/passes/graph_to_linalg"), _NATIVE),
    "passes/linalg": (("test/passes/linalg", "test/lowering/linalg_to_affine"), _NATIVE),
    "passes/linalg_to_affine": (("test/lowering/linalg_to_affine", "test/test_memory.py", "test/passes/linalg"), _NATIVE),
    "passes/affine_to_llvm": (("test/lowering/affine_to_llvm", "test/lowering/test_vector_math.py"), _NATIVE),
    "dialects/graph": (("test/dialects",), ("test/lowering/graph_to_linalg", "test/passes/graph")),
    "compiler/importer": (("test/importer",), ()),
}


@dataclass(frozen=True)
class FilesToRun:
    """Files of FileCheck tests and of behaviour tests."""

    lit: tuple[str, ...]
    pytest: tuple[str, ...]

    @staticmethod
    def of(names: Iterable[str]) -> "FilesToRun":
        """The two kinds apart, each in the order given."""
        found = list(names)
        return FilesToRun(tuple(n for n in found if n.endswith(".mlir")), tuple(n for n in found if n.endswith(".py")))


def folders() -> list[str]:
    """The folders whose files faults are planted in."""
    return list(_TESTS)


def folder_of(path: str) -> str:
    """The folder of `folders` that a file lies in. Raises KeyError if it lies in none."""
    found = [folder for folder in _TESTS if path.startswith(f"{folder}/")]
    if not found:
        raise KeyError(path)
    return max(found, key=len)


def select(root: Path, path: str, *, wide: bool) -> list[FilesToRun]:
    """The tests for a file of the checkout at `root`, the likeliest to see a fault first; with `wide`, also those of other folders that run
    what it makes."""
    own, wider = _TESTS[folder_of(path)]
    stem = Path(path).stem
    named = re.compile(rf"\b({re.escape(stem)}|{re.escape(stem.replace('_', '-'))})\b")
    files = [file for place in own for file in _files(root / place)]
    # A pass or module may be pinned in another folder too.
    elsewhere = [file for file in _files(root / "test") if file not in files and named.search(file.read_text()) and file.suffix != ".md"]
    first = [*(f for f in files if named.search(f.read_text())), *elsewhere]
    stages = [first, [f for f in files if f not in first]]
    if wide:
        stages.append([f for place in wider for f in _files(root / place) if f not in first and f not in files])
    return [FilesToRun.of(str(f.relative_to(root)) for f in stage) for stage in stages]


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [f for f in sorted(place.rglob("*")) if f.suffix == ".mlir" or (f.name.startswith("test_") and f.suffix == ".py")]
