"""What `ebb -p` is told by flags: how long it may take, where its answer goes, what the model is told."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import command, environment
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.pty_terminal import running
from tests.kit.session import call, calls
from tests.kit.user import User

ID = "2f0c7c5e-6a3f-4d6e-9a53-0c7f2b9d1e44"


def asked(user: User, *flags: str, reply: str = "Yes.") -> dict[str, Any]:
    """The request that a run makes with these flags."""
    with FakeProvider([Turn(text=reply)]) as server:
        run = user.ebb("-p", "go", "-m", "anthropic/claude-haiku-5-5", *flags, env=server.environment)
        assert (run.code, run.out) == (0, f"{reply}\n"), run.err
        (request,) = server.requests
    return dict(request.body)


def system_of(request: dict[str, Any]) -> str:
    return "\n\n".join(part["text"] for part in request["system"])


def test_a_run_that_takes_too_long_is_stopped_and_says_so(user: User) -> None:
    slow = calls(call("bash", command="sleep 60"))
    run = user.ask({"text": "I look.", **slow}, flags=("--permission-mode", "auto", "--max-time", "1"))
    result = run.result
    assert (run.code, result["stop_reason"], result["result"]) == (6, "time_limit", "I look.")
    assert result["error"] == {
        "code": "time_limit", "message": "stopped at `--max-time`; raise it, or continue with `ebb -c`",
    }  # fmt: skip
    again = user.ask({"text": "Done."}, flags=("-c",))
    assert (again.code, again.result["session"]) == (0, result["session"])


def test_a_run_that_has_answered_in_time_is_not_stopped(user: User) -> None:
    run = user.ask({"text": "Yes."}, flags=("--max-time", "60.5"))
    assert (run.code, run.result["stop_reason"]) == (0, "answered")


def test_an_answer_that_does_not_meet_the_schema_is_not_asked_for_again_when_the_time_is_over(user: User) -> None:
    (user.project / "schema.json").write_text('{"type": "object"}')
    flags = ("--output-schema", str(user.project / "schema.json"), "--max-time", "1")
    run = user.ask({"text": "no"}, {"text": "{}", "pause": 60}, flags=flags)
    assert (run.code, run.result["stop_reason"]) == (6, "time_limit")


def test_the_answer_is_written_to_a_file_too(user: User) -> None:
    place = user.home / "answer.txt"
    place.write_text("of another run")
    run = user.ask({"text": "Forty-two.\n"}, flags=("--output-last-message", str(place)), form="text")
    assert (run.code, run.out, place.read_text()) == (0, "Forty-two.\n", "Forty-two.\n")
    failed = user.ask({"error": "auth"}, flags=("--output-last-message", str(place)))
    assert (failed.code, place.read_text()) == (4, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_an_answer_that_cannot_be_written_to_its_file_is_printed_and_the_run_has_failed(user: User) -> None:
    run = user.ask({"text": "Forty-two."}, flags=("--output-last-message", "/dev/full"))
    message = "the answer could not be written to `/dev/full`: No space left on device"
    assert (run.code, run.result["result"], run.result["stop_reason"]) == (1, "Forty-two.", "failed")
    assert run.result["error"] == {"code": "answer_file", "message": message}


def test_what_is_appended_stands_at_the_end_of_the_system_text(user: User) -> None:
    system = system_of(asked(user, "--append-system-prompt", "Answer in French."))
    assert system.startswith("You are Ebbtide")
    assert system.endswith("\n\nAnswer in French.")


def test_a_file_takes_the_place_of_the_programs_own_instructions(user: User) -> None:
    (user.project / "AGENTS.md").write_text("Use tabs.")
    (user.home / "prompt.md").write_text("You are a poet.\n")
    system = system_of(asked(user, "--system-prompt-file", str(user.home / "prompt.md")))
    assert system.startswith("You are a poet.\n\n# Instructions from ")
    assert "You are Ebbtide" not in system
    assert "Use tabs." in system


def test_a_session_has_the_id_that_its_user_chose(user: User) -> None:
    run = user.ask({"text": "Yes."}, flags=("--session-id", ID.upper()))
    assert (run.code, run.result["session"]) == (0, ID)
    for flags in (("--resume", ID), ("-r", ID[:10]), ("-c",)):
        again = user.ask({"text": "Yes."}, flags=flags)
        assert (again.code, again.result["session"]) == (0, ID)
    taken = user.ask({"text": "Yes."}, flags=("--session-id", ID))
    assert (taken.code, taken.out) == (2, "")
    assert taken.err == f"ebb: session `{ID}` already exists; resume it with `-r`, or use another id\n"


def test_a_session_with_an_id_of_its_users_own_is_exported_and_imported(user: User, tmp_path: Path) -> None:
    assert user.ask({"text": "Yes."}, flags=("--session-id", ID)).code == 0
    bundle = str(tmp_path / "it.ebb")
    assert user.ebb("sessions", "export", ID[:8], bundle, "--raw").code == 0
    other = User(tmp_path / "other")
    assert (imported := other.ebb("sessions", "import", bundle)).code == 0, imported.err
    assert len(other.ebb("sessions", "show", ID, "--json").lines) == 2


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--max-time", "soon"), "`--max-time` must be a number of seconds above 0, not 'soon'"),
        (("--max-time", "0"), "`--max-time` must be a number of seconds above 0, not '0'"),
        (("--max-time", "nan"), "`--max-time` must be a number of seconds above 0, not 'nan'"),
        (("--session-id", "mine"), f"`--session-id` must be a UUID such as `{ID}`, not 'mine'"),
        (("--session-id", ID, "-c"), "`--session-id` works only for a new session"),
        (("--output-last-message", "/no/such/file"), "cannot write the answer to `/no/such/file`: No such file"),
        (("--output-last-message", "."), "cannot write the answer to `.`: Is a directory"),
        (("--system-prompt-file", "none.md"), "cannot read the system prompt `none.md`: No such file"),
        (("--system-prompt-file", "/dev/null"), "the system prompt `/dev/null` is empty"),
        (("--system-prompt-file", "/dev/zero"), "the system prompt `/dev/zero` is longer than a million characters"),
    ],
)  # fmt: skip
def test_a_bad_value_is_one_sentence_and_exit_code_2(user: User, flags: tuple[str, ...], says: str) -> None:
    run = user.ask({"text": "never"}, flags=flags)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert run.err.startswith(f"ebb: {says}")


def test_a_pipe_that_stays_open_and_says_nothing_holds_up_no_run(user: User) -> None:
    process = subprocess.Popen(
        command("-C", str(user.project), "-p", "go", "-m", user.script({"text": "Yes."})), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env=environment(user.home),
    )  # fmt: skip
    assert process.stdout
    assert (process.stdout.read(), process.wait(timeout=60)) == (b"Yes.\n", 0)
    process.communicate()


def test_a_system_prompt_that_is_no_text_is_refused(user: User) -> None:
    (user.home / "prompt.bin").write_bytes(b"\xff\xfe")
    run = user.ask({"text": "never"}, flags=("--system-prompt-file", str(user.home / "prompt.bin")))
    assert (run.code, run.out, run.err.endswith("it is not UTF-8\n")) == (2, "", True)


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_whoever_wants_it_is_told_each_step_and_call_on_stderr(user: User, form: str) -> None:
    usage = {"usage": {"input": 1000, "cache_read": 200, "output": 9}}
    wanted = {**calls(call("write", path="a.txt", content="hi")), **usage}
    flags = ("--permission-mode", "accept-edits", "--verbose")
    run = user.ask(wanted, {"text": "Done.", **usage}, flags=flags, form=form)
    model = f"scripted/{user.home / 'script.json'}"
    steps = [re.sub(r"step (\d): [\d,]+ of [\d,]+ ", r"step \1: ", line) for line in run.err.splitlines()]
    assert steps == [
        "ebb: step 1: tokens",
        f"ebb: {model} (step): 1,200 tokens in, 9 out, $0.0000",
        'ebb: write {"path": "a.txt", "content": "hi"}',
        "ebb: write: done, changed a.txt",
        "ebb: step 2: tokens",
        f"ebb: {model} (step): 1,200 tokens in, 9 out, $0.0000",
    ]


WAITS = r"""
[[reply]]
calls = [{ name = "bash", arguments = { command = 'printf "\u001b"; sleep 1' } }]
[[reply]]
text = "Done.\u001b[31m \u202ered"
"""


def test_a_terminal_is_shown_what_goes_on_and_left_with_the_answer_alone(tmp_path: Path) -> None:
    flags = ("-p", "go", "--permission-mode", "auto", "--no-sandbox")
    with running(tmp_path, WAITS, flags=flags) as terminal:
        terminal.until("step 1 · ")
        terminal.until("· bash printf")
        terminal.until_it_ends()
        left = [line.rstrip() for line in terminal.text.splitlines() if line.strip()]
    assert left[:1] == ['ebb: bash {"command": "printf \\"\\\\u001b\\"; sleep 1"}']
    assert left[1:] == ["Done. �red"]
    assert b"\x1b[?25l" not in terminal.sent, "a run that is killed could not give the cursor back"
