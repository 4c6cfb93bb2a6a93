"""The settings and the themes on the screen: what is chosen is worn, written and told."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from textual.widgets import Input

from ebbtide.agent.config.options import OPTIONS, ThemeName
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.settings_panel import allowed_values, setting_details, setting_line
from ebbtide.tui.commands.themes import build_themes_panel
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.view.panel import row_details
from ebbtide.tui.widgets.key_line import KeyLine
from tests.kit.app_pilot import Driven, list_on
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.plain_lines import plain
from tests.kit.user_settings import Setup

MINE = '[agent]\nmodel = "ollama/qwen3"  # the local one\n'


@asynccontextmanager
async def driven(setup: Setup | None, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Driven]:
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0, settings=(lambda: setup.settings) if setup else None)
    async with app.run_test(size=size) as pilot:
        screen = Driven(app, pilot)
        await screen.rests()
        yield screen


def told(screen: Driven) -> str:
    return screen.app.screen.query_one(KeyLine).text


async def test_a_theme_is_worn_while_it_is_marked_and_kept_when_it_is_taken(tmp_path: Path) -> None:
    setup = Setup(tmp_path, MINE)
    async with driven(setup) as screen:
        await screen.type("/theme", lists="theme")
        assert screen.app.theme == "ebb-dark"
        await screen.pilot.press("down")
        assert screen.app.theme == "ebb-light"
        await screen.press("enter", until=lambda: setup.written)
        assert setup.written == f'{MINE}\n[tui]\ntheme = "light"\n'
        assert screen.app.theme == "ebb-light"


async def test_a_theme_that_was_only_looked_at_goes(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/theme", lists="theme")
        await screen.pilot.press(*"high")
        assert screen.app.theme == "ebb-high-contrast"
        await screen.pilot.press("escape")
        assert screen.app.theme == "ebb-dark"
        assert setup.written == ""


async def test_a_theme_may_be_named(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/theme solarized", shows="unknown theme solarized")
        await screen.type("/theme ansi", until=lambda: setup.written == '[tui]\ntheme = "ansi"\n')
        assert screen.app.theme == "ebb-ansi"


async def test_without_colour_the_picker_says_so() -> None:
    worn: list[ThemeName] = []
    assert (
        "NO_COLOR"
        in row_details(build_themes_panel("auto", is_colorless=True, apply_theme=worn.append).rows[0])[0][0][0]
    )
    assert row_details(build_themes_panel("auto", is_colorless=False, apply_theme=worn.append).rows[0]) == ()


async def test_a_setting_is_changed_and_put_back(tmp_path: Path) -> None:
    setup = Setup(tmp_path, MINE)
    async with driven(setup) as screen:
        await screen.type("/settings", lists="settings")
        await screen.press(*"max_cost", "enter", *"2.5", "enter", until=lambda: "max_cost" in setup.written)
        assert setup.written == MINE.replace("one\n", "one\nmax_cost = 2.5\n")
        await screen.until(lambda: "`agent.max_cost` is now 2.5; takes effect in the next session" in told(screen))
        await screen.press("enter", until=lambda: screen.app.screen.query_one("#note", Input).has_focus)
        await screen.press("backspace", "enter", until=lambda: setup.written == MINE)
        await screen.until(lambda: "`agent.max_cost` is not set again" in told(screen))


async def test_what_a_setting_may_not_be_is_told_and_may_be_mended(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings max_cost", lists="settings")
        await screen.press("enter", *"pink", "enter", until=lambda: "`agent.max_cost` must be" in told(screen))
        box = screen.app.screen.query_one("#note", Input)
        box.value = "2"
        await screen.press("enter", until=lambda: setup.written == "[agent]\nmax_cost = 2\n")


async def test_a_choice_is_made_in_a_list_and_put_back(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings tui.theme", lists="settings")
        await screen.press("enter", until=lambda: list_on(screen.app, "values"))
        await screen.press("down", "down", "enter", until=lambda: list_on(screen.app, "settings"))
        await screen.until(lambda: "`tui.theme` is now light" in told(screen))
        assert (screen.app.theme, setup.written) == ("ebb-light", '[tui]\ntheme = "light"\n')
        await screen.press("enter", until=lambda: list_on(screen.app, "values"))
        await screen.press("up", "up", "enter", until=lambda: list_on(screen.app, "settings"))
        await screen.until(lambda: "`tui.theme` is auto again" in told(screen))
        assert setup.written == ""


async def test_a_switch_is_flipped_in_place(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings animation", lists="settings")
        assert "Enter switch off" in told(screen)
        await screen.press("enter", until=lambda: setup.written == "[tui]\nanimation = false\n")
        await screen.until(lambda: "`tui.animation` is now off" in told(screen))
        await screen.press("enter", until=lambda: setup.written == "[tui]\nanimation = true\n")


async def test_a_rule_is_added_in_the_list_of_rules(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings permissions.allow", lists="settings")
        await screen.press("enter", until=lambda: list_on(screen.app, "entries"))
        await screen.press("enter", *"bash(ls)", "enter", until=lambda: setup.written)
        assert setup.written == '[permissions]\nallow = ["bash(ls)"]\n'
        await screen.press("escape", until=lambda: list_on(screen.app, "settings"))


async def test_the_tabs_are_shown_one_at_a_time_in_a_circle(tmp_path: Path) -> None:
    async with driven(Setup(tmp_path)) as screen:
        await screen.type("/settings", lists="settings")

        def first() -> str:
            assert isinstance(screen.app.screen, PanelScreen)
            return screen.app.screen.rows[0].value

        await screen.press("right", until=lambda: first() == "agent.fallback_models")
        await screen.press("left", until=lambda: first() == "agent.model")
        await screen.press("left", until=lambda: first() == "agent.compact_trigger")
        await screen.press(*"theme", until=lambda: first() == "tui.theme")
        await screen.press("left", until=lambda: screen.app.screen.query_one("#filter", Input).cursor_position == 4)


async def test_leaving_the_box_changes_nothing(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings max_cost", lists="settings")
        await screen.pilot.press("enter", *"3", "escape")
        assert list_on(screen.app, "settings")
        await screen.press("escape", until=lambda: not list_on(screen.app, "settings"))
        assert setup.written == ""


async def test_where_nothing_can_be_changed_it_is_said() -> None:
    async with driven(None) as screen:
        await screen.type("/settings", shows="ebb config lists them")


def test_every_setting_says_what_it_may_be(tmp_path: Path) -> None:
    for option in OPTIONS:
        assert allowed_values(option.key) != "anything"
    rows = {row.key: row for row in Setup(tmp_path, MINE).settings.all_settings()}
    assert setting_line(rows["agent.model"], 80)[1:] == (("ollama/qwen3              ", "strong"), ("yours", "accent"))
    assert plain(setting_line(rows["agent.model"], 110)).split() == ["Model", "ollama/qwen3", "agent.model", "yours"]
    about = [plain(line) for line in setting_details(rows["recall.scope"])]
    assert "a project can only make it stricter" in about
    assert any("values: session, project, all · default: project · takes effect" in words for words in about)


def test_in_a_narrow_list_the_value_follows_its_name(tmp_path: Path) -> None:
    rows = {row.key: row for row in Setup(tmp_path, environment={"EBB_MODEL": "ollama/qwen3"}).settings.all_settings()}
    assert plain(setting_line(rows["agent.model"], 35)).startswith("Model  ollama/qwen3")


STRANGE: Mapping[str, str] = {"EBB_MODEL": "ollama/\x1b]0;x\x07\u202emodel"}


def test_values_of_others_are_made_visible(tmp_path: Path) -> None:
    rows = {row.key: row for row in Setup(tmp_path, environment=dict(STRANGE)).settings.all_settings()}
    words = plain(setting_line(rows["agent.model"], 30))
    assert "\x1b" not in words
    assert "\u202e" not in words
