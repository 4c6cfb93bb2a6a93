"""Calls in Claude Code's words, and back."""

from collections.abc import Mapping

import pytest

from ebbtide.agent.hooks.tool_names import ClaudeToolCall, to_claude_calls
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.call_arguments.foreign_calls import translate_arguments
from ebbtide.tools.catalog import create_builtin_tools

PATCH = """*** Begin Patch
*** Add File: new.py
+x = 1
*** Update File: old.py
*** Move to: .env
@@
-a
+b
*** Delete File: gone.py
*** End Patch"""


def view(tool: str, **arguments: object) -> tuple[str, Mapping[str, object]]:
    (found,) = to_claude_calls(ToolCall("1", tool, arguments), "/home/me/app")
    return found.name, found.input


CASES: list[tuple[str, dict[str, object], str, dict[str, object]]] = [
    ("bash", {"command": "ls", "timeout": 30, "background": True}, "Bash",
     {"command": "ls", "timeout": 30_000, "run_in_background": True}),
    ("read", {"path": "a.txt", "offset": 3}, "Read", {"file_path": "/home/me/app/a.txt", "offset": 3}),
    ("write", {"path": "/etc/x", "content": "y"}, "Write", {"file_path": "/etc/x", "content": "y"}),
    ("edit", {"path": "./b/../a", "old": "1", "new": "2", "replace_all": True}, "Edit",
     {"file_path": "/home/me/app/a", "old_string": "1", "new_string": "2", "replace_all": True}),
    ("grep", {"pattern": "x", "ignore_case": True, "mode": "files", "limit": 5, "context": 2}, "Grep",
     {"pattern": "x", "-i": True, "output_mode": "files_with_matches", "head_limit": 5, "-C": 2}),
    ("grep", {"pattern": "x"}, "Grep", {"pattern": "x"}),
    ("glob", {"pattern": "*.py", "path": "src"}, "Glob", {"pattern": "*.py", "path": "/home/me/app/src"}),
    ("web_fetch", {"url": "https://a.b"}, "WebFetch", {"url": "https://a.b"}),
    ("web_search", {"query": "q"}, "WebSearch", {"query": "q"}),
    ("todo", {"items": [{"text": "a", "status": "doing"}]}, "TodoWrite",
     {"todos": [{"content": "a", "status": "in_progress", "activeForm": "a"}]}),
    ("edit_notebook", {"path": "n.ipynb", "action": "replace", "cell": 2, "source": "x"}, "NotebookEdit",
     {"notebook_path": "/home/me/app/n.ipynb", "edit_mode": "replace", "cell_id": 2, "new_source": "x"}),
    ("mcp__forge__search", {"path": "x"}, "mcp__forge__search", {"path": "x"}),
    ("recall", {"query": "x"}, "recall", {"query": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "ours", "name", "theirs"), CASES)
def test_a_call_is_told_in_their_words(
    tool: str, ours: dict[str, object], name: str, theirs: dict[str, object]
) -> None:
    assert view(tool, **ours) == (name, theirs)


@pytest.mark.parametrize(("tool", "ours", "name", "theirs"), [case for case in CASES if case[0][:3] != "mcp"])
def test_what_is_told_means_the_same_call_on_its_way_back(
    tool: str, ours: dict[str, object], name: str, theirs: dict[str, object]
) -> None:
    properties = {each.name: each.schema["properties"] for each in create_builtin_tools()}[tool]
    assert isinstance(properties, Mapping)
    back = translate_arguments(tool, name, theirs, tuple(properties), "/home/me/app")
    paths = {"path": theirs.get("file_path") or theirs.get("notebook_path") or theirs.get("path")}
    assert back == {**ours, **({"path": paths["path"]} if "path" in ours else {})}


def test_each_file_of_a_patch_is_told_as_an_edit_of_its_own() -> None:
    root = "/home/me/app"
    assert to_claude_calls(ToolCall("1", "apply_patch", {"patch": PATCH}), root) == (
        ClaudeToolCall(
            "Write", {"file_path": f"{root}/new.py", "content": "x = 1\n"}, is_complete=False, our_name="apply_patch"
        ),
        ClaudeToolCall(
            "Edit",
            {"file_path": f"{root}/old.py", "old_string": "a", "new_string": "b"},
            ("MultiEdit",),
            is_complete=False,
            our_name="apply_patch",
        ),
        ClaudeToolCall(
            "Write", {"file_path": f"{root}/.env", "content": "b"}, is_complete=False, our_name="apply_patch"
        ),
        ClaudeToolCall(
            "Edit",
            {"file_path": f"{root}/gone.py", "old_string": "", "new_string": ""},
            ("MultiEdit",),
            is_complete=False,
            our_name="apply_patch",
        ),
    )
    assert view("apply_patch", patch="nonsense") == ("apply_patch", {"patch": "nonsense"})
