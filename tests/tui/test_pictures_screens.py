"""Pictures of the screens to choose and to look things up in. Look at every one that changes."""

from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.config.options import OPTIONS_BY_KEY
from ebbtide.agent.config.settings import Setting, current_setting
from ebbtide.agent.control_calls import TodoItem
from ebbtide.agent.events.session import TextDelta, ToolFinished, ToolStarted
from ebbtide.agent.providers.choices import ModelChoice
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.help import build_help_panel, build_palette_panel, build_palette_rows
from ebbtide.tui.commands.models import build_models_panel
from ebbtide.tui.commands.setting_entries import build_entries_panel, read_entries
from ebbtide.tui.commands.setting_values import build_values_panel
from ebbtide.tui.commands.settings_panel import (
    COMMON_SETTINGS,
    SettingsAccess,
    build_settings_panel,
)
from ebbtide.tui.keys import KeyBinding
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.slash_commands import SlashCommand
from ebbtide.tui.view.panel import Panel, RowChosen
from ebbtide.tui.view.todos import build_todos_panel
from ebbtide.tui.widgets.todos import TodoLine
from tests.kit.fake_sessions import FakeSession, FakeSessions, Hold, measured, session_info
from tests.kit.files import write_file
from tests.kit.pictures import SIZES, Picture, asks
from tests.kit.user_settings import Setup

pytestmark = pytest.mark.usefixtures("no_time_passes")


def some_settings(folder: Path) -> Panel:
    """The settings of a table that does not grow."""
    mine = '[agent]\nmodel = "ollama/qwen3"\n'
    settings = Setup(folder, mine, {"EBB_SANDBOX": "off"}).settings

    def some() -> list[Setting]:
        shown = (*COMMON_SETTINGS, "agent.fallback_models", "agent.context_window", "tools.allowed", "tui.animation")
        return [current_setting(OPTIONS_BY_KEY[key], settings.config) for key in shown]

    async def choose_nothing(panel_of_values: Panel) -> RowChosen | None:
        return None

    return build_settings_panel(SettingsAccess(some, settings.own_value, settings.set_value, choose_nothing))


def panel(picture: Picture, panel_on_screen: Panel, *keys: str) -> bool:
    """Whether a list is what it was, after these keys."""
    app = EbbApp(FakeSessions([FakeSession()]))
    screen = PanelScreen(panel_on_screen)
    return picture(app, asks(app, PanelScreen), *keys, start=lambda: app.push_screen(screen))


@SIZES
def test_settings(picture: Picture, tmp_path: Path) -> None:
    assert panel(picture, some_settings(tmp_path), "down", "down", "down")


@SIZES
def test_a_setting_that_is_changed(picture: Picture, tmp_path: Path) -> None:
    assert panel(picture, some_settings(tmp_path), *"max_cost", "enter", *"pink", "enter")


@SIZES
def test_themes(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0)
    assert picture(app, asks(app, PanelScreen), "down", start=lambda: app.action_command("theme"))


SOME_KEYS = [
    KeyBinding("", "Enter", "", "send; while it works, with its next step"),
    KeyBinding("", "/", "", "commands; Tab completes"),
    KeyBinding("escape", "Esc", "escape", "interrupt; queued messages return to the prompt"),
    KeyBinding("ctrl+f", "Ctrl-F", "find", "find text in the conversation"),
    KeyBinding("ctrl+p", "Ctrl-P", "command('commands')", "open the command palette"),
    KeyBinding("f1", "F1", "command('help')", "this help"),
]
SOME_COMMANDS = [
    SlashCommand("help", "", "show keys and commands", can_run_during_turn=True),
    SlashCommand("commands", "", "open the command palette", can_run_during_turn=True),
    SlashCommand("compact", "[focus]", "summarise to free space"),
    SlashCommand("why", "TEXT", "find out where a text went"),
    SlashCommand("model", "[name]", "switch to another model"),
    SlashCommand("quit", "", "quit Ebbtide", can_run_during_turn=True),
]


@SIZES
def test_help(picture: Picture) -> None:
    assert panel(picture, build_help_panel(SOME_KEYS, SOME_COMMANDS), "down", "down", "down")


@SIZES
def test_the_palette(picture: Picture) -> None:
    infos = [
        session_info("s1", "mend the parser", updated_at=9_000.0),
        session_info("s2", "\u05e9\u05dc\u05d5\u05dd \u4f60\u597d", updated_at=100.0),
    ]
    entries = build_palette_rows(SOME_COMMANDS, SOME_KEYS, infos, ["anthropic/claude-sonnet-5-5"], 10_000.0)
    some = [entry for entry in entries if not entry.value.startswith("/settings")][:-1]  # nor their heading
    assert panel(picture, build_palette_panel(some), "down", "down")


@SIZES
def test_something_found_in_the_palette(picture: Picture) -> None:
    entries = build_palette_rows(SOME_COMMANDS, SOME_KEYS, [], ["openai/gpt-6-sol", "ollama/qwen3"], 10_000.0)
    some = [entry for entry in entries if not entry.value.startswith("/settings")]
    assert panel(picture, build_palette_panel(some), *"mod")


SOME_OFFERS = [
    ModelChoice("ollama/qwen3", 32_768, Prices(0, 0, 0, 0), is_configured=True),
    ModelChoice("anthropic/claude-opus-5", 1_000_000, Prices(5.0, 25.0, 0.5, 6.25), True, True, True),
    ModelChoice(
        "openai/gpt-6-sol", 1_050_000, Prices(2.0, 10.0, 0.2, 2.5, 272_000, 4.0, 15.0), True, True, True, False,
        "OPENAI_API_KEY",
    ),
    ModelChoice("openai-chat/a-model-with-a-long-name-of-its-own"),
]  # fmt: skip


@SIZES
def test_models(picture: Picture) -> None:
    assert panel(picture, build_models_panel(SOME_OFFERS, ModelChoice, "ollama/qwen3", 48_200), "down", "down")


@SIZES
def test_the_list_of_what_is_to_be_done(picture: Picture) -> None:
    items = [
        TodoItem("read the lexer and the parser", "done"),
        TodoItem(
            "mend the lexer: it drops the last token of a line that ends in a comment, and all that follows", "doing"
        ),
        TodoItem("run the tests", "pending"),
    ]
    assert panel(picture, build_todos_panel(items))


@SIZES
def test_where_it_stands_while_it_works(picture: Picture) -> None:
    items = [{"text": "read the lexer", "status": "done"}, {"text": "mend the lexer", "status": "doing"}]
    listed = ToolStarted("1", "todo", {"items": items}), ToolFinished("1", "todo", "done", "list kept")
    reads = ToolStarted("2", "read", {"path": "lexer.py"})
    session = FakeSession([[measured(), TextDelta("I mend the lexer now."), *listed, reads, Hold()]])
    app = EbbApp(FakeSessions([session]), first_message="mend it")

    def stands_there() -> bool:
        line, transcript = str(app.query_one(TodoLine).render()), app.main_screen.transcript
        return "1 of 2 done" in line and "lexer.py" in transcript.visible_text()

    assert picture(app, stands_there)


@SIZES
def test_the_values_of_a_setting(picture: Picture, tmp_path: Path) -> None:
    settings = Setup(tmp_path, '[agent]\npermission_mode = "plan"\n').settings
    assert panel(picture, build_values_panel(current_setting(OPTIONS_BY_KEY["agent.permission_mode"], settings.config)))


@SIZES
def test_rules_as_a_list(picture: Picture, tmp_path: Path) -> None:
    setup = Setup(tmp_path, '[permissions]\ndeny = ["bash(git push:*)", "read(secrets/)"]\n')
    write_file(setup.project / ".ebb" / "config.toml", '[permissions]\ndeny = ["bash(rm)"]\n')
    setup.settings.reload()
    deny = current_setting(OPTIONS_BY_KEY["permissions.deny"], setup.settings.config)
    deny = replace(deny, source="/home/me/p/.ebb/config.toml")
    entries = read_entries(deny, setup.settings.own_value("permissions.deny"))
    assert panel(picture, build_entries_panel(entries, lambda text: entries), "down", "down")
