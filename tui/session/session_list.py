"""The list of stored sessions: search, rename, fork and deletion. It returns the session to open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ebbtide.agent.archive.tags import tags_named
from ebbtide.agent.errors import AgentError
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import AskForText, LoadedText, Panel, PanelAction, PanelRow, ShowMessage
from ebbtide.tui.view.sessions import (
    MORE,
    WIDE,
    about_lines,
    headline,
    more_agents,
    session_line,
    session_words,
    tags_text,
)

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.archive.library import Library


class ListedSessions:
    """Starts empty. Errors are raised as `AgentError`, and the listed sessions stay."""

    def __init__(self, library: "Library") -> None:
        self._library = library
        self.sessions: list[SessionInfo] = []
        self.everywhere = False
        """Whether all projects are listed."""
        self.words = ""
        """The search text; empty for all."""
        self.has_more = False
        """Whether there may be another page."""
        self.searching = ""
        """What is still being searched, in a few words."""
        self._excerpts: dict[str, str] = {}

    def excerpt_of(self, info: SessionInfo) -> str:
        """The match in a session's messages; empty if its title matches."""
        return self._excerpts.get(info.id, "")

    async def begin(self) -> None:
        """List the first page, or the sessions whose title matches."""
        page = await self._library.page(everywhere=self.everywhere, words=self.words)
        self.sessions, self._excerpts, self.has_more = list(page), {}, bool(page)
        self.searching = "searching what was said …" if self.words else ""

    async def add_text_matches(self, changed: Callable[[], None]) -> None:
        """Add sessions whose messages match, after those whose title matches, as indexing continues. `changed` is
        called after each addition."""
        left = 0

        def told(done: int, total: int) -> None:
            nonlocal left
            left = total - done
            self.searching = f"reading {done:,} of {total:,} messages …" if left else self.searching
            changed()

        while True:
            before = left
            found = await self._library.search(self.words, everywhere=self.everywhere, told=told)
            known = {info.id for info in self.sessions}
            self._excerpts = {one.info.id: one.excerpt for one in found}
            self.sessions += [one.info for one in found if one.info.id not in known]
            if not left or 0 < before <= left:
                break
            changed()
        self.searching = f"{left:,} older messages were not searched" if left else ""

    async def add_page(self) -> None:
        """Add the next page."""
        page = await self._library.page(everywhere=self.everywhere, after=self.sessions[-1])
        self.sessions += page
        self.has_more = bool(page)


KEYS = "Enter opens   Tab to list: r renames, t tags, f forks, d deletes, a all   Esc closes"
LIST_KEYS = "Enter opens   r renames   t tags   f forks   d deletes   a all projects   PgUp, PgDn   Esc closes"
SEARCH_DELAY_S = 0.15
"""Seconds without a key before messages are searched. A running search completes, and the next one waits for it."""
MAX_SHOWN_AGENTS = 3
"""Maximum sub-agent sessions listed at first."""
MAX_PREVIEW_MESSAGES = 12
"""Maximum messages shown of a session."""
NOT_LISTED = SessionInfo("", "", "", 0.0, 0, "")
TAG_KEYS, TAGS = (
    "Enter keeps the tags   Esc cancels",
    "Tags, with blanks between them; `none` takes them away, an empty line cancels: ",
)
NAME = AskForText(lambda row: row.title, "Enter keeps the title   Esc cancels", "New title; an empty line cancels: ")


class SessionList:
    def __init__(self, library: "Library", current: str, now: float) -> None:
        """`current`: the id of the open session; `now`: Unix seconds."""
        self._library = library
        self._current = current
        self._now = now
        self._listed = ListedSessions(library)
        self._doomed: dict[str, str] = {}
        """The owners of the sessions to be deleted, by id."""
        self._unfolded: set[str] = set()
        """Sessions whose sub-agents are all listed."""
        self._changed: Callable[[], None] | None = None

    @property
    def ids_to_delete(self) -> tuple[str, ...]:
        """The ids of the sessions to delete when the list is closed."""
        return tuple(id for id, owner in self._doomed.items() if owner not in self._doomed)

    def panel(self, mark: str = "", told: ShowMessage | None = None) -> Panel:
        listed = self._listed
        more = listed.has_more and len(listed.sessions) >= 200
        head = headline(
            len(listed.sessions), more, everywhere=listed.everywhere, words=listed.words, searching=listed.searching,
            doomed=len(self._doomed),
        )  # fmt: skip
        actions = (
            PanelAction(("enter",), "show", self._unfold, can=_stands_for_more),
            PanelAction(("enter",), "open", can=lambda row: not self._will_delete(row)),
            PanelAction(("r",), "rename", self._rename, can=_is_session, asks=NAME),
            PanelAction(
                ("t",),
                "tag",
                self._tag,
                can=_is_session,
                asks=AskForText(self._tags_of, TAG_KEYS, TAGS, nothing="none"),
            ),
            PanelAction(("f",), "fork", self._fork, can=_is_session),
            PanelAction(("d", "delete"), "delete", self._toggle_deletion, can=_is_session),
            PanelAction(("a",), do=self._turn_to_all, needs_row=False),
        )
        return Panel(
            "sessions",
            (head,),
            tuple(row for info in listed.sessions for row in self._rows(info)),
            KEYS,
            LIST_KEYS,
            empty="no session in this project yet",
            not_found="no session is found",
            plain_head="Go on with a session; `rename 3`, `tag 3`, `fork 3` and `delete 3` do that with the third.",
            actions=actions,
            search="type to find: titles, #tags, and what was said",
            mark=mark,
            reads=True,
            min_width_beside=WIDE,
            message=told,
            find=self._find,
            more=self._more if listed.has_more and not listed.words else None,
            watch=self._watch,
            now=self.panel,
        )

    def _rows(self, info: SessionInfo) -> Iterator[PanelRow]:
        """A session with its sub-agent sessions below; only itself in search results."""
        yield self._row(info)
        if self._listed.words:
            return
        few = len(info.agents) > MAX_SHOWN_AGENTS + 1 and info.id not in self._unfolded
        yield from map(self._row, info.agents[:MAX_SHOWN_AGENTS] if few else info.agents)
        if few:
            yield more_agents(info, MAX_SHOWN_AGENTS)

    def _row(self, info: SessionInfo) -> PanelRow:
        projects, excerpt = self._listed.everywhere, self._listed.excerpt_of(info)
        doomed = (*self._doomed, info.id) if info.owner in self._doomed else self._doomed
        draw = partial(session_line, info, now=self._now, current=self._current, doomed=doomed, projects=projects)
        return PanelRow(
            info.id, draw, session_words(info, self._now), content=LoadedText(self._about, (info, excerpt)),
            title=sanitised_line(info.title),
        )  # fmt: skip

    async def _about(self, info: SessionInfo, excerpt: str) -> Sequence[Line]:
        return about_lines(info, excerpt, await self._library.last_messages(info.id, MAX_PREVIEW_MESSAGES))

    def _watch(self, changed: Callable[[], None] | None) -> None:
        self._changed = changed

    async def _find(self, words: str) -> AsyncIterator[Panel]:
        listed = self._listed
        listed.words = words.strip()
        try:
            await listed.begin()
            yield self.panel("" if listed.words else self._current)
            if listed.words:
                await asyncio.sleep(SEARCH_DELAY_S)
                await listed.add_text_matches(lambda: self._changed() if self._changed is not None else None)
                yield self.panel()
        except AgentError:
            listed.searching = ""
            raise

    async def _more(self) -> Panel:
        await self._listed.add_page()
        return self.panel()

    async def _unfold(self, row: PanelRow, _: str) -> Panel:
        id = row.value.removesuffix(MORE)
        self._unfolded.add(id)
        (info,) = (info for info in self._listed.sessions if info.id == id)
        return self.panel(info.agents[MAX_SHOWN_AGENTS].id)

    def _will_delete(self, row: PanelRow) -> bool:
        return row.value in self._doomed or self._owner_of(row.value) in self._doomed

    def _owner_of(self, id: str) -> str:
        """The parent session of a sub-agent session, or empty."""
        return self._info(id).owner

    def _info(self, id: str) -> SessionInfo:
        listed = (one for info in self._listed.sessions for one in (info, *info.agents))
        return next((info for info in listed if info.id == id), NOT_LISTED)

    async def _rename(self, row: PanelRow, title: str) -> Panel:
        await self._library.rename(row.value, title)
        return await self._again(row.value)

    def _tags_of(self, row: PanelRow) -> str:
        return tags_text(self._info(row.value).tags)

    async def _tag(self, row: PanelRow, words: str) -> Panel:
        tags = tags_named(words.replace(",", " ").split())
        await self._library.tag(row.value, tags, None)
        return await self._again(row.value)

    async def _fork(self, row: PanelRow, _: str) -> Panel:
        fork = await self._library.fork(row.value)
        told = ShowMessage(f"forked: `{fork.id}` begins as `{row.value}`, which stays as it is")
        return await self._again(fork.id, told)

    async def _turn_to_all(self, row: PanelRow, _: str) -> Panel:
        self._listed.everywhere = not self._listed.everywhere
        return await self._again(row.value)

    async def _again(self, mark: str, told: ShowMessage | None = None) -> Panel:
        """The list, reloaded."""
        await self._listed.begin()
        if self._listed.words:
            await self._listed.add_text_matches(lambda: None)
        return self.panel(mark, told)

    async def _toggle_deletion(self, row: PanelRow, _: str) -> Panel:
        """Mark a session for deletion when the list is closed, or unmark it."""
        id = row.value
        if id == self._current:
            told = ShowMessage("this session is open: `/clear` starts another one, then it can be deleted", "warn")
        elif id in self._doomed:
            del self._doomed[id]
            told = ShowMessage(f"`{id}` stays")
        elif (owner := self._owner_of(id)) in self._doomed:
            told = ShowMessage(f"`{id}` goes with `{owner}`, whose agent it was", "warn")
        else:
            self._doomed[id] = owner
            with_it = (
                " with those of its agents"
                if any(id == info.id and info.agents for info in self._listed.sessions)
                else ""
            )
            told = ShowMessage(f"`{id}` is deleted{with_it} when you close this list; d again keeps it", "warn")
        return self.panel(told=told)


def _stands_for_more(row: PanelRow) -> bool:
    return row.value.endswith(MORE)


def _is_session(row: PanelRow) -> bool:
    return not _stands_for_more(row)
