"""The room of a step's outputs."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.preflight import ToolBudget
from ebbtide.agent.calls.output_budget import SHORT_OUTPUT_TOKENS, ArchivedOutput, OutputBudget
from ebbtide.agent.messages import OutputStatus, StoredBlob, ToolOutput, User
from ebbtide.agent.tokens.estimate import estimate_message


def count(output: ToolOutput) -> int:
    return estimate_message(User((output,)))


class Shelf:
    """Keeps outputs, or nothing."""

    def __init__(self, how: str = "it is on the shelf") -> None:
        self.how = how
        self.stored: list[str] = []

    async def keep(self, output: ToolOutput) -> ArchivedOutput:
        self.stored.append(output.text)
        return ArchivedOutput(replace(output, stored=StoredBlob(str(len(self.stored)), 0, 0)), self.how)


async def shared(room: OutputBudget, listing: Shelf, outputs: list[ToolOutput]) -> tuple[ToolOutput, ...]:
    room.reserve(outputs)
    return await room.fit_outputs(outputs, [listing.keep] * len(outputs))


@given(
    st.lists(st.text(max_size=3000), max_size=6), st.integers(0, 4000), st.booleans(), st.none() | st.integers(0, 4000)
)
def test_outputs_take_no_more_than_there_is_and_none_is_lost(
    texts: list[str], limit: int, is_full: bool, spare: int | None
) -> None:
    outputs = [ToolOutput("c0", text) for text in texts]  # some servers use an id again
    budget = ToolBudget(limit, 0, is_exceeded=is_full)
    room, listing = OutputBudget(budget, count, count_freeable_tokens=None if spare is None else lambda: spare), Shelf()
    cut = asyncio.run(shared(room, listing, outputs))
    whole = sum(map(count, outputs))
    assert room.budget.reserved <= limit
    assert room.allows_calls == (spare is not None or (not is_full and whole <= limit))
    assert sum(map(count, cut)) <= max(limit if whole <= limit else limit // 2, spare or 0) + SHORT_OUTPUT_TOKENS * len(
        outputs
    )
    for before, after in zip(outputs, cut, strict=True):
        if after != before:
            assert after.stored is not None
            assert listing.stored[int(after.stored.digest) - 1] == before.text


async def test_small_outputs_stand_whole_and_large_ones_get_the_same_part() -> None:
    small, large = ToolOutput("c1", "a" * 300), ToolOutput("c2", "b" * 9000)
    room = OutputBudget(ToolBudget(500, 0), count, count_freeable_tokens=lambda: 1200)
    outputs = [large, small, replace(large, call_id="c3"), replace(small, call_id="c4")]
    first, one, second, other = await shared(room, Shelf(), outputs)
    assert ((one, other), room.allows_calls) == ((small, replace(small, call_id="c4")), True)
    assert replace(first, call_id="", stored=None) == replace(second, call_id="", stored=None)
    assert (300 < count(first) <= 500, first.text.startswith("bbb"), "; it is on the shelf …]" in first.text) == (
        (True, True, True)
    )


async def test_where_no_room_is_made_half_of_what_is_left_is_shared() -> None:
    room, large = OutputBudget(ToolBudget(600, 0), count), ToolOutput("c1", "b" * 9000)
    cut, other = await shared(room, Shelf(), [large, replace(large, call_id="c2")])
    assert (count(cut) <= 150, count(other) <= 150, room.allows_calls) == (True, True, False)


async def test_an_output_that_cannot_be_kept_says_that_it_is_cut() -> None:
    (cut,) = await shared(OutputBudget(ToolBudget(200, 0), count), Shelf(""), [ToolOutput("c1", "b" * 9000)])
    assert "ask for less at a time to see it" in cut.text


@pytest.mark.parametrize("status", ["failed", "interrupted", "denied"])
async def test_an_output_keeps_its_status(status: OutputStatus) -> None:
    output = ToolOutput("c1", "b" * 9000, status)
    (cut,) = await shared(OutputBudget(ToolBudget(200, 0), count), Shelf(), [output])
    assert cut.status == status
