"""What was seen of a folder and its files, as a value and as the bytes in which it is kept."""

import os
import stat
import struct
from array import array
from dataclasses import dataclass, field

from ebbtide.agent.checkpoints.file_state import FileState

FIELDS_PER_FILE, CHANGED_FIELD = 4, 2
"""Numbers of each file: mode, size, time of the last change, inode; and which of them is the time."""
_NOTHING = b"\0" * 32
_HEAD = struct.Struct("<qqqqI")


@dataclass(slots=True)
class Folder:
    """What was found in one."""

    mode: int
    changed: int
    """When it changed last, in nanoseconds; 0 when that cannot be trusted. Nobody can set this time, unlike that of its
    list of names."""
    number: int
    """Its inode."""
    rules: int
    """What its own rules were made of, as a number."""
    names: list[str] = field(default_factory=list)
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    """Mode, size, time of the last change (0 when that cannot be trusted) and inode of each."""
    digests: list[bytes] = field(default_factory=list)
    """Of what each holds; empty where that is not kept."""
    folders: list[str] = field(default_factory=list)

    def state(self, index: int) -> FileState:
        mode, size, changed, number = self.numbers[index * FIELDS_PER_FILE : (index + 1) * FIELDS_PER_FILE]
        digest = self.digests[index]
        if stat.S_ISLNK(mode):
            return FileState("link", 0, digest.hex()) if digest else FileState("unreadable")
        if digest:
            return FileState("file", stat.S_IMODE(mode), digest.hex())
        return FileState(
            "unreadable" if changed < 0 else "large", stat.S_IMODE(mode), f"{size}-{abs(changed)}-{number}"
        )

    def encode(self) -> bytes:
        names, folders = b"\0".join(map(os.fsencode, self.names)), b"\0".join(map(os.fsencode, self.folders))
        head = _HEAD.pack(self.mode, self.changed, self.number, self.rules, len(names))
        digests = b"".join(digest or _NOTHING for digest in self.digests)
        return b"".join((head, names, struct.pack("<I", len(self.names)), self.numbers.tobytes(), digests, folders))


def decode_folder(body: bytes) -> Folder:
    """Raises `ValueError` and `struct.error` when it makes no sense."""
    mode, changed, number, rules, length = _HEAD.unpack_from(body)
    at = _HEAD.size
    names = body[at : at + length].split(b"\0") if length else []
    (count,) = struct.unpack_from("<I", body, at + length)
    if count != len(names):
        raise ValueError("the row of a folder is damaged")
    at += length + 4
    numbers = array("q")
    numbers.frombytes(body[at : at + count * FIELDS_PER_FILE * 8])
    at += count * FIELDS_PER_FILE * 8
    digests = [body[place : place + 32] for place in range(at, at + 32 * count, 32)]
    rest = body[at + 32 * count :]
    folders = [os.fsdecode(name) for name in rest.split(b"\0")] if rest else []
    return Folder(
        mode, changed, number, rules, [os.fsdecode(name) for name in names], numbers,
        [b"" if digest == _NOTHING else digest for digest in digests], folders,
    )  # fmt: skip
