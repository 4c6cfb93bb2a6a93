"""Requests that fit, and what is made of the replies to them, in whole sessions with a scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.context.settings import Compacting
from agent.events import Noticed
from agent.providers.scripted import Scripted
from tests.agent.test_compaction import SMALL, Home, call, compactions, events_of


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    opened = Home(tmp_path)
    yield opened
    await opened.thread.close()


async def test_a_count_after_an_overflow_is_compared_with_the_request_that_was_sent_again(home: Home) -> None:
    (home.root / "a.txt").write_text("abcdefgh\n" * 4000)
    many = [call("read", path="a.txt") for _ in range(25)]
    provider = Scripted.of(
        {"calls": many}, {"calls": [call("todo", items=[])]}, {"error": "overflow"}, {"text": "fine"},
        context_window=1_000_000,
    )  # fmt: skip
    session = await home.open(provider, compacting=Compacting(SMALL, policy="fixed"))
    events = await events_of(session)
    assert compactions(events) == [("overflow", ("mask_all",))]
    assert [event for event in events if isinstance(event, Noticed)] == []
    assert session.history.anchored == len(session.history.messages)
    await session.close()
