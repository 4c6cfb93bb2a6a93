"""Reads and writes the staged entries in the bytes of a git index. No disk access."""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

_STAT_SIZE = 40
"""Number of bytes in an entry that describe its file: times, device, inode, mode, owner and size."""
_MODE_OFFSET, _MTIME_OFFSET = 24, 8
"""Offsets of the mode and the modification time within these bytes."""
_MAX_PATH_BYTES = 1 << 14
"""Maximum length of a path, in bytes. In version 4, each path is stored relative to the previous one, so even a short
index could describe very long paths."""
EXTENDED_FLAG, LENGTH_MASK = 0x4000, 0xFFF
"""Bits of an entry's flags that affect how it is encoded, not what it means."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    path: bytes
    stat: bytes
    oid: bytes
    flags: int
    extended_flags: int = 0
    """Extended flags, such as those of a path added with `git add -N`."""

    @property
    def stage(self) -> int:
        return self.flags >> 12 & 3

    @property
    def staged_bytes(self) -> bytes:
        """The staged mode, flags and object id, without the file's attributes."""
        flags = self.flags & ~(EXTENDED_FLAG | LENGTH_MASK)
        return (
            self.stat[_MODE_OFFSET : _MODE_OFFSET + 4]
            + flags.to_bytes(2, "big")
            + self.extended_flags.to_bytes(2, "big")
            + self.oid
        )


def entry_without_stat(path: bytes, staged_bytes: bytes) -> IndexEntry:
    """Return an entry without file attributes, so that git compares the file the next time it reads the index."""
    stat = bytes(_MODE_OFFSET) + staged_bytes[:4] + bytes(_STAT_SIZE - _MODE_OFFSET - 4)
    return IndexEntry(
        path, stat, staged_bytes[8:], int.from_bytes(staged_bytes[4:6], "big"), int.from_bytes(staged_bytes[6:8], "big")
    )


def parse_index(data: bytes) -> tuple[IndexEntry, ...]:
    """Return the entries, in order. Raises `ValueError` if the index is invalid or depends on other data, like a split
    index or a sparse index with folder entries."""
    if not data:
        return ()
    hash_name = _hash_algorithm(data)
    digest_size = hashlib.new(hash_name).digest_size
    try:
        signature, version, count = struct.unpack_from(">4sII", data)
        if signature != b"DIRC" or version not in (2, 3, 4):
            raise ValueError("not a git index of a known version")
        entries, offset, path = [], 12, b""
        for _ in range(count):
            start = offset
            stat = data[offset : offset + _STAT_SIZE]
            offset += _STAT_SIZE + digest_size
            oid = data[offset - digest_size : offset]
            (flags,) = struct.unpack_from(">H", data, offset)
            offset += 2
            extended_flags = 0
            if flags & EXTENDED_FLAG:
                (extended_flags,) = struct.unpack_from(">H", data, offset)
                offset += 2
            if version == 4:
                dropped_count, offset = _decode_varint(data, offset)
                end = data.index(b"\0", offset)
                path = path[: len(path) - dropped_count] + data[offset:end]
                offset = end + 1
            else:
                end = data.index(b"\0", offset)
                path = data[offset:end]
                offset = start + (end - start + 8 & ~7)
            if len(path) > _MAX_PATH_BYTES:
                raise ValueError("an index with a path that is too long")
            entries.append(IndexEntry(path, stat, oid, flags, extended_flags))
        while offset + 8 <= len(data) - digest_size:
            name, length = struct.unpack_from(">4sI", data, offset)
            if not name[:1].isupper():
                raise ValueError("an index with a required extension that is not supported")
            offset += 8 + length
    except (struct.error, IndexError) as error:
        raise ValueError("a truncated index") from error
    return tuple(entries)


def staged_bytes_by_path(entries: Iterable[IndexEntry]) -> dict[bytes, bytes]:
    """Return the staged entry of each path; the entries of a conflict are joined."""
    staged: dict[bytes, bytes] = {}
    for entry in entries:
        staged[entry.path] = staged.get(entry.path, b"") + entry.staged_bytes
    return staged


def parse_staged(staged: bytes) -> list[tuple[int, bytes]]:
    """Return the mode and object id of each staged entry of a path. A path with a conflict has several entries."""
    entry_size = 28 if len(staged) % 28 == 0 else 40
    return [
        (int.from_bytes(staged[offset : offset + 4], "big"), staged[offset + 8 : offset + entry_size])
        for offset in range(0, len(staged), entry_size)
    ]


def replace_staged(data: bytes, replacements: Mapping[bytes, bytes], written_at: int) -> bytes:
    """Replace the staged entries of these paths in the index `data`, and return its new bytes. Empty bytes remove an
    entry. `written_at`: when `data` was written, in Unix seconds. Files modified at or after that time are marked so
    that git compares them again. Raises `ValueError` if the index cannot be read."""
    hash_name = _hash_algorithm(data) if data else "sha1"
    entry_size = 8 + hashlib.new(hash_name).digest_size
    entries = [_clear_racy_stat(entry, written_at) for entry in parse_index(data) if entry.path not in replacements]
    for path, staged in replacements.items():
        entries += [
            entry_without_stat(path, staged[offset : offset + entry_size])
            for offset in range(0, len(staged), entry_size)
        ]
    entries.sort(key=lambda entry: (entry.path, entry.stage))
    version = 3 if any(entry.extended_flags for entry in entries) else 2
    body = [struct.pack(">4sII", b"DIRC", version, len(entries))]
    for entry in entries:
        flags = (
            entry.flags & ~(EXTENDED_FLAG | LENGTH_MASK)
            | min(len(entry.path), LENGTH_MASK)
            | (EXTENDED_FLAG if entry.extended_flags else 0)
        )
        encoded = entry.stat + entry.oid + flags.to_bytes(2, "big")
        encoded += entry.extended_flags.to_bytes(2, "big") if entry.extended_flags else b""
        encoded += entry.path
        body.append(encoded + bytes(8 - len(encoded) % 8))
    content = b"".join(body)
    return content + hashlib.new(hash_name, content).digest()


def _clear_racy_stat(entry: IndexEntry, written_at: int) -> IndexEntry:
    if int.from_bytes(entry.stat[_MTIME_OFFSET : _MTIME_OFFSET + 4], "big") < written_at:
        return entry
    return replace(entry, stat=entry_without_stat(entry.path, entry.staged_bytes).stat)


def _hash_algorithm(data: bytes) -> str:
    """Return the name of the repository's hash algorithm."""
    if hashlib.sha256(data[:-32]).digest() == data[-32:]:
        return "sha256"
    if hashlib.sha1(data[:-20]).digest() == data[-20:] or not any(data[-20:]):  # Git may leave the checksum empty
        return "sha1"
    raise ValueError("an index with a wrong checksum")


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Decode a number as encoded in index version 4. Return it and the offset after it."""
    value = data[offset] & 0x7F
    while data[offset] & 0x80:
        offset += 1
        value = (value + 1 << 7) | data[offset] & 0x7F
    return value, offset + 1
