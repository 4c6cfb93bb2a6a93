"""Calls as models write them that were trained with other agents: which call of ours runs, or what they are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.calls.call_resolution import require_tool, resolve_calls
from ebbtide.agent.calls.policy import Policy, parse_rule
from ebbtide.agent.calls.shell_patch import RUN_AS_PATCH_NOTE
from ebbtide.agent.events.session import ToolStarted
from ebbtide.agent.messages import Assistant, ToolCall
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.tools.base import Tool, ToolError, Workspace
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.tool_traits import builtin_traits
from tests.agent.calls.test_shell_patch import QUOTES
from tests.kit.adapters import ADAPTERS
from tests.kit.server_tools import Served
from tests.kit.session import Home, call, calls, finished, first_turn

PLACE = {"type": "object", "properties": {"line": {"type": "integer"}}}
TRACK = Served(
    "mcp__a__track",
    "Tracks.",
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "count": {"type": "integer"},
            "on": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "integer"}},
            "where": {"$ref": "#/$defs/place"},
            "size": {"anyOf": [{"type": "integer"}, {"enum": ["large"]}]},
            "most": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "none": {"type": ["string", "null"]},
        },
        "additionalProperties": False,
        "$defs": {"place": PLACE},
    },
)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*create_builtin_tools(), TRACK)}
ROOT = "/home/me/app"


def as_run(name: str, arguments: dict[str, Any], offered: tuple[str, ...] = tuple(TOOLS)) -> ToolCall:
    wanted = ToolCall("c1", name, arguments, json.dumps(arguments))
    (call,) = resolve_calls(Assistant((wanted,)), TOOLS, offered, ROOT).calls
    return call


def told(name: str, arguments: dict[str, Any], offered: tuple[str, ...] = tuple(TOOLS)) -> str:
    """What the model is told in the place of an output."""
    call = as_run(name, arguments, offered)
    try:
        require_tool(call, TOOLS).subjects(call.arguments, Workspace(Path(ROOT), Path(ROOT)))
    except ToolError as error:
        return str(error)
    raise AssertionError(f"it would run: {call}")


BLOCK = "<<<<<<< SEARCH\nold\nx\n=======\n>>>>>>> REPLACE\n"
CALLS = [json.loads(line) for line in Path(__file__).with_name("other_agents_calls.jsonl").read_text().splitlines()]
"""Calls as models write them, and the call of ours that each one means."""


@pytest.mark.parametrize("row", CALLS, ids=lambda row: f"{row['from']}: {row['name']}")
def test_a_call_of_another_agent_runs_as_the_one_of_ours_that_does_the_same(row: dict[str, Any]) -> None:
    name, arguments, ours = row["name"], row["arguments"], row["ours"]
    call = as_run(name, arguments)
    called = name if name != ours else ""
    assert call == ToolCall("c1", ours, row["meant"], json.dumps(arguments), called=called)
    assert require_tool(call, TOOLS) is TOOLS[ours]


def test_what_a_tool_has_no_argument_for_is_left_out_and_the_model_is_told() -> None:
    call = as_run("Read", {"file_path": "a", "as_json": True, "description": "Reads"})
    assert call.arguments == {"path": "a"}
    assert call.note == (
        "[Ignored, because `read` has no such argument: `as_json`; its arguments are `path`, `offset`, `limit`, "
        "`encoding`.]"
    )


@pytest.mark.parametrize(
    ("name", "arguments", "meant", "note"),
    [
        ("grep", {"pattern": "x", "limit": 2000}, {"pattern": "x", "limit": 1000},
         "[`limit` was lowered to its maximum, 1000.]"),
        ("Grep", {"pattern": "x", "head_limit": "2000", "context": -1}, {"pattern": "x", "limit": 1000, "context": 0},
         "[`context` was raised to its minimum, 0; `limit` was lowered to its maximum, 1000.]"),
        ("bash", {"command": "ls", "timeout": 900, "shell": "sh"}, {"command": "ls", "timeout": 600},
         "[Ignored, because `bash` has no such argument: `shell`; its arguments are `command`, `timeout`, `workdir`, "
         "`background`, `terminal`, `job`.]\n[`timeout` was lowered to its maximum, 600.]"),
    ],
)  # fmt: skip
def test_a_number_beyond_what_a_tool_takes_is_the_nearest_that_it_takes(
    name: str, arguments: dict[str, Any], meant: dict[str, Any], note: str
) -> None:
    call = as_run(name, arguments)
    assert (call.arguments, call.note) == (meant, note)


def test_amounts_are_arguments_that_their_tools_have() -> None:
    amounts = {name: traits.clamped_arguments for name, traits in builtin_traits().items() if traits.clamped_arguments}
    of_ours = {name: TOOLS[name].schema["properties"] for name in amounts if name in TOOLS}
    assert set(amounts) - set(of_ours) <= {"repo_map", "tool_output_cache"}  # offered at times only
    for name, properties in of_ours.items():
        assert isinstance(properties, dict)
        assert [one for one in amounts[name] if "minimum" not in properties[one]] == []


def test_of_two_names_for_one_argument_ours_holds_and_the_other_is_named() -> None:
    call = as_run("read", {"path": "a", "file_path": "b"})
    assert (call.arguments, "`file_path`" in call.note) == ({"path": "a"}, True)
    assert as_run("read", {"path": "a", "file_path": "a"}).note == ""


def test_a_command_begins_in_the_folder_that_it_was_given() -> None:
    for name in ("workdir", "cwd"):
        assert as_run("shell", {"command": ["ls"], name: "a b"}).arguments == {"command": "ls", "workdir": "a b"}


def test_tools_of_servers_keep_their_own_arguments() -> None:
    call = as_run("mcp__a__track", {"path": "a", "count": 1})
    assert call.arguments == {"path": "a", "count": 1}
    assert "the arguments of `mcp__a__track` are invalid" in told("mcp__a__track", {"path": "a"})


def test_a_whole_float_becomes_an_integer_also_where_another_type_is_allowed() -> None:
    for written, meant in ((2.0, 2), (2.5, 2.5)):
        value = as_run("mcp__a__track", {"count": 1, "most": written}).arguments["most"]
        assert (value, type(value)) == (meant, type(meant))


def test_a_server_s_tool_is_called_through_another_with_the_same_slips() -> None:
    arguments = {"name": "mcp__a__track", "arguments": '{"count": "5"}'}
    call = as_run("call_tool", arguments)
    assert call == ToolCall(
        "c1", "call_tool", {"name": "mcp__a__track", "arguments": {"count": 5}}, json.dumps(arguments)
    )


def test_a_tool_of_ours_that_is_called_through_another_runs_as_itself() -> None:
    arguments = {"name": "Bash", "arguments": {"cmd": "ls"}}
    call = as_run("call_tool", arguments)
    assert call == ToolCall("c1", "bash", {"command": "ls"}, json.dumps(arguments), called="call_tool")


def test_a_call_that_is_right_is_the_call_that_was_written() -> None:
    reply = Assistant((ToolCall("c1", "read", {"path": "a"}, '{"path": "a"}'),))
    assert resolve_calls(reply, TOOLS, tuple(TOOLS), ROOT) is reply


REFUSED: list[tuple[str, dict[str, Any], str, tuple[str, dict[str, Any]]]] = [
    (
        "edit_file",
        {"target_file": "a", "instructions": "I add x.", "code_edit": "// ... existing code ...\nx\n"},
        "the call was not run: `edit` does not fill in omitted code: call it with `old`, as the file has it, and "
        "`new`",
        ("edit", {"path": "a", "old": "z", "new": "z\nx"}),
    ),
    (
        "codebase_search",
        {"query": "Where is the auth token refreshed?", "target_directories": ["src"]},
        'the call was not run: no tool searches by meaning: call `grep` with pattern="auth|token|refreshed", a name in '
        "the code",
        ("grep", {"pattern": "auth|token|refreshed"}),
    ),
    (
        "read_file",
        {"files": [{"path": "a"}, {"path": "b"}]},
        "the call was not run: `read` shows one file per call: call it 2 times, once for each",
        ("read", {"path": "a"}),
    ),
    (
        "read_many_files",
        {"paths": ["src/**/*.py"]},
        "the call was not run: there is no such tool: find the files with `glob`, and call `read` once for each",
        ("glob", {"pattern": "src/**/*.py"}),
    ),
    (
        "str_replace_editor",
        {"command": "insert", "path": "a", "insert_line": 1, "new_str": "y"},
        "the call was not run: to insert text, call `edit` with the line before it as `old`, and with both as `new`",
        ("edit", {"path": "a", "old": "x", "new": "x\ny"}),
    ),
    (
        "str_replace_editor",
        {"command": "undo_edit", "path": "a"},
        "the call was not run: edits cannot be undone: call `edit` with `old` and `new` swapped",
        ("edit", {"path": "a", "old": "y", "new": "x"}),
    ),
    (
        "WriteFile",
        {"path": "a", "content": "x", "mode": "append"},
        "the call was not run: `write` replaces the whole file: to append, call `edit` with the last line as "
        "`old`, and that line plus the addition as `new`",
        ("edit", {"path": "a", "old": "z", "new": "z\nx"}),
    ),
    (
        "replace_in_file",
        {"path": "a", "diff": BLOCK.replace("old", "=======")},
        "`old` is missing",
        ("edit", {"path": "a", "old": "=======\nx", "new": ""}),
    ),
    (
        "search_and_replace",
        {"path": "a", "search": "x.", "replace": "y", "use_regex": True},
        "the call was not run: `edit` does not accept patterns: give the text itself as `old`, or use sed in bash",
        ("edit", {"path": "a", "old": "xy", "new": "y"}),
    ),
    (
        "multi_tool_use.parallel",
        {"tool_uses": [{"recipient_name": "functions.bash", "parameters": {"command": "ls"}}]},
        "the call was not run: no tool calls other tools: make these calls directly, several in one reply",
        ("bash", {"command": "ls"}),
    ),
    (
        "AskUserQuestion",
        {"questions": [{"question": "a"}, {"question": "b"}]},
        "the call was not run: `ask_user` asks one question per call: ask the first one, and wait for the answer",
        ("ask_user", {"question": "a"}),
    ),
    (
        "edit_fil",
        {"path": "a"},
        "the call was not run: there is no tool `edit_fil`; did you mean `edit`?",
        ("edit", {"path": "a", "old": "x", "new": "y"}),
    ),
    (
        "bash_output",
        {"command": "pytest -q"},
        "there is no job `pytest -q`; jobs of this session: none (`bash` with `background` starts a job; any "
        "other command returns its output directly)",
        ("bash", {"command": "pytest -q"}),
    ),
    (
        "bash_output",
        {},
        "the call was not run: `bash_output` shows a job's output: name the job as `job`. "
        "`bash` with `background` starts a job; any other command returns its output directly",
        ("bash_output", {"job": "job-1"}),
    ),
    (
        "bash",
        {"restart": True},
        "the arguments of `bash` are invalid, so it was not run: \"command\" is a required property",
        ("bash", {"command": "ls"}),
    ),
    (
        "edit_notebook",
        {"path": "a.ipynb", "cell": -1, "action": "delete"},
        "the arguments of `edit_notebook` are invalid, so it was not run: `cell`: -1 is less than the minimum of 0",
        ("edit_notebook", {"path": "a.ipynb", "cell": 1, "action": "delete"}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "answer", "following"), REFUSED)
def test_a_call_that_cannot_run_is_answered_with_the_one_that_can(
    name: str, arguments: dict[str, Any], answer: str, following: tuple[str, dict[str, Any]]
) -> None:
    assert told(name, arguments) == answer
    assert require_tool(as_run(*following), TOOLS).name == following[0]


def test_a_wrong_name_is_answered_with_tools_of_the_request_alone() -> None:
    offered = ("read", "bash", "tool_search")
    assert told("tod", {}, offered).endswith(
        "there is no tool `tod`; the tools are read, bash; `tool_search` finds others"
    )
    assert told("tod", {}, offered[:2]).endswith("there is no tool `tod`; the tools are read, bash")
    assert "`todo`" in told("tod", {})


def test_a_name_of_ten_megabytes_and_one_without_letters_are_answered_shortly() -> None:
    assert len(told("x" * 10_000_000, {})) < 1000
    assert told("***", {}).startswith("the call was not run: there is no tool `***`; the tools are read, write, ")


@pytest.mark.parametrize(
    ("name", "arguments", "path"),
    [
        ("shell", {"command": ["apply_patch", QUOTES]}, "a.txt"),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{QUOTES}\nEOF\n"], "workdir": "src"}, "src/a.txt"),
        ("bash", {"command": json.dumps(["apply_patch", QUOTES])}, "a.txt"),
    ],
)
def test_a_list_of_words_that_only_patches_is_a_patch(name: str, arguments: dict[str, Any], path: str) -> None:
    call = as_run(name, arguments)
    patch = QUOTES.replace("a.txt", path)
    assert call == ToolCall(
        "c1", "apply_patch", {"patch": patch}, json.dumps(arguments), called=name, note=RUN_AS_PATCH_NOTE
    )


async def test_rules_the_log_and_the_terminal_see_the_call_that_runs_and_the_model_what_it_wrote(home: Home) -> None:
    wanted = {"command": ["bash", "-lc", "echo hello"], "timeout_ms": 9000, "color": "no"}
    forbidden = {"command": ["rm", "a b"]}
    model = ScriptedProvider.from_replies(calls(call("shell", **wanted), call("Bash", **forbidden)), {"text": "done"})
    policy = Policy(str(home.root), "auto", deny_rules=(parse_rule("bash(rm)"),))
    _, events = await first_turn(home.session(model, policy=policy))
    started = [(event.name, event.arguments) for event in events if isinstance(event, ToolStarted)]
    assert started == [("bash", {"command": "echo hello", "timeout": 9}), ("bash", {"command": "rm 'a b'"})]
    ((_, done, text), (_, denied, why)) = finished(events)
    left_out = "[Ignored, because `bash` has no such argument: `color`; its arguments are `command`, `timeout`, "
    assert (done, text.startswith(left_out), text.endswith("hello\nexit code 0")) == ("done", True, True)
    assert (denied, why.startswith("denied: deny rule bash(rm)")) == ("denied", True)
    reply = model.requests[1].messages[1]
    assert isinstance(reply, Assistant)
    for adapter in ADAPTERS:
        sent = json.dumps(adapter.body(model.requests[1], adapter.facts))
        names = ['"shell"', '"Bash"', "timeout_ms"]
        assert [name in sent for name in names] == [True, True, True], adapter.name
    assert [(part.name, part.called) for part in reply.calls] == [("bash", "shell"), ("bash", "Bash")]
    resumed = await home.session(ScriptedProvider.from_replies({"text": "yes"}), resume=True)
    assert resumed.history.messages[1] == reply


async def test_arguments_that_nest_without_end_and_broken_ones_are_answered_in_a_sentence(home: Home) -> None:
    deep = '{"path": ' + "[" * 10_000 + "]" * 10_000 + "}"
    lines = '{"command": "printf \'a\nb\'"}'
    model = ScriptedProvider.from_replies(
        calls(call("read", **{}) | {"arguments": deep}, call("Bash") | {"arguments": lines}), {"text": "done"}
    )
    _, events = await first_turn(home.session(model))
    (_, _, first), (_, _, second) = finished(events)
    assert first.startswith("the call was not run: the arguments are not valid JSON (maximum recursion depth exceeded")
    assert second == "a\nb\nexit code 0"


async def test_arguments_of_megabytes_are_answered_shortly(home: Home) -> None:
    model = ScriptedProvider.from_replies(
        calls(call("raed", path="x" * 2_000_000)), {"text": "done"}, context_window=20_000_000
    )
    _, events = await first_turn(home.session(model))
    assert finished(events) == [
        ("raed", "failed", "the call was not run: there is no tool `raed`; did you mean `read`?")
    ]
