"""The command that lists MCP servers and starts, stops or logs in to them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.numbers import format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import ActionOutcome, CopyText, Panel, PanelAction, PanelRow

if TYPE_CHECKING:  # few sessions need this module, because few have servers
    from ebbtide.agent.integrations.mcp.running_servers import RunningServers
    from ebbtide.agent.integrations.mcp.status import ServerStatus, ToolAvailability, ToolStatus

PHASE_LABELS: dict[str, tuple[str, TextStyle]] = {
    "ready": ("ready", "good"),
    "starting": ("starting", "dim"),
    "failed": ("failed", "bad"),
    "needs_login": ("log in", "warn"),
    "disabled": ("off", "dim"),
    "closed": ("closed", "dim"),
}
AVAILABILITY_LABELS: "dict[ToolAvailability, tuple[str, TextStyle]]" = {
    "offered": ("", "text"),
    "deferred": ("deferred", "dim"),
    "next request": ("from your next message", "dim"),
    "after compaction": ("late", "warn"),
    "not approved": ("not approved", "warn"),
    "server not ready": ("away", "dim"),
}
_MAX_DESCRIPTION_CHARS = 200
"""Maximum length, in characters, of a tool's description."""


def servers_summary(servers: "Sequence[ServerStatus]") -> str:
    """Summarise the servers: how many are ready, the total number, and the tokens that their tools add to each
    request."""
    ready_count = sum(server.state.phase == "ready" for server in servers)
    token_count = sum(server.token_count for server in servers)
    tokens_text = f", {format_tokens(token_count)} tokens per request" if token_count else ""
    return f"{ready_count} of {len(servers)} ready{tokens_text}"


def servers_heading(servers: "Sequence[ServerStatus]", login_url: str) -> tuple[Line, ...]:
    """Build the lines above the list of servers. `login_url`: the URL of a pending login."""
    title: Line = (("MCP servers  ", "strong"), (servers_summary(servers), "dim"))
    login_line: Line = ((f"open this address to log in (y copies it): {sanitise_line(login_url)}", "warn"),)
    return (title, login_line) if login_url else (title,)


def server_rows(
    servers: "Sequence[ServerStatus]", get_log: "Callable[[ServerStatus], Sequence[Line] | None]"
) -> tuple[PanelRow, ...]:
    """Build the rows of the servers. `get_log` returns log lines to show in place of a server's details, or None."""
    name_width = max((len(server.name) for server in servers), default=0)
    rows = []
    for server in servers:
        line, recent_log = server_line(server, name_width), get_log(server)
        rows.append(
            PanelRow(server.name, line, details=tuple(server_details(server) if recent_log is None else recent_log))
        )
    return tuple(rows)


def server_line(server: "ServerStatus", name_width: int) -> Line:
    """Format a server as one line, with its name padded to `name_width` cells."""
    label, style = PHASE_LABELS[server.state.phase]
    return (
        (f"{sanitise_line(server.name):<{name_width}}  ", "text"),
        (f"{label:<9}", style),
        (_tool_counts(server), "dim"),
        (f"  {sanitise_line(server.state.detail)}" if server.state.detail else "", "dim"),
    )


def _tool_counts(server: "ServerStatus") -> str:
    """Format the number of tools and their tokens; empty if there are no tools, for example after a failure."""
    if not server.tools:
        return ""
    offered_count = sum(tool.availability in ("offered", "next request") for tool in server.tools)
    count_text = f"{offered_count} of {len(server.tools)}" if offered_count < len(server.tools) else f"{offered_count}"
    token_noun = "token" if server.token_count == 1 else "tokens"
    tool_noun = "tool " if count_text == "1" else "tools"
    return f"{count_text:>10} {tool_noun}{format_tokens(server.token_count):>8} {token_noun}"


def server_details(server: "ServerStatus") -> list[Line]:
    """Format a server's details: command, notes, tools, prompts and resources."""
    lines: list[Line] = []
    state = server.state
    if state.detail:
        lines.append(((sanitise_line(state.detail), "warn"),))
    if title := " ".join(filter(None, (state.name, state.version))):
        lines.append(((sanitise_line(title), "dim"),))
    origin_lines = (*(line.strip() for line in server.description_lines), f"from: {server.declared_server.source}")
    lines += [((sanitise_line(line), "dim"),) for line in origin_lines]
    if server.log_path is not None:
        lines.append(((f"log: {sanitise_line(str(server.log_path))}", "dim"),))
    lines += [((sanitise_line(note), "warn"),) for note in state.notes]
    for heading, rows in (
        ("Tools", [_tool_line(tool) for tool in server.tools]),
        ("Prompts", [_item_line(f"/{prompt.command} {prompt.usage}", prompt.description) for prompt in state.prompts]),
        ("Resources", [_item_line(f"@{server.name}:{resource.uri}", "") for resource in state.resources]),
    ):
        if rows:
            lines += [(), ((heading, "strong"), (f"  {len(rows)}", "dim")), *rows]
    return lines


def log_lines(server: "ServerStatus", output_lines: Sequence[str]) -> list[Line]:
    """Format a server's stderr output as lines, newest last."""
    lines: list[Line] = [(("Log", "strong"), (f"  {sanitise_line(str(server.log_path or ''))}", "dim"))]
    lines += [((sanitise_line(line), "text"),) for line in output_lines] or [(("no output", "dim"),)]
    return lines


def _tool_line(tool: "ToolStatus") -> Line:
    label, style = AVAILABILITY_LABELS[tool.availability]
    return (
        (f"  {sanitise_line(tool.name)}", "text" if tool.availability == "offered" else "dim"),
        (f"  {format_tokens(tool.token_count)}", "dim"),
        (f"  {label}" if label else "", style),
        (f"  {_short_description(tool.description)}", "dim"),
    )


def _item_line(name: str, description: str) -> Line:
    return ((f"  {sanitise_line(name).rstrip()}", "text"), (f"  {_short_description(description)}".rstrip(), "dim"))


def _short_description(text: str) -> str:
    return ellipsize(sanitise_line(" ".join(text.split())), _MAX_DESCRIPTION_CHARS)


SERVERS_KEY_HINTS = "Space on/off  r restart  l log in  o log  PgUp, PgDn scroll  Esc close"
MAX_LOG_LINES = 200
"""Maximum number of log lines shown."""


async def show_mcp_servers(context: CommandContext, _: str) -> None:
    running_servers = context.controller.session.servers if context.controller.session is not None else None
    if running_servers is None:
        context.controller.show_notice("No MCP servers yet. Add one with `ebb mcp add`.")
    else:
        await context.show(McpServersPanel(cast("RunningServers", running_servers)).build_panel())


class McpServersPanel:
    """The list of servers and its actions."""

    def __init__(self, running_servers: "RunningServers") -> None:
        self._running_servers = running_servers
        self._login_url = ""
        """The URL of a pending login."""
        self._shows_log = False
        self._on_change: Callable[[], None] | None = None

    def build_panel(self) -> Panel:
        servers_by_name = {server.name: server for server in self._running_servers.statuses_with_tools()}
        rows = server_rows(
            tuple(servers_by_name.values()),
            lambda server: (
                log_lines(server, self._running_servers.last_log_lines(server.name, MAX_LOG_LINES))
                if self._shows_log
                else None
            ),
        )

        def is_on(row: PanelRow) -> bool:
            return row.value in servers_by_name and servers_by_name[row.value].is_enabled

        actions = (
            PanelAction(("space",), "on", self._toggle_server, lambda row: not is_on(row)),
            PanelAction(("space",), "off", self._toggle_server, is_on),
            PanelAction(("r",), "restart", self._restart),
            PanelAction(("l",), "login", self._log_in),
            PanelAction(("o",), "log", self._toggle_log),
            PanelAction(("y",), run=self._copy, needs_row=False),
        )
        return Panel(
            "mcp",
            servers_heading(tuple(servers_by_name.values()), self._login_url),
            rows,
            SERVERS_KEY_HINTS,
            actions=actions,
            search_placeholder="",
            page_keys_scroll_details=True,
            previews_before_action=True,
            max_list_lines=10,
            starts_at_end=self._shows_log,
            set_watcher=self._set_watcher,
            rebuild=self.build_panel,
        )

    def _set_watcher(self, on_change: Callable[[], None] | None) -> None:
        self._on_change = on_change
        self._running_servers.set_watcher(on_change)

    async def _toggle_server(self, row: PanelRow, _: str) -> Panel:
        await self._running_servers.toggle(row.value)
        return self.build_panel()

    async def _restart(self, row: PanelRow, _: str) -> Panel:
        await self._running_servers.restart(row.value)
        return self.build_panel()

    async def _log_in(self, row: PanelRow, _: str) -> Panel:
        try:
            await self._running_servers.log_in(row.value, self._show_login_url)
        finally:
            self._show_login_url("")
        return self.build_panel()

    async def _toggle_log(self, row: PanelRow, _: str) -> Panel:
        self._shows_log = not self._shows_log
        return self.build_panel()

    async def _copy(self, row: PanelRow, _: str) -> ActionOutcome:
        return CopyText(self._login_url) if self._login_url else None

    def _show_login_url(self, url: str) -> None:
        self._login_url = url
        if self._on_change is not None:
            self._on_change()
