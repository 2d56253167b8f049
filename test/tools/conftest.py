"""What the tests of the commands share."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from commands import Commands


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    """Calls the commands in this process."""
    return Commands(capsys)
