"""Decides about file renames in a sandbox. Each rename waits until it has been decided. Git writes its settings by
renaming a new file over the old one.

All other renames proceed within the limits of the sandbox. Commands gain no rights from this, because this program
decides on the new content of a watched file and writes it itself.
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

_RECEIVE_IOCTL, _SEND_IOCTL = 0xC0502100, 0xC0182101
_REQUEST, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
"""The kernel's layouts. Request: id, process, flags, call number, architecture, address, arguments. Answer: id, value,
error, flags."""
_CONTINUE_FLAG = 1
_AT_FDCWD = 0xFFFFFF9C
"""`AT_FDCWD` as an unsigned number."""
_MAX_PATH_BYTES = 4096
_PAGE_BYTES = 4096

RenameHandler = Callable[[str, str], int | None]
"""Handles a rename from one absolute path to another. Returns 0 if it has renamed the file itself, an error number to
refuse, or None to let the rename proceed."""


def start_rename_server(
    rename: RenameHandler, names: frozenset[str], argument_positions: Mapping[int, Sequence[int]]
) -> int:
    """Start answering renames. Return a descriptor for `rename_program`; pass it on, then close it. `names`: base names
    of the watched files. `argument_positions`: by system call, the argument positions of the old folder, old name, new
    folder and new name."""
    own_socket, child_socket = socket.socketpair()
    threading.Thread(
        target=_serve_requests, args=(own_socket, rename, names, argument_positions), name="renames", daemon=True
    ).start()
    return child_socket.detach()


def _serve_requests(
    own_socket: socket.socket,
    rename: RenameHandler,
    names: frozenset[str],
    argument_positions: Mapping[int, Sequence[int]],
) -> None:
    with own_socket:
        listener = _receive_descriptor(own_socket)
    if listener is None:
        return
    try:
        poller = select.poll()
        poller.register(listener, select.POLLIN)
        while all(not event & (select.POLLHUP | select.POLLERR) for _, event in poller.poll()):
            request = bytearray(_REQUEST.size)
            try:
                fcntl.ioctl(listener, _RECEIVE_IOCTL, request)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # the process has ended meanwhile
                    continue
                raise
            request_id, process, _, call_number, _, _, *arguments = _REQUEST.unpack(request)
            try:
                answer = _handle_request(
                    process,
                    [
                        arguments[position] if position >= 0 else _AT_FDCWD
                        for position in argument_positions[call_number]
                    ],
                    rename,
                    names,
                )
            except (OSError, ValueError, UnicodeError):  # let it proceed: the sandbox still applies
                answer = None
            flags = _CONTINUE_FLAG if answer is None else 0
            with suppress(OSError):  # the process has ended meanwhile
                fcntl.ioctl(listener, _SEND_IOCTL, _ANSWER.pack(request_id, 0, -(answer or 0), flags))
    finally:
        os.close(listener)


def _receive_descriptor(own_socket: socket.socket) -> int | None:
    """Receive the seccomp descriptor that `rename_program` sends. None if the program has ended or sends none."""
    descriptors = array.array("i")
    try:
        _, ancillary, _, _ = own_socket.recvmsg(1, socket.CMSG_SPACE(descriptors.itemsize), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    for _, _, data in ancillary:
        descriptors.frombytes(data[: descriptors.itemsize])
    return descriptors[0] if descriptors else None


def _handle_request(process: int, arguments: list[int], rename: RenameHandler, names: frozenset[str]) -> int | None:
    old_folder, old_address, new_folder, new_address = arguments
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        new_path = _read_path(memory, new_address)
        if os.path.basename(new_path) not in names:
            return None
        old_path = _read_path(memory, old_address)
    finally:
        os.close(memory)
    return rename(_absolute_path(process, old_folder, old_path), _absolute_path(process, new_folder, new_path))


def _read_path(memory: int, address: int) -> str:
    content = b""
    while len(content) < _MAX_PATH_BYTES:  # the next page may not be mapped
        chunk = os.pread(memory, _PAGE_BYTES - (address + len(content)) % _PAGE_BYTES, address + len(content))
        content += chunk
        if b"\0" in chunk or not chunk:
            break
    return os.fsdecode(content.partition(b"\0")[0])


def _absolute_path(process: int, folder_descriptor: int, path: str) -> str:
    """Return the absolute path with links resolved, except in the last component."""
    if not path.startswith("/"):
        link = "cwd" if folder_descriptor & 0xFFFFFFFF == _AT_FDCWD else f"fd/{folder_descriptor & 0xFFFFFFFF}"
        path = os.path.join(os.readlink(f"/proc/{process}/{link}"), path)
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)
