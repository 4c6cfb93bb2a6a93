"""What the answers of hooks mean."""

import json
from dataclasses import replace

import pytest

from ebbtide.agent.config.hook_tables import HookEvent
from ebbtide.agent.hooks.answers import HookAnswer, merge_answers, parse_answer
from ebbtide.tools.process.child import ChildResult

N = "the hook `x` for E"


def said(event: HookEvent, **tables: object) -> HookAnswer:
    return parse_answer(event, N, ChildResult(0, json.dumps(tables).encode(), b""), 60)


def special(event: HookEvent, **tables: object) -> HookAnswer:
    return said(event, hookSpecificOutput={"hookEventName": event, **tables})


def goes_on(what: str) -> HookAnswer:
    return HookAnswer(problems=(f"{N} {what}; it was skipped",))


@pytest.mark.parametrize(
    ("event", "answer", "expected"),
    [
        ("PreToolUse", ChildResult(0, b"", b"debug"), HookAnswer()),
        ("PreToolUse", ChildResult(0, b"chatter", b""), HookAnswer()),
        ("PreToolUse", ChildResult(2, b"out", b"\x1b[31mno\x1b[0m\n"), HookAnswer("deny", "no")),
        ("PreToolUse", ChildResult(2, b'{"decision": "block", "reason": "why"}', b""), HookAnswer("deny", "why")),
        ("PreToolUse", ChildResult(2, b"", b""), HookAnswer("deny", f"{N} objected without a reason")),
        ("PreToolUse", ChildResult(1, b"x", b"Traceback\nmore"), goes_on("exited with 1: Traceback")),
        ("PreToolUse", ChildResult(-9, b"", b""), goes_on("was killed by signal 9")),
        ("PreToolUse", ChildResult(None, b"", b""), goes_on("was ended after 60 s")),
        ("PreToolUse", ChildResult(0, b'{"command": "bl', b""), goes_on("printed invalid JSON")),
        ("Stop", ChildResult(0, b'{"decision": "bl', b""),
         goes_on('printed a decision that is not valid JSON: {"decision": "bl')),
        ("Stop", ChildResult(0, b'{"decision": "block", "reason": "\\ud800"}', b""), HookAnswer("deny", "?")),
        ("Stop", ChildResult(0, b'{"a":' * 100_000, b""), goes_on("printed invalid JSON")),
        ("UserPromptSubmit", ChildResult(0, b"the date\n", b""), HookAnswer(context="the date")),
        ("SessionStart", ChildResult(0, b"the branch\n", b""), HookAnswer(context="the branch")),
        ("SessionStart", ChildResult(0, b"the branch of M\xfcller\n", b""),
         HookAnswer(context="the branch of M\ufffdller")),
        ("SessionStart", ChildResult(0, bytes(range(256)) * 99, b""), goes_on("printed binary data")),
        ("UserPromptSubmit", ChildResult(0, b"\xff\xfea\xc3" * 9_999, b""), goes_on("printed binary data")),
        ("Stop", ChildResult(0, b"chatter", b""), HookAnswer()),
        ("Stop", ChildResult(0, b'{"async": true, "asyncTimeout": 9}\n', b""), HookAnswer()),
        ("Stop", ChildResult(0, b'{"async": true}\nworks\n{"systemMessage": "a"}\n{"systemMessage": "b"}', b""),
         HookAnswer(notices=("a", "b"))),
        ("Stop", ChildResult(0, b'{"decision": "block", "systemMessage": "red"}', b""),
         HookAnswer("deny", "red", notices=("red",))),
        ("Stop", ChildResult(2, b"", b"tests fail"), HookAnswer("deny", "tests fail")),
        ("PostToolUse", ChildResult(2, b"", b"unused import"), HookAnswer("deny", "unused import")),
        ("SessionStart", ChildResult(2, b"", b"oh\nmore"), goes_on("objects, but this event cannot be blocked: oh")),
        ("Notification", ChildResult(2, b"", b""), goes_on("objects, but this event cannot be blocked: ")),
    ],
)  # fmt: skip
def test_an_exit_code_says_what_follows(event: HookEvent, answer: ChildResult, expected: HookAnswer) -> None:
    assert parse_answer(event, N, answer, 60) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (special("PreToolUse", permissionDecision="deny", permissionDecisionReason="no"), HookAnswer("deny", "no")),
        (special("PreToolUse", permissionDecision="allow"), HookAnswer("allow")),
        (special("PreToolUse", permissionDecision="ask", permissionDecisionReason="hm"), HookAnswer("ask", "hm")),
        (special("PreToolUse", permissionDecision="defer"), HookAnswer()),
        (special("PreToolUse", updatedInput={"command": "ls"}, additionalContext="c"),
         HookAnswer(arguments={"command": "ls"}, context="c")),
        (said("PreToolUse", decision="approve", reason="fine"), HookAnswer("allow", "fine")),
        (said("PreToolUse", decision="block", reason="no"), HookAnswer("deny", "no")),
        (said("PostToolUse", decision="block", reason="lint"), HookAnswer("deny", "lint")),
        (special("PostToolUse", additionalContext="c"), HookAnswer(context="c")),
        (said("UserPromptSubmit", decision="block", reason="a key"), HookAnswer("deny", "a key")),
        (said("Stop", decision="approve", reason="fine"), HookAnswer(reason="fine")),
        (said("Stop", decision="block"), HookAnswer("deny", f"{N} objected without a reason")),
        (said("SessionEnd", decision="block", reason="stay"), HookAnswer(reason="stay")),
        (said("Stop", **{"continue": False, "stopReason": "enough"}), HookAnswer(stop_reason="enough")),
        (said("Stop", **{"continue": False}), HookAnswer(stop_reason=f"{N} ends the turn")),
        (said("Stop", systemMessage="look", suppressOutput=True, result="continue"), HookAnswer(notices=("look",))),
        (said("PreToolUse", decision="perhaps"),
         HookAnswer("deny", f"{N} decides 'perhaps', which is not known; write `allow`, `deny` or `ask`")),
        (said("Stop", decision="perhaps"),
         goes_on("decides 'perhaps', which is not known; write `allow`, `deny` or `ask`")),
        (special("PreToolUse", permissionDecision=["deny"], updatedInput=3, additionalContext=4),
         HookAnswer("deny", f"{N} decides \"['deny']\", which is not known; write `allow`, `deny` or `ask`", problems=(
             f"{N} returned `updatedInput`, which is not an object; it was ignored",
             f"{N} returned `additionalContext`, which is not a string; it was ignored",
         ))),
        (said("PreToolUse", hookSpecificOutput=7, **{"continue": "false"}),
         HookAnswer(problems=(
             f"{N} returned `hookSpecificOutput`, which is not an object; it was ignored",
             f"{N} returned `continue`, which is neither true nor false; it was ignored",
         ))),
        (special("PostToolUse", updatedToolOutput={"stdout": "***"}, additionalContext="c"),
         HookAnswer(context="c", replacement_output="***")),
        (special("PreToolUse", updatedToolOutput="x", more=1),
         HookAnswer(problems=(
             f"{N} has the unknown key `updatedToolOutput`; it was ignored",
             f"{N} has the unknown key `more`; it was ignored",
         ))),
        (special("PermissionRequest", decision={"behavior": "deny", "message": "no"}), HookAnswer("deny", "no")),
        (special("PermissionRequest", decision={"behavior": "allow"}), HookAnswer("allow")),
        (special("PermissionRequest", decision={"behavior": "allow", "updatedInput": {"command": "x"}}),
         HookAnswer(problems=(
             f"{N} allows the call with a changed input, which only `PreToolUse` can change; it was ignored",
         ))),
    ],
)  # fmt: skip
def test_json_says_what_follows(answer: HookAnswer, expected: HookAnswer) -> None:
    assert answer == expected


def test_of_several_answers_the_strictest_holds_with_its_reasons() -> None:
    allows = HookAnswer("allow", "mine", is_from_user=True)
    asks = HookAnswer("ask", "theirs", {"command": "b"}, "c", ("t",), ("p",), is_from_user=False)
    assert merge_answers([allows, asks, HookAnswer("ask", "again", {"command": "a"})]) == HookAnswer(
        "ask", "theirs\nagain", {"command": "a"}, "c", ("t",), ("p",), None
    )
    # A project's hook neither takes away what one of the user's allows, nor has another input allowed by it.
    assert merge_answers([allows, replace(allows, is_from_user=False)]).is_from_user
    assert not merge_answers([allows, HookAnswer(arguments={"command": "c"}, is_from_user=False)]).is_from_user
    assert not merge_answers([replace(allows, is_from_user=False), HookAnswer(arguments={"command": "c"})]).is_from_user
    assert merge_answers([HookAnswer("deny", "no"), asks]).verdict == "deny"
    assert merge_answers([]) == HookAnswer()


def test_long_words_are_cut() -> None:
    assert said("Stop", decision="block", reason="ä" * 10_001).reason == "ä" * 10_000 + "… [cut]"
    assert parse_answer("Stop", N, ChildResult(2, b"", b"a" * 200_000), 60).reason == "a" * 10_000 + "… [cut]"


DENY = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}).encode()
BLOCK = b'{"decision": "block", "reason": "no"}'


@pytest.mark.parametrize(
    "printed",
    [
        b"nvm is not compatible\n" + BLOCK,
        BLOCK + b"\ndone in 0.1 s",
        b"{}\n" + BLOCK,
        b'{"level": "info"}\n{"decision": "approve"} ' + BLOCK,
        b"\xef\xbb\xbf" + BLOCK,
        BLOCK.decode().encode("utf-16"),
        b"\x1b[1;39m{\x1b[0m\x1b[34;1m\"decision\"\x1b[0m: \x1b[32m\"block\"\x1b[0m, \"reason\": \"no\"}\x1b[0m",
        b"log: " + BLOCK,
        b"[" + BLOCK + b"]",
        b"```json\r\n" + BLOCK + b"\r\n```",
        b"M\xfcller\n" + BLOCK,
        b"{{ not json }} {\"a\": " + BLOCK,
        b'{"decision": "block", "reason": "no", "hookSpecificOutput": {"permissionDecision": "allow"}}',
        b'{"permissionDecision": "deny", "permissionDecisionReason": "no"}',
        b'{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}',
        b'{"decision": "BLOCK", "reason": "no"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit", "PermissionRequest"])
@pytest.mark.parametrize("code", [0, 1, 2, -9, None])
def test_a_refusal_counts_whatever_is_printed_beside_it(event: HookEvent, printed: bytes, code: int | None) -> None:
    found = parse_answer(event, N, ChildResult(code, printed, b""), 60)
    assert (found.verdict, found.reason) == ("deny", "no")


@pytest.mark.parametrize(
    "printed",
    [
        b'{"decision": "block",}',
        b"{'permissionDecision': 'deny'}",
        b'{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "use "uv""}}',
        b'{"hookSpecificOutput": {"permissionDecis' + b'ion": "deny"',
        b"{permissionDecision: deny}",
        b'nvm\n{"decision": "block", "reason": "',
        json.dumps(BLOCK.decode()).encode(),
        b'{"hookSpecificOutput": "{\\"permissionDecision\\": \\"deny\\"}"}',
        b'{"permissionDecision": "refuse"}',
        b'"decision": "block"}',
        b'{"continue": false, "stopReason": oops}',
    ],
)
def test_a_decision_that_cannot_be_read_refuses_where_something_is_guarded(printed: bytes) -> None:
    for event in ("PreToolUse", "UserPromptSubmit"):
        found = parse_answer(event, N, ChildResult(0, printed, b""), 60)
        assert found.verdict == "deny", event
        assert found.reason.startswith(f"{N} ")
    assert parse_answer("Stop", N, ChildResult(0, printed, b""), 60).verdict == "none"
    assert len(parse_answer("Stop", N, ChildResult(0, printed, b""), 60).problems) == 1


def test_what_a_hook_logs_allows_nothing() -> None:
    allow = b'{"decision": "approve"}'
    logged = parse_answer("PreToolUse", N, ChildResult(0, b"+ ls # " + allow, b""), 60)
    assert logged == HookAnswer(
        problems=(f"{N} allows the call but also prints other text, so the approval is ignored",)
    )
    assert parse_answer("PreToolUse", N, ChildResult(0, b"\xef\xbb\xbf{}\n" + allow, b""), 60) == HookAnswer("allow")
    payload = {"tool_name": "mcp__a__b", "tool_input": {"decision": "approve", "permissionDecision": "deny"}}
    assert parse_answer("PreToolUse", N, ChildResult(0, json.dumps(payload).encode(), b""), 60) == HookAnswer()


@pytest.mark.parametrize(
    ("event", "printed", "expected"),
    [
        ("SessionStart", b"nvm\n" + json.dumps({"hookSpecificOutput": {"additionalContext": "c"}}).encode(), "nvm\nc"),
        ("SessionStart", b"Hooks print\n```\n{\"continue\": false}\n```\nto stop.",
         "Hooks print\n```\n{\"continue\": false}\n```\nto stop."),
        ("UserPromptSubmit", b'see package.json:\n{"name": "x"}', 'see package.json:\n{"name": "x"}'),
        ("UserPromptSubmit", b'{"suppressOutput": true}', ""),
        ("Stop", b"nvm\n{}", ""),
    ],
)  # fmt: skip
def test_text_beside_answers_is_for_the_model_where_any_text_is(
    event: HookEvent, printed: bytes, expected: str
) -> None:
    assert parse_answer(event, N, ChildResult(0, printed, b""), 60) == HookAnswer(context=expected)


def test_an_exit_code_that_objects_takes_the_reason_that_is_there() -> None:
    output = b'{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "of json"}}'
    context = b'{"hookSpecificOutput": {"additionalContext": "c", "updatedInput": {}}}'
    assert parse_answer("PreToolUse", N, ChildResult(2, output, b"of stderr"), 60) == HookAnswer("deny", "of json")
    assert parse_answer("PreToolUse", N, ChildResult(2, b"log", output), 60) == HookAnswer("deny", "of json")
    assert parse_answer("PreToolUse", N, ChildResult(2, context, b"no"), 60) == HookAnswer("deny", "no", context="c")
    assert parse_answer("PreToolUse", N, ChildResult(2, b'{"decision": "approve"}', b"no"), 60) == HookAnswer(
        "deny", "no"
    )


def test_an_output_that_looks_like_objects_everywhere_is_read_in_time() -> None:
    assert parse_answer("PreToolUse", N, ChildResult(0, b'{"' * 100_000, b""), 60).verdict == "none"
    assert parse_answer("PreToolUse", N, ChildResult(0, b"{}" * 50_000 + BLOCK, b""), 60).verdict == "deny"
