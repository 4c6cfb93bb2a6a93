"""Parses hook answers (exit codes and output) and merges the answers of several hooks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.agent.config.hook_tables import HookEvent
from ebbtide.agent.hooks.printed_json import HookOutput, PrintedObject, contains_decision, decode_output, parse_output
from ebbtide.tools.outputs.extent import truncate
from ebbtide.tools.outputs.plain_text import terminal_text
from ebbtide.tools.process.child import ChildResult

MAX_MESSAGE_CHARS = 10_000
"""Maximum length of a hook's message to the model, in characters."""
MAX_OUTPUT_BYTES = 4_000_000
"""Maximum size of a hook's output, in bytes. The limit is high, because a tool input can contain a whole file."""
BLOCKING_EXIT_CODE = 2
"""Exit code of a hook that objects."""

HookVerdict: TypeAlias = Literal["none", "allow", "ask", "deny"]

_BLOCKABLE_EVENTS = frozenset(
    {
        "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreCompact",
        "Stop", "SubagentStop",
    }
)  # fmt: skip
"""Events that a hook can block."""
_EVENTS_WITH_TEXT_CONTEXT = frozenset({"UserPromptSubmit", "SessionStart"})
"""Events whose plain-text hook output is added to the model's context."""
_STRICT_EVENTS = frozenset({"UserPromptSubmit", "PreToolUse"})
"""Events at which an unreadable decision counts as an objection."""
_VERDICT_BY_DECISION: Mapping[str, HookVerdict] = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask",
    "defer": "none", "continue": "none", "undefined": "none", "none": "none", "": "none",
}  # fmt: skip
_STRICTNESS: Sequence[HookVerdict] = ("none", "allow", "ask", "deny")
_SPECIFIC_OUTPUT_KEYS = frozenset(
    {
        "hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext",
        "decision", "reason",
    }
)  # fmt: skip
_ANSWER_KEYS = frozenset(
    {
        "hookSpecificOutput", "decision", "reason", "permissionDecision", "permissionDecisionReason", "continue",
        "stopReason", "systemMessage", "suppressOutput", "async", "asyncTimeout",
    }
)  # fmt: skip
"""The keys of an answer. An object without any of them is treated as log output."""
_REPLACEMENT_OUTPUT_KEYS = ("updatedToolOutput", "updatedMCPToolOutput")
_APPROVAL_EVENTS = frozenset({"PreToolUse", "PermissionRequest"})
"""Events at which a hook can allow a call."""
_ADDITIONAL_OUTPUT_KEYS: Mapping[HookEvent, frozenset[str]] = {"PostToolUse": frozenset(_REPLACEMENT_OUTPUT_KEYS)}
"""Keys that the specific output may have at these events, in addition to `_SPECIFIC_OUTPUT_KEYS`."""
_REASON_KEYS = ("permissionDecisionReason", "message", "reason")
_UNSUPPORTED_KEYS = ("updatedPermissions", "interrupt")
_MAX_PROBLEM_CHARS = 200


@dataclass(frozen=True, slots=True)
class HookRuling:
    """The verdict of hooks, or of a project's rule, about a call, with its reason."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str = ""
    is_from_user: bool = True
    """Whether one of the user's own hooks decided, rather than a hook or rule of the project."""
    decided_by: str = "a hook"
    """The hook or rule that decided, as the subject of a sentence."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook, or the merged answers of several."""

    verdict: HookVerdict = "none"
    """For events other than calls, only `deny` has an effect: the prompt is not sent, for example, or the turn
    continues."""
    reason: str = ""
    arguments: Mapping[str, object] | None = None
    """New input for the call, with Claude Code's argument names."""
    context: str = ""
    """Text for the model."""
    notices: tuple[str, ...] = ()
    """Lines for the user."""
    problems: tuple[str, ...] = ()
    """Problems with the answer, as lines for the user."""
    stop_reason: str | None = None
    """Why the turn should end; None if it should continue."""
    is_from_user: bool = True
    """Whether the answer comes from one of the user's own hooks; a project's hooks cannot allow anything."""
    replacement_output: str | None = None
    """Text that replaces the tool output for the model; None to keep the output."""

    @property
    def ruling(self) -> HookRuling | None:
        return None if self.verdict == "none" else HookRuling(self.verdict, self.reason, is_from_user=self.is_from_user)


def parse_answer(event: HookEvent, label: str, process_result: ChildResult, timeout_s: float) -> HookAnswer:
    """Parse the answer of one hook. `label`: the hook's label in messages to the user. An objection counts even if the
    hook also prints other text; any other malformed output only adds a problem line."""
    if event == "after_tool":
        return _parse_text_answer(label, process_result, timeout_s)
    hook_output = parse_output(process_result.output)
    parsed = _parse_json_answer(event, label, hook_output)
    if process_result.code == BLOCKING_EXIT_CODE:
        return _objection_answer(event, label, process_result, parsed or HookAnswer())
    if process_result.code == 0:
        return _with_context_text(event, label, hook_output, parsed, process_result.output)
    has_error_code = process_result.code is not None and process_result.code > 0
    if parsed is not None and (has_error_code or parsed.verdict == "deny"):
        return parsed
    return _problem_answer(event, label, _failure_text(process_result, timeout_s))


def _parse_text_answer(label: str, process_result: ChildResult, timeout_s: float) -> HookAnswer:
    """Parse the answer of a hook in `hooks.after_tool`, which is plain text."""
    text, problem = _decode_message(process_result.output), _decode_message(process_result.error_output)
    if process_result.code == 0:
        return HookAnswer(context=text)
    if process_result.code == BLOCKING_EXIT_CODE and problem:
        return HookAnswer("deny", problem)
    return _problem_answer("after_tool", label, _failure_text(process_result, timeout_s))


def _failure_text(process_result: ChildResult, timeout_s: float) -> str:
    """Describe how a program failed, as the predicate of a sentence."""
    if process_result.code is None:
        return f"was ended after {timeout_s:g} s"
    outcome = (
        f"exited with {process_result.code}"
        if process_result.code > 0
        else f"was killed by signal {-process_result.code}"
    )
    first_line = _decode_message(process_result.error_output).split("\n", 1)[0][:_MAX_PROBLEM_CHARS]
    return f"{outcome}: {first_line}" if first_line else outcome


def is_async_answer(line: bytes) -> bool:
    """Whether `line`, the first line that a hook prints, declares the hook asynchronous: `{"async": true}`."""
    hook_output = parse_output(line) if b"async" in line else HookOutput("")
    return not hook_output.surrounding_text and any(
        printed_object.fields.get("async") is True for printed_object in hook_output.objects
    )


def _parse_json_answer(event: HookEvent, label: str, hook_output: HookOutput) -> HookAnswer | None:
    """Merge all answers in the output. A decision that cannot be read also counts as an answer. None if there are no
    answers."""
    distinct_objects = {
        hook_output.text[printed_object.start : printed_object.end]: printed_object.fields
        for printed_object in _answer_objects(event, hook_output)
    }
    answers = [_parse_answer_object(event, label, fields) for fields in distinct_objects.values() if fields]
    if contains_decision(hook_output.surrounding_text):
        answers.append(_unreadable_decision(event, label, hook_output.surrounding_text))
    if not answers:
        return None
    merged = merge_answers(answers)
    if merged.verdict == "allow" and hook_output.surrounding_text:
        # Log output may contain text from a model, which must not be able to allow the model's own call.
        problem = f"{label} allows the call but also prints other text, so the approval is ignored"
        return replace(merged, verdict="none", problems=(*merged.problems, problem))
    return merged


def _answer_objects(event: HookEvent, hook_output: HookOutput) -> Sequence[PrintedObject]:
    """Return the objects that are answers. For `SessionStart`, an object in the middle of other text is not an answer
    but part of that text."""
    answers = [
        printed_object
        for printed_object in hook_output.objects
        if not printed_object.fields or not _ANSWER_KEYS.isdisjoint(printed_object.fields)
    ]
    if event != "SessionStart":
        return answers
    text = hook_output.text
    return [
        printed_object
        for printed_object in answers
        if not text[: printed_object.start].strip() or not text[printed_object.end :].strip()
    ]


def _with_context_text(
    event: HookEvent, label: str, hook_output: HookOutput, answer: HookAnswer | None, output: bytes
) -> HookAnswer:
    """Add the plain text of the output to the answer's context, for events at which such text is meant for the
    model."""
    if answer is None and hook_output.surrounding_text.startswith("{"):
        return _problem_answer(event, label, "printed invalid JSON")
    text = hook_output.text_without(_answer_objects(event, hook_output)) if event in _EVENTS_WITH_TEXT_CONTEXT else ""
    answer = answer or HookAnswer()
    if not text:
        return answer
    if not _is_readable_text(output):
        return replace(
            answer, problems=(*answer.problems, *_problem_answer(event, label, "printed binary data").problems)
        )
    return replace(answer, context=_join_texts((_truncate_text(text), answer.context)))


def _unreadable_decision(event: HookEvent, label: str, text: str) -> HookAnswer:
    """Return the answer for a decision that is not valid JSON: an objection at events in `_STRICT_EVENTS`, and a
    problem line at others."""
    problem = f"printed a decision that is not valid JSON: {' '.join(text.split())[:_MAX_PROBLEM_CHARS]}"
    return _invalid_answer(event, label, problem)


def _invalid_answer(event: HookEvent, label: str, problem: str) -> HookAnswer:
    if event in _STRICT_EVENTS:
        return HookAnswer("deny", f"{label} {problem}")
    return _problem_answer(event, label, problem)


def build_failure_answer(event: HookEvent, label: str, problem: str) -> HookAnswer:
    """Return the answer for a hook that could not be run."""
    return _problem_answer(event, label, f"could not be run: {problem}")


def merge_answers(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Merge the answers of hooks that ran concurrently: the strictest verdict with all reasons for it, and the last
    changed input. The result counts as the user's own (`is_from_user`) if one of the user's hooks gave the verdict and
    no project hook changed the input."""
    if len(answers) == 1:
        return answers[0]
    verdict: HookVerdict = max((answer.verdict for answer in answers), key=_STRICTNESS.index, default="none")
    strictest = [answer for answer in answers if answer.verdict == verdict]
    last_with_arguments = next((answer for answer in reversed(answers) if answer.arguments is not None), None)
    return HookAnswer(
        verdict,
        _join_texts(answer.reason for answer in strictest),
        last_with_arguments.arguments if last_with_arguments is not None else None,
        _join_texts(answer.context for answer in answers),
        tuple(line for answer in answers for line in answer.notices),
        tuple(line for answer in answers for line in answer.problems),
        next((answer.stop_reason for answer in answers if answer.stop_reason is not None), None),
        (not strictest or any(answer.is_from_user for answer in strictest))
        and (last_with_arguments is None or last_with_arguments.is_from_user),
        next(
            (answer.replacement_output for answer in reversed(answers) if answer.replacement_output is not None), None
        ),
    )


def stricter_ruling(ruling: HookRuling | None, other_ruling: HookRuling | None) -> HookRuling | None:
    """Return the stricter of two rulings; the first one if they are equally strict."""
    if ruling is None or other_ruling is None:
        return ruling or other_ruling
    return other_ruling if _STRICTNESS.index(other_ruling.verdict) > _STRICTNESS.index(ruling.verdict) else ruling


def _join_texts(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(filter(None, texts)))


def _objection_answer(event: HookEvent, label: str, process_result: ChildResult, json_answer: HookAnswer) -> HookAnswer:
    """Return the objection for exit code 2. Its reason comes from the printed JSON if the JSON also objects, otherwise
    from standard error."""
    json_reason = json_answer.reason if json_answer.verdict == "deny" else ""
    reason = (
        json_reason
        or _reason_on_stderr(process_result.error_output)
        or json_answer.reason
        or _decode_message(process_result.output)
    )
    if event not in _BLOCKABLE_EVENTS:
        return _problem_answer(
            event,
            label,
            f"objects, but this event cannot be blocked: {reason.split(chr(10), 1)[0][:_MAX_PROBLEM_CHARS]}",
        )
    return replace(json_answer, verdict="deny", reason=reason or f"{label} objected without a reason", arguments=None)


def _reason_on_stderr(error_output: bytes) -> str:
    """Return the text of standard error, or the `reason` of a JSON object printed there."""
    parsed = parse_output(error_output)
    if parsed.surrounding_text or not parsed.objects:
        return _truncate_text(parsed.text)
    reasons = [
        _parse_answer_object("PreToolUse", "", printed_object.fields).reason for printed_object in parsed.objects
    ]
    return _join_texts(reasons) or _truncate_text(parsed.text)


def _parse_answer_object(event: HookEvent, label: str, answer_object: Mapping[str, object]) -> HookAnswer:
    problems: list[str] = []
    specific_output = _object_at(answer_object, "hookSpecificOutput", problems) or {}
    known_keys = _SPECIFIC_OUTPUT_KEYS | _ADDITIONAL_OUTPUT_KEYS.get(event, frozenset())
    problems += [f"has the unknown key `{str(key)[:40]}`" for key in specific_output if key not in known_keys]
    if contains_decision(json.dumps(answer_object.get("hookSpecificOutput"))) and not specific_output:
        return _unreadable_decision(event, label, json.dumps(answer_object))
    decisions = [*_parse_decisions(event, label, answer_object, specific_output, problems)]
    merged = merge_answers(decisions)
    reason = merged.reason
    if not reason:
        reason = _join_texts(
            _text_at(source, key, problems) for source in (specific_output, answer_object) for key in _REASON_KEYS
        )
    message = _text_at(answer_object, "systemMessage", problems)
    if merged.verdict == "deny" and not reason:
        reason = message or f"{label} objected without a reason"
    arguments = _object_at(specific_output, "updatedInput", problems) if event == "PreToolUse" else None
    should_continue = answer_object.get("continue", True)
    if not isinstance(should_continue, bool):
        problems.append("returned `continue`, which is neither true nor false")
    stop_reason = (
        (_text_at(answer_object, "stopReason", problems) or f"{label} ends the turn")
        if should_continue is False
        else None
    )
    context = _text_at(specific_output, "additionalContext", problems)
    all_problems = (*merged.problems, *(f"{label} {problem}; it was ignored" for problem in problems))
    user_messages = (message,) if message else ()
    output = _replacement_output(event, specific_output)
    return HookAnswer(
        merged.verdict, reason, arguments, context, user_messages, all_problems, stop_reason, replacement_output=output
    )


def _replacement_output(event: HookEvent, specific_output: Mapping[str, object]) -> str | None:
    """Return the replacement for the tool output as text, in any format that hooks use; None if there is none."""
    replacement = next(
        (specific_output[key] for key in _REPLACEMENT_OUTPUT_KEYS if specific_output.get(key) is not None), None
    )
    if event != "PostToolUse" or replacement is None:
        return None
    return terminal_text(_output_text(replacement))


def _output_text(value: object) -> str:
    match value:
        case str():
            return value
        case {"stdout": str(out), **other_fields}:
            return "\n".join(filter(None, (out, str(other_fields.get("stderr") or ""))))
        case {"file": {"content": str(content)}} | {"content": str(content)} | {"text": str(content)}:
            return content
        case {"content": list(parts)} | list(parts):
            return "\n".join(map(_output_text, parts))
        case _:
            return json.dumps(value, ensure_ascii=False)


def _parse_decisions(
    event: HookEvent,
    label: str,
    answer_object: Mapping[str, object],
    specific_output: Mapping[str, object],
    problems: list[str],
) -> Iterator[HookAnswer]:
    """Yield an answer for each decision, with its reason. The newer and the older key are both accepted, in
    `specific_output` and at the top level, because some hooks put `permissionDecision` at the top level
    (https://github.com/anthropics/claude-code/issues/4669)."""
    for source in (specific_output, answer_object):
        for key in ("permissionDecision", "decision"):
            decision, json_object = source.get(key), source
            if isinstance(decision, Mapping):
                json_object, decision = decision, decision.get("behavior")
                problems += [f"uses `{key}`, which is not supported" for key in _UNSUPPORTED_KEYS if key in json_object]
            if decision is None:
                continue
            verdict = _VERDICT_BY_DECISION.get(decision.strip().lower()) if isinstance(decision, str) else None
            if verdict is None:
                problem = f"decides {str(decision)[:40]!r}, which is not known; write `allow`, `deny` or `ask`"
                yield _invalid_answer(event, label, problem)
            elif verdict == "allow" and json_object.get("updatedInput") is not None and event == "PermissionRequest":
                problems.append("allows the call with a changed input, which only `PreToolUse` can change")
            elif event not in _BLOCKABLE_EVENTS or (event not in _APPROVAL_EVENTS and verdict != "deny"):
                continue  # nothing can be allowed at this event
            else:
                yield HookAnswer(verdict, _join_texts(_text_at(json_object, key, problems) for key in _REASON_KEYS))


def _text_at(json_object: Mapping[str, object], key: str, problems: list[str]) -> str:
    value = json_object.get(key)
    if value is not None and not isinstance(value, str):
        problems.append(f"returned `{key}`, which is not a string")
    return _truncate_text(value) if isinstance(value, str) else ""


def _object_at(json_object: Mapping[str, object], key: str, problems: list[str]) -> Mapping[str, object] | None:
    value = json_object.get(key)
    if value is not None and not isinstance(value, Mapping):
        problems.append(f"returned `{key}`, which is not an object")
    return value if isinstance(value, Mapping) else None


def _problem_answer(event: HookEvent, label: str, problem: str) -> HookAnswer:
    consequence = "the output is shown without it" if event == "after_tool" else "it was skipped"
    return HookAnswer(problems=(f"{label} {problem}; {consequence}",))


def _decode_message(data: bytes) -> str:
    return _truncate_text(data[: 4 * MAX_MESSAGE_CHARS + 4].decode("utf-8", "replace"))


def _is_readable_text(data: bytes) -> bool:
    """Whether the output is readable text. A few bytes that cannot be decoded are accepted."""
    text = decode_output(data[: 4 * MAX_MESSAGE_CHARS])
    return "\0" not in text and 10 * text.count("\ufffd") <= len(text)


def _truncate_text(text: str) -> str:
    return truncate(terminal_text(text).strip(), MAX_MESSAGE_CHARS)
