"""What of a repository says which programs Git runs: its settings, its hooks and where those are, of its submodules and
linked work trees, too. Nothing is asked of Git to find it, for that would run some of them."""

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
"""A section, a setting or a remark. Sections may follow each other in a line, and only values go on in the next one."""
_MAX_SETTINGS_BYTES = 1 << 20
"""Bytes of a file that are looked at."""
HEAD = "HEAD"
"""Beside `objects` and `refs` it makes a repository of any folder; of a work tree, where its `.git` is damaged."""
_MAX_DEPTH = 10
"""Modules in modules."""
_OPTIONAL = ":(optional)"
"""Before a path that need not be there."""
_MAX_FILES = 100
"""Files of settings that include each other."""
_MAX_FOLDERS = 2_000
"""Folders in which repositories are looked for."""
_MAX_REPOSITORIES = 12
"""Repositories below a folder that are kept: each takes four mounts, and what a mount takes grows with their number."""
_BUILD_FOLDERS = frozenset(
    (
        "node_modules", "vendor", "deps", "Carthage", "subprojects", "build", "dist", "out", "target", "_deps", "tmp",
        "venv", "site-packages", "__pycache__",
    )
)  # fmt: skip
"""Folders in which programs make and remove repositories."""
_MOVABLE = ("config", "config.worktree", "commondir", "hooks")
"""Of metadata, what must not be a link: none can be kept where it is."""


def git_places(folder: Path, writable: Sequence[str]) -> dict[str, Access]:
    """What may be done to the metadata of the repository that a folder lies in: commits can be made, and what Git runs
    cannot be changed. `writable`: what can be written otherwise."""
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
        # No mount keeps a link where it is: settings behind one could be replaced by others.
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
    """The files with settings for all repositories. They may lie, or lead, into the working folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    for name in (os.environ.get("GIT_CONFIG_GLOBAL"), os.path.expanduser("~/.gitconfig"), f"{home}/git/config"):
        if name and os.path.isfile(name):
            yield Path(name)


def included_settings(metadata: Path) -> Iterator[str]:
    """The files that a repository's settings include, whatever the condition; the root folder, too, where there is more
    of them than is looked at."""
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


def files_of_settings(folder: Path) -> Iterator[Path]:
    """The files in which settings stand for the repository that a folder lies in: its own, those of its submodules,
    what they include, `.gitmodules` and those of the user."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    waiting = [*_of_the_user(), *([top / ".gitmodules"] if top is not None else [])]
    for metadata in dict.fromkeys((metadata_of(top) if top is not None else None) or ()):
        for each in (metadata, *_modules(metadata / "modules", 0)):
            waiting += [each / "config", each / "config.worktree"]
            waiting += map(Path, included_settings(each))
    yield from dict.fromkeys(path for path in waiting if path.is_file())


def all_settings(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and section, in small letters, of each setting of the repository that a folder lies in, of its submodules
    and of what they include."""
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
    """The files that lead from the linked work trees of a folder's repository to their metadata, each with the metadata
    that it leads to; only those that lead back."""
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
    """Whether a file leads to metadata that a repository has for linked work trees, and that lead to no other one."""
    if link.is_symlink() or not link.is_file():
        return False
    metadata = Path(os.path.realpath(link.parent / _first_line(link).removeprefix("gitdir:").strip()))
    shared = _first_line(metadata / "commondir")
    return (
        metadata.parent == common / "worktrees" and bool(shared) and Path(os.path.realpath(metadata / shared)) == common
    )


def submodules(folder: Path) -> dict[Path, Path]:
    """The files that lead from the work trees of a folder's submodules to their metadata, each with that; only those
    that lead back, of submodules without any of their own."""
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
    """Where `.gitmodules` says that submodules are, of those that are checked out."""
    paths = (
        value for name, section, value in _settings_of(top / ".gitmodules") if (name, section) == ("path", "submodule")
    )
    return sorted(path for path in dict.fromkeys(paths) if os.path.lexists(top / path / ".git"))


def leads_to(link: Path, metadata: Path) -> bool:
    """Whether the file `.git` of a work tree leads to this metadata."""
    if link.is_symlink() or not link.is_file():
        return False
    return os.path.realpath(link.parent / _first_line(link).removeprefix("gitdir:").strip()) == str(metadata)


def own_metadata(top: Path) -> tuple[Path, Path] | None:
    """The metadata of the repository with a work tree at a folder, and what it shares with other work trees; None where
    there is none, or it is only the work tree that says so."""
    found = metadata_of(top)
    return found if found is not None and _is_own(found[0], top / ".git") else None


def in_main_work_tree(folder: Path) -> Path | None:
    """The same folder in the main work tree of its repository, where it is in a linked one. That it is says the
    repository itself, in a place that no clone brings."""
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    found = own_metadata(top) if top is not None else None
    if top is None or found is None or found[0].parent != found[1] / "worktrees" or found[1].name != ".git":
        return None
    return found[1].parent / folder.relative_to(top)


def metadata_of(top: Path) -> tuple[Path, Path] | None:
    """The metadata of a work tree, and what it shares with others, by its own word; None where there is none."""
    dot = top / ".git"
    metadata = Path(os.path.realpath(dot if dot.is_dir() else top / _first_line(dot).removeprefix("gitdir:").strip()))
    if not os.path.isdir(metadata):
        return None
    return metadata, Path(os.path.realpath(metadata / (_first_line(metadata / "commondir") or ".")))


def _is_own(metadata: Path, dot: Path) -> bool:
    return (dot.is_dir() and not dot.is_symlink()) or _points_back(metadata, dot)


@dataclass(frozen=True, slots=True)
class Repositories:
    """Those of a folder, as they are when it is taken in: what commands make of them later is theirs."""

    below: tuple[Path, ...]
    """The nearest ones in it, but for its own submodules and work trees."""
    unwanted: tuple[Path, ...]
    """Files that are not there, and that no command may make."""


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
    """Whether it is the user's own, who may open what is closed, or anybody's."""
    try:
        return metadata.stat().st_uid == os.getuid() or os.access(metadata, os.W_OK)
    except OSError:
        return False


def _may_hold_some(name: str) -> bool:
    return not name.startswith(".") and name not in _BUILD_FOLDERS


def _is_bare(folder: Path) -> bool:
    return os.path.isfile(folder / HEAD) and all(os.path.isdir(folder / name) for name in ("objects", "refs"))


def _redirections(folder: Path) -> Iterator[Path]:
    """The files that would make Git take other settings for those of the repository that a folder lies in, and of its
    submodules, where they are not there. No mount can keep them away: Git fails at an empty one."""
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
    """Whether one of those files is there and does what it must not."""
    return os.path.lexists(path) and (path.name != HEAD or _is_bare(path.parent))


def _redirections_of(metadata: Path, depth: int) -> Iterator[Path]:
    if not os.path.lexists(metadata / "commondir"):
        yield metadata / "commondir"
    if depth < _MAX_DEPTH:
        for each in _modules(metadata / "modules", depth):
            yield from _redirections_of(each, depth + 1)


def _of_metadata(metadata: Path, top: Path | None, depth: int) -> Iterator[tuple[str, Access]]:
    """Of one folder of metadata, and of the modules below it."""
    for name in ("config", "config.worktree", "commondir", "gitdir"):
        if (metadata / name).is_file():
            yield os.path.realpath(metadata / name), "read"
    link = _first_line(metadata / "gitdir")
    if link and os.path.isfile(metadata / link):  # of a linked work tree: the file that leads here
        yield os.path.realpath(metadata / link), "read"
    hooks = metadata / "hooks"
    if (metadata / "objects").is_dir():
        if hooks.is_dir() or _can_be_changed(metadata):  # in another user's no place for one can be made
            yield os.path.realpath(hooks), "read" if hooks.is_dir() else "hidden folder"
        yield from _behind_links(hooks)
    yield from _of_settings(metadata / "config", top or metadata)
    for name, section, value, _ in _settings(metadata / "config"):
        if name == "worktreeconfig" and section == "extensions" and not (metadata / "config.worktree").exists():
            yield os.path.realpath(metadata / "config.worktree"), "hidden file"
        if name == "worktree" and section == "core" and top is None:  # of a module: the file that leads to it
            link = os.path.realpath(metadata / value) + "/.git"
            if os.path.isfile(link):
                yield link, "read"
    if depth < _MAX_DEPTH:
        for each in _folders(metadata / "worktrees"):
            yield from _of_metadata(each, None, depth + 1)
        for each in _modules(metadata / "modules", depth):
            yield from _of_metadata(each, None, depth + 1)


def _of_settings(path: Path, top: Path) -> Iterator[tuple[str, Access]]:
    """A file with settings, what it includes, and the hooks that it names."""
    if path.is_file():
        yield os.path.realpath(path), "read"
    for name, section, value, at in _settings(path):
        if name == "path" and section in ("include", "includeif"):
            included = os.path.realpath(_leads_to(value, at))
            if not os.path.isdir(included):
                yield (included, "read") if os.path.exists(included) else _block_creation(included, "hidden file")
        if name == "hookspath" and section == "core":
            found = os.path.realpath(top / os.path.expanduser(value.removeprefix(_OPTIONAL)))
            if found.endswith("/.husky/_"):  # which runs what lies beside it
                found = os.path.dirname(found)
            yield (found, "read") if os.path.exists(found) else _block_creation(found, "hidden folder")
            yield from _behind_links(Path(found))


def _behind_links(hooks: Path) -> Iterator[tuple[str, Access]]:
    """The programs that lie elsewhere and are linked to as hooks."""
    try:
        links = [entry.path for entry in os.scandir(hooks) if entry.is_symlink()]
    except OSError:
        return
    for path in map(os.path.realpath, links):
        if os.path.isfile(path):
            yield path, "read"


def _block_creation(path: str, access: Access) -> tuple[str, Access]:
    """What keeps something from being made: the first on the way to it that is not there, or is no folder."""
    while not os.path.isdir(above := os.path.dirname(path)):
        path, access = above, "hidden folder"
    return path, "read" if os.path.lexists(path) else access


def _modules(folder: Path, depth: int) -> Iterator[Path]:
    """A module may have slashes in its name."""
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
    """Whether the metadata belongs to this work tree by its own word, not only by that of the work tree."""
    link = _first_line(metadata / "gitdir")
    if link and os.path.realpath(metadata / link) == os.path.realpath(dot):
        return True
    named = [value for name, section, value, _ in _settings(metadata / "config") if name == "worktree"]
    return bool(named) and os.path.realpath(metadata / named[-1]) == os.path.realpath(dot.parent)


def _settings(path: Path) -> Iterator[tuple[str, str, str, Path]]:
    """Name, section, value and file of each setting, of included files, too, whatever the condition."""
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
    """A value without its quotation marks, as Git takes it."""
    joined = re.sub(r"\\([\s\S])", lambda found: "" if found[1] == "\n" else found[0], written)
    signs = {"t": "\t", "n": "\n", "b": "\b"}
    return re.sub(r'\\(.)|"', lambda found: signs.get(found[1], found[1]) if found[1] else "", joined.strip(" \t\r\n"))


def _leads_to(value: str, at: Path) -> Path:
    """The file that a setting of an included file means. `%(prefix)` is where Git was installed."""
    return at.parent / os.path.expanduser(value.removeprefix(_OPTIONAL).replace("%(prefix)/", "/usr/"))


def is_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _first_line(path: Path) -> str:
    return _text(path).replace("\0", "").partition("\n")[0].strip()


def _text(path: Path) -> str:
    """What is in a regular file; nothing where that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.fsdecode(os.read(descriptor, _MAX_SETTINGS_BYTES)) if is_file else ""
    finally:
        os.close(descriptor)
