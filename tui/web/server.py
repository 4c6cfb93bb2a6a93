"""The web server of `ebb serve`."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.own_command import own_command
from ebbtide.tui.web.access import COOKIE_LIFETIME_S, BrowserAccess
from ebbtide.tui.web.driver import NAME as DRIVER

_REFUSAL_TEXT = (
    "Open the address that `ebb serve` has printed. It lets one browser in, once, within ten minutes; "
    "Enter in the terminal of `ebb serve` prints another.\n"
)
_SESSION_END_TIMEOUT_S = 5.0
"""Seconds for a session to end by itself."""
RECONNECT_TIMEOUT_S = 300.0
"""Seconds that a session survives without a page: a reload, a lost connection, a sleeping laptop."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def _discard_output(data: object = None) -> None:
    """Discard output while no page is connected: the next page is fully redrawn."""


class _Session(AppService):
    """A session in its own process, shown by one page at a time."""

    argv: tuple[str, ...] = ()
    page: web.WebSocketResponse | None = None
    leaving: asyncio.Task[None] | None = None
    """Ends it unless a page reconnects in time."""

    @property
    def is_over(self) -> bool:
        return self._process is not None and (self._task is None or self._task.done())

    async def show(self, page: web.WebSocketResponse, width: int, height: int) -> None:
        """Show it on this page instead of the previous one."""
        before, self.page = self.page, page
        if self.leaving is not None:
            self.leaving.cancel()

        async def close() -> None:
            await page.close()

        async def write(data: bytes) -> None:
            with suppress(ConnectionError):  # it is gone, which is told elsewhere; the session goes on
                await page.send_bytes(data)

        async def tell(text: str) -> None:
            with suppress(ConnectionError):
                await page.send_str(text)

        self.remote_write_bytes, self.remote_write_str, self.remote_close = write, tell, close
        if before is not None:
            await before.close()
        if self._process is None:
            await self.start(width, height)
        else:
            await self.send_meta({"type": "shown", "width": width, "height": height})

    def leave(self) -> None:
        """The page has gone."""
        self.page, self.remote_write_bytes, self.remote_write_str, self.remote_close = (
            None,
            _discard_output,
            _discard_output,
            _discard_output,
        )

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        return {**super()._build_environment(width, height), "TEXTUAL_DRIVER": DRIVER}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        process = await asyncio.create_subprocess_exec(
            *self.argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
        )
        self._process, self._stdin = process, process.stdin
        return process

    async def stop(self) -> None:
        """Let the session end as if the user had quit, and terminate it if it does not."""
        process = self._process
        with suppress(TimeoutError):
            await asyncio.wait_for(super().stop(), _SESSION_END_TIMEOUT_S)
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _SESSION_END_TIMEOUT_S)
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


class TerminalServer(Server):
    """Serves sessions to browsers admitted by the access control."""

    def __init__(self, argv: Sequence[str], gate: BrowserAccess) -> None:
        super().__init__(
            "ebb",
            host="127.0.0.1",
            port=gate.port,
            title="Ebbtide",
            public_url=gate.origin,
            templates_path=Path(__file__).parent / "page",
        )
        self._argv = tuple(argv)
        self._gate = gate
        self._sessions: dict[str, _Session] = {}
        """Sessions by browser tab."""
        self._is_closing = False

    async def make(self) -> web.Application:
        """Create the web application."""
        inner = await self._make_app()
        inner.router.add_get("/ws/{tab:[0-9a-f]{32}}", self.handle_websocket)
        inner.router.add_get("/page.js", self._script)

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._check_access(request, handler)

        app = web.Application(middlewares=[guard])
        app.add_subapp(self._gate.root, inner)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the caller prints the URL."""

    async def on_shutdown(self, app: web.Application) -> None:
        self._is_closing = True
        for session in list(self._sessions.values()):
            if session.page is not None:
                await session.page.close()
            await self._end(session)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Connect a page to the session of its tab, or to a new one. When it disconnects, the session waits for it."""
        opened = web.WebSocketResponse(heartbeat=15)
        await opened.prepare(request)
        tab = request.match_info.get("tab") or secrets.token_hex(16)
        session = self._sessions.get(tab)
        if session is None or session.is_over:
            session = self._sessions[tab] = self._session()
        comes_back = "tab" in request.match_info
        try:
            await session.show(opened, _cells(request, "width", 80), _cells(request, "height", 24))
            await self._process_messages(opened, session)
        except (ConnectionError, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError):
            comes_back = False
            await opened.close()  # gone, or not what our own page sends
        finally:
            if session.page is opened:
                session.leave()
                if comes_back and not session.is_over and not self._is_closing:
                    session.leaving = asyncio.create_task(self._end_later(session))
                else:
                    await self._end(session)
        return opened

    def _session(self) -> _Session:
        manager = self.download_manager
        session = _Session(
            self.command,
            write_bytes=_discard_output,
            write_str=_discard_output,
            close=_discard_output,
            download_manager=manager,
        )
        session.argv = self._argv
        return session

    async def _end_later(self, session: _Session) -> None:
        await asyncio.sleep(RECONNECT_TIMEOUT_S)
        await self._end(session)

    async def _end(self, session: _Session) -> None:
        self._sessions = {tab: each for tab, each in self._sessions.items() if each is not session}
        await session.stop()

    async def _script(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(Path(__file__).parent / "page" / "page.js")

    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        now = time.monotonic()
        match self._gate.judge(request.method, request.path, headers, request.query, request.cookies, now):
            case "let in":
                answer = await handler(request)
            case "give a cookie":
                answer = web.HTTPSeeOther(f"{self._gate.root}/")
                cookie, lasts = secrets.token_urlsafe(24), int(COOKIE_LIFETIME_S)
                self._gate.admit(cookie, now)
                name = self._gate.cookie
                answer.set_cookie(name, cookie, max_age=lasts, httponly=True, samesite="Strict", path=self._gate.root)
            case "refuse":
                answer = web.Response(status=403, text=_REFUSAL_TEXT)
        if not answer.prepared:
            answer.headers.update(self._gate.headers())
        return answer


def _cells(request: web.Request, name: str, usual: int) -> int:
    written = request.query.get(name, "")
    return min(int(written), 1_000) if written.isdecimal() and int(written) else usual


def serve(arguments: Sequence[str], port: int) -> int:
    """Serve `ebb` with these arguments until Ctrl-C; return the exit code. Raises `UsageError` if the port is in
    use."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot serve on port {port}: {error}; leave `--port` out to use any free one") from error
        folder, token = secrets.token_urlsafe(12), secrets.token_urlsafe(24)
        gate = BrowserAccess(listening.getsockname()[1], folder, token, time.monotonic())
        asyncio.run(_serve(TerminalServer(own_command(arguments), gate), gate, listening))
    return 0


async def _serve(server: TerminalServer, gate: BrowserAccess, listening: socket.socket) -> None:
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    logging.getLogger("textual-serve").setLevel(logging.CRITICAL)
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    runner = web.AppRunner(await server.make(), access_log=None, shutdown_timeout=_SESSION_END_TIMEOUT_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        print(f"Open this address in a browser on this machine; Ctrl-C ends it:\n{gate.address}", flush=True)
        with _renew_on_enter(gate):
            await over.wait()
    finally:
        await runner.cleanup()


@contextmanager
def _renew_on_enter(gate: BrowserAccess) -> Iterator[None]:
    """While the terminal is attached, Enter prints a URL for another browser."""

    def renew() -> None:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return  # in the background: what is typed there is for another program
        if not os.read(terminal, 4096):
            loop.remove_reader(terminal)
            return
        gate.renew(secrets.token_urlsafe(24), time.monotonic())
        print(f"For another browser, once:\n{gate.address}", flush=True)

    if sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    loop.add_reader(terminal, renew)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
