"""Finds the metadata of a repository that determines which programs Git runs: settings, hooks and their locations, also
of submodules and linked work trees. Git is not asked, since that could run some of them."""

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.boundary import Access

_ELEMENT = re.compile(
    r"""\[[ \t]*(?P<section>[A-Za-z0-9.-]+)(?:[ \t]+"(?:[^"\\\n]|\\.)*")?[ \t]*\]"""
    r"""|(?P<name>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?P<value>=(?:\\[\s\S]|"(?:[^"\\\n]|\\[\s\S])*"|[^\n;#"\\])*)?"""
    r"""|[#;][^\n]*"""
)
"""A section, a setting or a comment. Sections may follow each other on one line, and only values continue on the
next."""
_MAX_SETTINGS_BYTES = 1 << 20
"""Maximum number of bytes read per file."""
HEAD = "HEAD"
"""Together with `objects` and `refs`, it makes any folder a repository, even a work tree if its `.git` is damaged."""
_MAX_DEPTH = 10
"""Maximum nesting depth of modules."""
_OPTIONAL = ":(optional)"
"""Prefix of a path that need not exist."""
_MAX_FILES = 100
"""Maximum number of settings files that include each other."""
_MAX_FOLDERS = 2_000
"""Maximum number of folders searched for repositories."""
_MAX_REPOSITORIES = 12
"""Maximum number of repositories below a folder: each needs four mounts, and the cost of a mount grows with their
number."""
_BUILD_FOLDERS = frozenset(
    (
        "node_modules", "vendor", "deps", "Carthage", "subprojects", "build", "dist", "out", "target", "_deps", "tmp",
        "venv", "site-packages", "__pycache__",
    )
)  # fmt: skip
"""Folders in which programs create and delete repositories."""
_MOVABLE = ("config", "config.worktree", "commondir", "hooks")
"""Metadata that must not be a link, since a mount cannot protect a link."""


def git_places(folder: Path, writable: Sequence[str]) -> dict[str, Access]:
    """Return the access to the metadata of a folder's repository: commits are possible, but what Git executes cannot be
    changed. `writable`: folders that are otherwise writable."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    if top != folder and _is_bare(folder):
        return {path: access for path, access in _of_metadata(folder, None, 0) if is_in(path, writable)}
    found = metadata_of(top) if top is not None else None
    if top is None or found is None:
        return {}
    dot, places = top / ".git", dict[str, Access]()
    metadata, common = found
    if not os.access(metadata, os.X_OK) and not _can_be_changed(metadata):
        return {}
    is_linked = metadata != common
    if dot.is_file() and is_in(str(dot), writable):
        places[str(dot)] = "read"
    if _is_own(metadata, dot):
        # A mount cannot protect a link: the settings it leads to could be replaced.
        links = [name for each in (metadata, common) for name in _MOVABLE if (each / name).is_symlink()]
        access: Access = "read" if links else "write"
        places[str(metadata)] = access
        if is_linked and dot.is_file() and metadata.parent == common / "worktrees":
            places[str(common)] = access
    roots = tuple(writable)
    writable = (*writable, *(path for path, access in places.items() if access == "write"))
    named = (each for settings in _of_the_user() for each in _of_settings(settings, top))
    for path, access in (*named, *(each for one in (metadata, common) for each in _of_metadata(one, top, 0))):
        if is_in(path, writable) and path not in roots:
            places[path] = access
    return places


def _of_the_user() -> Iterator[Path]:
    """Yield the user's global settings files. They may be, or link to files, in the working folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    for name in (os.environ.get("GIT_CONFIG_GLOBAL"), os.path.expanduser("~/.gitconfig"), f"{home}/git/config"):
        if name and os.path.isfile(name):
            yield Path(name)


def included_settings(metadata: Path) -> Iterator[str]:
    """Return the files included by a repository's settings, ignoring conditions. Also the root folder if there are too
    many of them."""
    found = {os.path.realpath(metadata / name) for name in ("config", "config.worktree")}
    for settings in tuple(found):
        for name, section, value, at in _settings(Path(settings)):
            if name == "path" and section in ("include", "includeif"):
                found.add(os.path.realpath(_leads_to(value, at)))
                yield os.path.realpath(_leads_to(value, at))
    if len(found) > _MAX_FILES or any(
        os.path.getsize(path) > _MAX_SETTINGS_BYTES for path in found if os.path.isfile(path)
    ):
        yield os.sep


def settings_paths(folder: Path) -> Iterator[Path]:
    """Yield where settings of a folder's repository may be, existing or not: its own files, those of submodules,
    included ones, `.gitmodules` and the user's."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    waiting = [*_of_the_user(), *([top / ".gitmodules"] if top is not None else [])]
    for metadata in dict.fromkeys((metadata_of(top) if top is not None else None) or ()):
        for each in (metadata, *_modules(metadata / "modules", 0)):
            waiting += [each / "config", each / "config.worktree"]
            waiting += map(Path, included_settings(each))
    yield from dict.fromkeys(waiting)


def all_settings(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and section, in lower case, of each setting of a folder's repository, its submodules and included
    files."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    metadata = metadata_of(top) if top is not None else (folder, folder) if _is_bare(folder) else None
    for each in dict.fromkeys(metadata or ()):
        yield from _all_settings_of(each, 0)


def _all_settings_of(metadata: Path, depth: int) -> Iterator[tuple[str, str]]:
    for file in ("config", "config.worktree"):
        yield from ((name, section) for name, section, _, _ in _settings(metadata / file))
    if depth < _MAX_DEPTH:
        for each in _modules(metadata / "modules", depth):
            yield from _all_settings_of(each, depth + 1)


def linked_work_trees(folder: Path) -> dict[Path, Path]:
    """Map the `.git` files of linked work trees of a folder's repository to their metadata, if that refers back to
    them."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    found = own_metadata(top) if top is not None else None
    if found is None:
        return {}
    each = {
        metadata: Path(os.path.realpath(metadata / _first_line(metadata / "gitdir")))
        for metadata in _folders(found[1] / "worktrees")
    }
    return {
        link: metadata for metadata, link in each.items() if link.name == ".git" and is_work_tree_of(link, found[1])
    }


def is_work_tree_of(link: Path, common: Path) -> bool:
    """Whether the file leads to metadata for a linked work tree of this repository and no other."""
    if link.is_symlink() or not link.is_file():
        return False
    metadata = Path(os.path.realpath(link.parent / _first_line(link).removeprefix("gitdir:").strip()))
    shared = _first_line(metadata / "commondir")
    return (
        metadata.parent == common / "worktrees" and bool(shared) and Path(os.path.realpath(metadata / shared)) == common
    )


def submodules(folder: Path) -> dict[Path, Path]:
    """Map the `.git` files of a folder's submodules to their metadata, if that refers back to them. Submodules that
    contain submodules are excluded."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    found = own_metadata(top) if top is not None else None
    if found is None:
        return {}
    each = {
        Path(os.path.realpath(metadata / value)) / ".git": metadata
        for metadata in map(Path, map(os.path.realpath, _modules(found[1] / "modules", 0)))
        if not _folders(metadata / "modules")
        for name, section, value, _ in _settings(metadata / "config")
        if (name, section) == ("worktree", "core")
    }
    return {link: metadata for link, metadata in each.items() if leads_to(link, metadata)}


def submodule_paths(top: Path) -> list[str]:
    """Return the paths of submodules in `.gitmodules` that are checked out."""
    paths = (
        value for name, section, value in _settings_of(top / ".gitmodules") if (name, section) == ("path", "submodule")
    )
    return sorted(path for path in dict.fromkeys(paths) if os.path.lexists(top / path / ".git"))


def leads_to(link: Path, metadata: Path) -> bool:
    """Whether the `.git` file of a work tree leads to this metadata."""
    if link.is_symlink() or not link.is_file():
        return False
    return os.path.realpath(link.parent / _first_line(link).removeprefix("gitdir:").strip()) == str(metadata)


def own_metadata(top: Path) -> tuple[Path, Path] | None:
    """Return the metadata of the repository with its work tree at a folder, and the shared metadata. None if there is
    none, or only the work tree claims so."""
    found = metadata_of(top)
    return found if found is not None and _is_own(found[0], top / ".git") else None


def in_main_work_tree(folder: Path) -> Path | None:
    """Return the corresponding folder in the main work tree, for a folder in a linked one. The relation is recorded in
    the repository itself, where a clone cannot put it."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    found = own_metadata(top) if top is not None else None
    if top is None or found is None or found[0].parent != found[1] / "worktrees" or found[1].name != ".git":
        return None
    return found[1].parent / folder.relative_to(top)


def metadata_of(top: Path) -> tuple[Path, Path] | None:
    """Return the metadata of a work tree and the shared metadata, according to the work tree. None if there is none."""
    dot = top / ".git"
    metadata = Path(os.path.realpath(dot if dot.is_dir() else top / _first_line(dot).removeprefix("gitdir:").strip()))
    if not os.path.isdir(metadata):
        return None
    return metadata, Path(os.path.realpath(metadata / (_first_line(metadata / "commondir") or ".")))


def _is_own(metadata: Path, dot: Path) -> bool:
    return (dot.is_dir() and not dot.is_symlink()) or _points_back(metadata, dot)


@dataclass(frozen=True, slots=True)
class Repositories:
    """The repositories of a folder when the session starts. Those that commands create later are theirs."""

    below: tuple[Path, ...]
    """The nearest repositories in it, except its own submodules and work trees."""
    unwanted: tuple[Path, ...]
    """Missing files that no command may create."""


def repositories_of(folder: Path) -> Repositories:
    below = _repositories_below(folder)
    return Repositories(below, tuple(path for each in (folder, *below) for path in _redirections(each)))


def _repositories_below(folder: Path) -> tuple[Path, ...]:
    found = metadata_of(folder) if os.path.lexists(folder / ".git") else None
    own = (str(found[1]),) if found is not None else ()
    tops, waiting, seen = list[Path](), deque([folder]), 0
    while waiting and len(tops) < _MAX_REPOSITORIES and seen < _MAX_FOLDERS:
        at, seen = waiting.popleft(), seen + 1
        try:
            with os.scandir(at) as entries:
                kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        if at != folder and (".git" in kinds or (kinds.keys() >= {HEAD, "objects", "refs"} and _is_bare(at))):
            metadata = metadata_of(at) if ".git" in kinds else (at, at)
            if metadata is not None and not is_in(str(metadata[1]), own) and _can_be_changed(metadata[1]):
                tops.append(at)
            if ".git" not in kinds:
                continue
        waiting += [at / name for name, is_folder in kinds.items() if is_folder and _may_hold_some(name)]
    return tuple(tops)


def _can_be_changed(metadata: Path) -> bool:
    """Whether it can be made writable: it belongs to the user, or is writable."""
    try:
        return metadata.stat().st_uid == os.getuid() or os.access(metadata, os.W_OK)
    except OSError:
        return False


def _may_hold_some(name: str) -> bool:
    return not name.startswith(".") and name not in _BUILD_FOLDERS


def _is_bare(folder: Path) -> bool:
    return os.path.isfile(folder / HEAD) and all(os.path.isdir(folder / name) for name in ("objects", "refs"))


def _redirections(folder: Path) -> Iterator[Path]:
    """Yield missing files that would make Git use other settings for a folder's repository or its submodules. A mount
    cannot prevent their creation: Git fails on an empty file."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    if top != folder and _is_bare(folder):
        yield from _redirections_of(folder, 0)
    found = metadata_of(top) if top is not None else None
    if top is None or found is None:
        return
    for metadata in dict.fromkeys(found):
        if _is_own(found[0], top / ".git") or is_in(str(metadata), (str(folder),)):
            yield from _redirections_of(metadata, 0)
    if top == folder and not os.path.lexists(top / HEAD):
        yield top / HEAD


def is_redirection(path: Path) -> bool:
    """Whether such a file exists and has an effect."""
    return os.path.lexists(path) and (path.name != HEAD or _is_bare(path.parent))


def _redirections_of(metadata: Path, depth: int) -> Iterator[Path]:
    if not os.path.lexists(metadata / "commondir"):
        yield metadata / "commondir"
    if depth < _MAX_DEPTH:
        for each in _modules(metadata / "modules", depth):
            yield from _redirections_of(each, depth + 1)


def _of_metadata(metadata: Path, top: Path | None, depth: int) -> Iterator[tuple[str, Access]]:
    """Yield the places of a metadata folder and its modules."""
    for name in ("config", "config.worktree", "commondir", "gitdir"):
        if (metadata / name).is_file():
            yield os.path.realpath(metadata / name), "read"
    link = _first_line(metadata / "gitdir")
    if link and os.path.isfile(metadata / link):  # the `.git` file of a linked work tree
        yield os.path.realpath(metadata / link), "read"
    hooks = metadata / "hooks"
    if (metadata / "objects").is_dir():
        if hooks.is_dir() or _can_be_changed(metadata):  # not possible in another user's repository
            yield os.path.realpath(hooks), "read" if hooks.is_dir() else "hidden folder"
        yield from _behind_links(hooks)
    yield from _of_settings(metadata / "config", top or metadata)
    for name, section, value, _ in _settings(metadata / "config"):
        if name == "worktreeconfig" and section == "extensions" and not (metadata / "config.worktree").exists():
            yield os.path.realpath(metadata / "config.worktree"), "hidden file"
        if name == "worktree" and section == "core" and top is None:  # the `.git` file of a module
            link = os.path.realpath(metadata / value) + "/.git"
            if os.path.isfile(link):
                yield link, "read"
    if depth < _MAX_DEPTH:
        for each in _folders(metadata / "worktrees"):
            yield from _of_metadata(each, None, depth + 1)
        for each in _modules(metadata / "modules", depth):
            yield from _of_metadata(each, None, depth + 1)


def _of_settings(path: Path, top: Path) -> Iterator[tuple[str, Access]]:
    """Yield a settings file, its included files and its hooks."""
    if path.is_file():
        yield os.path.realpath(path), "read"
    for name, section, value, at in _settings(path):
        if name == "path" and section in ("include", "includeif"):
            included = os.path.realpath(_leads_to(value, at))
            if not os.path.isdir(included):
                yield (included, "read") if os.path.exists(included) else _block_creation(included, "hidden file")
        if name == "hookspath" and section == "core":
            found = os.path.realpath(top / os.path.expanduser(value.removeprefix(_OPTIONAL)))
            if found.endswith("/.husky/_"):  # it runs what is beside it
                found = os.path.dirname(found)
            yield (found, "read") if os.path.exists(found) else _block_creation(found, "hidden folder")
            yield from _behind_links(Path(found))


def _behind_links(hooks: Path) -> Iterator[tuple[str, Access]]:
    """Yield programs elsewhere that hooks link to."""
    try:
        links = [entry.path for entry in os.scandir(hooks) if entry.is_symlink()]
    except OSError:
        return
    for path in map(os.path.realpath, links):
        if os.path.isfile(path):
            yield path, "read"


def _block_creation(path: str, access: Access) -> tuple[str, Access]:
    """Return the place that prevents creation of a path: its first ancestor that is missing or not a folder."""
    while not os.path.isdir(above := os.path.dirname(path)):
        path, access = above, "hidden folder"
    return path, "read" if os.path.lexists(path) else access


def _modules(folder: Path, depth: int) -> Iterator[Path]:
    """Module names may contain slashes."""
    for each in _folders(folder):
        if (each / "HEAD").exists():
            yield each
        elif depth < _MAX_DEPTH:
            yield from _modules(each, depth + 1)


def _folders(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _points_back(metadata: Path, dot: Path) -> bool:
    """Whether the metadata itself, and not only the work tree, says that they belong together."""
    link = _first_line(metadata / "gitdir")
    if link and os.path.realpath(metadata / link) == os.path.realpath(dot):
        return True
    named = [value for name, section, value, _ in _settings(metadata / "config") if name == "worktree"]
    return bool(named) and os.path.realpath(metadata / named[-1]) == os.path.realpath(dot.parent)


def _settings(path: Path) -> Iterator[tuple[str, str, str, Path]]:
    """Yield name, section, value and file of each setting, including all included files."""
    waiting, seen = [path], set[str]()
    while waiting and len(seen) < _MAX_FILES:
        path = waiting.pop()
        if (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            for name, section, value in _settings_of(path):
                yield name, section, value, path
                if name == "path" and section in ("include", "includeif"):
                    waiting.append(_leads_to(value, path))


def _settings_of(path: Path) -> Iterator[tuple[str, str, str]]:
    section = ""
    for found in _ELEMENT.finditer(_text(path).removeprefix("\ufeff").replace("\0", "").replace("\r\n", "\n")):
        if found["section"]:
            section = found["section"].lower()
        elif found["name"]:
            yield found["name"].lower(), section, _plain(found["value"][1:]) if found["value"] else "true"


def _plain(written: str) -> str:
    """Return a value without its quotes, as Git reads it."""
    joined = re.sub(r"\\([\s\S])", lambda found: "" if found[1] == "\n" else found[0], written)
    signs = {"t": "\t", "n": "\n", "b": "\b"}
    return re.sub(r'\\(.)|"', lambda found: signs.get(found[1], found[1]) if found[1] else "", joined.strip(" \t\r\n"))


def _leads_to(value: str, at: Path) -> Path:
    """Return the file that an include refers to. `%(prefix)` is Git's installation folder."""
    return at.parent / os.path.expanduser(value.removeprefix(_OPTIONAL).replace("%(prefix)/", "/usr/"))


def is_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _first_line(path: Path) -> str:
    return _text(path).replace("\0", "").partition("\n")[0].strip()


def _text(path: Path) -> str:
    """Return the content of a regular file, or an empty string if it is unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.fsdecode(os.read(descriptor, _MAX_SETTINGS_BYTES)) if is_file else ""
    finally:
        os.close(descriptor)
