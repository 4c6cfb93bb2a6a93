"""The composition root: a configuration made into sessions. It alone opens the store."""

import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from agent.archive.recall import SessionRecall, recall_of
from agent.calls.policy import Rule
from agent.config.options import Mode
from agent.config.values import Config
from agent.context.budget import Window
from agent.context.estimate import decode_estimator
from agent.context.last_request import Mark
from agent.context.prompt import Instructions
from agent.context.reminders import Surroundings
from agent.context.small_window import SMALL
from agent.debug import Debug, is_asked_for
from agent.errors import StoreFailed
from agent.input.instructions import git_branch, load_instructions
from agent.messages import Conversation
from agent.providers.factory import (
    build_provider,
    build_summarisers,
    fallbacks_of,
    known_model,
    known_models,
    make_meter,
    targets_for,
)
from agent.providers.fallbacks import Connected, Targets
from agent.providers.learned_limits import has_answered, window_in_force, window_shown
from agent.providers.meter import Meter
from agent.providers.stream import Retries
from agent.providers.usage import counted_for
from agent.records.damage import Readable, readable
from agent.records.lifecycle import open_store, tidy
from agent.records.recorder import Recorder
from agent.records.resume import restore
from agent.records.session_lookup import SessionInfo, find_session, info_of, project_of
from agent.records.session_reader import SessionLog
from agent.records.store_thread import StoreThread
from agent.session import Session
from agent.session_parts import Parts, with_archive, with_rules
from agent.session_settings import (
    compacting_of,
    hooks_for_calls,
    missing_tools,
    mode_of,
    model_of,
    persistence_of,
    policy_of,
    tools_for,
)
from agent.window.deferral import Deferral, specs_of
from agent.window.env import TurnLimits
from agent.window.server_tools import ServerTools
from store.errors import StoreError
from store.locks import SessionLock
from store.sessions import SessionRow, SessionStore
from tools.base import Workspace

if TYPE_CHECKING:  # types only: who looks at the context, or has servers, pays for it
    from agent.archive.library import Library
    from agent.mcp.running import RunningServers
    from agent.overview import Equipped, Overview

ID_BYTES = 6
"""Of a session's id, which is twice as many characters."""


GLIMPSE = 200
"""Messages of a long session that are shown at once."""

READ_ONLY = "no session can be stored in `{}`: it can only be read; `--ephemeral` starts one that is not kept"


class Sessions:
    """Opens the sessions of one project. Holds the store until it is closed."""

    def __init__(
        self,
        config: Config,
        root: Path,
        environment: Mapping[str, str],
        *,
        interactive: bool,
        ephemeral: bool = False,
    ) -> None:
        """`root` is the working folder. `interactive`: somebody is there to answer. `ephemeral`: nothing is kept."""
        self.config = config
        """What sessions that are opened from now on are made with."""
        self._root = root.resolve()
        self._project = project_of(config)
        self._environment = environment
        self._interactive = interactive
        self._ephemeral = ephemeral
        self._thread: StoreThread | None = None
        self._opened: SessionStore | None = None
        self._open_parts: dict[str, Parts] = {}
        """What the sessions that are open are made of, by their ids."""
        self._kept_here: dict[str, list[Rule]] = {}
        """What the user has allowed in each session alone, by their ids: it outlives another model, not the program."""

    async def _store(self) -> tuple[StoreThread, SessionStore]:
        if self._thread is None or self._opened is None:
            self._thread = StoreThread(lambda: open_store(self.config, ephemeral=self._ephemeral))
            self._opened = await self._thread.open()
            if self._opened.told and not self._interactive:
                print(f"ebb: {self._opened.told}", file=sys.stderr)
        return self._thread, self._opened

    async def open(
        self,
        resume: str | None = None,
        model: str | None = None,
        glimpse: Callable[[Conversation], None] | None = None,
    ) -> Session:
        """A new session, or one to go on with: `resume` is the beginning of its id. `model` wins over the configured
        one, and that over the session's own. `glimpse` is given the end of a long one before all of it is read. Raises
        `AgentError`."""
        thread, store = await self._store()
        if store.is_read_only:
            raise StoreFailed(READ_ONLY.format(store.path), "unreadable")
        row = await self._find(resume) if resume is not None else None
        if row is not None and glimpse is not None:
            end = await SessionLog(thread, store, row.id).newest(GLIMPSE)
            if end:
                glimpse(Conversation(end))
        chosen = model or model_of(self.config, row.model if row else "", self._environment)
        async with AsyncExitStack() as closing:
            connected = await self._connect(chosen)
            closing.push_async_callback(connected.provider.close)
            targets = targets_for(self.config, chosen, connected.provider, self._connect)
            closing.push_async_callback(targets.close)
            is_new = row is None
            row = row or self._new_row(chosen)
            if not self._ephemeral:
                closing.callback(self._lock(row.id).release)
            if row.draft:
                closing.push_async_callback((await self.library()).drop_unused, row.id)
            outputs = self._outputs(row.id)
            if self._ephemeral:
                closing.callback(shutil.rmtree, outputs, ignore_errors=True)
            recorder = Recorder(thread, store, row, is_new=is_new)
            summarisers = build_summarisers(
                self.config, self._environment, lambda: targets.provider.facts, headless=not self._interactive
            )
            closing.push_async_callback(summarisers.close)
            is_from_outside = self._interactive and not is_new and row.id not in self._kept_here
            mode = self.config.permission_mode if is_from_outside else mode_of(self.config, row.mode)
            parts = self._parts(targets, recorder, outputs, connected.meter, mode)
            servers = self._servers(parts.served)
            if servers is not None:
                closing.push_async_callback(servers.close)
            share, finders = self.config.tool_deferral_threshold, servers is not None and bool(servers.entries)
            spares = not self.config.tools_allowed
            deferral = Deferral(share, await recorder.tool_uses(), finders=finders, spares=spares)
            parts = replace(parts, summarisers=summarisers, deferral=deferral, servers=servers)
            if self._interactive and store.told:
                parts, store.told = replace(parts, notices=(*parts.notices, store.told)), ""
            parts = with_archive(parts, thread, store, row.project, self.config)
            kept_here = self._kept_here.setdefault(row.id, [])
            parts = with_rules(parts, thread, store, row.project, self.config, kept_here)
            self._open_parts[row.id] = parts
            closing.callback(self._open_parts.pop, row.id)
            if is_new:
                return Session(parts, on_close=closing.pop_all().aclose)
            there = self._interactive
            restored = await restore(recorder, parts.workspace, chosen, mode, parts.debug, ask_again=there)
            if is_from_outside and mode != row.mode:
                await recorder.goes_on_with(chosen, mode)  # it may be opened anew in this program
            conversation = counted_for(restored.conversation, connected.provider.facts.id)
            parts.lessons.window = window_shown(recorder.mark, connected.provider)
            if has_answered(recorder.mark, connected.provider):
                parts.retries.reached.add(connected.provider.facts.id)
            resumed = replace(restored.event, mode_before=row.mode if is_from_outside and mode != row.mode else "")
            return Session(parts, conversation, restored.spent, closing.pop_all().aclose, resumed=resumed)

    async def _connect(self, model: str) -> Connected:
        """A model with the measure of its tokens. Raises `UsageError` and `ProviderError`."""
        thread, store = await self._store()
        estimator = decode_estimator(await thread.run(store.calibration, model))
        headless, is_precise = not self._interactive, estimator.is_precise
        provider = await build_provider(self.config, model, self._environment, headless=headless, is_precise=is_precise)
        return Connected(provider, make_meter(self.config, model, estimator, interactive=self._interactive))

    def _servers(self, served: ServerTools) -> "RunningServers | None":
        """The servers of a session, starting; None when none is declared."""
        if not self.config.may_have_servers:
            return None
        from agent.mcp.running import open_servers  # noqa: PLC0415  # deferred: few projects have servers

        return open_servers(self.config, self._environment, self._root, served, interactive=self._interactive)

    def _new_row(self, model: str) -> SessionRow:
        now = time.time()
        return SessionRow(secrets.token_hex(ID_BYTES), self._project, "", model, self.config.permission_mode, now, now)

    def _parts(self, targets: Targets, recorder: Recorder, outputs: Path, meter: Meter, mode: Mode) -> Parts:
        config, provider = self.config, targets.provider
        compacting = compacting_of(config, provider.window.effective)
        return Parts(
            targets=targets,
            instructions=self._instructions(mode, provider.window, *(target.window for target in targets.fallbacks)),
            tools=tools_for(compacting, config),
            workspace=Workspace(self._root, outputs),
            policy=policy_of(config, self._root, mode, outputs),
            recorder=recorder,
            limits=TurnLimits(config.max_turns, config.max_cost),
            compacting=compacting,
            after_tool=hooks_for_calls(config),
            effort=config.reasoning_effort,
            retries=Retries(persistence_of(config, interactive=self._interactive)),
            debug=self._debug(),
            surroundings=self._surroundings,
            note_at=config.context_note_at,
            interactive=self._interactive,
            meter=meter,
            notices=provider.window.notices,
        )

    def _surroundings(self) -> Surroundings:
        return Surroundings(date=date.today().isoformat(), branch=git_branch(self.config.project))

    def _instructions(self, mode: Mode, *windows: Window) -> Instructions:
        """The system text of a session: `windows` are those of its model and of those that may take over, for which it
        keeps its bytes."""
        config = self.config
        return load_instructions(
            self._root,
            config.project,
            config.folders.config,
            date.today(),
            data_folder=config.folders.data,
            mode=mode,
            missing=missing_tools(config),
            is_short=all(window.effective < SMALL for window in windows),
        )

    def _debug(self) -> Debug:
        if not is_asked_for(self._environment):
            return Debug()
        return Debug(self.config.folders.logs / "context.jsonl", None if self._interactive else sys.stderr)

    def _outputs(self, session: str) -> Path:
        if self._ephemeral:
            return Path(tempfile.mkdtemp(prefix="ebb-")).resolve()
        return (self.config.folders.data / "outputs" / session).resolve()

    def _lock(self, session: str) -> SessionLock:
        folder = self.config.folders.data / "locks"
        lock = SessionLock(folder, session)
        try:
            lock.acquire()
        except StoreError as error:
            raise StoreFailed(str(error), error.reason) from error
        except OSError as error:
            raise StoreFailed(f"cannot write to `{folder}`: {error.strerror or error}", "unreadable") from error
        return lock

    async def _find(self, prefix: str) -> SessionRow:
        """The one session whose id starts so. An empty prefix is the newest session of the project."""
        thread, store = await self._store()
        return await thread.run(find_session, store, prefix, self._project)

    async def recent(self, *, everywhere: bool = False, limit: int = 100) -> tuple[SessionInfo, ...]:
        """The sessions of this project, or of all, newest first."""
        thread, store = await self._store()
        rows = await thread.run(store.recent, None if everywhere else self._project, limit)
        return tuple(info_of(row) for row in rows)

    async def find(self, prefix: str) -> SessionInfo:
        """The one session whose id starts so. Raises `UsageError`."""
        return info_of(await self._find(prefix))

    async def knows(self, word: str) -> bool:
        """Whether a word is meant as a session's id: it is as long as one, or some session's id starts so."""
        if len(word) == 2 * ID_BYTES:
            return True
        thread, store = await self._store()
        return bool(await thread.run(store.matching, word))

    async def log(self, prefix: str) -> Readable:
        """Every message of a session, also those that compaction has taken out of the model's sight, and what is wrong
        with some of them."""
        thread, store = await self._store()
        row = await self._find(prefix)
        return await thread.run(readable, await thread.run(store.messages, row.id))

    async def earlier(self, prefix: str, position: int, limit: int, /) -> Readable:
        """At most `limit` messages of a session, those just before a position, in order; one for each position, and
        what is wrong with some of them."""
        thread, store = await self._store()
        row = await self._find(prefix)
        rows = await thread.run(store.messages_before, row.id, position, limit)
        # Of many that takes a while.
        return await thread.run(readable, rows, range(max(0, position - limit), position))

    async def overview(self, prefix: str) -> "Overview":
        """What the context of a session holds and has cost; no provider is asked. An empty prefix is the project's
        newest session. Raises `AgentError`."""
        from agent.overview import equipped_with, overview_of  # noqa: PLC0415  # deferred: few look at the context

        thread, store = await self._store()
        parts = self._open_parts.get(prefix)
        # A session in which nothing was said yet is open without being stored.
        row = await thread.run(store.session, prefix) if parts is not None else await self._find(prefix)
        recorder = Recorder(thread, store, row or self._new_row(""))
        conversation = await recorder.read() if row else Conversation()
        model, sent = (row.model if row else ""), recorder.mark
        equipped = equipped_with(parts) if parts is not None else await self._equipped(model, sent)
        asked, rewritten = await recorder.log.requests(), await recorder.log.rewrites()
        id, title = (row.id, row.title) if row else (prefix, "")
        # In a thread: to count a long conversation takes a while.
        return await asyncio.to_thread(overview_of, id, title, conversation, equipped, asked, rewritten)

    async def _equipped(self, model: str, sent: Mark | None) -> "Equipped":
        """What requests are made with in a session that is not open. The last one, as it was sent, tells what flags and
        servers had made of it."""
        from agent.overview import Equipped  # noqa: PLC0415  # deferred: as above

        thread, store = await self._store()
        facts, window = known_model(self.config, model)
        meter = Meter(decode_estimator(await thread.run(store.calibration, model)))
        begun = sent.window if sent is not None and sent.window is not None and sent.believed is None else window
        following = fallbacks_of(self.config, model)
        instructions = self._instructions(self.config.permission_mode, begun, *(target.window for target in following))
        window = window if sent is None else window_in_force(sent, window)
        tools = specs_of(tools_for(compacting_of(self.config, window.effective), self.config))
        deferral = Deferral(self.config.tool_deferral_threshold, spares=not self.config.tools_allowed)
        deferral.choose(tools, window.effective, meter.size_of_tool, lambda event: None)
        return Equipped(facts, window, meter, instructions, tools, deferral=deferral, sent=sent)

    async def recall(self, prefix: str | None = None, *, everywhere: bool = False) -> SessionRecall:
        """What may be looked up from a session, or from the project when none is named; `everywhere`: of all projects.
        Raises `AgentError`."""
        thread, store = await self._store()
        row = await self._find(prefix) if prefix is not None else None
        session, project = (row.id, row.project) if row else ("", self._project)
        return recall_of(thread, store, session, project, everywhere, self.config.recall_embedding_model)

    async def library(self) -> "Library":
        """The stored sessions, to look through and to change. Raises `AgentError`."""
        from agent.archive.library import Library  # noqa: PLC0415  # deferred: few runs look through sessions

        thread, store = await self._store()
        return Library(thread, store, self._project, self._held, self._renamed)

    @contextmanager
    def _held(self, session: str) -> Iterator[None]:
        lock = self._lock(session)
        try:
            yield
            shutil.rmtree(self._outputs(session), ignore_errors=True)
            self._kept_here.pop(session, None)
        finally:
            lock.release()

    def _renamed(self, session: str, title: str) -> None:
        if session in self._open_parts:
            self._open_parts[session].recorder.renamed(title)

    def models(self) -> tuple[str, ...]:
        """Names to offer."""
        return known_models(self.config, self._environment)

    async def close(self) -> None:
        if self._thread is not None and self._opened is not None:
            await tidy(self._thread, self._opened, self.config, ephemeral=self._ephemeral)
            await self._thread.close()
            self._thread = self._opened = None
