"""Connects stdin and stdout to a host, through the proxy that the environment sets. Used as an SSH ProxyCommand. This
file is run by its path inside the sandbox, so it imports nothing else from this program."""

import os
import socket
import sys
from contextlib import suppress
from threading import Thread
from urllib.parse import urlsplit

_CHUNK_BYTES = 65_536
_MAX_HEAD_BYTES = 32_768


def main() -> int:
    host, port = sys.argv[1:3]
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    with socket.create_connection((proxy.hostname, proxy.port)) as server:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        server.sendall(f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):  # byte by byte, because what follows the header belongs to SSH
            if len(head) > _MAX_HEAD_BYTES or not (byte := server.recv(1)):
                break
            head += byte
        status = head.partition(b"\r\n")[0].split(b" ", 2)
        if status[1:2] != [b"200"]:
            print(f"{authority}: {b' '.join(status[2:]).decode(errors='replace')}", file=sys.stderr)
            return 1
        Thread(target=_send, args=(server,), daemon=True).start()
        with suppress(ConnectionResetError):
            while data := server.recv(_CHUNK_BYTES):
                _write_all(data)
    return 0


def _send(server: socket.socket) -> None:
    with suppress(OSError):  # the server has hung up, but its data is still received
        while data := os.read(0, _CHUNK_BYTES):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(main())
