"""The documentation says what the code says."""

import argparse
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

from distributed.cli import dask_scheduler, dask_worker

import stepwell
from stepwell.cli import main, opt
from stepwell.passes.framework.registry import passes as ours
from stepwell.passes.framework.upstream import upstream_passes

ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_are_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "make_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def kinds(base: type[stepwell.StepwellError]) -> set[type[stepwell.StepwellError]]:
    """The class and all below it."""
    return {base}.union(*(kinds(below) for below in base.__subclasses__()))


def test_every_kind_of_error_has_its_section_with_a_sample_and_what_to_do() -> None:
    for module in pkgutil.walk_packages(stepwell.__path__, "stepwell."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for package in ("stepwell.dialects", "stepwell.passes"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    own = {c for c in kinds(stepwell.StepwellError) if c.__module__.startswith("stepwell.")}
    sections = re.split(r"^## ", (ROOT / "docs" / "errors.md").read_text(), flags=re.MULTILINE)[1:]
    named = {section[:5]: section.partition("`")[2].partition("`")[0] for section in sections}
    assert named == {c.code: c.__name__ for c in own if "code" in vars(c)}
    assert {c.code for c in own} <= set(named)
    assert all(getattr(stepwell, name) in own for name in named.values()), "each can be caught by its name in the package"
    for section in sections:
        code = section[:5]
        assert f"- Sample: `{code} " in section, code
        assert "- Next: " in section, code


def anchors(page: Path) -> set[str]:
    """What its headings are called in links: as GitHub makes it of them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGES = [ROOT / "README.md", ROOT / "test" / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def code_of(page: Path) -> list[str]:
    """The lines of code of a page: of its blocks, and in its text."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [*(line for block in blocks for line in block.splitlines()), *(span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", rest))]


def options_of_commands() -> dict[str, set[str]]:
    """The options of each command of `stepwell`, of stepwell-opt, whose passes are options too, and of dask."""
    found = {}
    for name in main.COMMANDS:
        (commands,) = (action for action in main.make_parser([name])._actions if isinstance(action, argparse._SubParsersAction))
        parser = commands.choices[name]
        actions = [inner for action in parser._actions if isinstance(action, argparse._SubParsersAction) for inner in action.choices.values()]
        found[f"stepwell {name}"] = set().union(*(each._option_string_actions for each in (parser, *actions)))
    passes = {f"--{name}" for name in {**ours(), **upstream_passes()}}
    for name, command in (("scheduler", dask_scheduler), ("worker", dask_worker)):
        found[f"dask {name}"] = {option for given in command.main.params for option in (*given.opts, *given.secondary_opts)}
    return {**found, "stepwell-opt": passes | set(opt.make_parser()._option_string_actions), "stepwell": {"--help", "--version"}}


def test_commands_and_flags_in_pages_exist() -> None:
    """Of our commands each with its own flags; else of some command or script."""
    known = options_of_commands()
    sources = [path for folder in ("scripts", "examples") for path in (ROOT / folder).rglob("*") if path.suffix in ("", ".py") and path.is_file()]
    text = "".join(path.read_text() for path in [*sources, ROOT / "test" / "conftest.py"])
    anywhere = set().union(*known.values(), re.findall(r"--[a-z][\w-]*", text))
    wrong = []
    for page in PAGES:
        for line in code_of(page):
            command = re.match(r"(?:\$ )?(?:\.venv/bin/)?(stepwell-opt|dask [a-z]+|stepwell(?: [a-z]+)?)(?= |$)(.*)", line)
            if command is not None and command[1] not in known:
                wrong.append(f"{page.name}: there is no {command[1]}: {line}")
                continue
            own = anywhere if command is None else known[command[1]]
            given = line if command is None else re.split(r" [#|] |\|\|", command[2])[0]
            # Within quotes there are other texts.
            flags = re.findall(r"(?<![\w-])--[a-z][\w-]*", re.sub(r"'[^']*'", "", given))
            wrong += [f"{page.name}: there is no {flag}: {line}" for flag in flags if flag not in own]
    assert wrong == []


def test_files_that_pages_name_are_there() -> None:
    wrong = []
    for page in PAGES:
        for line in code_of(page):
            read = re.sub(r" -o \S+", "", line)  # `-o` names what a command writes
            for path in re.findall(r"(?<![\w/.-])((?:compiler|dialects|passes|scripts|test|docs|examples)/[\w/.*-]+)", read):
                if not any(ROOT.glob(path.rstrip("./"))):
                    wrong.append(f"{page.name}: {path}")
        wrong += [f"{page.name}: {name}" for name in re.findall(r'\(README, "([^"]*)"', page.read_text())]  # a link is looked at, this is not
    assert wrong == []


def test_the_first_page_says_where_commands_are_before_it_calls_them() -> None:
    """And what installs them, and the tools of the tests."""
    page = (ROOT / "README.md").read_text()
    assert page.index("scripts/demo ") < page.index("export PATH=") < page.index("$ stepwell ")
    assert page.index("scripts/test ") < page.index(".venv/bin/lit ")


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            there = page.parent / link if link else page
            assert there.exists(), f"{page.relative_to(ROOT)} links to {link}, which is not there"
            assert not anchor or anchor in anchors(there), f"{page.relative_to(ROOT)} links to {link}#{anchor}, where there is no such heading"


def test_architecture_names_every_folder_of_code() -> None:
    """And no other: folders whose files are all below them, as those of a step, stand in the row of the step."""
    packages = {path.parent.relative_to(ROOT) for layer in ("dialects", "passes", "compiler") for path in (ROOT / layer).glob("*/__init__.py")}
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## Folders")[2].partition("## What to copy")[0]
    rows = set(re.findall(r"^\| `([\w/]+)`(?: itself)? \|", section, flags=re.MULTILINE))
    assert rows == {*map(str, packages), "compiler/"}


def test_what_runs_at_night_alone_is_named() -> None:
    """A file that leaves cases to the night says so where the page tells what protects their property by day."""
    page = (ROOT / "docs" / "testing.md").read_text().partition("### What runs at night alone")[2].partition("\n## ")[0]
    at_night = [
        file.stem for file in sorted((ROOT / "test").rglob("test_*.py"))
        if "support" not in file.parts and re.search(r"mark\.nightly|^from covering import", file.read_text(), flags=re.MULTILINE)
    ]  # fmt: skip
    assert len(at_night) > 40
    assert [name for name in at_night if not re.search(rf"\b{name}\b", page)] == []
