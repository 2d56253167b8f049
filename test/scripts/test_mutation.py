"""The mutation tester: which faults it plants, that each is one, that a test sees what it should."""

import ast
import json
import os
import re
from pathlib import Path

import mutate
import pytest
from mutation import fixed
from mutation.edits import KINDS, edits, sample, statement
from mutation.fixed import Fault, Recorded
from mutation.reach import Reach, probed, traverse
from mutation.selection import FilesToRun, folder_of, folders, select, sources
from mutation.trial import Copy, failing, first_failure

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
def f(a: int, b: "int | None" = None) -> list[int]:
    """At most 3 of them, a < b."""
    out = []
    for i in range(a):
        if not i or (i < 2 and
                     a != b):  # not the last
            continue
        out.append(i * 2 + 1)
    if len(out) > 7:
        raise ValueError(f"{a + 1} > 7")
    check(out)
    return out[1:] if min(a, -i) else [arith.MaxSIOp(a, op.lhs)]
'''


CHOICES = '''
from it import a

LIMIT, FEW = 64, 3
PAIRS = [("x", "y"), (1, 2.5)]
WIDER = {
    "i8": ("i16", "i32"),  # with, a comma
    **MORE, "one": (1, "x"),
}
RATES = (0.5,
         2.0)
BARE = {a}, {1}
PIPELINE = Phase("all", "linalg", """
  one, two{x=1 y=b},
  // A comment, with (words).
  three,
func.func(four)
""")


def f(x, kinds=("a", "b",)):
    """At most 0.5, of (a), b."""
    if (x is None
            or not (kinds and len(kinds) < 0.25)):
        return [y for y in x if y not in {1, 2}]
    if (z := x.get()) is None:
        raise ValueError("none")
    while x:
        if x == 3:
            continue
    return z
'''


def test_the_faults_of_a_function() -> None:
    found = [(e.line, e.what) for e in edits("f.py", SOURCE) if e.kind == "operators"]
    assert found == [
        (5, "range(n) -> range(1, n)"),
        (6, "not dropped"), (6, "or -> and"), (6, "< -> <="), (6, "2 -> 3"), (6, "and -> or"), (7, "!= -> =="),
        (8, "continue -> break"),
        (9, "out.append(i * 2 + 1) -> pass"), (9, "append -> insert at the front"), (9, "* -> +"), (9, "2 -> 3"), (9, "+ -> -"), (9, "1 -> 2"),
        (10, "> -> >="), (10, "7 -> 8"),
        (12, "check(out) -> pass"),
        (13, "1 -> 2"), (13, "min -> max"), (13, "- dropped"), (13, ".MaxSIOp -> .MinSIOp"), (13, ".lhs -> .rhs"),
    ]  # fmt: skip


def test_the_faults_of_choices() -> None:
    """Guards and conditions, tables, numbers, passes. What is left out takes its comma and parentheses with it; what else stands is as before."""
    found = edits("f.py", CHOICES)
    by_kind = {kind: [(e.line, e.what) for e in found if e.kind == kind] for kind in KINDS}
    assert by_kind["conditions"] == [
        (23, "condition x is None dropped"), (23, "guard x is None or not (kinds and len(kinds) < 0.25) dropped"),
        (24, "condition not (kinds and len(kinds) < 0.25) dropped"), (24, "condition kinds dropped"), (24, "condition len(kinds) < 0.25 dropped"),
        (25, "filter y not in {1, 2} dropped"), (29, "guard x == 3 dropped"),
    ]  # fmt: skip
    assert by_kind["tables"] == [
        (4, "64 <-> 3"), (5, 'entry ("x", "y") dropped'), (5, 'entry (1, 2.5) dropped'), (5, "1 <-> 2.5"),
        (7, 'entry "i8": ("i16", "i32") dropped'), (7, '("i16", "i32") <-> (1, "x")'), (7, 'entry "i16" dropped'), (7, 'entry "i32" dropped'),
        (8, "entry **MORE dropped"), (8, 'entry "one": (1, "x") dropped'), (10, "0.5 <-> 2.0"), (10, "entry 0.5 dropped"), (11, "entry 2.0 dropped"),
        (12, "entry {a} dropped"), (12, "entry {1} dropped"), (21, 'entry "a" dropped'), (21, 'entry "b" dropped'),
    ]  # fmt: skip
    assert by_kind["numbers"] == [
        (4, "64 -> 6"), (4, "64 -> 640"), (5, "2.5 -> 0.0"), (5, "2.5 -> 0.25"), (5, "2.5 -> 25.0"), (10, "0.5 -> 0.0"), (10, "0.5 -> 0.05"),
        (10, "0.5 -> 5.0"), (11, "2.0 -> 0.0"), (11, "2.0 -> 0.2"), (11, "2.0 -> 20.0"), (24, "0.25 -> 0.0"), (24, "0.25 -> 0.025"),
        (24, "0.25 -> 2.5"),
    ]  # fmt: skip
    assert by_kind["passes"] == [(14, "pass one dropped"), (14, "pass two dropped"), (16, "pass three dropped")]
    left = {e.what: " ".join(e.apply(CHOICES).split()) for e in found}
    for what, text in {
        "condition kinds dropped": "or not (len(kinds) < 0.25)):",
        "condition len(kinds) < 0.25 dropped": "or not (kinds )):",
        "condition x is None dropped": "if (not (kinds and len(kinds) < 0.25)):",
        "guard x == 3 dropped": "if False: continue",
        "condition not (kinds and len(kinds) < 0.25) dropped": "if (x is None ):",
        "filter y not in {1, 2} dropped": "for y in x if True]",
        "entry **MORE dropped": '("i16", "i32"), # with, a comma "one"',
        'entry "one": (1, "x") dropped': "**MORE, }",
        "0.5 <-> 2.0": "(2.0, 0.5)",
        "entry 0.5 dropped": "RATES = (2.0,)",
        "entry {a} dropped": "BARE = {1}, PIPELINE",
        'entry "b" dropped': 'kinds=("a", )',
        "pass three dropped": "(words). func.func(four)",
        "pass two dropped": "one, // A",
    }.items():
        assert text in left[what], what


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_fault_of_the_passes_is_another_program(step: int) -> None:
    """In each `step`-th file of a folder: to parse them all again for each fault takes long."""
    for folder in folders():
        for path in sources(ROOT, [folder])[::step]:
            source = (ROOT / path).read_text()
            before = ast.dump(ast.parse(source))
            for edit in sample(edits(path, source), every=40, seed=3):
                assert ast.dump(ast.parse(edit.apply(source))) != before, edit


def test_a_file_is_asked_about_by_the_tests_that_name_it_first() -> None:
    first, second, *others = select(ROOT, "passes/packed/pack_matmul.py", wide=True)
    assert "test/passes/packed/pack_matmul.mlir" in first.lit
    assert "test/passes/packed/use_winograd.mlir" not in first.lit
    assert "test/scripts/test_mutation.py" not in first.pytest
    assert "test/compiler/driver/test_switches.py" not in first.pytest
    assert second == FilesToRun((), ("test/end_to_end/test_native_ops.py",), "test_ops and full")
    assert "test/passes/packed/use_winograd.mlir" in others[0].lit
    assert "test/compiler/driver/test_switches.py" in others[1].pytest
    assert len(select(ROOT, "passes/packed/pack_matmul.py", wide=False)) < len([first, second, *others])


def test_stages_name_tests_that_exist() -> None:
    for folder in folders():
        path = next(f for f in sources(ROOT, [folder]) if not f.endswith("__init__.py"))
        for tests in select(ROOT, path, wide=True):
            assert tests.lit or tests.pytest
            assert all((ROOT / name).is_file() for name in (*tests.lit, *tests.pytest))
    assert folder_of("passes/graph_to_linalg/resize.py") == "passes/graph_to_linalg"
    assert folder_of("compiler/backends/llvm_cpu/phases.py") == "compiler/backends/llvm_cpu/phases.py"


def test_faults_that_are_called_harmless_exist_and_have_a_reason() -> None:
    known = mutate.harmless()
    there = set()
    for path in {path for path, _, _ in known}:
        source = (ROOT / path).read_text()
        there |= {(path, statement(source.splitlines()[e.line - 1]), e.what) for e in edits(path, source)}
    assert not known - there, "the list names faults that cannot be planted any more"
    entries = json.loads(mutate.HARMLESS.read_text())
    assert len(known) == len(entries)


@pytest.mark.nightly  # by day, the replay of a record below plants the same
def test_a_fault_is_planted_in_a_copy_and_seen(tmp_path: Path) -> None:
    path = "passes/graph/simplification/use_products.py"
    copy = Copy(ROOT, tmp_path / "copy")
    tests = FilesToRun(("test/passes/graph/simplification/use_products.mlir",), ())
    edit = next(e for e in edits(path, (ROOT / path).read_text()) if e.what == "!= -> ==")
    outcome = copy.attempt(edit, [tests])
    assert (outcome.state, outcome.by) == ("killed", f"lit: {tests.lit[0]}")
    assert copy.seeing(outcome.by) == tests
    assert (copy.folder / path).read_text() == (ROOT / path).read_text()


def test_a_test_that_fails_is_named_as_its_runner_takes_it() -> None:
    for line, name in (
        ("FAILED test/a.py::test_x[a - b [c]] - AssertionError: [1] - [2]", "test/a.py::test_x[a - b [c]]"),
        ("FAILED test/a.py::test_x", "test/a.py::test_x"),
        ("ERROR test/a.py - ImportError: no", "test/a.py"), ("FAIL: stepwell :: test/a.mlir (1 of 3)", "test/a.mlir"),
    ):  # fmt: skip
        assert first_failure(f"...F\n{line}\n1 failed") == name
    assert failing("pytest: test/a.py::test_x") == FilesToRun((), ("test/a.py::test_x",))
    assert failing(f"lit: {first_failure('no')}") is None


# --- which tests reach a fault


def test_probes_stand_before_the_statements_of_faults() -> None:
    source = "TABLE = 1\n\n\ndef f(a=2):\n    if a > 3:\n        return 4\n    elif a > 5:\n        b = [a,\n             6]\n    return b\n"
    found = {number: edit for number, edit in enumerate(edits("f.py", source)) if edit.what[0].isdigit()}
    text, without = probed(source, found)
    assert {found[number].what for number in without} == {"1 -> 2", "2 -> 3"}
    lines = text.splitlines()
    after = {found[n].what: lines[i + 1 :] for i, line in enumerate(lines) for n in found if line.endswith(f".hit({n})")}
    first = {what: next(line.strip() for line in rest if "hit" not in line) for what, rest in after.items()}
    assert first == {"3 -> 4": "if a > 3:", "4 -> 5": "return 4", "5 -> 6": "if a > 3:", "6 -> 7": "b = [a,"}
    ast.parse(text)


def test_tests_that_reach_a_fault_are_found(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    code = tmp_path / "code" / "reached.py"
    code.write_text("def f(a):\n    return a + 1\n\n\ndef g(a):\n    return a + 2\n\n\nG = g(0)\n")
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys\nimport pytest\nfrom reached import f, g\n@pytest.fixture(scope='module')\ndef made(): return f(1)\n"
        "def test_with_fixture(made): pass\ndef test_nothing(): pass\n"
        "def test_child(): subprocess.run([sys.executable, '-c', 'from reached import f; f(1)'], check=True)\n"
        "def test_wrong(): assert f(1) == 0\n"
    )
    faults = {n: e for n, e in enumerate(edits("code/reached.py", code.read_text())) if e.what == "+ -> -"}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "PYTHONDONTWRITEBYTECODE": "1"}
    tests, record = FilesToRun((), ("test_it.py",)), tmp_path / "record"
    reach = traverse(tmp_path, tmp_path / "code", environment, faults, tests, record, "state")
    names = {f"test_it.py::test_{name}" for name in ("with_fixture", "nothing", "child")}
    assert reach.seconds.keys() == names, "a test that fails cannot tell a fault"
    assert [reach.by_fault.get(number) for number in faults] == [names, None]  # a fixture's result may serve all; g runs at the import
    assert "hit" not in code.read_text()
    (tmp_path / "test_it.py").unlink()
    assert traverse(tmp_path, tmp_path / "code", environment, faults, tests, record, "state") == reach, "it is not run again"
    assert traverse(tmp_path, tmp_path / "code", environment, faults, tests, record, "another").seconds == {}


def test_the_quickest_of_the_tests_that_reach_a_fault_are_asked_first() -> None:
    reach = Reach({"a.mlir": 2, "b.mlir": 1, "c.mlir": 1, "d.py::x": 3, "d.py::y": 1}, {7: {"a.mlir", "b.mlir", "d.py::x", "d.py::y"}})
    files, near = ["a.mlir", "b.mlir", "c.mlir", "d.py"], ["a.mlir", "c.mlir"]
    assert reach.stages(7, files, near) == [FilesToRun(("a.mlir",), ()), FilesToRun((), ("d.py::y", "d.py::x")), FilesToRun(("b.mlir",), ())]
    assert reach.stages(7, ["b.mlir"], near) == [FilesToRun(("b.mlir",), ())]


# --- the fixed sample


def test_the_sample_depends_on_the_text_of_faults_alone() -> None:
    places = ["passes/graph", "compiler/runtime"]
    found = [Fault(f"{place}/f{i}.py", "f", f"a < {i}", "< -> <=") for place in places for i in range(50)]
    kinds = {f: "numbers" if f.path.endswith("1.py") else "tables" for f in found}
    chosen = fixed.choose(kinds, 9, seed=1)
    assert [sum(f.path.startswith(place) for f in chosen) for place in places] == [5, 4]
    assert [sum(f.path.startswith(place) and kinds[f] == "numbers" for f in chosen) for place in places] == [3, 2]
    assert fixed.choose({f: kinds[f] for f in reversed(found)}, 9, seed=1) == chosen
    assert fixed.choose({f: kinds[f] for f in found if f in chosen or f.path.endswith("0.py")}, 9, seed=1) == chosen
    assert fixed.choose(kinds, 9, seed=2) != chosen
    few = fixed.choose(dict.fromkeys(found[:50], "tables"), 9, seed=1)
    assert len(few) == 9, "a folder that has no such faults has no share"


def test_a_fault_is_found_again_where_its_line_went(tmp_path: Path) -> None:
    (tmp_path / "passes").mkdir()
    file, other = tmp_path / "passes" / "a.py", tmp_path / "passes" / "b.py"
    text = "def f(a):\n    if a < 1 or a < 1:\n        return 2\n"
    fault = next(f for f, _ in fixed.faults("passes/a.py", text) if (f.what, f.nth) == ("1 -> 2", 1))
    assert fault == Fault("passes/a.py", "f", "if a < 1 or a < 1:", "1 -> 2", nth=1)

    def found() -> tuple[str, int, int] | None:
        edit = fixed.find(tmp_path, ["passes"], fault)
        return None if edit is None else (edit.path, edit.line, edit.start)

    file.write_text("x = 1\n" + text)
    assert found() == ("passes/a.py", 3, 36)
    file.write_text(text.replace("def f", "def g"))
    assert found() == ("passes/a.py", 2, 30)
    file.write_text("")
    other.write_text(text)
    assert found() == ("passes/b.py", 2, 30)
    (tmp_path / "passes" / "c.py").write_text(text)
    assert found() is None, "two places are as likely"
    other.write_text(text.replace("or", "and"))
    assert found() == ("passes/c.py", 2, 30)


def test_a_record_is_planted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, test = "passes/graph/simplification/use_products.py", "test/passes/graph/simplification/use_products.mlir"
    seen = next(f for f, e in fixed.faults(path, (ROOT / path).read_text()) if e.what == "!= -> ==")
    gone = Fault(path, "f", "there is no such line", "< -> <=")
    record = [Recorded(seen, "killed", f"lit: {test}"), Recorded(gone, "killed", f"lit: {test}"), Recorded(gone, "survived")]
    fixed.write(tmp_path / "record.json", 1, record)
    arguments = ["--replay", str(tmp_path / "record.json"), "--json", str(tmp_path / "now.json"), "--copy", str(tmp_path / "copy")]
    assert mutate.main(arguments) == 0
    assert (tmp_path / "copy" / path).read_text() == (ROOT / path).read_text(), "it is taken back"
    said = capsys.readouterr().out
    assert "there is no such line: gone; before: lit" in said.replace("\n", " ")
    assert "of 2 faults that a test saw before: 1 seen, 1 gone" in said
    assert [r.state for r in fixed.read(tmp_path / "now.json")[1]] == ["killed", "gone", "untried"]


def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["passes/nowhere"], ["scripts"], ["--every", "0"], ["--sample", "100"], ["--replay", "nowhere.json"], ["--kind", "x"]):
        with pytest.raises(SystemExit) as end:
            mutate.main(arguments)
        assert end.value.code == 2
        assert re.search("expected|invalid choice", capsys.readouterr().err)
