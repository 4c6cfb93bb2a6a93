"""The values that a setting can have, as a list to choose from."""

from collections.abc import Mapping

from ebbtide.agent.config.option_values import offered_values
from ebbtide.agent.config.options import OPTIONS_BY_KEY
from ebbtide.agent.config.settings import Setting
from ebbtide.tui.commands.themes import OFFERED_THEMES
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelRow
from ebbtide.tui.view.setting_labels import SETTING_LABELS

_VALUE_HELP: Mapping[str, Mapping[str, str]] = {
    "agent.permission_mode": {
        "ask": "asks before commands and file changes",
        "accept-edits": "changes files of the project without asking",
        "plan": "changes nothing, and submits a plan",
        "auto": "asks only about secrets and files that are run later",
    },
    "agent.sandbox": {
        "require": "refuse commands if there is no sandbox",
        "auto": "use a sandbox if there is one",
        "off": "run commands without a sandbox",
    },
    "context.style": {
        "frugal": "old parts leave early: the lowest cost",
        "balanced": "old parts leave once that saves money",
        "careful": "old parts stay longer: fewer are needed again",
    },
    "permissions.sandboxed": {"ask": "ask about every command", "allow": "sandboxed commands run without asking"},
    "recall.scope": {
        "session": "this session",
        "project": "sessions of this project",
        "all": "sessions of all projects",
    },
    "tui.detail": {
        "compact": "one line for each call",
        "normal": "also its diff, list or last output lines",
        "full": "everything",
    },
    "tui.keys": {"usual": "keys of most editors", "vim": "vi keys"},
    "tui.notify": {
        "auto": "the terminal's notification, else its bell",
        "bell": "the bell",
        "osc": "the terminal's notification",
        "desktop": "the desktop's notification",
        "off": "none",
    },
    "tui.theme": {theme.name: theme.help for theme in OFFERED_THEMES},
    "tui.thoughts": {"line": "one line", "open": "in full", "hidden": "not at all"},
}
"""What the values of the settings that people change most mean."""


def values_of(key: str) -> tuple[str, ...]:
    """Return the values to choose from; empty if others are possible."""
    return offered_values(OPTIONS_BY_KEY[key].parse)


def build_values_panel(setting: Setting) -> Panel:
    """Build the list of a setting's values. The row of the default unsets the setting."""
    help_texts = _VALUE_HELP.get(setting.key, {})
    values = values_of(setting.key)
    width = max(map(len, values)) + 3
    unset = (
        () if setting.default in values else (_value_row("", "not set", setting.value is None, width, "the default"),)
    )
    rows = tuple(
        _value_row(
            "" if value == setting.default else value,
            value,
            value == setting.value,
            width,
            ", ".join(filter(None, (help_texts.get(value, ""), "the default" if value == setting.default else ""))),
        )
        for value in values
    )
    current = "" if setting.value == setting.default else str(setting.value)
    return Panel(
        "values",
        (
            ((SETTING_LABELS[setting.key], "strong"), (f"  {setting.key}", "dim")),
            parse_inline_code(setting.description, "dim"),
            (),
        ),
        (*unset, *rows),
        "Up, Down   Enter select   Esc back",
        search_placeholder="",
        initial_value=current,
    )


def _value_row(value: str, label: str, is_current: bool, width: int, help_text: str) -> PanelRow:
    line: Line = (("● " if is_current else "  ", "good"), (f"{label:<{width}}", "text"), (help_text, "dim"))
    return PanelRow(value, line, f"{label}, {help_text}" if help_text else label)
