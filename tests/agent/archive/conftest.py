"""Sessions in a real database, for what looks them up again."""

from collections.abc import AsyncIterator
from math import inf
from pathlib import Path

import pytest

from tests.kit.archived_sessions import Sessions, opened


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    made = await opened(tmp_path)
    yield made
    await made.thread.close()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches index and scan everything, however slow the machine is."""
    for module in ("indexer", "library", "locate", "recall_search"):
        monkeypatch.setattr(f"ebbtide.agent.archive.{module}.INDEX_TIMEOUT_S", inf)
    monkeypatch.setattr("ebbtide.agent.archive.recall_search.MAX_SCAN_SECONDS", inf)
