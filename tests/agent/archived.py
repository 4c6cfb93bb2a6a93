"""Sessions that keep what leaves their view, in a real database with real files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.archive.archive import Archive
from agent.archive.recall import SessionRecall, fetching
from agent.config.option_values import AfterTool
from agent.context.offload import Offloading
from agent.events import Event
from agent.messages import Assistant, ToolOutput, User
from agent.providers.wires.scripted import Scripted
from agent.records.recorder import Recorder
from agent.records.store_thread import StoreThread
from agent.session import Session
from store.blobs import Blobs
from store.sessions import SessionRow, SessionStore
from tests.agent.assembled import assembled
from tools.base import Tool, Workspace
from tools.catalog import builtin_tools
from tools.stored_outputs import KeptContent

ID, OTHER = "aa11bb22cc33", "aa11ffeeddcc"


class Home:
    """One database with its files, and a project."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "app"
        self.root.mkdir()
        self.outputs = folder / "outputs"
        self.blobs = Blobs(folder / "blobs")
        self.thread = StoreThread(lambda: SessionStore(folder / "sessions.db", blobs=self.blobs))

    async def open(self) -> "Home":
        self.store = await self.thread.open()
        return self

    def recorder(self, session: str = ID, project: str = "/home/me/app", *, is_new: bool = True) -> Recorder:
        return Recorder(self.thread, self.store, self.row(session, project), is_new=is_new)

    def row(self, session: str = ID, project: str = "/home/me/app") -> SessionRow:
        return SessionRow(session, project, "", "scripted/script", "ask", 1.0, 1.0)

    def archive(self, session: str = ID, project: str = "/home/me/app") -> Archive:
        return Archive(self.thread, self.store, session, project)

    async def found(self, ref: str) -> KeptContent:
        """What a reference stands for, as tools find it."""
        recall = SessionRecall(self.thread, self.store, self.archive(), ID, "/home/me/app", "all")
        return await fetching(recall)(ref, None)

    async def session(
        self,
        provider: Scripted,
        *extra: Tool,
        is_new: bool = True,
        keeps: bool = True,
        hooks: Sequence[AfterTool] = (),
        **offloading: Any,
    ) -> Session:
        """A session with the built-in tools and some more. `keeps`: whether it keeps what leaves the view."""
        return await assembled(
            provider,
            Workspace(self.root, self.outputs, kept=self.found, fetch=lambda ref, scope: self.found(ref)),
            self.thread,
            self.store,
            self.row(),
            is_new=is_new,
            keeps=keeps,
            tools=(*builtin_tools(), *extra),
            offloading=Offloading(**offloading),
            hooks=hooks,
        )


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


async def events_of(session: Session, text: str = "go") -> list[Event]:
    return [event async for event in session.send(text)]


def outputs_of(session: Session) -> list[ToolOutput]:
    return [output for message in session.history.messages if isinstance(message, User) for output in message.outputs]


async def said(home: Home, *messages: User | Assistant, session: str = ID, project: str = "/home/me/app") -> Recorder:
    recorder = home.recorder(session, project)
    for message in messages:
        await (recorder.said(message) if isinstance(message, User) else recorder.replied(message))
    return recorder
