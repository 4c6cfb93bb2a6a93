"""Sessions written down as they are, to be looked up again."""

from dataclasses import replace
from pathlib import Path

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall
from ebbtide.agent.messages import Assistant, Conversation, Summary, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_scope import RecallScope

HERE, THERE, ELSEWHERE = "aaaa11112222", "bbbb11112222", "cccc11112222"
PROJECTS = {HERE: "/code/one", THERE: "/code/one", ELSEWHERE: "/code/two"}


class Sessions:
    """Three sessions, two of them of one project, in a real database."""

    def __init__(self, thread: StoreThread, store: SessionStore) -> None:
        self.thread = thread
        self.store = store
        self.views = dict.fromkeys(PROJECTS, Conversation())
        self._recorders = {
            id: Recorder(thread, store, SessionRow(id, project, "", "scripted/a", "ask", 1.0, 1.0))
            for id, project in PROJECTS.items()
        }

    async def says(self, text: str, session: str = HERE) -> None:
        message = User((Text(text),))
        await self._recorders[session].record_user_message(message)
        self.views[session] = self.views[session].plus(message)

    async def replies(self, text: str, session: str = HERE) -> None:
        message = Assistant((Text(text),), "scripted/a")
        await self._recorders[session].record_reply(message)
        self.views[session] = self.views[session].plus(message)

    async def runs(
        self, tool: str, output: str, session: str = HERE, whole: bytes | None = None, frame: str = "", **given: str
    ) -> None:
        """A step with one call; `whole`: all that it gave back, when that is more than the output; `frame`: what stands
        behind it."""
        number = len(self.views[session].messages)
        call = ToolCall(f"c{number}", tool, given, "")
        reply = Assistant((call,), "scripted/a")
        stored = None
        if whole is not None:
            stored = await self.archive(session).put([whole])
        outputs = User((ToolOutput(call.id, output, stored=stored, frame=frame),))
        await self._recorders[session].record_reply(reply)
        self.views[session] = self.views[session].plus(reply, outputs)
        await self._recorders[session].record_snapshot(self.views[session], outputs, None)

    async def compacts(self, summary: str, keep: int = 0, session: str = HERE) -> None:
        """The view becomes a summary and the newest messages."""
        view = self.views[session]
        cut = len(view.messages) - keep
        before = view.outputs_before + sum(
            len(message.outputs) for message in view.messages[:cut] if isinstance(message, User)
        )
        self.views[session] = replace(
            view, messages=view.messages[cut:], summary=Summary("", summary), outputs_before=before
        )
        await self._recorders[session].record_snapshot(self.views[session], User(()), None)

    def archive(self, session: str = HERE) -> Archive:
        return Archive(self.thread, self.store, session, PROJECTS[session])

    def recall(self, scope: RecallScope = "project", session: str = HERE, model: str | None = None) -> SessionRecall:
        archive = self.archive(session)
        return SessionRecall(self.thread, self.store, archive, session, PROJECTS[session], scope, embedding_model=model)


async def opened(folder: Path) -> Sessions:
    thread = StoreThread(lambda: SessionStore(folder / "sessions.db", blobs=BlobStore(folder / "blobs")))
    return Sessions(thread, await thread.open())
