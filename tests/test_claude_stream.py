"""`claude-stream-json`: what programs for Claude Code read and say."""

from typing import Any

import pytest

from tests.kit.driver import Driver, driven
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.session import bash, call, calls
from tests.kit.user import User

CLAUDE = ("--input-format", "claude-stream-json", "--output-format", "claude-stream-json")
ASKED = ("--permission-prompt-tool", "stdio")
AUTO = ("--permission-mode", "auto")
USAGE = {"usage": {"input": 10, "cache_read": 20, "cache_write": 30, "output": 40}}


def said(text: object) -> dict[str, object]:
    return {"message": {"role": "user", "content": text}, "parent_tool_use_id": None, "session_id": "default"}


def control(program: Driver, id: str, subtype: str, **more: object) -> dict[str, Any]:
    """What a control request is answered with."""
    program.say("control_request", request_id=id, request={"subtype": subtype, **more})
    answer: dict[str, Any] = program.until("control_response")["response"]
    assert answer["request_id"] == id
    return answer


def respond(program: Driver, request: dict[str, Any], **response: object) -> None:
    response_line = {"subtype": "success", "request_id": request["request_id"], "response": response}
    program.say("control_response", response=response_line)


def blocks(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content of assistant and user messages."""
    return [block for line in lines if line["type"] in ("assistant", "user") for block in line["message"]["content"]]


def test_a_run_is_told_in_messages_with_blocks_and_a_result(user: User) -> None:
    work = {"reasoning": "hm", "text": "I look.", **calls(call("read", path="a.txt"), bash("exit 3")), **USAGE}
    (user.project / "a.txt").write_text("hello\n")
    run = user.ask(work, {"text": "Done.", **USAGE}, flags=AUTO, form="claude-stream-json")
    lines = run.lines
    assert [line["type"] for line in lines] == [
        "system", "assistant", "assistant", "user", "assistant", "user", "assistant", "result",
    ]  # fmt: skip
    first, result = lines[0], lines[-1]
    assert {"Read", "Bash", "Edit"} <= set(first["tools"])
    named = {name: first[name] for name in ("subtype", "cwd", "model", "permissionMode", "mcp_servers")}
    model = f"scripted/{user.home / 'script.json'}"
    assert named == {
        "subtype": "init", "cwd": str(user.project), "model": model, "permissionMode": "bypassPermissions",
        "mcp_servers": [],
    }  # fmt: skip
    ids = [line["message"]["content"][0]["id"] for line in lines[2:5:2]]
    given = [block.pop("content") for block in blocks(lines) if block["type"] == "tool_result"]
    assert ("hello" in given[0], "exit code 3" in given[1]) == (True, True)
    assert blocks(lines) == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": ids[0], "name": "Read", "input": {"file_path": str(user.project / "a.txt")}},
        {"type": "tool_result", "tool_use_id": ids[0]},
        {"type": "tool_use", "id": ids[1], "name": "Bash", "input": {"command": "exit 3"}},
        {"type": "tool_result", "tool_use_id": ids[1], "is_error": True},
        {"type": "text", "text": "Done."},
    ]
    for name in ("duration_ms", "duration_api_ms", "uuid", "modelUsage"):
        del result[name]
    assert result == {
        "type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "result": "Done.",
        "stop_reason": "answered", "session_id": first["session_id"], "total_cost_usd": 0.0, "permission_denials": [],
        "usage": {
            "input_tokens": 20, "cache_creation_input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 80,
        },
    }  # fmt: skip


def test_denied_calls_are_listed_and_the_exit_code_is_that_of_an_answer(user: User) -> None:
    run = user.ask(calls(bash("touch a")), {"text": "No."}, form="claude-stream-json")
    (denied,) = run.result["permission_denials"]
    assert (run.code, run.result["subtype"], denied["tool_name"], denied["tool_input"]) == (
        0, "success", "Bash", {"command": "touch a"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "flags", "code", "subtype"),
    [
        ({"error": "auth"}, (), 4, "error_during_execution"),
        (calls(call("glob", pattern="*")), ("--max-turns", "1"), 6, "error_max_turns"),
        ({"text": "no"}, ("--output-schema", "schema.json", "--max-turns", "1"), 8,
         "error_max_structured_output_retries"),
    ],
)  # fmt: skip
def test_what_fails_is_a_result_that_says_so(
    user: User, reply: object, flags: tuple[str, ...], code: int, subtype: str
) -> None:
    (user.project / "schema.json").write_text('{"type": "object"}')
    flags = tuple(str(user.project / flag) if flag.endswith(".json") else flag for flag in flags)
    run = user.ask(reply, {"text": "no"}, flags=flags, form="claude-stream-json")
    assert (run.code, run.result["subtype"], run.result["is_error"]) == (code, subtype, True)
    assert len(run.result["errors"]) == 1


def test_an_answer_that_meets_its_schema_is_given_as_a_value(user: User) -> None:
    (user.project / "schema.json").write_text('{"type": "object"}')
    flags = ("--output-schema", str(user.project / "schema.json"))
    run = user.ask({"text": '```json\n{"n": 1}\n```'}, flags=flags, form="claude-stream-json")
    assert (run.code, run.result["structured_output"]) == (0, {"n": 1})


def test_a_program_has_turns_with_a_result_each(user: User) -> None:
    model = user.script(
        {"text": "One.", **USAGE}, {"text": "Two.", **USAGE}, calls(bash("sleep 60")), {"text": "Four."}
    )
    with driven(user, *AUTO, model=model, form=CLAUDE) as program:
        assert control(program, "1", "initialize", hooks=None)["subtype"] == "success"
        program.say("user", **said("first"))
        first = program.until("result")
        program.say("user", **said([{"type": "text", "text": "second"}]))
        second = program.until("result")
        assert control(program, "2", "set_permission_mode", mode="acceptEdits")["subtype"] == "success"
        assert control(program, "3", "set_permission_mode", mode="bypassPermissions")["subtype"] == "success"
        program.say("user", **said("third"))
        program.until("assistant")
        assert control(program, "4", "interrupt")["subtype"] == "success"
        third = program.until("result")
        program.say("user", **said("fourth"))
        code, last = program.end()
    results = (first, second, third, last)
    assert [(one["subtype"], one["result"], one["num_turns"]) for one in results] == [
        ("success", "One.", 1), ("success", "Two.", 1), ("error_during_execution", "", 1), ("success", "Four.", 1),
    ]  # fmt: skip
    assert (second["usage"]["input_tokens"], second["modelUsage"][second_model(program)]["inputTokens"]) == (10, 20)
    modes = [line["permissionMode"] for line in program.told("system")]
    assert (code, modes) == (0, ["bypassPermissions"] * 4)


def second_model(program: Driver) -> str:
    return str(program.told("system")[1]["model"])


def test_a_program_is_asked_what_may_run_and_answers(user: User) -> None:
    work = calls(bash("touch b; echo a"), bash("touch b"), call("write", path="a.txt", content="x"))
    with driven(user, *ASKED, model=user.script(work, {"text": "Done."}), form=CLAUDE) as program:
        program.say("user", **said("go"))
        first = program.until("control_request")
        asked = {name: first["request"][name] for name in ("subtype", "tool_name", "input")}
        assert asked == {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "touch b; echo a"}}
        respond(program, first, behavior="allow", updatedInput={"command": "touch b; echo a"})
        respond(program, program.until("control_request"), behavior="allow", updatedInput={"command": "echo other"})
        third = program.until("control_request")
        assert third["request"]["input"] == {"file_path": str(user.project / "a.txt"), "content": "x"}
        failure = {"subtype": "error", "request_id": third["request_id"], "error": "the program has no answer"}
        program.say("control_response", response=failure)
        code, result = program.end()
    given = [block["content"] for block in blocks(program.lines) if block["type"] == "tool_result"]
    assert [("a\n" in given[0]), ("other" in given[1]), ("the program has no answer" in given[2])] == [True] * 3
    assert (code, [one["tool_name"] for one in result["permission_denials"]]) == (0, ["Write"])


def test_a_question_and_a_plan_are_put_as_calls(user: User) -> None:
    question = calls(call("ask_user", question="Which?", options=["red", "blue"]))
    plan = calls(call("submit_plan", plan="# Plan\n\n1. Do it."))
    model = user.script(question, plan, {"text": "Done."})
    with driven(user, *ASKED, "--permission-mode", "plan", model=model, form=CLAUDE) as program:
        program.say("user", **said("go"))
        asked = program.until("control_request")
        (put,) = asked["request"]["input"]["questions"]
        assert (asked["request"]["tool_name"], put["question"]) == ("AskUserQuestion", "Which?")
        assert [option["label"] for option in put["options"]] == ["red", "blue"]
        respond(program, asked, behavior="allow", updatedInput={"answers": {"Which?": "blue"}})
        submitted = program.until("control_request")
        assert submitted["request"]["tool_name"] == "ExitPlanMode"
        respond(program, submitted, behavior="allow", updatedInput=submitted["request"]["input"])
        code, result = program.end()
    given = [block["content"] for block in blocks(program.lines) if block["type"] == "tool_result"]
    assert (code, result["result"], "blue" in given[0]) == (0, "Done.", True)


def asked_by_hook(program: Driver, id: str) -> dict[str, Any]:
    """The next request of a hook, of this callback."""
    request = program.until("control_request")
    assert (request["request"]["subtype"], request["request"]["callback_id"]) == ("hook_callback", id)
    return request


def test_hooks_of_the_program_are_told_and_decide(user: User) -> None:
    work = calls(bash("echo one"), bash("echo two"), call("write", path="a.txt", content="x"))
    hooks = {
        "PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["guard"], "timeout": 30}],
        "PostToolUse": [{"matcher": None, "hookCallbackIds": ["after"]}],
        "Stop": [{"hookCallbackIds": ["stop"]}],
        "Notification": None,
    }
    with driven(user, *AUTO, model=user.script(work, {"text": "Done."}, {"text": "More."}), form=CLAUDE) as program:
        begun = control(program, "1", "initialize", hooks=hooks)
        assert (begun["subtype"], begun["response"]["hook_on_failure_supported"]) == ("success", True)
        program.say("user", **said("go"))
        guard = asked_by_hook(program, "guard")["request"]
        guarded = {name: guard["input"][name] for name in ("hook_event_name", "tool_name", "tool_input", "cwd")}
        assert guarded == {
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "echo one"},
            "cwd": str(user.project),
        }  # fmt: skip
        assert guard["tool_use_id"] == guard["input"]["tool_use_id"]
        no = {"permissionDecision": "deny", "permissionDecisionReason": "not one"}
        respond(program, program.lines[-1], hookSpecificOutput={"hookEventName": "PreToolUse", **no})
        yes = {"permissionDecision": "allow", "updatedInput": {"command": "echo three"}}
        respond(program, asked_by_hook(program, "guard"), hookSpecificOutput={"hookEventName": "PreToolUse", **yes})
        ran = asked_by_hook(program, "after")
        assert ran["request"]["input"]["tool_input"] == {"command": "echo three"}
        respond(program, ran, hookSpecificOutput={"hookEventName": "PostToolUse", "additionalContext": "well done"})
        failed = asked_by_hook(program, "after")
        guarded = {"subtype": "error", "request_id": failed["request_id"], "error": "KeyError: x"}
        program.say("control_response", response=guarded)
        respond(program, asked_by_hook(program, "stop"), decision="block", reason="say more")
        respond(program, asked_by_hook(program, "stop"))
        code, result = program.end()
    given = [block["content"] for block in blocks(program.lines) if block["type"] == "tool_result"]
    assert ("not one" in given[0], "three\n" in given[1], "well done" in given[1]) == (True, True, True)
    assert (code, result["result"], (user.project / "a.txt").read_text()) == (0, "More.", "x")


@pytest.mark.parametrize(("on_failure", "runs"), [(None, True), ("continue", True), ("block", False)])
def test_a_guard_that_fails_blocks_where_it_says_so(user: User, on_failure: str | None, runs: bool) -> None:
    guard = {"hookCallbackIds": ["guard"], **({"onFailure": on_failure} if on_failure else {})}
    model = user.script(calls(bash("echo it; touch ran")), {"text": "Done."})
    with driven(user, *AUTO, "--no-sandbox", model=model, form=CLAUDE) as program:
        control(program, "1", "initialize", hooks={"PreToolUse": [guard]})
        program.say("user", **said("go"))
        asked = asked_by_hook(program, "guard")
        failure = {"subtype": "error", "request_id": asked["request_id"], "error": "KeyError: x"}
        program.say("control_response", response=failure)
        program.end()
    assert (user.project / "ran").exists() is runs
    (given,) = [block["content"] for block in blocks(program.lines) if block["type"] == "tool_result"]
    assert ("could not be asked: it failed: KeyError: x" in given) is not runs


def test_a_guard_whose_program_is_gone_allows_nothing(user: User) -> None:
    model = user.script(calls(bash("touch ran"), call("write", path="a.txt", content="x")), {"text": "Done."})
    with driven(user, *AUTO, "--no-sandbox", model=model, form=CLAUDE) as program:
        control(program, "1", "initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["guard"]}]})
        program.say("user", **said("go"))
        asked_by_hook(program, "guard")
        code, result = program.end()
    given = [block["content"] for block in blocks(program.lines) if block["type"] == "tool_result"]
    assert ["the program that decides about this has exited" in text for text in given] == [True, True]
    assert (code, result["result"], [path.name for path in user.project.iterdir()]) == (0, "Done.", [])


def test_an_interrupt_is_told_to_a_hook_that_is_waited_for(user: User) -> None:
    model = user.script(calls(bash("touch ran")), {"text": "Next."})
    with driven(user, *AUTO, "--no-sandbox", model=model, form=CLAUDE) as program:
        control(program, "1", "initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["guard"]}]})
        program.say("user", **said("go"))
        asked = asked_by_hook(program, "guard")
        program.say("control_request", request_id="2", request={"subtype": "interrupt"})
        assert program.until("control_cancel_request")["request_id"] == asked["request_id"]
        assert program.until("result")["subtype"] == "error_during_execution"
        respond(program, asked)  # too late
        program.say("user", **said("again"))
        code, result = program.end()
    assert (code, result["result"], (user.project / "ran").exists()) == (0, "Next.", False)


def test_a_suggested_rule_is_kept_and_others_are_refused(user: User) -> None:
    work = calls(bash("touch a"), bash("touch a"), bash("touch b"))
    with driven(user, *ASKED, model=user.script(work, {"text": "Done."}), form=CLAUDE) as program:
        program.say("user", **said("go"))
        first = program.until("control_request")
        (suggested,) = first["request"]["permission_suggestions"]
        rule = {"toolName": "Bash", "ruleContent": "=touch a"}
        assert suggested == {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
        respond(program, first, behavior="allow", updatedPermissions=[suggested])
        second = program.until("control_request")
        assert second["request"]["input"] == {"command": "touch b"}, "the second `touch a` is not asked about"
        wider = {**suggested, "rules": [{"toolName": "Bash"}]}
        respond(program, second, behavior="allow", updatedPermissions=[wider])
        refused = program.until("system", subtype="input_refused")
        assert refused["reason"] == "its `updatedPermissions` are ignored: only suggested rules can be added"
        code, result = program.end()
    assert (code, result["result"], result["permission_denials"]) == (0, "Done.", [])


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (["allow"], "the `response` to `{id}` must be an object"),
        ({"behavior": "allow", "updatedInput": ["ls"]}, "the `updatedInput` for `{id}` must be an object"),
        ({"behavior": ["allow"]}, "the `behavior` for `{id}` must be `allow` or `deny`"),
    ],
)
def test_an_answer_that_means_nothing_leaves_the_question_open(user: User, response: object, reason: str) -> None:
    work = calls(bash("touch a"))
    with driven(user, *ASKED, model=user.script(work, {"text": "Done."}), form=CLAUDE) as program:
        program.say("user", **said("go"))
        asked = program.until("control_request")
        response_line = {"subtype": "success", "request_id": asked["request_id"], "response": response}
        program.say("control_response", response=response_line)
        refused = program.until("system", subtype="input_refused")
        assert refused["reason"] == reason.format(id=asked["request_id"])
        respond(program, asked, behavior="allow")
        code, result = program.end()
    assert (code, result["result"], result["permission_denials"]) == (0, "Done.", [])


@pytest.mark.parametrize("updates", [["x"], [None], "session", {"destination": "session"}])
def test_changes_of_rules_that_mean_nothing_are_refused_and_the_call_runs(user: User, updates: object) -> None:
    work = calls(bash("touch a"))
    with driven(user, *ASKED, model=user.script(work, {"text": "Done."}), form=CLAUDE) as program:
        program.say("user", **said("go"))
        respond(program, program.until("control_request"), behavior="allow", updatedPermissions=updates)
        refused = program.until("system", subtype="input_refused")
        assert refused["reason"] == "its `updatedPermissions` are ignored: only suggested rules can be added"
        code, result = program.end()
    assert (code, result["result"], result["permission_denials"]) == (0, "Done.", [])


def test_a_denial_can_end_the_turn(user: User) -> None:
    model = user.script(calls(bash("touch a")), {"text": "Never."})
    with driven(user, *ASKED, model=model, form=CLAUDE) as program:
        program.say("user", **said("go"))
        respond(program, program.until("control_request"), behavior="deny", message="stop", interrupt=True)
        result = program.until("result")
        assert (result["subtype"], result["result"]) == ("error_during_execution", "")


def test_the_model_is_another_from_the_next_turn_on(user: User) -> None:
    first, second = user.script({"text": "One."}, {"text": "Three."}), user.home / "other.json"
    second.write_text('{"reply": [{"text": "Two."}]}')
    hooks = {"UserPromptSubmit": [{"hookCallbackIds": ["said"]}]}
    with driven(user, model=first, form=CLAUDE) as program:
        control(program, "1", "initialize", hooks=hooks)
        answers = list[str]()
        for text, model in (("a", None), ("b", f"scripted/{second}"), ("c", None)):
            changed = control(program, text, "set_model", model=model)
            assert changed == {"subtype": "success", "request_id": text, "response": {}}
            program.say("user", **said(text))
            respond(program, asked_by_hook(program, "said"))
            answers.append(program.until("result")["result"])
        broken = control(program, "9", "set_model", model="scripted/none.json")
        assert (broken["subtype"], "none.json" in broken["error"]) == ("error", True)
        code, _ = program.end()
    models = [line["model"] for line in program.told("system")]
    assert (code, answers, models) == (0, ["One.", "Two.", "One."], [first, f"scripted/{second}", first])
    assert len({line["session_id"] for line in program.told("system", "assistant", "result")}) == 1


def test_text_is_told_as_it_is_written_where_that_is_wanted(user: User) -> None:
    work = {"reasoning": "hm", "text": "I look.", **calls(bash("true")), **USAGE}
    model = user.script(work, {"text": "Done."})
    flags = ("-p", "go", "-m", model, *AUTO, "--output-format", "claude-stream-json", "--include-partial-messages")
    lines = user.ebb(*flags).lines
    events = [line["event"] for line in lines if line["type"] == "stream_event"]
    kinds = [event["type"] for event in events if event["type"] != "content_block_delta"]
    block = ["content_block_start", "content_block_stop"]
    assert kinds == ["message_start", *block, *block, "message_delta", "message_stop", "message_start", *block,
                     "message_delta", "message_stop"]  # fmt: skip
    texts = {kind: [event["delta"][kind] for event in events if kind in event.get("delta", {})] for kind in (
        "thinking", "text", "stop_reason",
    )}  # fmt: skip
    assert ("".join(texts["thinking"]), "".join(texts["text"])) == ("hm", "I look.Done.")
    assert texts["stop_reason"] == ["tool_use", "end_turn"]
    begun = [event["message"]["id"] for event in events if event["type"] == "message_start"]
    replies = [line["message"]["id"] for line in lines if line["type"] == "assistant"]
    assert [*dict.fromkeys(replies)] == begun
    plain = user.ebb("-p", "go", "-m", model, "--include-partial-messages")
    assert (plain.code, plain.err) == (
        2, "ebb: `--include-partial-messages` needs `--output-format claude-stream-json`\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("subtype", "more", "error"),
    [
        ("set_model", {"model": "x"}, "scripted has no known model `x`; use PROVIDER/NAME"),
        ("get_context_usage", {}, "`get_context_usage` is not supported"),
        ("set_permission_mode", {"mode": "dontAsk"}, "unknown mode `dontAsk`"),
    ],
)
def test_what_is_not_there_is_refused(user: User, subtype: str, more: dict[str, object], error: str) -> None:
    with driven(user, model=user.script({"text": "Fine."}), form=CLAUDE) as program:
        assert control(program, "1", subtype, **more) == {"subtype": "error", "request_id": "1", "error": error}
        program.say("user", **said("go"))
        assert program.end()[0] == 0


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"type": "user"}', b'{"type": "user", "message": {"content": [{"type": "tool_result"}]}}',
     b'{"type": "control_response", "response": {"subtype": "success", "request_id": "none", "response": {}}}'],
)  # fmt: skip
def test_a_line_that_cannot_be_understood_is_told_and_the_run_goes_on(user: User, line: bytes) -> None:
    with driven(user, model=user.script({"text": "Fine."}), form=CLAUDE) as program:
        program.write(line + b"\n" + b'{"type": "keep_alive"}\n')
        assert program.until("system")["subtype"] == "input_refused"
        program.say("user", **said("go"))
        code, result = program.end()
    assert (code, result["result"]) == (0, "Fine.")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"agents": {"a": {}}, "hooks": {}}, "agents are not supported"),
        ({"sdkMcpServers": ["calc"]}, "sdkMcpServers are not supported"),
        (
            {"hooks": {"PostToolBatch": [{"hookCallbackIds": ["h"]}], "Stop": [{}]}},
            "hooks for `PostToolBatch` are not supported; a hook for `Stop` has no list `hookCallbackIds`",
        ),
        ({"systemPrompt": {"type": "preset"}}, "the system prompt is not a string"),
    ],
)
def test_a_run_without_what_its_program_relies_on_asks_no_model(
    user: User, more: dict[str, object], error: str
) -> None:
    with driven(user, model=user.script({"text": "Never."}), form=CLAUDE) as program:
        program.say("control_request", request_id="1", request={"subtype": "initialize", **more})
        program.say("user", **said("go"))
        code, result = program.end()
    (response,) = program.told("control_response")
    assert response["response"] == {"subtype": "error", "request_id": "1", "error": error}
    assert (code, result["subtype"], result["errors"], result["num_turns"]) == (
        2, "error_during_execution", [error], 0,
    )  # fmt: skip


def test_a_program_says_how_the_session_is_to_be(user: User) -> None:
    schema = {"type": "object", "required": ["n"]}
    with FakeProvider([Turn(text='{"n": 3}')]) as server:
        with driven(user, model="anthropic/claude-haiku-5-5", form=CLAUDE, env=server.environment) as program:
            begun = control(
                program, "1", "initialize", systemPrompt=["You are a poet."], appendSystemPrompt="Be brief.",
                jsonSchema=schema, hooks={"UserPromptSubmit": [{"hookCallbackIds": ["said"]}]},
            )  # fmt: skip
            assert begun["subtype"] == "success"
            program.say("user", **said("go"))
            respond(program, asked_by_hook(program, "said"))
            assert program.until("result")["structured_output"] == {"n": 3}
            again = {"subtype": "error", "request_id": "2", "error": "the session has already begun"}
            assert control(program, "2", "initialize", systemPrompt="Another.") == again
            assert program.end()[0] == 2
        (request,) = server.requests
    system = "\n".join(part["text"] for part in request.body["system"])
    assert ("You are a poet." in system, "Be brief." in system) == (True, True)


def test_flags_that_do_not_go_together_are_refused(user: User) -> None:
    run = user.ebb("-p", "go", *ASKED, "-m", user.script(), stdin="")
    other = user.ebb("--input-format", "claude-stream-json", "--output-format", "stream-json", "-m", user.script())
    assert [run.code, other.code] == [2, 2]
    assert run.err == "ebb: `--permission-prompt-tool stdio` needs `--input-format claude-stream-json`\n"
    assert other.err.startswith("ebb: `--input-format claude-stream-json` needs `--output-format claude-stream-json`")
