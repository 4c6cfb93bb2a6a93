"""Writes the session's transcript as JSON lines, in Claude Code's format, for hooks."""

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from ebbtide.agent.hooks.tool_names import claude_name_and_arguments
from ebbtide.agent.messages import Image, Message, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.tools.files.private_folder import create_private_folder

UsageByMessage: TypeAlias = Mapping[int, Usage]
"""Token usage of replies, by message index."""
MessageReader: TypeAlias = Callable[[int], Awaitable[tuple[Sequence[Message], int, UsageByMessage]]]
"""Reads the messages from an index on. Returns them, the index after the last one, and the usage of replies."""


class HookTranscript:
    """The transcript of one session. It is written on demand, and only new messages are appended."""

    def __init__(self, path: Path, session_id: str, root: Path, read_messages: MessageReader) -> None:
        self.path = path
        self.problem = ""
        """Why the transcript cannot be written; empty if it can."""
        self._session_id, self._root, self._read_messages = session_id, str(root), read_messages
        self._next_index, self._last_uuid = 0, ""
        self._lock = asyncio.Lock()

    async def write_new_messages(self) -> str:
        """Append new messages and return the path of the file; empty if it cannot be written."""
        async with self._lock:
            start = self._next_index
            messages, self._next_index, usage_by_message = await self._read_messages(start)
            try:
                if messages or not start:
                    await asyncio.to_thread(self._append, messages, usage_by_message, is_new=not start)
            except OSError as error:
                # The file may be incomplete, so the next call writes all of it.
                self._next_index, self._last_uuid = 0, ""
                self.problem = f"hooks get no transcript: `{self.path}` cannot be written: {error.strerror or error}"
                return ""
            self.problem = ""
            return str(self.path)

    async def write_agent_transcript(self, agent_id: str, messages: Sequence[Message]) -> str:
        """Write the conversation of a sub-agent to a file next to the session's transcript, and return its path."""

        async def read(_: int) -> tuple[Sequence[Message], int, UsageByMessage]:
            return messages, len(messages), {}

        return await HookTranscript(
            self.path.with_name(f"agent-{agent_id}.jsonl"), agent_id, Path(self._root), read
        ).write_new_messages()

    def _append(self, messages: Sequence[Message], usage_by_message: UsageByMessage, *, is_new: bool) -> None:
        create_private_folder(self.path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if is_new else os.O_APPEND)
        with open(os.open(self.path, flags, 0o600), "wb") as file:
            for index, message in enumerate(messages):
                file.writelines(self._format_message_lines(message, usage_by_message.get(index)))

    def _format_message_lines(self, message: Message, usage: Usage | None) -> Iterator[bytes]:
        role = "user" if isinstance(message, User) else "assistant"
        content = _claude_content(message, self._root)
        if not content:
            return
        parent_uuid, self._last_uuid = self._last_uuid, str(uuid.uuid4())
        record: dict[str, object] = {"role": role, "content": content}
        if not isinstance(message, User):
            record["model"] = message.model
        if usage is not None:
            record["usage"] = {
                "input_tokens": usage.input,
                "cache_read_input_tokens": usage.cache_read,
                "cache_creation_input_tokens": usage.cache_write,
                "output_tokens": usage.output,
            }
        line = {
            "parentUuid": parent_uuid or None,
            "isSidechain": False,
            "cwd": self._root,
            "sessionId": self._session_id,
            "type": role,
            "message": record,
            "uuid": self._last_uuid,
            "timestamp": datetime.now(UTC).isoformat(),
        }
        yield json.dumps(line).encode() + b"\n"


def _claude_content(message: Message, root: str) -> str | list[dict[str, object]]:
    """Convert the content of a message to Claude Code's format. A user message that contains only text becomes a
    string. Text that the program added is omitted."""
    parts: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                parts.append({"type": "text", "text": text})
            case Image(media_type=media_type):
                parts.append({"type": "text", "text": f"[image, {media_type}]"})
            case ToolCall(id=call_id):
                name, arguments = claude_name_and_arguments(part, root)
                parts.append({"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)})
            case ToolOutput(call_id=call_id, text=text, status=status):
                parts.append(
                    {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": status != "done"}
                )
            case _:
                pass
    if isinstance(message, User) and parts and all(part["type"] == "text" for part in parts):
        return "\n".join(str(part["text"]) for part in parts)
    return parts
