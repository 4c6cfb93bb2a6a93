"""Reminds a small model to make a change that it only showed or claimed to have made, at most twice in a turn."""

from collections.abc import Iterator, Sequence

from ebbtide.agent.messages import Assistant, Conversation, Message, Note, ToolCall, User
from ebbtide.agent.prompt.code_blocks import parse_code_blocks
from ebbtide.agent.tool_specs import UNKNOWN_TOOL_ERROR, executed_call
from ebbtide.agent.view.message_text import is_steering_message
from ebbtide.tools.command_runs.changed_files import PATTERN_NOT_FOUND
from ebbtide.tools.lazy import regex
from ebbtide.tools.tool_traits import role_of
from ebbtide.tools.write import FINAL_NEWLINE_NOTE, UNCHANGED_NOTE

MAX_REMINDERS = 2
_NOTHING_CHANGED_TEXT = "[So far nothing was changed"
_CODE_WITHOUT_CALL_TEXT = ": the code that you show is not a call"
_TASK_REMINDER = "This is to be done now: {}\n{}, or say in one sentence why it cannot be done.]"
_CALL_INSTRUCTION = "Answer with the call alone"
_WRITE_INSTRUCTION = "Call `write` with the path `{}` and the complete content of the file"
MAX_QUOTED_CHARS = 2_000
"""Maximum number of characters quoted from the files, and from the user's text."""

_CHANGE_REQUEST = regex(
    r"(?:^|[.!?;:,\n]\s*|\b(?:please|and|then|should|must|to|you)\s+)"
    r"(?:add|append|apply|bump|change|comment|convert|copy|correct|create|delete|drop|edit|ensure|extend|fix|format|"
    r"implement|insert|make|mend|move|modify|put|refactor|remove|rename|repair|replace|rewrite|set|sort|swap|switch|"
    r"turn|update|upgrade|use|write)\b",
)
"""The beginning of a request for a change."""
_QUESTION_START = regex(
    r"^\s*(?:how|what|which|who|where|why|when|explain|show|tell|describe|list|is|are|does|do|can)\b"
)
_FILE_END_WORDS = regex(r"new ?line|line (?:end|feed|break)|(?:empty|blank) line|trailing|\beof\b|end of (?:the )?file")
"""Words that suggest that a request is about the end of a file."""
_NON_WRITING_TOOL = regex(
    r"(?i)read|get|open|show|view|list|search|find|look|check|run|exec|test|delete|remove|move|rename|copy|folder|dir"
)
"""Words in a tool's name that suggest that the tool does not write files."""
_PATH_ARGUMENT = regex(r"(?i)(?:\w*_)?(?:file_?)?(?:path|name|file)")
_FILE_PATH = regex(r"[\w./@+-]{1,200}")
_COMPOUND_COMMAND = regex(r"[;&|>\n]")
"""Characters that separate the parts of a compound command."""
_CHANGING_ROLES = ("write_file", "edit_file", "edit_cells", "patch_files")
_READ_ONLY_COMMAND = regex(
    r"\s*(?:cd [^&;]*(?:&&|;)\s*)?(?:cat|ls|grep|rg|head|tail|wc|find|pwd|echo(?![^\n]*>)|sed -n|python3?|node|pytest|"
    r"npm (?:test|run)|(?:go|cargo) (?:test|run|build)|make|git (?:status|diff|log|show)|which|file|stat)\b"
)
"""Beginnings of commands that do not change the user's files."""


def unfinished_work_reminder(conversation: Conversation) -> User | None:
    """Build a reminder to make the change that the turn's final reply only describes. None if no change was requested,
    if one was made, or if the maximum number of reminders was reached."""
    messages = conversation.messages
    start_index = _turn_start(messages)
    if start_index is None or not isinstance(answer := messages[-1], Assistant) or answer.calls:
        return None
    request, turn_messages = messages[start_index], messages[start_index + 1 :]
    assert isinstance(request, User)
    reminder_count = sum(isinstance(message, User) and message.has_note("undone") for message in turn_messages)
    if (
        reminder_count >= MAX_REMINDERS
        or not asks_for_change(request.text)
        or any(find_calls_that_changed_files(conversation))
    ):
        return None
    path = _path_to_write(turn_messages)
    instruction = _WRITE_INSTRUCTION.format(path) if path else _CALL_INSTRUCTION
    return User(
        (Note(_reminder_text(request, instruction, has_code=bool(parse_code_blocks(answer.text))), kind="undone"),)
    )


def _path_to_write(turn_messages: Sequence[Message]) -> str:
    """Find the path in the turn's last call to an unknown tool, unless the tool's name suggests that it does not write
    files. Empty if there is none."""
    calls, path = dict[str, ToolCall](), ""
    for message in turn_messages:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            call = calls.get(output.call_id)
            if (
                call is not None
                and UNKNOWN_TOOL_ERROR.format(call.name) in output.text
                and not _NON_WRITING_TOOL.search(call.name)
            ):
                paths = (value for key, value in call.arguments.items() if _PATH_ARGUMENT.fullmatch(key))
                path = next((value for value in paths if isinstance(value, str) and _FILE_PATH.fullmatch(value)), "")
    return path


def _reminder_text(request: User, instruction: str, *, has_code: bool) -> str:
    """Return the text of the reminder. The files and the task come last, because models follow the end of a message
    best."""
    files = [part for part in request.parts if isinstance(part, Note) and part.kind == "file"]
    texts = [f"`{file.name}` still contains:\n{file.text[file.heading :].rstrip()}" for file in files]
    quoted_files = "\n\n".join(texts) if sum(map(len, texts)) <= MAX_QUOTED_CHARS else ""
    files_text = f". {quoted_files}\n\n" if quoted_files else ". "
    task = _TASK_REMINDER.format(request.text[:MAX_QUOTED_CHARS].strip(), instruction)
    return f"{_NOTHING_CHANGED_TEXT}{_CODE_WITHOUT_CALL_TEXT if has_code else ''}{files_text}{task}"


def asks_for_change(text: str) -> bool:
    """Whether the text asks for a change."""
    folded_text = text.casefold()
    return _CHANGE_REQUEST.search(folded_text) is not None and not (
        _QUESTION_START.match(folded_text) and folded_text.rstrip().endswith("?")
    )


def _turn_start(messages: Sequence[Message]) -> int | None:
    """Return the index of the user message that began the turn."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, User) and message.text and not is_steering_message(message):
            return index
    return None


def turn_request(conversation: Conversation) -> User | None:
    """Return the user message that began the turn."""
    start_index = _turn_start(conversation.messages)
    message = conversation.messages[start_index] if start_index is not None else None
    return message if isinstance(message, User) else None


def find_calls_that_changed_files(conversation: Conversation) -> Iterator[ToolCall]:
    """Yield the last turn's calls that changed something, judging by their kind and output. A rewrite that changes only
    the last line break of a file does not count unless the user asked for it, because small models pass it off as the
    requested change."""
    calls, messages = dict[str, ToolCall](), conversation.messages
    start_index = _turn_start(messages) or 0
    request_text = messages[start_index].text if messages else ""
    unchanged_notes = (
        (UNCHANGED_NOTE,) if _FILE_END_WORDS.search(request_text.casefold()) else (UNCHANGED_NOTE, FINAL_NEWLINE_NOTE)
    )
    for message in messages[start_index:]:
        if isinstance(message, Assistant):
            calls |= {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            if output.status != "done" or output.call_id not in calls or output.text.endswith(unchanged_notes):
                continue
            call = executed_call(calls[output.call_id], output)
            command = str(call.arguments.get("command", ""))
            matched_nothing = PATTERN_NOT_FOUND in output.text and not _COMPOUND_COMMAND.search(command)
            role = role_of(call.name)
            if role in _CHANGING_ROLES or (
                role == "run_command" and not _READ_ONLY_COMMAND.match(command) and not matched_nothing
            ):
                yield call
