"""Sessions made of real parts: real tools, a real database, a scripted model."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.agent.events.permissions import CallDenied, Decision, PermissionAnswered, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import (
    ContextMeasured,
    Event,
    ReplyFinished,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnFinished,
)
from ebbtide.agent.events.view import CacheBroken, CompactionFailed, CompactionStarted, ContextCompacted, PrefixDrifted
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings
from ebbtide.agent.input.memory import announce_memory
from ebbtide.agent.messages import Assistant, Note, Text, ToolOutput, User
from ebbtide.agent.prompt.reminder_notes import ReminderFacts
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records import write_queue
from ebbtide.agent.session import Session
from ebbtide.store.errors import StoreError
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Arguments, Effect, Result, Workspace
from tests.kit.files import write_files
from tests.kit.polling import is_alive, soon, until
from tests.kit.session import ASKED, Home, call, decides, events_of, first_turn, notes_of, outputs_of, turn_in_which


class Broken:
    """A tool with a bug."""

    name = "broken"
    description = "Fails."
    schema: Mapping[str, object] = {"type": "object", "properties": {}}
    effect: Effect = "none"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        raise ZeroDivisionError("a bug")


async def test_a_turn_streams_runs_calls_and_answers(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "I write it.", "calls": [call("write", path="a.txt", content="hi\n")]}, {"text": "Done now."}
    )
    session, events = await first_turn(home.attended(provider), "write a.txt")
    assert [e for e in events if isinstance(e, ToolStarted | ToolFinished | TurnFinished | StepStarted)] == [
        StepStarted(1),
        ToolStarted("call-1-1", "write", {"path": "a.txt", "content": "hi\n"}),
        ToolFinished("call-1-1", "write", "done", outputs_of(session)[0].text, ("a.txt",)),
        StepStarted(2),
        TurnFinished("answered", "Done now."),
    ]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "I write it.Done now."
    assert (home.root / "a.txt").read_text() == "hi\n"


async def test_reads_run_side_by_side_and_answers_keep_the_order_of_the_calls(home: Home) -> None:
    write_files(home.root, {"a": "1", "b": "2"})
    calls = [
        call("read", path="a"),
        call("read", path="b"),
        call("write", path="c", content=""),
        call("read", path="a"),
    ]
    session, events = await first_turn(home.attended(ScriptedProvider.from_replies({"calls": calls}, {"text": "ok"})))
    order = [(type(e), e.name) for e in events if isinstance(e, ToolStarted | ToolFinished)]
    assert order[:2] == [(ToolStarted, "read")] * 2
    assert [o.call_id.split("-")[1] for o in outputs_of(session)] == ["1", "2", "3", "4"]
    assert [o.status for o in outputs_of(session)] == ["done"] * 4


@pytest.mark.parametrize("depth", [300, 900])
async def test_arguments_that_nest_too_deep_are_answered_and_not_run(home: Home, depth: int) -> None:
    deep = {"name": "todo", "arguments": '{"items": ' + "[" * depth + "]" * depth + "}"}
    session = await home.attended(ScriptedProvider.from_replies({"calls": [deep]}, {"text": "ok"}))
    assert (await events_of(session))[-1] == TurnFinished("answered", "ok")
    assert [o.status for o in outputs_of(session)] == ["failed"]


async def test_calls_with_the_same_id_are_told_apart(home: Home) -> None:
    twice = [{**call("todo", items=[]), "id": "c"}, {**call("nope"), "id": "c"}]
    session, _ = await first_turn(home.attended(ScriptedProvider.from_replies({"calls": twice}, {"text": "ok"})))
    assert [(o.call_id, o.status) for o in outputs_of(session)] == [("c", "done"), ("c-2", "failed")]


async def test_a_permission_is_asked_with_a_diff_and_the_answer_counts(home: Home) -> None:
    (home.root / "a.txt").write_text("old\n")
    edit = call("edit", path="a.txt", old="old", new="new")
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("read", path="a.txt")]}, {"calls": [edit]}, {"text": "ok"}),
        mode="ask",
    )

    def answer(asked: PermissionAsked) -> None:
        assert ["-old" in asked.preview, "+new" in asked.preview] == [True, True]
        assert (home.root / "a.txt").read_text() == "old\n"
        session.answer(asked.id, Decision("allow"))
        session.answer(asked.id, Decision("deny"))  # a second answer comes too late

    events = await turn_in_which(session, PermissionAsked, answer)
    assert (home.root / "a.txt").read_text() == "new\n"
    assert [event.verdict for event in events if isinstance(event, PermissionAnswered)] == ["allow"]


async def test_a_folder_that_becomes_a_link_while_the_question_is_open_is_not_followed(home: Home) -> None:
    outside = home.root.parent / "outside"
    outside.mkdir()
    (home.root / "sub").mkdir()
    write = call("write", path="sub/a.txt", content="x")
    session = await home.attended(ScriptedProvider.from_replies({"calls": [write]}, {"text": "ok"}), mode="ask")

    def link_and_allow(asked: PermissionAsked) -> None:
        (home.root / "sub").rmdir()
        (home.root / "sub").symlink_to(outside)
        session.answer(asked.id, Decision("allow"))

    await turn_in_which(session, PermissionAsked, link_and_allow)
    assert [o.status for o in outputs_of(session)] == ["failed"]
    assert list(outside.iterdir()) == []


async def test_a_rule_that_the_user_keeps_answers_the_next_question(home: Home) -> None:
    runs = [{"calls": [call("bash", command="touch a")]} for _ in range(2)]
    session = await home.attended(ScriptedProvider.from_replies(*runs, {"text": "ok"}), mode="ask")
    events = await turn_in_which(session, PermissionAsked, decides(session, Decision("allow", rule="bash(=touch a)")))
    assert len([event for event in events if isinstance(event, PermissionAsked)]) == 1
    assert [o.status for o in outputs_of(session)] == ["done", "done"]


async def test_a_denial_carries_the_user_s_word_to_the_model(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("bash", command="touch a")]}, {"text": "ok"}), mode="ask"
    )
    await turn_in_which(session, PermissionAsked, decides(session, Decision("deny", note="use glob")))
    (output,) = outputs_of(session)
    assert (output.status, "use glob" in output.text) == ("denied", True)


async def test_the_model_can_ask_the_user(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("ask_user", question="Which?")]}, {"text": "ok"})
    )
    await turn_in_which(session, QuestionAsked, lambda asked: session.answer(asked.id, "the second"))
    assert "the second" in outputs_of(session)[0].text


async def test_with_nobody_there_a_question_fails_and_a_permission_is_denied(home: Home) -> None:
    calls = [call("ask_user", question="Which?"), call("bash", command="touch a")]
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": calls}, {"text": "ok"}), mode="ask", interactive=False
    )
    events = await events_of(session)
    assert [o.status for o in outputs_of(session)] == ["failed", "denied"]
    assert [e.name for e in events if isinstance(e, CallDenied)] == ["bash"]


async def test_an_interrupted_turn_leaves_every_call_answered(home: Home) -> None:
    calls = [call("bash", command="echo begun; sleep 60"), call("bash", command="touch never")]
    session = await home.attended(ScriptedProvider.from_replies({"calls": calls}, {"text": "and now?"}))
    events = await turn_in_which(session, ToolProgress, lambda _: session.interrupt())
    assert events[-1] == TurnFinished("interrupted", "")
    assert [o.status for o in outputs_of(session)] == ["interrupted", "cancelled"]
    assert not (home.root / "never").exists()
    assert (await events_of(session, "go on"))[-1] == TurnFinished("answered", "and now?")


async def test_an_interrupted_answer_keeps_what_was_said(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"text": "one two three", "pause_between": 60}, {"text": "ok"})
    )
    await turn_in_which(session, TextDelta, lambda _: session.interrupt())
    assert session.history.messages[-1] == Assistant((Text("one "),), "scripted/script")
    assert (await events_of(session))[-1] == TurnFinished("answered", "ok")


async def test_a_question_that_is_interrupted_ends_the_turn(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("bash", command="touch a")]}), mode="ask"
    )
    events = await turn_in_which(session, PermissionAsked, lambda _: session.interrupt())
    assert events[-1] == TurnFinished("interrupted", "")
    assert [o.status for o in outputs_of(session)] == ["cancelled"]


async def test_leaving_the_loop_early_ends_the_turn(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("bash", command="sleep 60")]}, {"text": "ok"})
    )
    events = session.send("go")
    async for event in events:
        if isinstance(event, ToolStarted):
            break
    await events.aclose()
    assert [o.status for o in outputs_of(session)] == ["interrupted"]
    assert (await events_of(session))[-1] == TurnFinished("answered", "ok")


async def test_an_error_of_the_provider_ends_the_turn_and_loses_nothing(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"error": "auth"}, {"text": "back again"})
    session = await home.attended(provider)
    failed = (await events_of(session, "first"))[-1]
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.exit_code) == ("auth", 4)
    assert (await events_of(session, "second"))[-1] == TurnFinished("answered", "back again")
    assert [part.text for part in provider.requests[-1].messages[0].parts if isinstance(part, Text)] == [
        "first",
        "second",
    ]


async def test_an_error_of_the_provider_is_told_also_when_the_database_fails_after_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: SessionStore, session: str) -> None:
        raise StoreError("full", "the disk is full")

    session = await home.attended(ScriptedProvider.from_replies({"error": "auth"}, {"text": "back again"}))
    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "end_turn", full)
        failed = (await events_of(session))[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.code == "auth"
    assert (await events_of(session))[-1] == TurnFinished("answered", "back again")


async def test_a_bug_in_a_tool_is_a_traceback_and_the_session_goes_on_as_after_a_crash(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies({"calls": [call("broken")]}, {"text": "ok"}), Broken())
    with pytest.raises(ZeroDivisionError):
        await events_of(session)
    assert (await events_of(session, "again"))[-1] == TurnFinished("answered", "ok")
    assert [o.status for o in outputs_of(session)] == ["interrupted"]


async def test_a_resumed_session_shows_the_model_what_it_saw(home: Home) -> None:
    first, _ = await first_turn(
        home.attended(ScriptedProvider.from_replies({"calls": [call("todo", items=[])]}, {"text": "one"}))
    )
    await first.close()
    provider = ScriptedProvider.from_replies({"text": "two"})
    again = await home.attended(provider, resume=True)
    assert again.history == first.history
    assert (again.usage.usage.total, again.cost) == (first.usage.usage.total, 0.0)
    await events_of(again, "go on")
    assert provider.requests[0].messages[: len(first.history.messages)] == first.history.messages


async def test_a_full_window_is_compacted_before_the_request(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "x" * 12_000},
        {"when": ASKED, "text": "<summary>they talked about x</summary>"},
        {"text": "fine"},
        context_window=9100,
    )
    session, _ = await first_turn(home.attended(provider), "tell me about x")
    events = await events_of(session, "and now?")
    (compacted,) = [e for e in events if isinstance(e, ContextCompacted)]
    assert compacted.after_tokens < compacted.before_tokens
    assert compacted.strategies == ("summary",)
    assert [e.purpose for e in events if isinstance(e, ReplyFinished)] == ["summary", "step"]
    assert events[-1] == TurnFinished("answered", "fine")
    assert "they talked about x" in session.history.summary.text
    assert session.history.messages[0] == User((Text("and now?"),))
    await session.close()

    again = await home.attended(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert again.history == session.history


@pytest.mark.parametrize("reply", [{"text": "no element"}, {"text": "<summary>cut"}, {"error": "auth"}])
async def test_a_summary_that_cannot_be_used_is_replaced_by_a_list(home: Home, reply: dict[str, Any]) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "y" * 12_000},
        {"when": ASKED, **reply},
        {"text": "fine"},
        context_window=8400,
    )
    session, _ = await first_turn(home.attended(provider), "never touch b.py")
    events = await events_of(session, "go on")
    assert [e.strategies for e in events if isinstance(e, ContextCompacted)] == [("ledger",)]
    assert any(isinstance(e, CompactionFailed) for e in events)
    assert "never touch b.py" in session.history.summary.text
    assert events[-1] == TurnFinished("answered", "fine")


async def test_a_conversation_that_overflows_the_window_is_not_sent_for_its_summary(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"text": "first"}, {"text": "not a summary"}, context_window=8100)
    session, _ = await first_turn(home.attended(provider), "one")
    await session._ctx.records.recorder.record_user_message(
        User((Text("word " * 10_000),))
    )  # as an earlier version left it
    session._needs_reload = True
    assert (await events_of(session, "two"))[-1] == TurnFinished("answered", "not a summary")
    assert len(provider.requests) == 2


async def test_retries_of_a_summary_are_shown(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "x" * 12_000},
        {"when": ASKED, "error": "overloaded"},
        {"when": ASKED, "text": "<summary>they talked about x</summary>"},
        {"text": "fine"},
        context_window=9100,
    )
    session, _ = await first_turn(home.attended(provider), "tell me about x")
    events = await events_of(session, "and now?")
    assert [e.attempt for e in events if isinstance(e, RetryScheduled)] == [2]
    assert events[-1] == TurnFinished("answered", "fine")


async def test_what_cannot_fit_ends_the_turn_with_exit_code_7(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies(context_window=2100))
    failed = (await events_of(session, "word " * 10_000))[-1]
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.exit_code) == ("context", 7)


async def test_interrupting_a_compaction_ends_the_turn_as_interrupted(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "x" * 12_000},
        {"when": ASKED, "text": "<summary>x</summary>", "pause": 60},
        context_window=8100,
    )
    session = await home.attended(provider, interactive=False)  # nothing is compacted between the turns
    await events_of(session, "tell me about x")
    before = session.history
    turn = asyncio.create_task(events_of(session, "and now?"))
    await until(lambda: len(provider.requests) == 2)  # the summary has been asked for
    session.interrupt()
    assert (await turn)[-1] == TurnFinished("interrupted", "")
    assert session.history == before.plus(User((Text("and now?"),)))
    assert len(provider.requests) == 2


async def test_with_automatic_compaction_off_a_full_window_ends_the_turn(home: Home) -> None:
    off = CompactionSettings(CompactionCaps(tail=200, ledger=900), policy="off")
    session = await home.attended(
        ScriptedProvider.from_replies({"text": "x" * 14_000}, context_window=9100), compaction_settings=off
    )
    await events_of(session, "tell me about x")
    failed = (await events_of(session, "and now?"))[-1]
    assert isinstance(failed, TurnFailed)
    assert (failed.code, "`/compact` makes room" in failed.message) == ("context", True)


async def test_compacting_by_hand_returns_what_it_did(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "z" * 3000}, {"text": "short"}, {"when": "the parser", "text": "<summary>all about z</summary>"}
    )
    session, _ = await first_turn(home.attended(provider), "one")
    await events_of(session, "two")
    events: list[Event] = []
    result = await session.compact("the parser", events.append)
    assert result.strategies == ("summary",)
    assert [event.used for event in events if isinstance(event, CompactionStarted)] == [result.before_tokens]
    assert [event.before_tokens for event in events if isinstance(event, ContextCompacted)] == [result.before_tokens]
    assert (result.previous_message_count, result.new_message_count) == (4, 2)
    assert result.after_tokens < result.before_tokens
    assert (await session.compact()).strategies in ((), ("ledger",))


async def test_a_turn_that_is_sent_during_a_compaction_is_not_lost(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "z" * 3000},
        {"text": "short"},
        {"when": ASKED, "text": "<summary>all about z</summary>", "pause": 0.5},
        {"text": "third"},
    )
    session, _ = await first_turn(home.attended(provider), "one")
    await events_of(session, "two")
    compaction = asyncio.create_task(session.compact())
    await until(lambda: len(provider.requests) == 3)  # the summary has been asked for
    assert (await events_of(session, "three"))[-1] == TurnFinished("answered", "third")
    assert (await compaction).strategies == ("summary",)
    assert [m.text for m in session.history.messages] == ["two", "short", "three", "third"]
    await session.close()
    again = await home.attended(ScriptedProvider.from_replies(), resume=True)
    assert again.history == session.history


async def test_what_a_compaction_by_hand_took_is_on_disk_when_it_returns(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("todo", items=[])]}, {"text": "short"}, {"text": "no summary"})
    )
    await events_of(session, "z" * 3000)
    assert (await session.compact()).strategies == ("ledger",)
    again = await home.attended(ScriptedProvider.from_replies(), resume=True)
    assert again.usage == session.usage


async def test_the_model_may_ask_for_room_and_is_told_what_that_freed(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "z" * 3000},
        {"text": "I make room.", "calls": [call("compact_context", focus="the parser")]},
        {"when": "the parser", "text": "<summary>all about z</summary>"},
        {"text": "fine"},
    )
    session, _ = await first_turn(home.attended(provider), "one")
    events = await events_of(session, "two")
    kinds = [type(event) for event in events if isinstance(event, StepStarted | ToolFinished | ContextCompacted)]
    assert kinds == [StepStarted, ToolFinished, ContextCompacted, StepStarted]
    (output,) = outputs_of(session)
    assert (output.status, "before your next request" in output.text) == ("done", True)
    assert [note.partition(":")[0] for note in notes_of(session)] == ["[compact_context"]
    assert events[-1] == TurnFinished("answered", "fine")
    await session.close()

    again = await home.attended(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert again.history == session.history
    assert provider.requests[-1].tools == provider.requests[0].tools


async def test_a_wish_for_room_where_there_is_none_to_make_is_answered_too(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"calls": [call("compact_context")]}, {"text": "fine"})
    session, events = await first_turn(home.attended(provider), "go")
    assert events[-1] == TurnFinished("answered", "fine")
    assert "nothing was compacted" in str(session.history.messages[3])


@pytest.mark.parametrize(
    ("work", "refused"),
    [
        pytest.param(lambda session: session.compact(), "while a turn is running", id="is not compacted"),
        pytest.param(lambda session: anext(session.send("and")), "a turn is running", id="takes no other message"),
    ],
)
async def test_while_a_turn_runs_a_session(
    home: Home, work: Callable[[Session], Awaitable[object]], refused: str
) -> None:
    session = await home.attended(ScriptedProvider.from_replies({"text": "a b", "pause_between": 0.01}))
    async for event in session.send("go"):
        if isinstance(event, TextDelta):
            with pytest.raises(AgentError, match=refused):
                await work(session)


async def test_what_a_finished_call_left_running_shows_nothing_more(home: Home) -> None:
    leaves = call("bash", command="echo now; (sleep 0.3; echo late; sleep 0.3) &")
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [leaves, call("bash", command="sleep 0.6")]}, {"text": "ok"})
    )
    events = await events_of(session)
    first = next(i for i, e in enumerate(events) if isinstance(e, ToolFinished))
    assert [e for e in events[first:] if isinstance(e, ToolProgress)] == []


async def test_a_model_that_only_pauses_says_nothing(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies({"stop": "pause"}, {"stop": "pause"}))
    failed = (await events_of(session))[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.code == "empty_answer"


async def test_deny_rules_hold_in_every_mode(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("bash", command="ls; rm x")]}, {"text": "ok"}),
        deny=(parse_rule("bash(rm)"),),
    )
    await events_of(session)
    assert [o.status for o in outputs_of(session)] == ["denied"]


async def test_closing_a_session_ends_its_background_jobs(home: Home) -> None:
    start = call("bash", command="sleep 600 & echo $! > pid; wait", background=True)
    poll = call("bash", command="until [ -s pid ]; do :; done; cat pid")
    session, _ = await first_turn(
        home.attended(ScriptedProvider.from_replies({"calls": [start]}, {"calls": [poll]}, {"text": "ok"}))
    )
    pid = int(outputs_of(session)[1].text.split()[0])
    await session.close()
    await soon(lambda: not is_alive(pid))  # a killed process dies when the system gets round to it


async def test_the_model_is_told_once_what_changes_and_a_resumed_session_shows_the_same(home: Home) -> None:
    dates = iter(["2026-01-02", "2026-01-02", *["2026-01-03"] * 20])
    provider = ScriptedProvider.from_replies({"calls": [call("glob", pattern="*")]}, {"text": "one"}, {"text": "two"})
    session, _ = await first_turn(
        home.attended(provider, surroundings=lambda: ReminderFacts(date=next(dates))), "first"
    )
    await events_of(session, "second")
    note = Note("[The date is now 2026-01-03.]")
    messages = [message for message in session.history.messages if isinstance(message, User)]
    assert [[part for part in message.parts if isinstance(part, Note)] for message in messages] == [[], [note], []]
    assert messages[0].parts == (Text("first"),)
    assert isinstance(messages[1].parts[0], ToolOutput)
    resumed = await home.attended(ScriptedProvider.from_replies({"text": "three"}), resume=True)
    assert resumed.history.messages == session.history.messages


async def test_a_context_that_fills_is_told_with_the_message_that_fills_it(home: Home) -> None:
    provider = ScriptedProvider.from_replies(*({"text": "ok"} for _ in range(5)), context_window=20_000)
    session = await home.attended(provider)
    (used,) = [event.used for event in await events_of(session, "x") if isinstance(event, ContextMeasured)]
    for share in (0.5, 0.82, 0.83, 0.86):
        missing = int(share * provider.window.available_tokens) - used
        await events_of(session, "x" * int(missing / 0.33))
        used += missing
    messages = [message for message in session.history.messages if isinstance(message, User)]
    notes = [[part.text[:11] for part in message.parts if isinstance(part, Note)] for message in messages]
    assert notes == [[], [], ["[Context: 8"], [], ["[Context: 8"]]


async def test_a_compaction_is_no_drift(home: Home) -> None:
    texts = ("x" * 3000, "y" * 3000, "<summary>short</summary>", "two")
    session, _ = await first_turn(
        home.attended(ScriptedProvider.from_replies(*({"text": text} for text in texts))), "first"
    )
    await events_of(session, "again")
    await session.compact()
    events = await events_of(session, "second")
    assert session.history.summary
    assert not [event for event in events if isinstance(event, PrefixDrifted | CacheBroken)]


async def test_a_change_that_could_not_be_written_leaves_no_gap_behind(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = await first_turn(home.attended(ScriptedProvider.from_replies({"text": "one"}, {"text": "two"})))

    def locked(*_: object) -> None:
        raise StoreError("locked", "another program writes")

    with monkeypatch.context() as patch:
        patch.setattr(write_queue, "LOCK_TIMEOUT_S", 0.0)
        patch.setattr(SessionStore, "write", locked)
        with pytest.raises(StoreFailed):
            await session.change_conversation(announce_memory, "- use tabs", "AGENT.md")
    await events_of(session, "more")
    again = await home.attended(ScriptedProvider.from_replies(), resume=True)
    assert [message.text for message in again.history.messages] == ["go", "one", "more", "two"]
    assert again.history.messages == session.history.messages
