"""todo and ask_user, and the schemas that guard every tool."""

from dataclasses import replace

import pytest

from ebbtide.tools.ask_user import AskUser
from ebbtide.tools.base import Result, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import validate_arguments
from ebbtide.tools.todo import Todo


async def test_a_list_is_confirmed_with_counts(workspace: Workspace) -> None:
    items = [{"text": name, "status": status} for name, status in [("a", "done"), ("b", "doing"), ("c", "pending")]]
    assert await Todo().run({"items": items}, workspace) == Result("list saved: 1 done, 1 doing, 1 pending")
    assert await Todo().run({"items": []}, workspace) == Result("list saved: it is empty")


async def test_notes_are_kept_while_they_are_short(workspace: Workspace) -> None:
    assert await Todo().run({"items": [], "notes": "port 80"}, workspace) == Result(
        "list saved: it is empty; notes saved"
    )
    assert await Todo().run({"items": [], "notes": ""}, workspace) == Result("list saved: it is empty; notes cleared")
    with pytest.raises(ToolError, match="the notes have 4,001 characters: shorten them to 4,000"):
        await Todo().run({"items": [], "notes": "x" * 4001}, workspace)


async def test_only_one_item_is_being_done(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="2 items are `doing`: only one may be"):
        await Todo().run({"items": [{"text": "a", "status": "doing"}] * 2}, workspace)


async def test_the_user_is_asked(workspace: Workspace) -> None:
    async def ask(question: str, options: tuple[str, ...]) -> str:
        return f"{question} {options[0]}"

    asked = {"question": "which?", "options": ["this", "that"]}
    assert await AskUser().run(asked, replace(workspace, ask=ask)) == Result("which? this")
    with pytest.raises(ToolError, match="no user is present"):
        await AskUser().run(asked, workspace)

    async def ask_for_several(question: str, options: tuple[str, ...]) -> str:
        return "\n".join(options)

    there = replace(workspace, ask=ask, ask_multiple=ask_for_several)
    assert await AskUser().run({**asked, "several": True}, there) == Result("this\nthat")
    assert await AskUser().run({**asked, "several": False}, there) == Result("which? this")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ToolError, match=r"`items\.0\.status`"):
        validate_arguments({"items": [{"text": "a", "status": "later"}]}, Todo().schema, "todo")
