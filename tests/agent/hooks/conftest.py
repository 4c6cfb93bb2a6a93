"""A project and a home whose hooks the test writes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.extension_project import HookProject


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[HookProject]:
    async with HookProject(tmp_path) as opened:
        yield opened
