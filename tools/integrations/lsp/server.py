"""The lifecycle of one language server: started on demand, sent edits, queried, restarted after crashes, closed. Its
errors appear only as failed requests."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast

from ebbtide.tools.integrations.lsp.client import COLUMN_ENCODINGS, LanguageClient, LanguageServerError
from ebbtide.tools.integrations.lsp.diagnostics import Problem
from ebbtide.tools.integrations.lsp.documents import MAX_OPEN_FILES, Documents, OpenDocument
from ebbtide.tools.integrations.lsp.framing import MAX_MESSAGE_BYTES, FrameBuffer
from ebbtide.tools.integrations.lsp.spec import LANGUAGE_IDS, LanguageServerSpec
from ebbtide.tools.integrations.server_log import ServerLog
from ebbtide.tools.process.child import start_child

LanguageServerPhase: TypeAlias = Literal["idle", "starting", "ready", "failed"]

MAX_STARTS = 3
"""Maximum number of starts of a server that keeps exiting by itself."""
QUIET_S = 0.15
"""Seconds without a message after which pushed diagnostics count as complete."""
DIAGNOSTICS_TIMEOUT_S = 30.0
"""Seconds within which a server must report diagnostics. Callers usually stop waiting earlier."""
_SHUTDOWN_TIMEOUT_S = 0.5
_MAX_ATTEMPTS = 3
"""Maximum number of attempts at a request that the server cancels because of changes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EditedText:
    """A file's text before and after a change. None means that the file does not exist or cannot be sent to servers."""

    old_text: str | None
    new_text: str | None


@dataclass(slots=True)
class _QueuedRequest:
    work: Callable[[LanguageClient], Awaitable[object]]
    answer: asyncio.Future[object]


class LanguageServer:
    """A server, and the only task that communicates with it."""

    def __init__(self, spec: LanguageServerSpec, root: Path, log: Path) -> None:
        """`log`: the file for the server's error output."""
        self.spec = spec
        self.phase: LanguageServerPhase = "idle"
        self.detail = ""
        """Why the server failed; empty if it did not."""
        self.capabilities: Mapping[str, object] = {}
        self.documents = Documents(spec.name, root)
        self._root = root
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._pending_edits: dict[Path, EditedText] = {}
        self._requests: deque[_QueuedRequest] = deque()
        self._wake = asyncio.Event()
        self._state_changed = asyncio.Event()
        self._accepted_edit_count = self._processed_edit_count = 0
        """Number of edits accepted, and number of edits processed."""
        self._progress_tokens: set[str] = set()
        """Progress tokens of the server's current work."""
        self._is_quiescent = True
        self._pushes_diagnostics = False

    @property
    def column_encoding(self) -> str:
        """The encoding in which the server counts columns."""
        encoding = self.capabilities.get("positionEncoding")
        return encoding if isinstance(encoding, str) and encoding in COLUMN_ENCODINGS else "utf-16"

    # Requests from outside

    @property
    def has_pending_edits(self) -> bool:
        """Whether there are edits that the server has not processed yet."""
        return self._processed_edit_count < self._accepted_edit_count

    def queue_edits(self, edits: Mapping[Path, EditedText]) -> int:
        """Queue edits; return the number to pass to `wait_for_diagnostics`."""
        if self.phase == "failed":
            return self._accepted_edit_count
        for path, edited_text in edits.items():
            pending_text = self._pending_edits.get(path)
            self._pending_edits[path] = (
                edited_text if pending_text is None else EditedText(pending_text.old_text, edited_text.new_text)
            )
        self._accepted_edit_count += 1
        self._ensure_started()
        return self._accepted_edit_count

    async def wait_for_diagnostics(self, edit_number: int) -> bool:
        """Wait until the server has reported the diagnostics for these edits or has failed. Return whether it reported
        them."""
        while self._processed_edit_count < edit_number and self.phase != "failed":
            self._state_changed.clear()
            await self._state_changed.wait()
        return self._processed_edit_count >= edit_number

    async def run_with_client(self, work: Callable[[LanguageClient], Awaitable[T]]) -> T:
        """Run `work` with the server's client and return its result. Raises `LanguageServerError`."""
        self._ensure_started()
        if self.phase == "failed":
            raise LanguageServerError(self.detail)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._requests.append(_QueuedRequest(work, cast(asyncio.Future[object], answer)))
        self._wake.set()
        return await answer

    async def problems_of(
        self, files: Mapping[Path, str], client: LanguageClient
    ) -> Mapping[Path, tuple[Problem, ...]]:
        """Return all problems in the files. To be called from the `work` passed to `run_with_client`."""
        for path, text in files.items():
            await self._send_text(path, text, client)
        await self._wait_for_reports(tuple(files), client)
        return {path: self.documents.problems(path) for path in files}

    async def send_text(self, path: Path, text: str, client: LanguageClient) -> None:
        """Send the text of a file to the server. To be called from the `work` passed to `run_with_client`."""
        await self._send_text(path, text, client)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ensure_started(self) -> None:
        if self._task is None:
            self.phase = "starting"
            self._task = asyncio.create_task(self._run_until_failed(), name=f"language server {self.spec.name}")
        self._wake.set()

    # Lifecycle

    async def _run_until_failed(self) -> None:
        try:
            for attempt in range(MAX_STARTS):
                if attempt:
                    await self._wake.wait()  # restarted on demand
                    self.phase = "starting"
                reason = await self._run()
                self._reset(reason)
        finally:
            self.phase = "failed"
            self.detail = self.detail or "it was stopped"
            self._state_changed.set()
            self._fail_requests()

    def _reset(self, reason: str) -> None:
        """Reset the state after the server has ended. Edits not yet processed are dropped, because they may have caused
        the crash."""
        self.detail, self.phase = reason, "idle"
        self.documents = Documents(self.spec.name, self._root)
        self._pending_edits.clear()
        self._progress_tokens.clear()
        self._is_quiescent, self._pushes_diagnostics = True, False
        self._processed_edit_count = self._accepted_edit_count
        self._wake.clear()
        self._state_changed.set()
        self._fail_requests()

    def _fail_requests(self) -> None:
        while self._requests:
            answer = self._requests.popleft().answer
            if not answer.done():
                answer.set_exception(LanguageServerError(self.detail))

    async def _run(self) -> str:
        """Run the server until it ends; return why it ended."""
        log = ServerLog(self._log)
        try:
            child = await start_child(
                self.spec.build_launch(self._root), self._root, log, MAX_MESSAGE_BYTES, FrameBuffer()
            )
        except (OSError, ValueError) as error:
            log.close()
            return f"it cannot be started: {getattr(error, 'strerror', None) or error}"
        except asyncio.CancelledError:
            log.close()
            raise
        client = LanguageClient(child, self._root, self.spec.settings, self._on_notification)
        listen_task = asyncio.create_task(client.listen())
        queue_task = asyncio.create_task(self._process_queue(client))
        try:
            await asyncio.wait({listen_task, queue_task}, return_when=asyncio.FIRST_COMPLETED)
            if not listen_task.done():  # the listener may report the cause a moment later
                await asyncio.wait([listen_task], timeout=_SHUTDOWN_TIMEOUT_S)
            return listen_task.result() if listen_task.done() else queue_task.result()
        finally:
            queue_task.cancel()
            await asyncio.wait([queue_task])
            if not listen_task.done():
                await self._shut_down(client)
            listen_task.cancel()
            await asyncio.wait([listen_task])
            await child.end(_SHUTDOWN_TIMEOUT_S)
            log.close()

    async def _shut_down(self, client: LanguageClient) -> None:
        with suppress(LanguageServerError, TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT_S):
                await client.request("shutdown", None)
                client.notify("exit", None)

    async def _process_queue(self, client: LanguageClient) -> str:
        """Process edits and requests until the server fails; return why it failed."""
        try:
            async with asyncio.timeout(self.spec.startup_timeout):
                self.capabilities = await client.initialise(self.spec.initialization_options)
        except TimeoutError:
            return f"it was not ready within {self.spec.startup_timeout:g} s"
        except LanguageServerError as error:
            return f"it could not be set up: {error}"
        self.phase = "ready"
        while True:
            try:
                if self._pending_edits:
                    await self._process_edits(client)
                elif self._requests:
                    await _run_request(self._requests.popleft(), client)
                else:
                    self._wake.clear()
                    await self._wake.wait()
            except LanguageServerError as error:
                return str(error)

    # Edits

    async def _process_edits(self, client: LanguageClient) -> None:
        """Send the files as they were before the edits, then as they are after them. Problems that are reported only
        the second time are new."""
        edit_number = self._accepted_edit_count
        edits, self._pending_edits = self._pending_edits, {}
        documents = self.documents
        old_texts = {path: edit.old_text for path, edit in edits.items() if edit.old_text is not None}
        documents.collect_new_problems({})  # problems found independently of these edits
        without_baseline = {
            path: text
            for path, text in old_texts.items()
            if not documents.has_baseline(path)
            or path not in documents.open_documents
            or documents.open_documents[path].text != text
        }
        for path, text in without_baseline.items():
            await self._send_text(path, text, client)
        if await self._wait_for_reports(tuple(without_baseline), client):
            documents.set_baseline(
                (*without_baseline, *(path for path, edit in edits.items() if edit.old_text is None))
            )
        for path, edit in edits.items():
            await self._send_edit(path, edit, client)
        new_texts = {path: edit.new_text for path, edit in edits.items() if edit.new_text is not None}
        if await self._wait_for_reports(tuple(new_texts), client):
            documents.collect_new_problems({path: (old_texts.get(path, ""), text) for path, text in new_texts.items()})
        self._processed_edit_count = edit_number
        self._state_changed.set()

    async def _send_edit(self, path: Path, edited: EditedText, client: LanguageClient) -> None:
        uri = path.as_uri()
        if edited.new_text is None:
            if path in self.documents.open_documents:
                client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
            self.documents.remove(path)
        else:
            await self._send_text(path, edited.new_text, client)
            client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        kind = 3 if edited.new_text is None else 1 if edited.old_text is None else 2
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": kind}]})

    async def _send_text(self, path: Path, text: str, client: LanguageClient) -> None:
        """Send the text of a file. If too many files are open, close the one that was changed least recently."""
        opened = self.documents.open_documents
        uri = path.as_uri()
        document = opened.pop(path, None)
        if document is None:
            if len(opened) >= MAX_OPEN_FILES:
                oldest = next(iter(opened))
                client.notify("textDocument/didClose", {"textDocument": {"uri": oldest.as_uri()}})
                self.documents.remove(oldest)
            document = OpenDocument(text, 1)
            item = {"uri": uri, "languageId": LANGUAGE_IDS.get(path.suffix.lower(), ""), "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": item})
        elif document.text != text:
            document.text, document.version = text, document.version + 1
            identifier = {"uri": uri, "version": document.version}
            client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": text}]})
        opened[path] = document

    async def _wait_for_reports(self, paths: Sequence[Path], client: LanguageClient) -> bool:
        """Wait for the diagnostics of the current texts; return whether the server reported them all in time."""
        documents = [self.documents.open_documents[path] for path in paths if path in self.documents.open_documents]
        try:
            async with asyncio.timeout(DIAGNOSTICS_TIMEOUT_S):
                if self.capabilities.get("diagnosticProvider"):
                    await self._wait_until_quiet(0)
                    for path in paths:
                        await self._pull_diagnostics(path, client)
                else:
                    while any(document.reported_version < document.version for document in documents):
                        await self._wait_for_change()
                await self._wait_until_quiet(QUIET_S if self._pushes_diagnostics and documents else 0)
        except TimeoutError:
            return False
        return True

    async def _pull_diagnostics(self, path: Path, client: LanguageClient) -> None:
        """Request the diagnostics of a file. Raises `LanguageServerError` if the server has ended."""
        document = self.documents.open_documents.get(path)
        if document is None:
            return
        for _ in range(_MAX_ATTEMPTS):
            try:
                report = await client.request("textDocument/diagnostic", {"textDocument": {"uri": path.as_uri()}})
            except LanguageServerError:
                await asyncio.sleep(QUIET_S)  # the server cancelled it because of a change
            else:
                self.documents.store_pulled(path, document.version, report)
                return

    async def _wait_until_quiet(self, seconds: float) -> None:
        """Wait until the server reports no work in progress and has sent nothing for this many seconds."""
        while True:
            while self._progress_tokens or not self._is_quiescent:
                await self._wait_for_change()
            if not seconds:
                return
            try:
                async with asyncio.timeout(seconds):
                    await self._wait_for_change()
            except TimeoutError:
                if not self._progress_tokens and self._is_quiescent:
                    return

    async def _wait_for_change(self) -> None:
        self._state_changed.clear()
        await self._state_changed.wait()

    # Notifications

    def _on_notification(self, method: str, parameters: object) -> None:
        values = parameters if isinstance(parameters, dict) else {}
        match method:
            case "textDocument/publishDiagnostics":
                if self.documents.store_pushed(values) is None:
                    return
                self._pushes_diagnostics = True
            case "$/progress":
                value = values.get("value")
                kind = value.get("kind") if isinstance(value, dict) else None
                token = str(values.get("token"))[:200]
                if kind == "begin" and len(self._progress_tokens) < MAX_OPEN_FILES:
                    self._progress_tokens.add(token)
                elif kind == "end":
                    self._progress_tokens.discard(token)
            case "experimental/serverStatus":
                self._is_quiescent = values.get("quiescent") is not False
            case _:
                return
        self._state_changed.set()


async def _run_request(request: _QueuedRequest, client: LanguageClient) -> None:
    """Run the work that a caller is waiting for, unless the caller was cancelled."""
    if request.answer.done():
        return
    work_task = asyncio.ensure_future(request.work(client))
    request.answer.add_done_callback(lambda _: work_task.cancel())
    try:
        await asyncio.wait([work_task])
    finally:
        work_task.cancel()
        if not work_task.done() and not request.answer.done():
            request.answer.set_exception(LanguageServerError("it has ended in the meantime"))
    if work_task.cancelled() or request.answer.done():
        return
    error = work_task.exception()
    if error is None:
        request.answer.set_result(work_task.result())
    else:
        request.answer.set_exception(error)
