"""What is staged in a repository, read from the bytes of its index and written into them. It knows no disk."""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_STAT = 40
"""Bytes of an entry that say how its file looked: times, device, inode, mode, owner, size."""
_MODE, _MTIME = 24, 8
"""Where the mode is in these, and when the file was changed."""
_MAX_PATH_BYTES = 1 << 14
"""Bytes of a path: version 4 writes what follows on the path before, so that a short index can say long ones."""
EXTENDED_FLAG, LENGTH_MASK = 0x4000, 0xFFF
"""Bits of the flags that say how an entry is written, not what it is."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    path: bytes
    stat: bytes
    oid: bytes
    flags: int
    more: int = 0
    """Further flags, as of a path that was only announced with `git add -N`."""

    @property
    def stage(self) -> int:
        return self.flags >> 12 & 3

    @property
    def staged_bytes(self) -> bytes:
        """What is staged, without how the file looked then."""
        flags = self.flags & ~(EXTENDED_FLAG | LENGTH_MASK)
        return self.stat[_MODE : _MODE + 4] + flags.to_bytes(2, "big") + self.more.to_bytes(2, "big") + self.oid


def entry_of(path: bytes, staged: bytes) -> IndexEntry:
    """An entry that Git compares with its file at the next look, since it knows nothing of how that looks."""
    stat = bytes(_MODE) + staged[:4] + bytes(_STAT - _MODE - 4)
    return IndexEntry(path, stat, staged[8:], int.from_bytes(staged[4:6], "big"), int.from_bytes(staged[6:8], "big"))


def read_index(data: bytes) -> tuple[IndexEntry, ...]:
    """The entries, in order. Raises `ValueError` for an index that is none, or not whole in itself: a split one, or one
    in which folders stand for what is in them."""
    if not data:
        return ()
    hashed = _hash_of(data)
    size = hashlib.new(hashed).digest_size
    try:
        signature, version, count = struct.unpack_from(">4sII", data)
        if signature != b"DIRC" or version not in (2, 3, 4):
            raise ValueError("no index that is known")
        entries, at, path = [], 12, b""
        for _ in range(count):
            start = at
            stat = data[at : at + _STAT]
            at += _STAT + size
            oid = data[at - size : at]
            (flags,) = struct.unpack_from(">H", data, at)
            at += 2
            more = 0
            if flags & EXTENDED_FLAG:
                (more,) = struct.unpack_from(">H", data, at)
                at += 2
            if version == 4:
                dropped, at = _varint(data, at)
                end = data.index(b"\0", at)
                path = path[: len(path) - dropped] + data[at:end]
                at = end + 1
            else:
                end = data.index(b"\0", at)
                path = data[at:end]
                at = start + (end - start + 8 & ~7)
            if len(path) > _MAX_PATH_BYTES:
                raise ValueError("an index with a path that no file can have")
            entries.append(IndexEntry(path, stat, oid, flags, more))
        while at + 8 <= len(data) - size:
            name, length = struct.unpack_from(">4sI", data, at)
            if not name[:1].isupper():
                raise ValueError("an index that needs more than its entries")
            at += 8 + length
    except (struct.error, IndexError) as error:
        raise ValueError("an index that is cut off") from error
    return tuple(entries)


def staged_in(entries: Iterable[IndexEntry]) -> dict[bytes, bytes]:
    """What is staged at each path; of a conflict, all of it."""
    found: dict[bytes, bytes] = {}
    for entry in entries:
        found[entry.path] = found.get(entry.path, b"") + entry.staged_bytes
    return found


def read_staged(staged: bytes) -> list[tuple[int, bytes]]:
    """Mode and object of what is staged at a path; of a conflict, several."""
    width = 28 if len(staged) % 28 == 0 else 40
    return [
        (int.from_bytes(staged[at : at + 4], "big"), staged[at + 8 : at + width]) for at in range(0, len(staged), width)
    ]


def with_staged(data: bytes, wanted: Mapping[bytes, bytes], written_at: int) -> bytes:
    """The index with something else staged at paths; empty: nothing. `written_at`: when `data` was written, in seconds:
    a file that was changed then or later is compared anew. Raises `ValueError`."""
    hashed = _hash_of(data) if data else "sha1"
    width = 8 + hashlib.new(hashed).digest_size
    entries = [_sure(entry, written_at) for entry in read_index(data) if entry.path not in wanted]
    for path, staged in wanted.items():
        entries += [entry_of(path, staged[at : at + width]) for at in range(0, len(staged), width)]
    entries.sort(key=lambda entry: (entry.path, entry.stage))
    version = 3 if any(entry.more for entry in entries) else 2
    body = [struct.pack(">4sII", b"DIRC", version, len(entries))]
    for entry in entries:
        flags = (
            entry.flags & ~(EXTENDED_FLAG | LENGTH_MASK)
            | min(len(entry.path), LENGTH_MASK)
            | (EXTENDED_FLAG if entry.more else 0)
        )
        written = entry.stat + entry.oid + flags.to_bytes(2, "big")
        written += entry.more.to_bytes(2, "big") if entry.more else b""
        written += entry.path
        body.append(written + bytes(8 - len(written) % 8))
    whole = b"".join(body)
    return whole + hashlib.new(hashed, whole).digest()


def _sure(entry: IndexEntry, written_at: int) -> IndexEntry:
    if int.from_bytes(entry.stat[_MTIME : _MTIME + 4], "big") < written_at:
        return entry
    return IndexEntry(entry.path, entry_of(entry.path, entry.staged_bytes).stat, entry.oid, entry.flags, entry.more)


def _hash_of(data: bytes) -> str:
    """The name of the hash that the repository uses."""
    if hashlib.sha256(data[:-32]).digest() == data[-32:]:
        return "sha256"
    if hashlib.sha1(data[:-20]).digest() == data[-20:] or not any(data[-20:]):  # it is Git's
        return "sha1"
    raise ValueError("an index with a wrong check sum")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as version 4 writes it, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1 << 7) | data[at] & 0x7F
    return value, at + 1
