"""A real workspace for every test, closed at its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    root = (tmp_path / "project").resolve()
    root.mkdir()
    made = Workspace(root, tmp_path / "outputs")
    yield made
    await made.jobs.close()
