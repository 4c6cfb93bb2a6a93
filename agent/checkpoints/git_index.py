"""Reads and writes the staged entries in the bytes of a git index. No disk access."""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_STAT = 40
"""Bytes of an entry that describe its file: times, device, inode, mode, owner, size."""
_MODE, _MTIME = 24, 8
"""The offsets of the mode and the modification time in these."""
_MAX_PATH_BYTES = 1 << 14
"""Longest path in bytes: version 4 writes paths relative to the previous one, so that a short index could contain
very long ones."""
EXTENDED_FLAG, LENGTH_MASK = 0x4000, 0xFFF
"""Bits of the flags that concern the encoding of an entry, not its meaning."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    path: bytes
    stat: bytes
    oid: bytes
    flags: int
    more: int = 0
    """Further flags, e.g. of a path added with `git add -N`."""

    @property
    def stage(self) -> int:
        return self.flags >> 12 & 3

    @property
    def staged_bytes(self) -> bytes:
        """The staged mode, flags and object, without the file's attributes."""
        flags = self.flags & ~(EXTENDED_FLAG | LENGTH_MASK)
        return self.stat[_MODE : _MODE + 4] + flags.to_bytes(2, "big") + self.more.to_bytes(2, "big") + self.oid


def entry_of(path: bytes, staged: bytes) -> IndexEntry:
    """An entry without file attributes, which makes git compare the file the next time."""
    stat = bytes(_MODE) + staged[:4] + bytes(_STAT - _MODE - 4)
    return IndexEntry(path, stat, staged[8:], int.from_bytes(staged[4:6], "big"), int.from_bytes(staged[6:8], "big"))


def read_index(data: bytes) -> tuple[IndexEntry, ...]:
    """Parse the entries, in order. Raises `ValueError` if the index is invalid or incomplete: a split index, or a
    sparse one with folder entries."""
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
    """The staged entry of each path; for a conflict, all of them joined."""
    found: dict[bytes, bytes] = {}
    for entry in entries:
        found[entry.path] = found.get(entry.path, b"") + entry.staged_bytes
    return found


def read_staged(staged: bytes) -> list[tuple[int, bytes]]:
    """Mode and object of the staged entries of a path; several for a conflict."""
    width = 28 if len(staged) % 28 == 0 else 40
    return [
        (int.from_bytes(staged[at : at + 4], "big"), staged[at + 8 : at + width]) for at in range(0, len(staged), width)
    ]


def with_staged(data: bytes, wanted: Mapping[bytes, bytes], written_at: int) -> bytes:
    """The index with other staged entries at these paths; empty bytes remove one. `written_at`: when `data` was
    written, in seconds; files modified then or later are marked to be compared again. Raises `ValueError`."""
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
    """The name of the repository's hash algorithm."""
    if hashlib.sha256(data[:-32]).digest() == data[-32:]:
        return "sha256"
    if hashlib.sha1(data[:-20]).digest() == data[-20:] or not any(data[-20:]):  # Git may leave the checksum empty
        return "sha1"
    raise ValueError("an index with a wrong check sum")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number in the format of version 4; return it and its end."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1 << 7) | data[at] & 0x7F
    return value, at + 1
