"""What holds for every built-in tool."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.tools.costs import cost_lines
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.tools.base import SupportsPreview, ToolSupport
from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.catalog import create_builtin_tools, create_rare_tools
from ebbtide.tools.tool_traits import DEFAULT_TRAITS, builtin_traits, traits_of
from tests.kit.commands import command, environment
from tests.kit.fake_provider import FakeProvider, Turn

MAX_FIRST_REQUEST = 3_700
"""Maximum estimated tokens of the system prompt and the tools of an ordinary session: 2,300 of `o200k_base`, by which
the estimate for an unknown tokenizer is 1.6 times too high here."""
DEFER = (
    "the first request is too large. Defer a tool that few sessions need (`kind` is `rare`, and its place is in "
    "`RARE_TOOL_LOCATIONS`), offer it only where it is useful (`is_useful` of its traits), or shorten its text"
)


def test_the_first_request_of_an_ordinary_session_is_small(tmp_path: Path) -> None:
    with FakeProvider([Turn(text="hi")]) as server:
        urls = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        run = command("-p", "hi", "-m", "anthropic/claude-haiku-5-5")
        subprocess.run(run, env=environment(tmp_path, urls), cwd=tmp_path, stdin=subprocess.DEVNULL, check=True)
        first = server.requests[0].body
    parts = (json.dumps(first[name], ensure_ascii=False, separators=(",", ":")) for name in ("system", "tools"))
    tokens = estimate_text("".join(parts))
    costs = "\n".join(cost_lines((*create_builtin_tools(), *create_rare_tools(ToolSupport()))))
    assert tokens <= MAX_FIRST_REQUEST, f"{DEFER}. Estimated tokens of each tool:\n{costs}"


def test_the_order_of_the_tools_stays() -> None:
    names = (
        "read write edit apply_patch edit_notebook bash bash_output bash_kill glob grep web_fetch web_search "
        "read_result recall todo compact_context ask_user task tool_search call_tool"
    )
    usual = names.split()
    assert [tool.name for tool in create_builtin_tools() if tool.name in usual] == usual


def test_names_are_unique_and_their_traits_are_found() -> None:
    tools = (*create_builtin_tools(), *create_rare_tools(ToolSupport()))
    assert len({tool.name for tool in tools}) == len(tools)
    assert {tool.name for tool in tools} <= {*builtin_traits()}
    assert traits_of("mcp__tracker__list") == DEFAULT_TRAITS


def test_stubs_name_arguments_that_their_tools_have() -> None:
    for tool in create_builtin_tools():
        named = set(re.findall(r"\{(\w+)\}", traits_of(tool.name).stub_template)) - {"folder", "files"}
        properties = tool.schema["properties"]
        assert isinstance(properties, Mapping)
        assert named <= {*properties}


def test_tools_that_write_can_show_it_before() -> None:
    names = [tool.name for tool in create_builtin_tools() if isinstance(tool, SupportsPreview)]
    assert names == ["write", "edit", "apply_patch", "edit_notebook"]


def test_every_schema_is_plain_json_and_takes_no_unknown_argument() -> None:
    for tool in create_builtin_tools():
        assert json.loads(json.dumps(tool.schema)) == tool.schema
        assert schema_violations({"unheard_of": 1}, tool.schema)


def test_the_catalog_loads_no_library() -> None:
    code = "import sys, ebbtide.tools.catalog; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ["rapidfuzz", "charset_normalizer", "jsonschema_rs", "pathspec", "difflib"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
