"""What the answers of hooks mean: their exit codes, what they print, and several of them together. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.config.hook_tables import HookEvent
from tools.outputs.extent import cut
from tools.outputs.plain_text import plain
from tools.process.child import Exit

MOST_SAID = 10_000
"""Characters of what a hook says that the model is shown."""
MOST_BYTES = 4_000_000
"""Of what it prints that are looked at: an input of a tool may be a whole file."""
REFUSES = 2
"""The exit code with which a hook objects."""

HookVerdict: TypeAlias = Literal["none", "allow", "ask", "deny"]

_BLOCKABLE = frozenset(
    {
        "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreCompact",
        "Stop", "SubagentStop",
    }
)  # fmt: skip
"""Events at which an objection is heard."""
_TEXT_IS_CONTEXT = frozenset({"UserPromptSubmit", "SessionStart"})
"""Events at which the model is shown what is printed without further ado."""
_DECISIONS: Mapping[object, HookVerdict] = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask",
}  # fmt: skip
_STRICTNESS: Sequence[HookVerdict] = ("none", "allow", "ask", "deny")
_SPECIAL = frozenset(
    {"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"}
)
_OUTPUTS = ("updatedToolOutput", "updatedMCPToolOutput")
_CALLS = frozenset({"PreToolUse", "PermissionRequest"})
"""Events at which a call may be allowed."""
_OF_EVENT: Mapping[HookEvent, frozenset[str]] = {
    "PostToolUse": frozenset(_OUTPUTS), "PermissionRequest": frozenset({"decision"}),
}  # fmt: skip
"""What else an answer may hold."""
_PROBLEM = 200


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a hook wants, or several of them together."""

    verdict: HookVerdict = "none"
    """At most events `deny` is all that is heard: the prompt is not sent, the turn goes on."""
    reason: str = ""
    arguments: Mapping[str, object] | None = None
    """What the call is to be made with, in Claude Code's words."""
    context: str = ""
    """For the model."""
    told: tuple[str, ...] = ()
    """For the user, lines."""
    problems: tuple[str, ...] = ()
    """What was wrong with the answer, for the user."""
    stop: str | None = None
    """Why the turn is to end, where it is to."""
    is_own: bool = True
    """It comes from a program of the user's own: what a project brings can allow nothing."""
    output: str | None = None
    """What the model is to be shown in place of what a call gave back."""


def meaning(event: HookEvent, named: str, answer: Exit, seconds: float) -> HookAnswer:
    """What an answer means. `named`: the hook, for people. Whatever is wrong with it costs a line and nothing else."""
    if answer.code is None:
        return _useless(named, f"was ended after {seconds:g} s")
    if answer.code == REFUSES:
        return _refusal(event, named, answer)
    if answer.code != 0:
        how = f"exited with {answer.code}" if answer.code > 0 else f"was killed by signal {-answer.code}"
        first = _text(answer.err).split("\n", 1)[0][:_PROBLEM]
        return _useless(named, f"{how}: {first}" if first else how)
    said = _behind_first(answer.out.strip())
    if said.startswith(b"{"):
        tables = _decoded(said)
        if not isinstance(tables, dict):
            return _useless(named, "printed what begins like JSON and is none")
        return _of_json(event, named, tables)
    if not said or event not in _TEXT_IS_CONTEXT:
        return HookAnswer()
    return HookAnswer(context=_text(said)) if _is_text(said) else _useless(named, "printed what is no text")


def goes_aside(line: bytes) -> bool:
    """Whether a line, the first that a hook prints, says that nobody need wait for it: `{"async": true}`."""
    tables = _decoded(line) if line.lstrip().startswith(b"{") else None
    return isinstance(tables, dict) and tables.get("async") is True


def _behind_first(said: bytes) -> bytes:
    """What a hook prints that has said in its first line that nobody need wait for it: the first line that is JSON."""
    first, _, rest = said.partition(b"\n")
    if not goes_aside(first):
        return said
    return next((line.strip() for line in rest.splitlines() if isinstance(_decoded(line), dict)), b"")


def not_run(named: str, problem: str) -> HookAnswer:
    """What follows when a hook could not be asked."""
    return _useless(named, f"could not be run: {problem}")


def together(answers: Sequence[HookAnswer]) -> HookAnswer:
    """What several hooks want that ran side by side: the strictest verdict with the reasons of those who gave it, and
    of several inputs the last. It is the user's own where one of theirs gives it, for an input that nobody else has
    changed."""
    if len(answers) == 1:
        return answers[0]
    verdict: HookVerdict = max((one.verdict for one in answers), key=_STRICTNESS.index, default="none")
    strictest = [one for one in answers if one.verdict == verdict]
    changed = [one for one in reversed(answers) if one.arguments is not None][:1]
    return HookAnswer(
        verdict,
        _joined(one.reason for one in strictest),
        changed[0].arguments if changed else None,
        _joined(one.context for one in answers),
        tuple(line for one in answers for line in one.told),
        tuple(line for one in answers for line in one.problems),
        next((one.stop for one in answers if one.stop is not None), None),
        (not strictest or any(one.is_own for one in strictest)) and all(one.is_own for one in changed),
        next((one.output for one in reversed(answers) if one.output is not None), None),
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(filter(None, texts)))


def _refusal(event: HookEvent, named: str, answer: Exit) -> HookAnswer:
    reason = _text(answer.err) or _reason_in(answer.out)
    if event not in _BLOCKABLE:
        return _useless(named, f"objects, which changes nothing here: {reason.split(chr(10), 1)[0][:_PROBLEM]}")
    return HookAnswer("deny", reason or f"{named} refuses it and gives no reason")


def _reason_in(printed: bytes) -> str:
    """The reason of a hook that prints it as JSON and objects by its exit code, too."""
    tables = _decoded(printed)
    if not isinstance(tables, dict):
        return _text(printed)
    reason = tables.get("reason")
    return _cut(reason) if isinstance(reason, str) else ""


def _decoded(printed: bytes) -> object:
    """What JSON says; None where it is none."""
    try:
        decoded = json.loads(printed)
        json.dumps(decoded, ensure_ascii=False).encode()  # half a character can neither be stored nor shown
    except (ValueError, RecursionError):
        return None
    return decoded


def _of_json(event: HookEvent, named: str, tables: Mapping[str, object]) -> HookAnswer:
    problems: list[str] = []
    special = _table_at(tables, "hookSpecificOutput", problems) or {}
    known = _SPECIAL | _OF_EVENT.get(event, frozenset())
    problems += [f"says `{str(key)[:40]}`, which is not known here" for key in special if key not in known]
    verdict, reason = _decision(event, tables, special, problems)
    message = _text_at(tables, "systemMessage", problems)
    if verdict == "deny" and not reason:
        reason = message or f"{named} refuses it and gives no reason"
    arguments = _table_at(special, "updatedInput", problems) if event == "PreToolUse" else None
    goes_on = tables.get("continue", True)
    if not isinstance(goes_on, bool):
        problems.append("says `continue`, which is neither true nor false")
    stop = (_text_at(tables, "stopReason", problems) or f"{named} ends the turn") if goes_on is False else None
    context = _text_at(special, "additionalContext", problems)
    wrong = tuple(f"{named} {problem}; that is passed over" for problem in problems)
    told = (message,) if message else ()
    output = _output(event, special)
    return HookAnswer(verdict, reason, arguments, context, told, wrong, stop, output=output)


def _output(event: HookEvent, special: Mapping[str, object]) -> str | None:
    """What is to be shown in place of an output, as text, in whatever form the tool there gives it."""
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


def _decision(
    event: HookEvent, tables: Mapping[str, object], special: Mapping[str, object], problems: list[str]
) -> tuple[HookVerdict, str]:
    """What is decided and why, in the newer form or the older one."""
    if event == "PermissionRequest" and isinstance(asked := special.get("decision"), Mapping):
        return _on_request(asked, problems)
    decision = special.get("permissionDecision") if event == "PreToolUse" else None
    is_old = decision is None
    decision = tables.get("decision") if is_old else decision
    verdict = _DECISIONS.get(decision, "none") if isinstance(decision, str) else "none"
    if decision not in (None, "defer") and verdict == "none":
        problems.append(f"decides {str(decision)[:40]!r}, which means nothing")
    if event not in _BLOCKABLE or (event not in _CALLS and verdict != "deny"):
        verdict = "none"  # elsewhere there is nothing to allow
    where, key = (tables, "reason") if is_old else (special, "permissionDecisionReason")
    return verdict, _text_at(where, key, problems)


def _on_request(decision: Mapping[str, object], problems: list[str]) -> tuple[HookVerdict, str]:
    """What is decided in the place of the user. Another input is none that the question was about."""
    behavior, verdict = decision.get("behavior"), _DECISIONS.get(str(decision.get("behavior")), "none")
    if verdict == "none":
        problems.append(f"decides {str(behavior)[:40]!r}, which means nothing")
    problems += [
        f"says `{key}`, which is not done here" for key in ("updatedPermissions", "interrupt") if key in decision
    ]
    if verdict == "allow" and decision.get("updatedInput") is not None:
        problems.append("allows the call with another input, which it can change before the question only")
        return "none", ""
    return verdict, _text_at(decision, "message", problems)


def _text_at(tables: Mapping[str, object], key: str, problems: list[str]) -> str:
    value = tables.get(key)
    if value is not None and not isinstance(value, str):
        problems.append(f"says `{key}`, which is no text")
    return _cut(value) if isinstance(value, str) else ""


def _table_at(tables: Mapping[str, object], key: str, problems: list[str]) -> Mapping[str, object] | None:
    value = tables.get(key)
    if value is not None and not isinstance(value, Mapping):
        problems.append(f"says `{key}`, which is no table")
    return value if isinstance(value, Mapping) else None


def _useless(named: str, what: str) -> HookAnswer:
    return HookAnswer(problems=(f"{named} {what}; it goes on without it",))


def _text(data: bytes) -> str:
    return _cut(data[: 4 * MOST_SAID + 4].decode("utf-8", "replace"))


def _is_text(data: bytes) -> bool:
    """Whether a model could read it. A few letters in another encoding make no text something else."""
    shown = data[: 4 * MOST_SAID].decode("utf-8", "replace")
    return "\0" not in shown and 10 * shown.count("\ufffd") <= len(shown)


def _cut(text: str) -> str:
    return cut(plain(text).strip(), MOST_SAID)
