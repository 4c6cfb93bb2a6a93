"""The MCP servers of a session as lines: one per server, and the details of one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.text.numbers import tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import PanelRow

if TYPE_CHECKING:  # types only: few sessions have servers
    from ebbtide.agent.mcp.status import ServerStatus, ToolOffer, ToolStatus

PHASES: dict[str, tuple[str, TextStyle]] = {
    "ready": ("ready", "good"),
    "starting": ("starting", "dim"),
    "failed": ("failed", "bad"),
    "needs_login": ("log in", "warn"),
    "disabled": ("off", "dim"),
    "closed": ("closed", "dim"),
}
OFFERS: "dict[ToolOffer, tuple[str, TextStyle]]" = {
    "offered": ("", "text"),
    "held back": ("held back", "dim"),
    "due": ("with your next message", "dim"),
    "late": ("late", "warn"),
    "not approved": ("not approved", "warn"),
    "away": ("away", "dim"),
}
_MAX_DESCRIPTION_CHARS = 200
"""Maximum characters of a tool's description."""


def summary(servers: "Sequence[ServerStatus]") -> str:
    """The number of servers and their tokens per request."""
    ready = sum(server.state.phase == "ready" for server in servers)
    taken = sum(server.tokens for server in servers)
    takes = f", {tokens(taken)} tokens in every request" if taken else ""
    return f"{ready} of {len(servers)} ready{takes}"


def servers_head(servers: "Sequence[ServerStatus]", address: str) -> tuple[Line, ...]:
    """`address`: the URL of a pending login."""
    head: Line = (("Servers  ", "strong"), (summary(servers), "dim"))
    login: Line = ((f"open this address to log in (y copies it): {sanitised_line(address)}", "warn"),)
    return (head, login) if address else (head,)


def server_rows(
    servers: "Sequence[ServerStatus]", log: "Callable[[ServerStatus], Sequence[Line] | None]"
) -> tuple[PanelRow, ...]:
    """`log`: the log lines to show instead of the details, or None."""
    column = max((len(server.name) for server in servers), default=0)
    rows = []
    for server in servers:
        line, shown = server_line(server, column), log(server)
        rows.append(PanelRow(server.name, line, about=tuple(lines_about(server) if shown is None else shown)))
    return tuple(rows)


def server_line(server: "ServerStatus", column: int) -> Line:
    """One server in one line; its name takes `column` cells."""
    phase, ink = PHASES[server.state.phase]
    return (
        (f"{sanitised_line(server.name):<{column}}  ", "text"),
        (f"{phase:<9}", ink),
        (_tool_counts(server), "dim"),
        (f"  {sanitised_line(server.state.detail)}" if server.state.detail else "", "dim"),
    )


def _tool_counts(server: "ServerStatus") -> str:
    """The number of tools and their tokens; empty without tools, e.g. after a failure."""
    if not server.tools:
        return ""
    offered = sum(tool.offer in ("offered", "due") for tool in server.tools)
    count = f"{offered} of {len(server.tools)}" if offered < len(server.tools) else f"{offered}"
    takes = "token" if server.tokens == 1 else "tokens"
    return f"{count:>10} {'tool ' if count == '1' else 'tools'}{tokens(server.tokens):>8} {takes}"


def lines_about(server: "ServerStatus") -> list[Line]:
    """The details of a server: command, tools and remarks."""
    lines: list[Line] = []
    state = server.state
    if state.detail:
        lines.append(((sanitised_line(state.detail), "warn"),))
    if title := " ".join(filter(None, (state.name, state.version))):
        lines.append(((sanitised_line(title), "dim"),))
    runs = (*(line.strip() for line in server.runs), f"from: {server.declared.source}")
    lines += [((sanitised_line(line), "dim"),) for line in runs]
    if server.log is not None:
        lines.append(((f"log: {sanitised_line(str(server.log))}", "dim"),))
    lines += [((sanitised_line(note), "warn"),) for note in state.notes]
    for heading, rows in (
        ("Tools", [_tool_line(tool) for tool in server.tools]),
        ("Prompts", [_row(f"/{each.command} {each.usage}", each.description) for each in state.prompts]),
        ("Resources", [_row(f"@{server.name}:{each.uri}", "") for each in state.resources]),
    ):
        if rows:
            lines += [(), ((heading, "strong"), (f"  {len(rows)}", "dim")), *rows]
    return lines


def log_lines(server: "ServerStatus", printed: Sequence[str]) -> list[Line]:
    """The stderr of a server, newest last."""
    lines: list[Line] = [(("Log", "strong"), (f"  {sanitised_line(str(server.log or ''))}", "dim"))]
    lines += [((sanitised_line(line), "text"),) for line in printed] or [(("nothing was printed", "dim"),)]
    return lines


def _tool_line(tool: "ToolStatus") -> Line:
    said, ink = OFFERS[tool.offer]
    return (
        (f"  {sanitised_line(tool.name)}", "text" if tool.offer == "offered" else "dim"),
        (f"  {tokens(tool.tokens)}", "dim"),
        (f"  {said}" if said else "", ink),
        (f"  {_short_description(tool.description)}", "dim"),
    )


def _row(name: str, description: str) -> Line:
    return ((f"  {sanitised_line(name).rstrip()}", "text"), (f"  {_short_description(description)}".rstrip(), "dim"))


def _short_description(text: str) -> str:
    return ellipsize(sanitised_line(" ".join(text.split())), _MAX_DESCRIPTION_CHARS)
