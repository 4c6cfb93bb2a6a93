"""The record of a folder and its files, as a value and as stored bytes."""

import os
import stat
import struct
from array import array
from dataclasses import dataclass, field

from ebbtide.agent.checkpoints.file_state import FileState

FIELDS_PER_FILE, CHANGE_TIME_INDEX = 4, 2
"""Number of values stored for each file (mode, size, change time, inode), and the index of the change time."""
_NO_DIGEST = b"\0" * 32
_HEADER = struct.Struct("<qqqqI")


@dataclass(slots=True)
class FolderRecord:
    """The record of one folder."""

    mode: int
    change_time_ns: int
    """The change time (ctime) in nanoseconds; 0 if it is not reliable. Programs cannot set it, unlike the modification
    time."""
    inode: int
    """Inode number of the folder."""
    rules_hash: int
    """A hash that changes with the folder's ignore rules; 0 if it has none."""
    file_names: list[str] = field(default_factory=list)
    stat_numbers: "array[int]" = field(default_factory=lambda: array("q"))
    """Mode, size, change time and inode of each file. The change time is 0 if it is not reliable."""
    digests: list[bytes] = field(default_factory=list)
    """Digest of each file's content; empty if the content is not stored."""
    subfolders: list[str] = field(default_factory=list)

    def state(self, index: int) -> FileState:
        mode, size, change_time, inode = self.stat_numbers[index * FIELDS_PER_FILE : (index + 1) * FIELDS_PER_FILE]
        digest = self.digests[index]
        if stat.S_ISLNK(mode):
            return FileState("link", 0, digest.hex()) if digest else FileState("unreadable")
        if digest:
            return FileState("file", stat.S_IMODE(mode), digest.hex())
        return FileState(
            "unreadable" if change_time < 0 else "large", stat.S_IMODE(mode), f"{size}-{abs(change_time)}-{inode}"
        )

    def encode(self) -> bytes:
        names, folders = b"\0".join(map(os.fsencode, self.file_names)), b"\0".join(map(os.fsencode, self.subfolders))
        header = _HEADER.pack(self.mode, self.change_time_ns, self.inode, self.rules_hash, len(names))
        digests = b"".join(digest or _NO_DIGEST for digest in self.digests)
        return b"".join(
            (header, names, struct.pack("<I", len(self.file_names)), self.stat_numbers.tobytes(), digests, folders)
        )


def decode_folder(body: bytes) -> FolderRecord:
    """Decode a stored folder record. Raises `ValueError` or `struct.error` if the data is invalid."""
    mode, change_time_ns, inode, rules_hash, names_length = _HEADER.unpack_from(body)
    offset = _HEADER.size
    names = body[offset : offset + names_length].split(b"\0") if names_length else []
    (file_count,) = struct.unpack_from("<I", body, offset + names_length)
    if file_count != len(names):
        raise ValueError("the row of a folder is damaged")
    offset += names_length + 4
    numbers = array("q")
    numbers.frombytes(body[offset : offset + file_count * FIELDS_PER_FILE * 8])
    offset += file_count * FIELDS_PER_FILE * 8
    digests = [body[start : start + 32] for start in range(offset, offset + 32 * file_count, 32)]
    folder_bytes = body[offset + 32 * file_count :]
    folders = [os.fsdecode(name) for name in folder_bytes.split(b"\0")] if folder_bytes else []
    return FolderRecord(
        mode, change_time_ns, inode, rules_hash, [os.fsdecode(name) for name in names], numbers,
        [b"" if digest == _NO_DIGEST else digest for digest in digests], folders,
    )  # fmt: skip
