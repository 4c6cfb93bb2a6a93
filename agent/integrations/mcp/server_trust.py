"""Asks the user which tools of MCP servers the model may use, and applies the answers."""

from collections.abc import Callable

from ebbtide.agent.channel import Channel
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.trust_question import APPROVE_OPTION
from ebbtide.agent.integrations.mcp.approvals import (
    TOOL_OPTIONS,
    ToolApprovals,
    build_tools_question,
    compute_tool_digests,
)
from ebbtide.agent.integrations.mcp.server_requests import ServerRequests
from ebbtide.agent.integrations.mcp.status import ServerEntry

_APPROVAL_HINT = "start `ebb` in a terminal to decide, or run `ebb mcp test {} --approve`"


class ToolTrust:
    """The user's decisions about servers, and the questions about them."""

    def __init__(
        self,
        approvals: ToolApprovals,
        pins: ToolApprovals,
        requests: ServerRequests,
        channel: Channel,
    ) -> None:
        """`pins` contains the tools of the user's own servers as they were first seen."""
        self.approvals, self.pins = approvals, pins
        self._requests, self._channel = requests, channel

    async def ask_about_tools(self, entry: ServerEntry) -> None:
        tools = entry.unapproved_tools()
        digests = frozenset(compute_tool_digests(tools).values())
        if digests <= entry.postponed_digests:
            return
        previous_approval = self.approvals_for(entry).find_approval(entry.name, entry.declared_server.digest)
        seen_definitions = previous_approval.seen if previous_approval is not None else {}
        has_changed = bool(entry.allowed_digests)
        question = build_tools_question(entry.name, tools, entry.state.notes, seen_definitions, has_changed=has_changed)
        answer = await self._ask_user(question, TOOL_OPTIONS)
        if answer is None:
            names = ", ".join(f"`{tool.original_name}`" for tool in tools[:5]) + (
                " and others" if len(tools) > 5 else ""
            )
            reason = "have changed" if entry.declared_server.owner == "user" else "are not approved"
            problem = f"the tools {names} of the server `{entry.name}` {reason}, so the model cannot use them"
            self.notify_once(entry, f"{problem}; {_APPROVAL_HINT.format(entry.name)}")
        elif answer == APPROVE_OPTION:
            allowed_digests = {**(entry.allowed_digests or {}), **compute_tool_digests(tools)}
            entry.allowed_digests = allowed_digests
            self._save_approval(
                lambda: self.approvals_for(entry).allow_tools(
                    entry.declared_server, allowed_digests, entry.state.approvable_tools
                )
            )
        else:
            entry.postponed_digests |= digests

    def pin_new_tools(self, entry: ServerEntry) -> None:
        """Pin the definitions of new tools on a user's server, and report them."""
        had_tools = bool(entry.allowed_digests)
        new_tools, allowed_digests = entry.allow_new_tools(), entry.allowed_digests
        if not new_tools or allowed_digests is None:
            return
        self._save_approval(
            lambda: self.pins.allow_tools(entry.declared_server, allowed_digests, entry.state.approvable_tools)
        )
        if had_tools:
            names = ", ".join(f"`{tool.original_name}`" for tool in new_tools[:5]) + (
                " and others" if len(new_tools) > 5 else ""
            )
            self.notify_once(entry, f"the server `{entry.name}` has new tools: {names}")

    def approvals_for(self, entry: ServerEntry) -> ToolApprovals:
        return self.pins if entry.declared_server.owner == "user" else self.approvals

    def notify_once(self, entry: ServerEntry, line: str) -> None:
        if line not in entry.reported_lines:
            entry.reported_lines.add(line)
            self.notify(line)

    def notify(self, line: str) -> None:
        if self._requests.session_contexts is not None:
            self._channel.show_notice(line)

    async def _ask_user(self, question: str, options: tuple[str, ...]) -> str | None:
        """Return the user's answer; None if there is no user to ask."""
        return await self._requests.ask_user(question, options) if self._channel.is_interactive else None

    def _save_approval(self, write: Callable[[], None]) -> None:
        try:
            write()
        except ConfigError as error:
            self.notify(f"your approval applies to this session only: {error}")
