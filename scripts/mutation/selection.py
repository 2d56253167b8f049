"""Selects the tests for a file, or a fault in it: first tests that name its pass or module, then quick ones with wide reach, then broader ones."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FilesToRun:
    """Files of FileCheck tests and of behaviour tests."""

    lit: tuple[str, ...]
    pytest: tuple[str, ...]
    only: str = ""
    """The expression for pytest's -k that selects the behaviour tests; all if empty."""

    @staticmethod
    def from_names(names: Iterable[str], only: str = "") -> "FilesToRun":
        """The two kinds apart, each in the order given."""
        found = list(names)
        return FilesToRun(tuple(n for n in found if n.endswith(".mlir")), tuple(n for n in found if n.endswith(".py")), only)

    def without(self, others: "FilesToRun") -> "FilesToRun":
        """These files or tests without others."""
        return FilesToRun(tuple(n for n in self.lit if n not in others.lit), tuple(n for n in self.pytest if n not in others.pytest), self.only)

    def __str__(self) -> str:
        return " ".join((*self.lit, *self.pytest, *(["-k", self.only] if self.only else [])))


@dataclass(frozen=True)
class Stage:
    """Tests that are asked together."""

    places: tuple[str, ...]
    only: str = ""

    def files(self, root: Path) -> FilesToRun:
        """The files of the checkout at `root`."""
        return FilesToRun.from_names((str(f.relative_to(root)) for place in self.places for f in _files(root / place)), self.only)


# By folder: what is asked always, and the wider tests that run what its code makes. What sees most in the least time comes first.
_OPS = Stage(("test/end_to_end/test_native_ops.py",), "test_ops and full")
_CHAINS = Stage(
    (
        "test/end_to_end/test_chains.py",
        "test/passes/schedule/test_fused_producers.py",
        "test/passes/schedule/test_fused_loops.py",
        "test/passes/schedule/test_intrinsics.py",
    )
)
_LOWERING = Stage(
    (
        "test/passes/graph_to_linalg", *_CHAINS.places, "test/passes/graph/test_narrow_products.py", "test/passes/bufferize",
        "test/passes/linalg_to_affine", "test/passes/affine_to_llvm", "test/end_to_end/test_random_models.py",
    )
)  # fmt: skip
_RUN_TIME = Stage(tuple(f"test/end_to_end/test_{name}.py" for name in ("changing_sizes", "compiled_control_flow", "data_sizes")))
_NATIVE = (
    Stage(tuple(f"test/end_to_end/test_{name}.py" for name in ("small_constants", "operators", "strict", "index_checks"))),
    _RUN_TIME,
    Stage(("test/end_to_end/test_native_ops.py",), "test_ops and not full"),
    _LOWERING,
    Stage(("test/end_to_end/test_random_graphs.py",), "test_random_graphs_are_right"),
    Stage(("test/end_to_end/test_onnx_suite.py",), "given"),
)
_OF_GRAPHS = (
    Stage(("test/compiler/driver/test_switches.py", "test/compiler/runtime/test_model.py")),
    Stage(("test/end_to_end/test_strict.py", "test/end_to_end/test_random_models.py")),
    _RUN_TIME,
    *_NATIVE[-2:],
)
_NOT_ASKED = ("test/scripts/", "test/project/")
"""Their tests name files of passes, and say nothing about what these do."""
_NAMES_ALL_KINDS = "test/scripts/test_affected.py"
"""A test of the mapping from files to tests, which names files of all kinds."""
_TESTS: dict[str, tuple[tuple[Stage, ...], tuple[Stage, ...]]] = {
    "passes/graph": ((_OPS, Stage(("test/passes/graph",))), _OF_GRAPHS),
    "passes/packed": ((_OPS, Stage(("test/passes/packed",))), _OF_GRAPHS),
    "passes/graph_to_linalg": ((_OPS, Stage(("test/passes/graph_to_linalg",))), _NATIVE),
    "passes/linalg": ((_OPS, Stage(("test/passes/linalg", "test/passes/schedule", "test/passes/linalg_to_affine"))), _NATIVE),
    "passes/schedule": ((_OPS, Stage(("test/passes/schedule", "test/dialects/sched", "test/passes/linalg_to_affine"))), _NATIVE),
    "passes/bufferize": ((_OPS, _CHAINS, Stage(("test/passes/bufferize", "test/passes/linalg_to_affine"))), _NATIVE),
    "passes/linalg_to_affine": ((_OPS, _CHAINS, Stage(("test/passes/linalg_to_affine", "test/passes/schedule"))), _NATIVE),
    "passes/affine_to_llvm": ((_OPS, Stage(("test/passes/affine_to_llvm",))), _NATIVE),
    "dialects/target": (
        (Stage(("test/dialects/target", "test/passes/affine_to_llvm", "test/passes/schedule", "test/passes/linalg_to_affine")), _OPS), _NATIVE,
    ),
    "dialects/graph": (
        (Stage(("test/dialects/graph", "test/dialects/core")), _OPS),
        (Stage(("test/passes/graph_to_linalg", "test/passes/graph")), *_NATIVE),
    ),
    "dialects/packed": ((Stage(("test/dialects/packed",)), _OPS), (Stage(("test/passes/graph_to_linalg", "test/passes/packed")), *_NATIVE)),
    "compiler/runtime": ((Stage(("test/compiler/runtime",)), _RUN_TIME), _NATIVE[-1:]),
    "compiler/frontends": ((Stage(("test/compiler/frontends",)),), _NATIVE[-1:]),
    "compiler/backends/llvm_cpu/phases.py": ((Stage(("test/compiler/driver",)), _OPS, _CHAINS, *_NATIVE[:2]), _NATIVE[2:]),
}


def folders() -> list[str]:
    """The folders whose files faults are planted in, and files that lie in none of these."""
    return list(_TESTS)


def sources(root: Path, places: Iterable[str]) -> list[str]:
    """The files of Python in folders of the checkout at `root`, which may be files themselves."""
    return sorted(str(f.relative_to(root)) for p in places for f in ([root / p] if (root / p).is_file() else (root / p).rglob("*.py")))


def folder_of(path: str) -> str:
    """The one of `folders` that a file lies in. Raises KeyError if it lies in none."""
    found = [folder for folder in _TESTS if f"{path}/".startswith(f"{folder}/")]
    if not found:
        raise KeyError(path)
    return max(found, key=len)


def select(root: Path, path: str, *, wide: bool, far: bool = True) -> list[FilesToRun]:
    """The tests for a file of the checkout at `root`, the likeliest to see a fault first; with `wide`, also those of other folders that run
    what it makes. Without `far`, those of other folders that name it are left out. For a file in none of `folders`, those that name it and those
    of the folder of the same name."""
    place = Path(path)
    # The import of a module, and the name of a pass where it is no common word.
    names = [rf"{re.escape(place.parent.name)}\.{re.escape(place.stem)}", *({place.stem, place.stem.replace("_", "-")} if "_" in place.stem else ())]
    near: list[str] = []
    others: list[str] = []
    for name in naming(root, rf"\b({'|'.join(names)})\b"):
        if not name.startswith(_NOT_ASKED):
            # Tests of other parts name much and take long.
            (near if name.startswith(f"test/{place.parts[0]}/") else others).append(name)
    try:
        always, wider = _TESTS[folder_of(path)]
    except KeyError:
        always, wider = (Stage((f"test/{place.parent}",)),), ()
    stages = [FilesToRun.from_names(near), *(stage.files(root) for stage in always)]
    stages += [FilesToRun.from_names(others)] * far + [stage.files(root) for stage in wider if wide]
    return [tests for tests in stages if tests.lit or tests.pytest]


def naming(root: Path, pattern: str) -> list[str]:
    """The files of tests of the checkout at `root` whose text has a match of a pattern."""
    compiled = re.compile(pattern)
    found = [str(file.relative_to(root)) for file in _files(root / "test") if compiled.search(file.read_text())]
    return [name for name in found if name != _NAMES_ALL_KINDS]


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [f for f in sorted(place.rglob("*")) if f.suffix == ".mlir" or (f.name.startswith("test_") and f.suffix == ".py")]
