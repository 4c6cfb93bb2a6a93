"""Finds the metadata of a repository that determines which programs Git runs: settings, hooks and their locations,
including those of submodules and linked work trees. It does not call Git, which might run some of these programs."""

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.sandbox.boundary import PathAccess

_CONFIG_TOKEN = regex(
    r"""\[[ \t]*(?P<section>[A-Za-z0-9.-]+)(?:[ \t]+"(?:[^"\\\n]|\\.)*")?[ \t]*\]"""
    r"""|(?P<name>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?P<value>=(?:\\[\s\S]|"(?:[^"\\\n]|\\[\s\S])*"|[^\n;#"\\])*)?"""
    r"""|[#;][^\n]*"""
)
"""Matches a section, a setting or a comment in a settings file. Several sections may be on one line. Only values may
continue on the next line."""
_MAX_SETTINGS_BYTES = 1 << 20
"""Maximum number of bytes read per file."""
HEAD = "HEAD"
"""Together with `objects` and `refs`, this file makes any folder a repository, even a work tree with a damaged
`.git`."""
_MAX_MODULE_DEPTH = 10
"""Maximum nesting depth of submodules that is searched."""
_OPTIONAL_PREFIX = ":(optional)"
"""Prefix of a path that need not exist."""
_MAX_INCLUDED_FILES = 100
"""Maximum number of settings files read by following includes."""
_MAX_SEARCHED_FOLDERS = 2_000
"""Maximum number of folders searched for repositories."""
_MAX_REPOSITORIES = 12
"""Maximum number of repositories below a folder. Each needs four mounts, and each mount is slower than the one
before."""
_BUILD_FOLDERS = frozenset(
    (
        "node_modules", "vendor", "deps", "Carthage", "subprojects", "build", "dist", "out", "target", "_deps", "tmp",
        "venv", "site-packages", "__pycache__",
    )
)  # fmt: skip
"""Folders in which programs create and delete repositories themselves."""
_NO_LINK_NAMES = ("config", "config.worktree", "commondir", "hooks")
"""Metadata files and folders that must not be links, because a mount cannot protect a link."""


def compute_git_path_access(folder: Path, writable: Sequence[str]) -> dict[str, PathAccess]:
    """Return the access to the metadata of a folder's repository. Commands can commit, but cannot change what Git
    executes. `writable`: the writable folders."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    if work_tree != folder and _is_bare_repository(folder):
        return {path: access for path, access in _compute_metadata_access(folder, None, 0) if is_in(path, writable)}
    claimed_folders = claimed_metadata(work_tree) if work_tree is not None else None
    if work_tree is None or claimed_folders is None:
        return {}
    dot_git = work_tree / ".git"
    access_by_path = dict[str, PathAccess]()
    metadata, common_folder = claimed_folders
    if not os.access(metadata, os.X_OK) and not _is_modifiable(metadata):
        return {}
    is_linked = metadata != common_folder
    if dot_git.is_file() and is_in(str(dot_git), writable):
        access_by_path[str(dot_git)] = "read"
    if _is_verified(metadata, dot_git):
        # A mount cannot protect a link: a command could replace the link's target.
        links = [
            name
            for git_folder in (metadata, common_folder)
            for name in _NO_LINK_NAMES
            if (git_folder / name).is_symlink()
        ]
        access: PathAccess = "read" if links else "write"
        access_by_path[str(metadata)] = access
        if is_linked and dot_git.is_file() and metadata.parent == common_folder / "worktrees":
            access_by_path[str(common_folder)] = access
    writable_roots = tuple(writable)
    writable = (*writable, *(path for path, access in access_by_path.items() if access == "write"))
    user_access = (item for settings in _user_settings_files() for item in _settings_file_access(settings, work_tree))
    git_access = (
        item
        for git_folder in dict.fromkeys((metadata, common_folder))
        for item in _compute_metadata_access(git_folder, work_tree, 0)
    )
    for path, access in (*user_access, *git_access):
        if is_in(path, writable) and path not in writable_roots:
            access_by_path[path] = access
    return access_by_path


def _user_settings_files() -> Iterator[Path]:
    """Yield the user's global settings files, which might be in the working folder or link to files in it."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    for name in (os.environ.get("GIT_CONFIG_GLOBAL"), os.path.expanduser("~/.gitconfig"), f"{home}/git/config"):
        if name and os.path.isfile(name):
            yield Path(name)


def included_settings_files(metadata: Path) -> Iterator[str]:
    """Yield the files that a repository's settings include, regardless of the conditions of `includeIf`. If some files
    are not read because there are too many or they are too large, also yield the root folder, which contains all of
    them."""
    settings_files = {os.path.realpath(metadata / name) for name in ("config", "config.worktree")}
    for settings in tuple(settings_files):
        for name, section, value, file in _settings_with_includes(Path(settings)):
            if name == "path" and section in ("include", "includeif"):
                settings_files.add(os.path.realpath(_included_path(value, file)))
                yield os.path.realpath(_included_path(value, file))
    if len(settings_files) > _MAX_INCLUDED_FILES or any(
        os.path.getsize(path) > _MAX_SETTINGS_BYTES for path in settings_files if os.path.isfile(path)
    ):
        yield os.sep


def settings_file_paths(folder: Path) -> Iterator[Path]:
    """Yield the paths of all settings files that can affect a folder's repository, including files that do not exist.
    These are the files of the repository and its submodules, included files, `.gitmodules` and the user's files."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    paths = [*_user_settings_files(), *([work_tree / ".gitmodules"] if work_tree is not None else [])]
    for metadata in dict.fromkeys((claimed_metadata(work_tree) if work_tree is not None else None) or ()):
        for git_folder in (metadata, *_module_metadata(metadata / "modules", 0)):
            paths += [git_folder / "config", git_folder / "config.worktree"]
            paths += map(Path, included_settings_files(git_folder))
    yield from dict.fromkeys(paths)


def list_git_settings(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name (in lower case) and section of every Git setting in a folder's repository, its submodules and
    included files."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    metadata = (
        claimed_metadata(work_tree)
        if work_tree is not None
        else (folder, folder)
        if _is_bare_repository(folder)
        else None
    )
    for git_folder in dict.fromkeys(metadata or ()):
        yield from _repository_settings(git_folder, 0)


def _repository_settings(metadata: Path, depth: int) -> Iterator[tuple[str, str]]:
    for file in ("config", "config.worktree"):
        yield from ((name, section) for name, section, _, _ in _settings_with_includes(metadata / file))
    if depth < _MAX_MODULE_DEPTH:
        for module in _module_metadata(metadata / "modules", depth):
            yield from _repository_settings(module, depth + 1)


def linked_work_tree_git_files(folder: Path) -> dict[Path, Path]:
    """Map the `.git` files of a repository's linked work trees to their metadata. A `.git` file is left out if its
    metadata does not refer back to it."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    verified_folders = verified_metadata(work_tree) if work_tree is not None else None
    if verified_folders is None:
        return {}
    link_by_metadata = {
        metadata: Path(os.path.realpath(metadata / _first_line(metadata / "gitdir")))
        for metadata in _subfolders(verified_folders[1] / "worktrees")
    }
    return {
        link: metadata
        for metadata, link in link_by_metadata.items()
        if link.name == ".git" and is_work_tree_of(link, verified_folders[1])
    }


def is_work_tree_of(link: Path, common_folder: Path) -> bool:
    """Whether the `.git` file points to the metadata of one of this repository's linked work trees."""
    if link.is_symlink() or not link.is_file():
        return False
    metadata = Path(os.path.realpath(link.parent / _first_line(link).removeprefix("gitdir:").strip()))
    common_path = _first_line(metadata / "commondir")
    return (
        metadata.parent == common_folder / "worktrees"
        and bool(common_path)
        and Path(os.path.realpath(metadata / common_path)) == common_folder
    )


def submodule_git_files(folder: Path) -> dict[Path, Path]:
    """Map the `.git` files of a folder's submodules to their metadata. A `.git` file is left out if its metadata does
    not refer back to it. Submodules that contain submodules are skipped."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    verified_folders = verified_metadata(work_tree) if work_tree is not None else None
    if verified_folders is None:
        return {}
    metadata_by_link = {
        Path(os.path.realpath(metadata / value)) / ".git": metadata
        for metadata in map(Path, map(os.path.realpath, _module_metadata(verified_folders[1] / "modules", 0)))
        if not _subfolders(metadata / "modules")
        for name, section, value, _ in _settings_with_includes(metadata / "config")
        if (name, section) == ("worktree", "core")
    }
    return {link: metadata for link, metadata in metadata_by_link.items() if is_git_link_to(link, metadata)}


def submodule_paths(work_tree: Path) -> list[str]:
    """Return the paths of the submodules in `.gitmodules` that are checked out."""
    paths = (
        value
        for name, section, value in _settings_in_file(work_tree / ".gitmodules")
        if (name, section) == ("path", "submodule")
    )
    return sorted(path for path in dict.fromkeys(paths) if os.path.lexists(work_tree / path / ".git"))


def is_git_link_to(link: Path, metadata: Path) -> bool:
    """Whether the `.git` file of a work tree points to this metadata."""
    if link.is_symlink() or not link.is_file():
        return False
    return os.path.realpath(link.parent / _first_line(link).removeprefix("gitdir:").strip()) == str(metadata)


def verified_metadata(work_tree: Path) -> tuple[Path, Path] | None:
    """Return the metadata folder and the shared metadata folder of the repository whose work tree is this folder. None
    if there is no repository, or if its metadata does not refer back to the work tree."""
    claimed_folders = claimed_metadata(work_tree)
    return (
        claimed_folders
        if claimed_folders is not None and _is_verified(claimed_folders[0], work_tree / ".git")
        else None
    )


def main_work_tree_folder(folder: Path) -> Path | None:
    """Return the folder in the main work tree that corresponds to a folder in a linked one. The relation is read from
    the main repository's metadata, which a cloned repository cannot forge."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    verified_folders = verified_metadata(work_tree) if work_tree is not None else None
    if (
        work_tree is None
        or verified_folders is None
        or verified_folders[0].parent != verified_folders[1] / "worktrees"
        or verified_folders[1].name != ".git"
    ):
        return None
    return verified_folders[1].parent / folder.relative_to(work_tree)


def claimed_metadata(work_tree: Path) -> tuple[Path, Path] | None:
    """Return the metadata folder and the shared metadata folder that a work tree's `.git` points to. None if the
    metadata folder does not exist."""
    dot_git = work_tree / ".git"
    metadata = Path(
        os.path.realpath(
            dot_git if dot_git.is_dir() else work_tree / _first_line(dot_git).removeprefix("gitdir:").strip()
        )
    )
    if not os.path.isdir(metadata):
        return None
    return metadata, Path(os.path.realpath(metadata / (_first_line(metadata / "commondir") or ".")))


def _is_verified(metadata: Path, dot_git: Path) -> bool:
    return (dot_git.is_dir() and not dot_git.is_symlink()) or _points_back(metadata, dot_git)


@dataclass(frozen=True, slots=True)
class Repositories:
    """The repositories of a folder when the session starts. Repositories that commands create later are not
    protected."""

    nested: tuple[Path, ...]
    """The nearest repositories below the folder, excluding its own submodules and work trees."""
    forbidden_files: tuple[Path, ...]
    """Files that did not exist when the session started and that commands are not allowed to create."""


def find_repositories(folder: Path) -> Repositories:
    below = _find_repositories_below(folder)
    return Repositories(below, tuple(path for root in (folder, *below) for path in _redirecting_files(root)))


def _find_repositories_below(folder: Path) -> tuple[Path, ...]:
    claimed_folders = claimed_metadata(folder) if os.path.lexists(folder / ".git") else None
    own_folders = (str(claimed_folders[1]),) if claimed_folders is not None else ()
    repositories = list[Path]()
    pending = deque([folder])
    searched_count = 0
    while pending and len(repositories) < _MAX_REPOSITORIES and searched_count < _MAX_SEARCHED_FOLDERS:
        current = pending.popleft()
        searched_count += 1
        try:
            with os.scandir(current) as entries:
                folder_flags = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        if current != folder and (
            ".git" in folder_flags
            or (folder_flags.keys() >= {HEAD, "objects", "refs"} and _is_bare_repository(current))
        ):
            metadata = claimed_metadata(current) if ".git" in folder_flags else (current, current)
            if metadata is not None and not is_in(str(metadata[1]), own_folders) and _is_modifiable(metadata[1]):
                repositories.append(current)
            if ".git" not in folder_flags:
                continue
        pending += [
            current / name for name, is_folder in folder_flags.items() if is_folder and _may_contain_repositories(name)
        ]
    return tuple(repositories)


def _is_modifiable(metadata: Path) -> bool:
    """Whether the folder belongs to the user or is writable."""
    try:
        return metadata.stat().st_uid == os.getuid() or os.access(metadata, os.W_OK)
    except OSError:
        return False


def _may_contain_repositories(name: str) -> bool:
    return not name.startswith(".") and name not in _BUILD_FOLDERS


def _is_bare_repository(folder: Path) -> bool:
    return os.path.isfile(folder / HEAD) and all(os.path.isdir(folder / name) for name in ("objects", "refs"))


def _redirecting_files(folder: Path) -> Iterator[Path]:
    """Yield missing files that, if created, would make Git use other settings for a folder's repository or its
    submodules. A mount cannot prevent their creation: it would need an empty file in their place, on which Git
    fails."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)
    if work_tree != folder and _is_bare_repository(folder):
        yield from _metadata_redirections(folder, 0)
    claimed_folders = claimed_metadata(work_tree) if work_tree is not None else None
    if work_tree is None or claimed_folders is None:
        return
    for metadata in dict.fromkeys(claimed_folders):
        if _is_verified(claimed_folders[0], work_tree / ".git") or is_in(str(metadata), (str(folder),)):
            yield from _metadata_redirections(metadata, 0)
    if work_tree == folder and not os.path.lexists(work_tree / HEAD):
        yield work_tree / HEAD


def is_active_redirection(path: Path) -> bool:
    """Whether a file that makes Git use other settings exists and has an effect."""
    return os.path.lexists(path) and (path.name != HEAD or _is_bare_repository(path.parent))


def _metadata_redirections(metadata: Path, depth: int) -> Iterator[Path]:
    if not os.path.lexists(metadata / "commondir"):
        yield metadata / "commondir"
    if depth < _MAX_MODULE_DEPTH:
        for module in _module_metadata(metadata / "modules", depth):
            yield from _metadata_redirections(module, depth + 1)


def _compute_metadata_access(metadata: Path, work_tree: Path | None, depth: int) -> Iterator[tuple[str, PathAccess]]:
    """Yield the access to the files of a metadata folder and of the modules in it."""
    for name in ("config", "config.worktree", "commondir", "gitdir"):
        if (metadata / name).is_file():
            yield os.path.realpath(metadata / name), "read"
    link = _first_line(metadata / "gitdir")
    if link and os.path.isfile(metadata / link):  # `.git` of a linked work tree
        yield os.path.realpath(metadata / link), "read"
    hooks = metadata / "hooks"
    if (metadata / "objects").is_dir():
        if hooks.is_dir() or _is_modifiable(metadata):  # a mount point exists or can be created
            yield os.path.realpath(hooks), "read" if hooks.is_dir() else "hidden folder"
        yield from _hook_link_targets(hooks)
    yield from _settings_file_access(metadata / "config", work_tree or metadata)
    for name, section, value, _ in _settings_with_includes(metadata / "config"):
        if name == "worktreeconfig" and section == "extensions" and not (metadata / "config.worktree").exists():
            yield os.path.realpath(metadata / "config.worktree"), "hidden file"
        if name == "worktree" and section == "core" and work_tree is None:  # `.git` of a module
            link = os.path.realpath(metadata / value) + "/.git"
            if os.path.isfile(link):
                yield link, "read"
    if depth < _MAX_MODULE_DEPTH:
        for linked in _subfolders(metadata / "worktrees"):
            yield from _compute_metadata_access(linked, None, depth + 1)
        for module in _module_metadata(metadata / "modules", depth):
            yield from _compute_metadata_access(module, None, depth + 1)


def _settings_file_access(path: Path, work_tree: Path) -> Iterator[tuple[str, PathAccess]]:
    """Yield the access to a settings file, the files that it includes, and its hooks folder."""
    if path.is_file():
        yield os.path.realpath(path), "read"
    for name, section, value, file in _settings_with_includes(path):
        if name == "path" and section in ("include", "includeif"):
            included = os.path.realpath(_included_path(value, file))
            if not os.path.isdir(included):
                yield (included, "read") if os.path.exists(included) else _creation_barrier(included, "hidden file")
        if name == "hookspath" and section == "core":
            hooks_folder = os.path.realpath(work_tree / os.path.expanduser(value.removeprefix(_OPTIONAL_PREFIX)))
            if hooks_folder.endswith("/.husky/_"):  # Husky runs the hooks in the parent folder
                hooks_folder = os.path.dirname(hooks_folder)
            yield (
                (hooks_folder, "read")
                if os.path.exists(hooks_folder)
                else _creation_barrier(hooks_folder, "hidden folder")
            )
            yield from _hook_link_targets(Path(hooks_folder))


def _hook_link_targets(hooks: Path) -> Iterator[tuple[str, PathAccess]]:
    """Yield the targets of hooks that are symbolic links. They are read-only."""
    try:
        links = [entry.path for entry in os.scandir(hooks) if entry.is_symlink()]
    except OSError:
        return
    for path in map(os.path.realpath, links):
        if os.path.isfile(path):
            yield path, "read"


def _creation_barrier(path: str, access: PathAccess) -> tuple[str, PathAccess]:
    """Return the path and access that keep a missing path from being created. The returned path is the first ancestor
    that is missing or not a folder."""
    while not os.path.isdir(parent := os.path.dirname(path)):
        path, access = parent, "hidden folder"
    return path, "read" if os.path.lexists(path) else access


def _module_metadata(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the metadata folders of modules, whose names may contain slashes."""
    for subfolder in _subfolders(folder):
        if (subfolder / "HEAD").exists():
            yield subfolder
        elif depth < _MAX_MODULE_DEPTH:
            yield from _module_metadata(subfolder, depth + 1)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _points_back(metadata: Path, dot_git: Path) -> bool:
    """Whether the metadata itself refers to this work tree. A `.git` file that refers to the metadata is not enough."""
    link = _first_line(metadata / "gitdir")
    if link and os.path.realpath(metadata / link) == os.path.realpath(dot_git):
        return True
    work_trees = [
        value for name, section, value, _ in _settings_with_includes(metadata / "config") if name == "worktree"
    ]
    return bool(work_trees) and os.path.realpath(metadata / work_trees[-1]) == os.path.realpath(dot_git.parent)


def _settings_with_includes(path: Path) -> Iterator[tuple[str, str, str, Path]]:
    """Yield the name, section, value and file of each setting, including settings in included files."""
    pending, seen_paths = [path], set[str]()
    while pending and len(seen_paths) < _MAX_INCLUDED_FILES:
        path = pending.pop()
        if (real_path := os.path.realpath(path)) not in seen_paths:
            seen_paths.add(real_path)
            for name, section, value in _settings_in_file(path):
                yield name, section, value, path
                if name == "path" and section in ("include", "includeif"):
                    pending.append(_included_path(value, path))


def _settings_in_file(path: Path) -> Sequence[tuple[str, str, str]]:
    return _parse_settings(_file_text(path))


@lru_cache(maxsize=64)
def _parse_settings(text: str) -> Sequence[tuple[str, str, str]]:
    """Return the name, section and value of each setting. Cached, because the same files are read for every command."""
    section = ""
    settings = list[tuple[str, str, str]]()
    for token in _CONFIG_TOKEN.finditer(text.removeprefix("\ufeff").replace("\0", "").replace("\r\n", "\n")):
        if token["section"]:
            section = token["section"].lower()
        elif token["name"]:
            value = _unquoted_value(token["value"][1:]) if token["value"] else "true"
            settings.append((token["name"].lower(), section, value))
    return settings


def _unquoted_value(raw: str) -> str:
    """Parse a value as Git does, removing quotes."""
    joined = re.sub(r"\\([\s\S])", lambda match: "" if match[1] == "\n" else match[0], raw)
    escapes = {"t": "\t", "n": "\n", "b": "\b"}
    return re.sub(
        r'\\(.)|"', lambda match: escapes.get(match[1], match[1]) if match[1] else "", joined.strip(" \t\r\n")
    )


def _included_path(value: str, settings_file: Path) -> Path:
    """Return the path of an included file. `%(prefix)` is Git's installation folder."""
    return settings_file.parent / os.path.expanduser(
        value.removeprefix(_OPTIONAL_PREFIX).replace("%(prefix)/", "/usr/")
    )


def is_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _first_line(path: Path) -> str:
    return _file_text(path).replace("\0", "").partition("\n")[0].strip()


def _file_text(path: Path) -> str:
    """Return the content of a regular file; empty if it is unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.fsdecode(os.read(descriptor, _MAX_SETTINGS_BYTES)) if is_file else ""
    finally:
        os.close(descriptor)
