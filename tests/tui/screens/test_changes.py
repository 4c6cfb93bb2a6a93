"""The screen of changed files: its rows, its keys, and names that would do harm."""

import pytest
from rich.cells import cell_len

from ebbtide.agent.records.file_change import FileChange, FileChanges
from ebbtide.tui.view.file_changes import (
    NOT_BY_TOOLS_NOTE,
    FileChangeRow,
    change_line,
    change_rows,
    change_text,
    changes_headline,
)
from ebbtide.tui.widgets.diff_view import DiffView
from ebbtide.tui.widgets.listing import Listing
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeFiles, FakeSession
from tests.kit.plain_lines import plain

CHANGED = (
    FileChange("made.py", None, b"print(1)\n"),
    FileChange("src/\x1b]0;x\x07\u202e.py", b"a\nb\n", b"a\nc\n", note="changed since, not by this session's tools"),
    FileChange("huge", incomparable_reason="its previous content was not stored"),
    FileChange("same", b"x", b"x", note="unchanged"),
    FileChange("by_shell", b"one\n", None, is_by_tool=False),
)


def test_files_that_tools_changed_come_first_and_each_has_its_numbers() -> None:
    rows = change_rows(FileChanges("session", (CHANGED[4], *CHANGED[:3])))
    assert [(row.name, row.added_count, row.removed_count, row.is_known) for row in rows] == [
        ("made.py", 1, 0, True),
        (CHANGED[1].name, 1, 1, True),
        ("huge", 0, 0, False),
        ("by_shell", 0, 1, True),
    ]
    assert [plain(change_line(row, 30)).rstrip() for row in rows] == [
        "  made.py                +1 −0",
        "  src/␛]0;x␇\N{REPLACEMENT CHARACTER}.py         +1 −1",
        "  huge                       ?",
        "~ by_shell               +0 −1",
    ]
    assert [row.note for row in rows[2:]] == ["its previous content was not stored", NOT_BY_TOOLS_NOTE]


def test_without_columns_a_file_is_a_sentence() -> None:
    rows = change_rows(FileChanges("session", CHANGED))
    assert [change_text(row) for row in (rows[0], rows[2], rows[4])] == [
        "made.py: 1 line added, 0 removed",
        "huge (its previous content was not stored)",
        "by_shell: 0 lines added, 1 removed (not changed by this session's tools)",
    ]


@pytest.mark.parametrize("width", [1, 5, 10, 20, 40])
def test_the_end_of_a_long_name_is_kept(width: int) -> None:
    row = FileChangeRow("a/very/long/way/to/日本語/file.py", "", 1, 2, "")
    line = plain(change_line(row, width))
    assert cell_len(line) <= max(width, len("  …  +1 −2"))
    assert width < 20 or "file.py" in line


def test_the_headline_says_what_is_not_known() -> None:
    rows = change_rows(FileChanges("turn", CHANGED))
    lines = [plain(line) for line in changes_headline("turn", rows, ("no git\x1b[2J",))]
    assert lines == [
        "Files  4 files changed in the last turn  +2 −1; 1 other differs from the last commit",
        "~ not changed by this session's tools",
        "no git␛[2J",
    ]


@pytest.mark.parametrize(
    ("others", "headline"),
    [
        (0, "Files  no files changed in this session"),
        (1, "Files  no files changed in this session; 1 other differs from the last commit"),
        (6, "Files  no files changed in this session; 6 others differ from the last commit"),
    ],
)
def test_files_that_only_git_knows_of_are_not_said_to_be_of_the_session(others: int, headline: str) -> None:
    rows = change_rows(FileChanges("session", (CHANGED[4],) * others))
    assert plain(changes_headline("session", rows, ())[0]) == headline


def text_of(view: DiffView) -> str:
    return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))


async def test_f4_shows_what_the_last_turn_changed() -> None:
    async with terminal(FakeSession(file_history=FakeFiles(CHANGED, ("something is not known",)))) as t:
        await t.pilot.press("f4")
        screen = await t.lists("diff")
        view = screen.query_one(DiffView)
        await t.until(lambda: "+ print(1)" in text_of(view))
        await t.press("down", until=lambda: "- b" in text_of(view))
        await t.press("j", until=lambda: "not stored" in t.reads("said"))
        await t.pilot.press("end", "k", "k", "up")
        assert screen.query_one(Listing).marked_index == 0
        await t.press("f4", "escape", until=lambda: t.app.screen is not screen)


async def test_s_turns_to_the_session_and_back() -> None:
    async with terminal(FakeSession(file_history=FakeFiles(CHANGED))) as t:
        await t.opens("/diff")
        assert "4 files changed in the last turn" in t.reads("headline")
        await t.pilot.press("s")
        await t.until(lambda: "4 files changed in this session  +2 −1; 1 other differs" in t.reads("headline"))
        await t.press("s", until=lambda: "4 files changed in the last turn" in t.reads("headline"))
        await t.pilot.press("q")


@pytest.mark.parametrize("command", ["/diff session", "/files"])
async def test_the_whole_session(command: str) -> None:
    async with terminal(FakeSession(file_history=FakeFiles(CHANGED))) as t:
        await t.opens(command, "diff")
        assert "4 files changed in this session  +2 −1; 1 other differs" in t.reads("headline")


@pytest.mark.parametrize("size", [(10, 5), (1, 1), (30, 8), (200, 12)])
async def test_small_screens_and_no_files(size: tuple[int, int]) -> None:
    for files in (CHANGED, ()):
        async with terminal(FakeSession(file_history=FakeFiles(files)), size=size) as t:
            await t.pilot.press("f4")
            await t.lists("diff")
            await t.pilot.press("down", "n", "p", "m", "pagedown", "pageup", "home", "end", "up")
            await t.pilot.resize_terminal(120, 40)
            headline = "4 files changed" if files else "no files changed"
            assert headline in t.reads("headline")
            await t.press("down", "escape", until=lambda: len(t.app.screen_stack) == 1)
