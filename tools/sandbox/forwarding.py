"""Forwards ports of jobs in the sandbox: each is reachable at 127.0.0.1 for as long as its job listens.

Connections are only possible inwards. A client outside connects to a socket of this program; a process in the sandbox's
network connects to the job and passes the socket out. Nothing in the sandbox can initiate this.
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
"""Maximum number of simultaneous connections to a port."""
_FIRST_FREE_PORT = 1024
"""Lower ports are reserved for system services."""
_CHUNK = 1 << 16
_CONNECTS = """
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
"""Ends when the other end of its socket is closed."""


class NamespaceConnector:
    """Connects to ports in a network namespace, through a process there."""

    def __init__(self, namespace: NetworkNamespace) -> None:
        self._namespace = namespace
        self._process: subprocess.Popen[bytes] | None = None
        self._asks: socket.socket | None = None
        self._lock = threading.Lock()

    def connect(self, address: str, port: int) -> socket.socket:
        """Connect and return the socket. Blocking. Raises `OSError`."""
        with self._lock:
            asks = self._asks or self._start()
            asks.send(f"{address} {port}".encode())
            _, ancillary, *_ = asks.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        if not ancillary:
            raise ConnectionRefusedError(f"nothing listens at {address} port {port}")
        (number,) = array.array("i", ancillary[0][2])
        return socket.socket(fileno=number)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = (os.path.realpath(sys.executable), "-I", "-S", "-c", _CONNECTS, str(theirs.fileno()))
        line, held = self._namespace.nsenter_command(python)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    line, env={}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, pass_fds=(theirs.fileno(), *held), start_new_session=True,
                )  # fmt: skip
        finally:
            for each in held:
                os.close(each)
        self._asks = ours
        return ours

    def close(self) -> None:
        if self._asks is not None and self._process is not None:
            self._asks.close()
            self._process.wait()


class PortForward:
    """A forwarded port of a job. Listens only on 127.0.0.1, until closed."""

    def __init__(self, connector: NamespaceConnector, address: str, port: int) -> None:
        """`address`: where the job listens."""
        self._connector = connector
        self._address, self._port = address, port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Start listening and return the port at 127.0.0.1: the same one, or another if it is taken. Raises
        `OSError`."""
        wanted = self._port if self._port >= _FIRST_FREE_PORT else 0
        try:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", wanted)
        except OSError:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in (*self._connections,):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) <= _MAX_CONNECTIONS:
                await self._carry(reader, writer)
        except OSError:
            pass  # one end has closed, which ends the connection
        finally:
            self._connections.discard(task)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made = await asyncio.to_thread(self._connector.connect, self._address, self._port)
        made.setblocking(False)
        there_reader, there_writer = await asyncio.open_connection(sock=made)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, there_writer))
                both.create_task(_pump(there_reader, writer))
        except* OSError:
            pass  # as above
        finally:
            there_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):  # the other end may be closed already
        writer.write_eof()
