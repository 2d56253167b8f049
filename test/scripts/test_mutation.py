"""The mutation tester: which faults it plants, that each is one, that a test sees what it should."""

import ast
import json
from pathlib import Path

import mutate
import pytest
from mutation.edits import edits, sample
from mutation.selection import FilesToRun, folder_of, folders, select
from mutation.trial import Copy

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


def test_the_faults_of_a_function() -> None:
    found = [(e.line, e.what) for e in edits("f.py", SOURCE)]
    assert found == [
        (5, "range(n) -> range(1, n)"),
        (6, "not dropped"), (6, "or -> and"), (6, "< -> <="), (6, "2 -> 3"), (6, "and -> or"), (7, "!= -> =="),
        (8, "continue -> break"),
        (9, "out.append(i * 2 + 1) -> pass"), (9, "append -> insert at the front"), (9, "* -> +"), (9, "2 -> 3"), (9, "+ -> -"), (9, "1 -> 2"),
        (10, "> -> >="), (10, "7 -> 8"),
        (12, "check(out) -> pass"),
        (13, "1 -> 2"), (13, "min -> max"), (13, "- dropped"), (13, ".MaxSIOp -> .MinSIOp"), (13, ".lhs -> .rhs"),
    ]  # fmt: skip


def test_every_fault_of_the_passes_is_another_program() -> None:
    for folder in folders():
        for file in sorted((ROOT / folder).rglob("*.py")):
            source = file.read_text()
            before = ast.dump(ast.parse(source))
            for edit in sample(edits(str(file.relative_to(ROOT)), source), every=40, seed=3):
                assert ast.dump(ast.parse(edit.apply(source))) != before, edit


def test_a_file_is_asked_about_by_the_tests_that_name_it_first() -> None:
    first, second, *others = select(ROOT, "passes/graph/layout/pack_matmul.py", wide=True)
    assert "test/passes/graph/layout/pack_matmul.mlir" in first.lit
    assert "test/passes/graph/layout/use_winograd.mlir" not in first.lit
    assert "test/scripts/test_mutation.py" not in first.pytest
    assert "test/passes/graph/layout/use_winograd.mlir" in second.lit
    assert [tests.only for tests in others if tests.pytest == ("test/end_to_end/test_native_ops.py",)] == ["test_ops and full"]
    assert len(select(ROOT, "passes/graph/layout/pack_matmul.py", wide=False)) < len([first, second, *others])


def test_stages_name_tests_that_exist() -> None:
    for folder in folders():
        file = next(f for f in (ROOT / folder).rglob("*.py") if f.name != "__init__.py")
        for tests in select(ROOT, str(file.relative_to(ROOT)), wide=True):
            assert tests.lit or tests.pytest
            assert all((ROOT / name).is_file() for name in (*tests.lit, *tests.pytest))
    assert folder_of("passes/graph_to_linalg/resize.py") == "passes/graph_to_linalg"


def test_faults_that_are_called_harmless_exist_and_have_a_reason() -> None:
    known = mutate.harmless()
    there = set()
    for path in {path for path, _, _ in known}:
        source = (ROOT / path).read_text()
        there |= {(path, source.splitlines()[e.line - 1].strip(), e.what) for e in edits(path, source)}
    assert known <= there, "the list names faults that cannot be planted any more"
    entries = json.loads(mutate.HARMLESS.read_text())
    assert len(known) == len(entries)


def test_a_fault_is_planted_in_a_copy_and_seen(tmp_path: Path) -> None:
    path = "passes/graph/simplification/use_products.py"
    copy = Copy(ROOT, tmp_path / "copy")
    tests = FilesToRun(("test/passes/graph/simplification/use_products.mlir",), ())
    assert copy.limit(tests) > copy.seconds[str(tests)] > 0
    edit = next(e for e in edits(path, (ROOT / path).read_text()) if e.what == "!= -> ==")
    outcome = copy.attempt(edit, [tests])
    assert outcome.state == "killed"
    assert "use_products.mlir" in outcome.by
    assert (copy.folder / path).read_text() == (ROOT / path).read_text()


def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["passes/nowhere"], ["scripts"], ["--every", "0"]):
        with pytest.raises(SystemExit) as end:
            mutate.main(arguments)
        assert end.value.code == 2
        assert "expected" in capsys.readouterr().err
