"""What the terminal asks of a session and of whoever opens sessions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from agent.archive.listing import ArchiveItem, ContentPage
    from agent.archive.tree import Tree
    from agent.config.options import Mode
    from agent.context.provenance import Trace
    from agent.events import Decision, Event
    from agent.mcp.status import ServerControl
    from agent.messages import Conversation, Image, Message, Note, User
    from agent.overview import Overview
    from agent.records.damage import Readable
    from agent.records.file_change import Changes, Scope
    from agent.records.session_lookup import SessionInfo
    from agent.view_events import BroughtBack
    from agent.window.env import Env


class HasConversation(Protocol):
    @property
    def conversation(self) -> "Conversation": ...


Changed = TypeVar("Changed", bound=HasConversation)


class CompactResult(Protocol):
    @property
    def strategies(self) -> tuple[str, ...]: ...
    @property
    def is_interrupted(self) -> bool: ...


class Shelf(Protocol):
    """What a session has kept, to look through. Methods raise `AgentError`."""

    async def entries(self, view: "Conversation") -> "Sequence[ArchiveItem]":
        """All of it, the newest first. `view`: what the model is shown."""
        ...

    async def page(self, ref: str, first: int, count: int) -> "ContentPage":
        """Lines of what a reference stands for."""
        ...

    async def line_of(self, ref: str, text: str) -> int:
        """The number of the line at which it holds a text; 1 when it holds none."""
        ...


class Files(Protocol):
    """Which files a session has changed."""

    async def changes(self, scope: "Scope") -> "Changes":
        """Each from what it held first to what it holds now. Raises `AgentError`."""
        ...


class Session(Protocol):
    """A conversation that goes on: text in, events out."""

    listener: "Callable[[Event], None] | None"
    """Is told at once what happens between two turns."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str:
        """`provider/name`."""
        ...

    @property
    def mode(self) -> str: ...
    async def change_mode(self, mode: "Mode") -> None:
        """What runs without a question from now on. Raises `AgentError`."""
        ...

    @property
    def title(self) -> str:
        """What was said first; empty before that."""
        ...

    @property
    def root(self) -> Path: ...
    @property
    def history(self) -> "Conversation": ...
    @property
    def files(self) -> Files:
        """Raises `AgentError` where nothing is kept."""
        ...

    @property
    def shelf(self) -> Shelf:
        """Raises `AgentError` where nothing is kept."""
        ...

    @property
    def cost(self) -> float | None:
        """US dollars spent so far, or None when the model's prices are not known."""
        ...

    @property
    def news(self) -> tuple[str, ...]:
        """What a session that goes on has to tell its user, a line each."""
        ...

    async def prepare(self) -> None:
        """Loads what the first turn needs."""
        ...

    def send(
        self,
        text: str,
        beside: "Sequence[Image | Note]" = (),
        *,
        pending_messages: "Callable[[], Sequence[User]]" = ...,
    ) -> "AsyncIterator[Event]":
        """`beside`: what comes with the text. `meanwhile` takes what is said while the turn runs; `Steered` tells that
        it was heard."""
        ...

    @property
    def is_at_question(self) -> bool:
        """Whether the session was left while the user was asked whether a call may run."""
        ...

    def go_on(self, pending_messages: "Callable[[], Sequence[User]]" = ...) -> "AsyncIterator[Event]":
        """The turn that was left at a question, which is asked again."""
        ...

    async def change(self, work: "Callable[[Conversation, Env], Awaitable[Changed]]") -> Changed:
        """What the work makes of the conversation. Raises `AgentError`, also while a turn runs."""
        ...

    def answer(self, question: str, answer: "Decision | str", /) -> None: ...
    def interrupt(self) -> None: ...
    def leave_turn(self) -> None:
        """As `interrupt`, but a question about a call stays open for when the session goes on."""
        ...

    async def compact(self, focus: str | None = None, hear: "Callable[[Event], None]" = ...) -> CompactResult:
        """`hear` is told what happens meanwhile."""
        ...

    async def why(self, text: str) -> "Trace":
        """What has become of each place where the text was said. Raises `AgentError`."""
        ...

    async def bring(self, ref: str, *, only_price: bool = False) -> "BroughtBack":
        """Shows the model again what a reference stands for; what there is to show of it. `only_price`: what there
        would be, and nothing changes. Raises `AgentError`."""
        ...

    @property
    def servers(self) -> "ServerControl | None":
        """What brings tools into the session; None where no server is declared."""
        ...

    async def close(self) -> None: ...


class Found(Protocol):
    """A session in which something was said."""

    @property
    def info(self) -> "SessionInfo": ...
    @property
    def excerpt(self) -> str: ...


class Library(Protocol):
    """The stored sessions. Methods raise `AgentError`."""

    async def page(
        self, *, everywhere: bool = False, words: str = "", after: "SessionInfo | None" = None
    ) -> "Sequence[SessionInfo]":
        """Those of this project, or of all, behind one in the list, the newest first. `words`: parts of the title."""
        ...

    async def search(
        self, words: str, *, everywhere: bool = False, told: Callable[[int, int], None] = ...
    ) -> "Sequence[Found]":
        """Those in which this was said, the best first. `told` takes how many messages of how many were read."""
        ...

    async def last_said(self, id: str, count: int, /) -> "Sequence[Message]": ...
    async def rename(self, id: str, title: str, /) -> object: ...
    async def fork(self, id: str, at: int | None = None, /, *, draft: bool = False) -> "SessionInfo":
        """A new session with the first messages of another, or with all. A `draft` goes when nobody uses it."""
        ...

    async def tree(self, id: str, /) -> "Tree":
        """The user's messages of a session and of all that were forked from each other with it."""
        ...

    async def delete(self, id: str, /) -> "SessionInfo": ...
    async def holds(self, id: str, /) -> bool:
        """Whether there is such a session."""
        ...


class Sessions(Protocol):
    """Opens sessions of one project. `open` raises `AgentError` with a sentence for the user."""

    async def open(
        self,
        resume: str | None = None,
        model: str | None = None,
        glimpse: "Callable[[Conversation], None] | None" = None,
    ) -> Session:
        """`glimpse` is given the end of a long session before all of it is read."""
        ...

    async def knows(self, word: str) -> bool:
        """Whether a word is meant as a session's id."""
        ...

    async def recent(self) -> "Sequence[SessionInfo]":
        """The newest of this project."""
        ...

    async def library(self) -> Library: ...
    async def earlier(self, prefix: str, position: int, limit: int, /) -> "Readable":
        """At most `limit` messages of a session, those just before a position, in order; one for each position, and
        what is wrong with some of them."""
        ...

    async def overview(self, prefix: str) -> "Overview":
        """What the context of a session holds and has cost."""
        ...

    def models(self) -> Sequence[str]: ...
    async def close(self) -> None: ...
