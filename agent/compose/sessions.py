"""The sessions of a project: opening, finding and inspecting them. The only module that opens the store."""

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

from ebbtide.agent import archive, records
from ebbtide.agent.archive.recall import SessionRecall, create_user_recall
from ebbtide.agent.calls.execute import SaveOpenFiles, no_open_editors
from ebbtide.agent.calls.policy import Rule
from ebbtide.agent.channel import EventSink
from ebbtide.agent.compose.composer import Composer
from ebbtide.agent.compose.optional_parts import open_event_sinks
from ebbtide.agent.compose.session_parts import ProjectSetup, SessionGrants
from ebbtide.agent.compose.settings import additional_folders, choose_model
from ebbtide.agent.config.options import PERMISSION_MODES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed, UsageError
from ebbtide.agent.input.instruction_files import find_instruction_files
from ebbtide.agent.messages import Conversation
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.factory import (
    LOCAL_PROVIDERS,
    list_available_models,
)
from ebbtide.agent.providers.setup import find_endpoint
from ebbtide.agent.records.damage import RestoredMessages, restore_messages
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_log import SessionLog
from ebbtide.agent.records.session_lookup import SessionInfo, find_session, is_session_id, project_name, session_info
from ebbtide.agent.records.store_access import clean_up, lock_session, open_store, outputs_folder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.token_key import KEY_BYTES, KEY_FILE, load_or_create_token_key
from ebbtide.agent.session import Session
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Tool
from ebbtide.tools.outputs.recall_results import no_progress

if TYPE_CHECKING:  # types only: few runs use these
    from ebbtide.agent.archive.library import Library
    from ebbtide.agent.compaction.style_costs import StyleCosts
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.records.turn_endings import TurnEnding
    from ebbtide.agent.window.overview import Overview

ID_BYTES = 6
"""Number of random bytes in a session id, which is written as twice as many hexadecimal digits."""

MAX_PREVIEW_MESSAGES = 200
"""Maximum number of messages shown of a long session while the rest is still being read."""

OpeningKind: TypeAlias = Literal["first", "replacement", "reopened"]
"""How a session is opened: as the first one (`first`), to replace a session that has messages (`replacement`), or right
after it was closed (`reopened`)."""

READ_ONLY_ERROR = "no session can be stored in `{}`: {}; use `--ephemeral` to start one that is not saved"


class ProjectSessions:
    """Opens the sessions of one project. The store stays open until `close` is called."""

    def __init__(
        self,
        config: Config,
        root: Path,
        environment: Mapping[str, str],
        *,
        is_interactive: bool,
        is_ephemeral: bool = False,
        extra_tools: Sequence[Tool] = (),
    ) -> None:
        """`root` is the working folder. `is_interactive`: a user is present to answer. `is_ephemeral`: nothing is
        stored. `extra_tools`: tools in addition to the built-in ones."""
        self.config = config
        """Configuration for sessions opened from now on."""
        self.root = root.resolve()
        self._project = project_name(config)
        self._environment = environment
        self._is_interactive = is_interactive
        self._is_ephemeral = is_ephemeral
        self._extra_tools = tuple(extra_tools)
        self._store_thread: StoreThread | None = None
        self._session_store: SessionStore | None = None
        self._store_lock = asyncio.Lock()
        self._contexts: dict[str, SessionContext] = {}
        """Contexts of the open sessions, by id."""
        stored_key = partial(load_or_create_token_key, config.folders.data / KEY_FILE)
        self._secret_tokens = SecretTokens(
            environment, partial(secrets.token_bytes, KEY_BYTES) if is_ephemeral else stored_key
        )
        self._session_rules: dict[str, list[Rule]] = {}
        """Rules that the user allowed for one session only, by session id. They survive a change of model, but not a
        restart."""
        self.added_folders: dict[str, list[Path]] = {}
        """Additional working folders, by session id. They survive a change of model, but not a restart."""
        self._sinks: tuple[EventSink, ...] | None = None
        self.save_open_files: SaveOpenFiles = no_open_editors
        """Saves an editor's unsaved files. Used for sessions opened from now on."""

    def set_config(self, config: Config, environment: Mapping[str, str]) -> None:
        """Use this configuration for sessions opened from now on."""
        self.config, self._environment = config, environment
        self._secret_tokens.learn_environment(environment)

    def check_api_key(self) -> None:
        """Raise `AuthFailed` if there is no key for the model of a new session, and `UsageError` if there is no
        model."""
        provider = choose_model(self.config, "", self._environment).partition("/")[0]
        if provider not in LOCAL_PROVIDERS:
            find_endpoint(provider, self.config.provider_config(provider), self._environment)

    async def _open_store(self) -> tuple[StoreThread, SessionStore]:
        async with self._store_lock:
            if self._store_thread is None or self._session_store is None:
                self._store_thread = StoreThread(lambda: open_store(self.config, is_ephemeral=self._is_ephemeral))
                self._session_store = await self._store_thread.open()
                if self._session_store.notice and not self._is_interactive:
                    print(f"ebb: {self._session_store.notice}", file=sys.stderr)
                    self._session_store.notice = ""
            return self._store_thread, self._session_store

    async def open(
        self,
        id_prefix: str | None = None,
        model: str | None = None,
        on_preview: Callable[[Conversation], None] | None = None,
        *,
        opening_kind: OpeningKind = "first",
        new_id: str = "",
        on_progress: Callable[[int, int], None] = no_progress,
    ) -> Session:
        """Open a new session, or resume the session whose id begins with `id_prefix`. `model`: the model to use, if not
        the one that `model_of` returns. `on_preview`: called with the end of a long session before the rest is read.
        `opening_kind`: how the session is opened. `new_id`: id of the new session, if one was chosen. `on_progress`:
        called with the number of messages read so far and in total. If the call is cancelled, nothing stays open.
        Raises `AgentError`."""
        thread, store = await self._open_store()
        if store.is_read_only:
            raise StoreFailed(READ_ONLY_ERROR.format(store.path, store.read_only_reason), "unreadable")
        row = await self._find_row(id_prefix) if id_prefix is not None else None
        if row is not None and on_preview is not None:
            last_messages = await SessionLog(thread, store, row.id).newest_messages(MAX_PREVIEW_MESSAGES)
            if last_messages:
                on_preview(Conversation(last_messages))
        chosen_model = model or choose_model(self.config, row.model if row else "", self._environment)
        if self._sinks is None:
            self._sinks = open_event_sinks(self.config, self._environment)
        async with AsyncExitStack() as exit_stack:
            composer = Composer(self._project_setup(thread, store, on_progress))
            connected_model = await composer.connect_model(chosen_model, has_pauses=self._is_interactive)
            exit_stack.push_async_callback(connected_model.provider.close)
            start_source = _hook_start_source(opening_kind, is_new=row is None)
            row = row or self._new_row(chosen_model, new_id)
            if not self._is_ephemeral:
                exit_stack.callback(lock_session(self.config, row.id).release)
            if new_id and await thread.run(store.session, new_id) is not None:
                raise UsageError(f"session `{new_id}` already exists; resume it with `-r`, or use another id")
            if row.draft:
                exit_stack.push_async_callback((await self.open_library()).delete_unused_draft, row.id)
            was_opened_before = row.id in self._session_rules
            added_folders = self.added_folders.setdefault(row.id, list(additional_folders(self.config)))
            grants = SessionGrants(self._session_rules.setdefault(row.id, []), added_folders, was_opened_before)
            exit_stack.callback(self._contexts.pop, row.id, None)
            session, ctx = await composer.create_session(
                row, chosen_model, connected_model, exit_stack, grants, start_source=start_source
            )
            self._contexts[row.id] = ctx
            return session

    async def reopen(self, closed_session: Session, model: str) -> Session:
        """Reopen a session that was just closed, in the same mode but with another model. A session without messages
        was not stored, so a new one is opened under its id. Raises `AgentError`."""
        if closed_session.history.messages:
            session = await self.open(closed_session.id, model, opening_kind="reopened")
        else:
            session = await self.open(None, model, new_id=closed_session.id)
        if session.mode != closed_session.mode:
            await session.change_mode(next(mode for mode in PERMISSION_MODES if mode == closed_session.mode))
        return session

    def _new_row(self, model: str, session_id: str = "") -> SessionRow:
        now = time.time()
        return SessionRow(
            session_id or secrets.token_hex(ID_BYTES), self._project, "", model, self.config.permission_mode, now, now
        )

    async def _find_row(self, id_prefix: str) -> SessionRow:
        """Find the only session whose id begins with `id_prefix`. An empty prefix means the project's newest
        session."""
        thread, store = await self._open_store()
        return await thread.run(find_session, store, id_prefix, self._project)

    async def recent_sessions(self, *, in_all_projects: bool = False, limit: int = 100) -> tuple[SessionInfo, ...]:
        """Return up to `limit` sessions of this project, or of all projects, newest first."""
        thread, store = await self._open_store()
        rows = await thread.run(store.recent_sessions, None if in_all_projects else self._project, limit)
        return tuple(session_info(row) for row in rows)

    def instruction_files(self) -> tuple[Path, ...]:
        """Return the instruction files of a new session."""
        folders = self.config.folders
        paths = find_instruction_files(self.root, Path(self._project), folders.config, folders.home)
        return tuple(path for path in paths if path.is_file())

    async def find_session(self, id_prefix: str) -> SessionInfo:
        """Return the only session whose id begins with `id_prefix`. Raises `UsageError`."""
        return session_info(await self._find_row(id_prefix))

    async def is_likely_session_id(self, word: str) -> bool:
        """Whether a word is probably meant as a session id: it is as long as a session id, or an existing id begins
        with it."""
        if len(word) == 2 * ID_BYTES or is_session_id(word):
            return True
        thread, store = await self._open_store()
        return bool(await thread.run(store.sessions_with_prefix, word))

    async def all_messages(self, id_prefix: str) -> RestoredMessages:
        """Return all messages of a session, including those that compaction has removed from the view, and the problems
        found in them."""
        thread, store = await self._open_store()
        row = await self._find_row(id_prefix)
        return await thread.run(restore_messages, await thread.run(store.messages, row.id))

    def hide_secrets(self, conversation: Conversation) -> Conversation:
        """Return the conversation with secrets replaced by tokens, as in requests and on the screen."""
        return replace(conversation, messages=self._secret_tokens.hide_in_messages(conversation.messages))

    async def messages_before(self, id_prefix: str, position: int, limit: int, /) -> RestoredMessages:
        """Load up to `limit` messages that directly precede `position`, in order and one per position. Also reports the
        problems found in them."""
        thread, store = await self._open_store()
        row = await self._find_row(id_prefix)
        rows = await thread.run(store.messages_before, row.id, position, limit)
        # Reading many messages takes a while, so it is done in the store's thread.
        return await thread.run(restore_messages, rows, range(max(0, position - limit), position))

    async def turn_endings(self, session: str, /) -> "tuple[TurnEnding, ...]":
        """Return how the turns of a session ended, in order. Raises `StoreFailed`."""
        thread, store = await self._open_store()
        return await thread.run(records.turn_endings.turn_endings, store, session)

    async def overview(self, id_prefix: str, current: Conversation | None = None) -> "Overview":
        """Return the overview of a session's context and cost, without asking a provider. An empty prefix means the
        project's newest session. `current`: the conversation of an open session, so that it need not be read from the
        store. Raises `AgentError`."""
        from ebbtide.agent.compose import stored_request  # noqa: PLC0415  # deferred: rarely used
        from ebbtide.agent.window.overview import build_overview, create_request_setup  # noqa: PLC0415  # deferred: rarely used

        thread, store = await self._open_store()
        ctx = self._contexts.get(id_prefix)
        # An open session without messages might not have been stored.
        row = await thread.run(store.session, id_prefix) if ctx is not None else await self._find_row(id_prefix)
        recorder = Recorder(thread, store, row or self._new_row(""))
        conversation = current or (await recorder.read_conversation() if row else Conversation())
        request_setup = (
            create_request_setup(ctx.window)
            if ctx
            else await stored_request.request_setup(
                self._project_setup(thread, store), row.model if row else "", recorder.last_request_mark
            )
        )
        requests, rewrites = await recorder.log.request_usages(), await recorder.log.rewrites()
        session_id, title = (row.id, row.title) if row else (id_prefix, "")
        # Counting a long conversation takes a while, so it is done in a thread.
        return await asyncio.to_thread(
            build_overview, session_id, title, conversation, request_setup, requests, rewrites
        )

    async def style_costs(self, overview: "Overview") -> "StyleCosts":
        """Estimate what a session would have cost in each context style. `overview`: the session's overview."""
        from ebbtide.agent.compose import stored_request  # noqa: PLC0415  # deferred: rarely used

        thread, store = await self._open_store()
        return await stored_request.style_costs(
            self._project_setup(thread, store), self._contexts.get(overview.session), overview
        )

    async def open_recall(self, id_prefix: str | None = None, *, in_all_projects: bool = False) -> SessionRecall:
        """Return access to the stored content of a session, or of the project if no session is named.
        `in_all_projects`: search all projects. Raises `AgentError`."""
        thread, store = await self._open_store()
        row = await self._find_row(id_prefix) if id_prefix is not None else None
        session_id, project = (row.id, row.project) if row else ("", self._project)
        return create_user_recall(
            thread, store, session_id, project, in_all_projects, self.config.recall_embedding_model
        )

    async def open_library(self) -> "Library":
        """Return the library of stored sessions. Raises `AgentError`."""
        library = archive.library  # the import comes first: if it is interrupted, no store is left open
        thread, store = await self._open_store()
        return library.Library(
            thread,
            store,
            self._project,
            self._locked_for_deletion,
            self._update_title,
            self.config.recall_embedding_model,
        )

    def _project_setup(
        self, thread: StoreThread, store: SessionStore, on_progress: Callable[[int, int], None] = no_progress
    ) -> ProjectSetup:
        return ProjectSetup(
            self.config,
            self.root,
            self._environment,
            thread,
            store,
            self._is_interactive,
            self._is_ephemeral,
            self._secret_tokens,
            self._extra_tools,
            self.save_open_files,
            self._sinks or (),
            on_progress,
        )

    @contextmanager
    def _locked_for_deletion(self, session_id: str) -> Iterator[None]:
        """Hold a session's lock while its rows are deleted. If that succeeds, also delete its output files and
        rules."""
        lock = lock_session(self.config, session_id)
        try:
            yield
            shutil.rmtree(outputs_folder(self.config, session_id), ignore_errors=True)
            self._session_rules.pop(session_id, None)
        finally:
            lock.release()

    def _update_title(self, session_id: str, title: str) -> None:
        if session_id in self._contexts:
            self._contexts[session_id].records.recorder.set_title(title)

    def available_models(self) -> tuple[str, ...]:
        """Return the names of models to offer."""
        return list_available_models(self.config, self._environment)

    async def close(self) -> None:
        for sink in self._sinks or ():
            await sink.close()
        self._sinks = None
        if self._store_thread is not None and self._session_store is not None:
            await clean_up(self._store_thread, self._session_store, self.config, is_ephemeral=self._is_ephemeral)
            await self._store_thread.close()
            self._store_thread = self._session_store = None


def _hook_start_source(opening: OpeningKind, *, is_new: bool) -> "StartSource | None":
    """Return the start source of a session for hooks; None if no start hooks are run."""
    if opening == "reopened":
        return None
    if not is_new:
        return "resume"
    return "startup" if opening == "first" else "clear"
