"""Pictures of the panel beside the conversation. Look at every one that changes."""

from pathlib import Path

import pytest

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.records.file_change import FileChange
from ebbtide.tui.app import EbbApp
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.widgets.side_panel import SidePanel
from tests.kit.app_pilot import Driven
from tests.kit.fake_sessions import FakeFiles, FakeSession, FakeSessions
from tests.kit.pictures import Picture
from tests.kit.plain_lines import plain
from tests.kit.user_settings import Setup
from tests.tui.integrations.mcp.test_server_list import FakeBoard
from tests.tui.test_pictures_rest import WORK


def plain_lines(panel: SidePanel) -> list[str]:
    return [plain(line).rstrip() for line in panel.lines]


def app_in(folder: Path, theme: ThemeName) -> EbbApp:
    changed = tuple(FileChange(name, b"a\n", b"b\n") for name in ("src/a.py", "src/lexer.py", "tests/test_lexer.py"))
    session = FakeSession([WORK], servers=FakeBoard(), file_history=FakeFiles(changed=changed))
    text = "the last token of a line gets lost"
    settings = Setup(folder, f'[tui]\ntheme = "{theme}"\n').settings
    return EbbApp(FakeSessions([session]), first_message=text, guard_s=0.0, theme=theme, settings=lambda: settings)


@pytest.mark.parametrize(("theme", "picture"), [("dark", (160, 44)), ("light", (200, 60))], indirect=["picture"])
def test_the_work_beside_the_conversation(picture: Picture, theme: ThemeName, tmp_path: Path) -> None:
    assert picture(app_in(tmp_path, theme))


async def test_what_was_taken_back_is_no_change_any_more(tmp_path: Path) -> None:
    app = app_in(tmp_path, "dark")
    async with app.run_test(size=(160, 40)) as pilot:
        t = Driven(app, pilot)
        await t.shows("kept now")
        await t.rests()
        panel, session = app.screen.query_one(SidePanel), app.controller.session
        assert isinstance(session, FakeSession)
        await t.until(lambda: "Files  +3 −3" in plain_lines(panel))
        session.file_history = FakeFiles(changed=(FileChange("src/a.py", b"a\n", b"a\n"),))
        with app.controller.busy_with("restoring files"):
            await t.until(lambda: t.app.controller.view.is_busy and not t.app.context.presenter.schedule.is_due)
        await t.until(lambda: not any(line.startswith("Files") for line in plain_lines(panel)))


async def test_it_is_there_where_there_is_room_and_wanted_and_a_click_on_a_file_shows_the_changes(
    tmp_path: Path,
) -> None:
    app = app_in(tmp_path, "dark")
    async with app.run_test(size=(160, 40)) as pilot:
        t = Driven(app, pilot)
        await t.shows("kept now")
        await t.rests()
        panel = app.screen.query_one(SidePanel)
        await t.until(lambda: "Files  +3 −3" in plain_lines(panel))
        assert (panel.display, app.main_screen.transcript.size.width < 125) == (True, True)
        at = next(at for at, line in enumerate(panel.lines) if "src/lexer.py" in line[0][0])
        await pilot.click(SidePanel, offset=(6, at + 1))
        await t.lists("diff")
        assert isinstance(app.screen, PanelScreen)
        assert app.screen.marked_row is not None
        assert app.screen.marked_row.value == "src/lexer.py"
        await t.press("escape")
        await t.pilot.resize_terminal(139, 40)
        await t.until(lambda: not panel.display)
        assert app.main_screen.transcript.size.width > 130
        await t.pilot.resize_terminal(160, 40)
        await t.until(lambda: panel.display)
        await t.press("f5", until=lambda: not app.screen.query(SidePanel))
        await t.press("f5", until=lambda: app.screen.query(SidePanel))
