"""Commands that the user runs from the prompt, on the real session."""

from pathlib import Path

from ebbtide.agent.input.user_actions import RUN_BY_USER_NOTE
from ebbtide.agent.messages import Assistant, Conversation, User
from ebbtide.tui.slash_commands import Invocation, command_by_name, detect_prompt_mode, parse_command
from ebbtide.tui.view.blocks import AnswerText, UserText
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession, Hold
from tests.tui.test_real_session import call_of, working


def test_an_exclamation_mark_is_a_command_for_the_shell() -> None:
    assert parse_command("!git status\n") == Invocation(command_by_name("shell"), "git status")
    assert (parse_command(" !git"), detect_prompt_mode("a!"), detect_prompt_mode("!")) == (None, "message", "shell")


async def test_a_command_of_the_user_runs_unasked_and_the_model_sees_it(tmp_path: Path) -> None:
    async with working(tmp_path, {"text": "It says hello."}) as t:
        await t.says("!echo hel''lo; exit 3", shows="bash  echo hel''lo; exit 3")
        call = call_of(t)
        assert (call.status, call.text) == ("failed", "hello\nexit code 3")
        await t.shows("│ hello")
        await t.says("what does it say?", shows="It says hello.")
        history = t.session.history
        assert [type(message) for message in history.messages] == [User, Assistant, User, User, Assistant]
        assert RUN_BY_USER_NOTE in str(history.messages[0])
        session = t.session.id
    async with working(tmp_path, resume=session) as t:
        blocks = [block for block in t.app.controller.view.blocks if isinstance(block, UserText | AnswerText)]
        assert blocks[0] == UserText("!echo hel''lo; exit 3")
        assert call_of(t).text == "hello\nexit code 3"


async def test_a_long_output_of_the_user_is_kept_apart(tmp_path: Path) -> None:
    async with working(tmp_path) as t:
        await t.says("!seq 1 200000")
        await t.shows("│ 200000")
        assert call_of(t).lines == 200_000
        assert "read_result" in call_of(t).text


async def test_esc_ends_a_command_of_the_user(tmp_path: Path) -> None:
    async with working(tmp_path) as t:
        await t.type("!echo begun; sleep 60", until=lambda: "begun" in t.transcript.visible_text())
        await t.press("escape")
        assert call_of(t).status == "interrupted"


async def test_a_command_waits_for_the_turn_and_stays_in_the_prompt() -> None:
    hold = Hold()
    async with terminal(FakeSession([[hold]], history=Conversation())) as t:
        await t.type("go", until=lambda: t.app.is_working and t.app.controller.view.is_busy)
        await t.type("!git status", shows="has to wait")
        assert t.prompt.text == "!git status"
        hold.event.set()


async def test_the_prompt_shows_what_a_message_is_for() -> None:
    async with terminal(FakeSession()) as t:
        t.prompt.set_text("!ls")
        await t.pilot.pause()
        assert (t.prompt.has_class("shell"), str(t.prompt.border_title)) == (True, "! run as your command")
        t.prompt.set_text("ls")
        await t.pilot.pause()
        assert (t.prompt.has_class("shell"), t.prompt.border_title) == (False, "")
