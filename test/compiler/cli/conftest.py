"""What the tests of the commands share."""

import pytest
from commands import Commands


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    """Calls the commands in this process."""
    return Commands(capsys)
