"""Pictures of what waits, of the status line and of what is marked to be copied."""

from pathlib import Path

import pytest

from ebbtide.agent.events.session import (
    ContextMeasured,
    ReplyFinished,
    RetryScheduled,
    TextDelta,
    ToolStarted,
    TurnFinished,
)
from ebbtide.agent.messages import Usage
from ebbtide.tui.app import EbbApp
from ebbtide.tui.view.blocks import AnswerText
from ebbtide.tui.widgets.queue import QueueLines
from ebbtide.tui.widgets.transcript import TranscriptView
from tests.kit.fake_sessions import FakeSession, FakeSessions, Hold, measured
from tests.kit.files import write_file
from tests.kit.pictures import SIZES, Picture

pytestmark = pytest.mark.usefixtures("no_time_passes")

DONE = TurnFinished("answered", "x")


@SIZES
def test_messages_that_wait(picture: Picture) -> None:
    session = FakeSession(
        [[measured(), TextDelta("I run the tests first."), ToolStarted("1", "bash", {"command": "make check"}), Hold()]]
    )
    app = EbbApp(FakeSessions([session]), first_message="make the parser accept trailing commas")

    def is_there() -> bool:
        if not session.said or not app.is_running:
            return False
        if not app.controller.queue:
            app.jobs.send("keep the error message as it is")
            app.jobs.send("and then write the change log entry, in the words of a user", later=True)
            app.jobs.send("use the tokens of the lexer, not regular expressions: they break on nested brackets " * 3)
        lines = app.query_one(QueueLines)
        if not lines.has_focus:
            lines.focus()
        return "Enter edit" in str(lines.render()) and "running" in app.controller.view.activity

    assert picture(app, is_there)


@SIZES
def test_an_answer_that_is_marked_to_be_copied(picture: Picture) -> None:
    answer = (
        "It never sees the end:\n\n1. `parse` stops at the comma\n2. the bracket is left\n\n```python\nx = [1, 2,]\n```"
    )
    session = FakeSession(
        [[TextDelta("I look."), ToolStarted("1", "bash", {"command": "make check"}), TextDelta(answer), DONE]]
    )
    app = EbbApp(FakeSessions([session]), first_message="make the parser accept trailing commas")

    def is_there() -> bool:
        if not session.said or app.is_working:
            return False
        transcript = app.query_one(TranscriptView)
        if transcript.has_focus:
            transcript.action_mark(1)
        else:
            transcript.focus()
        return isinstance(transcript.marked_block, AnswerText)

    assert picture(app, is_there)


@SIZES
def test_the_status_of_a_long_session(picture: Picture, tmp_path: Path) -> None:
    write_file(tmp_path / ".git" / "HEAD", "ref: refs/heads/trailing-commas\n")
    parts = (("system", 9_000), ("instructions", 8_000), ("tools", 22_000), ("summary", 18_000), ("history", 75_000))
    usage = Usage(2_000, 128_000, 2_000, 900)
    measured = ContextMeasured(132_000, 200_000, 180_000, parts)
    session = FakeSession([[measured, ReplyFinished("m", "calls", usage, 0.25), Hold()]], mode="auto", cost=3.15)
    session.working_folder = tmp_path
    app = EbbApp(FakeSessions([session]), first_message="make the parser accept trailing commas")
    assert picture(app, lambda: app.controller.view.cached_tokens > 0)


@SIZES
def test_a_server_that_is_overloaded(picture: Picture) -> None:
    retry = RetryScheduled(5, 0, 3.0, "the m server failed (529): busy", 2_340.0, "Overloaded (529)")
    session = FakeSession(
        [[measured(), TextDelta("I look at the parser."), ReplyFinished("m", "end", Usage(), 0.0), retry, Hold()]]
    )
    app = EbbApp(FakeSessions([session]), first_message="make the parser accept trailing commas")
    assert picture(app, lambda: app.controller.view.retry is not None)


@SIZES
def test_a_turn_that_was_interrupted(picture: Picture) -> None:
    reply = ReplyFinished("m", "calls", Usage(2_000, 128_000, 2_000, 900), 0.25)
    text = TextDelta("The lexer skips the comma before a closing bracket. To accept it, the parser")
    session = FakeSession([[measured(), reply, text, Hold()]])
    app = EbbApp(FakeSessions([session]), first_message="make the parser accept trailing commas")

    def is_stopped() -> bool:
        view = app.controller.view
        if view.activity == "writing":
            if app.controller.queue:
                app.jobs.interrupt()
            else:
                app.jobs.send("use the tokens of the lexer")
        return not app.is_working and bool(app.main_screen.prompt.text)

    assert picture(app, is_stopped)
