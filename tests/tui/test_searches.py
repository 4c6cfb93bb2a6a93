"""Searches of a provider in the tools that are held back are told, whichever provider it is."""

from ebbtide.agent.events.session import ToolsFound
from ebbtide.agent.messages import Assistant, ProviderItem, Text
from ebbtide.agent.providers.stream import found_tool_names
from ebbtide.tui.view.blocks import Notice, SessionView
from ebbtide.tui.view.reduce import apply_event

NAMESPACE = {"type": "namespace", "name": "forge", "tools": [{"type": "function", "name": "b"}, {"name": 7}]}


def test_what_each_search_has_found_is_known() -> None:
    reply = Assistant(
        (
            ProviderItem({"type": "server_tool_use", "name": "tool_search_tool_bm25"}),
            ProviderItem({"type": "tool_search_tool_result", "content": {}}, ("mcp__forge__echo",)),
            Text("I call it."),
            ProviderItem({"type": "tool_search_call"}),
            ProviderItem({"type": "tool_search_output", "tools": [{"type": "function", "name": "a"}, NAMESPACE, "?"]}),
            ProviderItem({"type": "tool_search_output", "tools": None}),
        ),
        "a/b",
    )
    assert tuple(found_tool_names(reply)) == (("mcp__forge__echo",), ("a", "b"), ())


def test_a_search_is_one_line() -> None:
    many = tuple(f"t{n}" for n in range(9))
    view = apply_event(apply_event(apply_event(SessionView(), ToolsFound(("a",))), ToolsFound(())), ToolsFound(many))
    assert view.turn_blocks == (
        Notice("tool search: found `a`"),
        Notice("tool search: nothing found"),
        Notice("tool search: found `t0`, `t1`, `t2`, `t3`, `t4`, `t5` and 3 more"),
    )
