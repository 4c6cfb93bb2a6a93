"""The lines of `--output-format stream-json`, as docs/stream.schema.json says that they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta

from docs.stream_schema import LINES, stream_schema
from tests.kit.commands import ROOT, Run
from tests.kit.files import write_file
from tests.kit.session import bash, call, calls
from tests.kit.user import User

SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "stream.schema.json").read_text("utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
BY_TYPE: dict[str, str] = {
    SCHEMA["$defs"][kind.__name__]["properties"]["type"]["const"]: kind.__name__ for kind in LINES
}
AUTO = ("--permission-mode", "auto")


def problems(run: Run) -> list[str]:
    """What the schema of its kind says against each line; that of any line would not say where."""
    found = []
    for line in run.lines:
        kind = Draft202012Validator({"$ref": f"#/$defs/{BY_TYPE[line['type']]}", "$defs": SCHEMA["$defs"]})
        found += [f"{line['type']}: {error.message}" for error in kind.iter_errors(line)]
    return found


def kinds(run: Run) -> set[str]:
    return {line["type"] for line in run.lines}


def test_the_schema_is_one_and_tells_every_kind_of_line_apart() -> None:
    assert meta.is_valid(SCHEMA)
    assert json.loads(stream_schema()) == SCHEMA
    assert len(BY_TYPE) == len(LINES)
    assert all(definition["description"] for definition in SCHEMA["$defs"].values())


@pytest.mark.parametrize(
    ("broken", "is_valid"),
    [({}, False), ({"text": 3}, True), ({"text": None}, True), ({"more": "of a later version"}, False)],
)
def test_the_schema_refuses_what_is_no_such_line_and_takes_what_is_added(
    broken: dict[str, object], is_valid: bool
) -> None:
    assert VALIDATOR.is_valid({"type": "text_delta", "text": "Hi", **broken}) is not is_valid
    assert not VALIDATOR.is_valid({"type": "text_delta"})


def test_what_real_runs_print_is_as_the_schema_says(user: User) -> None:
    """Calls that run, fail, change files and are denied; a plan, a todo list, an agent, a failure."""
    work = (
        calls(call("write", path="a.txt", content="hi\n"), call("read", path="none.txt"), bash("echo out; exit 3")),
        {
            "reasoning": "hm",
            **calls(call("edit", path="a.txt", old="hi", new="ho"), call("todo", items=[{"text": "x"}])),
        },
        calls(call("task", agent="explore", description="look", prompt="look around")),
        {"text": "Done.", "usage": {"input": 10, "cache_read": 5, "output": 2}},
    )
    done = user.ask(*work, {"text": "More."}, flags=AUTO, form="stream-json")
    denied = user.ask(
        calls(bash("touch b")), {"text": "No."}, flags=("-c", "--permission-mode", "ask"), form="stream-json"
    )
    failed = user.ask({"error": "auth"}, form="stream-json")
    retried = user.ask({"error": "overloaded"}, {"text": "Yes."}, form="stream-json")
    assert [problems(run) for run in (done, denied, failed, retried)] == [[], [], [], []]
    seen = set().union(*map(kinds, (done, denied, failed, retried)))
    assert seen >= {
        "init", "turn_started", "step_started", "context_measured", "text_delta", "reasoning_delta", "call_delta",
        "reply_finished", "tool_started", "tool_finished", "call_denied", "agent_started", "agent_activity",
        "agent_finished", "files_changed", "resumed", "retry_scheduled", "turn_finished", "turn_failed", "result",
    }  # fmt: skip


def test_the_one_object_of_json_is_the_last_line_of_the_stream(user: User) -> None:
    run = user.ask({"text": "Yes."}, form="json")
    assert (problems(run), len(run.lines)) == ([], 1)
    refused = user.ebb("-p", "go", "-m", user.script({"error": "quota"}), "--output-format", "json")
    assert (problems(refused), refused.result["stop_reason"]) == ([], "provider")


def test_the_first_line_says_what_was_opened(user: User) -> None:
    write_file(user.project / ".claude" / "commands" / "tidy.md", "Tidy up.")
    flags = ("--permission-mode", "plan", "--trust", "--config", 'mcp.servers.forge.command="/no/such/program"')
    run = user.ask({"text": "Yes."}, flags=flags, form="stream-json")
    first = run.lines[0]
    tools = set(first.pop("tools"))
    assert {"read", "bash"} <= tools
    assert first == {
        "type": "init", "schema_version": 1, "version": "0.1.0", "session": run.result["session"],
        "model": f"scripted/{user.home / 'script.json'}", "mode": "plan", "sandbox": "off",
        "folder": str(user.project), "servers": [{"name": "forge", "state": "starting"}], "commands": ["tidy"],
        "agents": ["explore", "review"],
    }  # fmt: skip


def test_pieces_of_calls_name_the_call_that_they_become(user: User) -> None:
    run = user.ask(calls(call("glob", pattern="*"), call("glob", pattern="?")), {"text": "ok"}, form="stream-json")
    pieces, started = (
        [line["call_id"] for line in run.lines if line["type"] == kind] for kind in ("call_delta", "tool_started")
    )
    assert pieces == started
    assert len(set(pieces)) == 2


def test_no_first_line_stands_where_no_session_could_be_opened(user: User) -> None:
    locks = write_file(user.home / "data" / "locks", "no folder")
    run = user.ask({"text": "never"}, form="stream-json")
    assert (run.code, [line["type"] for line in run.lines], problems(run)) == (1, ["result"], [])
    assert Path(locks).read_text() == "no folder"
