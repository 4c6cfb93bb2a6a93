"""The app on the real session, with real tools and a scripted model."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.agent.messages import User
from ebbtide.tui.app import EbbApp
from ebbtide.tui.view.blocks import AnswerText, Call, Failure
from tests.kit.app_pilot import Driven, asks_on, list_on
from tests.kit.files import write_file
from tests.kit.mcp_project import McpProject
from tests.kit.project import Project

Reply = dict[str, object]


def calls(name: str, **arguments: object) -> Reply:
    return {"calls": [{"name": name, "arguments": arguments}]}


@asynccontextmanager
async def working(
    tmp_path: Path, *replies: Reply, resume: str | None = None, rests: bool = True
) -> AsyncIterator[Driven]:
    """The app in a project with `calc.py`, on a model that gives these replies. `rests`: it asks nothing at first."""
    write_file(tmp_path / "project" / "calc.py", "def add(a, b):\n    return a - b\n")
    async with Project(tmp_path) as opened:
        app = EbbApp(opened.sessions(*(replies or ({"text": "ok"},)), interactive=True), resume=resume, guard_s=0.0)
        async with app.run_test(size=(80, 24)) as pilot:
            driven = Driven(app, pilot)
            if rests:
                await driven.rests()
            yield driven


def calls_of(t: Driven) -> list[Call]:
    return [block for block in t.app.controller.view.blocks if isinstance(block, Call)]


def call_of(t: Driven, number: int = 0) -> Call:
    return calls_of(t)[number]


async def test_an_edit_that_is_allowed_happens(tmp_path: Path) -> None:
    edit = calls("edit", path="calc.py", old="a - b", new="a + b")
    async with working(tmp_path, calls("read", path="calc.py"), edit, {"text": "Done."}) as t:
        await t.type("fix it", asks=PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        assert (call_of(t, 1).status, call_of(t, 1).changed_files) == ("done", ("calc.py",))
        assert "a + b" in (tmp_path / "project" / "calc.py").read_text()


async def test_a_denial_tells_the_model_why(tmp_path: Path) -> None:
    async with working(tmp_path, calls("bash", command="touch hi"), {"text": "Then not."}) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("n", "w", "h", "y", "enter", shows="Then not.")
        await t.rests()
        assert call_of(t).status == "denied"
        assert "denied by the user: why" in call_of(t).text
        assert len(calls_of(t)) == 1


async def test_esc_stops_a_command_that_runs(tmp_path: Path) -> None:
    async with working(tmp_path, calls("bash", command="echo started; env sleep 600"), {"text": "never"}) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("y", shows="│ started")
        await t.press("escape")
        assert call_of(t).status == "interrupted"
        assert re.search(r"Interrupted after \d+s\. What should I do instead\?", t.transcript.visible_text())
        assert t.prompt.has_focus


async def test_the_model_asks_and_is_answered(tmp_path: Path) -> None:
    asks = calls("ask_user", question="Which one?", options=["red", "blue"])
    async with working(tmp_path, asks, {"text": "Good."}) as t:
        await t.type("go", asks=QuestionAsked)
        await t.press("down", "enter", shows="Good.")
        await t.rests()
        assert "blue" in call_of(t).text


async def test_several_answers_are_ticked_and_stand_in_the_line_of_the_call(tmp_path: Path) -> None:
    asks = calls("ask_user", question="Which ones?", options=["red", "blue", "green"], several=True)
    async with working(tmp_path, asks, {"text": "Good."}) as t:
        await t.type("go", asks=QuestionAsked)
        await t.press("space", "3", "down", "down", "m", "i", "x", "enter", shows="Good.")
        await t.rests()
        assert call_of(t).text == "red\ngreen\nmix"
        assert "Which ones?  → red, green, mix" in t.transcript.visible_text()


async def test_a_turn_that_fails_says_what_to_do(tmp_path: Path) -> None:
    async with working(tmp_path, {"error": "auth"}) as t:
        await t.says("go")
        assert isinstance(t.app.controller.view.blocks[-1], Failure)


async def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    async with working(tmp_path, {"text": "The first answer."}) as t:
        await t.says("remember me", shows="The first answer.")
        session = t.session
        id = session.id
    async with working(tmp_path, {"text": "The second answer."}, resume=id) as t:
        await t.shows("The first answer.")
        await t.until(lambda: t.app.controller.view.used_tokens)
        resumed = t.app.controller.view
        assert sum(size for _, size in resumed.component_tokens) == resumed.used_tokens
        overview = await t.app.controller.sessions.overview(id)
        assert (resumed.used_tokens, resumed.available_tokens) == (overview.used_tokens, overview.effective)
        await t.says("and now?", shows="The second answer.")
        texts = [message.text for message in t.session.history.messages if isinstance(message, User)]
        assert texts == ["remember me", "and now?"]
        await t.type("/model " + t.session.model.replace("script.json", "other.json"), lists="model")
        await t.press("enter")
        assert isinstance(t.app.controller.view.blocks[-1], Failure), (
            "a model that is not there leaves the session open"
        )
        await t.says("/clear")
        assert t.app.controller.view.blocks == ()


async def test_compacting_by_hand_says_what_it_did_or_why_not(tmp_path: Path) -> None:
    async with working(tmp_path, {"text": "An answer."}, {"text": "summary", "when": "summar"}) as t:
        await t.says("hello", shows="An answer.")
        await t.says("/compact the parser")
        assert not isinstance(t.app.controller.view.blocks[-1], AnswerText)


async def test_the_archive_is_looked_through_and_a_reference_goes_into_the_prompt(tmp_path: Path) -> None:
    async with working(tmp_path, calls("bash", command="env seq 5000"), {"text": "Counted."}) as t:
        await t.type("/archive", until=lambda: list_on(t.app, "archive"))
        assert t.reads("said") == "nothing stored yet"
        await t.press("escape")
        await t.type("count", asks=PermissionAsked)
        await t.press("y", shows="Counted.")
        await t.rests()
        await t.type("/archive", until=lambda: list_on(t.app, "archive"))
        assert t.reads("what").endswith(" of 5,001")
        await t.press("enter")
        assert t.prompt.text == "r1 "


async def test_why_shows_where_a_text_is_and_brings_back_what_left_the_view(tmp_path: Path) -> None:
    command = calls("bash", command="env seq 3000")
    async with working(tmp_path, command, {"text": "Done."}) as t:
        await t.type("print", asks=PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        before = t.app.controller.view.used_tokens
        await t.type("/why 1500", until=lambda: list_on(t.app, "why"))
        content = t.reads("content").splitlines()
        assert content[:2] == ["1499", "1500"]
        await t.press("enter", shows="r1 is back in context")
        await t.rests()
        assert t.app.controller.view.used_tokens > before
        session = t.session
        assert "\\n1500\\n" in str(session.history.messages[-1])


def asks_for(t: Driven, words: str) -> bool:
    if not asks_on(t.app, QuestionAsked):
        return False
    question = t.asked.spec.source
    return isinstance(question, QuestionAsked) and words in question.question


async def test_a_projects_server_is_approved_before_anything_is_said(tmp_path: Path) -> None:
    command = McpProject(tmp_path).server("forge", echo="Says it again.")
    declared = {"mcpServers": {"forge": {"command": command[0], "args": command[1:]}}}
    (tmp_path / "project" / ".mcp.json").write_text(json.dumps(declared))
    async with working(tmp_path, calls("mcp__forge__echo", text="hi"), {"text": "Done."}, rests=False) as t:
        for asked in ("May it be used?", "May the model use them?"):
            await t.until(partial(asks_for, t, asked))
            assert not t.session.history.messages
            await t.pilot.press("down", "enter")  # Enter alone approves nothing
        await t.rests()
        await t.type("go")
        await t.asks(PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        assert (call_of(t).name, call_of(t).status, call_of(t).text) == ("mcp__forge__echo", "done", "hi")


async def test_after_an_interruption_the_status_line_says_what_the_context_list_says(tmp_path: Path) -> None:
    async with working(tmp_path, calls("bash", command="touch made; seq 3000; sleep 600"), {"text": "never"}) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("y", shows="│ 3000")
        before = t.app.controller.view.used_tokens
        await t.press("escape")
        await t.rests()
        session = t.session
        await t.until(lambda: t.app.controller.view.used_tokens != before)
        found = await t.app.controller.sessions.overview(session.id, session.history)
        assert t.app.controller.view.used_tokens == found.used_tokens
