from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.extensions.custom_commands import find_commands
from ebbtide.agent.extensions.extension_folders import extension_folders
from tests.agent.extensions.bringing import Brought


@pytest.fixture
def brought(tmp_path: Path) -> Brought:
    return Brought(tmp_path)


def test_only_folders_that_are_there_are_places_and_the_users_own_come_first(brought: Brought) -> None:
    before = brought.config
    assert (extension_folders("skill", before), before.may_have_extensions) == ((), False)
    for name in (".claude/skills", ".ebb/skills", ".opencode/command"):
        (brought.project / name).mkdir(parents=True)
    (brought.home / ".config/opencode/skills").mkdir(parents=True)
    (brought.home / "ebb/config/skills").mkdir(parents=True)
    assert brought.config.may_have_extensions
    found = [(place.owner, place.source, place.folder) for place in extension_folders("skill", brought.config)]
    assert found == [
        ("user", "ebb", brought.home / "ebb/config/skills"),
        ("user", "opencode", brought.home / ".config/opencode/skills"),
        ("project", "ebb", brought.project / ".ebb/skills"),
        ("project", "claude", brought.project / ".claude/skills"),
    ]
    assert [place.folder for place in extension_folders("command", brought.config)] == [
        brought.project / ".opencode/command"
    ]


def test_a_folder_of_two_names_is_one_place_and_one_that_leads_out_of_the_project_is_none(
    brought: Brought, tmp_path: Path
) -> None:
    (brought.project / ".agents/skills").mkdir(parents=True)
    (brought.project / ".claude").mkdir()
    (brought.project / ".claude/skills").symlink_to("../.agents/skills")
    (tmp_path / "elsewhere").mkdir()
    (brought.project / ".gemini").mkdir()
    (brought.project / ".gemini/skills").symlink_to(tmp_path / "elsewhere")
    (brought.home / ".claude").mkdir()
    (brought.home / ".claude/skills").symlink_to(tmp_path / "elsewhere")
    found = [(place.owner, place.source) for place in extension_folders("skill", brought.config)]
    assert found == [("user", "claude"), ("project", "agents")]


def test_what_lies_in_the_home_is_the_users_own_also_in_a_session_there(brought: Brought) -> None:
    brought.project = brought.home
    (brought.home / ".claude/commands").mkdir(parents=True)
    assert [place.owner for place in extension_folders("command", brought.config)] == ["user"]


def test_the_folders_between_the_working_folder_and_the_top_count_the_nearest_first(brought: Brought) -> None:
    for folder in ("", "packages/web/", "packages/web/src/", "packages/api/"):
        brought.write(f"{folder}.claude/commands/build.md", f"Build {folder}")
    brought.write(".claude/commands/lint.md", "Lint")
    brought.write("packages/web/.claude/commands/.keep", "")
    brought.write("packages/web/.claude/commands/bad.md", "")
    config = load_config(brought.project / "packages/web/src", brought.environment, {})
    commands, problems = find_commands(config)
    assert [(each.text, each.item.key, each.item.source) for each in commands] == [
        ("Build packages/web/src/", "command:packages/web/src:build", "packages/web/src/.claude/commands/build.md"),
        ("Lint", "command:lint", ".claude/commands/lint.md"),
    ]
    assert problems == ("the command `packages/web/.claude/commands/bad.md` is left out: it is empty",)


def test_more_than_the_limit_is_told(brought: Brought) -> None:
    for number in range(201):
        brought.write(f"ebb/config/commands/c{number}.md", "x", of_user=True)
    commands, problems = find_commands(brought.config)
    assert (len(commands), problems) == (200, ("more than 200 commands: the others are left out",))
