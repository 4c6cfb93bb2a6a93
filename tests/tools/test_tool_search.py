"""Tools that are held back are found by what they are for, and shown so that they can be called."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide.tools.base import Tool, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import object_schema
from ebbtide.tools.call_tool import CallTool
from ebbtide.tools.tool_search import MAX_ANSWER_CHARS, ToolSearch, search_tools
from tests.kit.server_tools import DEEDS, THINGS, Served, served_tools


async def answered(workspace: Workspace, query: str, tools: Sequence[Tool]) -> str:
    result = await ToolSearch().run({"query": query}, replace(workspace, get_deferred_tools=lambda: tools))
    return result.text


def test_each_of_sixty_tools_is_found_by_what_it_does() -> None:
    tools = served_tools()
    missed = [
        f"{deed} {thing}"
        for deed in DEEDS
        for thing in THINGS
        if not any(f"__{deed}_{thing}" in tool.name for tool in search_tools(f"I want to {deed} a {thing}", tools))
    ]
    assert missed == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("mcp__b", "mcp__b"),
        ("deleting branches", "mcp__forge__delete_branch"),
        ("who is the assignee", "listIssues"),
        ("issue list", "listIssues"),
        ("面板", "grafana"),
        ("nested parameter", "deep"),
    ],
)
def test_a_name_a_word_in_any_form_and_a_parameter_find_a_tool(query: str, found: str) -> None:
    inner = {"type": "array", "items": object_schema({"nested_parameter": {"type": "string"}}, ())}
    tools = (
        Served("mcp__a", "Says mcp__b."),
        Served("mcp__b", "Does nothing."),
        Served("mcp__forge__delete_branch", "Removes a line of work."),
        Served("listIssues", "Shows them.", object_schema({"assignee": {"type": "string"}}, ())),
        Served("grafana", "显示 面板"),
        Served("deep", "Has much to say.", object_schema({"outer": inner}, ())),
    )
    assert search_tools(query, tools)[0].name == found


async def test_what_is_found_is_shown_with_description_and_schema(workspace: Workspace) -> None:
    tools = (Served("mcp__a__greet", "Greets somebody."), Served("mcp__a__part", "Says good-bye."))
    schema = json.dumps(tools[0].schema)
    assert await answered(workspace, "greet", tools) == f"## mcp__a__greet\nGreets somebody.\n{schema}"


@pytest.mark.parametrize("query", ["tools", "can you use the tool", "*", ""])
def test_a_query_that_says_nothing_finds_nothing(query: str) -> None:
    assert search_tools(query, served_tools()) == ()


async def test_a_search_that_finds_nothing_names_what_there_is(workspace: Workspace) -> None:
    tools = (Served("mcp__a__greet", "Greets somebody."), Served("mcp__a__part", "Says good-bye."))
    assert await answered(workspace, "zebra", tools) == (
        "none of the 2 deferred tools matches `zebra`; try other words, or a part of a name. "
        "They are: mcp__a__greet, mcp__a__part"
    )
    assert await answered(workspace, "zebra", ()) == "no tools are deferred: all of them are in your list"


async def test_an_answer_is_bounded_whatever_the_tools_say_of_themselves(workspace: Workspace) -> None:
    huge = object_schema({f"parameter_{n}": {"description": "x" * 1000} for n in range(5000)}, ())
    tools = [Served(f"mcp__{n}", "find me " * 10_000, huge) for n in range(5)]
    text = await answered(workspace, "find", tools)
    assert len(text) <= MAX_ANSWER_CHARS + 200
    assert text.startswith("## mcp__0\nfind me ")
    assert "parameters: parameter_0, parameter_1" in text
    assert text.endswith("[3 more matched: search for something narrower to see them]")


async def test_a_tool_in_the_list_is_called_by_its_own_name(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="`read` is in your list of tools"):
        await CallTool().run({"name": "read", "arguments": {}}, workspace)
