"""The documentation says what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import stepwell
from stepwell.dialects import errors

ROOT = Path(__file__).resolve().parent.parent


def test_generated_pages_are_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "make_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_error_code_has_its_section_with_its_class():
    sections = dict(re.findall(r"^## (SW\d+)\n\n`(\w+)`", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))
    classes = {c.code: c.__name__ for c in vars(errors).values() if isinstance(c, type) and issubclass(c, stepwell.StepwellError)}
    assert sections == classes


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}, which is not there"
