"""The sessions of a project, of which a program may open several at once."""

import asyncio
import threading
from pathlib import Path

from ebbtide.agent.config.load import load_config
from ebbtide.agent.sessions import Sessions
from tests.kit.session import events_of


async def test_several_that_are_first_at_once_have_one_store(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"context_window": 32000, "reply": [{"text": "ok"}]}')
    environment = {"EBB_HOME": str(tmp_path / "home")}
    config = load_config(tmp_path, environment, {"agent.model": f"scripted/{script}"}, ())
    sessions = Sessions(config, tmp_path, environment, interactive=False)
    opened, recent = await asyncio.gather(asyncio.gather(*(sessions.open() for _ in range(5))), sessions.recent())
    assert len([each for each in threading.enumerate() if each.name.startswith("store")]) == 1
    assert recent == ()
    for session in opened:
        await events_of(session, "hi")
        await session.close()
    assert {info.id for info in await sessions.recent()} == {session.id for session in opened}
    await sessions.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("store")]
