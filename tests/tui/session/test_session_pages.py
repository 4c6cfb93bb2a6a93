"""The sessions that words find, as far as what was said could be looked through."""

from collections.abc import Callable

from ebbtide.agent.archive.library import SessionMatch
from ebbtide.tools.outputs.recall_results import no_progress
from ebbtide.tui.session.session_list import SessionLoader
from tests.kit.fake_sessions import FakeLibrary, session_info

INFOS = tuple(session_info(f"{number}a", f"title {number}") for number in range(3))


class Slow(FakeLibrary):
    """A library that looks through the messages of one more session with each search."""

    def __init__(self, readable: int) -> None:
        super().__init__(INFOS)
        self.readable = readable
        self.read = 0

    async def search(
        self, query: str, *, in_all_projects: bool = False, on_progress: Callable[[int, int], None] = no_progress
    ) -> tuple[SessionMatch, ...]:
        before, self.read = self.read, min(self.read + 1, self.readable)
        on_progress(100 * (self.read - before), 300 - 100 * before)
        return tuple(SessionMatch(info, f"query of {info.id}") for info in reversed(INFOS[: self.read]))


async def listed(library: Slow) -> tuple[SessionLoader, list[str]]:
    found, seen = SessionLoader(library), list[str]()
    found.search_text = "query"
    await found.load_first_page()
    await found.add_text_matches(lambda: seen.append(f"{len(found.sessions)} {found.search_status}"))
    return found, seen


async def test_what_is_found_is_listed_while_the_rest_is_looked_through() -> None:
    found, seen = await listed(Slow(3))
    assert [info.id for info in found.sessions] == ["0a", "1a", "2a"]
    assert seen == [
        "0 reading 100 of 300 messages …",
        "1 reading 100 of 300 messages …",
        "1 reading 100 of 200 messages …",
        "2 reading 100 of 200 messages …",
        "2 reading 100 of 200 messages …",
    ]
    assert (found.search_status, found.excerpt_of(INFOS[1])) == ("", "query of 1a")


async def test_what_cannot_be_looked_through_is_said() -> None:
    found, _ = await listed(Slow(1))
    assert ([info.id for info in found.sessions], found.search_status) == (
        ["0a"],
        "200 older messages were not searched",
    )
