"""`ebb --input-format stream-json`: a program says, answers, interrupts and changes the mode, as long as it likes."""

import base64
import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import command, environment
from tests.kit.driver import STREAM, driven
from tests.kit.session import bash, call, calls
from tests.kit.user import User

AUTO = ("--permission-mode", "auto")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def waits(user: User) -> tuple[object, Path]:
    """A call that runs until something is written to the pipe."""
    gate = user.project / "gate"
    os.mkfifo(gate)
    return calls(bash(f"cat {gate}")), gate


def test_turns_follow_each_other_until_the_input_ends(user: User) -> None:
    with driven(user, model=user.script({"text": "One."}, {"text": "Two."})) as program:
        session = program.until("init")["session"]
        for text, answer in (("first", "One."), ("second", "Two.")):
            program.say("message", text=text)
            assert program.until("turn_started")["text"] == text
            assert program.until("turn_finished")["text"] == answer
        code, result = program.end()
    assert (code, result["session"], result["result"], result["steps"]) == (0, session, "Two.", 2)
    assert user.query("select count(*) from messages") == [(4,)]


def test_the_work_in_hand_is_done_when_the_input_ends(user: User) -> None:
    lines = "".join(json.dumps({"type": "message", "text": text}) + "\n" for text in ("first", "second"))
    run = user.ebb(*STREAM, "-m", user.script({"text": "One."}, {"text": "Two."}), stdin=lines.rstrip("\n"))
    assert (run.code, run.result["result"]) == (0, "Two.")
    assert [line["text"] for line in run.lines if line["type"] in ("turn_started", "steered")] == ["first", "second"]


LONG = "some words that say hardly anything " * 1210
SUMMARISES = ("--config", "agent.background_messages=4", "--context-window", "60000")
SUMMARY = {"when": "context window is nearly full", "text": "<summary>they talked</summary>"}


def test_messages_sent_at_once_are_summarised_between_turns_like_slow_ones(user: User) -> None:
    """`agent.background_messages`: three turns from a pipe, of which the second reaches it."""
    lines = "".join(json.dumps({"type": "message", "text": text}) + "\n" for text in (LONG, LONG, "and now?"))
    model = user.script({"text": "One."}, {"text": "Two."}, SUMMARY, {"text": "Three."})
    run = user.ebb(*STREAM, "-m", model, *SUMMARISES, stdin=lines)
    marks = {"turn_started", "turn_finished", "context_compacted"}
    assert (run.code, run.result["result"]) == (0, "Three.")
    assert [line["type"] for line in run.lines if line["type"] in marks] == [
        *["turn_started", "turn_finished"] * 2, "context_compacted", "turn_started", "turn_finished",
    ]  # fmt: skip
    (rewrite,) = (line for line in run.lines if line["type"] == "context_compacted")
    assert (rewrite["cause"], rewrite["strategies"]) == ("background", ["summary"])


def test_an_interrupt_ends_a_summary_that_the_next_turn_waits_for(user: User) -> None:
    model = user.script({"text": "One."}, {"text": "Two."}, {**SUMMARY, "pause": 600}, {"text": "Three."})
    with driven(user, *SUMMARISES, model=model) as program:
        for text in (LONG, LONG, "and now?"):
            program.say("message", text=text)
        program.until("compaction_started")
        program.say("interrupt")
        assert program.until("turn_finished")["end"] == "interrupted"
        program.say("message", text="and after that?")
        code, result = program.end()
    assert (code, result["result"], program.told("context_compacted")) == (0, "Three.", [])


def test_a_prompt_on_the_command_line_comes_first(user: User) -> None:
    line_given = json.dumps({"type": "message", "text": "second"})
    model = user.script({"text": "One."}, {"text": "Two."})
    for flags in (("-p", "first"), ("-p", "-", "first")):
        run = user.ebb(*flags, *STREAM, "-m", model, stdin=line_given)
        texts = [line["text"] for line in run.lines if line["type"] in ("turn_started", "steered")]
        assert (run.code, texts) == (0, ["first", "second"])


def test_what_steers_is_heard_by_the_next_step_and_what_does_not_is_a_turn(user: User) -> None:
    wait, gate = waits(user)
    with driven(user, *AUTO, model=user.script(wait, {"text": "Both."}, {"text": "Third."})) as program:
        program.say("message", text="go")
        program.until("tool_started")
        program.say("message", text="and this", steer=True)
        program.say("message", text="then this")
        program.say("mode", mode="auto")
        program.until("mode_changed")
        gate.write_text("on")
        assert program.until("steered")["text"] == "and this"
        code, result = program.end()
    turns = [line["text"] for line in program.told("turn_started")]
    assert (code, result["result"], turns) == (0, "Third.", ["go", "then this"])


def test_a_call_is_allowed_denied_and_edited(user: User) -> None:
    asked = tuple(calls(bash(f"echo {word} > {word}; cat {word}")) for word in ("a", "b", "c"))
    with driven(user, model=user.script(*asked, {"text": "Done."})) as program:
        program.say("message", text="go")
        program.say("answer", id=program.until("permission_asked")["id"], verdict="allow")
        program.say("answer", id=program.until("permission_asked")["id"], verdict="deny", note="not that")
        first = program.until("permission_asked")["id"]
        program.say("answer", id=first, verdict="edit", arguments={"command": "echo other > d; cat d"})
        again = program.until("permission_asked", is_edited=True)
        assert again["arguments"] == {"command": "echo other > d; cat d"}
        program.say("answer", id=again["id"], verdict="allow")
        code, result = program.end()
    outputs = [(line["status"], line["text"].splitlines()[0]) for line in program.told("tool_finished")]
    assert (outputs[0], outputs[2]) == (("done", "a"), ("done", "[The user changed this call before it ran."))
    assert outputs[1][0] == "denied"
    assert "not that" in outputs[1][1]
    assert (code, result["stop_reason"], [one["arguments"] for one in result["denied"]]) == (
        5, "denied", [{"command": "echo b > b; cat b"}],
    )  # fmt: skip


def test_a_rule_that_is_offered_may_be_kept(user: User) -> None:
    with driven(user, model=user.script(calls(bash("touch a")), calls(bash("touch b")), {"text": "ok"})) as program:
        program.say("message", text="go")
        asked = program.until("permission_asked")
        program.say("answer", id=asked["id"], verdict="allow", rule="bash(rm)")
        assert "must be one of the `offers`" in program.until("input_refused")["reason"]
        program.say("answer", id=asked["id"], verdict="allow", rule=asked["offers"][-1])
        code, _ = program.end()
    assert code in (0, 5)
    assert program.told("tool_finished")[0]["status"] == "done"


def test_a_question_of_the_model_and_a_plan_are_answered(user: User) -> None:
    question = calls(call("ask_user", question="Which?", options=["red", "blue"]))
    plan = calls(call("submit_plan", plan="# Plan\n\n1. Do it."))
    model = user.script(question, plan, calls(call("write", path="a.txt", content="x")), {"text": "Done."})
    with driven(user, "--permission-mode", "plan", model=model) as program:
        program.say("message", text="go")
        asked = program.until("question_asked")
        program.say("answer", id=asked["id"], verdict="allow")
        assert (
            program.until("input_refused")["reason"]
            == f"`{asked['id']}` is a free-text question: answer it with `text`"
        )
        program.say("answer", id=asked["id"], text="blue")
        assert program.until("question_answered")["answer"] == "blue"
        submitted = program.until("plan_submitted")
        program.say("answer", id=submitted["id"], verdict="accept", mode="accept-edits")
        code, result = program.end()
    assert (code, result["result"], (user.project / "a.txt").read_text()) == (0, "Done.", "x")


def test_an_answer_that_comes_twice_is_refused_and_the_first_counts(user: User) -> None:
    with driven(user, model=user.script(calls(bash("touch a")), {"text": "Done."})) as program:
        program.say("message", text="go")
        id = program.until("permission_asked")["id"]
        program.say("answer", id=id, verdict="allow")
        program.say("answer", id=id, verdict="deny")
        program.say("answer", id="permission-none", verdict="allow")
        code, result = program.end()
    assert [one["reason"] for one in result["refused_input"]] == [
        f"`{id}` is already answered", "`permission-none` is not an open question",
    ]  # fmt: skip
    assert (code, [line["status"] for line in program.told("tool_finished")]) == (0, ["done"])


def test_an_interrupt_ends_the_turn_and_the_run_goes_on(user: User) -> None:
    wait, _ = waits(user)
    with driven(user, *AUTO, model=user.script(wait, {"text": "Fine."})) as program:
        program.say("interrupt")  # there is nothing to end
        program.say("message", text="go")
        program.until("tool_started")
        program.say("interrupt")
        assert program.until("turn_finished")["end"] == "interrupted"
        program.say("message", text="go on")
        assert program.until("turn_finished")["end"] == "answered"
        code, result = program.end()
    assert (code, result["result"], result["stop_reason"]) == (0, "Fine.", "answered")


def test_an_interrupt_right_behind_a_message_ends_its_turn(user: User) -> None:
    lines = [{"type": "message", "text": "go"}, {"type": "interrupt"}]
    run = user.ebb(*STREAM, "-m", user.script({"text": "No."}), stdin="\n".join(map(json.dumps, lines)))
    assert (run.code, run.result["stop_reason"]) == (130, "interrupted")


def test_the_mode_changes_what_is_asked(user: User) -> None:
    with driven(user, model=user.script(calls(bash("touch a")), {"text": "Done."})) as program:
        program.say("mode", mode="auto")
        assert program.until("mode_changed")["mode"] == "auto"
        program.say("message", text="go")
        code, _ = program.end()
    assert (code, program.told("permission_asked")) == (0, [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "it is not JSON: "),
        (b'{"type": "message", "text": "\xff"}', "it is not UTF-8 (byte 29 is 0xff)"),
        (b'{"type": "message", "text": "\\ud83d"}', "it contains half of a surrogate pair"),
        (b'{"type": "message", "text": NaN}', "it is not JSON: NaN is not a JSON value"),
        (b"[" * 100_000, "it is not JSON: "),
        (b'"go"', "it must be a JSON object"),
        (b"{}", "its `type` is null, but must be one of `message`, `answer`, `interrupt`, `mode`"),
        (b'{"type": ["message"]}', 'its `type` is ["message"], but must be one of'),
        (b'{"type": "message"}', 'it is not a valid `message`: "text" is a required property'),
        (b'{"type": "message", "text": " "}', "its `text` is empty"),
        (b'{"type": "message", "text": "a", "texts": 1}', "it is not a valid `message`: "),
        (b'{"type": "message", "text": "a", "images": [{"data": "??"}]}', "an image is not base64: "),
        (b'{"type": "message", "text": "a", "images": [{"data": "YWJj"}]}', "models do not accept this kind of image"),
        (b'{"type": "mode", "mode": "yolo"}', "it is not a valid `mode`: "),
        (b'{"type": "answer", "id": 3}', "it is not a valid `answer`: "),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else "",
)  # fmt: skip
def test_a_line_that_says_nothing_is_refused_with_the_reason_and_the_run_goes_on(
    user: User, line: bytes, reason: str
) -> None:
    with driven(user, model=user.script({"text": "Fine."})) as program:
        program.write(b"\n" + line + b"\r\n")
        refused = program.until("input_refused")
        program.say("message", text="go")
        code, result = program.end()
    assert (refused["line"], refused["reason"][: len(reason)]) == (2, reason)
    assert (code, result["result"], len(result["refused_input"])) == (0, "Fine.", 1)


def test_a_line_of_a_hundred_megabytes_is_refused_and_none_of_it_kept(user: User) -> None:
    with driven(user, model=user.script({"text": "Fine."})) as program:
        for _ in range(100):
            program.write(b"x" * (1 << 20))
        program.write(b"\n")
        reason = program.until("input_refused")["reason"]
        status = Path(f"/proc/{program.process.pid}/status").read_text()
        program.say("message", text="go")
        code, result = program.end()
    assert (
        reason == "it has 104,857,600 bytes, more than the limit of 64 MB; write the content to a file and mention it"
    )
    assert (code, result["result"]) == (0, "Fine.")
    (peak,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    assert peak < 300_000, "kilobytes: what is too long is let go of"


def test_a_long_message_and_a_picture_reach_the_model(user: User) -> None:
    picture = base64.b64encode(PIXEL).decode()
    with driven(user, model=user.script({"text": "Seen."})) as program:
        program.say("message", text="look " * 100_000, images=[{"media_type": "image/png", "data": picture}])
        code, _ = program.end()
    assert code == 0
    (body,) = user.query("select body from messages where position = 0")[0]
    assert picture in body


def test_questions_are_answered_by_no_once_the_input_has_ended(user: User) -> None:
    asks = (calls(bash("touch a")), calls(call("ask_user", question="Why?", options=[])), {"text": "I could not."})
    with driven(user, model=user.script(*asks)) as program:
        program.say("message", text="go")
        program.until("permission_asked")
        code, result = program.end()
    assert (code, result["stop_reason"], result["result"]) == (5, "denied", "I could not.")
    assert "no answer is possible" in program.told("question_answered")[0]["answer"]


def test_a_program_that_dies_in_a_question_loses_nothing(user: User) -> None:
    """Nobody reads what is printed: the exit code says so. Whoever goes on is asked again."""
    with driven(user, model=user.script(calls(bash("touch made")), {"text": "Done."})) as program:
        program.say("message", text="go")
        program.until("permission_asked")
        program.leave()
        assert program.process.wait(timeout=60) == 141
    assert not (user.project / "made").exists()
    with driven(user, "-c", model=user.script({"text": "Done."})) as program:
        program.say("answer", id=program.until("permission_asked")["id"], verdict="allow")
        code, result = program.end()
    assert (code, result["result"], (user.project / "made").exists()) == (0, "Done.", True)


def test_a_failed_turn_is_told_and_the_next_one_goes_on(user: User) -> None:
    with driven(user, model=user.script({"error": "bad_request"}, {"text": "Fine."})) as program:
        program.say("message", text="go")
        assert program.until("turn_failed")["code"] == "bad_request"
        program.say("message", text="again")
        code, result = program.end()
    assert (code, result["result"], result["error"]) == (0, "Fine.", None)


def test_an_answer_that_never_fits_its_schema_fails_its_turn(user: User) -> None:
    (user.project / "schema.json").write_text('{"type": "object"}')
    flags = ("--output-schema", str(user.project / "schema.json"))
    with driven(user, *flags, model=user.script({"text": "no"}, {"text": "never"})) as program:
        program.say("message", text="go")
        assert program.until("turn_failed")["code"] == "schema"
        code, result = program.end()
    assert (code, result["stop_reason"]) == (8, "schema")


def test_a_signal_between_two_turns_ends_the_run(user: User) -> None:
    with driven(user, model=user.script({"text": "One."})) as program:
        program.say("message", text="go")
        program.until("turn_finished")
        program.process.send_signal(signal.SIGTERM)
        assert program.until("result")["stop_reason"] == "interrupted"
        assert program.process.wait(timeout=60) == 130


def test_the_time_ends_a_run_that_waits_for_input(user: User) -> None:
    with driven(user, "--max-time", "2", model=user.script()) as program:
        result = program.until("result")
        assert (program.process.wait(timeout=60), result["stop_reason"]) == (6, "time_limit")


def test_an_input_that_asks_nothing_is_a_usage_error(user: User) -> None:
    run = user.ebb(*STREAM, "-m", user.script(), stdin="nothing\n")
    result: dict[str, Any] = run.result
    assert (run.code, result["stop_reason"], result["error"]["code"], len(result["refused_input"])) == (
        2, "failed", "usage", 1,
    )  # fmt: skip


def test_lines_may_come_from_a_file(user: User) -> None:
    lines = user.home / "lines"
    lines.write_text(json.dumps({"type": "message", "text": "go"}))
    with lines.open() as file:
        done = subprocess.run(
            command("-C", str(user.project), "-m", user.script({"text": "ok"}), *STREAM), stdin=file,
            stdout=subprocess.PIPE, env=environment(user.home), check=False, timeout=60,
        )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])["result"]) == (0, "ok")


def test_lines_in_need_lines_out(user: User) -> None:
    run = user.ebb("-p", "go", "--input-format", "stream-json", "-m", user.script(), stdin="")
    assert (run.code, run.out, run.err) == (
        2, "", "ebb: `--input-format stream-json` needs `--output-format stream-json`\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("goes", "why"),
    [(">&-", "standard output is closed"), (">/dev/full", "No space left on device")],
)
@pytest.mark.parametrize("form", ["stream-json", "claude-stream-json"])
def test_what_cannot_be_printed_ends_the_run_with_1(user: User, form: str, goes: str, why: str) -> None:
    flags = ("--input-format", form, "--output-format", form, "-p", "go")
    line = shlex.join(command("-C", str(user.project), "-m", user.script({"text": "hi"}), *flags))
    done = subprocess.run(
        ("/bin/sh", "-c", f"echo nonsense | {line} {goes}"), env=environment(user.home), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, f"ebb: cannot write the output: {why}\n")
