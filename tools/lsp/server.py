"""The lifecycle of one language server: started on demand, fed with edits, queried, restarted after crashes, closed.
Errors surface only as failures of requests."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast

from ebbtide.tools.lsp.client import ENCODINGS, LanguageClient, LanguageServerError
from ebbtide.tools.lsp.diagnostics import Problem
from ebbtide.tools.lsp.documents import MAX_OPEN, Documents, OpenDocument
from ebbtide.tools.lsp.framing import MAX_MESSAGE_BYTES, FrameBuffer
from ebbtide.tools.lsp.spec import LANGUAGES, LanguageServerSpec
from ebbtide.tools.process.child import start_child
from ebbtide.tools.server_log import ServerLog

LanguageServerPhase: TypeAlias = Literal["idle", "starting", "ready", "failed"]

MAX_STARTS = 3
"""Maximum number of starts of a server that exits by itself."""
QUIET_S = 0.15
"""Seconds without messages after which pushed diagnostics count as complete."""
DIAGNOSTICS_TIMEOUT_S = 30.0
"""Seconds for a server to report diagnostics. Callers wait for a shorter time."""
_SHUTDOWN_TIMEOUT_S = 0.5
_MAX_RETRIES = 3
"""Maximum number of retries of a request that the server cancelled because of changes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EditedText:
    """A file before and after a change, or None if it does not exist or servers cannot read it."""

    before: str | None
    after: str | None


@dataclass(slots=True)
class _Question:
    work: Callable[[LanguageClient], Awaitable[object]]
    answer: asyncio.Future[object]


class LanguageServer:
    """A server, and the single task that communicates with it."""

    def __init__(self, spec: LanguageServerSpec, root: Path, log: Path) -> None:
        """`log`: the file for its error output."""
        self.spec = spec
        self.phase: LanguageServerPhase = "idle"
        self.detail = ""
        """Why it failed."""
        self.capabilities: Mapping[str, object] = {}
        self.documents = Documents(spec.name, root)
        self._root = root
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._edits: dict[Path, EditedText] = {}
        self._questions: deque[_Question] = deque()
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._taken = self._done = 0
        """Number of edits accepted, and number of them processed."""
        self._at_work: set[str] = set()
        """Progress tokens of its current work."""
        self._is_quiet = True
        self._pushes = False

    @property
    def encoding(self) -> str:
        """The encoding in which it counts columns."""
        named = self.capabilities.get("positionEncoding")
        return named if isinstance(named, str) and named in ENCODINGS else "utf-16"

    # Requests from outside.

    @property
    def is_behind(self) -> bool:
        """Whether it has not processed all edits yet."""
        return self._done < self._taken

    def edit(self, edits: Mapping[Path, EditedText]) -> int:
        """Accept edits, and return the number to pass to `wait_for_diagnostics`."""
        if self.phase == "failed":
            return self._taken
        for path, edited in edits.items():
            earlier = self._edits.get(path)
            self._edits[path] = edited if earlier is None else EditedText(earlier.before, edited.after)
        self._taken += 1
        self._begin()
        return self._taken

    async def wait_for_diagnostics(self, number: int) -> bool:
        """Wait until the server has reported the diagnostics of these edits or has failed, and return whether it has
        reported them."""
        while self._done < number and self.phase != "failed":
            self._news.clear()
            await self._news.wait()
        return self._done >= number

    async def ask(self, work: Callable[[LanguageClient], Awaitable[T]]) -> T:
        """Return the result of the work with the server's client. Raises `LanguageServerError`."""
        self._begin()
        if self.phase == "failed":
            raise LanguageServerError(self.detail)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._questions.append(_Question(work, cast(asyncio.Future[object], answer)))
        self._wake.set()
        return await answer

    async def problems_of(
        self, files: Mapping[Path, str], client: LanguageClient
    ) -> Mapping[Path, tuple[Problem, ...]]:
        """Return all problems of files, as work for `ask`."""
        for path, text in files.items():
            await self._show(path, text, client)
        await self._settle(tuple(files), client)
        return {path: self.documents.problems(path) for path in files}

    async def show(self, path: Path, text: str, client: LanguageClient) -> None:
        """Send the text of a file to the server, as work for `ask`."""
        await self._show(path, text, client)

    async def close(self) -> None:
        """Close the server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        if self._task is None:
            self.phase = "starting"
            self._task = asyncio.create_task(self._live(), name=f"language server {self.spec.name}")
        self._wake.set()

    # Lifecycle.

    async def _live(self) -> None:
        try:
            for attempt in range(MAX_STARTS):
                if attempt:
                    await self._wake.wait()  # restarted on demand
                    self.phase = "starting"
                why = await self._run()
                self._break(why)
        finally:
            self.phase = "failed"
            self.detail = self.detail or "it was ended"
            self._news.set()
            self._drop_questions()

    def _break(self, why: str) -> None:
        """Reset after the server has ended. Pending edits are dropped, since they may have caused the crash."""
        self.detail, self.phase = why, "idle"
        self.documents = Documents(self.spec.name, self._root)
        self._edits.clear()
        self._at_work.clear()
        self._is_quiet, self._pushes, self._done = True, False, self._taken
        self._wake.clear()
        self._news.set()
        self._drop_questions()

    def _drop_questions(self) -> None:
        while self._questions:
            answer = self._questions.popleft().answer
            if not answer.done():
                answer.set_exception(LanguageServerError(self.detail))

    async def _run(self) -> str:
        """Run the server until it ends, and return why it did."""
        log = ServerLog(self._log)
        try:
            child = await start_child(self.spec.launch(self._root), self._root, log, MAX_MESSAGE_BYTES, FrameBuffer())
        except (OSError, ValueError) as error:
            log.close()
            return f"it cannot be started: {getattr(error, 'strerror', None) or error}"
        except asyncio.CancelledError:
            log.close()
            raise
        client = LanguageClient(child, self._root, self.spec.settings, self._on_notification)
        listening = asyncio.create_task(client.listen())
        working = asyncio.create_task(self._work(client))
        try:
            await asyncio.wait({listening, working}, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():  # the first failure may only be that it accepts no more input
                await asyncio.wait([listening], timeout=_SHUTDOWN_TIMEOUT_S)
            return listening.result() if listening.done() else working.result()
        finally:
            working.cancel()
            await asyncio.wait([working])
            if not listening.done():
                await self._shut_down(client)
            listening.cancel()
            await asyncio.wait([listening])
            await child.end(_SHUTDOWN_TIMEOUT_S)
            log.close()

    async def _shut_down(self, client: LanguageClient) -> None:
        with suppress(LanguageServerError, TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT_S):
                await client.ask("shutdown", None)
                client.notify("exit", None)

    async def _work(self, client: LanguageClient) -> str:
        """Process edits and requests until it fails, and return why."""
        try:
            async with asyncio.timeout(self.spec.startup_timeout):
                self.capabilities = await client.initialise(self.spec.options)
        except TimeoutError:
            return f"it was not ready within {self.spec.startup_timeout:g} s"
        except LanguageServerError as error:
            return f"it could not be set up: {error}"
        self.phase = "ready"
        while True:
            try:
                if self._edits:
                    await self._look_at_edits(client)
                elif self._questions:
                    await _answer(self._questions.popleft(), client)
                else:
                    self._wake.clear()
                    await self._wake.wait()
            except LanguageServerError as error:
                return str(error)

    # Edits.

    async def _look_at_edits(self, client: LanguageClient) -> None:
        """Send the files before and after the edits. Problems reported only for the latter are new."""
        number, edits, self._edits = self._taken, self._edits, {}
        documents = self.documents
        before = {path: one.before for path, one in edits.items() if one.before is not None}
        documents.compare({})  # problems it has found by itself meanwhile
        unknown = {
            path: text
            for path, text in before.items()
            if not documents.is_known(path) or path not in documents.open or documents.open[path].text != text
        }
        for path, text in unknown.items():
            await self._show(path, text, client)
        if await self._settle(tuple(unknown), client):
            documents.set_baseline((*unknown, *(path for path, one in edits.items() if one.before is None)))
        for path, one in edits.items():
            await self._update(path, one, client)
        there = {path: one.after for path, one in edits.items() if one.after is not None}
        if await self._settle(tuple(there), client):
            documents.compare({path: (before.get(path, ""), text) for path, text in there.items()})
        self._done = number
        self._news.set()

    async def _update(self, path: Path, edited: EditedText, client: LanguageClient) -> None:
        uri = path.as_uri()
        if edited.after is None:
            if path in self.documents.open:
                client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
            self.documents.forget(path)
        else:
            await self._show(path, edited.after, client)
            client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        kind = 3 if edited.after is None else 1 if edited.before is None else 2
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": kind}]})

    async def _show(self, path: Path, text: str, client: LanguageClient) -> None:
        """Send the text of a file. If too many files are open, the least recently changed one is closed."""
        opened, uri = self.documents.open, path.as_uri()
        document = opened.pop(path, None)
        if document is None:
            if len(opened) >= MAX_OPEN:
                oldest = next(iter(opened))
                client.notify("textDocument/didClose", {"textDocument": {"uri": oldest.as_uri()}})
                self.documents.forget(oldest)
            document = OpenDocument(text, 1)
            item = {"uri": uri, "languageId": LANGUAGES.get(path.suffix.lower(), ""), "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": item})
        elif document.text != text:
            document.text, document.version = text, document.version + 1
            meant = {"uri": uri, "version": document.version}
            client.notify("textDocument/didChange", {"textDocument": meant, "contentChanges": [{"text": text}]})
        opened[path] = document

    async def _settle(self, paths: Sequence[Path], client: LanguageClient) -> bool:
        """Whether the server reported all diagnostics of the current texts in time."""
        documents = [self.documents.open[path] for path in paths if path in self.documents.open]
        try:
            async with asyncio.timeout(DIAGNOSTICS_TIMEOUT_S):
                if self.capabilities.get("diagnosticProvider"):
                    await self._quiet(0)
                    for path in paths:
                        await self._pull(path, client)
                else:
                    while any(one.reported_version < one.version for one in documents):
                        await self._next_news()
                await self._quiet(QUIET_S if self._pushes and documents else 0)
        except TimeoutError:
            return False
        return True

    async def _pull(self, path: Path, client: LanguageClient) -> None:
        """Request the diagnostics of a file. Raises `LanguageServerError` if the server has ended."""
        document = self.documents.open.get(path)
        if document is None:
            return
        for _ in range(_MAX_RETRIES):
            try:
                report = await client.ask("textDocument/diagnostic", {"textDocument": {"uri": path.as_uri()}})
            except LanguageServerError:
                await asyncio.sleep(QUIET_S)  # it asked for a refresh meanwhile
            else:
                self.documents.pull(path, document.version, report)
                return

    async def _quiet(self, seconds: float) -> None:
        """Wait until the server reports no work in progress, and has been silent for this many seconds."""
        while True:
            while self._at_work or not self._is_quiet:
                await self._next_news()
            if not seconds:
                return
            try:
                async with asyncio.timeout(seconds):
                    await self._next_news()
            except TimeoutError:
                if not self._at_work and self._is_quiet:
                    return

    async def _next_news(self) -> None:
        self._news.clear()
        await self._news.wait()

    # Notifications.

    def _on_notification(self, method: str, parameters: object) -> None:
        told = parameters if isinstance(parameters, dict) else {}
        match method:
            case "textDocument/publishDiagnostics":
                if self.documents.push(told) is None:
                    return
                self._pushes = True
            case "$/progress":
                value = told.get("value")
                kind = value.get("kind") if isinstance(value, dict) else None
                token = str(told.get("token"))[:200]
                if kind == "begin" and len(self._at_work) < MAX_OPEN:
                    self._at_work.add(token)
                elif kind == "end":
                    self._at_work.discard(token)
            case "experimental/serverStatus":
                self._is_quiet = told.get("quiescent") is not False
            case _:
                return
        self._news.set()


async def _answer(question: _Question, client: LanguageClient) -> None:
    """Run work for a waiting caller, unless it was cancelled."""
    if question.answer.done():
        return
    working = asyncio.ensure_future(question.work(client))
    question.answer.add_done_callback(lambda _: working.cancel())
    try:
        await asyncio.wait([working])
    finally:
        working.cancel()
        if not working.done() and not question.answer.done():
            question.answer.set_exception(LanguageServerError("it has ended meanwhile"))
    if working.cancelled() or question.answer.done():
        return
    error = working.exception()
    if error is None:
        question.answer.set_result(working.result())
    else:
        question.answer.set_exception(error)
