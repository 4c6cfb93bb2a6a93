"""Git work trees in the program's data folder, each on its own branch. They are created or reused, inspected, committed
and removed. Nothing that the repository configures is executed."""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.tools.process.git import SAFE_SETTINGS, GitError, find_program_outside, run_git

CHECKOUT_TIMEOUT_S = 600.0
"""Timeout in seconds for checking out the files of a repository."""

_WORKTREE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,99}")
_FALLBACK_IDENTITY = {"user.name": "Ebbtide", "user.email": "ebb@localhost"}


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository that a folder belongs to."""

    git: str
    work_tree: Path
    """Top folder of the repository's work tree."""
    common_git_folder: Path
    """The git folder shared by all work trees."""
    subfolder: str
    """Path of the folder relative to the top folder."""
    head: str
    """The commit that is checked out."""
    settings: Mapping[str, str]

    def run(
        self, folder: Path, *arguments: str, accepted_codes: tuple[int, ...] = (0,), timeout: float = CHECKOUT_TIMEOUT_S
    ) -> str:
        """Run git in a folder and return its output, without the final newline. Raises `GitError`."""
        output = run_git(self.git, folder, self.settings, *arguments, accepted_codes=accepted_codes, timeout=timeout)
        return os.fsdecode(output).removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Worktree:
    """A work tree in the program's data folder."""

    name: str
    repository: Repository
    path: Path
    branch: str
    """The branch; empty if none is checked out."""
    is_new: bool

    @property
    def folder(self) -> Path:
        """The folder to work in: the one that corresponds to the original folder or, if it does not exist, the top
        folder."""
        subfolder = self.path / self.repository.subfolder
        return subfolder if subfolder.is_dir() else self.path


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """The changes in a work tree that are missing from the main one."""

    commit_count: int
    uncommitted_file_count: int
    """Number of files with uncommitted changes."""


def read_repository(root: Path) -> Repository:
    """Return the repository of a folder. Raises `GitError`, also if it has no commits."""
    git = find_program_outside("git", root)
    if git is None:
        raise GitError("git is not installed, and work trees need it")
    safe_settings = SAFE_SETTINGS
    top_folder, common_folder = os.fsdecode(
        run_git(git, root, safe_settings, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    ).splitlines()
    subfolder = os.fsdecode(run_git(git, root, safe_settings, "rev-parse", "--show-prefix")).strip("\n")
    head = run_git(
        git, root, safe_settings, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", accepted_codes=(0, 1, 128)
    )
    if not head.strip():
        raise GitError("this repository has no commits yet; commit first")
    settings = {**safe_settings, **_repository_filter_overrides(git, root)}
    return Repository(git, Path(top_folder), Path(common_folder), subfolder, head.decode().strip(), settings)


def _repository_filter_overrides(git: str, root: Path) -> Mapping[str, str]:
    """Return settings that disable the repository's filters. The user's own filters stay enabled, because large files
    need them."""
    listing = run_git(
        git, root, SAFE_SETTINGS, "config", "--null", "--show-scope", "--name-only", "--get-regexp", r"^filter\.",
        accepted_codes=(0, 1),
    )  # fmt: skip
    fields = os.fsdecode(listing).split("\0")
    filter_settings = [
        name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in ("local", "worktree")
    ]
    return {name: "false" if name.endswith(".required") else "" for name in filter_settings}


def enter_worktree(root: Path, name: str, worktrees_folder: Path) -> Worktree:
    """Return the work tree with this name. If it does not exist, create it from the current commit. `worktrees_folder`:
    holds the work trees of all repositories. Raises `GitError`."""
    if not _WORKTREE_NAME.fullmatch(name) or name.endswith((".lock", ".")):
        raise GitError(f"`{name}` is not a valid name for a work tree: use letters, digits, `-`, `_` and `.`")
    repository = read_repository(root)
    path = worktree_path(repository, name, worktrees_folder)
    delete_branch = f"ebb/{name}"
    if os.path.lexists(path) and not _remove_if_incomplete(repository, path):
        return Worktree(name, repository, path, _branch_in(repository, path), is_new=False)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    known_worktrees = repository.run(repository.work_tree, "worktree", "list", "--porcelain").splitlines()
    # Force the creation if git still has a record of the work tree although its folder was deleted.
    force_option = ("--force",) if f"worktree {path}" in known_worktrees else ()
    existing_branch = repository.run(repository.work_tree, "branch", "--list", delete_branch)
    target = (str(path), delete_branch) if existing_branch else ("-b", delete_branch, str(path), repository.head)
    repository.run(repository.work_tree, "worktree", "add", "--quiet", *force_option, *target)
    return Worktree(name, repository, path, delete_branch, is_new=not existing_branch)


def worktree_path(repository: Repository, name: str, worktrees_folder: Path) -> Path:
    """Return the path of a work tree, whether or not it exists."""
    repository_folder = (
        repository.common_git_folder.parent
        if repository.common_git_folder.name == ".git"
        else repository.common_git_folder
    )
    digest = hashlib.sha256(os.fsencode(repository.common_git_folder)).hexdigest()[:8]
    return worktrees_folder.resolve() / f"{repository_folder.name}-{digest}" / name


def _branch_in(repository: Repository, path: Path) -> str:
    """Return the branch of an existing work tree. Raises `GitError` if the path is something else."""
    try:
        folders = repository.run(path, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
        is_same_repository = [*map(Path, folders.splitlines())] == [path, repository.common_git_folder]
    except GitError:
        is_same_repository = False
    if not is_same_repository:
        raise GitError(
            f"`{path}` exists and is not a work tree of this repository; move it away, or choose another name"
        )
    return repository.run(path, "symbolic-ref", "--short", "--quiet", "HEAD", accepted_codes=(0, 1))


def _remove_if_incomplete(repository: Repository, path: Path) -> bool:
    """Remove the work tree if git was killed while creating it. Return whether it was incomplete or its folder is
    empty."""
    try:
        if path.is_dir() and not path.is_symlink() and not os.listdir(path):
            return True
        metadata = Path((path / ".git").read_text().removeprefix("gitdir:").strip())
        if (
            metadata.parent != repository.common_git_folder / "worktrees"
            or (metadata / "locked").read_text() != "initializing"
        ):
            return False
    except OSError:
        return False
    repository.run(repository.work_tree, "worktree", "remove", "--force", "--force", str(path))
    return True


def worktree_state(worktree: Worktree) -> WorktreeState:
    """Return the changes that are not yet in the main work tree. Raises `GitError`."""
    repository = worktree.repository
    head = repository.run(repository.work_tree, "rev-parse", "HEAD")
    commit_count = int(repository.run(worktree.path, "rev-list", "--count", f"{head}..HEAD"))
    changed = repository.run(worktree.path, "status", "--porcelain", "--untracked-files=all", "-z")
    return WorktreeState(commit_count, sum(1 for _ in filter(None, changed.split("\0"))))


def merge_instructions(worktree: Worktree, state: WorktreeState) -> Sequence[str]:
    """Return the lines that are shown at the end of a session in the work tree."""
    path, top = shlex.quote(str(worktree.path)), shlex.quote(str(worktree.repository.work_tree))
    branch_text = f"branch `{worktree.branch}`" if worktree.branch else "no branch"
    if not state.commit_count and not state.uncommitted_file_count:
        remove_command = f"git -C {top} worktree remove {path}"
        return (f"there are no changes in `{worktree.path}`, {branch_text}; `{remove_command}` removes it",)
    commits_text = f"{state.commit_count} commit{'' if state.commit_count == 1 else 's'}"
    files = f"{state.uncommitted_file_count} file{'' if state.uncommitted_file_count == 1 else 's'} not committed"
    lines = [f"the work is in `{worktree.path}`, {branch_text}: {commits_text}, {files}"]
    if state.uncommitted_file_count:
        lines.append(f"commit it: `git -C {path} add -A && git -C {path} commit`")
    if worktree.branch:
        lines.append(f"merge it: `git -C {top} merge {worktree.branch}`")
    return lines


def commit_all(worktree: Worktree, message: str) -> str:
    """Commit all changes, if any, and return the current commit. Raises `GitError`."""
    repository, path = worktree.repository, worktree.path
    repository.run(path, "add", "--all")
    if repository.run(path, "status", "--porcelain", "--untracked-files=no"):
        has_identity = repository.run(path, "config", "--get", "user.email", accepted_codes=(0, 1))
        identity_options = (
            ()
            if has_identity
            else [word for key, value in _FALLBACK_IDENTITY.items() for word in ("-c", f"{key}={value}")]
        )
        repository.run(
            path, *identity_options, "commit", "--quiet", "--no-verify", "--no-gpg-sign", f"--message={message}"
        )
    return repository.run(path, "rev-parse", "HEAD")


def branch_base(worktree: Worktree) -> str:
    """Return the commit at which the work tree's branch started. Raises `GitError`."""
    head = worktree.repository.run(worktree.repository.work_tree, "rev-parse", "HEAD")
    return worktree.repository.run(worktree.path, "merge-base", head, "HEAD")


def diff_between(worktree: Worktree, base: str, commit: str) -> str:
    """Return a diff that `git apply` accepts. Raises `GitError`."""
    return worktree.repository.run(
        worktree.path, "diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", base, commit
    )


def remove_worktree(worktree: Worktree, *, delete_branch: bool) -> None:
    """Delete the work tree's folder and, if `delete_branch` is set, its branch. Raises `GitError`."""
    top = worktree.repository.work_tree
    worktree.repository.run(top, "worktree", "remove", "--force", str(worktree.path))
    if delete_branch and worktree.branch:
        worktree.repository.run(top, "branch", "--quiet", "-D", worktree.branch)
