"""The model continues by itself when a background job is over, where the user wants that: real jobs and sessions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ebbtide.tui.app import EbbApp
from ebbtide.tui.view.blocks import AnswerText, Notice, TurnTotal, UserText
from tests.kit.app_pilot import Driven
from tests.kit.polling import soon
from tests.kit.project import Project

WAITS = "until [ -e go ]; do sleep 0.01; done; echo built; exit 3"
JOB = {"name": "bash", "arguments": {"command": WAITS, "background": True}}
REPLIES = ({"calls": [JOB]}, {"text": "Started."}, {"text": "The build failed."})
ENDED = Notice(f"job-1 ended, exit code 3: {WAITS}\n  built")


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Project]:
    async with Project(tmp_path) as project:
        yield project


def said(t: Driven) -> list[object]:
    return [block for block in t.app.controller.view.blocks if isinstance(block, UserText | AnswerText | Notice)]


@pytest.mark.parametrize("wake", [True, False])
async def test_a_job_that_ends_while_nothing_runs(opened: Project, wake: bool) -> None:
    sessions = opened.sessions(*REPLIES, interactive=True, permission_mode="auto", **{"jobs.wake": wake})
    app = EbbApp(sessions, guard_s=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        await t.type("build it", shows="Started.")
        await t.rests()
        await t.press(*"half")
        (opened.root / "go").touch()
        await soon(lambda: ENDED in said(t))
        if wake:
            await t.until(lambda: "The build failed." in [getattr(block, "text", "") for block in said(t)])
        await t.rests()
        words = [UserText("build it"), AnswerText("Started."), ENDED]
        assert said(t) == [*words, *([AnswerText("The build failed.")] if wake else [])]
        assert t.app.context.prompt.text == "half"


async def test_after_an_interruption_a_job_that_is_over_wakes_nobody(opened: Project) -> None:
    more = {"name": "bash", "arguments": {"command": "sleep 600"}}
    replies = ({"calls": [JOB]}, {"calls": [more]}, {"text": "never"})
    app = EbbApp(
        opened.sessions(*replies, interactive=True, permission_mode="auto", **{"jobs.wake": True}), guard_s=0.0
    )
    async with app.run_test(size=(80, 24)) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        await t.type("build it", shows="sleep 600")
        (opened.root / "go").touch()
        await soon(lambda: ENDED in said(t))
        await t.press("escape")
        await t.rests()
        await pilot.pause()
        last = t.app.controller.view.blocks[-1]
        assert isinstance(last, TurnTotal)
        assert last.is_interrupted
        assert not t.app.is_working
