"""Going back to before a message, in real sessions and on played trees."""

from pathlib import Path

from ebbtide.agent.archive.tree import Branch, MessagePreview, SessionTree, tree_rows
from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.tui.commands.sessions import FILES_NOTE, MAX_LISTED_FILES, changed_file_lines, rewind_notice, tree_line
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.panel import row_text
from tests.kit.app_pilot import list_on, started
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions, conversation
from tests.kit.plain_lines import plain
from tests.tui.test_real_session import Reply, calls, working

TREE = SessionTree(
    (
        Branch("abc123", "parser", "", 0,
               (MessagePreview("abc123", 0, "fix the parser", 0.0), MessagePreview("abc123", 2, "test it", 5.0)),
               ((1, "parser.py"), (3, "tests.py")), 4),
        Branch("fork1", "parser", "abc123", 2, (MessagePreview("fork1", 2, "document it", 9.0),), (), 4),
    )
)  # fmt: skip


async def test_a_message_comes_back_to_the_prompt_and_the_branch_that_was_left_is_in_the_tree(tmp_path: Path) -> None:
    edit = calls("edit", path="calc.py", old="a - b", new="a + b")
    replies: list[Reply] = [{"text": "Hello."}, calls("read", path="calc.py"), edit, {"text": "Mended."}]
    async with working(tmp_path, *replies) as t:
        await t.says("hi", shows="Hello.")
        await t.type("mend it", asks=PermissionAsked)
        await t.press("y", shows="Mended.")
        await t.rests()
        first = t.session
        screen = await t.opens("/rewind")
        message = t.reads("said")
        assert FILES_NOTE in message
        assert "calc.py" in message
        await t.press("enter")
        fork = t.session
        assert fork.id != first.id
        assert fork.history.messages == first.history.messages[:2]
        assert t.prompt.text == "mend it"
        notice = t.app.controller.view.blocks[-1]
        assert isinstance(notice, Notice)
        assert notice.text.endswith("Files not restored: calc.py")
        assert "a + b" in (tmp_path / "project" / "calc.py").read_text()

        t.prompt.set_text("")
        screen = await t.opens("/rewind")
        assert [row_text(row).split(",")[0] for row in screen.rows] == ["hi", "mend it"]
        await t.press("down", "o")
        assert t.session.id == first.id
        assert t.session.history.messages == first.history.messages
        library = await t.app.controller.sessions.open_library()
        assert [info.id for info in await library.page()] == [first.id], "the fork in which nothing was said is gone"


async def test_the_first_message_can_be_said_anew(tmp_path: Path) -> None:
    async with working(tmp_path, {"text": "Hello."}) as t:
        await t.says("hi", shows="Hello.")
        await t.opens("/rewind")
        await t.press("enter")
        assert (t.session.history.messages, t.prompt.text) == ((), "hi")
        t.prompt.set_text("hey")
        await t.press("enter", shows="hey")


async def test_esc_twice_in_an_empty_prompt_goes_there_too() -> None:
    opener = FakeSessions([FakeSession(history=conversation(1))], listing=FakeLibrary(branches=TREE))
    async with started(opener) as t:
        await t.rests()
        t.prompt.set_text("x")
        await t.pilot.press("escape", "escape")
        assert not list_on(t.app, "rewind")
        t.prompt.set_text("")
        await t.pilot.press("escape")
        await t.pilot.press("escape")
        await t.lists("rewind")
        await t.pilot.press("escape")
        await t.rests()
        assert not list_on(t.app, "rewind")


async def test_where_nothing_was_said_there_is_nothing_to_go_back_to() -> None:
    opener = FakeSessions([FakeSession()], listing=FakeLibrary())
    async with started(opener) as t:
        await t.rests()
        await t.type("/rewind", shows="nothing to go back to")


def test_a_line_shows_where_it_stands_in_the_tree() -> None:
    rows = tree_rows(TREE, "fork1")
    lines = [plain(tree_line(row, 40, 3_600.0)) for row in rows]
    assert [line.rstrip().rsplit("  ", 1)[0].rstrip() for line in lines] == [
        "  ● fix the parser", "  ○ test it", "│ ↳ ● document it",
    ]  # fmt: skip


def test_files_that_were_changed_are_named_as_far_as_there_is_room() -> None:
    assert [plain(line) for line in changed_file_lines(())][1].startswith("No edits since then")
    many = [f"{number}.py" for number in range(MAX_LISTED_FILES + 2)]
    assert [plain(line) for line in changed_file_lines(many)][-1] == "  … 2 more"
    assert rewind_notice(many).endswith(" and 2 more")
    assert "Files" not in rewind_notice(())
