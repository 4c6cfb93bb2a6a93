"""Parses hook answers (exit codes and output) and merges the answers of several hooks. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.agent.config.hook_tables import HookEvent
from ebbtide.agent.hooks.printed_json import HookOutput, PrintedObject, decode_output, holds_decision, read_printed
from ebbtide.tools.outputs.extent import truncate
from ebbtide.tools.outputs.plain_text import plain
from ebbtide.tools.process.child import Exit

MAX_SHOWN_CHARS = 10_000
"""Maximum length of a hook's message to the model, in characters."""
MAX_OUTPUT_BYTES = 4_000_000
"""Maximum size of a hook's output; a tool input may contain a whole file."""
BLOCKING_EXIT_CODE = 2
"""The exit code with which a hook objects."""

HookVerdict: TypeAlias = Literal["none", "allow", "ask", "deny"]

_BLOCKABLE = frozenset(
    {
        "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreCompact",
        "Stop", "SubagentStop",
    }
)  # fmt: skip
"""Events that a hook can block."""
_TEXT_IS_CONTEXT = frozenset({"UserPromptSubmit", "SessionStart"})
"""Events whose plain-text hook output is added to the model's context."""
_GUARDS = frozenset({"UserPromptSubmit", "PreToolUse"})
"""Events where an unreadable decision counts as an objection."""
_DECISIONS: Mapping[str, HookVerdict] = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask",
    "defer": "none", "continue": "none", "undefined": "none", "none": "none", "": "none",
}  # fmt: skip
_STRICTNESS: Sequence[HookVerdict] = ("none", "allow", "ask", "deny")
_SPECIAL = frozenset(
    {
        "hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext",
        "decision", "reason",
    }
)  # fmt: skip
_COMMON = frozenset(
    {
        "hookSpecificOutput", "decision", "reason", "permissionDecision", "permissionDecisionReason", "continue",
        "stopReason", "systemMessage", "suppressOutput", "async", "asyncTimeout",
    }
)  # fmt: skip
"""An object is an answer if it has one of these keys; any other object is treated as log output."""
_OUTPUTS = ("updatedToolOutput", "updatedMCPToolOutput")
_CALLS = frozenset({"PreToolUse", "PermissionRequest"})
"""Events at which a call may be allowed."""
_OF_EVENT: Mapping[HookEvent, frozenset[str]] = {"PostToolUse": frozenset(_OUTPUTS)}
"""Additional keys allowed for specific events."""
_REASONS = ("permissionDecisionReason", "message", "reason")
_NOT_DONE = ("updatedPermissions", "interrupt")
_PROBLEM = 200


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook, or the merged answers of several."""

    verdict: HookVerdict = "none"
    """For most events only `deny` has an effect: the prompt is not sent, or the turn continues."""
    reason: str = ""
    arguments: Mapping[str, object] | None = None
    """New input for the call, with Claude Code's argument names."""
    context: str = ""
    """Text for the model."""
    notices: tuple[str, ...] = ()
    """Lines for the user."""
    problems: tuple[str, ...] = ()
    """Problems with the answer, for the user."""
    stop: str | None = None
    """Why the turn should end; None if it should not."""
    is_own: bool = True
    """Whether the answer comes from one of the user's own hooks; a project's hooks cannot allow anything."""
    output: str | None = None
    """Replacement for the tool output that the model sees."""


def parse_answer(event: HookEvent, named: str, answer: Exit, seconds: float) -> HookAnswer:
    """Parse the answer of one hook. `named` is its label for people. An objection is valid even if other text is
    printed with it; any other malformed output only produces a problem line."""
    printed = read_printed(answer.out)
    said = _json_answer(event, named, printed)
    if answer.code == BLOCKING_EXIT_CODE:
        return _refusal(event, named, answer, said or HookAnswer())
    if answer.code == 0:
        return _with_text(event, named, printed, said, answer.out)
    has_ended = answer.code is not None and answer.code > 0
    if said is not None and (has_ended or said.verdict == "deny"):
        return said
    if answer.code is None:
        return _useless(named, f"was ended after {seconds:g} s")
    how = f"exited with {answer.code}" if has_ended else f"was killed by signal {-answer.code}"
    first = _text(answer.err).split("\n", 1)[0][:_PROBLEM]
    return _useless(named, f"{how}: {first}" if first else how)


def is_async_answer(line: bytes) -> bool:
    """Whether `line`, the first line that a hook prints, declares the hook asynchronous: `{"async": true}`."""
    printed = read_printed(line) if b"async" in line else HookOutput("")
    return not printed.chatter and any(each.tables.get("async") is True for each in printed.objects)


def _json_answer(event: HookEvent, named: str, printed: HookOutput) -> HookAnswer | None:
    """Merge all answer objects in the output, and any unreadable decision; None if there are none."""
    different = {printed.text[each.start : each.end]: each.tables for each in _answers(event, printed)}
    answers = [_of_json(event, named, tables) for tables in different.values() if tables]
    if holds_decision(printed.chatter):
        answers.append(_unreadable(event, named, printed.chatter))
    if not answers:
        return None
    said = merge_answers(answers)
    if said.verdict == "allow" and printed.chatter:
        # Log output may contain text that a model wrote, which must not be able to allow its own call.
        problem = f"{named} allows the call but also prints other text, so the approval is ignored"
        return replace(said, verdict="none", problems=(*said.problems, problem))
    return said


def _answers(event: HookEvent, printed: HookOutput) -> Sequence[PrintedObject]:
    """Return the objects that are answers. For `SessionStart`, an object in the middle of other text belongs to that
    text."""
    answers = [each for each in printed.objects if not each.tables or not _COMMON.isdisjoint(each.tables)]
    if event != "SessionStart":
        return answers
    text = printed.text
    return [each for each in answers if not text[: each.start].strip() or not text[each.end :].strip()]


def _with_text(event: HookEvent, named: str, printed: HookOutput, said: HookAnswer | None, output: bytes) -> HookAnswer:
    """Add the plain text of the output to the answer, for events where it is meant for the model."""
    if said is None and printed.chatter.startswith("{"):
        return _useless(named, "printed invalid JSON")
    text = printed.without(_answers(event, printed)) if event in _TEXT_IS_CONTEXT else ""
    said = said or HookAnswer()
    if not text:
        return said
    if not _is_text(output):
        return replace(said, problems=(*said.problems, *_useless(named, "printed binary data").problems))
    return replace(said, context=_join_texts((_truncate_text(text), said.context)))


def _unreadable(event: HookEvent, named: str, text: str) -> HookAnswer:
    """Handle a decision that is not valid JSON: an objection at events in `_GUARDS`."""
    what = f"printed a decision that is not valid JSON: {' '.join(text.split())[:_PROBLEM]}"
    return _failed_hook_answer(event, named, what)


def _failed_hook_answer(event: HookEvent, named: str, what: str) -> HookAnswer:
    if event in _GUARDS:
        return HookAnswer("deny", f"{named} {what}")
    return _useless(named, what)


def not_run(named: str, problem: str) -> HookAnswer:
    """The answer for a hook that could not be run."""
    return _useless(named, f"could not be run: {problem}")


def merge_answers(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Merge the answers of hooks that ran concurrently: the strictest verdict with the reasons for it, and the last
    changed input. The result is the user's own (`is_own`) if one of the user's hooks gave the verdict and no other hook
    changed the input."""
    if len(answers) == 1:
        return answers[0]
    verdict: HookVerdict = max((one.verdict for one in answers), key=_STRICTNESS.index, default="none")
    strictest = [one for one in answers if one.verdict == verdict]
    changed = [one for one in reversed(answers) if one.arguments is not None][:1]
    return HookAnswer(
        verdict,
        _join_texts(one.reason for one in strictest),
        changed[0].arguments if changed else None,
        _join_texts(one.context for one in answers),
        tuple(line for one in answers for line in one.notices),
        tuple(line for one in answers for line in one.problems),
        next((one.stop for one in answers if one.stop is not None), None),
        (not strictest or any(one.is_own for one in strictest)) and all(one.is_own for one in changed),
        next((one.output for one in reversed(answers) if one.output is not None), None),
    )


def _join_texts(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(filter(None, texts)))


def _refusal(event: HookEvent, named: str, answer: Exit, said: HookAnswer) -> HookAnswer:
    """Build an objection from exit code 2. The reason comes from the JSON if that objects as well, otherwise from
    standard error."""
    of_json = said.reason if said.verdict == "deny" else ""
    reason = of_json or _reason_in(answer.err) or said.reason or _text(answer.out)
    if event not in _BLOCKABLE:
        return _useless(named, f"objects, but this event cannot be blocked: {reason.split(chr(10), 1)[0][:_PROBLEM]}")
    return replace(said, verdict="deny", reason=reason or f"{named} objected without a reason", arguments=None)


def _reason_in(printed: bytes) -> str:
    """The text of standard error, or the `reason` of a JSON object printed there."""
    found = read_printed(printed)
    if found.chatter or not found.objects:
        return _truncate_text(found.text)
    said = [_of_json("PreToolUse", "", each.tables).reason for each in found.objects]
    return _join_texts(said) or _truncate_text(found.text)


def _of_json(event: HookEvent, named: str, tables: Mapping[str, object]) -> HookAnswer:
    problems: list[str] = []
    special = _table_at(tables, "hookSpecificOutput", problems) or {}
    known = _SPECIAL | _OF_EVENT.get(event, frozenset())
    problems += [f"has the unknown key `{str(key)[:40]}`" for key in special if key not in known]
    if holds_decision(json.dumps(tables.get("hookSpecificOutput"))) and not special:
        return _unreadable(event, named, json.dumps(tables))
    decisions = [*_decisions(event, named, tables, special, problems)]
    decided = merge_answers(decisions)
    reason = decided.reason
    if not reason:
        reason = _join_texts(_text_at(where, key, problems) for where in (special, tables) for key in _REASONS)
    message = _text_at(tables, "systemMessage", problems)
    if decided.verdict == "deny" and not reason:
        reason = message or f"{named} objected without a reason"
    arguments = _table_at(special, "updatedInput", problems) if event == "PreToolUse" else None
    goes_on = tables.get("continue", True)
    if not isinstance(goes_on, bool):
        problems.append("returned `continue`, which is neither true nor false")
    stop = (_text_at(tables, "stopReason", problems) or f"{named} ends the turn") if goes_on is False else None
    context = _text_at(special, "additionalContext", problems)
    wrong = (*decided.problems, *(f"{named} {problem}; it was ignored" for problem in problems))
    told = (message,) if message else ()
    output = _output(event, special)
    return HookAnswer(decided.verdict, reason, arguments, context, told, wrong, stop, output=output)


def _output(event: HookEvent, special: Mapping[str, object]) -> str | None:
    """The replacement output as text, whatever form the hook gives it in."""
    said = next((special[key] for key in _OUTPUTS if special.get(key) is not None), None)
    if event != "PostToolUse" or said is None:
        return None
    return plain(_as_text(said))


def _as_text(said: object) -> str:
    match said:
        case str():
            return said
        case {"stdout": str(out), **rest}:
            return "\n".join(filter(None, (out, str(rest.get("stderr") or ""))))
        case {"file": {"content": str(content)}} | {"content": str(content)} | {"text": str(content)}:
            return content
        case {"content": list(parts)} | list(parts):
            return "\n".join(map(_as_text, parts))
        case _:
            return json.dumps(said, ensure_ascii=False)


def _decisions(
    event: HookEvent, named: str, tables: Mapping[str, object], special: Mapping[str, object], problems: list[str]
) -> Iterator[HookAnswer]:
    """Yield the decisions and their reasons, in the newer or the older form, each accepted at either place:
    https://github.com/anthropics/claude-code/issues/4669 has `permissionDecision` at the top level."""
    for where in (special, tables):
        for key in ("permissionDecision", "decision"):
            decision, said = where.get(key), where
            if isinstance(decision, Mapping):
                said, decision = decision, decision.get("behavior")
                problems += [f"uses `{key}`, which is not supported" for key in _NOT_DONE if key in said]
            if decision is None:
                continue
            verdict = _DECISIONS.get(decision.strip().lower()) if isinstance(decision, str) else None
            if verdict is None:
                what = f"decides {str(decision)[:40]!r}, which is not known; write `allow`, `deny` or `ask`"
                yield _failed_hook_answer(event, named, what)
            elif verdict == "allow" and said.get("updatedInput") is not None and event == "PermissionRequest":
                problems.append("allows the call with a changed input, which only `PreToolUse` can change")
            elif event not in _BLOCKABLE or (event not in _CALLS and verdict != "deny"):
                continue  # other events have nothing to allow
            else:
                yield HookAnswer(verdict, _join_texts(_text_at(said, key, problems) for key in _REASONS))


def _text_at(tables: Mapping[str, object], key: str, problems: list[str]) -> str:
    value = tables.get(key)
    if value is not None and not isinstance(value, str):
        problems.append(f"returned `{key}`, which is not a string")
    return _truncate_text(value) if isinstance(value, str) else ""


def _table_at(tables: Mapping[str, object], key: str, problems: list[str]) -> Mapping[str, object] | None:
    value = tables.get(key)
    if value is not None and not isinstance(value, Mapping):
        problems.append(f"returned `{key}`, which is not a table")
    return value if isinstance(value, Mapping) else None


def _useless(named: str, what: str) -> HookAnswer:
    return HookAnswer(problems=(f"{named} {what}; it was skipped",))


def _text(data: bytes) -> str:
    return _truncate_text(data[: 4 * MAX_SHOWN_CHARS + 4].decode("utf-8", "replace"))


def _is_text(data: bytes) -> bool:
    """Whether the output is readable text. A few undecodable characters are tolerated."""
    shown = decode_output(data[: 4 * MAX_SHOWN_CHARS])
    return "\0" not in shown and 10 * shown.count("\ufffd") <= len(shown)


def _truncate_text(text: str) -> str:
    return truncate(plain(text).strip(), MAX_SHOWN_CHARS)
