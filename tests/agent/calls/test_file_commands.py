"""Calls of tools for files that other agents have, and small models make up, as the commands that do the same."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.calls.call_resolution import is_callable_name, require_tool, resolve_calls
from ebbtide.agent.calls.file_commands import find_equivalent_command
from ebbtide.agent.messages import Assistant, ToolCall
from ebbtide.tools.base import Tool, ToolError
from ebbtide.tools.catalog import create_builtin_tools

TOOLS: dict[str, Tool] = {tool.name: tool for tool in create_builtin_tools()}


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("mkdir", {"path": "logs/new"}, "mkdir -p logs/new"),
        ("create_directory", {"directory_path": "a b", "exist_ok": True}, "mkdir -p 'a b'"),
        ("touch", {"path": "logs/.keep"}, "touch logs/.keep"),
        ("rename", {"path": "./notes.txt", "new": "journal.txt"}, "mv -n ./notes.txt ./journal.txt"),
        ("rename_file", {"old_path": "src/a.py", "new_name": "b.py"}, "mv -n src/a.py src/b.py"),
        ("move_file", {"source": "src/a.py", "destination": "b.py"}, "mv -n src/a.py b.py"),
        ("functions.delete_file", {"target_file": "-x"}, "rm ./-x"),
        ("remove", {"path": "old", "recursive": True}, "rm -r old"),
        ("copy", {"from": "a", "to": "b"}, "cp -r a b"),
        ("run_python", {"code": "print('a')"}, "python3 -c 'print('\"'\"'a'\"'\"')'"),
        ("read_many_files", {"paths": ["a.py", "b c"]}, "head -n 2000 a.py 'b c'"),
        ("read_files", {"files": "a.py"}, "head -n 2000 a.py"),
        ("read_many_files", {"paths": ["src/*.py"]}, None),
        ("read_many_files", {"paths": ["a"], "exclude": ["b"]}, None),
        ("read_many_files", {"paths": [1]}, None),
        ("rename", {"old_name": "f", "new_name": "g", "file_path": "m.py"}, None),
        ("delete", {"key": "a"}, None),
        ("delete", {"path": ["a", "b"]}, None),
        ("mkdir", {"path": ""}, None),
        ("append_file", {"path": "a", "text": "b", "position": 3}, None),
        ("deploy", {"path": "a"}, None),
    ],
)
def test_a_call_is_the_command_that_does_the_same(name: str, arguments: dict[str, Any], command: str | None) -> None:
    assert find_equivalent_command(name, arguments) == command


@pytest.mark.parametrize("before", [None, "", "milk\n", "milk"])
def test_what_is_appended_is_a_line_of_its_own(before: str | None, tmp_path: Path) -> None:
    if before is not None:
        (tmp_path / "to do").write_text(before)
    command = find_equivalent_command("append_to_file", {"file_path": "to do", "content": "it's %s\\n\n"})
    assert command is not None
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert (tmp_path / "to do").read_text() == ("milk\n" if before else "") + "it's %s\\n\n"


def test_the_command_is_decided_about_and_the_model_is_told_of_it() -> None:
    wanted = ToolCall("c1", "mkdir", {"path": "logs"}, '{"path": "logs"}')
    (call,) = resolve_calls(Assistant((wanted,)), TOOLS, ("bash",), "/home/me").calls
    assert (call.name, call.called, call.arguments) == ("bash", "mkdir", {"command": "mkdir -p logs"})
    assert call.note == "[There is no tool `mkdir`: `bash` ran this command instead: mkdir -p logs]"
    assert is_callable_name("mkdir", {"path": "logs"}, TOOLS, ("bash",))
    assert not is_callable_name("mkdir", {"path": "logs"}, TOOLS, ("read",))
    without_bash = {name: tool for name, tool in TOOLS.items() if name != "bash"}
    (left,) = resolve_calls(Assistant((wanted,)), without_bash, tuple(without_bash), "/home/me").calls
    with pytest.raises(ToolError, match="there is no tool `mkdir`"):
        require_tool(left, without_bash)


def test_arguments_that_mean_something_else_are_answered_with_the_command() -> None:
    wanted = ToolCall("c1", "rename", {"old_name": "f", "new_name": "g", "file_path": "m.py"})
    (call,) = resolve_calls(Assistant((wanted,)), TOOLS, ("bash",), "/home/me").calls
    assert call.problem == "there is no such tool: run `mv` with `bash`"
