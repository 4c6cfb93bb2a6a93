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
from ebbtide.tui.integrations.browser.access import COOKIE_LIFETIME_S, BrowserAccess
from ebbtide.tui.integrations.browser.driver import DRIVER_NAME as DRIVER
from ebbtide.tui.terminal.own_command import own_command

_REFUSAL_TEXT = (
    "Open the address that `ebb serve` printed. It works once, within ten minutes. To print another one, press Enter "
    "in the terminal where `ebb serve` runs.\n"
)
_SESSION_END_TIMEOUT_S = 5.0
"""How long a session has to end on its own, in seconds."""
RECONNECT_TIMEOUT_S = 300.0
"""How long a session waits for its page to reconnect, in seconds, for example during a reload or while a laptop
sleeps."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def _discard_output(data: object = None) -> None:
    """Discard output while no page is connected. The next page is redrawn completely."""


class _Session(AppService):
    """A session in its own process. One page at a time shows it."""

    argv: tuple[str, ...] = ()
    page: web.WebSocketResponse | None = None
    end_task: asyncio.Task[None] | None = None
    """The task that ends the session unless a page reconnects in time."""

    @property
    def has_ended(self) -> bool:
        return self._process is not None and (self._task is None or self._task.done())

    async def show(self, page: web.WebSocketResponse, width: int, height: int) -> None:
        """Show the session on this page, closing the page that showed it before."""
        previous, self.page = self.page, page
        if self.end_task is not None:
            self.end_task.cancel()

        async def close() -> None:
            await page.close()

        async def write(data: bytes) -> None:
            with suppress(ConnectionError):  # `handle_websocket` handles a lost page
                await page.send_bytes(data)

        async def write_text(text: str) -> None:
            with suppress(ConnectionError):
                await page.send_str(text)

        self.remote_write_bytes, self.remote_write_str, self.remote_close = write, write_text, close
        if previous is not None:
            await previous.close()
        if self._process is None:
            await self.start(width, height)
        else:
            await self.send_meta({"type": "shown", "width": width, "height": height})

    def disconnect_page(self) -> None:
        """Handle the page's disconnection."""
        self.page = None
        self.remote_write_bytes = self.remote_write_str = self.remote_close = _discard_output

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
        """End the session as if the user had quit. If it does not end in time, terminate it."""
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
    """Serves sessions to the browsers that the access control admits."""

    def __init__(self, argv: Sequence[str], access: BrowserAccess) -> None:
        super().__init__(
            "ebb",
            host="127.0.0.1",
            port=access.port,
            title="Ebbtide",
            public_url=access.origin,
            templates_path=Path(__file__).parent / "page",
        )
        self._argv = tuple(argv)
        self._access = access
        self._sessions: dict[str, _Session] = {}
        """Sessions by browser tab."""
        self._is_closing = False

    async def make_web_app(self) -> web.Application:
        """Create the web application."""
        session_app = await self._make_app()
        session_app.router.add_get("/ws/{tab:[0-9a-f]{32}}", self.handle_websocket)
        session_app.router.add_get("/page.js", self._serve_script)

        @web.middleware
        async def access_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._check_access(request, handler)

        app = web.Application(middlewares=[access_middleware])
        app.add_subapp(self._access.path_prefix, session_app)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Do nothing: the caller prints the URL."""

    async def on_shutdown(self, app: web.Application) -> None:
        self._is_closing = True
        for session in list(self._sessions.values()):
            if session.page is not None:
                await session.page.close()
            await self._end_session(session)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Connect a page to its tab's session, or to a new one. After a disconnection, the session keeps running for a
        while so that the page can reconnect."""
        page = web.WebSocketResponse(heartbeat=15)
        await page.prepare(request)
        tab = request.match_info.get("tab") or secrets.token_hex(16)
        session = self._sessions.get(tab)
        if session is None or session.has_ended:
            session = self._sessions[tab] = self._new_session()
        can_reconnect = "tab" in request.match_info
        try:
            await session.show(page, _requested_cells(request, "width", 80), _requested_cells(request, "height", 24))
            await self._process_messages(page, session)
        except (ConnectionError, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError):
            can_reconnect = False
            await page.close()  # the page is disconnected, or not one of ours
        finally:
            if session.page is page:
                session.disconnect_page()
                if can_reconnect and not session.has_ended and not self._is_closing:
                    session.end_task = asyncio.create_task(self._end_later(session))
                else:
                    await self._end_session(session)
        return page

    def _new_session(self) -> _Session:
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
        await self._end_session(session)

    async def _end_session(self, session: _Session) -> None:
        self._sessions = {tab: other for tab, other in self._sessions.items() if other is not session}
        await session.stop()

    async def _serve_script(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(Path(__file__).parent / "page" / "page.js")

    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        now = time.monotonic()
        match self._access.check_request(request.method, request.path, headers, request.query, request.cookies, now):
            case "allow":
                response = await handler(request)
            case "set cookie":
                response = web.HTTPSeeOther(f"{self._access.path_prefix}/")
                cookie, lifetime_seconds = secrets.token_urlsafe(24), int(COOKIE_LIFETIME_S)
                self._access.admit_browser(cookie, now)
                name = self._access.cookie_name
                response.set_cookie(
                    name,
                    cookie,
                    max_age=lifetime_seconds,
                    httponly=True,
                    samesite="Strict",
                    path=self._access.path_prefix,
                )
            case "deny":
                response = web.Response(status=403, text=_REFUSAL_TEXT)
        if not response.prepared:
            response.headers.update(self._access.response_headers())
        return response


def _requested_cells(request: web.Request, name: str, default: int) -> int:
    value = request.query.get(name, "")
    return min(int(value), 1_000) if value.isdecimal() and int(value) else default


def serve(arguments: Sequence[str], port: int) -> int:
    """Serve `ebb` with these arguments until Ctrl-C; return the exit code. Raises `UsageError` if the port is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot serve on port {port}: {error}; omit `--port` to use any free one") from error
        secret_path, token = secrets.token_urlsafe(12), secrets.token_urlsafe(24)
        access = BrowserAccess(listener.getsockname()[1], secret_path, token, time.monotonic())
        asyncio.run(_serve(TerminalServer(own_command(arguments), access), access, listener))
    return 0


async def _serve(server: TerminalServer, access: BrowserAccess, listener: socket.socket) -> None:
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    logging.getLogger("textual-serve").setLevel(logging.CRITICAL)
    stop_event, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signal_number, stop_event.set)
    runner = web.AppRunner(await server.make_web_app(), access_log=None, shutdown_timeout=_SESSION_END_TIMEOUT_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        print(f"Open this address in a browser on this machine (Ctrl-C to stop):\n{access.login_url}", flush=True)
        with _print_new_url_on_enter(access):
            await stop_event.wait()
    finally:
        await runner.cleanup()


@contextmanager
def _print_new_url_on_enter(access: BrowserAccess) -> Iterator[None]:
    """Print a URL for another browser whenever the user presses Enter in the terminal."""

    def print_new_url() -> None:
        if os.tcgetpgrp(stdin_descriptor) != os.getpgrp():
            return  # the program is in the background, so the input is not for it
        if not os.read(stdin_descriptor, 4096):
            loop.remove_reader(stdin_descriptor)
            return
        access.replace_token(secrets.token_urlsafe(24), time.monotonic())
        print(f"For another browser (works once):\n{access.login_url}", flush=True)

    if sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    stdin_descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    loop.add_reader(stdin_descriptor, print_new_url)
    try:
        yield
    finally:
        loop.remove_reader(stdin_descriptor)
