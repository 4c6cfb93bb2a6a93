"""Writes a session as HTML, JSON or Markdown, a few messages at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from ebbtide.agent.archive.json_page import json_pieces
from ebbtide.agent.archive.markdown import markdown_head, markdown_message
from ebbtide.agent.archive.session_page import listed_info
from ebbtide.agent.archive.transcript_entries import (
    AgentTalk,
    PositionedMessage,
    Redact,
    SessionAbout,
    cost_text,
    transcript_entries,
)
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Message, User
from ebbtide.agent.records.damage import readable
from ebbtide.agent.records.images import with_image_bytes
from ebbtide.agent.records.rows import decode_mark
from ebbtide.agent.records.session_lookup import find_session, project_of
from ebbtide.agent.records.store_access import opened_store
from ebbtide.agent.records.usage import RequestUsage, Rewrite, request_usage, rewrite_of
from ebbtide.store.catalogue import Catalogue, ListedRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.usage import UsageStore

ReadableForm: TypeAlias = Literal["html", "json", "md"]
READABLE_FORMS: tuple[ReadableForm, ...] = get_args(ReadableForm)

PAGE = 50
"""Messages held in memory at once."""


@dataclass(frozen=True, slots=True)
class ReadableSession:
    """Everything that is written of a session. The callables read long data again, in order, at each call."""

    about: SessionAbout
    entries: Callable[[], Iterable[PositionedMessage]]
    requests: Callable[[], Iterable[RequestUsage]] = tuple
    request_count: int = 0
    rewrites: Sequence[Rewrite] = ()
    limit: int | None = None
    """The most tokens that a request may take, if known."""
    agents: Sequence[AgentTalk] = ()
    """Its sub-agents, oldest first."""


@dataclass(frozen=True, slots=True)
class ReadableExportResult:
    session: str
    title: str
    messages: int
    told: str = ""
    """What is wrong with some of the messages."""


def of_messages(
    about: SessionAbout, messages: Sequence[Message], requests: Sequence[RequestUsage], rewrites: Sequence[Rewrite]
) -> ReadableSession:
    """A session that is held in memory."""
    entries = [PositionedMessage(position, message) for position, message in enumerate(messages)]
    return ReadableSession(about, lambda: entries, lambda: requests, len(requests), rewrites)


def readable_pieces(
    form: ReadableForm, session: ReadableSession, environment: Mapping[str, str] | None
) -> Iterator[str]:
    """Yield the text in pieces. With an environment, its secrets and anything that looks like one are removed."""
    hide, about = Redact(environment), session.about
    match form:
        case "json":
            yield from json_pieces(about, session.entries(), session.requests(), session.rewrites, hide, session.agents)
        case "md":
            cost = cost_text(about.cost)
            yield markdown_head(about.title, (f"session {about.id}", f"model {about.model}", f"cost {cost}"), hide)
            for one in transcript_entries(session.entries()):
                yield markdown_message(one, hide)
        case "html":
            from ebbtide.agent.archive.html_page import html_pieces  # noqa: PLC0415  # deferred: imports a Markdown parser
            from ebbtide.agent.archive.timeline_svg import timeline_columns  # noqa: PLC0415  # deferred: as above

            columns = timeline_columns(session.requests(), session.request_count)
            said = transcript_entries(session.entries())
            hidden = environment is not None
            yield from html_pieces(
                about, said, columns, session.rewrites, session.limit, hide, hidden=hidden, agents=session.agents
            )


def export_readable(
    config: Config,
    prefix: str,
    form: ReadableForm,
    write: Callable[[str], object],
    environment: Mapping[str, str] | None,
) -> ReadableExportResult:
    """Write a stored session. Raises `AgentError`, and what `write` raises."""
    with opened_store(config.folders) as store:
        row = find_session(store, prefix, project_of(config))
        (listed,) = Catalogue(store).sessions_by_id((row.id,)) or (None,)
        if listed is None:
            raise StoreFailed(f"session `{row.id}` was deleted in the meantime", "missing")
        info, told = listed_info(listed), list[str]()
        sent = sorted(Catalogue(store).agent_sessions((info.id,)), key=lambda each: each.session.created)
        usage = UsageStore(store)
        session = ReadableSession(
            _about(listed),
            lambda: _entries(store, info.id, info.messages, told, pictures=form == "html"),
            lambda: map(request_usage, usage.requests(info.id)),
            usage.count(info.id),
            tuple(map(rewrite_of, store.rewrites(info.id))),
            _limit(store, info.id),
            tuple(_agent(store, each, told, pictures=form == "html") for each in sent),
        )
        for piece in readable_pieces(form, session, environment):
            write(piece)
        return ReadableExportResult(info.id, info.title, info.messages, "; ".join(dict.fromkeys(told)))


def _about(listed: ListedRow) -> SessionAbout:
    info = listed_info(listed)
    return SessionAbout(
        info.id, info.title, info.model, info.project, info.messages, info.cost, listed.session.created,
        info.updated_at, info.tags,
    )  # fmt: skip


def _agent(store: SessionStore, listed: ListedRow, told: list[str], *, pictures: bool) -> AgentTalk:
    about = _about(listed)
    first = next(iter(_entries(store, about.id, min(1, about.messages), [], pictures=False)), None)
    prompt = first.message.text if first is not None and isinstance(first.message, User) else ""
    entries = partial(_entries, store, about.id, about.messages, told, pictures=pictures)
    return AgentTalk(listed.session.agent or "", about, prompt, entries)


def _entries(
    store: SessionStore, id: str, count: int, told: list[str], *, pictures: bool
) -> Iterator[PositionedMessage]:
    """Yield each message at its position, with a placeholder for unreadable ones. Problems are added to `told`."""
    for start in range(0, count, PAGE):
        end = min(start + PAGE, count)
        rows = [row for row in store.messages_before(id, end, PAGE) if row.position >= start]
        times = {row.position: row.created for row in rows}
        found = readable(rows, range(start, end), start)
        told += [found.problem] if found.problem else []
        messages = with_image_bytes(found.messages, store.blobs) if pictures else found.messages
        for position, message in enumerate(messages, start):
            yield PositionedMessage(position, message, times.get(position))


def _limit(store: SessionStore, id: str) -> int | None:
    """The token limit of the last request."""
    snapshot = store.snapshot(id)
    mark = decode_mark(snapshot.body) if snapshot is not None else None
    return mark.window.effective if mark is not None and mark.window is not None else None
