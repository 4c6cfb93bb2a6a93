"""A project and a home whose extensions the test writes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.extension_project import ExtensionProject


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[ExtensionProject]:
    async with ExtensionProject(tmp_path) as opened:
        yield opened
