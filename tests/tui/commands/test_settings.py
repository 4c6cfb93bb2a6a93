"""Settings as a list."""

import itertools
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.config.options import OPTIONS, Option
from ebbtide.agent.config.settings import Setting
from ebbtide.agent.errors import ConfigError
from ebbtide.tui.commands.setting_entries import (
    SettingEntries,
    build_entries_panel,
    format_entries_as_toml,
    has_entries,
    read_entries,
)
from ebbtide.tui.commands.setting_values import build_values_panel, values_of
from ebbtide.tui.commands.settings_panel import (
    COMMON_SETTINGS,
    SettingsAccess,
    build_settings_panel,
    is_switch,
)
from ebbtide.tui.view.panel import (
    NO_ROW,
    Panel,
    RowChosen,
    ShowMessage,
    action_for_key,
    matching_rows,
    row_text,
    tab_titles,
)
from ebbtide.tui.view.setting_labels import SETTING_LABELS
from tests.kit.files import write_file
from tests.kit.user_settings import Setup

ROWS = [
    Setting(
        option.key, option.default, "default", "the default", option.default, option.description, can_be_tightened=False
    )
    for option in OPTIONS
]


async def choose_nothing(panel: Panel) -> RowChosen | None:
    return None


PANEL = build_settings_panel(SettingsAccess(lambda: ROWS, lambda key: None, lambda key, text: "", choose_nothing))


def test_every_setting_is_listed_once_and_those_that_are_changed_most_stand_first() -> None:
    keys = [row.value for row in PANEL.rows if not row.is_heading]
    assert sorted(keys) == sorted(option.key for option in OPTIONS)
    assert tuple(keys[: len(COMMON_SETTINGS)]) == COMMON_SETTINGS
    assert tuple(row.value for row in matching_rows(PANEL, "", 0)) == COMMON_SETTINGS


def test_every_tab_has_settings_and_fits_on_a_screen() -> None:
    assert tab_titles(PANEL)[0] == "Common"
    assert not [row for row, after in itertools.pairwise(PANEL.rows) if row.is_heading and after.is_heading]
    assert max(len(matching_rows(PANEL, "", index)) for index in range(len(tab_titles(PANEL)))) <= 24


def test_every_setting_has_a_name_of_its_own() -> None:
    assert list(SETTING_LABELS) == [option.key for option in OPTIONS]
    assert len(set(SETTING_LABELS.values())) == len(SETTING_LABELS)


def test_a_search_finds_names_keys_and_descriptions_on_all_tabs() -> None:
    def found(text: str) -> str:
        return matching_rows(PANEL, text, 0)[0].value

    assert (found("cost limit"), found("telemetry.endpoint"), found("OpenTelemetry")) == (
        "agent.max_cost",
        "telemetry.endpoint",
        "telemetry.endpoint",
    )


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_enter_does_what_suits_the_kind_of_setting(option: Option) -> None:
    row = next(row for row in PANEL.rows if row.value == option.key)
    action = action_for_key(PANEL, "enter", row)
    assert action is not None
    expected = (
        "switch"
        if is_switch(row.value)
        else "choose"
        if values_of(row.value)
        else "open"
        if has_entries(row.value)
        else "change"
    )
    assert action.command_word == expected


def setting(setup: Setup, key: str) -> Setting:
    return next(each for each in setup.settings.all_settings() if each.key == key)


def test_the_values_of_a_setting_mark_the_current_one_and_the_default(tmp_path: Path) -> None:
    setup = Setup(tmp_path, '[agent]\npermission_mode = "plan"\n')
    panel = build_values_panel(setting(setup, "agent.permission_mode"))
    assert [(row.value, row_text(row)) for row in panel.rows] == [
        ("", "ask, asks before commands and file changes, the default"),
        ("accept-edits", "accept-edits, changes files of the project without asking"),
        ("plan", "plan, changes nothing, and submits a plan"),
        ("auto", "auto, asks only about secrets and files that are run later"),
    ]
    assert panel.initial_value == "plan"
    unset = build_values_panel(setting(setup, "context.style"))
    assert [row.value for row in unset.rows] == ["", "frugal", "balanced", "careful"]


class EditedList:
    """A list of entries that somebody edits."""

    def __init__(self, setup: Setup, key: str) -> None:
        self._setup, self._key = setup, key
        self.panel = build_entries_panel(self._entries(), self._save)

    def _entries(self) -> SettingEntries:
        return read_entries(setting(self._setup, self._key), self._setup.settings.own_value(self._key))

    def _save(self, text: str) -> SettingEntries:
        self._setup.settings.set_value(self._key, text)
        return self._entries()

    @property
    def lines(self) -> list[str]:
        return [row_text(row) for row in self.panel.rows]

    async def press(self, key: str, line: str, typed: str = "") -> str:
        """Press a key on a line, type a text, and return the message."""
        row = next((row for row in self.panel.rows if row_text(row) == line), NO_ROW)
        action = action_for_key(self.panel, key, row)
        assert action is not None
        assert action.run is not None
        outcome = await action.run(row, typed)
        if isinstance(outcome, ShowMessage):
            return outcome.text
        assert isinstance(outcome, Panel)
        assert outcome.message is not None
        self.panel = outcome
        return outcome.message.text


async def test_rules_are_added_changed_and_removed(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    rules = EditedList(setup, "permissions.allow")
    add = "+ Add a rule, such as bash(git status)"
    assert rules.lines == [add]
    assert await rules.press("enter", add, "bash(pytest)") == "added `bash(pytest)`"
    assert await rules.press("a", add, " bash(make:*) ") == "added `bash(make:*)`"
    assert await rules.press("a", add, "bash(pytest)") == "`bash(pytest)` is in the list already"
    assert await rules.press("a", add, "  ") == "nothing was added"
    assert setup.written == '[permissions]\nallow = ["bash(pytest)", "bash(make:*)"]\n'
    assert await rules.press("enter", "bash(make:*)", "bash(make test)") == "changed to `bash(make test)`"
    assert await rules.press("d", "bash(pytest)") == "removed `bash(pytest)`"
    assert rules.lines == ["bash(make test)", add]
    assert setup.written == '[permissions]\nallow = ["bash(make test)"]\n'


async def test_entries_of_a_project_are_shown_and_stay_in_its_file(tmp_path: Path) -> None:
    setup = Setup(tmp_path, '[permissions]\ndeny = ["bash(rm)"]\n')
    write_file(setup.project / ".ebb" / "config.toml", '[permissions]\ndeny = ["read(secrets/)"]\n')
    setup.settings.reload()
    rules = EditedList(setup, "permissions.deny")
    add = "+ Add a rule, such as read(secrets/)"
    assert rules.lines == ["bash(rm)", "read(secrets/), not from your file", add]
    assert [action_for_key(rules.panel, "d", row) is not None for row in rules.panel.rows] == [True, False, False]
    await rules.press("a", add, "bash(dd)")
    assert tomllib.loads(setup.written) == {"permissions": {"deny": ["bash(rm)", "bash(dd)"]}}


async def test_programs_that_get_outputs_are_typed_as_a_rule_and_a_command(tmp_path: Path) -> None:
    setup = Setup(tmp_path, '[hooks]\nafter_tool = [{match = "read", command = ["log", "-a"], timeout = 5}]\n')
    hooks = EditedList(setup, "hooks.after_tool")
    assert hooks.lines == ["read: log -a", "+ Add a program, as RULE: COMMAND"]
    await hooks.press("a", "", "bash(git log: *): notify -q 'a b'")
    await hooks.press("enter", "read: log -a", "grep: log -b")
    assert tomllib.loads(setup.written)["hooks"]["after_tool"] == [
        {"match": "grep", "command": "log -b", "timeout": 5.0},
        {"match": "bash(git log: *)", "command": "notify -q 'a b'", "timeout": 60.0},
    ]
    with pytest.raises(ConfigError, match="type a permission rule, a colon and a command"):
        await hooks.press("a", "", "notify")


async def test_a_list_that_was_never_changed_begins_with_the_default(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    parts = EditedList(setup, "tui.status")
    await parts.press("d", "speed")
    assert tomllib.loads(setup.written)["tui"]["status"] == [
        "cache",
        "branch",
        "mode",
        "turn",
        "model",
        "cost",
        "context",
    ]
    with pytest.raises(ConfigError, match="a list of distinct values from"):
        await parts.press("a", "", "colour")
    assert "colour" not in setup.written


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1)))
def test_any_entries_are_the_same_after_they_were_written(entries: list[str]) -> None:
    assert tomllib.loads(f"value = {format_entries_as_toml(entries)}")["value"] == entries
