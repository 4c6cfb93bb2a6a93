from pathlib import Path

from ebbtide.agent.config.load import load_config
from ebbtide.agent.extensions.custom_commands import find_custom_commands
from ebbtide.agent.extensions.extension_folders import find_extension_folders
from tests.kit.extension_project import ExtensionProject


def test_only_folders_that_are_there_are_places_and_the_users_own_come_first(project: ExtensionProject) -> None:
    before = project.config()
    assert (find_extension_folders("skill", before), before.may_have_extensions) == ((), False)
    for name in (".claude/skills", ".ebb/skills", ".opencode/command"):
        (project.root / name).mkdir(parents=True)
    (project.user_home / ".config/opencode/skills").mkdir(parents=True)
    (project.user_home / "ebb/config/skills").mkdir(parents=True)
    assert project.config().may_have_extensions
    found = [(place.owner, place.source, place.path) for place in find_extension_folders("skill", project.config())]
    assert found == [
        ("user", "ebb", project.user_home / "ebb/config/skills"),
        ("user", "opencode", project.user_home / ".config/opencode/skills"),
        ("project", "ebb", project.root / ".ebb/skills"),
        ("project", "claude", project.root / ".claude/skills"),
    ]
    assert [place.path for place in find_extension_folders("command", project.config())] == [
        project.root / ".opencode/command"
    ]


def test_a_folder_of_two_names_is_one_place_and_one_that_leads_out_of_the_project_is_none(
    project: ExtensionProject, tmp_path: Path
) -> None:
    (project.root / ".agents/skills").mkdir(parents=True)
    (project.root / ".claude").mkdir()
    (project.root / ".claude/skills").symlink_to("../.agents/skills")
    (tmp_path / "elsewhere").mkdir()
    (project.root / ".gemini").mkdir()
    (project.root / ".gemini/skills").symlink_to(tmp_path / "elsewhere")
    (project.user_home / ".claude").mkdir()
    (project.user_home / ".claude/skills").symlink_to(tmp_path / "elsewhere")
    found = [(place.owner, place.source) for place in find_extension_folders("skill", project.config())]
    assert found == [("user", "claude"), ("project", "agents")]


def test_what_lies_in_the_home_is_the_users_own_also_in_a_session_there(project: ExtensionProject) -> None:
    project.root = project.user_home
    (project.user_home / ".claude/commands").mkdir(parents=True)
    assert [place.owner for place in find_extension_folders("command", project.config())] == ["user"]


def test_the_folders_between_the_working_folder_and_the_top_count_the_nearest_first(project: ExtensionProject) -> None:
    for folder in ("", "packages/web/", "packages/web/src/", "packages/api/"):
        project.write(f"{folder}.claude/commands/build.md", f"Build {folder}")
    project.write(".claude/commands/lint.md", "Lint")
    project.write("packages/web/.claude/commands/.keep", "")
    project.write("packages/web/.claude/commands/bad.md", "")
    config = load_config(project.root / "packages/web/src", project.environment, {})
    commands, problems = find_custom_commands(config)
    assert [(each.text, each.trust_item.key, each.trust_item.source) for each in commands] == [
        ("Build packages/web/src/", "command:packages/web/src:build", "packages/web/src/.claude/commands/build.md"),
        ("Lint", "command:lint", ".claude/commands/lint.md"),
    ]
    assert problems == ("the command `packages/web/.claude/commands/bad.md` is skipped: it is empty",)


def test_more_than_the_limit_is_told(project: ExtensionProject) -> None:
    for number in range(201):
        project.write(f"ebb/config/commands/c{number}.md", "x", of_user=True)
    commands, problems = find_custom_commands(project.config())
    assert (len(commands), problems) == (200, ("more than 200 commands: the others are skipped",))
