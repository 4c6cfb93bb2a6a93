"""That a background job is over reaches the model and the user, exactly once: real commands, a scripted model."""

from typing import Any

import pytest

from ebbtide.agent.events.session import JobEnded
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.session import Session
from tests.kit.polling import soon
from tests.kit.project import Project
from tests.kit.session import events_of, first_turn

WAITS = "until [ -e go ]; do sleep 0.01; done; echo one; echo two; exit 3"
JOB = {"name": "bash", "arguments": {"command": WAITS, "background": True}}
SLEEP = {"name": "bash", "arguments": {"command": "sleep 300", "background": True}}
NOTE = f"[Background jobs that have ended:\n- job-1 (`{WAITS}`): exit code 3. Its last lines:\n  one\n  two]"


def job_notes(conversation: Conversation) -> list[str]:
    return [
        part.text
        for message in conversation.messages
        if isinstance(message, User)
        for part in message.parts
        if isinstance(part, Note) and part.kind == "jobs"
    ]


async def with_job(project: Project, *more: dict[str, Any]) -> Session:
    """A session in which a turn has started a job, which has ended since."""
    session, _ = await first_turn(project.session({"calls": [JOB]}, {"text": "Started."}, *more, mode="auto"), "go")
    (project.root / "go").touch()
    await session.background_jobs.wait_for_end()
    return session


async def test_the_next_message_tells_it_once(project: Project) -> None:
    session = await with_job(project, {"text": "I see."}, {"text": "Nothing new."})
    await events_of(session, "and now?")
    assert job_notes(session.history) == [NOTE]
    await events_of(session, "and now?")
    assert job_notes(session.history) == [NOTE]


async def test_the_outputs_of_calls_tell_it_while_a_turn_runs(project: Project) -> None:
    look = {"name": "bash", "arguments": {"command": "touch go; until [ -e done ]; do sleep 0.01; done"}}
    steps = ({"calls": [JOB]}, {"calls": [look]}, {"text": "Done."})
    session = await project.session(*steps, mode="auto")
    session.set_listener(lambda event: None)
    watched = session.background_jobs.on_end

    async def report(ended: Any) -> None:
        await watched(ended)
        (project.root / "done").touch()

    session.background_jobs.on_end = report
    events = await events_of(session, "go")
    assert job_notes(session.history) == [NOTE]
    assert [event for event in events if isinstance(event, JobEnded)] == [
        JobEnded("job-1", WAITS, "exit code 3", ("one", "two"))
    ]


async def test_what_the_model_has_looked_at_is_not_told_again(project: Project) -> None:
    job = {"name": "bash", "arguments": {"command": "until [ -e go ]; do sleep 0.01; done; exit 3", "background": True}}
    go = {"name": "bash", "arguments": {"command": "touch go"}}
    look = {"name": "bash_output", "arguments": {"job": "job-1", "wait": 60}}  # until it ends: it prints nothing
    steps = ({"calls": [job]}, {"calls": [go, look]}, {"text": "I see."}, {"text": "Yes."})
    session = await project.session(*steps, mode="auto")
    for text in ("go", "on"):
        await events_of(session, text)
    seen = [part.text for message in session.history.messages for part in getattr(message, "outputs", ())]
    assert "exit code 3" in seen[-1]
    assert job_notes(session.history) == []


async def test_a_job_that_the_model_ends_is_not_told(project: Project) -> None:
    kill = {"name": "bash_kill", "arguments": {"job": "job-1"}}
    steps = ({"calls": [JOB]}, {"calls": [kill]}, {"text": "Ended."}, {"text": "Yes."})
    session = await project.session(*steps, mode="auto")
    events = [*await events_of(session, "go"), *await events_of(session, "on")]
    assert job_notes(session.history) == []
    assert not [event for event in events if isinstance(event, JobEnded)]


async def test_it_is_told_once_after_a_compaction_too(project: Project) -> None:
    session = await with_job(project, {"text": "Summary."}, {"text": "I see."}, {"text": "Summary."}, {"text": "So."})
    await session.compact()
    await events_of(session, "and now?")
    assert job_notes(session.history) == [NOTE]
    await session.compact()
    await events_of(session, "and now?")
    assert job_notes(session.history) in ([], [NOTE])


async def test_a_resumed_session_tells_it_once(project: Project) -> None:
    session = await with_job(project)
    await session.close()
    again = await project.session({"text": "I see."}, resume="")
    assert again.changes_while_closed == ("1 background job ended since you left",)
    await events_of(again, "and now?")
    assert job_notes(again.history) == [NOTE]
    await again.close()
    third = await project.session({"text": "Nothing new."}, resume="")
    await events_of(third, "and now?")
    assert job_notes(third.history) == [NOTE]


async def test_a_resumed_session_that_is_left_unused_tells_it_later(project: Project) -> None:
    session = await with_job(project)
    await session.close()
    for _ in range(2):
        unused = await project.session(resume="")
        await unused.close()
    again = await project.session({"calls": [SLEEP]}, {"text": "I see."}, resume="", mode="auto")
    await events_of(again, "and now?")
    assert job_notes(again.history) == [NOTE]
    assert list(again.background_jobs.by_id) == ["job-2"]


async def test_what_ran_at_the_end_of_the_program_is_told_as_such(project: Project) -> None:
    session, _ = await first_turn(project.session({"calls": [JOB]}, {"text": "Started."}, mode="auto"), "go")
    await session.close()
    again = await project.session({"text": "I see."}, resume="")
    await events_of(again, "and now?")
    over = f"[Background jobs that have ended:\n- job-1 (`{WAITS}`): ended with the program]"
    assert job_notes(again.history) == [over]


async def test_whoever_listens_is_told_at_once(project: Project) -> None:
    events: list[object] = []
    session, _ = await first_turn(project.session({"calls": [JOB]}, {"text": "Started."}, mode="auto"), "go")
    session.set_listener(events.append)
    (project.root / "go").touch()
    await soon(lambda: bool(events))
    assert events == [JobEnded("job-1", WAITS, "exit code 3", ("one", "two"))]


@pytest.mark.parametrize(("printed", "last"), [("seq 1 30", [*map(str, range(21, 31))]), ("true", [])])
async def test_of_what_was_printed_the_last_lines_are_told(project: Project, printed: str, last: list[str]) -> None:
    command = f"until [ -e go ]; do sleep 0.01; done; {printed}"
    job = {"name": "bash", "arguments": {"command": command, "background": True}}
    session, _ = await first_turn(project.session({"calls": [job]}, {"text": "Started."}, mode="auto"), "go")
    (project.root / "go").touch()
    await session.background_jobs.wait_for_end()
    (ended,) = session.background_jobs.unreported_ends.values()
    assert ended.last_lines == tuple(last)
