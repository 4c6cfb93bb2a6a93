"""Forwards ports of jobs in the sandbox. A port can be reached at 127.0.0.1 while its job listens on it.

Connections can only be made from the outside in. A client outside connects to a socket of this program. A process in
the sandbox's network then connects to the job, and passes the connected socket out. Nothing in the sandbox can open a
connection to the outside.
"""

import array
import asyncio
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from ebbtide.tools.sandbox.network_namespace import NetworkNamespace

_MAX_CONNECTIONS = 64
"""Maximum number of simultaneous connections to one port."""
_FIRST_UNPRIVILEGED_PORT = 1024
"""Ports below this are reserved for system services."""
_CHUNK_BYTES = 1 << 16
_CONNECT_SCRIPT = """
import array, socket, sys
asked = socket.socket(fileno=int(sys.argv[1]))
while (place := asked.recv(128).decode()):
    address, _, port = place.rpartition(" ")
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as made:
        made.settimeout(5)
        try:
            made.connect((address, int(port)))
        except OSError:
            asked.send(b"-")
        else:
            asked.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))])
"""
"""The program that the connecting process runs. It ends when the other end of its socket is closed."""


class NamespaceConnector:
    """Connects to ports in a network namespace, through a process in it."""

    def __init__(self, namespace: NetworkNamespace) -> None:
        self._namespace = namespace
        self._process: subprocess.Popen[bytes] | None = None
        self._request_socket: socket.socket | None = None
        self._lock = threading.Lock()

    def connect(self, address: str, port: int) -> socket.socket:
        """Connect, and return the socket. Blocks. Raises `OSError`."""
        with self._lock:
            request_socket = self._request_socket or self._start()
            request_socket.send(f"{address} {port}".encode())
            _, ancillary, *_ = request_socket.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        if not ancillary:
            raise ConnectionRefusedError(f"nothing listens at {address} port {port}")
        (descriptor,) = array.array("i", ancillary[0][2])
        return socket.socket(fileno=descriptor)

    def _start(self) -> socket.socket:
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = (os.path.realpath(sys.executable), "-I", "-S", "-c", _CONNECT_SCRIPT, str(child_socket.fileno()))
        argv, descriptors = self._namespace.nsenter_command(python)
        try:
            with child_socket:
                self._process = subprocess.Popen(
                    argv, env={}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, pass_fds=(child_socket.fileno(), *descriptors), start_new_session=True,
                )  # fmt: skip
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._request_socket = own_socket
        return own_socket

    def close(self) -> None:
        if self._request_socket is not None and self._process is not None:
            self._request_socket.close()
            self._process.wait()


class PortForward:
    """A forwarded port of a job. It can be reached only at 127.0.0.1, until it is closed."""

    def __init__(self, connector: NamespaceConnector, address: str, port: int) -> None:
        """`address`: the address at which the job listens."""
        self._connector = connector
        self._address, self._port = address, port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Start listening on 127.0.0.1, and return the port: the job's own port or, if that is taken, another one.
        Raises `OSError`."""
        preferred_port = self._port if self._port >= _FIRST_UNPRIVILEGED_PORT else 0
        try:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", preferred_port)
        except OSError:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in (*self._connections,):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) <= _MAX_CONNECTIONS:
                await self._relay(reader, writer)
        except OSError:
            pass  # one end has closed, so the connection ends
        finally:
            self._connections.discard(task)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        job_socket = await asyncio.to_thread(self._connector.connect, self._address, self._port)
        job_socket.setblocking(False)
        job_reader, job_writer = await asyncio.open_connection(sock=job_socket)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, job_writer))
                tasks.create_task(_pump(job_reader, writer))
        except* OSError:
            pass  # one end has closed the connection
        finally:
            job_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):  # the other end may already be closed
        writer.write_eof()
