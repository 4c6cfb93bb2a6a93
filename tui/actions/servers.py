"""The command that lists MCP servers, and starts, stops or logs in to them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.view.panel import CopyText, Outcome, Panel, PanelAction, PanelRow
from ebbtide.tui.view.servers import log_lines, server_rows, servers_head

if TYPE_CHECKING:  # a type only: few sessions have servers
    from ebbtide.agent.mcp.running import RunningServers

KEYS = "Space on, off  r restarts  l logs in  o shows its log  PgUp, PgDn  Esc closes"
MAX_LOG_LINES = 200
"""Maximum lines of a log."""


async def show_servers(context: CommandContext, _: str) -> None:
    running = context.controller.session.servers if context.controller.session is not None else None
    if running is None:
        context.controller.notice("no server is declared; `ebb mcp add` declares one")
    else:
        await context.show(ServerList(running).panel())


class ServerList:
    """The list of servers and its actions."""

    def __init__(self, running: "RunningServers") -> None:
        self._running = running
        self._address = ""
        """The URL of a pending login."""
        self._shows_log = False
        self._changed: Callable[[], None] | None = None

    def panel(self) -> Panel:
        servers = {server.name: server for server in self._running.servers()}
        rows = server_rows(
            tuple(servers.values()),
            lambda server: (
                log_lines(server, self._running.log(server.name, MAX_LOG_LINES)) if self._shows_log else None
            ),
        )

        def is_on(row: PanelRow) -> bool:
            return row.value in servers and servers[row.value].is_on

        actions = (
            PanelAction(("space",), "on", self._switch, lambda row: not is_on(row)),
            PanelAction(("space",), "off", self._switch, is_on),
            PanelAction(("r",), "restart", self._restart),
            PanelAction(("l",), "login", self._log_in),
            PanelAction(("o",), "log", self._turn_to_log),
            PanelAction(("y",), do=self._copy, needs_row=False),
        )
        return Panel(
            "mcp", servers_head(tuple(servers.values()), self._address), rows, KEYS, actions=actions, search="",
            reads=True, looks=True, most=10, tail=self._shows_log, watch=self._watch, now=self.panel,
        )  # fmt: skip

    def _watch(self, changed: Callable[[], None] | None) -> None:
        self._changed = changed
        self._running.watch(changed)

    async def _switch(self, row: PanelRow, _: str) -> Panel:
        await self._running.switch(row.value)
        return self.panel()

    async def _restart(self, row: PanelRow, _: str) -> Panel:
        await self._running.restart(row.value)
        return self.panel()

    async def _log_in(self, row: PanelRow, _: str) -> Panel:
        try:
            await self._running.login(row.value, self._show_address)
        finally:
            self._show_address("")
        return self.panel()

    async def _turn_to_log(self, row: PanelRow, _: str) -> Panel:
        self._shows_log = not self._shows_log
        return self.panel()

    async def _copy(self, row: PanelRow, _: str) -> Outcome:
        return CopyText(self._address) if self._address else None

    def _show_address(self, url: str) -> None:
        self._address = url
        if self._changed is not None:
            self._changed()
