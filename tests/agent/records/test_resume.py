"""Sessions that go on after the program ended: real files, a real database, a scripted model."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.request_budget import INFERRED_FROM_COUNTS, REPORTED_BY_SERVER, Window, window_after_overflow
from ebbtide.agent.compose.sessions import MAX_PREVIEW_MESSAGES
from ebbtide.agent.events.session import Event, Noticed, Resumed, ToolStarted, TurnFinished
from ebbtide.agent.events.view import PrefixDrifted, PrefixRenewed
from ebbtide.agent.messages import Conversation, Usage
from ebbtide.agent.providers.learned_limits import learned_window
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.damage import RestoredMessages
from ebbtide.agent.records.stored_view import UNREADABLE_SNAPSHOT
from ebbtide.agent.session import Session
from ebbtide.agent.window.overview import TokenCount
from tests.kit.files import write_file, write_files
from tests.kit.project import Project
from tests.kit.session import READ, events_of, first_turn, notes_of

TODO = {"name": "todo", "arguments": {"items": [{"text": "parse", "status": "doing"}]}}
EDIT = {"name": "edit", "arguments": {"path": "a.txt", "old": "one", "new": "two"}}
SLEEP = {"name": "bash", "arguments": {"command": "sleep 60", "background": True}}


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    write_files(project.root, {"a.txt": "one\n", "b.txt": "b\n"})


async def left(project: Project, *steps: dict[str, Any], mode: str = "auto") -> Session:
    """A session in which one turn was made, closed."""
    session, _ = await first_turn(project.session(*steps, {"text": "Done."}, mode=mode), "go")
    await session.close()
    return session


def resumed_in(events: list[Event]) -> Resumed:
    return next(event for event in events if isinstance(event, Resumed))


async def test_a_session_goes_on_in_the_mode_and_with_the_model_it_had(project: Project) -> None:
    before = await left(project)
    again = await project.session({"text": "Yes."}, resume="")
    assert (again.id, again.mode, again.model) == (before.id, "auto", before.model)


async def test_a_mode_on_the_command_line_wins_over_the_one_of_the_session(project: Project) -> None:
    await left(project)
    again = await project.session({"text": "Yes."}, resume="", mode="plan")
    assert again.mode == "plan"


async def test_a_terminal_opens_a_session_in_its_own_mode_and_says_so(project: Project) -> None:
    before = await left(project)
    sessions = project.sessions(interactive=True)
    again = await sessions.open(before.id)
    assert again.mode == "ask"
    assert again.changes_while_closed == (
        "this session was in `auto` mode; your settings use `ask`: `/mode auto` switches back",
    )
    await again.change_mode("plan")
    await again.close()
    reopened = await sessions.open(before.id)  # as for another model
    assert (reopened.mode, reopened.changes_while_closed) == ("plan", ())
    await reopened.close()


async def test_a_terminal_that_is_set_to_the_mode_of_a_session_says_nothing(project: Project) -> None:
    before = await left(project, mode="plan")
    again = await project.sessions(interactive=True, permission_mode="plan").open(before.id)
    assert (again.mode, again.changes_while_closed) == ("plan", ())


async def test_a_project_keeps_a_session_from_going_on_in_a_looser_mode(project: Project) -> None:
    await left(project)
    write_file(project.root / ".ebb" / "config.toml", '[agent]\npermission_mode = "plan"\n')
    again = await project.session({"text": "Yes."}, resume="")
    assert again.mode == "plan"


async def test_a_file_that_was_read_can_be_edited_after_a_resume(project: Project) -> None:
    await left(project, {"calls": [READ]})
    again = await project.session({"calls": [EDIT]}, {"text": "Done."}, resume="")
    assert again.changes_while_closed == ()
    await events_of(again, "edit it")
    await again.close()
    assert (project.root / "a.txt").read_text() == "two\n"


async def test_what_changed_on_disk_is_told_to_the_user_and_the_model(project: Project) -> None:
    read_both = {"calls": [READ, {"name": "read", "arguments": {"path": "b.txt"}}]}
    before = await left(project, read_both)
    (project.root / "a.txt").write_text("one, but not as before\n")
    (project.root / "b.txt").unlink()
    again = await project.session({"calls": [EDIT]}, {"text": "Done."}, {"text": "Again."}, resume="")
    assert again.changes_while_closed == ("1 file changed on disk, 1 file is gone since you left",)

    events = await events_of(again, "edit it")
    assert resumed_in(events) == Resumed(before.id, 4, before.model, "auto", (), ("a.txt",), ("b.txt",))
    assert "[This session was closed" in notes_of(again)[0]
    assert "`a.txt`" in notes_of(again)[0]
    assert (project.root / "a.txt").read_text() == "one, but not as before\n"
    assert not [event for event in await events_of(again, "and now?") if isinstance(event, Resumed)]
    assert len(notes_of(again)) == 1


async def test_a_file_that_was_only_touched_has_not_changed(project: Project) -> None:
    await left(project, {"calls": [READ]})
    (project.root / "a.txt").write_text("one\n")
    again = await project.session({"text": "Yes."}, resume="")
    assert again.changes_while_closed == ()


async def test_background_jobs_that_ended_with_the_program_are_told_once(project: Project) -> None:
    await left(project, {"calls": [SLEEP]})
    again = await project.session({"text": "Yes."}, resume="")
    assert resumed_in(await events_of(again, "go on")).jobs == ("sleep 60",)
    assert "`sleep 60`" in notes_of(again)[0]
    await again.close()
    third = await project.session({"text": "Yes."}, resume="")
    assert third.changes_while_closed == ()
    await third.close()


async def test_the_list_of_the_model_outlives_its_call(project: Project) -> None:
    await left(project, {"calls": [TODO]}, *({"calls": [READ]} for _ in range(3)))
    project.sql("delete from messages where position < 2")
    project.sql("update snapshots set body = replace(body, '\"start\":0', '\"start\":3')")
    again = await project.session({"text": "Yes."}, resume="")
    assert (again.changes_while_closed, len(again.history.messages)) == ((), 7)
    assert resumed_in(await events_of(again, "go on")).todos == (("parse", "doing"),)


async def test_a_count_with_another_system_text_is_not_taken_over(project: Project) -> None:
    (project.root / "AGENT.md").write_text("Be kind to everybody who reads this. " * 800)
    first = await project.session({"text": "Done.", "usage": {"input": 12_000, "output": 5}}, mode="auto")
    await events_of(first, "go")
    await first.close()
    (project.root / "AGENT.md").unlink()
    again = await project.session({"text": "Yes.", "usage": {"input": 3_000, "output": 5}}, resume="")
    assert not [event for event in await events_of(again, "go on") if isinstance(event, Noticed)]
    assert again.history.anchor == Usage(3_000, output=5)


async def test_what_begins_otherwise_after_a_new_start_is_a_rewrite_with_its_reason(project: Project) -> None:
    before = await left(project, {"calls": [READ]})
    same = await project.session({"text": "Yes."}, resume="")
    assert not [e for e in await events_of(same, "go on") if isinstance(e, PrefixRenewed | PrefixDrifted)]
    await same.close()
    (project.root / "AGENT.md").write_text("Be kind.")
    script = project.script({"text": "Yes."}, {"text": "Yes."})
    other = script.rename(script.with_name("other.json"))
    sessions = project.sessions(on_full="final")
    again = await sessions.open("", f"scripted/{other}")
    found = [
        e
        for turn in ("on", "and on")
        for e in await events_of(again, turn)
        if isinstance(e, PrefixRenewed | PrefixDrifted)
    ]
    reasons = ("model", "system (instruction files)", "tools")
    assert found == [PrefixRenewed(reasons)]
    await again.close()
    epochs = (await sessions.overview(before.id)).epochs
    assert [epoch.rewrite.reason for epoch in epochs if epoch.rewrite] == [", ".join(reasons)]
    assert [len(epoch.requests) for epoch in epochs] == [3, 2]


@pytest.mark.parametrize("start", [2, 400])
async def test_a_snapshot_that_does_not_fit_the_messages_is_not_used(project: Project, start: int) -> None:
    before = await left(project, {"calls": [READ]})
    project.sql(f"update snapshots set body = replace(body, '\"start\":0', '\"start\":{start}')")
    again = await project.session({"text": "Yes."}, resume="")
    assert again.history.messages == before.history.messages
    assert again.changes_while_closed == (UNREADABLE_SNAPSHOT,)


@pytest.mark.parametrize("table", ["situation", "rewrites"])
async def test_facts_and_rewrites_that_cannot_be_written_stop_no_turn(project: Project, table: str) -> None:
    room = {"name": "compact_context", "arguments": {}}
    summary = {"when": "context window is nearly full", "text": "<summary>short</summary>"}
    session = await project.session(
        {"text": "z" * 60_000}, {"calls": [READ, room]}, summary, {"text": "Done."}, mode="auto"
    )
    project.sql(f"drop table {table}")
    await events_of(session, "one")
    events = await events_of(session, "two")
    assert events[-1] == TurnFinished("answered", "Done.")
    assert [event for event in events if isinstance(event, Noticed)]


async def test_a_snapshot_that_cannot_be_written_costs_nothing_but_a_notice(project: Project) -> None:
    session = await project.session({"calls": [READ]}, {"text": "Done."}, mode="auto")
    project.sql("drop table snapshots")
    events = await events_of(session, "go")
    notices = [event.text for event in events if isinstance(event, Noticed)]
    assert [text.partition(";")[0] for text in notices] == ["the session's snapshot could not be written"] * 2
    await session.close()
    again = await project.session({"text": "Yes."}, resume="")
    assert again.history.messages == session.history.messages
    assert again.changes_while_closed[0].startswith(UNREADABLE_SNAPSHOT)


async def test_facts_that_cannot_be_read_are_left_out(project: Project) -> None:
    await left(project, {"calls": [READ, TODO]})
    project.sql("update situation set body = 'nonsense'")
    again = await project.session({"text": "Yes."}, resume="")
    assert resumed_in(await events_of(again, "go on")).todos == ()


async def test_a_session_without_its_facts_is_still_a_session(project: Project) -> None:
    before = await left(project, {"calls": [READ]})
    project.sql("drop table situation")
    again = await project.session({"text": "Yes."}, resume="")
    assert again.history.messages == before.history.messages
    assert again.changes_while_closed[0].startswith(
        "seen files, todos and background jobs of the session could not be restored"
    )


async def test_of_a_session_that_was_closed_nothing_is_held(project: Project) -> None:
    sessions = project.sessions(model=f"scripted/{project.script({'text': 'Done.'})}")
    session = await sessions.open()
    await events_of(session, "go")
    await session.close()
    assert sessions._contexts == {}
    assert len((await sessions.overview(session.id)).requests) == 1


async def test_the_overview_of_an_open_session_needs_no_message_and_writes_none(project: Project) -> None:
    sessions = project.sessions(
        model=f"scripted/{project.script({'calls': [READ]}, {'text': 'Done.'})}", permission_mode="auto"
    )
    session = await sessions.open()
    empty = await sessions.overview(session.id)
    assert (empty.session, empty.requests, empty.components[-1].tokens) == (session.id, (), 0)
    async for event in session.send("go"):
        if isinstance(event, ToolStarted):
            await sessions.overview(session.id)
    assert len(session.history.messages) == 4
    assert len((await sessions.overview(session.id)).requests) == 2


async def test_what_the_view_no_longer_shows_is_read_a_page_at_a_time(project: Project) -> None:
    before = await left(project, {"calls": [READ]})
    sessions = project.sessions()
    assert await sessions.messages_before(before.id, 3, 2) == RestoredMessages(before.history.messages[1:3])
    assert await sessions.messages_before(before.id, 0, 2) == RestoredMessages(())


async def test_a_rewrite_is_kept_with_its_reason_and_its_price(project: Project) -> None:
    usage = {"input": 5, "output": 7}
    room = {"name": "compact_context", "arguments": {}}
    summary = {"when": "context window is nearly full", "text": "<summary>short</summary>", "usage": usage}
    before = await left(project, {"text": "z" * 60_000, "calls": [READ]}, {"calls": [room]}, summary, {"text": "Done."})
    overview = await project.sessions().overview(before.id)
    first, second = overview.epochs
    assert first.rewrite is not None
    assert (first.rewrite.reason, first.rewrite.strategies, first.rewrite.cost) == ("asked", ("summary",), 0.0)
    assert first.rewrite.after < first.rewrite.before
    assert [asked.purpose for asked in first.requests] == ["step", "step", "summary"]
    assert (first.requests[-1].usage, len(second.requests)) == (Usage(5, 0, 0, 7), 1)


async def test_the_end_of_a_long_session_is_there_before_all_of_it(project: Project) -> None:
    reads = [
        {"calls": [{"name": "read", "arguments": {"path": "a.txt", "limit": n + 1}}]}
        for n in range(MAX_PREVIEW_MESSAGES // 2)
    ]
    before = await left(project, *reads)
    ends: list[Conversation] = []
    resumed = await project.sessions().open(before.id, on_preview=ends.append)
    messages = before.history.messages
    assert ([end.messages for end in ends], resumed.history.messages) == ([messages[-MAX_PREVIEW_MESSAGES:]], messages)


async def test_of_a_short_session_nothing_is_shown_ahead(project: Project) -> None:
    before = await left(project)
    ends: list[Conversation] = []
    await project.sessions().open(before.id, on_preview=ends.append)
    assert ends == []


async def test_a_window_that_the_provider_has_shown_is_known_after_a_new_start(project: Project) -> None:
    fine = {"text": "fine", "usage": {"input": 900}}
    session = await project.session({"text": "one"}, {"error": "overflow"}, fine, {"text": "again"})
    await events_of(session, "one " * 3000)
    await events_of(session, "two " * 3000)
    window, believed = session._ctx.model.learned_limits.window, session._ctx.model.provider.window
    await session.close()
    assert window is not None
    assert window.size < believed.size
    assert (await project.sessions().overview(session.id)).window == TokenCount(
        "window", window.size, REPORTED_BY_SERVER
    )

    again = await project.session({"text": "more"}, resume=session.id)
    assert again._ctx.model.learned_limits.window == window
    await again.close()
    larger = await project.sessions(context_window=believed.size * 2).open(session.id)
    assert larger._ctx.model.learned_limits.window is None
    await larger.close()
    overview = await project.sessions(context_window=believed.size * 2).overview(session.id)
    assert overview.window == TokenCount("window", believed.size * 2, "command line")


async def test_what_a_server_leaves_out_is_found_as_soon_in_many_runs_as_in_one(project: Project) -> None:
    """Each run alone sees too little: what was counted before is kept with the session."""
    texts = [" ".join(f"{chr(97 + n)}word{i % 7}" for i in range(1_500)) for n in range(5)]
    counts, found = [6_000, 9_000, 9_050, 9_020, 9_040], list[int]()
    for number, (text, counted) in enumerate(zip(texts, counts, strict=True)):
        session = await project.session(
            {"text": "Yes.", "usage": {"input": counted, "output": 2}}, resume="" if number else None
        )
        notices = [event.text for event in await events_of(session, text) if isinstance(event, Noticed)]
        found += [number for text in notices if "it drops the beginning" in text]
        await session.close()
        if found:
            break
    assert found == [3]


def test_a_window_was_shown_by_one_server_for_one_model() -> None:
    provider = ScriptedProvider.from_replies({"text": "fine"}, context_window=100_000)
    mark = RequestRecord(provider.facts.id, "", "", "", window=Window(9_000, 1, 1), believed=100_000)
    found = learned_window(mark, provider)
    assert found is not None
    assert (found.size, found.source_of("context_window")) == (9_000, REPORTED_BY_SERVER)
    supposed = learned_window(
        replace(mark, window=window_after_overflow(provider.window, 100_000, 9_000, INFERRED_FROM_COUNTS)), provider
    )
    assert supposed is not None
    assert (supposed.size, supposed.source_of("context_window")) == (9_000, INFERRED_FROM_COUNTS)
    others = (None, replace(mark, model="a/b"), replace(mark, server="x"), replace(mark, believed=None))
    assert [learned_window(other, provider) for other in others] == [None] * 4
