"""Which tool a call is for."""

import json

import pytest

from ebbtide.agent.calls.call_resolution import require_tool, unwrap_deferred_call
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Tool, ToolError
from ebbtide.tools.call_arguments.schema import object_schema
from ebbtide.tools.catalog import create_builtin_tools
from tests.kit.server_tools import Served, served_tools

GREET = Served("mcp__a__greet", "Greets somebody.", object_schema({"who": {"type": "string"}}, ("who",)))
TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*create_builtin_tools(), GREET, *served_tools())}


def through(name: str, arguments: object) -> ToolCall:
    return ToolCall("c1", "call_tool", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("call", [ToolCall("c1", GREET.name, {"who": "A"}), through(GREET.name, {"who": "A"})])
def test_a_tool_that_is_held_back_is_called_by_its_name_or_through_another(call: ToolCall) -> None:
    inner = unwrap_deferred_call(call, TOOLS)
    assert inner == ToolCall("c1", GREET.name, {"who": "A"})
    assert require_tool(inner, TOOLS) is GREET


@pytest.mark.parametrize("name", ["read", "call_tool", "tool_search"])
def test_a_built_in_tool_is_not_called_through_another(name: str) -> None:
    assert unwrap_deferred_call(through(name, {}), TOOLS) == through(name, {})


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("mcp__a__gret", "there is no tool `mcp__a__gret`; did you mean `mcp__a__greet`"),
        ("Read", "there is no tool `Read`; did you mean `read` or `recall`?"),
        ("newInvoice", "there is no tool `newInvoice`; did you mean `mcp__chat__create_invoice` or "),
        ("zebra", "there is no tool `zebra`; the tools are read, write, "),
        ("use_my_tools", "there is no tool `use_my_tools`; the tools are read, write, "),
        ("***", "there is no tool `***`; the tools are read, write, "),
    ],
)
def test_a_name_that_no_tool_has_is_answered_with_those_like_it(name: str, problem: str) -> None:
    with pytest.raises(ToolError) as raised:
        require_tool(unwrap_deferred_call(through(name, {}), TOOLS), TOOLS)
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("name", "arguments", "meant"),
    [
        ("append", {"file": "a", "text": "b"}, "`write`"),
        ("modify_function", {"file_path": "a", "search": "b", "replace": "c"}, "`edit`"),
        ("unzip", {"command": "unzip a"}, "`bash`"),
        ("deploy", {"target": "x"}, ""),
        ("lock", {"path": "a"}, ""),
    ],
)
def test_a_name_that_is_like_none_is_answered_with_the_tool_that_takes_these_arguments(
    name: str, arguments: dict[str, object], meant: str
) -> None:
    with pytest.raises(ToolError) as raised:
        require_tool(ToolCall("c1", name, arguments), TOOLS)
    suggestion = f"; did you mean {meant}?" if meant else "; the tools are read, write, "
    assert str(raised.value).startswith(f"there is no tool `{name}`{suggestion}")


def test_wrong_arguments_for_a_tool_that_may_be_held_back_are_answered_with_its_schema() -> None:
    with pytest.raises(ToolError) as raised:
        require_tool(unwrap_deferred_call(through(GREET.name, {"whom": "A"}), TOOLS), TOOLS)
    assert "the arguments of `mcp__a__greet` are invalid" in str(raised.value)
    assert str(raised.value).endswith(f"Its schema is {json.dumps(GREET.schema)}")


def test_a_call_without_a_name_is_refused_for_its_own_schema() -> None:
    with pytest.raises(ToolError, match="the arguments of `call_tool` are invalid"):
        require_tool(unwrap_deferred_call(ToolCall("c1", "call_tool", {"arguments": {}}), TOOLS), TOOLS)
