"""Remind a small model to make a change that it only showed or claimed, at most twice in a turn. Pure."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.context.code_blocks import parse_code_blocks
from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.context.tool_selection import NO_TOOL, executed_call
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, ToolCall, User
from ebbtide.tools.files.in_place_edits import FOUND_NOTHING
from ebbtide.tools.lazy import regex
from ebbtide.tools.write import END_ONLY, SAME

MAX_REMINDERS = 2
_NOTHING_CHANGED = "[So far nothing was changed"
_CODE_WITHOUT_CALL = ": what you show is no call"
_TASK_PROMPT = "This is to be done now: {}\n{}, or say in one sentence why it cannot be done.]"
_CALL, _WRITE = "Answer with the call alone", "Call `write` with the path `{}` and all that the file is to hold"
MAX_QUOTED_CHARS = 2_000
"""Maximum characters of the files and of the user's text that are repeated."""

_WISH = regex(
    r"(?:^|[.!?;:,\n]\s*|\b(?:please|and|then|should|must|to|you)\s+)"
    r"(?:add|append|apply|bump|change|comment|convert|copy|correct|create|delete|drop|edit|ensure|extend|fix|format|"
    r"implement|insert|make|mend|move|modify|put|refactor|remove|rename|repair|replace|rewrite|set|sort|swap|switch|"
    r"turn|update|upgrade|use|write)\b",
)
"""How a request for a change begins."""
_ASKS = regex(r"^\s*(?:how|what|which|who|where|why|when|explain|show|tell|describe|list|is|are|does|do|can)\b")
_ABOUT_ENDS = regex(r"new ?line|line (?:end|feed|break)|(?:empty|blank) line|trailing|\beof\b|end of (?:the )?file")
"""Requests that may be about the end of a file."""
_NO_WRITER = regex(
    r"(?i)read|get|open|show|view|list|search|find|look|check|run|exec|test|delete|remove|move|rename|copy|folder|dir"
)
"""Words in the name of a tool that writes no file."""
_PATH = regex(r"(?i)(?:\w*_)?(?:file_?)?(?:path|name|file)")
_FILE = regex(r"[\w./@+-]{1,200}")
_COMPOUND_COMMAND = regex(r"[;&|>\n]")
"""In commands that may do more than one thing."""
_CHANGERS = ("write", "edit", "apply_patch", "edit_notebook")
_LOOKS = regex(
    r"\s*(?:cd [^&;]*(?:&&|;)\s*)?(?:cat|ls|grep|rg|head|tail|wc|find|pwd|echo(?![^\n]*>)|sed -n|python3?|node|pytest|"
    r"npm (?:test|run)|(?:go|cargo) (?:test|run|build)|make|git (?:status|diff|log|show)|which|file|stat)\b"
)
"""Beginnings of commands that change no relevant file."""


def work_reminder(conversation: Conversation) -> User | None:
    """Return the reminder to make the change that the final reply of the turn only talks about. None if no change was
    asked for, if one was made, or if the limit of reminders is reached."""
    messages = conversation.messages
    start = _turn_start(messages)
    if start is None or not isinstance(answer := messages[-1], Assistant) or answer.calls:
        return None
    said, turn = messages[start], messages[start + 1 :]
    assert isinstance(said, User)
    asked = sum(isinstance(message, User) and message.has_note("undone") for message in turn)
    if asked >= MAX_REMINDERS or not asks_for_change(said.text) or any(changing_calls(conversation)):
        return None
    path = _path_to_write(turn)
    call = _WRITE.format(path) if path else _CALL
    return User((Note(_reminder_text(said, call, is_shown=bool(parse_code_blocks(answer.text))), kind="undone"),))


def _path_to_write(turn: Sequence[Message]) -> str:
    """Return the path in the turn's last call to an unknown tool that would write a file; empty if there is none."""
    calls, path = dict[str, ToolCall](), ""
    for message in turn:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            call = calls.get(output.call_id)
            if call is not None and NO_TOOL.format(call.name) in output.text and not _NO_WRITER.search(call.name):
                named = (value for key, value in call.arguments.items() if _PATH.fullmatch(key))
                path = next((each for each in named if isinstance(each, str) and _FILE.fullmatch(each)), "")
    return path


def _reminder_text(said: User, call: str, *, is_shown: bool) -> str:
    """Return the text that repeats the task and the files at the end, where models follow it best."""
    files = [part for part in said.parts if isinstance(part, Note) and part.kind == "file"]
    texts = [f"`{file.name}` still holds:\n{file.text[file.heading :].rstrip()}" for file in files]
    shown = "\n\n".join(texts) if sum(map(len, texts)) <= MAX_QUOTED_CHARS else ""
    held = f". {shown}\n\n" if shown else ". "
    task = _TASK_PROMPT.format(said.text[:MAX_QUOTED_CHARS].strip(), call)
    return f"{_NOTHING_CHANGED}{_CODE_WITHOUT_CALL if is_shown else ''}{held}{task}"


def asks_for_change(text: str) -> bool:
    """Whether the text asks for a change."""
    plain = text.casefold()
    return _WISH.search(plain) is not None and not (_ASKS.match(plain) and plain.rstrip().endswith("?"))


def _turn_start(messages: Sequence[Message]) -> int | None:
    """Return the index of the user message that began the turn."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, User) and message.text and not is_steering_message(message):
            return place
    return None


def turn_request(conversation: Conversation) -> User | None:
    """Return the user message that began the turn."""
    start = _turn_start(conversation.messages)
    message = conversation.messages[start] if start is not None else None
    return message if isinstance(message, User) else None


def changing_calls(conversation: Conversation) -> Iterator[ToolCall]:
    """Yield the calls of the last turn that changed something, judged by their kind and output. Small models sometimes
    rewrite a file unchanged except for its last line break, and call that the change."""
    calls, messages = dict[str, ToolCall](), conversation.messages
    start = _turn_start(messages) or 0
    asked = messages[start].text if messages else ""
    no_changes = (SAME,) if _ABOUT_ENDS.search(asked.casefold()) else (SAME, END_ONLY)
    for message in messages[start:]:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            if output.status != "done" or output.call_id not in calls or output.text.endswith(no_changes):
                continue
            call = executed_call(calls[output.call_id], output)
            command = str(call.arguments.get("command", ""))
            is_in_vain = FOUND_NOTHING in output.text and not _COMPOUND_COMMAND.search(command)
            if call.name in _CHANGERS or (call.name == "bash" and not _LOOKS.match(command) and not is_in_vain):
                yield call
