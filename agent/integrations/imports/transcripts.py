"""Finds the transcripts of all agents, imports them as sessions, and deletes imported sessions."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.archive.index_process import index_in_background_if_behind
from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.integrations.imports.agent_folders import AgentFolders, AgentName
from ebbtide.agent.integrations.imports.aider import AiderTranscripts
from ebbtide.agent.integrations.imports.claude_code import ClaudeTranscripts
from ebbtide.agent.integrations.imports.codex import CodexTranscripts
from ebbtide.agent.integrations.imports.gemini import GeminiTranscripts
from ebbtide.agent.integrations.imports.opencode import OpencodeTranscripts
from ebbtide.agent.integrations.imports.session_writer import ImportResult, SessionWriter
from ebbtide.agent.integrations.imports.transcript import (
    ImportableTranscript,
    ImportProblems,
    TranscriptReader,
    UnreadableTranscriptError,
)
from ebbtide.agent.records.store_access import delete_session, lock_session, open_store, open_store_briefly
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.catalogue import ORIGIN_FACT
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import TransferStore
from ebbtide.tools.catalog import create_builtin_tools

TRANSCRIPT_READERS: Mapping[AgentName, Callable[[], TranscriptReader]] = {
    "claude": ClaudeTranscripts,
    "codex": CodexTranscripts,
    "opencode": OpencodeTranscripts,
    "gemini": GeminiTranscripts,
    "aider": AiderTranscripts,
}


def find_transcripts(
    folders: AgentFolders, project: Path, agents: Collection[AgentName], problems: ImportProblems
) -> list[ImportableTranscript]:
    """Find the transcripts of these agents, including transcript files in `project`, oldest first. If a conversation
    has several copies, only the newest is returned."""
    transcripts = [
        transcript
        for agent in TRANSCRIPT_READERS
        if agent in agents
        for transcript in TRANSCRIPT_READERS[agent]().find_transcripts(folders, project, problems)
    ]
    transcripts.sort(key=lambda transcript: (transcript.updated_at, transcript.size, str(transcript.path)))
    newest = {(transcript.agent, transcript.id): transcript for transcript in transcripts}
    problems.add_skipped("older copies of a conversation", len(transcripts) - len(newest))
    return sorted(newest.values(), key=lambda transcript: (transcript.updated_at, transcript.id))


def import_transcripts(
    config: Config, transcripts: Collection[ImportableTranscript]
) -> Iterator[tuple[ImportableTranscript, ImportResult | str, ImportProblems]]:
    """Import each transcript, and yield it with its result, or with the reason for failure as a string. The new
    sessions are then indexed in the background. Raises `StoreFailed`."""
    tools = {tool.name: tool for tool in create_builtin_tools()}
    with open_store_briefly(config.folders) as store:
        writer = SessionWriter(store, config, tools)
        readers = {agent: create_reader() for agent, create_reader in TRANSCRIPT_READERS.items()}
        for transcript in transcripts:
            problems = ImportProblems()
            if writer.is_imported(transcript):
                yield transcript, ImportResult("unchanged"), problems
                continue
            result: ImportResult | str
            try:
                result = writer.import_transcript(
                    transcript, readers[transcript.agent].open_transcript(transcript, problems), problems
                )
            except UnreadableTranscriptError as error:
                result = str(error)
            except OSError as error:
                result = error.strerror or str(error)
            yield transcript, result, problems
        index_in_background_if_behind(store, config.recall_embedding_model)


def filter_new_transcripts(config: Config, transcripts: Collection[ImportableTranscript]) -> list[ImportableTranscript]:
    """Return the transcripts that have not been imported yet, or that have changed since their import. Raises
    `StoreFailed`."""
    with open_store_briefly(config.folders) as store:
        writer = SessionWriter(store, config, {})
        return [transcript for transcript in transcripts if not writer.is_imported(transcript)]


async def delete_imported_sessions(config: Config, agents: Collection[AgentName]) -> tuple[int, list[str]]:
    """Delete the sessions imported from these agents. Return the number of deleted sessions, and the ids of sessions
    that were kept because they were continued or are open. Raises `StoreFailed`."""
    store_thread = StoreThread(lambda: open_store(config, is_ephemeral=False))
    removed_count, remaining_ids = 0, list[str]()
    try:
        store = await store_thread.open()
        for session_id, is_unchanged in await store_thread.run(_imported_sessions, store, agents):
            lock = None
            with suppress(StoreFailed):
                lock = lock_session(config, session_id) if is_unchanged else None
            if lock is None:
                remaining_ids.append(session_id)
                continue
            try:
                await delete_session(store_thread, store, session_id, is_copy=True)
                removed_count += 1
            finally:
                lock.release()
        if removed_count:
            await store_thread.run(Indexer(store_thread, store).index.reset_word_parts)
    finally:
        await store_thread.close()
    return removed_count, remaining_ids


def _imported_sessions(store: SessionStore, agents: Collection[AgentName]) -> list[tuple[str, bool]]:
    """Return the id of each imported session, and whether it is unchanged since its import."""
    sessions = list[tuple[str, bool]]()
    for session_id, key, body in TransferStore(store).facts_of_kind(ORIGIN_FACT):
        row = store.session(session_id)
        if row is None or key.partition(":")[0] not in agents:
            continue
        with suppress(ValueError, KeyError, TypeError):
            origin = json.loads(body)
            if origin["session"] == row.id:
                sessions.append((row.id, origin["messages"] == row.messages))
    return sessions
