"""The room of a step's outputs, with real files."""

import asyncio
import stat
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.estimate import estimate_message
from agent.context.guard import ToolBudget
from agent.messages import OutputStatus, ToolOutput, User
from agent.outputs import OutputRoom


def count(output: ToolOutput) -> int:
    return estimate_message(User((output,)))


async def taken(room: OutputRoom, outputs: list[ToolOutput]) -> list[ToolOutput]:
    return [await room.take(output) for output in outputs]


@given(st.lists(st.text(max_size=3000), max_size=6), st.integers(0, 4000), st.booleans())
def test_outputs_take_no_more_than_there_is_and_none_is_lost(texts: list[str], limit: int, is_full: bool) -> None:
    outputs = [ToolOutput("c0", text) for text in texts]  # some servers use an id again
    with TemporaryDirectory() as folder:
        room = OutputRoom(ToolBudget(limit, 0, exceeded=is_full), count, Path(folder) / "outputs")
        shown = asyncio.run(taken(room, outputs))
        budget = room.budget
        assert budget.reserved <= limit
        assert room.is_open == (not is_full and sum(map(count, outputs)) <= limit)
        for before, after in zip(outputs, shown, strict=True):
            if after != before:
                assert after.whole is not None
                kept = Path(after.whole)
                assert kept.read_bytes().decode("utf-8", "surrogatepass") == before.text
                assert stat.S_IMODE(kept.stat().st_mode) == 0o600


async def test_room_is_taken_in_the_order_of_the_calls(tmp_path: Path) -> None:
    small, large = ToolOutput("c1", "a" * 300), ToolOutput("c2", "b" * 9000)
    room = OutputRoom(ToolBudget(600, 0), count, tmp_path)
    first, cut, last = await taken(room, [small, large, replace(small, call_id="c3")])
    assert (first, room.is_open) == (small, False)
    assert (count(cut) <= 250, cut.text.startswith("bbb"), cut.whole) == (True, True, str(_only_file(tmp_path)))
    assert last == replace(small, call_id="c3")


def _only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


async def test_what_is_kept_already_is_not_written_again(tmp_path: Path) -> None:
    room = OutputRoom(ToolBudget(200, 0), count, tmp_path)
    shown = await room.take(ToolOutput("c1", "b" * 9000, whole="/logs/job-1.log"))
    assert (
        await asyncio.to_thread(lambda: list(tmp_path.iterdir())),
        "all of it is in /logs/job-1.log" in shown.text,
    ) == ([], True)


async def test_an_output_that_cannot_be_kept_says_that_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    room = OutputRoom(ToolBudget(200, 0), count, tmp_path / "file")
    shown = await room.take(ToolOutput("c1", "b" * 9000))
    assert (shown.whole, "ask for less at a time to see it" in shown.text) == (None, True)


@pytest.mark.parametrize("status", ["failed", "interrupted", "denied"])
async def test_an_output_keeps_its_status(tmp_path: Path, status: OutputStatus) -> None:
    output = ToolOutput("c1", "b" * 9000, status)
    assert (await OutputRoom(ToolBudget(200, 0), count, tmp_path).take(output)).status == status
