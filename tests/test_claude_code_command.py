"""`ebb claude-code`: started as Claude Code is, by programs that are written for it."""

import json

import pytest

from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.session import bash, call, calls
from tests.kit.user import User


def test_flags_of_claude_code_become_ours(user: User) -> None:
    work = calls(bash("echo one"), bash("touch x"), call("write", path="a.txt", content="x"))
    model = user.script(work, {"text": '{"n": 1}'})
    run = user.ebb(
        "claude-code", "-p", "go", "--output-format", "stream-json", "--verbose", "--model", model, "--max-turns", "5",
        "--allowedTools", "Bash(echo:*),Write", "--disallowedTools", "Bash(touch:*)", "--setting-sources=",
        "--append-system-prompt", "Be brief.", "--json-schema", '{"type": "object"}', "--include-partial-messages",
        "--tools", "Bash,Write,Read",
    )  # fmt: skip
    first, *_, result = run.lines
    assert (run.code, first["tools"], first["permissionMode"]) == (0, ["Read", "Write", "Bash"], "default")
    assert (result["subtype"], result["structured_output"]) == ("success", {"n": 1})
    assert [one["tool_input"] for one in result["permission_denials"]] == [{"command": "touch x"}]
    assert (user.project / "a.txt").read_text() == "x"
    assert {"stream_event", "assistant", "user"} <= {line["type"] for line in run.lines}


def test_texts_of_the_system_and_models_are_named_as_there(user: User) -> None:
    with FakeProvider([Turn(text="Yes.")]) as server:
        flags = ("--system-prompt", "You are a poet.", "--model", "haiku", "--dangerously-skip-permissions")
        run = user.ebb("claude-code", "--print", *flags, "go", env=server.environment)
        (request,) = server.requests
    assert (run.code, run.out) == (0, "Yes.\n")
    assert request.body["model"].startswith("claude-haiku-")
    assert request.body["system"][0]["text"].startswith("You are a poet.")


def test_lines_go_in_and_out(user: User) -> None:
    flags = ("--input-format", "stream-json", "--output-format", "stream-json", "--system-prompt", "")
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "go"}})
    run = user.ebb("claude-code", *flags, "--model", user.script({"text": "Yes."}), stdin=f"{line}\n")
    assert (run.code, run.lines[-1]["result"]) == (0, "Yes.")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--agents", "{}"), "unrecognized arguments: --agents"),
        (("--mcp-config", "{}"), "unrecognized arguments: --mcp-config"),
        (("--permission-mode", "dontAsk"), "unknown mode `dontAsk`; use one of `default`, `acceptEdits`,"),
        (("--disallowedTools", "Read(*.env)"), "`Read(*.env)` cannot be translated to a rule"),
        (("--json-schema", "{"), "is not JSON"),
        (("--max-turns", "x"), "argument --max-turns: expected a whole number, got `x`"),
    ],
)
def test_what_would_be_missed_is_refused_by_name(user: User, flags: tuple[str, ...], says: str) -> None:
    run = user.ebb("claude-code", "-p", "go", *flags, "--model", user.script({"text": "Never."}))
    assert (run.code, run.out, says in run.err) == (2, "", True), run.err


def test_what_cannot_be_allowed_is_told_and_asked_about(user: User) -> None:
    model = user.script(calls(call("read", path="a.env")), {"text": "Done."})
    run = user.ebb("claude-code", "-p", "go", "--allowedTools", "Edit(src/*.py) Read", "--model", model)
    assert (run.code, run.out) == (0, "Done.\n")
    assert run.err.startswith(
        "ebb: `Edit(src/*.py)` cannot be translated to a rule, so those calls still need permission\n"
    )


def test_the_version_is_told(user: User) -> None:
    assert user.ebb("claude-code", "-v").out.endswith(" (Ebbtide)\n")
