"""Quitting waits for what must not be cut off, and for nothing that only the user could end."""

import asyncio
from pathlib import Path

import pytest
from textual.screen import ModalScreen

from ebbtide.agent.compaction.summary import Draft
from tests.kit.app_pilot import started
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions, conversation
from tests.kit.user_settings import Setup
from tests.tui.plain.test_app import talking
from tests.tui.screens.test_compaction import READS, WRITTEN, files, looking
from tests.tui.screens.test_rewind import TREE
from tests.tui.test_real_session import working

NEVER = 600.0
"""Longer than any test waits."""


@pytest.mark.parametrize("command", ["/model", "/sessions", "/rewind", "/theme"])
async def test_from_a_screen_it_quits_at_once(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ebbtide.tui.session.job_queue.EXIT_TIMEOUT_S", NEVER)
    session = FakeSession(history=conversation(1))
    opener = FakeSessions([session], listing=FakeLibrary(branches=TREE))
    setup = Setup(tmp_path)
    async with started(opener, settings=lambda: setup.settings) as t:
        await t.rests()
        await t.type(command, until=lambda: isinstance(t.app.screen, ModalScreen))
        await t.pilot.press("ctrl+c", "ctrl+c")
        await t.until(lambda: session.closed)


async def test_from_a_list_of_sessions_before_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tui.session.job_queue.EXIT_TIMEOUT_S", NEVER)
    opener = FakeSessions(listing=FakeLibrary())
    async with started(opener, chooses_from_list=True) as t:
        await t.lists("sessions")
        await t.pilot.press("ctrl+c", "ctrl+c")
        await t.until(lambda: not t.app.is_running)


async def test_a_summary_that_is_being_written_is_interrupted_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tui.session.job_queue.EXIT_TIMEOUT_S", NEVER)
    files(tmp_path)
    drafts: list[Draft | None] = []
    async with working(tmp_path, *READS, {"text": "Read."}, {**WRITTEN, "pause": NEVER}) as t:
        screen = await looking(t)
        await t.press("enter", until=lambda: t.app.controller.view.activity == "summarising")
        await t.press("ctrl+c", "ctrl+c", "ctrl+c", until=lambda: t.app.controller.session is None)
        drafts.append(screen._compaction.last_draft.draft)
    assert drafts == [None]


async def test_the_line_mode_leaves_a_question_of_a_command_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tui.session.job_queue.EXIT_TIMEOUT_S", NEVER)
    async with talking(FakeSession()) as controller:
        await controller.rests()
        await controller.says("/model", asks="Number, or words to find; an empty line closes: ")
        controller.typist.close()
        await asyncio.wait_for(asyncio.shield(controller.running), 20)


async def test_from_a_screen_that_gives_its_words_back_they_are_taken_away_first(tmp_path: Path) -> None:
    session, setup = FakeSession(history=conversation(1)), Setup(tmp_path)
    async with started(FakeSessions([session]), settings=lambda: setup.settings) as t:
        await t.rests()
        await t.type("# a note", until=lambda: isinstance(t.app.screen, ModalScreen))
        await t.press("ctrl+c", until=lambda: t.prompt.text == "# a note")
        await t.press("ctrl+c", until=lambda: t.prompt.text == "")
        await t.press("ctrl+c", "ctrl+c", until=lambda: session.closed)


async def test_what_was_loaded_when_the_screen_has_gone_opens_nothing() -> None:
    async with started(FakeSessions([FakeSession()])) as t:
        await t.rests()
    loaded_late = t.app
    del vars(loaded_late)["context"]
    await loaded_late.jobs._open_first_session()
    assert "context" not in vars(loaded_late)
