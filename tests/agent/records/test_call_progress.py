"""How far calls have come, where it cannot be written down."""

from collections.abc import Mapping
from typing import Literal

import pytest

from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import CallState, ToolCall, ToolOutput
from ebbtide.agent.records.call_progress import CallProgress

CALLS = (ToolCall("a", "read", {}), ToolCall("b", "read", {}))
DONE = ToolOutput("a", "text")


class Database:
    """One that takes so many writes, then fails for this reason."""

    def __init__(self, reason: Literal["unreadable", "full"], takes: int = 0) -> None:
        self.reason, self.takes = reason, takes
        self.stored: list[Mapping[str, CallState]] = []

    async def keep(self, states: Mapping[str, CallState]) -> None:
        if len(self.stored) == self.takes:
            raise StoreFailed("it cannot be written", self.reason)
        self.stored.append(states)


async def test_where_there_is_no_table_for_them_calls_run_all_the_same() -> None:
    database = Database("unreadable")
    progress = CallProgress(database.keep)
    progress.begin_step(CALLS)
    await progress.record_start("a")
    await progress.record_output(DONE)
    assert database.stored == []


async def test_what_the_user_is_asked_about_is_written_down_or_not_asked() -> None:
    progress = CallProgress(Database("unreadable").keep)
    progress.begin_step(CALLS)
    with pytest.raises(StoreFailed):
        await progress.record_question("a")


async def test_a_call_does_not_go_on_when_an_earlier_state_of_its_step_is_written_down() -> None:
    database = Database("unreadable", takes=1)
    progress = CallProgress(database.keep)
    progress.begin_step(CALLS)
    await progress.record_start("a")
    with pytest.raises(StoreFailed):
        await progress.record_output(DONE)
    assert database.stored == [{"a": "begun", "b": "waiting"}]


async def test_a_full_disk_stops_them() -> None:
    progress = CallProgress(Database("full").keep)
    progress.begin_step(CALLS)
    with pytest.raises(StoreFailed):
        await progress.record_start("a")
