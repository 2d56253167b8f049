"""Lint: who may import what, and the traps that no type checker sees."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("dialects", "passes", "compiler")  # each may import the ones before it
BINDINGS = ROOT / "dialects" / "core" / "bindings.py"

PYTHON_FILES = sorted(p for folder in (*LAYERS, "scripts", "examples") for p in (ROOT / folder).rglob("*.py"))
MLIR_FILES = sorted((ROOT / "test").rglob("*.mlir"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of everything a file imports, inside functions too."""
    found = []
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names]
    return found


def statements(around: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node. Expressions, which hold none, are not entered: they are most of a file."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in below if isinstance(below := getattr(around, name, None), list) else ():
            yield node
            yield from statements(node)


def import_problems(path: Path) -> list[str]:
    """What a file imports that it must not."""
    folder, found = path.relative_to(ROOT).parts[0], []
    for line, name in imports(path):
        top, _, rest = name.partition(".")
        if folder in LAYERS and top in ("torch_mlir", "mlir") and path != BINDINGS:
            found.append(f"{relative(path)}:{line}: only {relative(BINDINGS)} imports the bindings")
        if folder in LAYERS and top == "stepwell":
            layer = rest.partition(".")[0] if rest.partition(".")[0] in LAYERS else "compiler"
            if LAYERS.index(layer) > LAYERS.index(folder):
                found.append(f"{relative(path)}:{line}: {folder} must not import {name}")
        if folder == "dialects" and name == "__future__.annotations":
            found.append(f"{relative(path)}:{line}: makes strings of the fields of op classes")
    return found


NEVER = {
    "dialects/graph": ("dialects/packed", "dialects/sched", "dialects/interpreter", "what is computed says nothing of how"),
    "dialects/packed": ("dialects/target", "dialects/sched", "dialects/flow", "dialects/interpreter", "a layout knows no machine and no schedule"),
    "dialects/target": (
        "dialects/graph", "dialects/packed", "dialects/sched", "dialects/flow", "dialects/interpreter", "a machine knows no other part",
    ),
    "dialects/support": ("dialects/graph", "dialects/target", "dialects/sched", "it knows nothing of compilers"),
    "dialects/core": ("dialects/graph", "dialects/packed", "dialects/sched", "dialects/target", "the core knows no dialect"),
    "dialects": ("compiler/frontends", "passes", "a dialect knows no front end and no pass"),
    "passes/framework": (
        "dialects/packed", "passes/graph", "passes/packed", "passes/schedule", "passes/linalg", "passes/bufferize", "it serves all levels alike",
    ),
    "passes/graph": (
        "dialects/packed", "passes/packed", "passes/schedule", "passes/linalg", "passes/graph_to_linalg", "passes/bufferize",
        "passes/linalg_to_affine", "passes/affine_to_llvm", "the graph level knows no layout and no scheduler; levels meet in IR only",
    ),
    "passes/packed": (
        "passes/schedule", "passes/linalg", "passes/graph_to_linalg", "passes/bufferize", "passes/linalg_to_affine", "passes/affine_to_llvm",
        "layouts know no scheduler; levels meet in IR only",
    ),
    "passes/graph_to_linalg/*": ("dialects/packed", "passes/packed", "what lowers packed ops has a folder of its own"),
    "passes/linalg": ("passes/packed", "passes/schedule", "passes/graph", "passes/bufferize", "passes/linalg_to_affine", "levels meet in IR only"),
    "passes/schedule": (
        "passes/packed", "passes/graph", "passes/graph_to_linalg", "passes/bufferize", "passes/linalg_to_affine", "levels meet in IR only",
    ),
    "passes/bufferize": ("passes/packed", "passes/graph", "passes/linalg_to_affine", "passes/affine_to_llvm", "bufferisation chooses no loops"),
    "passes/linalg_to_affine": ("passes/packed", "passes/graph", "passes/bufferize", "passes/affine_to_llvm", "levels meet in IR only"),
    "passes/affine_to_llvm": ("passes/packed", "passes/graph", "passes/schedule", "passes/linalg", "passes/bufferize", "levels meet in IR only"),
    "compiler/frontends": (
        "dialects/packed",
        "compiler/driver", "compiler/backends", "compiler/pipelines", "compiler/runtime", "compiler/cache", "compiler/cli", "passes",
        "a front end only imports",
    ),
    "compiler/frontends/*": ("compiler/frontends/onnx", "onnx", "google", "what all front ends share knows none of them"),
    "compiler/frontends/blocks": ("compiler/frontends/onnx", "compiler/frontends/registry", "onnx", "google", "blocks belong to no format"),
    "compiler/runtime": ("compiler/driver", "compiler/frontends", "compiler/backends", "compiler/pipelines", "passes", "it knows only what it runs"),
    "compiler/cache": ("compiler/driver", "compiler/frontends", "compiler/backends", "compiler/analysis", "passes", "the cache knows no compiler"),
    "compiler/pipelines": ("compiler/driver", "compiler/frontends", "compiler/backends", "compiler/runtime", "pipelines are data"),
    "compiler/backends": ("compiler/driver", "compiler/frontends", "compiler/analysis", "compiler/cli", "a backend knows no driver"),
    "compiler/driver": ("compiler/cli", "compiler/analysis", "compiler/quantizer", "the driver knows no tool that uses it"),
}
"""For a folder, or the files directly in it (`/*`): the folders and packages that it never imports, and why. The last entry is the reason."""


def never_problems(path: Path) -> list[str]:
    """What a file imports against `NEVER`."""
    here, found = relative(path), []
    for folder, (*others, why) in NEVER.items():
        if (f"{here.rpartition('/')[0]}/*" == folder) if folder.endswith("/*") else here.startswith(f"{folder}/"):
            for line, name in imports(path):
                place = _place(name)
                found += [f"{here}:{line}: {folder} never imports {other} ({name}): {why}" for other in others if f"{place}/".startswith(f"{other}/")]
    return found


def _place(name: str) -> str:
    """The path of what is imported: from the package, in the checkout; from another package, its dotted name."""
    top, _, rest = name.partition(".")
    if top != "stepwell":
        return name.replace(".", "/")
    place = rest.replace(".", "/")
    return place if rest.partition(".")[0] in ("dialects", "passes") else f"compiler/{place}"


def test_what_a_room_never_imports():
    assert not [problem for path in PYTHON_FILES for problem in never_problems(path)]


def may_import() -> dict[str, set[str]]:
    """For each folder, the folders that docs/architecture.md says it may import. `compiler/`: the files directly in it; `passes/*`: all folders."""
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## Folders")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w/]+)`[^|]*\|.*\|([^|]*)\|$", section, flags=re.MULTILINE)
    return {folder: set(re.findall(r"`([^`]+)`", others)) for folder, others in rows}


def row_of(place: str) -> str:
    """The row of the page for a file or module: its folder in a layer, or the layer itself."""
    layer, *below = place.split("/")
    return f"{layer}/{below[0]}" if below and (ROOT / layer / below[0]).is_dir() else f"{layer}/"


def test_the_page_says_what_each_folder_may_import() -> None:
    """The table lists what the code imports, no more, and nothing against `NEVER`."""
    page, used = may_import(), defaultdict(set)
    for path in PYTHON_FILES:
        if relative(path).startswith(LAYERS):
            used[row_of(relative(path))] |= {row_of(_place(name)) for _, name in imports(path) if name.startswith("stepwell.")}
    assert len(page) > 25
    for folder, listed in page.items():
        needed = {name for name in used[folder] if name not in ("dialects/", "dialects/core", "dialects/support", "passes/", folder)}
        layers = {name.removesuffix("*") for name in listed if name.endswith("/*")}
        assert not {name for name in needed - listed if not name.startswith(tuple(layers))}, f"{folder} imports more than docs/architecture.md says"
        assert not {name for name in listed - needed if not name.endswith("/*")}, f"{folder} imports less than docs/architecture.md says"
        never = {other for rule, (*others, _) in NEVER.items() if f"{folder}/".startswith(f"{rule}/") for other in others}
        assert not {(name, other) for name in listed for other in never if f"{name}/".startswith(f"{other}/")}, folder


def test_an_import_planted_against_each_rule_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    for number, (folder, other) in enumerate((folder, other) for folder, (*others, _) in NEVER.items() for other in others):
        ours = other.partition("/")[0] in LAYERS
        module = "stepwell." + other.removeprefix("compiler/").replace("/", ".") if ours else other
        file = tmp_path / folder.removesuffix("/*") / f"planted_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def f():\n    from {module}.any import thing\n")
        assert any(f":2: {folder} never imports {other} " in problem for problem in never_problems(file)), (folder, other)
        fine = file.with_name(f"fine_{number}.py")
        fine.write_text("from stepwell.dialects.support.errors import InputError\nimport numpy\n")
        assert not never_problems(fine)


def test_imports():
    assert len(PYTHON_FILES) > 500
    assert not [problem for path in PYTHON_FILES for problem in import_problems(path)]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("dialects/a.py", "import stepwell.passes.b", "dialects must not import"),
        ("passes/a.py", "def f():\n    if f:\n        pass\n    else:\n        from stepwell.cli import main", ":5: passes must not import"),
        ("compiler/a.py", "try:\n    pass\nexcept OSError:\n    from torch_mlir import ir", ":4: only dialects/core/bindings.py imports"),
        ("dialects/a.py", "from __future__ import annotations", "makes strings"),
        ("compiler/a.py", "import stepwell.passes.b\nimport stepwell.dialects.c", None),
    ],
)
def test_the_lint_of_imports_itself(file, text, said, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "BINDINGS", tmp_path / "dialects" / "core" / "bindings.py")
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    found = import_problems(tmp_path / file)
    assert (not found) if said is None else len(found) == 1 and said in found[0]


def test_walks():
    """The bindings' walk makes a RuntimeError of what its callback raises, of Ctrl-C too: `ops_below` does not."""
    assert not [relative(path) for path in PYTHON_FILES if "WalkOrder" in path.read_text()]


def test_no_circles():
    """No file needs itself by way of others, whether it imports them at the top, in a function or for types alone."""
    names = {".".join(("stepwell", *(folder,) * (folder != "compiler"), *path.relative_to(ROOT / folder).with_suffix("").parts)): path
             for folder in LAYERS for path in (ROOT / folder).rglob("*.py")}  # fmt: skip
    files = {name.removesuffix(".__init__"): path for name, path in names.items()}
    needs = {file: {n if n in files else n.rpartition(".")[0] for _, n in imports(path)} & files.keys() for file, path in files.items()}
    assert len(needs["stepwell"]) > 5
    assert "stepwell.dialects.core.mlir" in needs["stepwell.dialects.graph.base"]
    list(TopologicalSorter(needs).static_order())  # raises a CycleError that says what the circle is


# -- FileCheck ignores what it does not know: a misspelled directive is a test that cannot fail.

SUFFIXES = ("", "-NEXT", "-SAME", "-NOT", "-DAG", "-LABEL", "-EMPTY")
LIT_KEYWORDS = {"RUN", "XFAIL", "REQUIRES", "UNSUPPORTED", "END", "COM", "DEFINE", "REDEFINE"}
DIRECTIVE_LIKE = re.compile(r"//\s*([A-Za-z][\w-]*)(\{LITERAL\})?\s*(:?)")


def prefixes(text: str) -> set[str]:
    """The check prefixes of all FileCheck calls in the RUN lines."""
    runs = " ".join(re.findall(r"//\s*RUN:(.*)", text)).replace("\\ ", " ")
    found: set[str] = set()
    for call in re.split(r"\bFileCheck\b", runs)[1:]:
        call = re.split(r"\||&&|;|//", call)[0]
        named = re.findall(r"--?check-prefix(?:es)?[= ](\S+)", call)
        found |= {prefix for names in named for prefix in names.split(",")} or {"CHECK"}
    return found


def problems(text: str) -> list[str]:
    """What is wrong with the directives of a lit test."""
    found = []
    known = prefixes(text)
    used = set()
    if "RUN:" not in text:
        found.append("no RUN line")
    for number, line in enumerate(text.splitlines(), start=1):
        match = DIRECTIVE_LIKE.search(line)
        if not match:
            continue
        word, _, colon = match.groups()
        prefix = next((p for p in sorted(known, key=len, reverse=True) if word == p or word.startswith(f"{p}-")), None)
        if prefix is not None and (word[len(prefix) :] in SUFFIXES or re.fullmatch(r"-COUNT-\d+", word[len(prefix) :])):
            used.add(prefix)
            if not colon:
                found.append(f"line {number}: no colon after {word}")
        elif prefix is not None or word.upper() in known or (colon and word.isupper() and word not in LIT_KEYWORDS):
            found.append(f"line {number}: {word} is no directive of the prefixes {', '.join(sorted(known))}")
        if re.search(r"\[\[#|\[\[@LINE", line):
            found.append(f"line {number}: the Python FileCheck has no numeric variables and no @LINE")
    for prefix in sorted(known - used):
        found.append(f"FileCheck is asked for {prefix}, and no line has it")
    if re.search(r"FileCheck.*--?(implicit-check-not|allow-unused-prefixes)", text):
        found.append("an option that the Python FileCheck has not")
    return found


def test_filecheck_directives():
    assert len(MLIR_FILES) > 100
    assert not [f"{relative(path)}: {problem}" for path in MLIR_FILES for problem in problems(path.read_text())]


RUN = "// RUN: stepwell-opt %s | FileCheck %s\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RUN + "// CHECK: a\n// CHECK-NEXT: b\n  // CHECK-COUNT-3: c\n// CHECK{LITERAL}: [[\n// A comment: fine\n// Another", None),
        (RUN + "// CHECK: a\n// CHECK-NXET: b\n", "line 3: CHECK-NXET"),
        (RUN + "// CHECK: a\n// CHEKC: b\n", "line 3: CHEKC"),
        (RUN + "// CHECK: a\n// Check: b\n", "line 3: Check"),
        (RUN + "// CHECK: a\n// CHECK-NEXT b\n", "line 3: no colon"),
        (RUN + "func.func @f()\n", "no line has it"),
        (RUN + "// CHECK: %[[#N:]]\n", "numeric variables"),
        ("// CHECK: a\n", "no RUN line"),
        ("// RUN: stepwell-opt %s | FileCheck %s --check-prefix=OPT\n// CHECK: a\n// OPT: b\n", "line 2: CHECK"),
        ("// RUN: stepwell-opt %s | FileCheck %s --check-prefixes=A,B\n// A: a\n// B-NOT: b\n", None),
        ("// RUN: stepwell-opt %s --verify-diagnostics\n// expected-error @below {{no}}\n", None),
    ],
)
def test_the_lint_itself(text, expected):
    found = problems(text)
    assert (not found) if expected is None else any(expected in problem for problem in found), found
