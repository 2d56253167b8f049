"""What scripts/test --for runs about a file."""

import subprocess
from pathlib import Path

import pytest
from affected import affected, changed

ROOT = Path(__file__).resolve().parents[2]


def whole(path: str) -> tuple[str, ...]:
    return affected(ROOT, [path]).pytest.get("", ())


def test_code_has_the_tests_of_its_folder_and_those_that_name_it() -> None:
    found = affected(ROOT, ["passes/packed/pack_matmul.py"])
    assert {"test/passes/packed/pack_matmul.mlir", "test/passes/packed/use_winograd.mlir"} <= set(found.lit)
    assert found.lint == ("passes/packed/pack_matmul.py",)
    assert found.is_typed
    assert found.pytest["test_ops and full"] == ("test/end_to_end/test_native_ops.py",)
    assert "test/compiler/cli/test_opt.py" in whole("compiler/cli/opt.py")
    assert "test/project/test_bindings_import.py" in whole("compiler/cli/opt.py")


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("scripts/memory.py", ("test/scripts/test_memory.py",)),
        ("scripts/mutation/trial.py", ("test/scripts/test_mutation.py",)),
        ("scripts/checkouts.py", ("test/scripts/test_mutation.py",)),  # which mutation.trial imports
        ("scripts/test", ("test/scripts/test_checks.py",)),
        ("pyproject.toml", ("test/project/test_packaging.py",)),
        ("test/scripts/test_quick.py", ("test/scripts/test_quick.py",)),
        ("test/support/op_sweep.py", ("test/end_to_end/test_native_ops.py",)),
        ("docs/testing.md", ("test/project/test_docs.py",)),
        ("test/compiler/cli/Inputs/plugin.py", ("test/compiler/cli/test_plugins.py",)),
        ("examples/plugins/op.py", ("test/project/test_plugin.py",)),
    ],
)
def test_each_kind_of_file_has_its_tests(path: str, tests: tuple[str, ...]) -> None:
    assert set(tests) <= set(whole(path))
    assert all((ROOT / name).is_file() for name in whole(path))


def test_a_page_has_its_examples() -> None:
    assert affected(ROOT, ["docs/memory.md"]).pytest["memory"] == ("test/project/test_doc_examples.py",)


def test_a_filecheck_test_is_run_itself() -> None:
    found = affected(ROOT, ["test/passes/graph/attach_target.mlir"])
    assert (found.lint, found.is_typed, found.lit, found.pytest) == ((), False, ("test/passes/graph/attach_target.mlir",), {})


def test_what_runs_whole_does_not_run_in_part_too() -> None:
    found = affected(ROOT, ["passes/packed/pack_matmul.py", "test/end_to_end/test_native_ops.py"])
    assert "test_ops and full" not in found.pytest
    assert "test/end_to_end/test_native_ops.py" in found.pytest[""]


def test_changed_files_are_those_that_git_says(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("kept", "edited", "gone", ".gitignore"):
        (tmp_path / name).write_text("ignored\n")
    git("add", ".")
    git("commit", "-m", "all")
    (tmp_path / "edited").write_text("other")
    (tmp_path / "gone").unlink()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "new").write_text("")
    (tmp_path / "ignored").write_text("")
    assert changed(tmp_path) == ["edited", "folder/new", "gone"]
    assert affected(tmp_path, ["gone", "passes/gone.py"]).lint == ()
