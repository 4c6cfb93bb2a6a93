"""A session written down and read back, on a real database."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.last_request import RequestRecord, changes_since, create_request_record
from ebbtide.agent.budget.prefix import create_fingerprint
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.budget.server_truncation import CountRecord
from ebbtide.agent.control_calls import TodoItem
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import ReplyFinished
from ebbtide.agent.messages import (
    Assistant,
    CarriedPart,
    Conversation,
    Image,
    Note,
    ShortenedPart,
    StoredBlob,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
)
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.records.call_progress import CALL_INTERRUPTED_TEXT
from ebbtide.agent.records.message_rows import decode_message, encode_message, session_title
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.rows import (
    decode_request_mark,
    decode_session_state,
    decode_snapshot,
    decode_summary_row,
    encode_snapshot,
    state_changes,
)
from ebbtide.agent.records.session_log import SessionLog
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.usage import SessionUsage
from ebbtide.store.session_rows import FactRow, MessageRow, SessionRow, SummaryRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.extent import Extent
from tests.kit.conversations import conversations, output_ids

ROW = SessionRow("aa11bb22cc33", "/p", "", "scripted/a", "ask", 1.0, 1.0)
ASKED = User((Text("fix it"),))
CALLED = Assistant((Text("I look."), ToolCall("c1", "read", {"path": "a"}, '{"path": "a"}')), "scripted/a")
OUTPUT = User((ToolOutput("c1", "content"),))


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncIterator[StoreThread]:
    opened = StoreThread(lambda: SessionStore(tmp_path / "s.db"))
    yield opened
    await opened.close()


@given(conversations())
def test_every_message_reads_back_as_it_was(conversation: Conversation) -> None:
    rows = [encode_message(message, position) for position, message in enumerate(conversation.messages)]
    assert tuple(decode_message(row) for row in rows) == conversation.messages


@given(conversations(), st.integers(0, 50))
def test_a_snapshot_names_the_messages_it_shows(conversation: Conversation, before: int) -> None:
    decoded = decode_snapshot(encode_snapshot(conversation, before + len(conversation.messages)))
    assert decoded == (before, Conversation((), conversation.summary, messages_before=before))


@given(conversations(), st.integers(0, 50), st.data())
def test_a_restored_view_is_sent_with_the_same_fingerprint(
    conversation: Conversation, before: int, data: st.DataObject
) -> None:
    ids = output_ids(conversation.messages)
    masked = frozenset(data.draw(st.sets(st.sampled_from(ids)))) if ids else frozenset()
    view = replace(conversation, masked=masked, outputs_before=before)
    sent = create_fingerprint("s", (), build_prompt(view, INSTRUCTIONS).messages, model="m")
    window = Window(9_000, 2_000, 500, sources=(("context_window", "command line"),)) if before else None
    mark = replace(
        create_request_record(sent, INSTRUCTIONS.sections),
        window=window,
        tool_tokens=700,
        held_back=(3, 900),
        scale=1.2,
    )
    mark = replace(
        mark,
        record=CountRecord(812.5, 7_200, (7_100, 7_200), ((7_200, 9_700),), ((7_200, 2_400, 2_100),), is_fresh=True),
    )
    rows = [encode_message(message, place) for place, message in enumerate(view.messages)]
    body = encode_snapshot(view, len(rows), mark)
    decoded = decode_snapshot(body)
    assert decoded is not None
    restored = replace(decoded[1], messages=tuple(decode_message(row) for row in rows))
    again = create_fingerprint("s", (), build_prompt(restored, INSTRUCTIONS).messages, model="m")
    assert (restored, again, decode_request_mark(body)) == (view, sent, mark)
    assert changes_since(mark, again, INSTRUCTIONS.sections) == ()


INSTRUCTIONS = Instructions("base", "2026-11-22", "AGENT.md says")

paths = st.sampled_from([Path("/a"), Path("/b"), Path("/c d"), Path("/caf\udce9"), Path('/"caf\udce9"')])
"""The last two are names whose bytes are no text."""
situations = st.builds(
    SessionState,
    st.lists(st.builds(TodoItem, st.text(), st.sampled_from(["pending", "doing", "done"])), max_size=3).map(tuple),
    st.text(),
    st.dictionaries(paths, st.sampled_from(["1", "2"])),
    st.dictionaries(st.sampled_from(["job-1", "job-2"]), st.text(min_size=1)),
)


@given(st.lists(situations, max_size=5))
def test_rows_follow_every_change_of_the_situation(changes: list[SessionState]) -> None:
    rows: dict[tuple[str, str], FactRow] = {}
    before = SessionState()
    for after in changes:
        facts, over = state_changes(before, after)
        for gone in over:
            del rows[gone]
        rows |= {(fact.kind, fact.key): fact for fact in facts}
        assert all((fact.key + fact.body).encode() for fact in facts)
        before = after
        assert decode_session_state(rows.values()) == after
    assert state_changes(before, before) == ((), ())


@given(conversations())
def test_a_view_that_is_restored_is_the_view_that_was_kept(conversation: Conversation) -> None:
    async def work() -> None:
        thread = StoreThread(lambda: SessionStore(":memory:"))
        store = await thread.open()
        recorder = Recorder(thread, store, ROW)
        for message in conversation.messages:
            await (
                recorder.record_user_message(message) if isinstance(message, User) else recorder.record_reply(message)
            )
        await recorder.record_snapshot(conversation, User(()), None)
        restored = await Recorder(thread, store, ROW, is_new=False).read_conversation()
        await thread.close()
        assert restored == conversation
        assert build_prompt(restored, Instructions("x")) == build_prompt(conversation, Instructions("x"))

    asyncio.run(work())


@pytest.mark.parametrize(
    "body", ["", "{}", "[]", "nonsense", '{"start": "x"}', '{"start":4,"summary":{},"anchor":null,"anchored":0}']
)
def test_a_snapshot_that_cannot_be_read_is_none(body: str) -> None:
    assert decode_snapshot(body) is None


@pytest.mark.parametrize(
    "body", ["", "{}", '{"parts": [{"type": "none"}]}', '{"parts": [{"type": "call"}], "model": ""}']
)
def test_a_message_that_cannot_be_read_is_named(body: str) -> None:
    with pytest.raises(StoreFailed, match="message 7 of the session cannot be read"):
        decode_message(MessageRow(7, "assistant", body))


async def test_a_session_resumes_from_its_last_snapshot(thread: StoreThread) -> None:
    store = await thread.open()
    recorder = Recorder(thread, store, ROW)
    await recorder.record_user_message(ASKED)
    await recorder.record_reply(CALLED)
    await recorder.record_snapshot(Conversation((ASKED, CALLED, OUTPUT)), OUTPUT, None)
    summary = Summary("r", "the user wants it fixed", "facts", ASKED)
    compacted = Conversation((CALLED, OUTPUT), summary, Usage(5, 6, 7, 8), 2, frozenset({"c1"}), 7, messages_before=1)
    recorder.queue_event_rows(ReplyFinished("scripted/a", "end", Usage(1, 2, 3, 4), 0.5))
    await recorder.record_snapshot(compacted, User(()), None)
    await recorder.end_turn("scripted/a", "auto")

    resumed = Recorder(thread, store, ROW, is_new=False)
    assert (await resumed.load(), resumed.events.total_usage) == (compacted, SessionUsage(Usage(1, 2, 3, 4), 0.5))
    row = store_row(await thread.run(store.session, ROW.id))
    assert (row.title, row.mode, row.messages) == ("fix it", "auto", 3)


async def test_a_view_without_messages_is_a_view(thread: StoreThread) -> None:
    store = await thread.open()
    recorder = Recorder(thread, store, ROW)
    await recorder.record_user_message(ASKED)
    view = Conversation((), Summary(summary="all of it"), messages_before=1)
    await recorder.record_snapshot(view, User(()), None)
    again = Recorder(thread, store, ROW, is_new=False)
    assert await again.read_conversation() == view
    assert again.problems == []


async def test_a_long_session_is_read_in_slices_between_which_reading_may_stop(
    thread: StoreThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.agent.records.session_log.MESSAGES_PER_READ", 2)
    store = await thread.open()
    messages = tuple(User((Text(f"message {number}"),)) for number in range(5))
    recorder, progress = Recorder(thread, store, ROW), list[tuple[int, int]]()
    for message in messages:
        await recorder.record_user_message(message)
    log = SessionLog(thread, store, ROW.id)
    log.on_progress = lambda read, count: progress.append((read, count))
    assert await log.load_messages(1) == (messages[1:], 5)
    assert progress == [(2, 4), (4, 4)]

    def stop(read: int, count: int) -> None:
        reading.cancel()

    log.on_progress = stop
    reading = asyncio.ensure_future(log.load_messages(0))
    with pytest.raises(asyncio.CancelledError):
        await reading
    log.on_progress = lambda read, count: None
    assert await log.load_messages(0) == (messages, 5)


async def test_calls_that_a_dead_process_left_open_are_answered_once(thread: StoreThread) -> None:
    store = await thread.open()
    recorder = Recorder(thread, store, ROW)
    await recorder.record_user_message(ASKED)
    await recorder.record_reply(CALLED)

    expected = Conversation((ASKED, CALLED, User((ToolOutput("c1", CALL_INTERRUPTED_TEXT, "interrupted"),))))
    for _ in range(2):
        assert await Recorder(thread, store, ROW, is_new=False).load() == expected


async def test_a_session_without_a_message_is_not_stored(thread: StoreThread) -> None:
    store = await thread.open()
    recorder = Recorder(thread, store, ROW)
    recorder.queue_event_rows(ReplyFinished("m", "end", Usage(1), None))
    await recorder.end_turn("m", "ask")
    assert await thread.run(store.session, ROW.id) is None


async def test_a_session_that_begins_with_a_note_is_called_after_what_is_said_then(thread: StoreThread) -> None:
    store = await thread.open()
    recorder = Recorder(thread, store, ROW)
    for message in (User((Note("to be remembered"),)), User((Text("mend it"),)), User((Text("and more"),))):
        await recorder.record_user_message(message)
    assert (recorder.title, store_row(await thread.run(store.session, ROW.id)).title) == ("mend it", "mend it")


def store_row(row: SessionRow | None) -> SessionRow:
    assert row is not None
    return row


def test_a_title_is_the_first_line_of_what_was_said() -> None:
    assert [session_title(text) for text in ("", "\n\n a \nb", "x" * 100)] == ["", "a", "x" * 79 + "…"]


def test_an_unknown_price_makes_the_whole_cost_unknown() -> None:
    assert SessionUsage().plus(Usage(1), 0.25).plus(Usage(2), None).plus(Usage(3), 1.0) == SessionUsage(Usage(6), None)


def test_a_snapshot_of_the_first_version_still_loads() -> None:
    old = '{"start":4,"summary":"what was before","anchor":null,"anchored":0}'
    assert decode_snapshot(old) == (4, Conversation((), Summary(summary="what was before"), messages_before=4))


def test_a_snapshot_without_what_came_later_still_loads_and_so_does_one_with_more() -> None:
    old = (
        '{"start":4,"summary":{"retain":"a","summary":"b","ledger":"c","request":[{"type":"text","text":"go"}]},'
        '"masked":["c1"],"outputs_before":2,"held":0,"pinned":["m1"],"retold":[["r1","line","[gone]"],["r2","preview",'
        '"p",1]],"anchor":{"input":7,"cache_read":0,"cache_write":0,"output":3},"anchored":2,"of_a_later_version":1}'
    )
    summary = Summary("a", "b", "c", User((Text("go"),)))
    retold = (ShortenedPart("r1", "line", "[gone]"), ShortenedPart("r2", "preview", "p", 1))
    view = Conversation((), summary, Usage(7, output=3), 2, frozenset({"c1"}), 2, 0, 4, frozenset({"m1"}), retold)
    assert decode_snapshot(old) == (4, view)


def test_a_last_request_without_what_came_later_still_loads() -> None:
    old = '{"sent":{"model":"m","settings":"s","tools":"t","system":"y","sections":{"base":"b"},"messages":"x"}}'
    assert decode_request_mark(old) == RequestRecord("m", "s", "t", "y", {"base": "b"}, "x")
    window = '{"size":9,"output":2,"buffer":1,"sources":[["size","default"]],"notices":["small"]}'
    with_window = old.replace('"messages":"x"', f'"messages":"x","window":{window},"held_back":[1,20]')
    shown = Window(9, 2, 1, sources=(("size", "default"),), notices=("small",))
    assert decode_request_mark(with_window) == RequestRecord(
        "m", "s", "t", "y", {"base": "b"}, "x", 0, shown, held_back=(1, 20)
    )
    assert decode_request_mark(with_window.replace('"size":9', '"size":-9')) is None


def test_a_summary_without_facts_still_loads_and_what_it_pins_is_texts_and_pictures() -> None:
    pin = '["r1","Ran: ls [recall:r9] – exit 0 [recall:r1]",[{"type":"text","text":"x"}]]'
    old = '{"retain":"a","summary":"b","ledger":"c","request":[],"kept":[%s]}' % pin  # noqa: UP031  # it holds braces
    pinned = (CarriedPart("r1", "Ran: ls [recall:r9] – exit 0", "r1", (Text("x"),)),)
    assert decode_summary_row(SummaryRow(1, 0, old)) == Summary("a", "b", "c", pinned=pinned)
    with pytest.raises(StoreFailed, match="summary 1 of the session cannot be read"):
        decode_summary_row(SummaryRow(1, 0, old.replace('"text","text"', '"note","text"')))


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ('{"type":"output","call_id":"c"}', ToolOutput("c", "")),
        ('{"type":"output","call_id":"c","text":"x","whole":"/p"}', ToolOutput("c", "x", whole="/p")),
        (
            '{"type":"output","call_id":"c","text":"x","status":"failed","images":[{"media_type":"image/png",'
            '"data":"eA=="},{"media_type":"image/png","digest":"d"}],"stored":{"digest":"s","size":3,"lines":1}}',
            ToolOutput(
                "c",
                "x",
                "failed",
                (Image("image/png", "eA=="), Image("image/png", "", "d")),
                None,
                StoredBlob("s", 3, 1),
            ),
        ),
        (
            '{"type":"output","call_id":"c","text":"x","extent":{"unit":"lines","shown":2},"edited":{"a":[1]}}',
            ToolOutput("c", "x", edited={"a": [1]}, extent=Extent("lines", 2)),
        ),
    ],
)
def test_an_output_without_what_came_later_still_loads(body: str, part: ToolOutput) -> None:
    assert decode_message(MessageRow(0, "user", f'{{"parts":[{body}]}}')) == User((part,))


@pytest.mark.parametrize(
    "part",
    [
        '{"type":"text","text":1}',
        '{"type":"output","call_id":"c","status":"lost"}',
        '{"type":"output","call_id":"c","stored":{"digest":"s","size":-1,"lines":1}}',
        '{"type":"output","call_id":"c","extent":{"unit":"miles","shown":2}}',
        '{"type":"output","call_id":"c","images":[{"data":"eA=="}]}',
        '{"type":"output","call_id":"c","of_a_later_version":1}',
        '{"type":"text","text":"x","native":[]}',
    ],
)
def test_a_part_that_holds_what_it_cannot_is_no_part(part: str) -> None:
    with pytest.raises(StoreFailed, match="message 0 of the session cannot be read"):
        decode_message(MessageRow(0, "user", f'{{"parts":[{part}]}}'))
