"""The documentation says what the code says."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import stepwell

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


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "test" / "README.md", *(ROOT / "docs").rglob("*.md")]:
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
