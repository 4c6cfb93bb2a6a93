"""Post-processes the reply of a small model: a file or command that it only shows becomes a call, and a write that
would truncate a file by mistake is rejected."""

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.integrations.small_models.files_in_answer import MAX_SNIPPET_CHARS, file_from_answer
from ebbtide.agent.integrations.small_models.unfinished_task import (
    asks_for_change,
    find_calls_that_changed_files,
    turn_request,
)
from ebbtide.agent.messages import Assistant, Conversation, Note, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.code_blocks import parse_code_blocks
from ebbtide.agent.prompt.mentions import file_names_in
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.paths import display_path, locate_path
from ebbtide.tools.files.text import binary_kind, decode_file
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.read import Read
from ebbtide.tools.write import Write

_CALL_ID = "call_text_1"
"""Id of a call that is made from the text of a reply. There is at most one in a reply."""
MAX_COMMAND_LINES = 5
"""Maximum number of lines of a command in a code block."""
MIN_SIMILARITY = 0.6
"""A write is accepted if the file and its replacement are more similar than this, even if most lines differ."""


def with_calls_from_code_blocks(
    reply: Assistant, original: Assistant, conversation: Conversation, runner: CallRunner
) -> Assistant:
    """Add a call for code that the reply only shows. `original`: the reply before calls were parsed from its text."""
    request = turn_request(conversation)
    if (
        request is None
        or not asks_for_change(request.text)
        or any(call.name not in (Bash.name, Read.name) for call in reply.calls)
    ):
        return reply
    has_changed_files = any(find_calls_that_changed_files(conversation))
    mentioned_names = file_names_in(request.text)
    workspace = runner.workspace
    texts_by_name = _short_file_texts(_relevant_file_names(request, conversation), workspace)
    new_names = [name for name in mentioned_names if _short_file_text(name, workspace) is None]
    answer_file = file_from_answer(original.text, texts_by_name, new_names)
    if answer_file is not None and Write.name in runner.tools:
        path, content = answer_file
        return _with_call(original, ToolCall(_CALL_ID, Write.name, {"path": path, "content": content}))
    blocks = parse_code_blocks(original.text)
    if reply.calls or len(blocks) != 1 or not blocks[0].is_command or has_changed_files:
        return reply
    lines = [line.removeprefix("$ ") for line in blocks[0].text.strip().splitlines()]
    if not 0 < len(lines) <= MAX_COMMAND_LINES or Bash.name not in runner.tools or _is_quoted(lines, conversation):
        return reply
    return _with_call(original, ToolCall(_CALL_ID, Bash.name, {"command": "\n".join(lines)}))


def refuse_truncating_writes(reply: Assistant, conversation: Conversation, runner: CallRunner) -> Assistant:
    """Reject calls that would remove most of a file, because small models often write only the new part instead of the
    complete file. If the model repeats the call, it is accepted."""
    earlier_calls = list(_earlier_calls(conversation))
    parts = [
        replace(part, problem=problem)
        if isinstance(part, ToolCall)
        and not part.problem
        and (part.name, dict(part.arguments)) not in earlier_calls
        and (problem := _truncation_problem(part, runner.workspace))
        else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts))


def _is_quoted(lines: Sequence[str], conversation: Conversation) -> bool:
    """Whether a command occurs in a note or output that the model has seen. The model may only be quoting it, and
    the author of that text must not be able to make it run."""
    seen_text = " ".join(
        " ".join(part.text.split())
        for message in conversation.messages
        if isinstance(message, User)
        for part in message.parts
        if isinstance(part, Note | ToolOutput)
    )
    return any(" ".join(line.split()) in seen_text for line in lines)


def _with_call(original: Assistant, call: ToolCall) -> Assistant:
    return replace(original, parts=(*original.parts, call))


def _truncation_problem(call: ToolCall, workspace: Workspace) -> str:
    """Return the problem with a call that would remove most of a file; empty for other calls."""
    path, content = call.arguments.get("path"), call.arguments.get("content")
    if call.name != Write.name or not isinstance(path, str) or not isinstance(content, str):
        return ""
    old_text = _short_file_text(path, workspace)
    if not old_text or len(content) > MAX_SNIPPET_CHARS:
        return ""
    new_lines = {line.strip() for line in content.splitlines()}
    old_lines = [line.strip() for line in old_text.splitlines() if line.strip()]
    lost_lines = [line for line in old_lines if line not in new_lines]
    if (
        2 * len(lost_lines) <= len(old_lines)
        or difflib.SequenceMatcher(None, old_text, content, autojunk=False).ratio() > MIN_SIMILARITY
    ):
        return ""
    name, quoted_path = display_path(locate_path(path, workspace), workspace.root), shlex.quote(path)
    loss_text = f"{len(lost_lines)} of its {len(old_lines)} lines, {ellipsize(lost_lines[0], 60)!r} among them"
    return (
        f"`{name}` would lose {loss_text}: write the complete file, including these lines; to append to it, call "
        f"`bash` with printf '%s\\n' TEXT >> {quoted_path}; to replace it anyway, make this call again"
    )


def _earlier_calls(conversation: Conversation) -> Iterator[tuple[str, Mapping[str, object]]]:
    for message in conversation.messages:
        if isinstance(message, Assistant):
            yield from ((call.name, dict(call.arguments)) for call in message.calls)


def _relevant_file_names(request: User, conversation: Conversation) -> list[str]:
    """Return the files that the user's message or the model's calls are about."""
    attached = [part.name for part in request.parts if isinstance(part, Note) and part.kind == "file"]
    paths = [str(arguments.get("path", "")) for _, arguments in _earlier_calls(conversation)]
    return list(dict.fromkeys(name.removeprefix("@").removeprefix("./") for name in (*attached, *paths) if name))


def _short_file_texts(names: Sequence[str], workspace: Workspace) -> dict[str, str]:
    texts = ((name, _short_file_text(name, workspace)) for name in names)
    return {name: text for name, text in texts if text}


def _short_file_text(name: str, workspace: Workspace) -> str | None:
    """Return the content of a short file; an empty string if it is long, binary or not yet seen by the model; None if
    there is no such file."""
    try:
        path = locate_path(name, workspace)
        content = read_prefix(path, MAX_SNIPPET_CHARS + 1)
    except (ToolError, OSError):
        return None
    if (
        len(content) > MAX_SNIPPET_CHARS
        or binary_kind(content)
        or workspace.seen_files.view_state(path, content) == "never"
    ):
        return ""
    return decode_file(content).normalised_text
