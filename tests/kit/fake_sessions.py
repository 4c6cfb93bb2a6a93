"""Sessions that say what a test tells them to."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ebbtide.agent.archive.library import Library, SessionMatch
from ebbtide.agent.archive.listing import ArchiveItem, ArchiveListing, ContentPage
from ebbtide.agent.archive.tree import SessionTree
from ebbtide.agent.calls.boundary import SessionBoundary
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.compaction.style_costs import StyleCost, StyleCosts
from ebbtide.agent.compose.sessions import OpeningKind, ProjectSessions
from ebbtide.agent.config.options import ContextStyle, PermissionMode
from ebbtide.agent.errors import AgentError, ReferenceFailed, UsageError
from ebbtide.agent.events.permissions import (
    Decision,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.plan import PlanAnswered, PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import ContextMeasured, Event, Steered, StepStarted, TurnFinished, TurnStarted
from ebbtide.agent.events.view import BroughtBack
from ebbtide.agent.hooks.session_hooks import EndReason, SessionHooks
from ebbtide.agent.integrations.mcp.running_servers import RunningServers
from ebbtide.agent.messages import Assistant, Conversation, Image, Message, Note, Text, Usage, User
from ebbtide.agent.records.damage import RestoredMessages
from ebbtide.agent.records.file_change import ChangeScope, FileChange, FileChanges
from ebbtide.agent.records.file_history import FileHistory
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.agent.records.turn_endings import TurnEnding
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.session import Session
from ebbtide.agent.view.provenance import Occurrence, Occurrences
from ebbtide.agent.window.overview import Epoch, Overview, ServerShare, TokenCount
from ebbtide.agent.window.session_context import CallContext, SubAgents
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools.outputs.recall_results import no_progress
from ebbtide.tools.sandbox.boundary import SandboxState


def session_info(id: str, title: str, **more: Any) -> SessionInfo:
    usual: dict[str, Any] = {"model": "scripted/demo", "updated_at": 0.0, "messages": 4, "project": "/home/me/project"}
    return SessionInfo(id, title, **{**usual, **more})


@dataclass
class FakeLibrary(Library):
    """Sessions in a list, with what was said in them."""

    infos: tuple[SessionInfo, ...] = ()
    said: Mapping[str, tuple[Message, ...]] = field(default_factory=dict)
    branches: SessionTree = SessionTree(())  # noqa: RUF009  # a frozen value
    done: list[tuple[object, ...]] = field(default_factory=list)

    async def page(
        self,
        *,
        in_all_projects: bool = False,
        query: str = "",
        after: SessionInfo | None = None,
        limit: int = 200,
        tags: tuple[str, ...] = (),
    ) -> tuple[SessionInfo, ...]:
        found = [info for info in self.infos if all(word in info.title.lower() for word in query.lower().split())]
        here = [info for info in found if in_all_projects or info.project == "/home/me/project"]
        start = here.index(after) + 1 if after is not None else 0
        return tuple(here[start : start + limit])

    async def search(self, query: str, *, in_all_projects: bool = False) -> tuple[tuple[SessionMatch, ...], str]:
        texts = {id: " ".join(message.text for message in messages) for id, messages in self.said.items()}
        here = [info for info in self.infos if in_all_projects or info.project == "/home/me/project"]
        return tuple(SessionMatch(info, texts[info.id]) for info in here if query in texts.get(info.id, "")), ""

    async def last_messages(self, id: str, count: int, /) -> tuple[Message, ...]:
        return self.said.get(id, ())[-count:]

    async def session_agents(self, *ids: str) -> tuple[SessionInfo, ...]:
        return tuple(agent for info in self.infos if info.id in ids for agent in info.agents)

    async def ancestry(self, id: str, /) -> dict[str, int]:
        return {id: 1 << 62}

    async def rename(self, id: str, title: str, /) -> SessionInfo:
        if not title.strip():
            raise UsageError("the title cannot be empty")
        self.done.append(("rename", id, title))
        self.infos = tuple(replace(info, title=title) if info.id == id else info for info in self.infos)
        return next(info for info in self.infos if info.id == id)

    async def change_tags(
        self, id: str, added: tuple[str, ...] = (), removed: tuple[str, ...] | None = (), /
    ) -> SessionInfo:
        self.done.append(("tag", id, added, removed))
        self.infos = tuple(replace(info, tags=added) if info.id == id else info for info in self.infos)
        return next(info for info in self.infos if info.id == id)

    async def fork(self, id: str, at: int | None = None, /, *, is_draft: bool = False) -> SessionInfo:
        self.done.append(("fork", id, at, is_draft))
        parent = next((info for info in self.infos if info.id == id), session_info(id, "a session"))
        fork = replace(parent, id=f"{id}f", title=f"{parent.title} (fork)", parent=id)
        self.infos = (fork, *self.infos)
        return fork

    async def has_session(self, id: str, /) -> bool:
        return any(info.id == id for info in self.infos)

    async def tree(self, id: str, /) -> SessionTree:
        return self.branches

    async def delete(self, id: str, /) -> SessionInfo:
        self.done.append(("delete", id))
        gone = next(info for info in self.infos if info.id == id)
        self.infos = tuple(info for info in self.infos if info.id != id)
        return gone


@dataclass(frozen=True)
class FakeShelf(ArchiveListing):
    """Things that were kept, and the lines of each by its reference."""

    kept: tuple[ArchiveItem, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    async def items(self, view: Conversation) -> tuple[ArchiveItem, ...]:
        return self.kept

    async def page(self, ref: str, first: int, count: int) -> ContentPage:
        if ref not in self.texts:
            raise ReferenceFailed(f"`{ref}` was removed on 2026-11-22 to save space: run the call again")
        lines = self.texts[ref].splitlines()
        first = max(1, min(first, len(lines) - count + 1))
        return ContentPage(tuple(lines[first - 1 : first - 1 + count]), first, len(lines))

    async def find_line(self, ref: str, text: str) -> int:
        before, found, _ = self.texts.get(ref, "").partition(text)
        return before.count("\n") + 1 if found else 1


@dataclass(frozen=True)
class FakeFiles(FileHistory):
    """Files that were changed."""

    changed: tuple[FileChange, ...] = ()
    told: tuple[str, ...] = ()

    async def changes(self, scope: ChangeScope) -> FileChanges:
        return FileChanges(scope, self.changed if scope == "session" else self.changed[:4], self.told)

    async def changes_by_tools(self) -> tuple[FileChange, ...]:
        return self.changed


class FakeCheckpoints(SessionCheckpoints):
    """No turn has changed a file."""

    def __init__(self) -> None: ...

    async def run(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return ()


class FakeBoundary(SessionBoundary):
    """Nothing is missing, and there are no further folders."""

    def __init__(self) -> None: ...

    def __repr__(self) -> str:
        return "FakeBoundary()"

    sandbox_state: SandboxState = "bubblewrap"
    added_folders: tuple[str, ...] = ()

    @property
    def sandbox_note(self) -> str:
        return ""

    def current_boundary(self) -> None:
        return None


@dataclass
class FakeSession(Session):
    """A turn is a list of events. A question among them waits for its answer, `Hold` waits until it is let go, `Hears`
    is where a step begins that hears what was said meanwhile."""

    turns: list[Sequence["Event | Hold | Hears"]] = field(default_factory=list)
    id: str = "abc123"
    model: str = "scripted/demo"
    mode: str = "ask"
    boundary: SessionBoundary = FakeBoundary()  # noqa: RUF009  # nothing of it changes
    title: str = ""
    working_folder: Path = Path("/home/me/project")
    history: Conversation = Conversation()  # noqa: RUF009  # frozen values
    cost: float | None = 0.0
    limits: TurnLimits = TurnLimits()  # noqa: RUF009  # as above
    archive_listing: FakeShelf = FakeShelf()
    file_history: FakeFiles = FakeFiles()
    checkpoints: FakeCheckpoints = FakeCheckpoints()  # noqa: RUF009  # it keeps nothing
    changes_while_closed: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    language_servers: Sequence[tuple[str, str]] = ()
    servers: RunningServers | None = None
    trust: None = None
    extensions: None = None
    hooks: SessionHooks | None = None
    agents: SubAgents | None = None
    style: ContextStyle = "balanced"
    calls: CallContext = None  # type: ignore[assignment]  # the changes that it is given do not run
    said: list[str] = field(default_factory=list)
    beside: list[Image | Note] = field(default_factory=list)
    """What came with them."""
    answers: dict[str, Decision | PlanDecision | str] = field(default_factory=dict)
    interrupted: int = 0
    closed: bool = False
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    places: tuple[Occurrence, ...] = ()
    unsearched: tuple[str, ...] = ()
    changes: list[object] = field(default_factory=list)
    _waiting: dict[str, asyncio.Event] = field(default_factory=dict)

    async def send(
        self,
        text: str,
        attachments: Sequence[Image | Note] = (),
        steps: int | None = None,
        pending_messages: Callable[[], Sequence[User]] = tuple,
    ) -> AsyncGenerator[Event, None]:
        self._stop.clear()
        self.said.append(text)
        self.beside += attachments
        yield TurnStarted(self.id, self.model, text)
        yield StepStarted(1)
        for event in self.turns.pop(0) if self.turns else (TurnFinished("answered", ""),):
            if isinstance(event, Hold):
                await self._first(event.event.wait(), self._stop.wait())
            elif isinstance(event, Hears):
                for said in pending_messages():
                    yield Steered(said.text)
            else:
                yield event
                if isinstance(event, PermissionAsked | PlanSubmitted | QuestionAsked):
                    await self._answered(event.id)
                    answer = self.answers.get(event.id)
                    if isinstance(answer, Decision):
                        yield PermissionAnswered(event.id, answer.verdict, answer.mode)
                    elif isinstance(answer, PlanDecision):
                        yield PlanAnswered(event.id, answer.verdict, answer.mode)
                    elif answer is not None:
                        yield QuestionAnswered(event.id, answer)
            if self._stop.is_set():
                yield TurnFinished("interrupted", "")
                return

    async def _answered(self, id: str) -> None:
        if id not in self.answers:
            self._waiting[id] = asyncio.Event()
            await self._first(self._waiting[id].wait(), self._stop.wait())

    async def _first(self, *waits: Awaitable[object]) -> None:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def answer(self, question: str, answer: Decision | PlanDecision | str) -> None:
        self.answers[question] = answer
        if question in self._waiting:
            self._waiting[question].set()

    async def change_mode(self, mode: PermissionMode) -> int:
        self.mode = mode
        return 0

    def set_style(self, style: ContextStyle | None) -> None:
        self.style = style or "balanced"

    def set_listener(self, listener: Callable[[Event], None]) -> None:
        """Nothing happens between two turns."""

    async def prepare(self) -> None:
        """Nothing needs to be loaded."""

    def interrupt(self) -> None:
        self.interrupted += 1
        self._stop.set()

    end_turn_for_exit = interrupt

    @property
    def has_open_question(self) -> bool:
        return False

    def resume_turn(self, pending_messages: Callable[[], Sequence[User]] = tuple) -> AsyncGenerator[Event, None]:
        return self.send("", pending_messages=pending_messages)

    async def change_conversation(self, *work: Any, **how: Any) -> Any:
        """What the test has ready, whatever the work is."""
        if not self.changes:
            raise AgentError("this session is only played: nothing can be changed in it")
        return self.changes.pop(0)

    async def trace_text(self, text: str) -> Occurrences:
        return Occurrences(self.places, self.unsearched)

    async def bring_back(self, ref: str, *, is_dry_run: bool = False) -> BroughtBack:
        if not is_dry_run:
            self.said.append(f"bring {ref}")
        return BroughtBack(ref, 1200, used=25_300, effective=180_000)

    async def close(self, reason: EndReason | None = "other") -> None:
        self.closed = True


@dataclass
class Hold:
    """Keeps a turn from going on until the test sets `event`."""

    event: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Hears:
    """A step begins, and hears what was said since the turn began."""


@dataclass
class FakeSessions(ProjectSessions):
    """Opens the sessions it was given, one after the other; then empty ones."""

    ready: list[FakeSession | AgentError] = field(default_factory=list)
    infos: tuple[SessionInfo, ...] = ()
    listing: FakeLibrary | None = None
    opened: list[tuple[str | None, str | None]] = field(default_factory=list)
    names: tuple[str, ...] = ("anthropic/claude", "openai/gpt", "scripted/demo")
    end: Conversation | None = None
    """What is shown of the next session before it is open."""
    said_before: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """All messages of sessions, also those that the model is not shown any more."""
    may_open: asyncio.Event | None = None
    """Keeps that session from being open until the test sets it."""
    root: Path = Path("/")

    def hide_secrets(self, conversation: Conversation) -> Conversation:
        return conversation

    async def open(
        self,
        id_prefix: str | None = None,
        model: str | None = None,
        on_preview: Callable[[Conversation], None] | None = None,
        *,
        opening_kind: OpeningKind = "first",
        new_id: str = "",
        on_progress: Callable[[int, int], None] = no_progress,
    ) -> FakeSession:
        self.opened.append((id_prefix, model))
        if self.end is not None and on_preview is not None:
            on_preview(self.end)
        if self.may_open is not None:
            await self.may_open.wait()
        session = (
            self.ready.pop(0) if self.ready else FakeSession(id=id_prefix or "new", model=model or "scripted/demo")
        )
        if isinstance(session, AgentError):
            raise session
        return session

    async def is_likely_session_id(self, word: str) -> bool:
        return any(info.id.startswith(word) for info in self.infos)

    async def recent_sessions(self, *, in_all_projects: bool = False, limit: int = 100) -> tuple[SessionInfo, ...]:
        return self.infos

    def instruction_files(self) -> tuple[Path, ...]:
        return ()

    async def messages_before(self, prefix: str, position: int, limit: int, /) -> RestoredMessages:
        return RestoredMessages(self.said_before.get(prefix, ())[:position][-limit:])

    async def turn_endings(self, session: str, /) -> tuple[TurnEnding, ...]:
        return ()

    async def open_library(self) -> FakeLibrary:
        self.listing = self.listing or FakeLibrary(self.infos)
        return self.listing

    async def overview(self, prefix: str, current: Conversation | None = None) -> Overview:
        return overview(prefix)

    async def style_costs(self, overview: Overview) -> StyleCosts:
        """A session that would have been a little cheaper, and much more expensive, in the other two styles."""
        estimates = (
            StyleCost("frugal", 1.97, 5_900_000, 7),
            StyleCost("balanced", 2.43, 6_180_000, 2),
            StyleCost("careful", 3.12, 7_400_000, 0),
        )
        return StyleCosts("balanced", "balanced", estimates, 190, 190)

    def available_models(self) -> tuple[str, ...]:
        return self.names

    async def close(self) -> None:
        pass


def overview(session: str) -> Overview:
    """A session with two rewrites and a few requests."""

    def asked(count: int, start: int, purpose: str = "step") -> tuple[RequestUsage, ...]:
        return tuple(
            RequestUsage(purpose, "anthropic/claude", Usage(40, start + 2_000 * n, 2_000, 350), 0.0312, 0.0)
            for n in range(count)
        )

    return Overview(
        session,
        "make the parser accept trailing commas",
        "anthropic/claude",
        (
            TokenCount("system", 2_400, "estimated"),
            TokenCount("instructions", 1_150, "estimated"),
            TokenCount("tools", 1_790, "estimated"),
            TokenCount("summary", 2_900, "estimated"),
            TokenCount("history", 61_300, "counted"),
        ),
        TokenCount("window", 200_000, "registry"),
        (TokenCount("output", 16_384, "reserve"), TokenCount("buffer", 8_192, "reserve")),
        175_424,
        (
            Epoch(asked(40, 16_000), Rewrite("full", ("mask",), 98_000, 61_000, 0.0, 0.0, 40)),
            Epoch(
                (*asked(25, 61_000), *asked(1, 110_000, "summary")),
                Rewrite("asked", ("summary",), 112_000, 21_000, 0.0421, 0.0, 66),
            ),
            Epoch(asked(12, 21_000)),
        ),
        servers=(ServerShare("mcp__forge", 3, 12, 640), ServerShare("mcp__monitoring_eu", 2, 2, 310)),
    )


def measured() -> ContextMeasured:
    return ContextMeasured(24_100, 200_000, 180_000)


def conversation(count: int) -> Conversation:
    """That many questions, each with an answer."""
    messages: list[User | Assistant] = []
    for number in range(count):
        messages.append(User((Text(f"question {number}: please look at the parser"),)))
        words = (
            "It **fails** because `parse` never sees the end.\n\n- first\n- second\n\n" + "More words about it. " * 5
        )
        messages.append(Assistant((Text(f"Answer {number}. {words}"),), "scripted/demo"))
    return Conversation(tuple(messages))


Until = Callable[[], bool]
