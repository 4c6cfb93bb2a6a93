"""The model's list: found in what is shown, told in a line while it works, and opened."""

from typing import Any

import pytest

from ebbtide.agent.control_calls import TodoItem
from ebbtide.agent.events.session import ToolFinished, ToolStarted, TurnFinished
from ebbtide.agent.messages import Assistant, Conversation, ToolCall, ToolOutput, User
from ebbtide.tui.view.blocks import Call, UserText
from ebbtide.tui.view.todos import format_summary, todo_lines, todos_from_blocks
from ebbtide.tui.widgets.todos import TodoLine
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession, Hold

ITEMS: list[dict[str, str]] = [
    {"text": "read the parser", "status": "done"},
    {"text": "mend the parser", "status": "doing"},
    {"text": "run the tests", "status": "pending"},
]
READ, MEND, RUN = (TodoItem(item["text"], item["status"]) for item in ITEMS)


def kept(arguments: dict[str, Any], status: Any = "done") -> Call:
    return Call("1", "todo", arguments, status)


def test_the_last_list_that_was_kept_is_the_list() -> None:
    blocks = (kept({"items": ITEMS[:1]}), kept({"items": ITEMS}), UserText("go on"), kept({"items": []}, "failed"))
    assert todos_from_blocks(blocks) == (READ, MEND, RUN)
    assert todos_from_blocks((UserText("hi"),)) is None


@pytest.mark.parametrize("items", [None, 7, "text", [3, {"text": 4}], [{}]])
def test_whatever_a_model_wrote_is_a_list(items: object) -> None:
    found = todos_from_blocks((kept({"items": items}),))
    assert found is not None
    assert all(isinstance(item, TodoItem) for item in found)
    assert len(todo_lines(found)) == len(found)
    format_summary(found)


@pytest.mark.parametrize(
    ("items", "summary"),
    [
        ((READ, MEND, RUN), "1 of 3 done · mend the parser"),
        ((READ, RUN), "1 of 2 done · run the tests"),
        ((READ,), ""),
        ((), ""),
        ((TodoItem("a\x1b[31m\nb", "doing"),), "0 of 1 done · a␛[31m b"),
    ],
)
def test_the_line_tells_where_it_stands(items: tuple[TodoItem, ...], summary: str) -> None:
    assert format_summary(items) == summary


async def test_the_line_is_there_while_something_is_done() -> None:
    hold = Hold()
    call = ToolStarted("1", "todo", {"items": ITEMS}), ToolFinished("1", "todo", "done", "list kept")
    async with terminal(FakeSession([[*call, hold, TurnFinished("answered", "")]])) as t:
        line = t.app.query_one(TodoLine)
        assert not line.display
        await t.type("mend it", until=lambda: line.display)
        assert str(line.render()) == "■ 1 of 3 done · mend the parser  F3 show all"
        await t.press("f3", lists="todos")
        await t.pilot.press("escape")
        hold.event.set()
        await t.rests()
        await t.until(lambda: not line.display)


async def test_without_a_list_it_is_said() -> None:
    async with terminal(FakeSession()) as t:
        await t.type("/todos", shows="No to-do list yet")


async def test_the_list_of_a_session_that_goes_on_is_found() -> None:
    reply = Assistant((ToolCall("1", "todo", {"items": ITEMS}),), "a/b")
    message = User((ToolOutput("1", "kept"),))
    async with terminal(FakeSession(history=Conversation((reply, message)))) as t:
        await t.type("/todos", lists="todos")
