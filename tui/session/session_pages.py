"""The sessions that are listed, as far as they are known by now: page by page, or those that some words find."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.records.session_lookup import SessionInfo

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from agent.archive.library import Library


class Listed:
    """Begins empty. What goes wrong in the library is raised as `AgentError`, and what was listed stays."""

    def __init__(self, library: "Library") -> None:
        self._library = library
        self.sessions: list[SessionInfo] = []
        self.everywhere = False
        """Those of all projects are listed, not only of this one."""
        self.words = ""
        """What they are found by; empty for all."""
        self.has_more = False
        """There may be another page."""
        self.searching = ""
        """What is still looked for, in a few words."""
        self._excerpts: dict[str, str] = {}

    def excerpt_of(self, info: SessionInfo) -> str:
        """Where the words were said in it; empty where its title has them."""
        return self._excerpts.get(info.id, "")

    async def begin(self) -> None:
        """Lists the first page of all, or those that have the words in their title."""
        page = await self._library.page(everywhere=self.everywhere, words=self.words)
        self.sessions, self._excerpts, self.has_more = list(page), {}, bool(page)
        self.searching = "searching what was said …" if self.words else ""

    async def add_said(self, changed: Callable[[], None]) -> None:
        """Adds the sessions in which the words were said, behind those that have them in their title, as often as more
        of what was said could be looked through. `changed` is called when there is something else to see."""
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
        """Adds the page behind the last session."""
        page = await self._library.page(everywhere=self.everywhere, after=self.sessions[-1])
        self.sessions += page
        self.has_more = bool(page)
