"""Git asked by this program itself, in repositories that want to harm it."""

from pathlib import Path

import pytest

from tests.kit.hostile_repository import git
from tools.process.git import SETTINGS, GitError, program_outside, run_git


def test_a_file_without_end_that_a_repository_names_takes_no_more_memory_than_git_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.process.git._MOST_MEMORY", 64 << 20)
    git(tmp_path, "init")
    (tmp_path / "a").touch()
    program = program_outside("git", tmp_path / "none")
    assert program is not None
    assert run_git(program, tmp_path, SETTINGS, "status", "--porcelain") == b"?? a\n"
    git(tmp_path, "add", "a")
    git(tmp_path, "config", "core.attributesFile", "/dev/zero")
    (tmp_path / "a").write_text("changed")
    with pytest.raises(GitError, match="Out of memory"):
        run_git(program, tmp_path, SETTINGS, "status", "--porcelain")
