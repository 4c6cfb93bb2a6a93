"""The running MCP servers of a session: their tools, prompts and resources, and the related notices and questions for
the user."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError, LoginNeeded, ServerFailed
from ebbtide.agent.extensions.session_trust import SessionTrust
from ebbtide.agent.integrations.mcp.approvals import create_trust_item
from ebbtide.agent.integrations.mcp.declarations import DeclaredServer, UnusableServer, load_declared_servers
from ebbtide.agent.integrations.mcp.manage import create_server, open_project_approvals, open_user_tool_pins
from ebbtide.agent.integrations.mcp.mentions import expand_mentions
from ebbtide.agent.integrations.mcp.server_requests import ServerRequests
from ebbtide.agent.integrations.mcp.server_trust import ToolTrust
from ebbtide.agent.integrations.mcp.status import ServerEntry, ServerStatus
from ebbtide.agent.messages import User
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.tools.base import Tool
from ebbtide.tools.integrations.mcp.server import McpServer, close_all
from ebbtide.tools.integrations.server_log import read_last_lines

HEADLESS_WAIT_S = 30.0
"""Seconds that the first request of a headless run waits for servers."""


class RunningServers:
    """Starts servers when a session opens, checks them at the start of turns, and closes them together."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        root: Path,
        server_tools: ServerTools,
        channel: Channel,
        trust: SessionTrust,
    ) -> None:
        """Collect the servers declared for a folder. `trust` decides whether the project's servers may start."""
        declared_servers = load_declared_servers(config, environment)
        self.entries = {
            server.name: ServerEntry(server) for server in declared_servers if isinstance(server, DeclaredServer)
        }
        self._unusable_servers = [
            server for server in declared_servers if isinstance(server, UnusableServer) and not server.is_disabled
        ]
        self._config = config
        self._server_tools = server_tools
        self._channel = channel
        self._requests = ServerRequests(root, channel, self.on_server_change)
        self._tool_trust = ToolTrust(
            open_project_approvals(config), open_user_tool_pins(config), self._requests, channel
        )
        self._folder_trust = trust
        self._trust_items = {entry.name: create_trust_item(entry.declared_server) for entry in self.entries.values()}
        trust.add(tuple(self._trust_items.values()))
        trust.add_follow_up(partial(self.prepare_turn, is_first=False))
        self._on_change: Callable[[], None] | None = None
        self._required_servers_were_ready = False
        """Whether all required servers have been ready once, which allows requests to be sent."""

    def start(self, window: WindowContext, turn: TurnContext) -> None:
        """Start the approved servers in the background."""
        self._requests.session_contexts = window, turn
        for unusable in self._unusable_servers:
            if not self._turn_reports_failure(is_required=unusable.is_required):
                self._tool_trust.notify(unusable.notice)
        for entry in self.entries.values():
            if not self._config.is_project_trusted or entry.declared_server.owner == "user":
                approval = self._tool_trust.approvals_for(entry).find_approval(entry.name, entry.declared_server.digest)
                entry.allowed_digests = approval.tools if approval is not None else {}
        self._start_approved_servers()

    def _start_approved_servers(self) -> list[McpServer]:
        """Start the approved servers that are not running, and return them."""
        started_servers = []
        for entry in self.entries.values():
            is_new = entry.server is None and not entry.is_disabled
            trust_state = self._folder_trust.trust_state(
                create_trust_item(entry.declared_server) if is_new else self._trust_items[entry.name]
            )
            entry.is_refused = trust_state == "refused"
            if trust_state == "on" and entry.server is None and not entry.is_disabled:
                started_servers.append(self._start(entry))
        return started_servers

    def _start(self, entry: ServerEntry) -> McpServer:
        entry.server = server = create_server(entry.declared_server, self._requests, self._config)
        server.start()
        return server

    async def prepare_turn(self, *, is_first: bool) -> None:
        """Prepare servers at the start of a turn, after the user has decided whether to trust the folder. Starts the
        approved servers, and asks the user to approve their tools. `is_first`: whether this is before the first
        request; if so, also wait for servers that are still starting. The wait for required servers has no time limit.
        Raises `ServerFailed`."""
        for server in self._start_approved_servers():
            await server.wait_until_started()
        if is_first:
            await self._wait_for_servers()
        self._update_tools()
        for entry in self.entries.values():
            if entry.unapproved_tools():
                await self._tool_trust.ask_about_tools(entry)
        self._update_tools()
        if is_first:
            await wait_for_required_servers(self.entries.values(), self._unusable_servers)
            self._required_servers_were_ready = True

    async def expand_mentions(self, message: User) -> User:
        """Add the prompts and resources that the message mentions. Raises `UsageError`."""
        running = [entry.server for entry in self.entries.values() if entry.server is not None]
        return await expand_mentions(message, running, self._channel.show_notice)

    def statuses_with_tools(self) -> tuple[ServerStatus, ...]:
        """Return the status of all servers, including their tools."""
        if self._requests.session_contexts is None:
            return ()
        window, _ = self._requests.session_contexts
        return tuple(entry.status(window) for entry in self.entries.values())

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Return the status of all servers, without their tools. Must be fast: it is called at every key press."""
        return tuple(entry.status() for entry in self.entries.values())

    def set_watcher(self, on_change: Callable[[], None] | None) -> None:
        """Set the callback for server changes, replacing any previous one."""
        self._on_change = on_change

    async def restart(self, name: str) -> None:
        server = self.entries[name].server
        if server is not None:
            await server.restart()

    def last_log_lines(self, name: str, max_lines: int) -> Sequence[str]:
        """Return the last lines of a server's standard error, or the reason why they cannot be read."""
        server = self.entries[name].server
        try:
            return read_last_lines(server.log, max_lines) if server is not None else ()
        except OSError as error:
            return (f"cannot read `{error.filename}`: {error.strerror}",)

    async def log_in(self, name: str, show_address: Callable[[str], None]) -> None:
        """Restart a server, and let the user log in if required; `show_address` receives the address to open."""
        server = self.entries[name].server
        if server is None:
            return
        self._requests.login_callbacks[name] = show_address
        try:
            await server.login()
        finally:
            if self._requests.login_callbacks.get(name) is show_address:  # unless a later login replaced it
                del self._requests.login_callbacks[name]

    async def toggle(self, name: str) -> None:
        """Stop a running server, or start a stopped one. If the server is not approved, the next turn asks about it."""
        entry = self.entries[name]
        if entry.server is not None:
            entry.is_disabled, server = True, entry.server
            entry.server = None
            await server.close()
        elif entry.is_disabled:
            entry.is_disabled = False
            self._start(entry)
        else:
            entry.postponed_digests = frozenset()
            with suppress(ConfigError):  # if it cannot be saved, the change applies to this session only
                self._folder_trust.forget(self._trust_items[name])
            entry.is_refused = False
        self.on_server_change(name)

    async def close(self) -> None:
        """Close all servers."""
        self._requests.session_contexts = self._on_change = None
        await close_all([entry.server for entry in self.entries.values() if entry.server is not None])

    def on_server_change(self, name: str) -> None:
        """Handle a change of a server's state."""
        self._update_tools()
        if self._on_change is not None:
            self._on_change()
        entry = self.entries.get(name)
        if (
            entry is None
            or entry.server is None
            or self._turn_reports_failure(is_required=entry.declared_server.is_required)
        ):
            return
        match entry.state.phase:
            case "failed":
                self._tool_trust.notify_once(entry, f"the server `{name}` cannot be used: {entry.state.detail}")
            case "needs_login":
                self._tool_trust.notify_once(entry, f"the server `{name}` requires a login: run `ebb mcp login {name}`")
            case "starting" if entry.state.detail:
                self._tool_trust.notify_once(entry, f"the server `{name}` crashed: {entry.state.detail}")
            case "ready":
                for note in entry.state.notes:
                    self._tool_trust.notify_once(entry, f"the server `{name}`: {note}")
            case _:
                pass

    def _turn_reports_failure(self, *, is_required: bool) -> bool:
        """Whether the first turn will fail because of this server and report the failure, so that a notice would be
        redundant."""
        return is_required and not self._channel.is_interactive and not self._required_servers_were_ready

    def _update_tools(self) -> None:
        """Offer the model the approved tools that the servers have now."""
        for entry in self.entries.values():
            if entry.declared_server.owner == "user":
                self._tool_trust.pin_new_tools(entry)
        offered_tools: list[Tool] = [tool for entry in self.entries.values() for tool in entry.offered_tools()]
        server_by_withheld_tool = {
            tool.name: entry.name for entry in self.entries.values() for tool in entry.unapproved_tools()
        }
        problem = "its server `{}` has changed it, and the user has not approved the change yet"
        self._server_tools.instructions = tuple(
            (entry.name, entry.instructions) for entry in self.entries.values() if entry.instructions
        )
        self._server_tools.offer(
            offered_tools, {name: problem.format(server) for name, server in server_by_withheld_tool.items()}
        )

    async def _wait_for_servers(self) -> None:
        wait_s = self._config.mcp_wait
        if wait_s is None:
            wait_s = 0.0 if self._channel.is_interactive else HEADLESS_WAIT_S
        starting_entries = [entry for entry in self.entries.values() if entry.state.phase == "starting"]
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                for entry in starting_entries:
                    if entry.server is not None:
                        await entry.server.wait_until_started()
        for entry in starting_entries:
            if wait_s > 0 and entry.state.phase == "starting":
                problem = f"the server `{entry.name}` was not ready within {wait_s:g} s; its tools will be added later"
                self._tool_trust.notify_once(entry, problem)


async def wait_for_required_servers(entries: Iterable[ServerEntry], unusable_servers: Iterable[UnusableServer]) -> None:
    """Wait, without a time limit, until every `required` server is ready. Raises `ServerFailed` if one fails, and
    `LoginNeeded` if one needs a login."""
    for server in unusable_servers:
        if server.is_required:
            raise ServerFailed(f"{server.notice}; it is `required`")
    for entry in entries:
        if entry.declared_server.is_required and not entry.is_disabled:
            await _wait_for_required_server(entry)


async def _wait_for_required_server(entry: ServerEntry) -> None:
    name = entry.name
    state = await entry.server.wait_until_started() if entry.server is not None else entry.state
    if state.phase == "needs_login":
        raise LoginNeeded(f"the server `{name}` is `required` and needs a login: run `ebb mcp login {name}`")
    if state.phase != "ready":
        problem = state.detail or f"it is {state.phase}"
        raise ServerFailed(f"the server `{name}` is `required` and cannot be used: {problem}")
    if entry.unapproved_tools() and not entry.offered_tools():
        raise ServerFailed(
            f"the server `{name}` is `required` and none of its tools is approved: start `ebb` in a terminal to "
            f"decide, or run `ebb mcp test {name} --approve`"
        )
