"""The room of a step's outputs."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.estimate import estimate_message
from agent.context.guard import ToolBudget
from agent.messages import OutputStatus, Stored, ToolOutput, User
from agent.outputs import Kept, OutputRoom


def count(output: ToolOutput) -> int:
    return estimate_message(User((output,)))


class Shelf:
    """Keeps outputs, or nothing."""

    def __init__(self, how: str = "it is on the shelf") -> None:
        self.how = how
        self.kept: list[str] = []

    async def keep(self, output: ToolOutput) -> Kept:
        self.kept.append(output.text)
        return Kept(replace(output, stored=Stored(str(len(self.kept)), 0, 0)), self.how)


async def taken(room: OutputRoom, shelf: Shelf, outputs: list[ToolOutput]) -> list[ToolOutput]:
    return [await room.take(output, shelf.keep) for output in outputs]


@given(st.lists(st.text(max_size=3000), max_size=6), st.integers(0, 4000), st.booleans())
def test_outputs_take_no_more_than_there_is_and_none_is_lost(texts: list[str], limit: int, is_full: bool) -> None:
    outputs = [ToolOutput("c0", text) for text in texts]  # some servers use an id again
    room, shelf = OutputRoom(ToolBudget(limit, 0, exceeded=is_full), count), Shelf()
    shown = asyncio.run(taken(room, shelf, outputs))
    assert room.budget.reserved <= limit
    assert room.is_open == (not is_full and sum(map(count, outputs)) <= limit)
    for before, after in zip(outputs, shown, strict=True):
        if after != before:
            assert after.stored is not None
            assert shelf.kept[int(after.stored.digest) - 1] == before.text


async def test_room_is_taken_in_the_order_of_the_calls() -> None:
    small, large = ToolOutput("c1", "a" * 300), ToolOutput("c2", "b" * 9000)
    room = OutputRoom(ToolBudget(600, 0), count)
    first, cut, last = await taken(room, Shelf(), [small, large, replace(small, call_id="c3")])
    assert (first, room.is_open) == (small, False)
    assert (count(cut) <= 250, cut.text.startswith("bbb"), "; it is on the shelf …]" in cut.text) == (True, True, True)
    assert last == replace(small, call_id="c3")


async def test_an_output_that_cannot_be_kept_says_that_it_is_cut() -> None:
    shown = await OutputRoom(ToolBudget(200, 0), count).take(ToolOutput("c1", "b" * 9000), Shelf("").keep)
    assert "ask for less at a time to see it" in shown.text


@pytest.mark.parametrize("status", ["failed", "interrupted", "denied"])
async def test_an_output_keeps_its_status(status: OutputStatus) -> None:
    output = ToolOutput("c1", "b" * 9000, status)
    assert (await OutputRoom(ToolBudget(200, 0), count).take(output, Shelf().keep)).status == status
