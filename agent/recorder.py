"""A session's memory: messages to rows and back. It alone knows how they are written down; it decides nothing.

Each step is three short transactions: what the user said; the reply with its calls, before the first of them runs; all
outputs with the snapshot. Whatever the moment at which the process dies, the session resumes.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ParamSpec, TypeVar, cast

from agent.errors import StoreFailed
from agent.events import ReplyFinished
from agent.messages import (
    Assistant,
    AssistantPart,
    Conversation,
    Image,
    Message,
    Note,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
    UserPart,
)
from store.errors import StoreError
from store.sessions import MessageRow, SessionRow, SessionStore, SnapshotRow, UsageRow

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPTED = (
    "interrupted: the program ended while this call was running, so it may have been done in part. "
    "Check before you do it again."
)


class StoreThread:
    """A session store in a thread of its own, which opened it."""

    def __init__(self, open_store: Callable[[], SessionStore]) -> None:
        self._open = open_store
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._store: SessionStore | None = None

    async def open(self) -> SessionStore:
        """Opens the store. Its methods are to be called through `run` only. Raises `StoreFailed`."""
        self._store = await self.run(self._open)
        return self._store

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the work, done in the store's thread. Raises `StoreFailed`."""
        loop = asyncio.get_running_loop()
        try:
            # Shielded: a cancelled caller must not leave half of a write behind its back.
            return await asyncio.shield(loop.run_in_executor(self._executor, lambda: work(*args, **kwargs)))
        except StoreError as error:
            raise StoreFailed(str(error), error.reason) from error

    async def close(self) -> None:
        if self._store is not None:
            await self.run(self._store.close)
            self._store = None
        self._executor.shutdown()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session has used so far."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """US dollars; None when the price of any request was not known."""

    def plus(self, usage: Usage, cost: float | None) -> "Spent":
        return Spent(self.usage + usage, None if cost is None or self.cost is None else self.cost + cost)


class Recorder:
    """Writes one session down as it happens."""

    def __init__(self, thread: StoreThread, store: SessionStore, row: SessionRow, *, is_new: bool = True) -> None:
        self._thread = thread
        self._store = store
        self._row = row
        self._is_new = is_new
        self._position = 0
        self._usage: list[UsageRow] = []

    @property
    def session(self) -> str:
        return self._row.id

    @property
    def title(self) -> str:
        return self._row.title

    async def load(self) -> tuple[Conversation, Spent]:
        """The conversation as the last snapshot shows it, with what was said since; calls that a dead process left
        open are answered as interrupted, here and on disk."""
        snapshot = await self._thread.run(self._store.snapshot, self.session)
        seen = decode_snapshot(snapshot.body) if snapshot else (0, Conversation())
        start, conversation = seen
        rows = await self._thread.run(self._store.messages, self.session, start)
        conversation = replace(conversation, messages=tuple(decode_message(row) for row in rows))
        self._position = rows[-1].position + 1 if rows else start
        spent = Spent()
        for row in await self._thread.run(self._store.usage, self.session):
            spent = spent.plus(Usage(row.input, row.cache_read, row.cache_write, row.output), row.cost)
        if conversation.unanswered:
            outputs = User(tuple(ToolOutput(c.id, INTERRUPTED, "interrupted") for c in conversation.unanswered))
            await self.said(outputs)
            conversation = conversation.plus(outputs)
        return conversation, spent

    async def said(self, message: User) -> None:
        """What the user said is on disk when this returns. The session is made with its first message."""
        if self._is_new:
            self._row = replace(self._row, title=title_of(message.text))
            await self._thread.run(self._store.create, self._row)
            self._is_new = False
        await self._write(self._rows(message))

    async def replied(self, reply: Assistant) -> None:
        """The reply and its calls are on disk when this returns; only then may a call run."""
        await self._write(self._rows(reply))

    def note(self, reply: ReplyFinished) -> None:
        """Keeps what a request took, to be written with whatever is written next."""
        usage = reply.usage
        self._usage.append(
            UsageRow(
                reply.model, reply.purpose, usage.input, usage.cache_read, usage.cache_write, usage.output, reply.cost
            )
        )

    async def snapshot(self, conversation: Conversation, outputs: User) -> None:
        """The outputs and the view that they complete are on disk when this returns."""
        rows = self._rows(outputs)
        shown = SnapshotRow(self._position, encode_snapshot(conversation, self._position))
        await self._write(rows, shown)

    async def end_turn(self, model: str, mode: str, learned: str | None = None) -> None:
        """Everything so far survives a loss of power; `learned` is what is known of the model's tokens."""
        if self._is_new:
            return
        if learned is not None:
            with suppress(StoreFailed):  # it will be learned again; no turn fails for it
                await self._thread.run(self._store.keep_calibration, model, learned)
        await self._write([])
        if (model, mode) != (self._row.model, self._row.mode):
            self._row = replace(self._row, model=model, mode=mode)
            await self._thread.run(self._store.update, self.session, title=self._row.title, model=model, mode=mode)
        await self._thread.run(self._store.end_turn, self.session)

    async def _write(self, rows: list[MessageRow], shown: SnapshotRow | None = None) -> None:
        usage = tuple(self._usage)
        if rows or usage or shown:
            await self._thread.run(self._store.write, self.session, rows, usage, shown)
            del self._usage[: len(usage)]

    def _rows(self, message: Message) -> list[MessageRow]:
        if not message.parts:
            return []
        row = encode_message(message, self._position)
        self._position += 1
        return [row]


def title_of(text: str) -> str:
    """The first line of what the user said, as the session's name: at most 80 characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= 80 else first[:79] + "…"


def encode_message(message: Message, position: int) -> MessageRow:
    body: dict[str, object] = {"parts": [_encode_part(part) for part in message.parts]}
    if isinstance(message, Assistant):
        body["model"] = message.model
    role = "user" if isinstance(message, User) else "assistant"
    return MessageRow(position, role, _as_json(body))


def decode_message(row: MessageRow) -> Message:
    """The message in a row. Raises `StoreFailed` when the row is not one."""
    try:
        body = json.loads(row.body)
        parts = tuple(_decode_part(part) for part in body["parts"])
        if row.role == "user":
            return User(cast(tuple[UserPart, ...], parts))
        return Assistant(cast(tuple[AssistantPart, ...], parts), body["model"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreFailed(f"message {row.position} of the session cannot be read: {error}", "corrupt") from error


_PARTS: dict[str, type[Text | Image | Note | Reasoning | Opaque | ToolCall | ToolOutput]] = {
    "text": Text,
    "image": Image,
    "note": Note,
    "reasoning": Reasoning,
    "opaque": Opaque,
    "call": ToolCall,
    "output": ToolOutput,
}
_KINDS = {kind: name for name, kind in _PARTS.items()}


def _encode_part(part: UserPart | AssistantPart) -> dict[str, object]:
    fields = {name: value for name, value in asdict(part).items() if value not in (None, "", ())}
    return {"type": _KINDS[type(part)], **fields}


def _decode_part(part: Mapping[str, Any]) -> UserPart | AssistantPart:
    fields = {name: value for name, value in part.items() if name != "type"}
    kind = _PARTS[part["type"]]
    if kind is ToolOutput:
        fields["images"] = tuple(Image(**image) for image in fields.get("images", ()))
    if kind in (Text, Note, Reasoning, ToolOutput):
        fields.setdefault("text", "")
    return kind(**fields)


def encode_snapshot(conversation: Conversation, position: int) -> str:
    """The view as JSON: it names the first message it still shows instead of repeating the messages."""
    body = {
        "start": position - len(conversation.messages),
        "summary": conversation.summary,
        "anchor": asdict(conversation.anchor) if conversation.anchor else None,
        "anchored": conversation.anchored,
    }
    return _as_json(body)


def _as_json(body: Mapping[str, object]) -> str:
    """JSON that a database takes: half a surrogate pair, as in an undecodable file name, is written as an escape."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":"))
    return text


def decode_snapshot(text: str) -> tuple[int, Conversation]:
    """The position of the first message shown, and the view without its messages. The start of the session, when the
    snapshot cannot be read: the full history is then shown again."""
    try:
        body = json.loads(text)
        anchor = Usage(**body["anchor"]) if body["anchor"] else None
        return int(body["start"]), Conversation((), str(body["summary"]), anchor, int(body["anchored"]))
    except (ValueError, KeyError, TypeError):
        return 0, Conversation()
