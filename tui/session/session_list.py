"""The list of stored sessions, which can be searched, opened, renamed, forked and deleted."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ebbtide.agent.archive.tags import normalise_tags
from ebbtide.agent.errors import AgentError
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import LoadedText, Panel, PanelAction, PanelRow, ShowMessage, TextRequest
from ebbtide.tui.view.sessions import (
    MIN_SIDE_BY_SIDE_WIDTH,
    MORE_AGENTS_SUFFIX,
    more_agents_row,
    session_details,
    session_line,
    sessions_headline,
    tags_text,
)

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.archive.library import Library


class SessionLoader:
    """The sessions in the list; empty until the first page is loaded. If a method raises `AgentError`, the list is
    unchanged."""

    def __init__(self, library: "Library") -> None:
        self._library = library
        self.sessions: list[SessionInfo] = []
        self.includes_all_projects = False
        """Whether all projects are listed."""
        self.search_text = ""
        """What the user is searching for; empty to list all sessions."""
        self.has_more = False
        """Whether there may be another page."""
        self.search_status = ""
        """Short text about a search that is running, or about what it could not search; otherwise empty."""
        self._excerpts: dict[str, str] = {}

    def excerpt_of(self, info: SessionInfo) -> str:
        """Get the matching excerpt from a session's messages; empty if the title matches."""
        return self._excerpts.get(info.id, "")

    async def load_first_page(self) -> None:
        """Load the first page or, in a search, the sessions whose titles match."""
        page = await self._library.page(in_all_projects=self.includes_all_projects, query=self.search_text)
        self.sessions, self._excerpts, self.has_more = list(page), {}, bool(page)
        self.search_status = "searching messages …" if self.search_text else ""

    async def add_text_matches(self) -> None:
        """Append the sessions whose messages match. `search_status` then says what is not searchable yet."""
        matches, self.search_status = await self._library.search(
            self.search_text, in_all_projects=self.includes_all_projects
        )
        listed_ids = {info.id for info in self.sessions}
        self._excerpts = {match.info.id: match.excerpt for match in matches}
        self.sessions += [match.info for match in matches if match.info.id not in listed_ids]

    async def load_next_page(self) -> None:
        """Add the next page."""
        page = await self._library.page(in_all_projects=self.includes_all_projects, after=self.sessions[-1])
        self.sessions += page
        self.has_more = bool(page)


SESSIONS_KEY_HINTS = "Enter open   Tab to list: r rename, t tag, f fork, d delete, a all   Esc close"
SESSIONS_LIST_KEY_HINTS = (
    "Enter open   r rename   t tag   f fork   d delete   a all projects   PgUp, PgDn scroll   Esc close"
)
SEARCH_DELAY_S = 0.15
"""Seconds without a key press before messages are searched."""
REFRESH_DELAY_S = 1.0
"""Seconds between searches while sessions are being indexed."""
MAX_LISTED_AGENTS = 3
"""Maximum number of sub-agent sessions listed under a session that is not expanded."""
MAX_PREVIEW_MESSAGES = 12
"""Maximum number of messages in a session's preview."""
UNLISTED_SESSION = SessionInfo("", "", "", 0.0, 0, "")
TITLE_REQUEST = TextRequest(lambda row: row.title, "Enter save   Esc cancel", "New title")
TAGS_REQUEST = replace(TITLE_REQUEST, label="Tags, separated by spaces", may_be_empty=True)


class SessionList:
    def __init__(self, library: "Library", current_id: str, now: float) -> None:
        """`current_id`: id of the open session. `now`: current time in Unix seconds."""
        self._library = library
        self._current_id = current_id
        self._now = now
        self._loader = SessionLoader(library)
        self._parent_by_deleted_id: dict[str, str] = {}
        """Ids of sessions marked for deletion, mapped to the id of their parent session or an empty string."""
        self._expanded_ids: set[str] = set()
        """Sessions whose sub-agents are all shown."""
        self._on_change: Callable[[], None] | None = None

    @property
    def ids_to_delete(self) -> tuple[str, ...]:
        """Ids of the sessions to delete once the list is closed."""
        return tuple(
            session_id
            for session_id, parent_id in self._parent_by_deleted_id.items()
            if parent_id not in self._parent_by_deleted_id
        )

    def build_panel(self, marked_id: str = "", message: ShowMessage | None = None) -> Panel:
        loader = self._loader
        may_have_more = loader.has_more and len(loader.sessions) >= 200
        headline = sessions_headline(
            len(loader.sessions),
            may_have_more,
            includes_all_projects=loader.includes_all_projects,
            search_text=loader.search_text,
            search_status=loader.search_status,
            deletion_count=len(self._parent_by_deleted_id),
        )
        actions = (
            PanelAction(("enter",), "show", self._expand, is_available=_is_more_row),
            PanelAction(("enter",), "open", is_available=lambda row: not self._will_delete(row)),
            PanelAction(("r",), "rename", self._rename, is_available=_is_session, text_request=TITLE_REQUEST),
            PanelAction(
                ("t",),
                "tag",
                self._tag,
                is_available=_is_session,
                text_request=replace(TAGS_REQUEST, initial_text=self._tags_of),
            ),
            PanelAction(("f",), "fork", self._fork, is_available=_is_session),
            PanelAction(("d", "delete"), "delete", self._toggle_deletion, is_available=_is_session),
            PanelAction(("a",), run=self._toggle_projects, needs_row=False),
        )
        return Panel(
            "sessions",
            (headline,),
            tuple(row for info in loader.sessions for row in self._build_rows(info)),
            SESSIONS_KEY_HINTS,
            SESSIONS_LIST_KEY_HINTS,
            empty_message="no sessions in this project yet",
            no_match_message="no match",
            actions=actions,
            search_placeholder="type to find titles, #tags and messages",
            initial_value=marked_id,
            page_keys_scroll_details=True,
            min_side_by_side_width=MIN_SIDE_BY_SIDE_WIDTH,
            message=message,
            find_rows=self._search,
            load_more=self._load_more if loader.has_more and not loader.search_text else None,
            set_watcher=self._set_watcher,
            rebuild=self.build_panel,
        )

    def _build_rows(self, info: SessionInfo) -> Iterator[PanelRow]:
        """Yield the row of a session and, unless the user is searching, the rows of its sub-agents."""
        yield self._build_row(info)
        if self._loader.search_text:
            return
        is_collapsed = len(info.agents) > MAX_LISTED_AGENTS + 1 and info.id not in self._expanded_ids
        yield from map(self._build_row, info.agents[:MAX_LISTED_AGENTS] if is_collapsed else info.agents)
        if is_collapsed:
            yield more_agents_row(info, MAX_LISTED_AGENTS)

    def _build_row(self, info: SessionInfo) -> PanelRow:
        projects, excerpt = self._loader.includes_all_projects, self._loader.excerpt_of(info)
        ids_to_delete = (
            (*self._parent_by_deleted_id, info.id)
            if info.owner in self._parent_by_deleted_id
            else self._parent_by_deleted_id
        )
        draw = partial(
            session_line,
            info,
            now=self._now,
            current_id=self._current_id,
            ids_to_delete=ids_to_delete,
            shows_projects=projects,
        )
        return PanelRow(
            info.id, draw, content=LoadedText(self._load_details, (info, excerpt)), title=sanitise_line(info.title)
        )

    async def _load_details(self, info: SessionInfo, excerpt: str) -> Sequence[Line]:
        return session_details(info, excerpt, await self._library.last_messages(info.id, MAX_PREVIEW_MESSAGES))

    def _set_watcher(self, on_change: Callable[[], None] | None) -> None:
        self._on_change = on_change

    async def _search(self, text: str) -> AsyncIterator[Panel]:
        loader = self._loader
        loader.search_text = text.strip()
        try:
            await loader.load_first_page()
            yield self.build_panel("" if loader.search_text else self._current_id)
            if loader.search_text:
                await asyncio.sleep(SEARCH_DELAY_S)
                await loader.add_text_matches()
                yield self.build_panel()
                while loader.search_status and self._on_change is not None:  # a screen shows the list
                    await asyncio.sleep(REFRESH_DELAY_S)
                    await loader.add_text_matches()
                    yield self.build_panel()
        except AgentError:
            loader.search_status = ""
            raise

    async def _load_more(self) -> Panel:
        await self._loader.load_next_page()
        return self.build_panel()

    async def _expand(self, row: PanelRow, _: str) -> Panel:
        session_id = row.value.removesuffix(MORE_AGENTS_SUFFIX)
        self._expanded_ids.add(session_id)
        (info,) = (info for info in self._loader.sessions if info.id == session_id)
        return self.build_panel(info.agents[MAX_LISTED_AGENTS].id)

    def _will_delete(self, row: PanelRow) -> bool:
        return row.value in self._parent_by_deleted_id or self._parent_id(row.value) in self._parent_by_deleted_id

    def _parent_id(self, session_id: str) -> str:
        """Get the id of a sub-agent session's parent; empty if there is none."""
        return self._find_session(session_id).owner

    def _find_session(self, session_id: str) -> SessionInfo:
        listed_sessions = (session for info in self._loader.sessions for session in (info, *info.agents))
        return next((info for info in listed_sessions if info.id == session_id), UNLISTED_SESSION)

    async def _rename(self, row: PanelRow, title: str) -> Panel:
        await self._library.rename(row.value, title)
        return await self._reload_panel(row.value)

    def _tags_of(self, row: PanelRow) -> str:
        return tags_text(self._find_session(row.value).tags)

    async def _tag(self, row: PanelRow, text: str) -> Panel:
        tags = normalise_tags(text.replace(",", " ").split())
        await self._library.change_tags(row.value, tags, None)
        return await self._reload_panel(row.value)

    async def _fork(self, row: PanelRow, _: str) -> Panel:
        fork = await self._library.fork(row.value)
        message = ShowMessage(f"forked as `{fork.id}`; `{row.value}` is unchanged")
        return await self._reload_panel(fork.id, message)

    async def _toggle_projects(self, row: PanelRow, _: str) -> Panel:
        self._loader.includes_all_projects = not self._loader.includes_all_projects
        return await self._reload_panel(row.value)

    async def _reload_panel(self, marked_id: str, message: ShowMessage | None = None) -> Panel:
        """Reload the list and build the panel with this row marked."""
        await self._loader.load_first_page()
        if self._loader.search_text:
            await self._loader.add_text_matches()
        return self.build_panel(marked_id, message)

    async def _toggle_deletion(self, row: PanelRow, _: str) -> Panel:
        """Mark or unmark a session for deletion, which happens when the list is closed."""
        session_id = row.value
        if session_id == self._current_id:
            message = ShowMessage("this session is open: start another one with `/clear`, then delete it", "warn")
        elif session_id in self._parent_by_deleted_id:
            del self._parent_by_deleted_id[session_id]
            message = ShowMessage(f"`{session_id}` will not be deleted")
        elif (parent_id := self._parent_id(session_id)) in self._parent_by_deleted_id:
            message = ShowMessage(
                f"`{session_id}` will be deleted together with `{parent_id}`, which started it", "warn"
            )
        else:
            self._parent_by_deleted_id[session_id] = parent_id
            agents_phrase = (
                " and its agent sessions"
                if any(session_id == info.id and info.agents for info in self._loader.sessions)
                else ""
            )
            message = ShowMessage(
                f"`{session_id}`{agents_phrase} will be deleted when you close this list; d to undo", "warn"
            )
        return self.build_panel(message=message)


def _is_more_row(row: PanelRow) -> bool:
    return row.value.endswith(MORE_AGENTS_SUFFIX)


def _is_session(row: PanelRow) -> bool:
    return not _is_more_row(row)
