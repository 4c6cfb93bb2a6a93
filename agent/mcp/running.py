"""The running MCP servers of a session: their tools, prompts and resources, and what the user must know or decide about
them."""

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
"""Seconds that the first request of a headless run waits for servers."""


class RunningServers:
    """Starts servers when a session opens, checks them at the start of turns, and closes them together."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        root: Path,
        served: ServerTools,
        channel: Channel,
        trust: SessionTrust,
    ) -> None:
        """Collect the servers of a folder. `trust` is the trust in the project's declarations."""
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
        """Whether requests may be sent because all required servers were ready."""

    def start(self, env: SessionContext) -> None:
        """Start the approved servers in the background."""
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
        """Start approved servers that are not running."""
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
        """Prepare servers at the start of a turn, after the user has decided about the folder: start approved servers,
        ask about tools, and before the first request wait for servers (without limit for required ones). Raises
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
        """Return the message with its mentioned prompts and resources. Raises `UsageError`."""
        running = [entry.server for entry in self.entries.values() if entry.server is not None]
        return await expand_mentions(said, running, self._channel.notice)

    def servers(self) -> tuple[ServerStatus, ...]:
        """The status of all servers, including their tools."""
        env = self._requests.env
        return tuple(entry.status(env) for entry in self.entries.values()) if env is not None else ()

    def statuses(self) -> tuple[ServerStatus, ...]:
        """The status of all servers without their tools. Called at every key press."""
        return tuple(entry.status() for entry in self.entries.values())

    def watch(self, changed: Callable[[], None] | None) -> None:
        """Set the callback for server changes, replacing any earlier one."""
        self._watcher = changed

    async def restart(self, name: str) -> None:
        server = self.entries[name].server
        if server is not None:
            await server.restart()

    def log(self, name: str, lines: int) -> Sequence[str]:
        """The last lines of a server's standard error, or the reason why they cannot be read."""
        server = self.entries[name].server
        try:
            return last_lines(server.log, lines) if server is not None else ()
        except OSError as error:
            return (f"cannot read `{error.filename}`: {error.strerror}",)

    async def login(self, name: str, show: Callable[[str], None]) -> None:
        """Restart a server and let the user log in if required, at the address passed to `show`."""
        server = self.entries[name].server
        if server is None:
            return
        self._requests.shows_login[name] = show
        try:
            await server.login()
        finally:
            if self._requests.shows_login.get(name) is show:  # unless a later login replaced it
                del self._requests.shows_login[name]

    async def switch(self, name: str) -> None:
        """Stop a running server, or start a stopped one. One that is not approved is asked about in the next turn."""
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
            with suppress(ConfigError):  # then it applies to this session only
                self._folder.forget(self._items[name])
            entry.is_refused = False
        self.on_server_change(name)

    async def close(self) -> None:
        """Close all servers."""
        self._requests.env = self._watcher = None
        await close_all([entry.server for entry in self.entries.values() if entry.server is not None])

    def on_server_change(self, name: str) -> None:
        """Handle a change of a server's state."""
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
                self._trust.notice_once(entry, f"the server `{name}` requires a login: run `ebb mcp login {name}`")
            case "starting" if entry.state.detail:
                self._trust.notice_once(entry, f"the server `{name}` crashed: {entry.state.detail}")
            case "ready":
                for note in entry.state.notes:
                    self._trust.notice_once(entry, f"the server `{name}`: {note}")
            case _:
                pass

    def _turn_reports_failure(self, *, required: bool) -> bool:
        """Whether the first turn will fail because of this server; a script should not be told twice."""
        return required and not self._channel.is_interactive and not self._has_begun

    def _update_tools(self) -> None:
        """Make the tools that servers offer now available to the model."""
        for entry in self.entries.values():
            if entry.declared.owner == "user":
                self._trust.pin(entry)
        offered: list[Tool] = [tool for entry in self.entries.values() for tool in entry.offered_tools()]
        withheld = {tool.name: entry.name for entry in self.entries.values() for tool in entry.withheld()}
        why = "its server `{}` has changed it, and the user has not approved the change yet"
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
                late = f"the server `{entry.name}` was not ready within {wait:g} s; its tools will be added later"
                self._trust.notice_once(entry, late)


async def require(entries: Iterable[ServerEntry], unusable: Iterable[UnusableServer]) -> None:
    """Wait until every `required` server is ready, without a time limit. Raises `ServerFailed` for one that fails, and
    `LoginNeeded` for one that needs a login."""
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
        raise LoginNeeded(f"the server `{name}` is `required` and needs a login: run `ebb mcp login {name}`")
    if state.phase != "ready":
        why = state.detail or f"it is {state.phase}"
        raise ServerFailed(f"the server `{name}` is `required` and cannot be used: {why}")
    if entry.withheld() and not entry.offered_tools():
        raise ServerFailed(
            f"the server `{name}` is `required` and none of its tools is approved: start `ebb` in a terminal to "
            f"decide, or run `ebb mcp test {name} --approve`"
        )
