"""Handles renames of files in a sandbox, which wait for an answer: Git writes settings by renaming a new file over
them.

Other renames proceed normally within the sandbox's limits, so nothing is opened up here: the new content of a watched
file is determined and written by this program.
"""

import array
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
"""The kernel's layouts: id, process, flags, call number, architecture, address, arguments; and id, value, error,
flags."""
_CONTINUE = 1
_HERE = 0xFFFFFF9C
"""`AT_FDCWD` as an unsigned number."""
_MAX_PATH_BYTES = 4096
_PAGE = 4096

Rename = Callable[[str, str], int | None]
"""Takes the old and the new absolute path. Returns 0 if done, an error number to refuse, or None to let the rename
proceed."""


def answer_renames(rename: Rename, names: frozenset[str], calls: Mapping[int, Sequence[int]]) -> int:
    """Return a descriptor for `rename_program`, to be passed to it and closed. `names`: base names of watched files;
    `calls`: for each system call, the positions of the old folder and name, and of the new ones."""
    ours, theirs = socket.socketpair()
    threading.Thread(target=_serve, args=(ours, rename, names, calls), name="renames", daemon=True).start()
    return theirs.detach()


def _serve(ours: socket.socket, rename: Rename, names: frozenset[str], calls: Mapping[int, Sequence[int]]) -> None:
    with ours:
        listener = _receive_descriptor(ours)
    if listener is None:
        return
    try:
        poller = select.poll()
        poller.register(listener, select.POLLIN)
        while all(not event & (select.POLLHUP | select.POLLERR) for _, event in poller.poll()):
            request = bytearray(_REQUEST.size)
            try:
                fcntl.ioctl(listener, _RECEIVE, request)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # the process was ended meanwhile
                    continue
                raise
            id, process, _, number, _, _, *arguments = _REQUEST.unpack(request)
            try:
                answer = _answer(process, [arguments[at] if at >= 0 else _HERE for at in calls[number]], rename, names)
            except (OSError, ValueError, UnicodeError):  # what cannot be examined proceeds within the sandbox
                answer = None
            flags = _CONTINUE if answer is None else 0
            with suppress(OSError):  # the process was ended meanwhile
                fcntl.ioctl(listener, _SEND, _ANSWER.pack(id, 0, -(answer or 0), flags))
    finally:
        os.close(listener)


def _receive_descriptor(ours: socket.socket) -> int | None:
    """Return None if the program has ended or sent no descriptor."""
    found = array.array("i")
    try:
        _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(found.itemsize), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    for _, _, data in ancillary:
        found.frombytes(data[: found.itemsize])
    return found[0] if found else None


def _answer(process: int, arguments: list[int], rename: Rename, names: frozenset[str]) -> int | None:
    old_folder, old, new_folder, new = arguments
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        after = _text_at(memory, new)
        if os.path.basename(after) not in names:
            return None
        before = _text_at(memory, old)
    finally:
        os.close(memory)
    return rename(_absolute(process, old_folder, before), _absolute(process, new_folder, after))


def _text_at(memory: int, address: int) -> str:
    found = b""
    while len(found) < _MAX_PATH_BYTES:  # the next page may not be mapped
        part = os.pread(memory, _PAGE - (address + len(found)) % _PAGE, address + len(found))
        found += part
        if b"\0" in part or not part:
            break
    return os.fsdecode(found.partition(b"\0")[0])


def _absolute(process: int, folder: int, path: str) -> str:
    """Return the absolute path with links resolved, except for the last component."""
    if not path.startswith("/"):
        at = "cwd" if folder & 0xFFFFFFFF == _HERE else f"fd/{folder & 0xFFFFFFFF}"
        path = os.path.join(os.readlink(f"/proc/{process}/{at}"), path)
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)
