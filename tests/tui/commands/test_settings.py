"""Settings as a list."""

import itertools

from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.config.settings import Setting
from ebbtide.tui.commands.settings import COMMON_SETTINGS, build_settings_panel

ROWS = [
    Setting(
        option.key, option.default, "default", "the default", option.default, option.description, can_be_tightened=False
    )
    for option in OPTIONS
]


def test_every_setting_is_listed_once_and_those_that_are_changed_first_stand_above() -> None:
    rows = build_settings_panel(lambda: ROWS, lambda key, text: "").rows
    keys = [row.value for row in rows if not row.is_heading]
    assert sorted(keys) == sorted(option.key for option in OPTIONS)
    assert tuple(keys[: len(COMMON_SETTINGS)]) == COMMON_SETTINGS
    assert next(row.line for row in rows if row.is_heading) == (("Common", "strong"),)


def test_no_group_is_empty() -> None:
    rows = build_settings_panel(lambda: ROWS, lambda key, text: "").rows
    assert not [row for row, after in itertools.pairwise(rows) if row.is_heading and after.is_heading]
