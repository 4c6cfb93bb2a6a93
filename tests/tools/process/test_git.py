"""Git asked by this program itself, in repositories that want to harm it."""

from pathlib import Path

import pytest

from ebbtide.tools.process.git import (
    SAFE_SETTINGS,
    GitError,
    find_program_outside,
    find_setting_running_program,
    run_git,
)
from tests.kit.files import write_file
from tests.kit.git import git


def test_a_file_without_end_that_a_repository_names_takes_no_more_memory_than_git_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.process.git._MAX_GIT_MEMORY_BYTES", 64 << 20)
    git(tmp_path, "init")
    (tmp_path / "a").touch()
    program = find_program_outside("git", tmp_path / "none")
    assert program is not None
    assert run_git(program, tmp_path, SAFE_SETTINGS, "status", "--porcelain") == b"?? a\n"
    git(tmp_path, "add", "a")
    git(tmp_path, "config", "core.attributesFile", "/dev/zero")
    (tmp_path / "a").write_text("changed")
    with pytest.raises(GitError, match="Out of memory"):
        run_git(program, tmp_path, SAFE_SETTINGS, "status", "--porcelain")


@pytest.mark.parametrize(
    ("setting", "commands"),
    [
        ("remote.origin.uploadpack", ["fetch", "ls-remote"]),
        ("core.sshCommand", ["fetch", "ls-remote"]),
        ("core.gitProxy", ["fetch", "ls-remote"]),
        ("credential.https://a.b.helper", ["fetch", "ls-remote"]),
        ("filter.x.smudge", ["archive"]),
        ("tar.zip.command", ["archive"]),
        ("remote.origin.fetch", []),
        ("filter.x.clean", []),
    ],
)
def test_what_settings_of_a_repository_have_git_run_is_told(tmp_path: Path, setting: str, commands: list[str]) -> None:
    git(tmp_path, "init")
    git(tmp_path, "config", setting, "./x")
    settings = {
        command: find_setting_running_program(tmp_path, command)
        for command in ("fetch", "ls-remote", "archive", "status")
    }
    assert [command for command, setting_named in settings.items() if setting_named] == commands
    assert {setting_named.lower() for setting_named in settings.values() if setting_named} == (
        {f"`{setting.lower()}`"} if commands else set()
    )


def test_hooks_that_a_fetch_runs_are_told_and_settings_of_the_user_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, root = tmp_path / "own", tmp_path / "app"
    own.write_text('[core]\n\tsshCommand = mine\n[filter "lfs"]\n\tsmudge = git-lfs smudge\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    own.rename(tmp_path / ".gitconfig")
    root.mkdir()
    assert find_setting_running_program(root, "fetch") == ""
    git(root, "init")
    assert [find_setting_running_program(root, command) for command in ("fetch", "archive")] == ["", ""]
    hook = write_file(root / ".git" / "hooks" / "reference-transaction", "#!/bin/sh\n")
    assert find_setting_running_program(root, "fetch") == ""
    hook.chmod(0o755)
    assert [find_setting_running_program(root, command) for command in ("fetch", "ls-remote")] == [
        "`reference-transaction`",
        "",
    ]
    (root / ".git" / "config").write_text("[core")
    assert find_setting_running_program(root, "fetch") == "its settings cannot be read"
