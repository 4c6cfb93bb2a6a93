"""Commands that tell how it stands, write the conversation down, and go on with it otherwise, on the real session."""

import re
from pathlib import Path

from ebbtide.agent.integrations.export.readable_export import readable_session_from_messages, render_chunks
from ebbtide.agent.integrations.export.transcript_entries import SessionDetails
from ebbtide.agent.messages import Assistant, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.tui.app import EbbApp
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.plain_lines import plain_lines
from tests.kit.app_pilot import Driven
from tests.kit.project import Project
from tests.kit.user_settings import Setup
from tests.tui.test_real_session import calls, working


def told(t: Driven) -> str:
    last = t.app.controller.view.blocks[-1]
    assert isinstance(last, Notice)
    return last.text


async def test_a_session_is_told_renamed_written_down_and_copied(tmp_path: Path) -> None:
    read = calls("read", path="calc.py")
    async with working(tmp_path, {**read, "usage": {"input": 1200, "output": 40}}, {"text": "It subtracts."}) as t:
        for command in ("/rename It", "/fork", "/export"):
            await t.says(command)
        notices = [block.text for block in t.app.controller.view.blocks if isinstance(block, Notice)]
        assert [text.partition(":")[0] for text in notices] == [
            "Send a message first", "nothing to fork", "nothing to export",
        ]  # fmt: skip
        await t.says("what does it do?", shows="It subtracts.")
        await t.says("/rename  What it does ")
        screen = await t.opens("/cost", "status")
        rows = dict(re.split(" {2,}", line.strip(), maxsplit=1) for line in plain_lines(screen.panel.empty_details))
        first = t.session.id
        assert (rows["id"], rows["files"]) == (first, "no changes  /files")
        assert rows["requests"].startswith("2 requests")
        assert t.session.title == "What it does"
        await t.press("escape")
        await t.says("/export notes.md", shows="4 messages exported to")
        written = (tmp_path / "project" / "notes.md").read_text()
        assert (written.startswith("# What it does\n"), "**read** (done)" in written) == (True, True)
        await t.says("/export notes.md", shows="already exists")
        assert told(t) == f"`{tmp_path / 'project' / 'notes.md'}` already exists: choose another name"
        await t.says("/export talk.html")
        await t.until(lambda: "talk.html" in told(t))
        page = (tmp_path / "project" / "talk.html").read_text()
        assert (page.startswith("<!doctype html>"), "2 requests: " in page, "<b>read</b>" in page) == (True, True, True)
        await t.says("/fork", shows="this is a copy")
        assert told(t) == f"this is a copy; `/resume {first}` returns to the original"
        assert t.session.id != first


async def test_how_hard_the_model_thinks_is_changed_in_the_session(tmp_path: Path) -> None:
    setup = Setup(tmp_path / "own")
    async with Project(tmp_path) as opened:
        app = EbbApp(opened.sessions({"text": "ok"}, interactive=True), guard_s=0.0, settings=lambda: setup.settings)
        async with app.run_test(size=(80, 24)) as pilot:
            t = Driven(app, pilot)
            await t.rests()
            await t.says("hello", shows="ok")
            id = t.session.id
            await t.opens("/effort")
            await t.press("down", "down", "enter")
            await t.until(lambda: "reasoning_effort" in setup.written and not app.is_working)
            assert ('reasoning_effort = "low"' in setup.written, t.session.id) == (True, id)
            assert told(t).startswith("`agent.reasoning_effort` is now low, also in later sessions; ")
            await t.says("/effort enormous", shows="must be one of")


def test_a_conversation_is_written_down_without_its_secrets() -> None:
    key = "sk-ant-api03-0123456789abcdefghij"
    call = ToolCall("1", "bash", {"command": "env"})
    messages = (
        User((Text(f"my key is {key}"),)),
        Assistant((Reasoning("I look.", {}), Text("Look:"), call)),
        User((ToolOutput("1", f"KEY={key}\n```\nfence\n```\nhunter2pass", "done"),)),
    )
    session = readable_session_from_messages(SessionDetails("4f2a", "A  title", "m/a", cost=0.1), messages, (), ())
    written = "".join(render_chunks("md", session, {"MY_PASSWORD": "hunter2pass"}))
    assert written == (
        "# A title\n\n- session 4f2a\n- model m/a\n- cost $0.10\n"
        "\n## You\n\nmy key is ***\n\n## Model\n\n<details><summary>Thought</summary>\n\n"
        "I look.\n\n</details>\n\nLook:\n\n**bash** (done)\n\n```sh\nenv\n```\n\n"
        "````\nKEY=***\n```\nfence\n```\n***\n````\n"
    )
