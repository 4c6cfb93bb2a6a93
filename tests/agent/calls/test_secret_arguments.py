"""Secrets in whole sessions: what a model is shown of them, and what becomes of what it writes."""

from functools import partial
from pathlib import Path
from typing import Any

from ebbtide.agent.events.session import ToolFinished
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.token_key import KEY_FILE, load_or_create_token_key
from ebbtide.agent.session import Session
from tests.kit.mcp_project import McpProject, say
from tests.kit.session import call, finished
from tests.tools.secrets.test_key_formats import KEYS, LETTERS

KEY = KEYS["stripe-key"]
OURS = "sk-0-" + LETTERS


def tokens_of(project: McpProject) -> SecretTokens:
    """Those that its sessions show."""
    return SecretTokens(project.environment, partial(load_or_create_token_key, project.home / "data" / KEY_FILE))


def asked_of(session: Session) -> str:
    """All that was ever sent to the model."""
    provider = session._ctx.model.provider
    assert isinstance(provider, ScriptedProvider)
    return "\n".join(map(repr, provider.requests))


async def test_a_model_sees_tokens_and_files_get_what_they_stand_for(tmp_path: Path) -> None:
    project = McpProject(tmp_path)
    project.environment["OPENAI_API_KEY"] = OURS
    (project.root / "pay.py").write_text(f"KEY = '{KEY}'\nOURS = '{OURS}'\nold = 1\n")
    (project.root / "AGENT.md").write_text(f"Our key is {KEY}.\n")
    long = "\n".join([*(f"line {number}" for number in range(2000)), f"key {KEY}"])
    (project.root / "long.txt").write_text(long)
    token, ours = (tokens_of(project).hide(each) for each in (KEY, OURS))
    steps: list[dict[str, Any]] = [
        {"calls": [call("read", path="pay.py")]},
        {"calls": [call("edit", path="pay.py", old_string=f"'{token}'\nOURS", new_string=f"'{token}'\n# ours\nOURS")]},
        {"calls": [call("write", path="b.py", content=f"A = '{token}', '{ours}'\n")]},
        {"calls": [call("bash", command=f"echo '{token}' > c.txt")]},
        {"calls": [call("bash", command="cat long.txt pay.py | tail -n 3")]},
        {"calls": [call("write", path="d.py", content="⟦secret:jwt#012345⟧")]},
        {"calls": [call("bash", command="cat long.txt")]},
        {"calls": [call("read_result", ref_id="r7", pattern="key")]},
        {"text": "done"},
    ]
    session = await project.open(*steps)
    events = await say(session, f"use {KEY}")
    sent, results = asked_of(session), repr([event for event in events if isinstance(event, ToolFinished)])
    assert (KEY in sent, OURS in sent, KEY in results, OURS in results) == (False, False, False, False)
    assert f"use {token}" in sent
    assert (project.root / "pay.py").read_text() == f"KEY = '{KEY}'\n# ours\nOURS = '{OURS}'\nold = 1\n"
    assert (project.root / "b.py").read_text() == f"A = '{KEY}', '{OURS}'\n"
    assert [status for _, status, _ in finished(events)] == ["done"] * 3 + ["failed", "done", "failed", "done", "done"]
    assert not (project.root / "c.txt").exists()
    assert not (project.root / "d.py").exists()
    assert f"key {token}" in finished(events)[-1][2]
    await session.close()
    again = await project.open(
        {"calls": [call("write", path="e.py", content=token)]}, {"text": "ok"}, resume=session.id
    )
    await say(again)
    assert (KEY in asked_of(again), (project.root / "e.py").read_text()) == (False, KEY)
    await again.close()
    await project.close()


async def test_the_preview_of_a_change_shows_no_secret(tmp_path: Path) -> None:
    project = McpProject(tmp_path)
    token = tokens_of(project).hide(KEY)
    (project.root / "pay.py").write_text(f"KEY = '{KEY}'\nold = 1\n")
    steps: list[dict[str, Any]] = [
        {"calls": [call("read", path="pay.py")]},
        {"calls": [call("edit", path="pay.py", old_string=f"{token}'\nold = 1", new_string=f"{token}'\nold = 2")]},
        {"text": "done"},
    ]
    sessions = project.sessions(*steps, interactive=True, settings=("agent.permission_mode=ask",))
    sessions.config = project.config(model=f"scripted/{tmp_path / 'script.json'}")
    session = await sessions.open()
    events = await say(session)
    assert KEY not in repr(events)
    assert f"KEY = '{token}'" in repr(events)
    assert (project.root / "pay.py").read_text() == f"KEY = '{KEY}'\nold = 2\n"
    await project.close()
