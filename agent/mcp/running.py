"""The servers of one session: which of them run, what they bring into it, and what its user has to know or to decide
about them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError, LoginNeeded, ServerFailed
from ebbtide.agent.extensions.session_trust import SessionTrust
from ebbtide.agent.mcp.approvals import item_of
from ebbtide.agent.mcp.declarations import DeclaredServer, UnusableServer, declared_servers
from ebbtide.agent.mcp.manage import approvals_of, make_server, pins_of
from ebbtide.agent.mcp.mentions import expand_mentions
from ebbtide.agent.mcp.server_requests import ServerRequests
from ebbtide.agent.mcp.server_trust import ServerTrust
from ebbtide.agent.mcp.status import ServerEntry, ServerStatus
from ebbtide.agent.messages import User
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import Tool
from ebbtide.tools.mcp.server import Server, close_all
from ebbtide.tools.server_log import last_lines

HEADLESS_WAIT = 30.0
"""Seconds that the first request waits for servers where nobody is there to wait for it."""


class RunningServers:
    """Started when a session is opened, heard when its turns begin, and all closed at once."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        root: Path,
        served: ServerTools,
        channel: Channel,
        trust: SessionTrust,
    ) -> None:
        """Those of a folder, to be started. `trust`: in what the project declares."""
        found = declared_servers(config, environment)
        self.entries = {one.name: ServerEntry(one) for one in found if isinstance(one, DeclaredServer)}
        self._unusable = [one for one in found if isinstance(one, UnusableServer) and not one.is_off]
        self._config = config
        self._served = served
        self._channel = channel
        self._requests = ServerRequests(root, channel, self.on_server_change)
        self._trust = ServerTrust(approvals_of(config), pins_of(config), self._requests, channel)
        self._folder = trust
        self._items = {entry.name: item_of(entry.declared) for entry in self.entries.values()}
        trust.add(tuple(self._items.values()))
        trust.follow(partial(self.settle, first=False))
        self._watcher: Callable[[], None] | None = None
        self._has_begun = False
        """Whether a request may be sent: all that is required was there."""

    def start(self, env: SessionContext) -> None:
        """Starts those that may run, in the background, to be heard in this session."""
        self._requests.env = env
        for one in self._unusable:
            if not self._turn_reports_failure(required=one.required):
                self._trust.notice(one.line)
        for entry in self.entries.values():
            if not self._config.trusts_project or entry.declared.owner == "user":
                approval = self._trust.approvals_for(entry).of(entry.name, entry.declared.digest)
                entry.allowed = approval.tools if approval is not None else {}
        self._start_approved()

    def _start_approved(self) -> list[Server]:
        """Starts those that may be and do not run."""
        started = []
        for entry in self.entries.values():
            is_new = entry.server is None and not entry.is_off
            standing = self._folder.standing(item_of(entry.declared) if is_new else self._items[entry.name])
            entry.is_refused = standing == "refused"
            if standing == "on" and entry.server is None and not entry.is_off:
                started.append(self._start(entry))
        return started

    def _start(self, entry: ServerEntry) -> Server:
        entry.server = server = make_server(entry.declared, self._requests, self._config)
        server.start()
        return server

    async def settle(self, *, first: bool) -> None:
        """At the start of a turn, once the user has decided about the folder: what may run is started, tools are asked
        about, and before the first request it is waited a while, and for what is required until it is there. Raises
        `ServerFailed`."""
        for server in self._start_approved():
            await server.ready()
        if first:
            await self._wait_for_starting()
        self._update_tools()
        for entry in self.entries.values():
            if entry.withheld():
                await self._trust.ask_for_tools(entry)
        self._update_tools()
        if first:
            await require(self.entries.values(), self._unusable)
            self._has_begun = True

    async def expand_mentions(self, said: User) -> User:
        """What the user said, with the prompts and resources that it names. Raises `UsageError`."""
        running = [entry.server for entry in self.entries.values() if entry.server is not None]
        return await expand_mentions(said, running, self._channel.notice)

    def servers(self) -> tuple[ServerStatus, ...]:
        """All of them as their user sees them."""
        env = self._requests.env
        return tuple(entry.status(env) for entry in self.entries.values()) if env is not None else ()

    def statuses(self) -> tuple[ServerStatus, ...]:
        """The same without their tools. It is asked for at every key that is pressed."""
        return tuple(entry.status() for entry in self.entries.values())

    def watch(self, changed: Callable[[], None] | None) -> None:
        """`on_server_change` is called after every change of a server, until somebody else watches."""
        self._watcher = changed

    async def restart(self, name: str) -> None:
        server = self.entries[name].server
        if server is not None:
            await server.restart()

    def log(self, name: str, lines: int) -> Sequence[str]:
        """The last lines of what a server printed on its error output; why they cannot be read, if they cannot."""
        server = self.entries[name].server
        try:
            return last_lines(server.log, lines) if server is not None else ()
        except OSError as error:
            return (f"cannot read `{error.filename}`: {error.strerror}",)

    async def login(self, name: str, show: Callable[[str], None]) -> None:
        """Starts a server again and lets the user log in if it wants that, at the address that is shown."""
        server = self.entries[name].server
        if server is None:
            return
        self._requests.shows_login[name] = show
        try:
            await server.login()
        finally:
            if self._requests.shows_login.get(name) is show:  # no later login has taken its place
                del self._requests.shows_login[name]

    async def switch(self, name: str) -> None:
        """Ends a server that runs, and starts one that does not. One that is not approved is asked for with the next
        turn."""
        entry = self.entries[name]
        if entry.server is not None:
            entry.is_off, server = True, entry.server
            entry.server = None
            await server.close()
        elif entry.is_off:
            entry.is_off = False
            self._start(entry)
        else:
            entry.postponed = frozenset()
            with suppress(ConfigError):  # then it holds for this session only
                self._folder.forget(self._items[name])
            entry.is_refused = False
        self.on_server_change(name)

    async def close(self) -> None:
        """Ends them all."""
        self._requests.env = self._watcher = None
        await close_all([entry.server for entry in self.entries.values() if entry.server is not None])

    def on_server_change(self, name: str) -> None:
        """Something about a server is otherwise than before."""
        self._update_tools()
        if self._watcher is not None:
            self._watcher()
        entry = self.entries.get(name)
        if entry is None or entry.server is None or self._turn_reports_failure(required=entry.declared.required):
            return
        match entry.state.phase:
            case "failed":
                self._trust.notice_once(entry, f"the server `{name}` cannot be used: {entry.state.detail}")
            case "needs_login":
                self._trust.notice_once(entry, f"the server `{name}` wants you to log in: run `ebb mcp login {name}`")
            case "starting" if entry.state.detail:
                self._trust.notice_once(entry, f"the server `{name}` has broken down: {entry.state.detail}")
            case "ready":
                for note in entry.state.notes:
                    self._trust.notice_once(entry, f"the server `{name}`: {note}")
            case _:
                pass

    def _turn_reports_failure(self, *, required: bool) -> bool:
        """Whether the first turn fails by what is wrong with a server: a script is not told of it twice."""
        return required and not self._channel.is_interactive and not self._has_begun

    def _update_tools(self) -> None:
        """What servers offer now is what may be called."""
        for entry in self.entries.values():
            if entry.declared.owner == "user":
                self._trust.pin(entry)
        offered: list[Tool] = [tool for entry in self.entries.values() for tool in entry.offered_tools()]
        withheld = {tool.name: entry.name for entry in self.entries.values() for tool in entry.withheld()}
        why = "its server `{}` has changed it, and the user has not approved that yet"
        self._served.instructions = tuple(
            (entry.name, entry.instructions) for entry in self.entries.values() if entry.instructions
        )
        self._served.offer(offered, {name: why.format(server) for name, server in withheld.items()})

    async def _wait_for_starting(self) -> None:
        wait = self._config.mcp_wait
        if wait is None:
            wait = 0.0 if self._channel.is_interactive else HEADLESS_WAIT
        starting = [entry for entry in self.entries.values() if entry.state.phase == "starting"]
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                for entry in starting:
                    if entry.server is not None:
                        await entry.server.ready()
        for entry in starting:
            if wait > 0 and entry.state.phase == "starting":
                late = f"the server `{entry.name}` was not ready within {wait:g} s: its tools come later"
                self._trust.notice_once(entry, late)


async def require(entries: Iterable[ServerEntry], unusable: Iterable[UnusableServer]) -> None:
    """Returns once every server that is `required` is there with its tools, however long each may take to start. Raises
    `ServerFailed` for one that is not, `LoginNeeded` for one that wants a login."""
    for one in unusable:
        if one.required:
            raise ServerFailed(f"{one.line}; it is `required`")
    for entry in entries:
        if entry.declared.required and not entry.is_off:
            await _require(entry)


async def _require(entry: ServerEntry) -> None:
    name = entry.name
    state = await entry.server.ready() if entry.server is not None else entry.state
    if state.phase == "needs_login":
        raise LoginNeeded(f"the server `{name}` is `required` and wants you to log in: run `ebb mcp login {name}`")
    if state.phase != "ready":
        why = state.detail or f"it is {state.phase}"
        raise ServerFailed(f"the server `{name}` is `required` and cannot be used: {why}")
    if entry.withheld() and not entry.offered_tools():
        raise ServerFailed(
            f"the server `{name}` is `required` and none of its tools is approved: start `ebb` in a terminal to "
            f"decide, or run `ebb mcp test {name} --approve`"
        )
