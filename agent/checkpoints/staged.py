"""Reads and restores the staged entries of the repositories in a folder. Git itself is not run, since a repository's
settings can make it run programs."""

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.checkpoints.comparison import Change
from ebbtide.agent.checkpoints.file_state import UNKNOWN_STAGED, FileState, PathChange
from ebbtide.agent.checkpoints.git_index import read_index, read_staged, staged_in, with_staged
from ebbtide.agent.checkpoints.nofollow_paths import parent_of
from ebbtide.agent.checkpoints.restore import PREFIX
from ebbtide.agent.checkpoints.work_tree import TICK
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.sandbox.git_metadata import own_metadata

MAX_INDEX_BYTES = 100_000_000
"""Largest index that is read, in bytes."""
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
BUSY = "git is running there, or it left an `index.lock`"
OTHERS = "what is staged was changed in the meantime"

Identity = tuple[int, int, int, int] | tuple[()]
"""Inode, size, change time and modification time."""
CHANGED_FIELD, WRITTEN_FIELD = 2, 3


@dataclass(slots=True)
class _IndexSnapshot:
    """The staged entries of one repository."""

    identity: Identity
    """The identity of the index file; empty if it may change again without a new identity."""
    head: str
    staged: Mapping[bytes, bytes] | None
    """None if they cannot be read."""
    digest: str = ""
    """Digest of an index whose entries cannot be read."""


class StagedFiles:
    """The path of a staged entry is the path of the index, a NUL, and the path in the repository."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, _IndexSnapshot] = {}
        self._tops: dict[str, str] = {}
        """The work tree of each index."""

    @property
    def staged_by_tree(self) -> dict[str, Mapping[bytes, bytes]]:
        """The staged entries of each work tree, if they can be read."""
        seen = ((self._tops[name], self._seen[name].staged) for name in self._tops)
        return {top: staged for top, staged in seen if staged is not None}

    def look(self, folders: Iterable[str]) -> dict[str, Change]:
        """The staged entries and heads that changed since the last scan, in the repositories at `folders` and around
        the root. Repositories that are new since then are skipped."""
        before, self._seen, self._tops = self._seen, {}, {}
        found: dict[str, Change] = {}
        for top, index, metadata, common in self._repositories(folders):
            name = _name(self._root, index)
            self._tops[name] = top
            old = before.get(name)
            new = self._seen[name] = _look(index, metadata, common, old)
            if old is None:
                continue
            if old.head != new.head:
                found[f"{name}\0"] = (_state(old.head, b""), _state(new.head, b""))
            elif old.staged is None or new.staged is None:
                if old.digest != new.digest:
                    was, now = bytes.fromhex(old.digest), bytes.fromhex(new.digest)
                    found[f"{name}{UNKNOWN_STAGED}"] = (_state(old.head, was), _state(new.head, now))
            elif old.staged is not new.staged:
                for path in old.staged.keys() | new.staged.keys():
                    was, now = old.staged.get(path, b""), new.staged.get(path, b"")
                    if was != now:
                        found[f"{name}\0{os.fsdecode(path)}"] = (_state(old.head, was), _state(new.head, now))
        return found

    def states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """The current staged entries of these paths."""
        found: dict[str, FileState] = {}
        seen: dict[str, _IndexSnapshot | None] = {}
        for path in paths:
            name, _, entry = path.partition("\0")
            if name not in seen:
                seen[name] = self._now(name)
            now = seen[name]
            if now is None or now.staged is None:
                found[path] = FileState("unreadable")
            else:
                found[path] = _state(now.head, now.staged.get(os.fsencode(entry), b""))
        return found

    def stage_again(self, name: str, changes: Iterable[PathChange], point: int) -> str:
        """Restore the staged entries of one index, from `before` to `after` of each change, all or none. Return why
        that was not done, or an empty string."""
        wanted = {os.fsencode(change.path.partition("\0")[2]): change for change in changes}
        now = self._now(name)
        if now is None or now.staged is None:
            return "the index cannot be read"
        if any(_state(now.head, now.staged.get(path, b"")) != change.before for path, change in wanted.items()):
            return OTHERS
        temporary = f"{PREFIX}{point}-{secrets.token_hex(3)}"
        try:
            with parent_of(self._root, name) as (folder, index):
                content, identity = _read_index(folder, index)
                staged = {path: _entry(one.after) for path, one in wanted.items()}
                body = with_staged(content, staged, identity[WRITTEN_FIELD] // 10**9)
                mode = stat.S_IMODE(os.stat(index, dir_fd=folder).st_mode) if content else 0o644
                _write(folder, temporary, body, mode)
                try:
                    os.link(temporary, f"{index}.lock", src_dir_fd=folder, dst_dir_fd=folder)
                    if _identity(folder, index) != identity:  # the lock prevents other writers from here on
                        os.unlink(f"{index}.lock", dir_fd=folder)
                        return OTHERS
                    os.rename(f"{index}.lock", index, src_dir_fd=folder, dst_dir_fd=folder)
                finally:
                    os.unlink(temporary, dir_fd=folder)
        except FileExistsError:
            return BUSY
        except (OSError, ValueError) as error:
            return f"the index cannot be written: {error}"
        return ""

    def clear(self, name: str, point: int) -> None:
        """Remove the files, including the lock, of a program that was killed in `stage_again`."""
        with suppress(OSError), parent_of(self._root, name) as (folder, index):
            lock = _identity(folder, f"{index}.lock")
            for each in os.listdir(folder):
                if each.startswith(f"{PREFIX}{point}-"):
                    if _identity(folder, each) == lock:
                        os.unlink(f"{index}.lock", dir_fd=folder)
                    os.unlink(each, dir_fd=folder)

    def _repositories(self, folders: Iterable[str]) -> list[tuple[str, str, Path, Path]]:
        """Work tree, index, metadata and shared metadata of each repository that has its own metadata."""
        tops = [Path(self._root), *Path(self._root).parents]
        top = next((each for each in tops if os.path.lexists(each / ".git")), None)
        inner = [Path(self._root, name) for name in folders if name and os.path.lexists(f"{self._root}/{name}/.git")]
        found = {}
        for each in (top, *inner) if top is not None else inner:
            if (own := own_metadata(each)) is not None:
                found[str(own[0] / "index")] = (str(each), str(own[0] / "index"), *own)
        return list(found.values())

    def _now(self, name: str) -> _IndexSnapshot | None:
        """The current staged entries of a known repository."""
        index = Path(self._root, name)
        seen = self._seen.get(name)
        shared = os.fsdecode(_text(index.parent / "commondir").strip())
        return _look(str(index), index.parent, Path(os.path.realpath(index.parent / (shared or "."))), seen)


def staged_description(state: FileState) -> bytes | None:
    """Mode and object of a staged entry, as in `git ls-files -s`; None if nothing is staged."""
    staged = read_staged(_entry(state))
    return b"".join(b"%o %s\n" % (mode, oid.hex().encode()) for mode, oid in staged) or None


def _look(index: str, metadata: Path, common: Path, known: _IndexSnapshot | None) -> _IndexSnapshot:
    head = _head(metadata, common)
    now, content = time.time_ns(), b""
    try:
        with parent_of("/", index) as (folder, name):
            identity = _identity(folder, name)
            if known is not None and known.identity == identity:
                return _IndexSnapshot(identity, head, known.staged)
            content, identity = _read_index(folder, name)
            staged: Mapping[bytes, bytes] = staged_in(read_index(content))
    except (OSError, ValueError):
        return _IndexSnapshot((), head, None, hashlib.sha256(content).hexdigest())
    if known is not None and known.staged == staged:
        staged = known.staged  # only the timestamps of its files changed
    return _IndexSnapshot(identity if identity[CHANGED_FIELD] + TICK < now else (), head, staged)


def _head(metadata: Path, common: Path) -> str:
    """A digest that changes with new commits, a switch of branch, and the start or end of a merge."""
    told = [_text(metadata / "HEAD")]
    if told[0].startswith(b"ref: "):
        name = told[0][5:].strip()
        loose = _text(common / os.fsdecode(name))
        if not loose:
            packed = _text(common / "packed-refs", 1 << 24)
            at = packed.find(b" " + name + b"\n")
            loose = packed[packed.rfind(b"\n", 0, at) + 1 : at] if at >= 0 else _text(common / "reftable/tables.list")
        told.append(loose.strip())  # stripped, so that a loose and a packed ref give the same digest
    told += [name.encode() + _text(metadata / name) for name in _UNDER_WAY if os.path.lexists(metadata / name)]
    return hashlib.sha256(b"\0".join(told)).hexdigest()[:16]


def _text(path: Path, most: int = 4096) -> bytes:
    try:
        return beginning_of(str(path), most)
    except (OSError, ValueError):
        return b""


def _state(head: str, staged: bytes) -> FileState:
    return FileState("staged", 0, f"{head}|{staged.hex()}")


def _entry(state: FileState) -> bytes:
    return bytes.fromhex(state.digest.partition("|")[2])


def _identity(folder: int, name: str) -> Identity:
    """Numbers that identify a file; zeros if there is none."""
    try:
        return _identity_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return 0, 0, 0, 0


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns


def _read_index(folder: int, index: str) -> tuple[bytes, Identity]:
    """The bytes of an index; empty if there is none yet."""
    try:
        handle = os.open(index, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return b"", (0, 0, 0, 0)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_INDEX_BYTES:
            raise ValueError("no index")
        return file.read(), _identity_of(status)


def _write(folder: int, name: str, body: bytes, mode: int) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(body)
        file.flush()
        os.fchmod(handle, mode)
        os.fsync(handle)


def _name(root: str, path: str) -> str:
    base = root.rstrip("/")
    return path[len(base) + 1 :] if path.startswith(f"{base}/") else path
