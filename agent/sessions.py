"""The sessions of a project: open, find and inspect them. The only module that opens the store."""

import asyncio
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ebbtide.agent.archive.recall import SessionRecall, recall_of
from ebbtide.agent.calls.execute import SaveOpenFiles, no_open_editors
from ebbtide.agent.calls.policy import Rule
from ebbtide.agent.compose import Composer, SessionGrants
from ebbtide.agent.compose_project import telemetry_of
from ebbtide.agent.config.options import MODES
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.estimate import decode_estimator
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.errors import StoreFailed, UsageError
from ebbtide.agent.input.instruction_files import instruction_files
from ebbtide.agent.lsp.session_languages import SessionLanguages
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.factory import (
    LOCAL,
    fallbacks_of,
    known_model,
    known_models,
)
from ebbtide.agent.providers.learned_limits import window_in_force
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.providers.setup import find_endpoint
from ebbtide.agent.records.damage import ReadableMessages, readable
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_lookup import SessionInfo, find_session, info_of, is_session_id, project_of
from ebbtide.agent.records.session_reader import SessionLog
from ebbtide.agent.records.store_access import lock_session, open_store, outputs_folder, tidy
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.token_key import KEY_FILE, KEY_SIZE, token_key
from ebbtide.agent.session import Session
from ebbtide.agent.session_settings import (
    compacting_of,
    model_of,
    offered_tools,
    roots_of,
    system_text_going_on,
    tools_for,
)
from ebbtide.agent.window.deferral import Deferral, specs_of
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Tool
from ebbtide.tools.outputs.recalled import no_progress

if TYPE_CHECKING:  # types only: few runs use these
    from ebbtide.agent.archive.library import Library
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.overview import Overview, RequestSetup
    from ebbtide.agent.records.turn_endings import TurnEnding
    from ebbtide.agent.telemetry.export import Telemetry

ID_BYTES = 6
"""Bytes of a session's id, which has twice as many characters."""

GLIMPSE = 200
"""Messages of a long session that are shown at once."""

Opening: TypeAlias = Literal["first", "instead", "again"]
"""A session is opened first, in place of one that has messages, or again right after it was closed."""

READ_ONLY = "no session can be stored in `{}`: {}; use `--ephemeral` to start one that is not saved"


class Sessions:
    """Opens the sessions of one project. Keeps the store open until it is closed."""

    def __init__(
        self,
        config: Config,
        root: Path,
        environment: Mapping[str, str],
        *,
        interactive: bool,
        ephemeral: bool = False,
        extra_tools: Sequence[Tool] = (),
    ) -> None:
        """`root` is the working folder. `interactive`: the user is present to answer. `ephemeral`: nothing is stored.
        `extra_tools`: tools in addition to the built-in ones."""
        self.config = config
        """Configuration for sessions opened from now on."""
        self.root = root.resolve()
        self._project = project_of(config)
        self._environment = environment
        self._interactive = interactive
        self._ephemeral = ephemeral
        self._extra_tools = tuple(extra_tools)
        self._thread: StoreThread | None = None
        self._opened: SessionStore | None = None
        self._opening = asyncio.Lock()
        self._envs: dict[str, SessionContext] = {}
        """Contexts of the open sessions, by id."""
        kept = partial(token_key, config.folders.data / KEY_FILE)
        self._secrets = SecretTokens(environment, partial(secrets.token_bytes, KEY_SIZE) if ephemeral else kept)
        self._kept_here: dict[str, list[Rule]] = {}
        """Rules that the user allowed for a single session, by session id. They survive a change of model, not a
        restart."""
        self.roots: dict[str, list[Path]] = {}
        """Additional working folders, by session id, with the same lifetime."""
        self._telemetry: Telemetry | None = None
        self.save_open_files: SaveOpenFiles = no_open_editors
        """Saves unsaved files of an editor, for sessions opened from now on."""

    def use(self, config: Config, environment: Mapping[str, str]) -> None:
        """Use this configuration for sessions opened from now on."""
        self.config, self._environment = config, environment
        self._secrets.learn_all(environment)

    def check_key(self) -> None:
        """Raise `AuthFailed` if there is no key for the model of a new session, and `UsageError` if there is no
        model."""
        provider = model_of(self.config, "", self._environment).partition("/")[0]
        if provider not in LOCAL:
            find_endpoint(provider, self.config.provider(provider), self._environment)

    async def _store(self) -> tuple[StoreThread, SessionStore]:
        async with self._opening:
            if self._thread is None or self._opened is None:
                self._thread = StoreThread(lambda: open_store(self.config, ephemeral=self._ephemeral))
                self._opened = await self._thread.open()
                if self._opened.told and not self._interactive:
                    print(f"ebb: {self._opened.told}", file=sys.stderr)
                    self._opened.told = ""
            return self._thread, self._opened

    async def open(
        self,
        resume: str | None = None,
        model: str | None = None,
        glimpse: Callable[[Conversation], None] | None = None,
        *,
        opening: Opening = "first",
        new_id: str = "",
        progress: Callable[[int, int], None] = no_progress,
    ) -> Session:
        """Open a new session, or resume the one whose id begins with `resume`. `model` overrides the configured one,
        which overrides the session's own. `glimpse` is called with the end of a long session before all of it is read.
        `opening`: what was open before; `new_id`: id of a new session, if it is already known; `progress` is called
        with the number of messages read and in total. If cancelled, nothing stays open. Raises `AgentError`."""
        thread, store = await self._store()
        if store.is_read_only:
            raise StoreFailed(READ_ONLY.format(store.path, store.obstacle), "unreadable")
        row = await self._find(resume) if resume is not None else None
        if row is not None and glimpse is not None:
            end = await SessionLog(thread, store, row.id).newest(GLIMPSE)
            if end:
                glimpse(Conversation(end))
        chosen = model or model_of(self.config, row.model if row else "", self._environment)
        self._telemetry = self._telemetry or telemetry_of(self.config, self._environment)
        async with AsyncExitStack() as closing:
            composer = Composer(
                self.config,
                self.root,
                self._environment,
                thread,
                store,
                self._interactive,
                self._ephemeral,
                self._secrets,
                self._extra_tools,
                self.save_open_files,
                self._telemetry,
                progress,
            )
            connected = await composer.connect(chosen)
            closing.push_async_callback(connected.provider.close)
            source = _source(opening, is_new=row is None)
            row = row or self._new_row(chosen, new_id)
            if not self._ephemeral:
                closing.callback(lock_session(self.config, row.id).release)
            if new_id and await thread.run(store.session, new_id) is not None:
                raise UsageError(f"session `{new_id}` already exists; resume it with `-r`, or use another id")
            if row.draft:
                closing.push_async_callback((await self.library()).drop_unused, row.id)
            was_open = row.id in self._kept_here
            roots = self.roots.setdefault(row.id, list(roots_of(self.config)))
            allowed = SessionGrants(self._kept_here.setdefault(row.id, []), roots, was_open)
            closing.callback(self._envs.pop, row.id, None)
            session, env = await composer.assemble(row, chosen, connected, closing, allowed, source=source)
            self._envs[row.id] = env
            return session

    async def reopen(self, closed: Session, model: str) -> Session:
        """Reopen a session that was just closed, in the same mode and with another model. An empty session is not
        stored and starts over under the same id. Raises `AgentError`."""
        if closed.history.messages:
            opened = await self.open(closed.id, model, opening="again")
        else:
            opened = await self.open(None, model, new_id=closed.id)
        if opened.mode != closed.mode:
            await opened.change_mode(next(mode for mode in MODES if mode == closed.mode))
        return opened

    def _new_row(self, model: str, id: str = "") -> SessionRow:
        now = time.time()
        return SessionRow(
            id or secrets.token_hex(ID_BYTES), self._project, "", model, self.config.permission_mode, now, now
        )

    async def _find(self, prefix: str) -> SessionRow:
        """Return the only session whose id begins with `prefix`; for an empty prefix, the project's newest session."""
        thread, store = await self._store()
        return await thread.run(find_session, store, prefix, self._project)

    async def recent(self, *, everywhere: bool = False, limit: int = 100) -> tuple[SessionInfo, ...]:
        """Return the sessions of this project, or of all, newest first."""
        thread, store = await self._store()
        rows = await thread.run(store.recent, None if everywhere else self._project, limit)
        return tuple(info_of(row) for row in rows)

    def instruction_files(self) -> tuple[Path, ...]:
        """Return the instruction files of a new session."""
        folders = self.config.folders
        found = instruction_files(self.root, Path(self._project), folders.config, folders.home)
        return tuple(path for path in found if path.is_file())

    async def find(self, prefix: str) -> SessionInfo:
        """Return the only session whose id begins with `prefix`. Raises `UsageError`."""
        return info_of(await self._find(prefix))

    async def knows(self, word: str) -> bool:
        """Whether a word is meant as a session id: it has the length of one, or some session's id begins with it."""
        if len(word) == 2 * ID_BYTES or is_session_id(word):
            return True
        thread, store = await self._store()
        return bool(await thread.run(store.matching, word))

    async def log(self, prefix: str) -> ReadableMessages:
        """Return every message of a session, including those that compaction has removed from the view, and the
        problems found in them."""
        thread, store = await self._store()
        row = await self._find(prefix)
        return await thread.run(readable, await thread.run(store.messages, row.id))

    def visible(self, conversation: Conversation) -> Conversation:
        """Return the conversation as it is shown to people: with tokens in place of secrets, as its models see it."""
        return replace(conversation, messages=self._secrets.messages(conversation.messages))

    async def earlier(self, prefix: str, position: int, limit: int, /) -> ReadableMessages:
        """Return at most `limit` messages of a session, those just before `position`, in order; one for each position,
        and the problems found in them."""
        thread, store = await self._store()
        row = await self._find(prefix)
        rows = await thread.run(store.messages_before, row.id, position, limit)
        # This takes a while for many messages.
        return await thread.run(readable, rows, range(max(0, position - limit), position))

    async def turn_endings(self, session: str, /) -> "tuple[TurnEnding, ...]":
        """Return how the turns of a session ended, in order. Raises `StoreFailed`."""
        from ebbtide.agent.records.turn_endings import turn_endings  # noqa: PLC0415  # deferred: rarely used

        thread, store = await self._store()
        return await thread.run(turn_endings, store, session)

    async def overview(self, prefix: str, held: Conversation | None = None) -> "Overview":
        """Return the overview of a session's context and cost, without asking any provider. An empty prefix means the
        project's newest session. `held`: the conversation of an open session; it is not read again, because that would
        block the store. Raises `AgentError`."""
        from ebbtide.agent.overview import overview_of, request_setup  # noqa: PLC0415  # deferred: rarely used

        thread, store = await self._store()
        env = self._envs.get(prefix)
        # A session without messages can be open without being stored.
        row = await thread.run(store.session, prefix) if env is not None else await self._find(prefix)
        recorder = Recorder(thread, store, row or self._new_row(""))
        conversation = held or (await recorder.read() if row else Conversation())
        equipped = request_setup(env) if env else await self._request_setup(row.model if row else "", recorder.mark)
        asked, rewritten = await recorder.log.requests(), await recorder.log.rewrites()
        id, title = (row.id, row.title) if row else (prefix, "")
        # In a thread, because counting a long conversation takes a while.
        return await asyncio.to_thread(overview_of, id, title, conversation, equipped, asked, rewritten)

    async def _request_setup(self, model: str, sent: RequestMark | None) -> "RequestSetup":
        """Return the request setup of a session that is not open. Its last request shows the effect of flags and
        servers then."""
        from ebbtide.agent.overview import RequestSetup  # noqa: PLC0415  # deferred: as above

        thread, store = await self._store()
        facts, window = known_model(self.config, model)
        meter = Meter(decode_estimator(await thread.run(store.calibration, model)))
        begun = sent.window if sent is not None and sent.window is not None and sent.believed is None else window
        following = fallbacks_of(self.config, model)
        windows = (begun, *(target.window for target in following))
        config, mode = self.config, self.config.permission_mode
        there, is_led = self._interactive, facts.is_small
        text = system_text_going_on(config, self.root, model, mode, windows, sent, attended=there, is_led=is_led)
        window = window if sent is None else window_in_force(sent, window)
        languages = SessionLanguages(config, self.root, None)
        own = tools_for(compacting_of(config, window.effective), config, languages, extra=self._extra_tools)
        tools = specs_of(offered_tools(own, text.mode, attended=text.attended))
        deferral = Deferral(self.config.tool_deferral_threshold, spares=not self.config.tools_allowed)
        deferral.choose(tools, window.effective, meter.size_of_tool, lambda event: None, is_led=facts.is_small)
        begins_as_before = sent is None or sent.begins_with(text.instructions.text)
        return RequestSetup(facts, window, meter, text.instructions, tools, (), deferral, sent, begins_as_before)

    async def recall(self, prefix: str | None = None, *, everywhere: bool = False) -> SessionRecall:
        """Return what can be recalled from a session, or from the project if none is named; `everywhere`: from all
        projects. Raises `AgentError`."""
        thread, store = await self._store()
        row = await self._find(prefix) if prefix is not None else None
        session, project = (row.id, row.project) if row else ("", self._project)
        return recall_of(thread, store, session, project, everywhere, self.config.recall_embedding_model)

    async def library(self) -> "Library":
        """Return the library of stored sessions. Raises `AgentError`."""
        from ebbtide.agent.archive.library import Library  # noqa: PLC0415  # deferred: rarely used

        thread, store = await self._store()
        return Library(thread, store, self._project, self._hold_lock, self._update_title)

    @contextmanager
    def _hold_lock(self, session: str) -> Iterator[None]:
        lock = lock_session(self.config, session)
        try:
            yield
            shutil.rmtree(outputs_folder(self.config, session), ignore_errors=True)
            self._kept_here.pop(session, None)
        finally:
            lock.release()

    def _update_title(self, session: str, title: str) -> None:
        if session in self._envs:
            self._envs[session].recorder.set_title(title)

    def models(self) -> tuple[str, ...]:
        """Return the names of models to offer."""
        return known_models(self.config, self._environment)

    async def close(self) -> None:
        if self._telemetry is not None:
            await self._telemetry.close()
            self._telemetry = None
        if self._thread is not None and self._opened is not None:
            await tidy(self._thread, self._opened, self.config, ephemeral=self._ephemeral)
            await self._thread.close()
            self._thread = self._opened = None


def _source(opening: Opening, *, is_new: bool) -> "StartSource | None":
    """Return the session start source for hooks; None if they are not run."""
    if opening == "again":
        return None
    if not is_new:
        return "resume"
    return "startup" if opening == "first" else "clear"
