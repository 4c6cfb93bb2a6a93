"""Sessions in a real database, for what looks them up again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.archived_sessions import Sessions, opened


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    made = await opened(tmp_path)
    yield made
    await made.thread.close()
