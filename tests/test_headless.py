"""`ebb -p` as scripts see it: what it prints, and how it exits."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.messages import Usage
from ebbtide.tui.session import demo
from tests.kit.commands import Run, command, ebb, environment
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.files import write_file
from tests.kit.session import call, calls
from tests.kit.user import User

HAIKU = "anthropic/claude-haiku-5-5"
NOW = {"retry-after-ms": "1"}


def shell(user: User, line: str) -> subprocess.CompletedProcess[str]:
    """What a line of shell does in the project's folder."""
    env = environment(user.home)
    return subprocess.run(
        ("/bin/sh", "-c", line), cwd=user.project, env=env, capture_output=True, text=True, check=False, timeout=60
    )


def ask_server(user: User, server: FakeProvider | str, *flags: str, key: str = "key", model: str = HAIKU) -> Run:
    url = server if isinstance(server, str) else server.url
    env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}
    return user.ebb("-p", "go", "-m", model, "--output-format", "json", *flags, env=env)


def ended(run: Run) -> tuple[int, str, str | None]:
    """Exit code, stop reason and the code of the error."""
    result = run.result
    return run.code, result["stop_reason"], result["error"] and result["error"]["code"]


def read_until(process: "subprocess.Popen[str]", kind: str) -> None:
    """Reads events that a run prints, up to one of a kind."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == kind:
            return


def with_schema(user: User, text: str) -> tuple[str, str]:
    """The flag for answers that meet a schema."""
    (user.project / "schema.json").write_text(text)
    return "--output-schema", str(user.project / "schema.json")


def scripted(user: User, name: str, window: int, *replies: dict[str, Any]) -> str:
    path = user.home.parent / f"{name}.json"
    path.write_text(json.dumps({"context_window": window, "reply": list(replies)}))
    return f"scripted/{path}"


def test_text_prints_the_answer_and_nothing_else(user: User) -> None:
    run = user.ask({"text": "Forty-two."}, form="text")
    assert (run.code, run.out, run.err) == (0, "Forty-two.\n", "")


def test_json_prints_one_object(user: User) -> None:
    usage = {"input": 10, "cache_read": 20, "cache_write": 30, "output": 40}
    run = user.ask({"text": "Yes.", "usage": usage})
    session = run.result["session"]
    assert run.lines == [
        {
            "type": "result",
            "session": session,
            "model": f"scripted/{user.project.parent / 'script.json'}",
            "result": "Yes.",
            "stop_reason": "answered",
            "usage": {**usage, "cost": 0.0},
            "steps": 1,
            "files_changed": [],
            "denied": [],
            "rewrites": {"count": 0, "removed_tokens": 0, "strategies": {}},
            "refused_hosts": [],
            "sandbox": "off",
            "unused_summaries": [],
            "refused_input": [],
            "error": None,
            "sources": [],
        }
    ]
    assert len(session) == 12


def test_a_summary_that_cannot_be_used_is_told_on_stderr_and_in_the_result(user: User) -> None:
    for flags in ((), *[("-c",)] * 5):
        run = user.ask({"text": "what was found out so far " * 132}, flags=flags, window=12_000)
        assert ended(run) == (0, "answered", None)
    refusal = {"when": "Write down what is needed", "text": "I would rather not."}
    last = user.ask(refusal, refusal, {"text": "done"}, flags=("-c",), window=12_000)
    assert ended(last) == (0, "answered", None)
    failed = last.result["unused_summaries"]
    assert [one["model"] for one in failed] == [f"scripted/{user.home / 'script.json'}"]
    assert (
        last.err.count(f"the summary by scripted/{user.home / 'script.json'} was not used: {failed[0]['reason']}") == 1
    )


def test_stream_json_prints_an_event_a_line_and_the_result_last(user: User) -> None:
    wanted = call("write", path="a.txt", content="hi")
    run = user.ask(calls(wanted), {"text": "Done."}, flags=("--permission-mode", "auto"), form="stream-json")
    kinds = [line["type"] for line in run.lines]
    assert kinds == [
        "init", "turn_started", "step_started", "context_measured", "call_delta", "reply_finished", "tool_started",
        "tool_finished", "step_started", "context_measured", "text_delta", "reply_finished", "files_changed",
        "turn_finished", "result",
    ]  # fmt: skip
    assert all(next(iter(line)) == "type" for line in run.lines)
    assert (run.result["files_changed"], (user.project / "a.txt").read_text()) == (["a.txt"], "hi")


def test_what_is_piped_in_stands_beside_the_prompt(user: User) -> None:
    run = user.ebb(
        "-p", "explain", "-m", user.script({"text": "ok"}), "--output-format", "stream-json", stdin="the log\n"
    )
    assert run.lines[1]["text"] == "explain"
    assert "attached piped input (1 line, 8 bytes)" in [line.get("text") for line in run.lines]


def test_a_dash_reads_the_prompt_from_stdin(user: User) -> None:
    run = user.ebb("-p", "-", "-m", user.script({"text": "ok"}), "--output-format", "stream-json", stdin="just this")
    assert run.lines[1]["text"] == "just this"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-p", "go", "-m", "acme/one"), "`acme/one` is not a model"),
        (("-p", "go", "-m", "claude"), "write PROVIDER/NAME"),
        (("-p", "go"), "no model is set"),
        (("-p", ""), "no prompt"),
        (("-p", "-"), "no prompt"),
        (("-p", "go", "-m", "scripted/none.toml"), "cannot read the script `none.toml`"),
        (("-p", "go", "-m", HAIKU, "--config", "providers.anthropic.base_url=htp://x"), "is not a URL"),
        (("-p", "go", "-m", HAIKU, "--config", "providers.anthropic.base_url=http://x:port"), "is not a URL"),
        (("-p", "go", "-m", "anthropic/x", "--config", "providers.anthropic.base_url=http://[::1]:1", "--max-cost=1"),
         "the prices of `anthropic/x` are unknown"),
        (("-p", "go", "--allow", "bash(", "-m", "ollama/x"), "`bash(` is not a rule"),
        (("-p", "go", "--max-turns", "0"), "whole number above 0"),
        (("-p", "go", "--output-schema", "none.json"), "cannot read the schema"),
        (("-p", "go", "--config", "agent.modle=x"), "did you mean `agent.model`"),
        (("-p", "go", "-m", "ollama/x", "--resume=ffffffffffff"), "there is no session `ffffffffffff`"),
        (("-p", "go", "-m", "ollama/x", "-c"), "no earlier session"),
        (("-p", "go", "--nonsense"), "unrecognized arguments"),
        (("-m", "ollama/x"), "no terminal"),
        (("sesions", "-m", "ollama/x"),
         "unknown command `sesions`; did you mean `ebb sessions`? To send it as a message, use `ebb -- sesions`"),
        (("con",), "did you mean `ebb context` or `ebb config`?"),
        (("search",), "no terminal"),
        (("sesions ",), "no terminal"),
        (("-c", "sesions"), "no terminal"),
    ],
)  # fmt: skip
def test_a_command_line_that_cannot_be_exits_with_2_and_one_sentence(
    user: User, arguments: tuple[str, ...], says: str
) -> None:
    run = user.ebb(*arguments, "--output-format", "json", stdin="")
    assert (run.code, run.out) == (2, "")
    assert says in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("folder", "says"),
    [("none", "no such folder"), ("~nobody-of-this-name/x", ""), ("a" * 300, "")],
    ids=["missing", "of nobody", "too long"],
)
def test_a_folder_that_cannot_be_looked_up_exits_with_2(user: User, folder: str, says: str) -> None:
    run = ebb("-p", "go", "-C", folder, home=user.home)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert says in run.err


def test_a_working_folder_that_is_gone_exits_with_2(user: User) -> None:
    gone = shlex.join(command("-p", "go", "-m", user.script({"text": "hi"})))
    run = shell(user, f"rmdir {user.project} && {gone}")
    assert (run.returncode, run.stdout, run.stderr.splitlines()[-1][:21]) == (2, "", "ebb: cannot work in `")


def test_closed_and_full_streams_end_no_run_with_a_traceback(user: User) -> None:
    model = user.script({"text": "hi"})
    answer, ask = (shlex.join(command("-p", prompt, "-m", model)) for prompt in ("go", "-"))
    assert shell(user, f"{answer} <&-").stdout == "hi\n"
    no_prompt = shell(user, f"{ask} <&-")
    assert (no_prompt.returncode, "no prompt" in no_prompt.stderr) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_what_is_told_beside_an_answer_ends_no_run_when_it_cannot_be_written(user: User) -> None:
    """A log on a full disk: of a failure, and of bytes that are attached."""
    words = shlex.join(command("-p", "go", "-m", user.script({"error": "auth"})))
    done = shell(user, f"{words} </dev/null 2>/dev/full")
    assert (done.returncode, done.stdout) == (4, "")
    user.script({"text": "fine"})
    done = shell(user, f"printf '\\377' | {words} 2>/dev/full")
    assert (done.returncode, done.stdout) == (0, "fine\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_an_answer_that_cannot_be_written_exits_with_1(user: User) -> None:
    run = shell(user, shlex.join(command("-p", "go", "-m", user.script({"text": "hi"}))) + " </dev/null >/dev/full")
    assert (run.returncode, run.stderr) == (1, "ebb: cannot write the output: No space left on device\n")


LOST = "ebb: cannot write the output: "


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [("--help", ""), ("--help", "1"), ("--version", ""), ("sessions list", "1"), ("-p go", ""), ("-p json", "1")],
)
def test_what_is_printed_to_nowhere_exits_with_1_and_to_a_reader_that_has_gone_with_141(
    user: User, words: str, unbuffered: str
) -> None:
    model = user.script(*[{"text": "hi"}] * 4)
    assert user.ebb("-p", "go", "-m", model).code == 0  # a session to be listed
    arguments = words.split()
    if words.startswith("-p"):
        form = "json" if words == "-p json" else "text"
        arguments = ["-p", "go", "-m", model, "--output-format", form]
    line = f"PYTHONUNBUFFERED={unbuffered} {shlex.join(command(*arguments))} </dev/null"
    closed, full = shell(user, f"{line} >&-"), shell(user, f"{line} >/dev/full")
    assert (closed.returncode, closed.stderr) == (1, f"{LOST}standard output is closed\n")
    assert (full.returncode, full.stderr) == (1, f"{LOST}No space left on device\n")
    out, goes = os.pipe()
    os.close(out)
    try:
        process = subprocess.run(
            command(*arguments), cwd=user.project, env=environment(user.home, {"PYTHONUNBUFFERED": unbuffered}),
            stdin=subprocess.DEVNULL, stdout=goes, stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(goes)
    assert (process.returncode, process.stderr) == (141, b"")


def test_a_configuration_that_cannot_be_read_exits_with_2(user: User) -> None:
    write_file(user.home / "config" / "config.toml", "[agent")
    run = user.ask({"text": "hi"})
    assert (run.code, run.out) == (2, "")
    assert "config.toml" in run.err


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (Turn(status=401, error=("authentication_error", "bad key")), (4, "auth", "auth")),
        (Turn(status=403, error=("permission_error", "no")), (4, "auth", "auth")),
        (Turn(status=404, error=("not_found_error", "model: nope")), (3, "provider", "unknown_model")),
        (Turn(status=400, error=("invalid_request_error", "odd")), (3, "provider", "bad_request")),
        (Turn(status=402, error=("billing_error", "no credit")), (3, "provider", "quota")),
        (Turn(status=400, error=("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")),
         (7, "context", "context")),
        (Turn(status=529, error=("overloaded_error", "busy"), headers=NOW), (3, "provider", "overloaded")),
        (Turn(status=500, error=("api_error", "broken"), headers=NOW), (3, "provider", "overloaded")),
        (Turn(status=429, error=("rate_limit_error", "slow down"), headers=NOW), (75, "rate_limited", "rate_limit")),
    ],
)  # fmt: skip
def test_what_a_server_refuses_has_its_exit_code(user: User, turn: Turn, expected: tuple[int, str, str]) -> None:
    with FakeProvider([lambda _: turn]) as server:
        run = ask_server(user, server, "--config", "retry.patience=1")
    assert ended(run) == expected
    assert run.result["session"] is not None


def test_a_server_that_is_not_there_exits_with_3(user: User) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        run = ask_server(user, f"http://127.0.0.1:{listener.getsockname()[1]}", "--config", "retry.first=0.2")
    assert ended(run) == (3, "provider", "network")


def test_without_a_key_it_exits_with_4_and_says_which_is_missing(user: User) -> None:
    run = ask_server(user, "https://example.invalid", key="")
    assert ended(run) == (4, "auth", "auth")
    assert "ANTHROPIC_API_KEY" in run.result["error"]["message"]


def test_a_server_on_this_machine_needs_no_key(user: User) -> None:
    with FakeProvider([Turn(text="hi")]) as server:
        run = ask_server(user, server, key="")
    assert ended(run) == (0, "answered", None)


def test_a_request_that_fails_is_sent_again_and_the_retry_is_an_event(user: User) -> None:
    busy = Turn(status=529, error=("overloaded_error", "busy"), headers=NOW)
    with FakeProvider([busy, Turn(text="half", fault="cut"), Turn(text="whole")]) as server:
        run = user.ebb(
            *("-p", "go", "-m", HAIKU, "--output-format", "stream-json"),
            env=server.environment,
        )
    assert (run.code, run.result["result"]) == (0, "whole")
    retries = [(line["attempt"], line["attempts"]) for line in run.lines if line["type"] == "retry_scheduled"]
    assert retries == [(2, 0), (2, 5)]  # answers that break off are counted by themselves


def test_what_nobody_is_there_to_allow_is_denied_and_exits_with_5(user: User) -> None:
    wanted = call("bash", command="touch made")
    run = user.ask(calls(wanted), {"text": "I could not."})
    assert ended(run) == (5, "denied", None)
    assert run.result["result"] == "I could not."
    assert run.result["denied"] == [
        {
            "tool": "bash",
            "arguments": {"command": "touch made"},
            "rule": "ask mode: commands need your OK",
            "allow": "bash(=touch made)",
        }
    ]
    assert not (user.project / "made").exists()


def last_line(run: Run) -> tuple[int, str]:
    return run.code, run.err.splitlines()[-1].removeprefix("ebb: ")


def test_a_denied_call_names_the_rule_that_lets_it_run(user: User) -> None:
    """The rule that is named is tried: with it, the same call runs."""
    wanted = (
        (call("bash", command=".venv/bin/tests -q"), "'bash(=.venv/bin/tests -q)'"),
        (call("bash", command="python3 -m unittest -q; echo done"), "'bash(=python3 -m unittest -q; echo done)'"),
        (call("bash", command="X=1 uv run pytest -q | tail -3"), "'bash(=X=1 uv run pytest -q | tail -3)'"),
        (call("bash", command="CI=1 python3 -m pytest -q | tail -3"), "'bash(pytest)'"),
        (call("bash", command="for x in a b; do touch $x; done"), "bash"),
        (call("write", path="src/a.txt", content="x"), "'write(src)'"),
    )
    for one, rule in wanted:
        run = user.ask(calls(one), {"text": "No."}, form="text")
        assert last_line(run) == (5, f"to allow it: `--allow {rule}`, or `--permission-mode auto`")
        assert user.ask(calls(one), {"text": "Yes."}, flags=("--allow", rule.strip("'"))).code == 0


def test_who_works_in_auto_is_not_told_to_use_auto(user: User) -> None:
    flags = ("--permission-mode", "auto", "--config", "agent.sandbox=off")
    run = user.ask(calls(call("bash", command="cat .env")), {"text": "No."}, flags=flags, form="text")
    assert last_line(run) == (5, "to allow it: `--allow 'bash(cat .env)'`")


def test_several_denied_calls_name_each_rule_once(user: User) -> None:
    wanted = calls(*(call("bash", command=f"{line}") for line in ("pytest -q", "uv run pytest", "ruff check")))
    run = user.ask(wanted, {"text": "No."}, form="text")
    flags = "--allow 'bash(pytest)' --allow 'bash(ruff check)'"
    assert last_line(run) == (5, f"to allow them: `{flags}`, or `--permission-mode auto`")


def test_where_a_deny_rule_refuses_no_other_rule_is_named(user: User) -> None:
    run = user.ask(calls(call("bash", command="rm -rf x")), {"text": "No."}, flags=("--deny", "bash(rm)"), form="text")
    assert last_line(run) == (5, "denied bash: deny rule bash(rm)")


def test_rules_let_a_headless_run_work(user: User) -> None:
    looks = calls(call("bash", command="touch made"), call("glob", pattern="*"))
    run = user.ask(looks, {"text": "Done."}, flags=("--allow", "bash(touch)"))
    assert ended(run) == (0, "answered", None)
    assert (user.project / "made").exists()


@pytest.mark.parametrize("flags", [("--deny", "write"), ("--permission-mode", "plan")])
def test_a_deny_rule_and_plan_mode_win_over_an_allow_rule(user: User, flags: tuple[str, ...]) -> None:
    wanted = call("write", path="a", content="x")
    run = user.ask(calls(wanted), {"text": "No."}, flags=("--allow", "write", *flags))
    assert ended(run) == (5, "denied", None)
    assert not (user.project / "a").exists()


def test_a_deny_rule_holds_for_what_its_path_links_to(user: User) -> None:
    write_file(user.home / "secret" / "key", "hush")
    (user.project / "link").symlink_to(user.home / "secret")
    wanted = call("read", path="link/key")
    run = user.ask(calls(wanted), {"text": "No."}, flags=("--deny", "read(link)", "--permission-mode", "auto"))
    assert ended(run) == (5, "denied", None)


def test_calls_that_fail_do_not_count_as_denied(user: User) -> None:
    run = user.ask(calls(call("read", path="none")), {"text": "It is not there."})
    assert ended(run) == (0, "answered", None)


def test_the_limit_of_steps_leaves_calls_unrun_and_answered(user: User) -> None:
    wanted = call("bash", command="echo x >> count")
    replies = [{"text": f"step {n}", "calls": [wanted]} for n in (1, 2, 3)]
    run = user.ask(*replies, flags=("--max-turns", "2", "--permission-mode", "auto"))
    assert ended(run) == (6, "step_limit", "step_limit")
    assert (run.result["steps"], run.result["result"]) == (2, "step 2")
    assert (user.project / "count").read_text() == "x\n"
    listing = user.ebb("sessions", "show", run.result["session"], "--json")
    assert [
        o["status"] for line in listing.lines for o in line["parts"] if o["type"] == "output" and "status" in o
    ] == [
        "done",
        "interrupted",
    ]


def test_the_limit_of_cost_stops_before_the_next_request(user: User) -> None:
    usage = Usage(input=1_000_000)
    with FakeProvider([lambda _: Turn(calls=(Call("todo", {"items": []}),), usage=usage)]) as server:
        run = ask_server(user, server, "--max-cost", "0.01")
    assert ended(run) == (6, "cost_limit", "cost_limit")
    assert len(server.requests) == 1


def test_the_limit_of_cost_holds_in_a_session_with_unknown_prices_before(user: User) -> None:
    works = Turn(calls=(Call("todo", {"items": []}),), usage=Usage(input=1_000_000))
    with FakeProvider([Turn(text="hi"), works, works, works]) as server:
        assert ask_server(user, server, model="anthropic/nobody-knows-it").result["usage"]["cost"] is None
        run = ask_server(user, server, "-c", "--max-cost", "0.01", "--max-turns", "3")
    assert ended(run) == (6, "cost_limit", "cost_limit")


def test_an_answer_must_meet_the_schema(user: User) -> None:
    flags = with_schema(user, '{"type": "object", "required": ["ok"]}')
    good = user.ask({"text": "Sure: yes"}, {"text": '```json\n{"ok": true}\n```'}, flags=flags)
    assert (good.code, good.result["result"]) == (0, '{"ok": true}')
    bad = user.ask({"text": "{}"}, {"text": "[]"}, flags=flags)
    assert ended(bad) == (8, "schema", "schema")
    assert bad.result["result"] == "[]"


@pytest.mark.parametrize(
    "schema", ['{"type": "nonsense"}', '{"$ref": "#/none"}', '{"pattern": "("}'], ids=("type", "ref", "pattern")
)
def test_a_schema_that_is_none_exits_with_2_before_the_model_is_asked(user: User, schema: str) -> None:
    run = user.ask({"text": "1"}, flags=with_schema(user, schema))
    assert (run.code, run.out, "schema.json` is not valid" in run.err) == (2, "", True)
    assert "Traceback" not in run.err


@pytest.mark.parametrize("answer", ["[" * 20_000, "[NaN]"], ids=("cut", "no-number"))
def test_an_answer_that_is_hardly_json_does_not_meet_the_schema(user: User, answer: str) -> None:
    run = user.ask({"text": answer}, {"text": answer}, flags=with_schema(user, '{"type": "array"}'))
    assert ended(run) == (8, "schema", "schema")


def test_half_a_character_in_prompt_folder_or_answer_loses_nothing(user: User) -> None:
    user.project = Path(os.fsdecode(os.fsencode(user.project) + b"\xff"))
    user.project.mkdir()
    model = user.script({"text": "half \ud800", "calls": [{"name": "bash", "arguments": '{"command": "\ud800"}'}]})
    run = user.ebb("-p", "caf\udce9", "-m", model, "--output-format", "json", "--max-turns", "1")
    assert ended(run) == (6, "step_limit", "step_limit")
    again = user.ebb("-p", "go", "-c", "-m", user.script({"text": "ok"}), "--output-format", "json")
    assert (ended(again), again.result["session"]) == ((0, "answered", None), run.result["session"])
    listing = user.ebb("sessions", "show", run.result["session"], "--json")
    assert listing.lines[0]["parts"] == [{"type": "text", "text": "caf\ufffd", "whole": "caf\udce9"}]


def test_an_answer_that_the_locale_cannot_write_is_written_in_escapes(user: User) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    model = user.script({"text": "é 😀"})
    text = user.ebb("-p", "go", "-m", model, env=ascii_only)
    assert (text.code, text.out) == (0, "\\xe9 \\U0001f600\n")
    as_json = user.ebb("-p", "go", "-m", model, "--output-format", "json", env=ascii_only)
    assert (as_json.code, as_json.result["result"]) == (0, "é 😀")
    listed = user.ebb("sessions", "show", as_json.result["session"], "--json", env=ascii_only)
    assert listed.lines[1]["parts"] == [{"type": "text", "text": "é 😀"}]


def test_asking_again_for_the_schema_keeps_to_the_limit_of_steps(user: User) -> None:
    flags = (*with_schema(user, '{"type": "object"}'), "--max-turns")
    once = user.ask({"text": "no"}, {"text": "{}"}, flags=(*flags, "1"))
    assert (ended(once), once.result["steps"]) == ((8, "schema", "schema"), 1)
    twice = user.ask({"text": "no"}, calls(call("todo", items=[])), {"text": "{}"}, flags=(*flags, "2"))
    assert (ended(twice), twice.result["steps"]) == ((6, "step_limit", "step_limit"), 2)
    assert ended(user.ask({"text": "no"}, {"text": "{}"}, flags=(*flags, "2"))) == (0, "answered", None)


def test_a_model_that_says_nothing_twice_exits_with_1(user: User) -> None:
    assert ended(user.ask({"text": ""}, {"text": " "})) == (1, "failed", "empty_answer")
    assert ended(user.ask({"text": ""}, {"text": "here"})) == (0, "answered", None)


def test_a_database_that_cannot_be_used_exits_with_1(user: User) -> None:
    path = user.home / "data" / "sessions.db"
    assert user.ask({"text": "hi"}).code == 0
    good = path.read_bytes()

    path.write_bytes(b"garbage" * 1000)
    for name in ("sessions.db-wal", "sessions.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    assert ended(user.ask({"text": "hi"})) == (1, "failed", "store")
    assert path.read_bytes() == b"garbage" * 1000

    path.write_bytes(good)
    user.query("pragma user_version = 99")
    newer = user.ask({"text": "hi"})
    assert ended(newer) == (1, "failed", "store")
    assert "newer version" in newer.result["error"]["message"]


def test_a_database_that_cannot_be_used_is_a_result_also_when_a_session_is_looked_for(user: User) -> None:
    (user.home / "data" / "sessions.db").mkdir(parents=True)
    assert ended(user.ask({"text": "hi"}, flags=("-r", "abcdef"))) == (1, "failed", "store")


def test_an_ephemeral_run_keeps_nothing(user: User) -> None:
    assert user.ask({"text": "hi"}, flags=("--ephemeral",)).code == 0
    assert not (user.home / "data").exists()


def test_a_session_goes_on_where_it_was(user: User) -> None:
    first = user.ask({"text": "one"}).result["session"]
    again = user.ask({"text": "two"}, flags=("-c",))
    third = user.ask({"text": "three"}, flags=("-r", first[:6]))
    assert (again.result["session"], third.result["session"]) == (first, first)
    listing = user.ebb("sessions", "show", first)
    assert listing.out == "> go\n\none\n\n> go\n\ntwo\n\n> go\n\nthree\n\n"
    listed = user.ebb("sessions", "list", "--json").lines
    assert [(row["id"], row["title"], row["messages"]) for row in listed] == [(first, "go", 6)]


@pytest.mark.parametrize("word", ["beefed", "my-session", "ABCDEF", "0123456789ab"])
def test_a_word_after_resume_that_is_no_session_ends_the_run_before_anything_is_said(user: User, word: str) -> None:
    first = user.ask({"text": "one"}).result["session"]
    run = user.ask({"text": "two"}, flags=("-r", word))
    assert (run.code, run.out) == (2, "")
    assert run.err == f"ebb: there is no session `{word}`; `ebb sessions list` shows them\n"
    assert user.ebb("sessions", "show", first).out == "> go\n\none\n\n"


def test_a_deleted_session_is_gone(user: User) -> None:
    session = user.ask({"text": "one"}).result["session"]
    forked = user.ebb("sessions", "fork", session[:8])
    fork = forked.out.split()[1]
    assert (forked.code, f"resume it with `ebb -r {fork}`" in forked.out) == (0, True)
    assert user.ebb("sessions", "rename", fork, "another way").out == f"renamed {fork}  another way\n"
    assert "another way" in user.ebb("sessions").out
    assert user.ebb("sessions", "rename", fork).code == 2
    assert user.ebb("sessions", "delete", fork).code == 0
    assert user.ebb("sessions", "delete", session[:8]).code == 0
    assert user.ebb("sessions", "show", session).code == 2
    assert "no sessions in this project" in user.ebb("sessions").out


def test_config_shows_each_value_and_its_source(user: User) -> None:
    run = user.ebb("config", "--json", "--config", "agent.max_turns=3", env={"EBB_MODEL": "ollama/x"})
    settings = run.result
    assert settings["agent.max_turns"] == {"value": 3, "source": "--config agent.max_turns=3"}
    assert settings["agent.model"] == {"value": "ollama/x", "source": "environment EBB_MODEL"}
    assert settings["agent.permission_mode"] == {"value": "ask", "source": "default"}
    assert "agent.hard_block = 0.98    # default" in user.ebb("config").out


def test_the_demo_repairs_its_project(user: User) -> None:
    run = ebb("demo", "--keep", str(user.project / "demo"), home=user.home)
    assert (run.code, run.err) == (0, "")
    assert run.out.endswith("The tests pass.\n")
    assert '\n  * read  prices.py\n    1\t"""Prices of an order' in run.out
    assert "\n  * grep  def test_\n    test_prices.py\n" in run.out
    assert "price * quantity" in (user.project / "demo" / "prices.py").read_text()


def test_the_demo_of_the_terminal_mends_its_project_and_compacts_once(user: User) -> None:
    """Its script with no pauses and nobody to ask; the terminal itself shows what any session does."""
    (user.project / "orders.log").write_text(demo.order_log())
    for name in ("prices.py", "test_prices.py"):
        (user.project / name).write_text((demo.DEMO_FILES / f"{name}.txt").read_text())
    script = user.home / "tour.toml"
    script.write_text(re.sub(r"^pause.*$", "", (demo.DEMO_FILES / "tour.toml").read_text(), flags=re.MULTILINE))
    flags = (*demo.DEMO_FLAGS, "--allow", "edit(prices.py)", "--output-format", "stream-json")
    run = user.ebb("-p", demo.DEMO_PROMPT, "-m", f"scripted/{script}", *flags)
    events = [json.loads(line) for line in run.out.splitlines()]
    assert [event["strategies"] for event in events if event["type"] == "context_compacted"] == [["summary"]]
    assert "price * quantity" in (user.project / "prices.py").read_text()
    assert "Try these before you leave" in events[-1]["result"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_in_order_with_130(user: User, number: signal.Signals) -> None:
    with FakeProvider([Turn(text="I begin", fault="hang")]) as server:
        process = user.begin("-p", "go", "-m", HAIKU, "--output-format", "stream-json", env=server.environment)
        read_until(process, "text_delta")
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
        assert server.wait_gone()
    result = json.loads(rest.splitlines()[-1])
    assert (process.returncode, result["stop_reason"]) == (130, "interrupted")
    assert result["result"] != ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_while_it_opens_its_session_ends_in_order(user: User, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {"OLLAMA_HOST": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        process = user.begin("-p", "go", "-m", "ollama/x", "--output-format", "json", env=env)
        connection, _ = silent.accept()
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        connection.close()
    result = json.loads(out)
    assert (process.returncode, result["stop_reason"], result["session"]) == (130, "interrupted", None)


def test_what_still_runs_at_the_end_of_a_run_is_ended_and_said(user: User) -> None:
    slow = call("bash", command="echo $$ > pid; exec sleep 300", timeout=1)
    run = user.ebb("-p", "go", "-m", user.script(calls(slow), {"text": "ok"}), "--permission-mode", "auto")
    assert (run.code, run.out) == (0, "ok\n")
    assert "background job ended with the run: job-1: echo $$ > pid; exec sleep 300" in run.err
    with pytest.raises(ProcessLookupError):
        os.kill(int((user.project / "pid").read_text()), 0)


def test_an_answer_is_printed_also_when_the_signal_comes_while_jobs_are_ended(user: User) -> None:
    works = "trap 'echo > asked' TERM; echo; while :; do sleep 0.1; done"
    job, look = call("bash", command=works, background=True), call("bash_output", job="job-1", wait=10)
    model = user.script(calls(job), calls(look), {"text": "ok"})
    process = user.begin("-p", "go", "-m", model, "--output-format", "stream-json", "--permission-mode", "auto")
    read_until(process, "turn_finished")
    while not (user.project / "asked").exists():  # the job is asked to end, and does not
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    noticed, result = map(json.loads, out.splitlines())
    assert noticed["text"].startswith("background job ended with the run: job-1: trap")
    assert (process.returncode, result["result"]) == (0, "ok")


def test_a_reader_that_goes_away_ends_the_turn_and_what_it_runs(user: User) -> None:
    work = call("bash", command="echo $$ > pid; while :; do echo; sleep 0.1; done")
    flags = ("--output-format", "stream-json", "--permission-mode", "auto")
    run = command("-p", "go", "-m", user.script({"calls": [work]}), *flags)
    done = shell(user, f"{shlex.join(run)} </dev/null | grep -m 1 tool_progress")
    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int((user.project / "pid").read_text()), 0)
    listing = user.ebb("sessions", "show", user.ebb("sessions", "--json").result["id"], "--json")
    assert [part["status"] for part in listing.lines[-1]["parts"]] == ["interrupted"]


def test_what_changed_since_a_session_was_left_is_said(user: User) -> None:
    (user.project / "a.txt").write_text("one\n")
    user.ask(calls(call("read", path="a.txt")), {"text": "Read."})
    (user.project / "a.txt").write_text("two\n")
    again = user.ask({"text": "Yes."}, flags=("-c",), form="text")
    assert (again.out, again.err) == ("Yes.\n", "ebb: 1 file changed on disk since you left\n")
    events = user.ask({"text": "Yes."}, flags=("-c",), form="stream-json").lines
    assert [event["changed"] for event in events if event["type"] == "resumed"] == [["a.txt"]]


def test_what_was_learned_of_a_model_is_there_for_its_next_session(user: User) -> None:
    usage = {"usage": {"input": 3000, "output": 5}}
    user.ask({"text": "Yes.", **usage})
    failed = user.ask({**calls(call("todo", items=[])), **usage}, {"error": "auth"})
    assert failed.code != 0
    ((model, body),) = user.query("select model, body from calibrations")
    assert model.startswith("scripted/")
    assert json.loads(body)["samples"] == 2


def test_config_shows_what_a_share_of_the_whole_window_became(user: User) -> None:
    flags = ("--context-window", "100000", "--config", "agent.thresholdRatio=0.5")
    run = user.ebb("config", "--json", "-m", "openai-chat/x", *flags)
    source = "--config agent.thresholdRatio=0.5 (thresholdRatio)"
    effective = 100_000 - 8192 - 8192
    assert run.result["agent.compact_trigger"] == {"value": round(50_000 / effective, 4), "source": source}
    assert user.ebb("config", "--json", *flags).result["agent.compact_trigger"] == {"value": None, "source": source}


def test_config_says_where_the_numbers_of_the_window_come_from(user: User) -> None:
    run = user.ebb("config", "-m", "openai-chat/x", "--context-window", "50000", "--config", "agent.contextBudget=7")
    assert "agent.context_window = 50000    # command line" in run.out
    found = next(line for line in run.out.splitlines() if line.startswith("# openai-chat/x: "))
    assert found == (
        "# openai-chat/x: context_window 50,000 (command line), max_output_tokens 8,192 (default), "
        "context_window_buffer_tokens 6,250 (default); usable 35,558; compact at 33,780, hard limit 34,847"
    )


def test_a_conversation_that_does_not_fit_goes_on_with_a_fallback_also_when_it_is_resumed(user: User) -> None:
    """The first fallback has no key, so that it is passed over; the second is connected."""
    small = scripted(user, "small", 12_000)
    large = scripted(user, "large", 90_000, {"text": "fine", "usage": {"input": 9000, "output": 3}})
    chain = f"agent.fallback_models={json.dumps([HAIKU, large])}"
    run = user.ebb("-p", "y" * 30_000, "-m", small, "--config", chain, "--output-format", "stream-json")
    (switched,) = (line for line in run.lines if line["type"] == "model_switched")
    assert (switched["before"], switched["after"]) == (small, large)
    assert (run.code, run.result["result"], run.result["model"]) == (0, "fine", large)
    notices = [line["text"] for line in run.lines if line["type"] == "noticed"]
    assert any(f"`{HAIKU}` cannot take over: there is no key" in text for text in notices)
    again = user.ebb("-c", "-p", "and now?", "--config", chain, "--output-format", "json")
    assert (again.code, again.result["result"], again.result["model"]) == (0, "fine", large)
    rewrites = json.loads(user.ebb("context", "--json").out)["epochs"]
    assert [epoch["rewrite"] and epoch["rewrite"]["reason"] for epoch in rewrites] == ["model", None]


def test_where_no_model_takes_the_conversation_the_run_ends_with_7(user: User) -> None:
    """Long words are shown by their ends in any window; what every request holds is not."""
    small, other = (scripted(user, name, 1_000) for name in ("small", "other"))
    limits = "providers.scripted.context_window=1000"
    chain = f"agent.fallback_models={json.dumps([other])}"
    flags = ("-m", small, "--config", limits, "--config", chain, "--output-format", "json")
    assert ended(user.ebb("-p", "y" * 30_000, *flags)) == (7, "context", "context")


def test_a_window_smaller_than_what_every_request_holds_ends_with_7(user: User) -> None:
    run = user.ask({"text": "never"}, flags=("--context-window", "1000"))
    assert ended(run) == (7, "context", "context")


def test_a_model_that_goes_on_calling_in_its_final_turn_ends_with_7(user: User) -> None:
    goes_on = {"text": "on and on", **calls(call("bash", command="printf '%.0sa ' $(seq 9000)"))}
    whole = ("--config", "agent.result_offload_threshold=100000")
    on = (*whole, "--config", "agent.on_full=final", "--permission-mode", "auto", "--context-window", "16000")
    run = user.ask(*[goes_on] * 9, flags=on)
    assert ended(run) == (7, "context", "context_limit")
    assert run.result["result"] == "on and on"


def test_a_fallback_that_is_no_model_is_refused_before_anything_runs(user: User) -> None:
    run = user.ask({"text": "never"}, flags=("--config", 'agent.fallback_models=["gpt"]'))
    assert (run.code, "`gpt` is not a model; write PROVIDER/NAME" in run.err) == (2, True)


def test_who_asks_is_told_what_happens_to_the_context(user: User) -> None:
    looks = {**calls(call("glob", pattern="*")), "usage": {"input": 10, "cache_write": 2400}}
    script = user.script(looks, {"text": "ok", "usage": {"input": 2600}})
    quiet = user.ebb("-p", "go", "-m", script)
    run = user.ebb("-p", "go", "-m", script, env={"CONTEXT_DEBUG": "true"})
    assert (quiet.err, run.out) == ("", "ok\n")
    (record,) = (json.loads(line) for line in run.err.splitlines() if "context/cache-break" in line)
    assert {name: value for name, value in record.items() if name not in ("at", "model")} == {
        "topic": "context/cache-break", "cause": "unknown", "expectedTokens": 2400, "readTokens": 0,
    }  # fmt: skip
    assert json.dumps(record) in (user.home / "logs" / "context.jsonl").read_text()


def test_the_projection_of_each_request_is_told_on_request(user: User) -> None:
    run = user.ebb("-p", "go", "-m", user.script({"text": "ok"}), env={"CONTEXT_DEBUG": "true"})
    records = [json.loads(line) for line in run.err.splitlines() if "context-guard/" in line]
    assert [line["topic"].removeprefix("context-guard/") for line in records] == [
        "init-counters", "loop-init", "schema-estimate", "evaluate", "evaluate-target", "provider-eval",
        "build-metrics",
    ]  # fmt: skip
    _, _, _, projection, target, verdict, _ = records
    parts = ("currentCtxTokens", "pendingCtxTokens", "newCtxTokens", "extraTokens")
    assert projection["projectedTokens"] == sum(projection[part] for part in parts)
    assert target["limit"] == target["contextWindow"] - target["bufferTokens"] - target["maxOutputTokens"]
    assert (verdict["status"], verdict["blocked"]) == ("ok", [])


def test_a_run_that_is_to_outlive_its_terminal_does(user: User) -> None:
    model = user.script({"text": "I wait.", "pause_between": 0.3, "calls": []})
    arguments = command("-p", "go", "-C", str(user.project), "-m", model, "--output-format", "stream-json")
    process = subprocess.Popen(
        ("/bin/sh", "-c", f"trap '' HUP; exec {shlex.join(arguments)}"),
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment(user.home),
    )  # fmt: skip
    read_until(process, "turn_started")
    process.send_signal(signal.SIGHUP)
    rest, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(rest.splitlines()[-1])["result"]) == (0, "I wait.")


@pytest.mark.parametrize(
    "words",
    [
        *(f"-p go --output-format {form}" for form in ("text", "json", "stream-json")),
        "sessions list", "sessions list --json", "config", "--help", "--version",
    ],
)  # fmt: skip
def test_a_reader_that_went_away_is_told_by_the_exit_code(user: User, words: str) -> None:
    user.ask({"text": "Hello."})
    arguments = shlex.join(command(*words.split(), "-C", str(user.project), "-m", user.script({"text": "Hello."})))
    done = shell(user, f"{{ {arguments}; echo $? >&2; }} | true")
    assert done.stderr.splitlines()[-1] == "141"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_prompt_is_read_from_standard_input_where_none_is_given(user: User) -> None:
    model = user.script({"text": "Said."})
    run = user.ebb("-p", "-m", model, "--output-format", "json", stdin="what is it?\n")
    assert (run.code, run.result["result"], run.err) == (0, "Said.", "")
    assert user.ebb("sessions", "list", "--json").lines[0]["title"] == "what is it?"
    assert user.ebb("-m", model, "-p", stdin="and now?").out == "Said.\n"
    assert user.ebb("-p", "-m", model).err == "ebb: no prompt; write one after `-p`, or pipe one into `ebb -p`\n"
