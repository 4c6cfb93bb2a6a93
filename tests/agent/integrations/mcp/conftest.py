"""A project with MCP servers, closed with the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.mcp_project import McpProject


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[McpProject]:
    async with McpProject(tmp_path) as opened:
        yield opened
