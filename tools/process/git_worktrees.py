"""Git work trees in the program's data folder, each on its own branch: created or reused, inspected, committed and
removed. Nothing that the repository configures is executed."""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.tools.process.git import SETTINGS, GitError, program_outside, run_git

CHECKOUT_TIMEOUT_S = 600.0
"""Timeout for checking out the files of a repository, in seconds."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,99}")
_FALLBACK_IDENTITY = {"user.name": "Ebbtide", "user.email": "ebb@localhost"}


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of a folder."""

    git: str
    top: Path
    """Top folder of its work tree."""
    common: Path
    """The git folder shared by all work trees."""
    below: str
    """The folder relative to the top."""
    head: str
    """The commit that is checked out."""
    settings: Mapping[str, str]

    def run(
        self, folder: Path, *arguments: str, codes: tuple[int, ...] = (0,), patience: float = CHECKOUT_TIMEOUT_S
    ) -> str:
        """Return git's output in a folder without the final newline. Raises `GitError`."""
        ran = run_git(self.git, folder, self.settings, *arguments, codes=codes, patience=patience)
        return os.fsdecode(ran).removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Worktree:
    """One work tree."""

    name: str
    repository: Repository
    place: Path
    branch: str
    """Empty if no branch is checked out."""
    is_new: bool

    @property
    def folder(self) -> Path:
        """The folder to work in: the one corresponding to the original folder, if it exists."""
        below = self.place / self.repository.below
        return below if below.is_dir() else self.place


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """The changes in a work tree that the main one does not have."""

    commits: int
    uncommitted: int
    """Number of files."""


def repository_of(root: Path) -> Repository:
    """Return the repository of a folder. Raises `GitError`, also if it has no commits."""
    git = program_outside("git", root)
    if git is None:
        raise GitError("git is not installed, and work trees need it")
    plain = SETTINGS
    found = os.fsdecode(
        run_git(git, root, plain, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    ).splitlines()
    below = os.fsdecode(run_git(git, root, plain, "rev-parse", "--show-prefix")).strip("\n")
    head = run_git(git, root, plain, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", codes=(0, 1, 128))
    if not head.strip():
        raise GitError("this repository has no commits yet; commit first")
    settings = {**plain, **_without_own_filters(git, root)}
    return Repository(git, Path(found[0]), Path(found[1]), below, head.decode().strip(), settings)


def _without_own_filters(git: str, root: Path) -> Mapping[str, str]:
    """Return settings that disable filters defined by the repository. Those of the user stay enabled, since large files
    need them."""
    told = run_git(
        git, root, SETTINGS, "config", "--null", "--show-scope", "--name-only", "--get-regexp", r"^filter\.",
        codes=(0, 1),
    )  # fmt: skip
    words = os.fsdecode(told).split("\0")
    own = [name for scope, name in zip(words[::2], words[1::2], strict=False) if scope in ("local", "worktree")]
    return {name: "false" if name.endswith(".required") else "" for name in own}


def enter_worktree(root: Path, name: str, places: Path) -> Worktree:
    """Return the work tree of this name, creating it from the current commit if necessary. `places`: the folder for the
    work trees of all repositories. Raises `GitError`."""
    if not _NAME.fullmatch(name) or name.endswith((".lock", ".")):
        raise GitError(f"`{name}` is not a valid name for a work tree: use letters, digits, `-`, `_` and `.`")
    repository = repository_of(root)
    place, branch = place_of(repository, name, places), f"ebb/{name}"
    if os.path.lexists(place) and not _is_left_half_made(repository, place):
        return Worktree(name, repository, place, _branch_in(repository, place), is_new=False)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = repository.run(repository.top, "worktree", "list", "--porcelain").splitlines()
    # Git has a record of it, but its folder was deleted.
    again = ("--force",) if f"worktree {place}" in known else ()
    is_there = repository.run(repository.top, "branch", "--list", branch)
    what = (str(place), branch) if is_there else ("-b", branch, str(place), repository.head)
    repository.run(repository.top, "worktree", "add", "--quiet", *again, *what)
    return Worktree(name, repository, place, branch, is_new=not is_there)


def place_of(repository: Repository, name: str, places: Path) -> Path:
    """Return the path of a work tree, whether or not it exists."""
    main = repository.common.parent if repository.common.name == ".git" else repository.common
    digest = hashlib.sha256(os.fsencode(repository.common)).hexdigest()[:8]
    return places.resolve() / f"{main.name}-{digest}" / name


def _branch_in(repository: Repository, place: Path) -> str:
    """Return the branch of an existing work tree. Raises `GitError` if something else is in its place."""
    try:
        found = repository.run(place, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
        is_ours = [*map(Path, found.splitlines())] == [place, repository.common]
    except GitError:
        is_ours = False
    if not is_ours:
        raise GitError(
            f"`{place}` exists and is not a work tree of this repository; move it away, or choose another name"
        )
    return repository.run(place, "symbolic-ref", "--short", "--quiet", "HEAD", codes=(0, 1))


def _is_left_half_made(repository: Repository, place: Path) -> bool:
    """Whether git was killed while creating the work tree, or its folder is empty. It is then removed."""
    try:
        if place.is_dir() and not place.is_symlink() and not os.listdir(place):
            return True
        metadata = Path((place / ".git").read_text().removeprefix("gitdir:").strip())
        if metadata.parent != repository.common / "worktrees" or (metadata / "locked").read_text() != "initializing":
            return False
    except OSError:
        return False
    repository.run(repository.top, "worktree", "remove", "--force", "--force", str(place))
    return True


def state_of(worktree: Worktree) -> WorktreeState:
    """Return the changes to bring back. Raises `GitError`."""
    repository = worktree.repository
    head = repository.run(repository.top, "rev-parse", "HEAD")
    commits = int(repository.run(worktree.place, "rev-list", "--count", f"{head}..HEAD"))
    changed = repository.run(worktree.place, "status", "--porcelain", "--untracked-files=all", "-z")
    return WorktreeState(commits, sum(1 for _ in filter(None, changed.split("\0"))))


def how_to_bring_back(worktree: Worktree, state: WorktreeState) -> Sequence[str]:
    """Return the lines shown at the end of work in it."""
    place, top = shlex.quote(str(worktree.place)), shlex.quote(str(worktree.repository.top))
    where = f"branch `{worktree.branch}`" if worktree.branch else "no branch"
    if not state.commits and not state.uncommitted:
        remove = f"git -C {top} worktree remove {place}"
        return (f"there are no changes in `{worktree.place}`, {where}; `{remove}` removes it",)
    commits = f"{state.commits} commit{'' if state.commits == 1 else 's'}"
    files = f"{state.uncommitted} file{'' if state.uncommitted == 1 else 's'} not committed"
    lines = [f"the work is in `{worktree.place}`, {where}: {commits}, {files}"]
    if state.uncommitted:
        lines.append(f"commit it: `git -C {place} add -A && git -C {place} commit`")
    if worktree.branch:
        lines.append(f"bring it back: `git -C {top} merge {worktree.branch}`")
    return lines


def commit_all(worktree: Worktree, message: str) -> str:
    """Commit all changes, if any, and return the current commit. Raises `GitError`."""
    repository, place = worktree.repository, worktree.place
    repository.run(place, "add", "--all")
    if repository.run(place, "status", "--porcelain", "--untracked-files=no"):
        is_known = repository.run(place, "config", "--get", "user.email", codes=(0, 1))
        who = (
            () if is_known else [word for key, value in _FALLBACK_IDENTITY.items() for word in ("-c", f"{key}={value}")]
        )
        repository.run(place, *who, "commit", "--quiet", "--no-verify", "--no-gpg-sign", f"--message={message}")
    return repository.run(place, "rev-parse", "HEAD")


def base_of(worktree: Worktree) -> str:
    """Return the commit where its branch started. Raises `GitError`."""
    head = worktree.repository.run(worktree.repository.top, "rev-parse", "HEAD")
    return worktree.repository.run(worktree.place, "merge-base", head, "HEAD")


def diff_between(worktree: Worktree, base: str, commit: str) -> str:
    """Return a diff for `git apply`. Raises `GitError`."""
    return worktree.repository.run(
        worktree.place, "diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", base, commit
    )


def remove_worktree(worktree: Worktree, *, branch: bool) -> None:
    """Delete the folder and optionally the branch. Raises `GitError`."""
    top = worktree.repository.top
    worktree.repository.run(top, "worktree", "remove", "--force", str(worktree.place))
    if branch and worktree.branch:
        worktree.repository.run(top, "branch", "--quiet", "-D", worktree.branch)
