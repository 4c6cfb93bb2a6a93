"""Connects its input and output to a host through the proxy of the environment, as the ProxyCommand of SSH. It runs
inside the sandbox by the path of this file, so it imports nothing of this program."""

import os
import socket
import sys
from contextlib import suppress
from threading import Thread
from urllib.parse import urlsplit

_CHUNK = 65_536
_MAX_HEAD_BYTES = 32_768


def main() -> int:
    host, port = sys.argv[1:3]
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    with socket.create_connection((proxy.hostname, proxy.port)) as server:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        server.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):  # byte by byte, since what follows is not ours to read
            if len(head) > _MAX_HEAD_BYTES or not (byte := server.recv(1)):
                break
            head += byte
        status = head.partition(b"\r\n")[0].split(b" ", 2)
        if status[1:2] != [b"200"]:
            print(f"{place}: {b' '.join(status[2:]).decode(errors='replace')}", file=sys.stderr)
            return 1
        Thread(target=_send, args=(server,), daemon=True).start()
        with suppress(ConnectionResetError):
            while data := server.recv(_CHUNK):
                _write_all(data)
    return 0


def _send(server: socket.socket) -> None:
    with suppress(OSError):  # the server hung up, but its data is still returned
        while data := os.read(0, _CHUNK):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(main())
