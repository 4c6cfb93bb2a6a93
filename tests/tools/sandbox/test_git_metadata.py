"""What a repository makes read-only in the sandbox, and that none gets a folder written that is not its own."""

from pathlib import Path

import pytest

from ebbtide.tools.sandbox import git_metadata
from ebbtide.tools.sandbox.git_metadata import compute_git_path_access, find_repositories, is_active_redirection
from tests.kit.files import write_file, write_files
from tests.kit.git import git


def places(folder: Path) -> dict[str, str]:
    """By paths below the test's folder."""
    base = folder.parent
    return {
        path.removeprefix(f"{base}/"): access for path, access in compute_git_path_access(folder, [str(folder)]).items()
    }


USUAL = {"repo/.git": "write", "repo/.git/config": "read", "repo/.git/hooks": "read"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path.resolve() / "repo"
    repo.mkdir()
    git(repo, "init")
    return repo


def test_a_repository_is_written_but_for_its_settings_and_hooks(repo: Path) -> None:
    assert places(repo) == USUAL


def test_a_linked_work_tree_may_write_in_the_repository_that_knows_it(repo: Path) -> None:
    git(repo, "commit", "--allow-empty", "-m", "first")
    git(repo, "worktree", "add", "../linked")
    assert places(repo.parent / "linked") == {
        "linked/.git": "read",
        "repo/.git": "write",
        "repo/.git/config": "read",
        "repo/.git/hooks": "read",
        "repo/.git/worktrees/linked": "write",
        "repo/.git/worktrees/linked/commondir": "read",
        "repo/.git/worktrees/linked/gitdir": "read",
    }


def test_a_work_tree_that_names_somebody_elses_repository_gets_nothing_written(repo: Path) -> None:
    other = repo.parent / "other"
    write_file(other / ".git", "gitdir: ../repo/.git\n")
    assert places(other) == {"other/.git": "read"}
    (other / ".git").unlink()
    (other / ".git").symlink_to(repo / ".git")
    assert places(other) == {}


@pytest.mark.parametrize("named", ["../..", "../../..", "/", "../../repo/.git"])
def test_metadata_that_name_others_as_common_get_nothing_written_there(named: str, repo: Path) -> None:
    (repo / ".git" / "commondir").write_text(f"{named}\n")
    written = {path for path, access in compute_git_path_access(repo, [str(repo)]).items() if access == "write"}
    assert written <= {str(repo / ".git")}


@pytest.mark.parametrize(
    "settings",
    [
        "[include]\npath = config\npath = .\npath =\npath = ~nobody-is-called-so/x\npath = a\0b\n",
        "[core]\nhooksPath = /\n[core]\nhooksPath = .\n[core]\nhooksPath = a\0b\n",
        "[core]\nworktree = \0\n",
        "[core\nhooksPath = x\n[[]]\n= \n\\\n",
    ],
)
def test_strange_settings_harm_nothing(settings: str, repo: Path) -> None:
    (repo / ".git" / "config").write_text(settings)
    found = compute_git_path_access(repo, [str(repo)])
    assert found[str(repo / ".git" / "config")] == "read"
    assert str(repo) not in found


def test_a_file_that_leads_nowhere_gets_nothing_written(tmp_path: Path) -> None:
    for target in ("", "/" * 5000, "\0", "a" * 5000):
        (tmp_path / ".git").write_text(f"gitdir: {target}")
        assert set(compute_git_path_access(tmp_path, [str(tmp_path)]).values()) <= {"read"}


@pytest.mark.parametrize(
    ("settings", "protected"),
    [
        ("[include]\n\tpath = ../absent/deep/x\n", {"repo/absent": "hidden folder"}),
        ("[include]\n\tpath = ../file/x\n", {"repo/file": "read"}),
        ("[include]\n\tpath = ../absent\n", {"repo/absent": "hidden file"}),
        ("[include]\n\tpath = :(optional)../absent\n", {"repo/absent": "hidden file"}),
        ("[core]\n\thooksPath = .husky/_\n", {"repo/.husky": "hidden folder"}),
        ("[core]\n\thooksPath = file/_\n", {"repo/file": "read"}),
    ],
)
def test_what_is_named_in_a_folder_that_is_not_there_is_kept_away_with_it(
    settings: str, protected: dict[str, str], repo: Path
) -> None:
    (repo / "file").touch()
    with (repo / ".git" / "config").open("a") as config:
        config.write(settings)
    assert places(repo) == USUAL | protected


def test_programs_that_hooks_lead_to_are_kept_too(repo: Path) -> None:
    write_files(repo, ("scripts/check", ".husky/_/h", ".husky/pre-commit"))
    (repo / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/check")
    (repo / ".git" / "hooks" / "pre-push").symlink_to("../../absent")
    git(repo, "config", "core.hooksPath", ".husky/_")
    assert places(repo) == USUAL | {"repo/.husky": "read", "repo/scripts/check": "read"}


def test_settings_behind_a_link_keep_all_of_the_metadata_as_it_is(repo: Path) -> None:
    (repo / ".git" / "config").rename(repo / "settings")
    (repo / ".git" / "config").symlink_to("../settings")
    assert places(repo) == {"repo/.git": "read", "repo/settings": "read", "repo/.git/hooks": "read"}


@pytest.mark.parametrize("is_linked", [True, False])
def test_settings_of_the_user_that_lie_in_the_folder_or_name_hooks_there_are_kept(
    is_linked: bool, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, settings = repo.parent / "home", "[core]\n\thooksPath = .githooks\n[include]\n\tpath = ~/../repo/more\n"
    home.mkdir()
    write_files(repo, ("gitconfig", "more"), settings)
    if is_linked:
        (home / ".gitconfig").symlink_to(repo / "gitconfig")
    else:
        write_file(home / ".config" / "git" / "config", settings)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    protected = {"repo/.githooks": "hidden folder", "repo/more": "read"} | (
        {"repo/gitconfig": "read"} if is_linked else {}
    )
    assert places(repo) == USUAL | protected


def test_of_linked_work_trees_the_files_that_lead_to_them_are_kept_too(repo: Path) -> None:
    git(repo, "commit", "--allow-empty", "-m", "first")
    git(repo, "worktree", "add", "trees/linked")
    protected = {f"repo/.git/worktrees/linked/{name}": "read" for name in ("commondir", "gitdir")}
    assert places(repo) == {**USUAL, **protected, "repo/trees/linked/.git": "read"}


def test_hooks_behind_a_link_keep_all_of_the_metadata_as_it_is(repo: Path) -> None:
    (repo / ".git" / "hooks").rename(repo / "hooks")
    (repo / ".git" / "hooks").symlink_to("../hooks")
    assert places(repo) == {"repo/.git": "read", "repo/.git/config": "read", "repo/hooks": "read"}


def test_a_repository_without_a_work_tree_is_kept_where_it_is_worked_in(repo: Path) -> None:
    git(repo, "init", "--bare", "../bare.git")
    assert places(repo.parent / "bare.git") == {"bare.git/config": "read", "bare.git/hooks": "read"}


def test_repositories_in_a_folder_are_found_but_for_its_own_and_those_of_builds(repo: Path) -> None:
    git(repo, "commit", "--allow-empty", "-m", "first")
    git(repo, "worktree", "add", "linked")
    made = ("libs/one", "libs/one/two", "build/three", ".cache/four")
    for name in made:
        git(repo, "init", name)
    git(repo, "init", "--bare", "bare.git")
    assert find_repositories(repo).nested == tuple(repo / name for name in ("bare.git", "libs/one", "libs/one/two"))


def test_files_that_would_lead_git_elsewhere_are_those_of_every_repository(repo: Path) -> None:
    part = repo.parent / "part"
    git(repo, "init", "../part")
    git(part, "commit", "--allow-empty", "-m", "first")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", str(part), "part")
    git(repo, "init", "inner")
    unwanted = (".git/commondir", ".git/modules/part/commondir", "HEAD", "inner/.git/commondir", "inner/HEAD")
    assert find_repositories(repo).forbidden_files == tuple(repo / name for name in unwanted)
    assert find_repositories(repo / "part").forbidden_files == (
        repo / ".git/modules/part/commondir",
        repo / "part/HEAD",
    )
    (repo / "HEAD").touch()
    assert not is_active_redirection(repo / "HEAD")
    for name in ("objects", "refs"):
        (repo / name).mkdir()
    assert is_active_redirection(repo / "HEAD")


def test_of_a_repository_of_another_user_nothing_is_kept_that_is_not_there(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "init", "inner")
    (repo / ".git" / "hooks").rename(repo / "no-hooks")
    assert (find_repositories(repo).nested, places(repo)) == (
        (repo / "inner",),
        {**USUAL, "repo/.git/hooks": "hidden folder"},
    )
    monkeypatch.setattr(git_metadata, "_is_modifiable", lambda _: False)
    assert find_repositories(repo).nested == ()
    assert places(repo) == {"repo/.git": "write", "repo/.git/config": "read"}
