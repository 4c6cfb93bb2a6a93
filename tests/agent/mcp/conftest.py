"""A user with a project, for tests of servers in sessions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.mcp.serving import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    yield made
    await made.close()
