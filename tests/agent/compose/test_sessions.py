"""The sessions of a project, of which a program may open several at once."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from ebbtide.agent.budget.prefix import Breakpoints
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires.anthropic import build_body
from ebbtide.store.session_rows import UsageRow
from tests.kit.session import events_of


async def test_several_that_are_first_at_once_have_one_store(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"context_window": 32000, "reply": [{"text": "ok"}]}')
    environment = {"EBB_HOME": str(tmp_path / "home")}
    config = load_config(tmp_path, environment, {"agent.model": f"scripted/{script}"}, ())
    sessions = ProjectSessions(config, tmp_path, environment, is_interactive=False)
    opened, recent = await asyncio.gather(
        asyncio.gather(*(sessions.open() for _ in range(5))), sessions.recent_sessions()
    )
    assert len([each for each in threading.enumerate() if each.name.startswith("store")]) == 1
    assert recent == ()
    for session in opened:
        await events_of(session, "hi")
        await session.close()
    assert {info.id for info in await sessions.recent_sessions()} == {session.id for session in opened}
    await sessions.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("store")]


PAUSELESS = [UsageRow("anthropic/claude-haiku-4-5", "step", 0, 9000, 1000, 10, None, 20.0 * n) for n in range(300)]
"""Requests between which the model worked on its own."""


@pytest.mark.parametrize(
    ("setting", "interactive", "earlier", "mark"),
    [
        ("auto", True, [], {"ttl": "1h"}),
        ("auto", True, PAUSELESS, {"ttl": "5m"}),
        ("auto", False, [], {}),
        ("5m", True, [], {"ttl": "5m"}),
        ("1h", True, PAUSELESS, {"ttl": "1h"}),
    ],
)
async def test_anthropic_is_asked_for_the_lifetime_that_costs_least(
    tmp_path: Path, setting: str, interactive: bool, earlier: list[UsageRow], mark: dict[str, str]
) -> None:
    environment = {"EBB_HOME": str(tmp_path / "home"), "ANTHROPIC_API_KEY": "key"}
    flags = {"agent.model": "anthropic/claude-haiku-4-5", "agent.cache_lifetime": setting}
    sessions = ProjectSessions(
        load_config(tmp_path, environment, flags, ()), tmp_path, environment, is_interactive=interactive
    )
    session = await sessions.open()
    thread, store = await sessions._open_store()
    await thread.run(store.create, sessions._new_row("m", "past"))
    await thread.run(partial(store.write, "past", usage=earlier))
    await session.close()
    session = await sessions.open()
    facts = sessions._contexts[session.id].model.facts
    await session.close()
    await sessions.close()
    request = Request("Be brief.", (User((Text("hi"),)),), (), 100, session.id, breakpoints=Breakpoints(system=(9,)))
    (block,) = build_body(request, facts)["system"]
    assert block["cache_control"] == {"type": "ephemeral"} | mark
    assert facts.prices is not None
    assert facts.prices.cache_write == (2.0 if mark.get("ttl") == "1h" else 1.25)
    assert facts.cache_ttl == (3600.0 if mark.get("ttl") == "1h" else 300.0)
