"""What left the view, asked after and brought back by the user, in real sessions of a scripted model."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.compaction.bring_back import build_bring_back_note, cost_of_new_tokens
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import TurnFinished
from ebbtide.agent.events.view import PrefixDrifted
from ebbtide.agent.messages import Note, User
from ebbtide.agent.session import Session
from ebbtide.agent.view.provenance import Occurrence, Occurrences
from ebbtide.agent.window.measure import measure_budget
from ebbtide.tools.outputs.stored_content import InMemoryContent, StoredContent
from tests.kit.project import Project
from tests.kit.session import call, calls, events_of, first_turn

LINES = "".join(f"row {number}\n" for number in range(1, 400))


def brings(text: str) -> Note:
    return Note(f"[The user brings `r1` back into view:]\n{text}", kind="brought", name="r1")


READ = calls(call("read", path="rows.txt"))


async def opened(project: Project, *replies: dict[str, Any], window: int = 200_000) -> Session:
    """A session in which a model that gives these replies, and more, was asked to go."""
    (project.root / "rows.txt").write_text(LINES)
    session, _ = await first_turn(project.session(*replies, *[{"text": "done"}] * 5, mode="auto", window=window))
    return session


async def test_what_is_brought_back_stands_at_the_end_and_stays_there(project: Project) -> None:
    session = await opened(project, READ)
    before = session.history.messages
    priced = await session.bring_back("r1", is_dry_run=True)
    assert session.history.messages == before
    event = await session.bring_back("r1")
    assert event == priced
    assert event.cost == 0.0
    assert (event.ref, event.is_whole) == ("r1", True)
    lines = "".join(f"{number}\trow {number}\n" for number in range(1, 400)).rstrip()
    note = User((brings(lines),))
    assert session.history.messages == (*before, note)
    budget = measure_budget(session.history, session._ctx.window)
    assert (event.used, event.effective) == (budget.used, budget.effective_window)
    assert (
        0
        < event.tokens
        == event.used - measure_budget(replace(session.history, messages=before), session._ctx.window).used
    )
    assert not [event for event in await events_of(session, "go on") if isinstance(event, PrefixDrifted)]
    id, history = session.id, session.history
    await session.close()
    again = await project.session(resume=id)
    assert again.history.messages == history.messages
    assert note in again.history.messages


def test_it_costs_what_writing_it_to_the_cache_does() -> None:
    assert cost_of_new_tokens(6_000, 20_000, Prices(3.0, 15.0, 0.3, 3.75)) == pytest.approx(6_000 * 3.75 / 1_000_000)
    assert cost_of_new_tokens(6_000, 20_000, None) is None


async def test_why_says_what_is_in_view_and_what_was_never_said(project: Project) -> None:
    session = await opened(project, READ)
    assert await session.trace_text("row 399") == Occurrences(
        (Occurrence("r1", "visible", "Viewed rows.txt – 399 lines"),)
    )
    assert await session.trace_text("row 400") == Occurrences()


async def test_only_what_fits_comes_back(project: Project) -> None:
    session = await opened(project, READ, window=16_000)
    while (event := await session.bring_back("r1")).is_whole:
        pass
    last = session.history.messages[-1]
    assert isinstance(last, User)
    (note,) = last.parts
    assert isinstance(note, Note)
    assert note.text.endswith("bytes left out; `recall` shows them …]")
    assert 0 < event.tokens < 3000
    assert isinstance((await events_of(session, "go on"))[-1], TurnFinished)


BYTES = calls(call("bash", command="head -c 9000 /dev/zero"))


@pytest.mark.parametrize(
    ("did", "ref", "problem"),
    [
        (READ, "r9", "there is no `r9`"),
        (READ, "msg-00000000", "there is no message `msg-00000000`"),
        (READ, "sum-1", "there is no `sum-1`"),
        (READ, "nonsense", "`nonsense` is not a reference"),
        (READ, "ebb://a/b/r1", "there is no session `b` in project `a`: it was deleted"),
        (READ, "r1:L400", "`r1` has lines 1-399: 400 is beyond its end"),
        (BYTES, "r1", "`r1` is not text: let the model read it with `read_result`"),
    ],
    ids=["an output", "a message", "a summary", "no reference", "a session", "lines beyond the end", "what is no text"],
)
async def test_what_there_is_not_cannot_be_brought_back(
    project: Project, did: dict[str, Any], ref: str, problem: str
) -> None:
    session = await opened(project, did)
    before = session.history
    with pytest.raises(AgentError, match=problem):
        await session.bring_back(ref)
    assert session.history == before


def test_a_part_is_brought_back_by_lines_and_by_bytes() -> None:
    content = InMemoryContent(b"one\ntwo\nthree\n")
    assert build_bring_back_note(StoredContent("r1", content, line_range=(2, 2)), 100) == (brings("two\n"), True)
    assert build_bring_back_note(StoredContent("r1", content, byte_range=(4, 7)), 100) == (brings("two"), True)
    assert build_bring_back_note(StoredContent("r1", content), 5) == (
        brings("one\nt\n[… 9 bytes left out; `recall` shows them …]"),
        False,
    )


def test_a_picture_is_not_brought_back_as_text() -> None:
    with pytest.raises(AgentError, match="let the model read it"):
        build_bring_back_note(StoredContent("r1", InMemoryContent(b"png"), "image/png"), 100)
    with pytest.raises(AgentError, match="`r1:tool-2` is audio/wav: `/archive` says how to save it"):
        build_bring_back_note(StoredContent("r1:tool-2", InMemoryContent(b"RIFF"), "audio/wav"), 100)


@pytest.mark.parametrize(
    "written", ["r1:L50-51", " R1:l50-51", "`r1:L50-51`", "[recall:r1:L50-51]", 'ref_id="r1:L50-51"']
)
async def test_lines_are_brought_back_by_the_numbers_that_they_carry(project: Project, written: str) -> None:
    session = await opened(project, calls(call("read", path="rows.txt", offset=40)))
    event = await session.bring_back(written)
    assert (event.ref, event.is_whole) == ("r1", True)
    assert session.history.messages[-1] == User((brings("50\trow 50\n51\trow 51\n"),))


async def test_as_much_is_brought_back_as_the_estimator_says_that_half_of_the_room_holds(project: Project) -> None:
    """Digits and signs take far more than a token for three bytes."""
    (project.root / "signs.txt").write_text("".join(f"{number};" + "7,4|9:" * 12 + "\n" for number in range(500)))
    session = await opened(project, calls(call("read", path="signs.txt")), window=80_000)
    room = measure_budget(session.history, session._ctx.window).remaining
    event = await session.bring_back("r1")
    assert (event.is_whole, room // 4 < event.tokens <= room // 2) == (False, True)
