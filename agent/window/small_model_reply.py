"""Post-processing of a small model's reply: a file or command that it only shows becomes a call, and a write that would
truncate a file by mistake is refused. Runs nothing."""

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.calls.answer_files import MAX_SNIPPET_CHARS, file_from_snippet
from ebbtide.agent.context.code_blocks import parse_code_blocks
from ebbtide.agent.context.named_files import names_of_files
from ebbtide.agent.context.unfinished_task import asks_for_change, changing_calls, turn_request
from ebbtide.agent.messages import Assistant, Conversation, Note, ToolCall, ToolOutput, User
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.paths import display, locate
from ebbtide.tools.files.text import binary_kind, decode
from ebbtide.tools.outputs.extent import ellipsize

MAX_COMMAND_LINES = 5
"""Maximum lines of a command in a code block."""
MIN_SIMILARITY = 0.6
"""Minimum similarity of a file and its replacement for a write to be accepted without question."""


def with_calls_from_code_blocks(
    found: Assistant, said: Assistant, conversation: Conversation, env: SessionContext
) -> Assistant:
    """Return the reply with a call for the code it shows. `said`: the original reply; `found`: the reply with calls
    parsed from its text."""
    asked = turn_request(conversation)
    if (
        asked is None
        or not asks_for_change(asked.text)
        or any(call.name not in ("bash", "read") for call in found.calls)
    ):
        return found
    workspace = env.call_runner.workspace
    files = _texts(_names(asked, conversation), workspace)
    new = [name for name in names_of_files(asked.text) if _text(name, workspace) is None]
    shown = file_from_snippet(said.text, files, new)
    if shown is not None and "write" in env.call_runner.tools:
        return _with_call(said, ToolCall("call_text_1", "write", {"path": shown[0], "content": shown[1]}))
    pieces = parse_code_blocks(said.text)
    if found.calls or len(pieces) != 1 or not pieces[0].is_command or any(changing_calls(conversation)):
        return found
    lines = [line.removeprefix("$ ") for line in pieces[0].text.strip().splitlines()]
    if (
        not 0 < len(lines) <= MAX_COMMAND_LINES
        or "bash" not in env.call_runner.tools
        or _is_quoted(lines, conversation)
    ):
        return found
    return _with_call(said, ToolCall("call_text_1", "bash", {"command": "\n".join(lines)}))


def refuse_truncating_writes(reply: Assistant, conversation: Conversation, env: SessionContext) -> Assistant:
    """Refuse, once each, calls that would remove most of a file: small models write an addition in place of the whole
    file."""
    made = list(_earlier(conversation))
    parts = [
        replace(part, problem=problem)
        if isinstance(part, ToolCall)
        and not part.problem
        and (part.name, dict(part.arguments)) not in made
        and (problem := _truncation_problem(part, env.call_runner.workspace))
        else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts))


def _is_quoted(lines: Sequence[str], conversation: Conversation) -> bool:
    """Whether a command occurs in something that the model was shown, other than the user's own text. It may then only
    be quoted, and whoever wrote it there must not get it run."""
    shown = " ".join(
        " ".join(part.text.split())
        for message in conversation.messages
        if isinstance(message, User)
        for part in message.parts
        if isinstance(part, Note | ToolOutput)
    )
    return any(" ".join(line.split()) in shown for line in lines)


def _with_call(said: Assistant, call: ToolCall) -> Assistant:
    return replace(said, parts=(*said.parts, call))


def _truncation_problem(call: ToolCall, workspace: Workspace) -> str:
    """Return the problem of a call that would remove most of a file; empty for any other."""
    path, content = call.arguments.get("path"), call.arguments.get("content")
    if call.name != "write" or not isinstance(path, str) or not isinstance(content, str):
        return ""
    before = _text(path, workspace)
    if not before or len(content) > MAX_SNIPPET_CHARS:
        return ""
    kept = {line.strip() for line in content.splitlines()}
    lines = [line.strip() for line in before.splitlines() if line.strip()]
    lost = [line for line in lines if line not in kept]
    if (
        2 * len(lost) <= len(lines)
        or difflib.SequenceMatcher(None, before, content, autojunk=False).ratio() > MIN_SIMILARITY
    ):
        return ""
    name, word = display(locate(path, workspace), workspace.root), shlex.quote(path)
    lines_lost = f"{len(lost)} of its {len(lines)} lines, {ellipsize(lost[0], 60)!r} among them"
    return (
        f"`{name}` would lose {lines_lost}: write all of the file, these lines included; to add to its end, call "
        f"`bash` with printf '%s\\n' TEXT >> {word}; to replace it all the same, make this call again"
    )


def _earlier(conversation: Conversation) -> Iterator[tuple[str, Mapping[str, object]]]:
    for message in conversation.messages:
        if isinstance(message, Assistant):
            yield from ((call.name, dict(call.arguments)) for call in message.calls)


def _names(asked: User, conversation: Conversation) -> list[str]:
    """Return the files that the user's message or the model's calls are about."""
    shown = [part.name for part in asked.parts if isinstance(part, Note) and part.kind == "file"]
    paths = [str(arguments.get("path", "")) for _, arguments in _earlier(conversation)]
    return list(dict.fromkeys(name.removeprefix("@").removeprefix("./") for name in (*shown, *paths) if name))


def _texts(names: Sequence[str], workspace: Workspace) -> dict[str, str]:
    found = ((name, _text(name, workspace)) for name in names)
    return {name: text for name, text in found if text}


def _text(name: str, workspace: Workspace) -> str | None:
    """Return the content of a short file, "" if it is long, binary or not seen by the model, and None if there is
    none."""
    try:
        path = locate(name, workspace)
        raw = beginning_of(path, MAX_SNIPPET_CHARS + 1)
    except (ToolError, OSError):
        return None
    if len(raw) > MAX_SNIPPET_CHARS or binary_kind(raw) or workspace.seen.last_look(path, raw) == "never":
        return ""
    return decode(raw).normalised_text
