"""Finds the transcripts of all agents, imports them as sessions, indexes them for search, and removes them again."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.imports.agent_folders import AgentFolders, AgentName
from ebbtide.agent.imports.aider import AiderTranscripts
from ebbtide.agent.imports.claude_code import ClaudeTranscripts
from ebbtide.agent.imports.codex import CodexTranscripts
from ebbtide.agent.imports.gemini import GeminiTranscripts
from ebbtide.agent.imports.opencode import OpencodeTranscripts
from ebbtide.agent.imports.session_writer import ImportResult, SessionWriter
from ebbtide.agent.imports.transcript import ForeignTranscript, ImportProblems, TranscriptReader, UnreadableTranscript
from ebbtide.agent.records.store_access import forget, lock_session, open_store, opened_store
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.catalogue import ORIGIN
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import TransferStore
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.outputs.recalled import OnProgress

READERS: Mapping[AgentName, Callable[[], TranscriptReader]] = {
    "claude": ClaudeTranscripts,
    "codex": CodexTranscripts,
    "opencode": OpencodeTranscripts,
    "gemini": GeminiTranscripts,
    "aider": AiderTranscripts,
}


def find_transcripts(
    folders: AgentFolders, project: Path, agents: Collection[AgentName], troubles: ImportProblems
) -> list[ForeignTranscript]:
    """Return the transcripts of these agents, oldest first, and only the newest copy of each conversation. `project` is
    searched for files as well."""
    found = [
        one
        for agent in READERS
        if agent in agents
        for one in READERS[agent]().find_transcripts(folders, project, troubles)
    ]
    found.sort(key=lambda one: (one.updated, one.size, str(one.path)))
    newest = {(one.agent, one.id): one for one in found}
    troubles.leave_out("older copies of a conversation", len(found) - len(newest))
    return sorted(newest.values(), key=lambda one: (one.updated, one.id))


def import_transcripts(
    config: Config, transcripts: Collection[ForeignTranscript]
) -> Iterator[tuple[ForeignTranscript, ImportResult | str, ImportProblems]]:
    """Import each transcript; yield it with its result, or with the reason for failure as a string. Raises
    `StoreFailed`."""
    tools = {tool.name: tool for tool in builtin_tools()}
    with opened_store(config.folders) as store:
        writer = SessionWriter(store, config, tools)
        readers = {agent: reader() for agent, reader in READERS.items()}
        for one in transcripts:
            troubles = ImportProblems()
            if writer.is_known(one):
                yield one, ImportResult("unchanged"), troubles
                continue
            taken: ImportResult | str
            try:
                taken = writer.import_transcript(one, readers[one.agent].open_transcript(one, troubles), troubles)
            except UnreadableTranscript as error:
                taken = str(error)
            except OSError as error:
                taken = error.strerror or str(error)
            yield one, taken, troubles


def new_transcripts(config: Config, transcripts: Collection[ForeignTranscript]) -> list[ForeignTranscript]:
    """Return the transcripts that are not imported yet, or have changed since. Raises `StoreFailed`."""
    with opened_store(config.folders) as store:
        writer = SessionWriter(store, config, {})
        return [one for one in transcripts if not writer.is_known(one)]


async def index_imported(config: Config, told: OnProgress) -> None:
    """Index all sessions for search. Raises `StoreFailed`."""
    thread = StoreThread(lambda: open_store(config, ephemeral=False))
    try:
        await Indexer(thread, await thread.open()).catch_up(told)
    finally:
        await thread.close()


async def remove_imported(config: Config, agents: Collection[AgentName]) -> tuple[int, list[str]]:
    """Delete the sessions imported from these agents. Return their number, and the ids of those kept because they were
    continued or are open. Raises `StoreFailed`."""
    thread = StoreThread(lambda: open_store(config, ephemeral=False))
    removed, stayed = 0, list[str]()
    try:
        store = await thread.open()
        for session, is_untouched in await thread.run(_imported_sessions, store, agents):
            lock = None
            with suppress(StoreFailed):
                lock = lock_session(config, session) if is_untouched else None
            if lock is None:
                stayed.append(session)
                continue
            try:
                await forget(thread, store, session, is_copy=True)
                removed += 1
            finally:
                lock.release()
        if removed:
            await thread.run(Indexer(thread, store).index.forget_words)
    finally:
        await thread.close()
    return removed, stayed


def _imported_sessions(store: SessionStore, agents: Collection[AgentName]) -> list[tuple[str, bool]]:
    """The ids of imported sessions, and whether each is unchanged since its import."""
    found = list[tuple[str, bool]]()
    for session, key, body in TransferStore(store).facts_of(ORIGIN):
        row = store.session(session)
        if row is None or key.partition(":")[0] not in agents:
            continue
        with suppress(ValueError, KeyError, TypeError):
            made = json.loads(body)
            if made["session"] == row.id:
                found.append((row.id, made["messages"] == row.messages))
    return found
