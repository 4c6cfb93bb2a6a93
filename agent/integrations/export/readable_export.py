"""Writes a session as HTML, JSON or Markdown, a few messages at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from ebbtide.agent.archive.session_listing import session_info_from_row
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.integrations import export
from ebbtide.agent.integrations.export.json_page import render_json_chunks
from ebbtide.agent.integrations.export.markdown_page import render_markdown_chunks
from ebbtide.agent.integrations.export.transcript_entries import (
    AgentTranscript,
    PositionedMessage,
    ReadableSession,
    Redactor,
    SessionDetails,
    printable_text,
)
from ebbtide.agent.messages import Message, User
from ebbtide.agent.records.damage import restore_messages
from ebbtide.agent.records.images import load_image_bytes
from ebbtide.agent.records.rows import decode_request_mark
from ebbtide.agent.records.session_lookup import find_session, project_name
from ebbtide.agent.records.store_access import open_store_briefly
from ebbtide.agent.records.usage import RequestUsage, Rewrite, request_usage_from_row, rewrite_from_row
from ebbtide.store.catalogue import ListedSession, SessionCatalogue
from ebbtide.store.sessions import SessionStore
from ebbtide.store.usage import UsageStore

ReadableFormat: TypeAlias = Literal["html", "json", "md"]
READABLE_FORMATS: tuple[ReadableFormat, ...] = get_args(ReadableFormat)

MESSAGES_PER_BATCH = 50
"""Number of messages read into memory at a time."""


@dataclass(frozen=True, slots=True)
class ReadableExportResult:
    session: str
    title: str
    messages: int
    problems: str = ""
    """Problems with individual messages, such as unreadable ones; empty if there are none."""


def readable_session_from_messages(
    details: SessionDetails, messages: Sequence[Message], requests: Sequence[RequestUsage], rewrites: Sequence[Rewrite]
) -> ReadableSession:
    """Return the readable form of a session whose messages are in memory."""
    entries = [PositionedMessage(position, message) for position, message in enumerate(messages)]
    return ReadableSession(details, lambda: entries, lambda: requests, len(requests), rewrites)


def render_chunks(
    readable_format: ReadableFormat, session: ReadableSession, environment: Mapping[str, str] | None
) -> Iterator[str]:
    """Yield the exported text in pieces. If an environment is given, its secrets are removed, and so is anything that
    looks like a secret."""
    match readable_format:
        case "json":
            yield from render_json_chunks(Redactor(environment).redact_session(session))
        case "md":
            yield from render_markdown_chunks(Redactor(environment).redact_session(session))
        case "html":
            yield from export.html_page.render_html_chunks(
                Redactor(environment, printable_text).redact_session(session)
            )


def export_readable(
    config: Config,
    id_prefix: str,
    readable_format: ReadableFormat,
    write: Callable[[str], object],
    environment: Mapping[str, str] | None,
) -> ReadableExportResult:
    """Write a stored session with `write`. Raises `AgentError`, and any error that `write` raises."""
    with open_store_briefly(config.folders) as store:
        row = find_session(store, id_prefix, project_name(config))
        (listed_row,) = SessionCatalogue(store).sessions_by_id((row.id,)) or (None,)
        if listed_row is None:
            raise StoreFailed(f"session `{row.id}` was deleted in the meantime", "missing")
        info = session_info_from_row(listed_row)
        problems = list[str]()
        agents = sorted(
            SessionCatalogue(store).agent_sessions((info.id,)), key=lambda agent_row: agent_row.session.created
        )
        usage = UsageStore(store)
        session = ReadableSession(
            _session_details(listed_row),
            lambda: _read_entries(store, info.id, info.messages, problems, include_images=readable_format == "html"),
            lambda: map(request_usage_from_row, usage.requests(info.id)),
            usage.request_count(info.id),
            tuple(map(rewrite_from_row, store.rewrites(info.id))),
            _last_request_limit(store, info.id),
            tuple(
                _read_agent_transcript(store, agent_row, problems, include_images=readable_format == "html")
                for agent_row in agents
            ),
        )
        for piece in render_chunks(readable_format, session, environment):
            write(piece)
        return ReadableExportResult(info.id, info.title, info.messages, "; ".join(dict.fromkeys(problems)))


def _session_details(listed_row: ListedSession) -> SessionDetails:
    info = session_info_from_row(listed_row)
    return SessionDetails(
        info.id, info.title, info.model, info.project, info.messages, info.cost, listed_row.session.created,
        info.updated_at, info.tags,
    )  # fmt: skip


def _read_agent_transcript(
    store: SessionStore, listed_row: ListedSession, problems: list[str], *, include_images: bool
) -> AgentTranscript:
    details = _session_details(listed_row)
    first_entry = next(iter(_read_entries(store, details.id, min(1, details.messages), [], include_images=False)), None)
    prompt = first_entry.message.text if first_entry is not None and isinstance(first_entry.message, User) else ""
    entries = partial(_read_entries, store, details.id, details.messages, problems, include_images=include_images)
    return AgentTranscript(listed_row.session.agent or "", details, prompt, entries)


def _read_entries(
    store: SessionStore, session_id: str, message_count: int, problems: list[str], *, include_images: bool
) -> Iterator[PositionedMessage]:
    """Yield each message with its position. Unreadable messages are replaced by placeholders and reported in
    `problems`."""
    for start in range(0, message_count, MESSAGES_PER_BATCH):
        end = min(start + MESSAGES_PER_BATCH, message_count)
        rows = [row for row in store.messages_before(session_id, end, MESSAGES_PER_BATCH) if row.position >= start]
        created_by_position = {row.position: row.created for row in rows}
        restored = restore_messages(rows, range(start, end), start)
        problems += [restored.problem] if restored.problem else []
        messages = load_image_bytes(restored.messages, store.blobs) if include_images else restored.messages
        for position, message in enumerate(messages, start):
            yield PositionedMessage(position, message, created_by_position.get(position))


def _last_request_limit(store: SessionStore, session_id: str) -> int | None:
    """Return the token limit of the last request; None if unknown."""
    snapshot = store.snapshot(session_id)
    mark = decode_request_mark(snapshot.body) if snapshot is not None else None
    return mark.window.available_tokens if mark is not None and mark.window is not None else None
