"""A session that is resumed shows how its turns ended, as it did before."""

from pathlib import Path

from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.tui.view.blocks import Block, Failure, Notice, TurnTotal, UserText
from tests.kit.app_pilot import Driven
from tests.tui.test_real_session import Reply, calls, working


def outcomes(t: Driven) -> list[Block]:
    """What the user said, and how each turn ended, without what it took."""
    blocks_now = [
        block for block in t.app.controller.view.blocks if isinstance(block, UserText | Failure | Notice | TurnTotal)
    ]
    return [
        TurnTotal(files=block.files, is_interrupted=block.is_interrupted) if isinstance(block, TurnTotal) else block
        for block in blocks_now
    ]


async def test_a_resumed_session_shows_failures_interruptions_and_changes(tmp_path: Path) -> None:
    edit = calls("edit", path="calc.py", old="a - b", new="a + b")
    replies: tuple[Reply, ...] = (
        calls("read", path="calc.py"), edit, {"text": "Done."},
        calls("bash", command="touch made; echo started; sleep 600"),
        {"error": "auth"},
        {"text": "Better."},
    )  # fmt: skip
    async with working(tmp_path, *replies) as t:
        await t.type("change it", asks=PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        await t.type("run it", asks=PermissionAsked)
        await t.press("y", shows="│ started")
        await t.press("escape")
        await t.rests()
        await t.type("go on")
        await t.rests()
        await t.type("again", shows="Better.")
        await t.rests()
        session, before = t.session.id, outcomes(t)
    kinds = [type(block).__name__ for block in before if block != TurnTotal()]
    changed = ["UserText", "TurnTotal"], ["UserText", "TurnTotal"], ["UserText", "Failure"], ["UserText"]
    assert kinds == [kind for turn in changed for kind in turn]
    async with working(tmp_path, resume=session) as t:
        *again, news = outcomes(t)
        assert again == [block for block in before if block != TurnTotal()]
        assert news == Notice("1 file changed on disk since you left")  # it is written anew
