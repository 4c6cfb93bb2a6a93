"""Ports of jobs in the sandbox made reachable from outside: each at 127.0.0.1, and for as long as its job listens.

Connections go one way only. Who is outside connects to a socket of this program; a process in the sandbox's network
connects to the job and hands the socket out. Nothing in the sandbox can ask for that.
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
"""That go to one port at the same time."""
_FIRST_FREE_PORT = 1024
"""Below that, ports are for services of the machine."""
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
"""Ends with the other end of its socket."""


class NamespaceConnector:
    """Connects to what listens in a network of its own, through a process there."""

    def __init__(self, namespace: NetworkNamespace) -> None:
        self._namespace = namespace
        self._process: subprocess.Popen[bytes] | None = None
        self._asks: socket.socket | None = None
        self._lock = threading.Lock()

    def connect(self, address: str, port: int) -> socket.socket:
        """Blocks. Raises `OSError`."""
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
    """One port of a job. Listens at 127.0.0.1 and nowhere else, until it is closed."""

    def __init__(self, connector: NamespaceConnector, address: str, port: int) -> None:
        """`address`: where the job listens on the port."""
        self._connector = connector
        self._address, self._port = address, port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """The port at 127.0.0.1: the same, or another one where that is taken. Raises `OSError`."""
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
            pass  # one of the two ends is gone: so is the connection
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
    with suppress(OSError):  # the other end may be gone already
        writer.write_eof()
