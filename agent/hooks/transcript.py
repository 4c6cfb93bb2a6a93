"""Writes the session's transcript as JSON lines, in Claude Code's format, for hooks."""

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from ebbtide.agent.hooks.tool_names import views_of
from ebbtide.agent.messages import Image, Message, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.tools.files.private_folder import make_private

UsageByMessage: TypeAlias = Mapping[int, Usage]
"""Token usage of replies, by message index."""
ReadMessages: TypeAlias = Callable[[int], Awaitable[tuple[Sequence[Message], int, UsageByMessage]]]
"""Reads the messages from a position on; returns them, the next position and the usage of replies."""


class HookTranscript:
    """The transcript of one session. It is written on demand, and only new messages are appended."""

    def __init__(self, path: Path, session: str, root: Path, read: ReadMessages) -> None:
        self.path = path
        self.problem = ""
        """Why the transcript cannot be written; empty if it can."""
        self._session, self._root, self._read = session, str(root), read
        self._position, self._last = 0, ""
        self._alone = asyncio.Lock()

    async def catch_up(self) -> str:
        """Append new messages and return the path of the file; empty if it cannot be written."""
        async with self._alone:
            start = self._position
            messages, self._position, used = await self._read(start)
            try:
                if messages or not start:
                    await asyncio.to_thread(self._append, messages, used, is_new=not start)
            except OSError as error:
                self.problem = f"hooks get no transcript: `{self.path}` cannot be written: {error.strerror or error}"
                return ""
            return str(self.path)

    async def of_agent(self, agent: str, messages: Sequence[Message]) -> str:
        """Write the conversation of a sub-agent to a file next to it and return its path."""

        async def read(_: int) -> tuple[Sequence[Message], int, UsageByMessage]:
            return messages, len(messages), {}

        return await HookTranscript(
            self.path.with_name(f"agent-{agent}.jsonl"), agent, Path(self._root), read
        ).catch_up()

    def _append(self, messages: Sequence[Message], used: UsageByMessage, *, is_new: bool) -> None:
        make_private(self.path.parent)
        how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if is_new else os.O_APPEND)
        with open(os.open(self.path, how, 0o600), "wb") as file:
            for place, message in enumerate(messages):
                file.writelines(self._lines(message, used.get(place)))

    def _lines(self, message: Message, used: Usage | None) -> Iterator[bytes]:
        role = "user" if isinstance(message, User) else "assistant"
        content = _content(message, self._root)
        if not content:
            return
        before, self._last = self._last, str(uuid.uuid4())
        said: dict[str, object] = {"role": role, "content": content}
        if not isinstance(message, User):
            said["model"] = message.model
        if used is not None:
            said["usage"] = {
                "input_tokens": used.input,
                "cache_read_input_tokens": used.cache_read,
                "cache_creation_input_tokens": used.cache_write,
                "output_tokens": used.output,
            }
        line = {
            "parentUuid": before or None,
            "isSidechain": False,
            "cwd": self._root,
            "sessionId": self._session,
            "type": role,
            "message": said,
            "uuid": self._last,
            "timestamp": datetime.now(UTC).isoformat(),
        }
        yield json.dumps(line).encode() + b"\n"


def _content(message: Message, root: str) -> str | list[dict[str, object]]:
    """The content of a message; a plain string if it contains only text. Text that the program added is omitted."""
    parts: list[dict[str, object]] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                parts.append({"type": "text", "text": text})
            case Image(media_type=kind):
                parts.append({"type": "text", "text": f"[image, {kind}]"})
            case ToolCall(id=id):
                view = views_of(part, root)[0]
                name, given = (view.name, view.input) if view.is_whole else (part.name, part.arguments)
                parts.append({"type": "tool_use", "id": id, "name": name, "input": dict(given)})
            case ToolOutput(call_id=id, text=text, status=status):
                parts.append({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": status != "done"})
            case _:
                pass
    if isinstance(message, User) and parts and all(part["type"] == "text" for part in parts):
        return "\n".join(str(part["text"]) for part in parts)
    return parts
