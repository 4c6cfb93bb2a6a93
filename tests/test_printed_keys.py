"""`providers.NAME.key_command` in whole runs: where the key goes, when the command runs, and who never sees the key."""

import json
from pathlib import Path

import pytest

from tests.kit.commands import Run
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.files import write_file
from tests.kit.key_program import KeyProgram
from tests.kit.user import User

HAIKU = "anthropic/claude-haiku-5-5"
REJECTED = Turn(status=401, error=("authentication_error", "invalid x-api-key"))


@pytest.fixture
def program(user: User) -> KeyProgram:
    """The program that the user's configuration names."""
    made = KeyProgram(user.home)
    configure(user, made.command)
    return made


def configure(user: User, command: str) -> None:
    write_file(user.home / "config" / "config.toml", f"[providers.anthropic]\nkey_command = {json.dumps(command)}\n")


def ask(user: User, server: FakeProvider, *flags: str, **variables: str) -> Run:
    env = {"ANTHROPIC_BASE_URL": server.url, **variables}
    return user.ebb("-p", "go", "--output-format", "json", *flags, env=env)


def keys_of(server: FakeProvider) -> list[str]:
    return [request.headers["x-api-key"] for request in server.requests]


@pytest.mark.parametrize("wire", ["http", "sdk"])
def test_the_printed_key_is_used_and_replaced_when_it_is_rejected(user: User, program: KeyProgram, wire: str) -> None:
    with FakeProvider([REJECTED, Turn(calls=(Call("bash", {"command": "env"}),)), Turn(text="done")]) as server:
        flags = ("--config", f"providers.anthropic.wire={wire}", "--permission-mode", "auto")
        run = ask(user, server, *flags)
        assert (run.code, run.result["result"]) == (0, "done"), run.err
        assert keys_of(server) == [program.key(1), program.key(2), program.key(2)]
    assert program.runs == 2
    (output,) = user.outputs(run.result["session"])
    assert "HOME=" in output
    assert "sk-printed" not in output


def test_a_rejected_key_that_stays_is_an_error_without_the_key(user: User) -> None:
    configure(user, "echo sk-printed-0000000001")
    echo = Turn(status=401, body={"error": {"type": "authentication_error", "message": "no: sk-printed-0000000001"}})
    with FakeProvider([lambda _: echo]) as server:
        runs = [
            ask(user, server, "--debug", CONTEXT_DEBUG="true"),
            ask(
                user, server, "--config", "providers.anthropic.key_command=echo 'see sk-printed-0000000001' >&2; false"
            ),
            user.ebb("config"),
        ]
        assert keys_of(server) == ["sk-printed-0000000001"]
    assert [run.code for run in runs] == [4, 4, 0]
    written = [path.read_bytes() for path in user.home.rglob("*") if path.is_file() and path.name != "config.toml"]
    assert not [each for each in written if b"sk-printed" in each]
    assert "sk-printed" not in "".join(run.out + run.err for run in runs)
    assert "no key for anthropic: `echo 'see ***' >&2; false` failed with exit code 1: see ***." in runs[1].out


def test_a_failing_command_ends_the_run_like_a_missing_key(user: User) -> None:
    configure(user, "echo 'not signed in' >&2; exit 2")
    with FakeProvider([]) as server:
        run = ask(user, server)
        assert (run.code, run.result["error"]["code"], server.requests) == (4, "auth", [])
    assert "failed with exit code 2: not signed in. Run this command in a shell" in run.result["error"]["message"]


def test_an_environment_variable_takes_precedence(user: User, program: KeyProgram) -> None:
    with FakeProvider([Turn(text="done")]) as server:
        assert ask(user, server, ANTHROPIC_API_KEY="sk-own").code == 0
        assert keys_of(server) == ["sk-own"]
    assert program.runs == 0


def test_lists_and_checks_do_not_run_the_command(user: User, program: KeyProgram) -> None:
    listed = user.ebb("models", env={"COLUMNS": "120"})
    assert HAIKU in listed.out
    doctor = user.ebb("doctor")
    assert "key for anthropic from `providers.anthropic.key_command`, which was not run" in doctor.out
    assert user.ebb("key").out == "anthropic    key_command\n"
    user.ebb("key", "set", "openai", stdin="sk-openai")
    stored = user.ebb("key", "set", "anthropic", stdin="sk-stored")
    assert "`providers.anthropic.key_command` is also set and takes precedence" in stored.out
    for words in (("config",), ("context",), ("sessions", "list"), ("completion", "bash"), ("models", "anthropic")):
        user.ebb(*words)
    assert program.runs == 0


def test_an_online_check_runs_it(user: User, program: KeyProgram) -> None:
    with FakeProvider([], pages={"/v1/models": {"data": []}}) as server:
        doctor = user.ebb("doctor", "--online", env={"ANTHROPIC_BASE_URL": server.url})
    assert "and accepts the key" in doctor.out
    assert program.runs == 1


def test_the_command_of_a_project_never_runs(user: User) -> None:
    ran = user.home / "ran"
    command = json.dumps(f"touch {ran}; echo sk-1")
    write_file(user.project / ".ebb" / "config.toml", f"[providers.anthropic]\nkey_command = {command}\n")
    write_file(user.project / ".claude" / "settings.json", f'{{"apiKeyHelper": {command}}}')
    run = user.ebb("-p", "go", "-m", HAIKU)
    assert (run.code, "there is no key for anthropic" in run.err) == (4, True)
    assert "`providers.anthropic` in" in run.err
    assert not ran.exists()


def test_a_program_of_the_project_is_not_meant_by_a_relative_path(user: User) -> None:
    configure(user, "./print-it")
    for folder, key in ((user.home, "sk-mine"), (user.project, "sk-theirs")):
        path = write_file(folder / "print-it", f"#!/bin/sh\necho {key}\n")
        path.chmod(0o755)
    with FakeProvider([Turn(text="done")]) as server:
        assert ask(user, server).code == 0
        assert keys_of(server) == ["sk-mine"]


def test_the_helper_of_claude_code_is_offered(user: User) -> None:
    helper = "op read op://dev/key --token=sk-printed-0000000001"
    write_file(user.home / ".claude" / "settings.json", json.dumps({"apiKeyHelper": helper}))
    write_file(user.project / ".claude" / "settings.json", json.dumps({"apiKeyHelper": "theirs"}))
    shown = "op read op://dev/key --token=***"
    assert f"apiKeyHelper `{shown}` → providers.anthropic.key_command {shown}" in user.ebb("import").out
    (done,) = user.ebb("import", "--yes", "--json", "--what", "key").lines
    assert done["key"] == {"written": [f"providers.anthropic.key_command {shown}"], "left": {}}
    assert json.loads(user.ebb("config", "--json").out)["providers.anthropic.key_command"]["value"] == shown
    config = user.home / "config" / "config.toml"
    assert config.read_text() == f'[providers.anthropic]\nkey_command = "{helper}"\n'
    (again,) = user.ebb("import", "--json", "--yes").lines
    assert "key" not in again


def test_a_helper_does_not_replace_a_command(user: User, program: KeyProgram, tmp_path: Path) -> None:
    write_file(user.home / ".claude" / "settings.json", json.dumps({"apiKeyHelper": "other"}))
    user.ebb("import", "--yes")
    assert program.command in (tmp_path / "config" / "config.toml").read_text()
