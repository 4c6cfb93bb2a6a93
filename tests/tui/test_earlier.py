"""What was said before a compaction is on the screen of a session that goes on: read when it is wanted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Assistant, Conversation, Image, Message, Summary, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.damage import RestoredMessages
from ebbtide.tui.app import EbbApp
from ebbtide.tui.plain.command_context import older_messages_note
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.session_opener import MESSAGES_PER_PAGE
from ebbtide.tui.view.blocks import AnswerText, Call, Notice, OlderMessages, SummaryBlock, UserText
from ebbtide.tui.view.resumed import build_resumed_view, newest_messages, without_orphaned_outputs
from ebbtide.tui.widgets.row_stack import RowStack
from tests.kit.app_pilot import Terminal
from tests.kit.fake_sessions import FakeSession, FakeSessions, conversation

ALL = conversation(350).messages
GONE = 650
"""Messages that a summary stands for."""
LEFT = Conversation(ALL[GONE:], Summary(summary="The parser was looked at."), messages_before=GONE)


@dataclass
class OpenedSessions(FakeSessions):
    """Says how much of what was said was read at once."""

    read: list[tuple[int, int]] = field(default_factory=list)
    fails: bool = False
    problem: str = ""

    async def messages_before(self, prefix: str, position: int, limit: int, /) -> RestoredMessages:
        self.read.append((position, limit))
        if self.fails:
            raise StoreFailed("cannot read", "disk")
        return replace(await super().messages_before(prefix, position, limit), problem=self.problem)


@asynccontextmanager
async def compacted(
    history: Conversation = LEFT, messages: tuple[Message, ...] = ALL
) -> AsyncIterator[tuple[Terminal, OpenedSessions]]:
    opener = OpenedSessions([FakeSession(id="s1", history=history)], said_before={"s1": messages})
    app = EbbApp(opener, guard_s=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        t = Terminal(app, pilot, opener)
        await t.rests()
        yield t, opener


def is_left(t: Terminal, messages: int) -> bool:
    return t.app.controller.view.older_message_count == messages


def questions(t: Terminal) -> list[str]:
    return [block.text.split(":")[0] for block in t.app.controller.view.blocks if isinstance(block, UserText)]


async def test_scrolling_up_reads_it_in_pages_and_keeps_what_is_on_the_screen() -> None:
    async with compacted() as (t, opener):
        assert opener.read == []  # nothing is read before it is wanted
        t.transcript.focus()
        await t.press("ctrl+home", until=lambda: t.app.controller.view.older_message_count == GONE - MESSAGES_PER_PAGE)
        await t.shows("earlier conversation, summarised")
        assert questions(t)[0] == f"question {(GONE - MESSAGES_PER_PAGE) // 2}"
        await t.press("pageup", shows=f"Answer {GONE // 2 - 2}.")
        for left in (GONE - 2 * MESSAGES_PER_PAGE, GONE - 3 * MESSAGES_PER_PAGE, 0):
            await t.press("ctrl+home", until=partial(is_left, t, left))
        assert questions(t) == [f"question {number}" for number in range(350)]
        await t.press("ctrl+home", shows="question 0: please")
        assert opener.read == [
            (GONE, MESSAGES_PER_PAGE),
            (GONE - MESSAGES_PER_PAGE, MESSAGES_PER_PAGE),
            (GONE - 2 * MESSAGES_PER_PAGE, MESSAGES_PER_PAGE),
            (GONE - 3 * MESSAGES_PER_PAGE, MESSAGES_PER_PAGE),
        ]


@pytest.mark.parametrize("key", ["pageup", "home", "ctrl+home"])
async def test_a_key_in_the_prompt_reads_it_where_there_is_no_way_further_up(key: str) -> None:
    last = Conversation(ALL[-2:], LEFT.summary, messages_before=len(ALL) - 2)
    async with compacted(last) as (t, _):
        assert t.app.focused is t.prompt
        await t.pilot.press(key)
        await t.until(lambda: is_left(t, len(ALL) - 2 - MESSAGES_PER_PAGE))


async def test_the_rows_above_open_it() -> None:
    async with compacted() as (t, _):
        t.app.screen.set_focus(t.transcript)
        view = t.app.controller.view
        assert view.past_blocks[:2] == (OlderMessages(GONE), SummaryBlock(LEFT.summary.text))
        t.transcript._toggle_row(1)
        await t.until(lambda: t.app.controller.view.older_message_count == GONE - MESSAGES_PER_PAGE)
        assert t.transcript.expanded_blocks == (SummaryBlock(LEFT.summary.text),)  # what was opened stays open
        t.transcript._toggle_row(0)
        await t.until(lambda: t.app.controller.view.older_message_count == GONE - 2 * MESSAGES_PER_PAGE)


async def test_a_search_finds_it() -> None:
    async with compacted() as (t, opener):
        await t.press("ctrl+f", *"question", "space", *"17:", shows="question 17: please look")
        assert opener.read == [(GONE, GONE)]
        await t.press("escape", shows="Answer 349.")


async def test_what_cannot_be_read_is_told_and_may_be_tried_again() -> None:
    async with compacted() as (t, opener):
        opener.fails = True
        await t.press("ctrl+home", until=lambda: opener.read)
        await t.rests()
        assert t.app.controller.view.past_blocks[0] == OlderMessages(GONE, "cannot read")
        await t.shows("650 earlier messages  cannot read")
        opener.fails = False
        await t.press("ctrl+home", until=lambda: t.app.controller.view.older_message_count == GONE - MESSAGES_PER_PAGE)


async def test_what_is_damaged_is_told() -> None:
    async with compacted() as (t, opener):
        opener.problem = "message 449 of the session cannot be read; the others are shown"
        await t.press("ctrl+home", until=lambda: is_left(t, GONE - MESSAGES_PER_PAGE))
        assert t.app.controller.view.past_blocks[1] == Notice(opener.problem)


async def test_all_of_it_is_read_behind_a_page_that_is_being_read() -> None:
    async with compacted() as (t, opener):
        await asyncio.gather(
            t.app.controller.load_older_messages(),
            t.app.controller.load_older_messages(),
            t.app.controller.load_older_messages(load_all=True),
        )
        assert opener.read == [(GONE, MESSAGES_PER_PAGE), (GONE - MESSAGES_PER_PAGE, GONE - MESSAGES_PER_PAGE)]
        assert questions(t) == [f"question {number}" for number in range(350)]


async def test_rows_keep_their_blocks_when_some_are_not_drawn_yet() -> None:
    past = tuple(UserText(f"said {number}") for number in range(4))
    stack = RowStack()
    stack.resize(60)
    stack.set_blocks((OlderMessages(9), *past), ())
    rows = stack.rows[1:]
    rows[2].is_expanded = True
    before, turn = (UserText("before this"), UserText("and this")), (UserText("new"), AnswerText("newer"))
    stack.prepend_blocks((OlderMessages(7), *before, *past), turn, 2)
    assert [row.block for row in stack.rows] == [OlderMessages(7), *before, *past, *turn]
    assert stack.rows[3:7] == rows
    assert [row.is_expanded for row in stack.rows] == [False] * 5 + [True] + [False] * 3


CALLED = Assistant((ToolCall("c1", "read", {"path": "a.py"}),), "scripted/demo")
OUTPUT = User((ToolOutput("c1", "one\n", "done"),))


def test_a_page_begins_with_no_output_whose_call_is_on_the_page_before() -> None:
    assert without_orphaned_outputs((OUTPUT, CALLED, OUTPUT)) == (CALLED, OUTPUT)
    assert without_orphaned_outputs((CALLED, OUTPUT)) == (CALLED, OUTPUT)
    assert without_orphaned_outputs(()) == ()
    long = Conversation((CALLED, OUTPUT, CALLED, OUTPUT), Summary(summary="The parser."), messages_before=7)
    assert newest_messages(long, 4) is long
    assert newest_messages(long, 3) == Conversation((CALLED, OUTPUT), messages_before=9)


async def test_a_step_across_the_edge_of_a_page_is_shown_whole() -> None:
    edge = (User((Text("look"),)), *ALL[:MESSAGES_PER_PAGE])
    messages = (
        *edge[:50],
        CALLED,
        OUTPUT,
        *ALL[: MESSAGES_PER_PAGE - 1],
        User((Text("and this"), Image("image/png", "aGk="))),
    )
    history = Conversation(ALL[:2], Summary(ledger="Done."), messages_before=len(messages))
    async with compacted(history, (*messages, *ALL[:2])) as (t, _):
        await t.app.controller.load_older_messages()
        assert t.app.controller.view.older_message_count == len(messages) - MESSAGES_PER_PAGE + (
            messages[-MESSAGES_PER_PAGE] == OUTPUT
        )
        await t.app.controller.load_older_messages()
        calls = [block.status for block in t.app.controller.view.blocks if isinstance(block, Call)]
        assert (calls, t.app.controller.view.older_message_count) == (["done"], 0)
        assert UserText("and this\n[image, image/png]") in t.app.controller.view.blocks


async def test_in_lines_it_is_said_how_to_see_it_and_printed() -> None:
    assert older_messages_note(build_resumed_view(LEFT)) == ("650 earlier messages before this: `/print` prints them.",)
    assert older_messages_note(build_resumed_view(LEFT).with_read_problem("no disk")) == (
        "650 earlier messages before this: no disk",
    )
    assert older_messages_note(build_resumed_view(replace(LEFT, messages_before=0))) == ()


@pytest.mark.parametrize("before", [1, 2, MESSAGES_PER_PAGE, MESSAGES_PER_PAGE + 1])
async def test_pages_end_at_the_beginning(before: int) -> None:
    history = Conversation(ALL[before:], messages_before=before)
    controller = SessionController(
        OpenedSessions([FakeSession(id="s1", history=history)], said_before={"s1": ALL}), lambda: None
    )
    await controller.open_first_session("s1", None)
    while controller.view.older_message_count:
        await controller.load_older_messages()
    assert controller.view.past_blocks == build_resumed_view(Conversation(ALL)).past_blocks


def test_the_sources_of_an_answer_are_listed_again() -> None:
    cited = Assistant((Text("It is [1].", {"citations": ["https://example.org/"]}),), "m")
    view = build_resumed_view(Conversation((User((Text("what?"),)), cited)))
    assert view.past_blocks == (
        UserText("what?"), AnswerText("It is [1]."), Notice("Sources:\n[1] https://example.org/"),
    )  # fmt: skip
