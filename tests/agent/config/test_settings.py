"""Settings as they stand, and changing them in the user's own file."""

from pathlib import Path
from typing import Any

import pytest
from tomlkit.exceptions import NonExistentKey

from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.config.settings import format_as_toml_value, parse_setting_value
from ebbtide.agent.config.toml_edit import edit_toml_file
from ebbtide.agent.errors import ConfigError
from tests.agent.config.conftest import Place

WRITTEN = """\
# mine
[agent]
model = "ollama/a"   # the quick one
contextWindow = 9000

[providers.ollama]
timeout = 5
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, {"EBB_SANDBOX": "off"}, {"agent.max_turns": 3})


def test_each_row_says_where_its_value_comes_from(place: Place) -> None:
    place.user(WRITTEN)
    place.repository('[permissions]\ndeny = ["bash(rm *)"]\n')
    rows = {row.key: row for row in place.settings().all_settings()}
    assert list(rows) == [option.key for option in OPTIONS]
    origins = {key: row.origin for key, row in rows.items() if row.origin != "default"}
    assert origins == {
        "agent.model": "yours",
        "agent.context_window": "yours",
        "agent.sandbox": "environment",
        "agent.max_turns": "command line",
        "permissions.deny": "project",
    }
    assert {key for key, row in rows.items() if row.can_be_tightened} == {
        "agent.permission_mode",
        "recall.scope",
        "mcp.disabled",
        "jobs.wake",
        "sandbox.ports",
        "lsp.enabled",
        "permissions.deny",
        "tools.allowed",
        "tools.denied",
    }
    assert {row.effect_time for row in rows.values() if row.key.startswith("tui.")} == {"now"}
    assert rows["agent.model"].effect_time == "in the next session"


def test_a_value_is_written_in_place_and_all_else_stays(place: Place) -> None:
    place.user(WRITTEN)
    settings = place.settings()
    assert (
        settings.set_value("agent.model", "ollama/b")
        == "`agent.model` is now ollama/b; takes effect in the next session"
    )
    assert settings.set_value("tui.theme", "light") == "`tui.theme` is now light"
    assert place.file.read_text() == WRITTEN.replace("ollama/a", "ollama/b") + '\n[tui]\ntheme = "light"\n'
    assert [config.model for config in place.notices] == ["ollama/b", "ollama/b"]
    assert settings.config.tui_theme == "light"


def test_what_is_taken_out_is_as_if_it_had_never_been_set(place: Place) -> None:
    place.user("")
    settings = place.settings()
    settings.set_value("tui.theme", "light")
    assert settings.unset_value("tui.theme") == "`tui.theme` is auto again"
    assert place.file.read_text() == ""


def test_the_first_setting_makes_the_file(place: Place) -> None:
    place.settings().set_value("permissions.allow", '["bash(git status)"]')
    assert place.file.read_text() == '[permissions]\nallow = ["bash(git status)"]\n'
    assert place.file.stat().st_mode & 0o777 == 0o600


def test_who_wins_over_the_file_is_told(place: Place) -> None:
    message = place.settings().set_value("agent.sandbox", "auto")
    assert message == "`agent.sandbox` is now off: environment EBB_SANDBOX overrides your file"


def test_what_is_not_allowed_is_not_written(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"`agent\.compact_trigger` must be a number above 0 and at most 1"):
        place.settings().set_value("agent.compact_trigger", "7")
    assert not place.file.exists()


@pytest.mark.parametrize("value", ["0", "4", "-1", "1.5", "true", "always"])
def test_a_cache_is_kept_alive_three_times_at_most(value: str, place: Place) -> None:
    settings = place.settings()
    assert (
        settings.set_value("agent.keep_alive", "3") == "`agent.keep_alive` is now 3; takes effect in the next session"
    )
    assert (
        settings.set_value("agent.keep_alive", "off")
        == "`agent.keep_alive` is now off; takes effect in the next session"
    )
    with pytest.raises(
        ConfigError,
        match=r'`agent\.keep_alive` must be "off", or the maximum number of requests in one pause, from 1 to 3',
    ):
        settings.set_value("agent.keep_alive", value)
    assert place.load().keep_alive == "off"


def test_a_key_that_is_written_by_another_name_is_left_to_the_user(place: Place) -> None:
    place.user(WRITTEN)
    with pytest.raises(ConfigError, match=r"`agent\.context_window` is set by another name"):
        place.settings().unset_value("agent.context_window")


def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(place: Place) -> None:
    place.user('agent = { model = "ollama/a" }\n')
    settings = place.settings()
    settings.set_value("agent.model", "ollama/b")
    assert place.load().model == "ollama/b"
    place.user("agent.model = 1 oops")
    with pytest.raises(ConfigError, match="cannot read"):
        settings.set_value("agent.model", "ollama/c")
    assert place.file.read_text() == "agent.model = 1 oops"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_a_file_with_a_byte_order_mark_is_changed_and_becomes_utf_8(place: Place, codec: str) -> None:
    place.user("")
    place.file.write_bytes(WRITTEN.encode(codec))
    place.settings().set_value("agent.model", "ollama/b")
    assert place.file.read_bytes() == WRITTEN.replace("ollama/a", "ollama/b").encode()


def test_an_edit_that_fails_does_not_empty_the_file(place: Place) -> None:
    place.user(WRITTEN)

    def edit(document: dict[str, Any]) -> None:
        raise NonExistentKey("agent")

    with pytest.raises(ConfigError, match="safely; by hand"):
        edit_toml_file(place.file, edit, dict[str, Any].clear, "by hand")
    assert place.file.read_text() == WRITTEN


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("agent.max_cost", "2.5", 2.5),
        ("agent.model", "anthropic/claude", "anthropic/claude"),
        ("agent.model", '"anthropic/claude"', "anthropic/claude"),
        ("agent.fallback_models", '["a/b", "c/d"]', ["a/b", "c/d"]),
        ("hooks.after_tool", '[{match = "bash(*)", command = "true"}]', [{"match": "bash(*)", "command": "true"}]),
    ],
)
def test_a_text_means_what_it_would_in_the_file(key: str, text: str, value: object) -> None:
    assert parse_setting_value(key, text) == value


def test_values_are_shown_as_they_are_written() -> None:
    assert [format_as_toml_value(value) for value in (None, 0.95, "a", ("a", "b"), True)] == [
        "not set",
        "0.95",
        '"a"',
        '["a", "b"]',
        "true",
    ]
