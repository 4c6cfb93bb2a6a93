"""What an overview tells of a session that is open: real files, a scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.test_resume import Desk, say


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    await made.close()


async def test_instructions_memories_and_skills_are_shown_by_themselves(desk: Desk) -> None:
    (desk.root / "AGENT.md").write_text("Use tabs. " * 50)
    user = desk.sessions()._config.folders.config
    (user / "skills" / "deploy").mkdir(parents=True)
    (user / "memory.md").write_text("The user likes short answers.\n")
    (user / "skills" / "deploy" / "SKILL.md").write_text(
        "---\nname: deploy\ndescription: How to deploy.\n---\nPush it.\n"
    )
    session = await desk.session({"text": "Done."})
    await say(session, "go")
    overview = await desk.opened[-1].overview(session.id)
    names = [number.name for number in overview.components]
    assert names[:5] == ["system", "instructions", "memories", "skills", "tools"]
    await session.close()


async def test_the_window_that_an_overflow_has_shown_is_the_one_that_is_told(desk: Desk) -> None:
    session = await desk.session({"text": "long " * 20_000}, {"error": "overflow"}, {"text": "fine"})
    await say(session, "go")
    await say(session, "on")
    overview = await desk.opened[-1].overview(session.id)
    assert (overview.window.source, overview.window.tokens < 200_000) == ("overflow", True)
    assert overview.effective < overview.window.tokens
    await session.close()
