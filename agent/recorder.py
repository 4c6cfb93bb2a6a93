"""A session's memory: messages to rows and back. It alone knows how they are written down; it decides nothing.

Each step is three short transactions: what the user said; the reply with its calls, before the first of them runs; all
outputs with the snapshot. Whatever the moment at which the process dies, the session resumes.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from agent.context.todos import TodoItem
from agent.errors import StoreFailed
from agent.events import ContextCompacted, Event, ReplyFinished
from agent.messages import (
    Assistant,
    AssistantPart,
    Conversation,
    Image,
    Message,
    Note,
    Opaque,
    Reasoning,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
    UserPart,
)
from agent.situation import Situation, as_left
from store.errors import StoreError
from store.sessions import FactRow, MessageRow, RewriteRow, SessionRow, SessionStore, SnapshotRow, UsageRow

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPTED = (
    "interrupted: the program ended while this call was running, so it may have been done in part. "
    "Check before you do it again."
)

UNREADABLE_SNAPSHOT = "the session's snapshot could not be read, so all of its messages are shown to the model again"


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


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as it was counted."""

    purpose: str
    model: str
    usage: Usage
    cost: float | None
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change of what earlier requests had already sent."""

    reason: str
    strategies: tuple[str, ...]
    before: int
    """Tokens."""
    after: int
    cost: float | None
    """US dollars that its summary took."""
    at: float
    requests: int
    """How many requests the session had made, those for the summary included."""


class Recorder:
    """Writes one session down as it happens."""

    def __init__(self, thread: StoreThread, store: SessionStore, row: SessionRow, *, is_new: bool = True) -> None:
        self._thread = thread
        self._store = store
        self._row = row
        self._is_new = is_new
        self._position = 0
        self._usage: list[UsageRow] = []
        self._rewrites: list[RewriteRow] = []
        self._summary_cost: float | None = 0.0
        self._situation = Situation()
        self._look: Callable[[], Situation] = Situation
        self._tell: Callable[[str], None] = self._keep_problem
        self._problems: list[str] = []

    @property
    def session(self) -> str:
        return self._row.id

    @property
    def title(self) -> str:
        return self._row.title

    @property
    def situation(self) -> Situation:
        """As it was last read or written."""
        return self._situation

    @property
    def problems(self) -> tuple[str, ...]:
        """What `load` could not read but did without, a sentence each."""
        return tuple(self._problems)

    def attend(self, look: Callable[[], Situation], tell: Callable[[str], None]) -> None:
        """From now on each snapshot keeps what `look` sees, and what fails without stopping anything is told."""
        self._look, self._tell = look, tell

    async def load(self) -> tuple[Conversation, Spent]:
        """The conversation as `read` gives it; calls that a dead process left open are answered as interrupted, here
        and on disk."""
        conversation = await self.read()
        self._situation = await self._last_situation()
        used = await self._thread.run(self._store.used, self.session)
        spent = Spent(Usage(used.input, used.cache_read, used.cache_write, used.output), used.cost)
        if conversation.unanswered:
            outputs = User(tuple(ToolOutput(c.id, INTERRUPTED, "interrupted") for c in conversation.unanswered))
            await self.said(outputs)
            conversation = conversation.plus(outputs)
        return conversation, spent

    async def read(self) -> Conversation:
        """The conversation as the last snapshot shows it, with what was said since. Without a snapshot that can be
        used it is everything that was said."""
        start, conversation = await self._view()
        rows = await self._thread.run(self._store.messages, self.session, start)
        messages = tuple(decode_message(row) for row in rows)
        if start and not await self._may_begin(start, messages):
            self._tell(UNREADABLE_SNAPSHOT)
            start, conversation = 0, Conversation()
            rows = await self._thread.run(self._store.messages, self.session)
            messages = tuple(decode_message(row) for row in rows)
        self._position = rows[-1].position + 1 if rows else start
        return replace(conversation, messages=messages)

    async def _may_begin(self, start: int, messages: Sequence[Message]) -> bool:
        """Whether a view may begin at a position: behind a message that is there, and not between calls and outputs."""
        before = await self._thread.run(self._store.messages_before, self.session, start, 1)
        is_behind_one = bool(before) and before[0].position == start - 1
        return is_behind_one and not (messages and _is_cut_inside_a_step(messages))

    async def requests(self) -> tuple[Asked, ...]:
        """What each request of the session took, oldest first."""
        rows = await self._thread.run(self._store.usage, self.session)
        return tuple(
            Asked(r.purpose, r.model, Usage(r.input, r.cache_read, r.cache_write, r.output), r.cost, r.created)
            for r in rows
        )

    async def rewrites(self) -> tuple[Rewrite, ...]:
        """Oldest first."""
        rows = await self._thread.run(self._store.rewrites, self.session)
        return tuple(
            Rewrite(r.reason, tuple(r.strategies.split()), r.before, r.after, r.cost, r.created, r.requests)
            for r in rows
        )

    async def _view(self) -> tuple[int, Conversation]:
        try:
            snapshot = await self._thread.run(self._store.snapshot, self.session)
        except StoreFailed as error:
            self._tell(f"{UNREADABLE_SNAPSHOT}: {error}")
            return 0, Conversation()
        decoded = decode_snapshot(snapshot.body) if snapshot else (0, Conversation())
        if decoded is None:
            self._tell(UNREADABLE_SNAPSHOT)
        return decoded or (0, Conversation())

    async def _last_situation(self) -> Situation:
        try:
            return decode_situation(await self._thread.run(self._store.situation, self.session))
        except StoreFailed as error:
            self._tell(f"files, list and background jobs of the session could not be restored: {error}")
            return Situation()

    def _keep_problem(self, text: str) -> None:
        self._problems.append(text)

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

    def note(self, event: Event) -> None:
        """Keeps what a request took and what a rewrite changed, to be written with whatever is written next."""
        match event:
            case ReplyFinished(model=model, purpose=purpose, usage=u, cost=cost):
                self._usage.append(
                    UsageRow(model, purpose, u.input, u.cache_read, u.cache_write, u.output, cost, time.time())
                )
                if purpose == "summary":
                    self._summary_cost = (
                        None if cost is None or self._summary_cost is None else self._summary_cost + cost
                    )
            case ContextCompacted(before_tokens=before, after_tokens=after, strategies=strategies, cause=cause) if (
                strategies
            ):
                row = RewriteRow(
                    self._position, cause, " ".join(strategies), before, after, self._summary_cost, time.time()
                )
                self._rewrites.append(row)
                self._summary_cost = 0.0
            case _:
                pass

    async def snapshot(self, conversation: Conversation, outputs: User) -> None:
        """The outputs and the view that they complete are on disk when this returns, with the situation. What cannot be
        written besides messages is done without: the session then resumes from an earlier view."""
        rows = self._rows(outputs)
        shown = SnapshotRow(self._position, encode_snapshot(conversation, self._position))
        seen = self._look()
        situation = replace(as_left(self._situation, conversation.messages), seen=seen.seen, jobs=seen.jobs)
        try:
            await self._write(rows, shown, situation)
        except StoreFailed as error:
            if error.reason != "unreadable":
                raise
            self._rewrites.clear()
            await self._write(rows)
            self._tell(f"the session's snapshot could not be written, so resuming it will take longer: {error}")

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

    async def _write(
        self, rows: list[MessageRow], shown: SnapshotRow | None = None, situation: Situation | None = None
    ) -> None:
        usage, rewrites = tuple(self._usage), tuple(self._rewrites)
        facts, over = changes_of(self._situation, situation or self._situation)
        if rows or usage or shown or rewrites or facts or over:
            await self._thread.run(self._store.write, self.session, rows, usage, shown, facts, over, rewrites)
            del self._usage[: len(usage)], self._rewrites[: len(rewrites)]
            self._situation = situation or self._situation

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
        "summary": _encode_summary(conversation.summary),
        "masked": sorted(conversation.masked),
        "outputs_before": conversation.outputs_before,
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


def decode_snapshot(text: str) -> tuple[int, Conversation] | None:
    """The position of the first message shown, and the view without its messages; None when it cannot be read."""
    try:
        body = json.loads(text)
        anchor = Usage(**body["anchor"]) if body["anchor"] else None
        masked = frozenset(str(id) for id in body.get("masked", ()))
        before = int(body.get("outputs_before", 0))
        shown = Conversation((), _decode_summary(body["summary"]), anchor, int(body["anchored"]), masked, before)
        start = int(body["start"])
        return (start, shown) if start >= 0 else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _encode_summary(summary: Summary) -> dict[str, object]:
    request = [_encode_part(part) for part in summary.request.parts]
    return {"retain": summary.retain, "summary": summary.summary, "ledger": summary.ledger, "request": request}


def _decode_summary(body: object) -> Summary:
    """The summary in a snapshot. Those of the first version were one text."""
    if isinstance(body, str):
        return Summary(summary=body)
    fields = cast(Mapping[str, Any], body)
    request = User(cast(tuple[UserPart, ...], tuple(_decode_part(part) for part in fields["request"])))
    return Summary(str(fields["retain"]), str(fields["summary"]), str(fields["ledger"]), request)


def changes_of(before: Situation, after: Situation) -> tuple[tuple[FactRow, ...], tuple[tuple[str, str], ...]]:
    """The rows that make one situation another, and kind and key of those that go."""
    if before == after:
        return (), ()
    facts = [
        FactRow("seen", str(path), digest) for path, digest in after.seen.items() if before.seen.get(path) != digest
    ]
    facts += [FactRow("job", id, command) for id, command in after.jobs.items() if before.jobs.get(id) != command]
    if after.todos != before.todos:
        items = [[item.text, item.status] for item in after.todos]
        facts.append(FactRow("todos", "", json.dumps(items, ensure_ascii=False)))
    if after.notes != before.notes:
        facts.append(FactRow("notes", "", json.dumps(after.notes)))
    over = [("seen", str(path)) for path in before.seen.keys() - after.seen.keys()]
    over += [("job", id) for id in before.jobs.keys() - after.jobs.keys()]
    return tuple(facts), tuple(over)


def decode_situation(rows: Iterable[FactRow]) -> Situation:
    """The situation that the rows tell of; what cannot be read is left out."""
    todos: tuple[TodoItem, ...] = ()
    notes = ""
    seen: dict[Path, str] = {}
    jobs: dict[str, str] = {}
    for row in rows:
        with suppress(ValueError, TypeError):
            match row.kind:
                case "seen":
                    seen[Path(row.key)] = row.body
                case "job":
                    jobs[row.key] = row.body
                case "todos":
                    todos = tuple(TodoItem(str(text), str(status)) for text, status in json.loads(row.body))
                case "notes":
                    notes = str(json.loads(row.body))
                case _:
                    pass  # a later version's
    return Situation(todos, notes, seen, jobs)


def _is_cut_inside_a_step(messages: Sequence[Message]) -> bool:
    """Whether the first message answers calls that are not among the messages."""
    first = messages[0]
    return isinstance(first, User) and bool(first.outputs)
