"""Reads and restores the staged entries of the repositories in a folder. Git is not run for this, because a
repository's settings can make it execute programs."""

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.checkpoints.comparison import StateChange
from ebbtide.agent.checkpoints.file_state import UNREADABLE_INDEX_SUFFIX, FileState, PathChange
from ebbtide.agent.checkpoints.git_index import parse_index, parse_staged, replace_staged, staged_bytes_by_path
from ebbtide.agent.checkpoints.nofollow_paths import open_parent
from ebbtide.agent.checkpoints.restore import TEMPORARY_PREFIX
from ebbtide.agent.checkpoints.unread_files import TICK_NS
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.sandbox.git_metadata import verified_metadata

MAX_INDEX_BYTES = 100_000_000
"""Largest index that is read, in bytes."""
_OPERATION_FILES = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
INDEX_BUSY = "git is running there, or it left an `index.lock`"
STAGED_CHANGED = "what is staged was changed in the meantime"

Identity = tuple[int, int, int, int] | tuple[()]
"""Inode, size, change time and modification time."""
CTIME_INDEX, MTIME_INDEX = 2, 3


@dataclass(slots=True)
class _IndexSnapshot:
    """The staged entries of one repository."""

    identity: Identity
    """The identity of the index file; empty if the file was changed so recently that another change might not alter the
    identity."""
    head: str
    staged: Mapping[bytes, bytes] | None
    """The staged entries; None if they cannot be read."""
    digest: str = ""
    """Digest of an index whose entries cannot be read; otherwise empty."""


class StagedFiles:
    """The staged entries of a folder's repositories. The path of an entry is the path of the index, a NUL, and the path
    in the repository."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._snapshots: dict[str, _IndexSnapshot] = {}
        self._work_trees: dict[str, str] = {}
        """The work tree of each index, by the path of the index."""

    @property
    def staged_by_tree(self) -> dict[str, Mapping[bytes, bytes]]:
        """The staged entries of each work tree, where they can be read."""
        staged_by_index = ((self._work_trees[name], self._snapshots[name].staged) for name in self._work_trees)
        return {work_tree: staged for work_tree, staged in staged_by_index if staged is not None}

    def scan(self, folders: Iterable[str]) -> dict[str, StateChange]:
        """Return the staged entries and heads that changed since the last scan, in the repositories at `folders` and in
        the repository that contains the root. Repositories that the last scan did not include are skipped."""
        previous_snapshots, self._snapshots, self._work_trees = self._snapshots, {}, {}
        changes: dict[str, StateChange] = {}
        for work_tree, index, metadata, common_folder in self._repositories(folders):
            name = _relative_path(self._root, index)
            self._work_trees[name] = work_tree
            old = previous_snapshots.get(name)
            new = self._snapshots[name] = _read_snapshot(index, metadata, common_folder, old)
            if old is None:
                continue
            if old.head != new.head:
                changes[f"{name}\0"] = (_staged_state(old.head, b""), _staged_state(new.head, b""))
            elif old.staged is None or new.staged is None:
                if old.digest != new.digest:
                    old_entry, new_entry = bytes.fromhex(old.digest), bytes.fromhex(new.digest)
                    changes[f"{name}{UNREADABLE_INDEX_SUFFIX}"] = (
                        _staged_state(old.head, old_entry),
                        _staged_state(new.head, new_entry),
                    )
            elif old.staged is not new.staged:
                for path in old.staged.keys() | new.staged.keys():
                    old_entry, new_entry = old.staged.get(path, b""), new.staged.get(path, b"")
                    if old_entry != new_entry:
                        changes[f"{name}\0{os.fsdecode(path)}"] = (
                            _staged_state(old.head, old_entry),
                            _staged_state(new.head, new_entry),
                        )
        return changes

    def current_states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return the current states of the staged entries at these paths."""
        states: dict[str, FileState] = {}
        snapshots: dict[str, _IndexSnapshot | None] = {}
        for path in paths:
            name, _, entry = path.partition("\0")
            if name not in snapshots:
                snapshots[name] = self._current_snapshot(name)
            snapshot = snapshots[name]
            if snapshot is None or snapshot.staged is None:
                states[path] = FileState("unreadable")
            else:
                states[path] = _staged_state(snapshot.head, snapshot.staged.get(os.fsencode(entry), b""))
        return states

    def restore_staged(self, index_path: str, changes: Iterable[PathChange], point: int) -> str:
        """Set the staged entries of one index to the `after` state of each change, if all of them are in the `before`
        state. Return why that was not done, or an empty string on success."""
        changes_by_entry = {os.fsencode(change.path.partition("\0")[2]): change for change in changes}
        snapshot = self._current_snapshot(index_path)
        if snapshot is None or snapshot.staged is None:
            return "the index cannot be read"
        if any(
            _staged_state(snapshot.head, snapshot.staged.get(path, b"")) != change.before
            for path, change in changes_by_entry.items()
        ):
            return STAGED_CHANGED
        temporary = f"{TEMPORARY_PREFIX}{point}-{secrets.token_hex(3)}"
        try:
            with open_parent(self._root, index_path) as (folder, index):
                content, identity = _read_index(folder, index)
                staged = {path: _staged_bytes(change.after) for path, change in changes_by_entry.items()}
                body = replace_staged(content, staged, identity[MTIME_INDEX] // 10**9)
                mode = stat.S_IMODE(os.stat(index, dir_fd=folder).st_mode) if content else 0o644
                _write_index(folder, temporary, body, mode)
                try:
                    os.link(temporary, f"{index}.lock", src_dir_fd=folder, dst_dir_fd=folder)
                    if _identity(folder, index) != identity:  # only from here on does the lock exclude other writers
                        os.unlink(f"{index}.lock", dir_fd=folder)
                        return STAGED_CHANGED
                    os.rename(f"{index}.lock", index, src_dir_fd=folder, dst_dir_fd=folder)
                finally:
                    os.unlink(temporary, dir_fd=folder)
        except FileExistsError:
            return INDEX_BUSY
        except (OSError, ValueError) as error:
            return f"the index cannot be written: {error}"
        return ""

    def remove_leftovers(self, index_path: str, point: int) -> None:
        """Remove the files left by a program that was killed in `restore_staged`, including the lock."""
        with suppress(OSError), open_parent(self._root, index_path) as (folder, index):
            lock = _identity(folder, f"{index}.lock")
            for file_name in os.listdir(folder):
                if file_name.startswith(f"{TEMPORARY_PREFIX}{point}-"):
                    if _identity(folder, file_name) == lock:
                        os.unlink(f"{index}.lock", dir_fd=folder)
                    os.unlink(file_name, dir_fd=folder)

    def _repositories(self, folders: Iterable[str]) -> list[tuple[str, str, Path, Path]]:
        """Return the work tree, index, metadata folder and shared metadata folder of each repository at `folders`, and
        of the repository that contains the root."""
        candidates = [Path(self._root), *Path(self._root).parents]
        enclosing_tree = next((tree for tree in candidates if os.path.lexists(tree / ".git")), None)
        inner_trees = [
            Path(self._root, name) for name in folders if name and os.path.lexists(f"{self._root}/{name}/.git")
        ]
        repositories = {}
        for tree in (enclosing_tree, *inner_trees) if enclosing_tree is not None else inner_trees:
            if (metadata := verified_metadata(tree)) is not None:
                repositories[str(metadata[0] / "index")] = (str(tree), str(metadata[0] / "index"), *metadata)
        return list(repositories.values())

    def _current_snapshot(self, index_path: str) -> _IndexSnapshot | None:
        """Return the current staged entries and head of a repository."""
        index = Path(self._root, index_path)
        previous = self._snapshots.get(index_path)
        common_folder = os.fsdecode(_read_beginning(index.parent / "commondir").strip())
        return _read_snapshot(
            str(index), index.parent, Path(os.path.realpath(index.parent / (common_folder or "."))), previous
        )


def staged_description(state: FileState) -> bytes | None:
    """Return the mode and object id of a staged entry, as in `git ls-files -s`; None if nothing is staged."""
    staged = parse_staged(_staged_bytes(state))
    return b"".join(b"%o %s\n" % (mode, oid.hex().encode()) for mode, oid in staged) or None


def _read_snapshot(index: str, metadata: Path, common_folder: Path, previous: _IndexSnapshot | None) -> _IndexSnapshot:
    head = _head_digest(metadata, common_folder)
    read_at, content = time.time_ns(), b""
    try:
        with open_parent("/", index) as (folder, name):
            identity = _identity(folder, name)
            if previous is not None and previous.identity == identity:
                return _IndexSnapshot(identity, head, previous.staged)
            content, identity = _read_index(folder, name)
            staged: Mapping[bytes, bytes] = staged_bytes_by_path(parse_index(content))
    except (OSError, ValueError):
        return _IndexSnapshot((), head, None, hashlib.sha256(content).hexdigest())
    if previous is not None and previous.staged == staged:
        staged = previous.staged  # only file times in the index changed; callers detect changes by object identity
    return _IndexSnapshot(identity if identity[CTIME_INDEX] + TICK_NS < read_at else (), head, staged)


def _head_digest(metadata: Path, common_folder: Path) -> str:
    """Return a digest of the head, which changes with new commits, branch switches, and the start or end of a merge."""
    parts = [_read_beginning(metadata / "HEAD")]
    if parts[0].startswith(b"ref: "):
        ref_name = parts[0][5:].strip()
        commit = _read_beginning(common_folder / os.fsdecode(ref_name))
        if not commit:
            packed_refs = _read_beginning(common_folder / "packed-refs", 1 << 24)
            offset = packed_refs.find(b" " + ref_name + b"\n")
            commit = (
                packed_refs[packed_refs.rfind(b"\n", 0, offset) + 1 : offset]
                if offset >= 0
                else _read_beginning(common_folder / "reftable/tables.list")
            )
        parts.append(commit.strip())  # stripped, so that a loose and a packed ref give the same digest
    parts += [
        ref_name.encode() + _read_beginning(metadata / ref_name)
        for ref_name in _OPERATION_FILES
        if os.path.lexists(metadata / ref_name)
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _read_beginning(path: Path, max_bytes: int = 4096) -> bytes:
    try:
        return read_prefix(str(path), max_bytes)
    except (OSError, ValueError):
        return b""


def _staged_state(head: str, staged: bytes) -> FileState:
    return FileState("staged", 0, f"{head}|{staged.hex()}")


def _staged_bytes(state: FileState) -> bytes:
    return bytes.fromhex(state.digest.partition("|")[2])


def _identity(folder: int, name: str) -> Identity:
    """Return numbers that identify a file; zeros if there is none."""
    try:
        return _identity_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return 0, 0, 0, 0


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns


def _read_index(folder: int, index: str) -> tuple[bytes, Identity]:
    """Return the bytes and identity of an index; empty bytes if there is none yet."""
    try:
        fd = os.open(index, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return b"", (0, 0, 0, 0)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_INDEX_BYTES:
            raise ValueError("no index")
        return file.read(), _identity_of(status)


def _write_index(folder: int, name: str, body: bytes, mode: int) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(body)
        file.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)


def _relative_path(root: str, path: str) -> str:
    base = root.rstrip("/")
    return path[len(base) + 1 :] if path.startswith(f"{base}/") else path
