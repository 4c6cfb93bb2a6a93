"""What holds for every built-in tool."""

import json
import subprocess
import sys

from ebbtide.agent.context.estimate import estimate_tools
from ebbtide.agent.context.tool_selection import ToolSpec, select_tools
from ebbtide.tools.base import Previews
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.schema import mismatches

SELDOM = ("edit_notebook", "web_search")
"""Those that only some sessions are offered."""


def test_all_tools_together_cost_few_tokens() -> None:
    usual = [tool for tool in builtin_tools() if tool.name not in SELDOM]
    specs = [ToolSpec(tool.name, tool.description, tool.schema) for tool in usual]
    assert (
        estimate_tools(select_tools(specs)) <= 2650
    )  # with 150 for `task`, whose agents are named when a session is made


def test_the_names_are_these() -> None:
    names = (
        "read write edit apply_patch edit_notebook bash bash_output bash_kill glob grep web_fetch web_search "
        "read_result recall todo compact_context ask_user task tool_search call_tool"
    )
    assert [tool.name for tool in builtin_tools()] == names.split()


def test_tools_that_write_can_show_it_before() -> None:
    names = [tool.name for tool in builtin_tools() if isinstance(tool, Previews)]
    assert names == ["write", "edit", "apply_patch", "edit_notebook"]


def test_every_schema_is_plain_json_and_takes_no_unknown_argument() -> None:
    for tool in builtin_tools():
        assert json.loads(json.dumps(tool.schema)) == tool.schema
        assert mismatches({"unheard_of": 1}, tool.schema)


def test_the_catalog_loads_no_library() -> None:
    code = "import sys, ebbtide.tools.catalog; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ["rapidfuzz", "charset_normalizer", "jsonschema_rs", "pathspec", "difflib"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
