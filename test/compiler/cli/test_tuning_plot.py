"""The options of `stepwell tuning plot`, and the files that it writes."""

from pathlib import Path

import pytest
from tuning_stories import failed_story

from stepwell.cli import tuning_plot
from stepwell.cli.common import Parser, UsageError
from stepwell.dialects.support.errors import InputError
from stepwell.tuning.figures import FIGURES
from stepwell.tuning.story import Story


def execute(*arguments: str | Path) -> int:
    parser = Parser()
    tuning_plot.add_options(parser)

    def find(run: str | None) -> Story:
        if run not in (None, "7"):
            raise InputError(f"run: there is no run {run}")
        return failed_story()

    return tuning_plot.execute(parser.parse_args([*map(str, arguments)]), find)


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, page = tmp_path / "new", tmp_path / "report.html"
    assert execute("--run", "7", "-o", folder, "--format", "svg", "--report", page) == 0
    written = [folder / f"{name}.svg" for name in FIGURES]
    assert capsys.readouterr().out.splitlines() == [*map(str, written), str(page)]
    assert sorted(folder.iterdir()) == sorted(written)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_wrong_options(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for arguments, message in (
        ((), "expected -o FOLDER"), (("--report", tmp_path / "r.html", "--format", "png"), "--format goes with -o"),
        (("-o", tmp_path / "a" / "b"), "there is no folder"), (("--report", tmp_path / "a" / "r.html"), "--report .* there is no folder"),
        (("-o", file), "it is no folder"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            execute(*arguments)
    with pytest.raises(InputError, match="there is no run 9"):
        execute("--run", "9", "-o", tmp_path / "pictures")
    assert sorted(tmp_path.iterdir()) == [file]
