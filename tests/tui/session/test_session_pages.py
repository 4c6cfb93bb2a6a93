"""The sessions that words find, as far as what was said can be looked through."""

from collections.abc import Callable

import pytest

from ebbtide.agent.archive.library import SessionMatch
from ebbtide.tui.session import session_list
from ebbtide.tui.session.session_list import SessionList, SessionLoader
from ebbtide.tui.view.panel import Panel
from tests.kit.fake_sessions import FakeLibrary, session_info

INFOS = tuple(session_info(f"{number}a", f"title {number}") for number in range(3))


class Growing(FakeLibrary):
    """A library in which one more session has been indexed with each search."""

    def __init__(self) -> None:
        super().__init__(INFOS)
        self.indexed = 0

    async def search(self, query: str, *, in_all_projects: bool = False) -> tuple[tuple[SessionMatch, ...], str]:
        self.indexed = min(self.indexed + 1, len(INFOS))
        found = tuple(SessionMatch(info, f"query of {info.id}") for info in reversed(INFOS[: self.indexed]))
        return found, f"{self.indexed} of 3 searchable" if self.indexed < len(INFOS) else ""


async def test_what_is_found_is_listed_with_what_is_not_searchable_yet() -> None:
    found = SessionLoader(Growing())
    found.search_text = "query"
    await found.load_first_page()
    assert (found.sessions, found.search_status) == ([], "searching messages …")
    seen: list[tuple[list[str], str]] = []
    for _ in INFOS:
        await found.add_text_matches()
        seen.append(([info.id for info in found.sessions], found.search_status))
    assert seen == [
        (["0a"], "1 of 3 searchable"),
        (["0a", "1a"], "2 of 3 searchable"),
        (["0a", "1a", "2a"], ""),
    ]
    assert found.excerpt_of(INFOS[1]) == "query of 1a"


@pytest.mark.parametrize(("watcher", "expected"), [(lambda: None, [0, 1, 2, 3]), (None, [0, 1])])
async def test_a_screen_lists_what_is_indexed_meanwhile_and_line_mode_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, watcher: Callable[[], None] | None, expected: list[int]
) -> None:
    monkeypatch.setattr(session_list, "REFRESH_DELAY_S", 0.0)
    panel: Panel = SessionList(Growing(), "", 0.0).build_panel()
    assert panel.set_watcher is not None
    assert panel.find_rows is not None
    panel.set_watcher(watcher)
    assert [len(shown.rows) async for shown in panel.find_rows("query")] == expected
