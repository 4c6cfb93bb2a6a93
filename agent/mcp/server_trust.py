"""Asks the user which tools of MCP servers the model may use, and applies the answers."""

from collections.abc import Callable

from ebbtide.agent.channel import Channel
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.trust_question import APPROVE
from ebbtide.agent.mcp.approvals import TOOL_OPTIONS, Approvals, digests_of, tools_question
from ebbtide.agent.mcp.server_requests import ServerRequests
from ebbtide.agent.mcp.status import ServerEntry

_DECIDE_ON_TOOLS = "start `ebb` in a terminal to decide, or run `ebb mcp test {} --approve`"


class ServerTrust:
    """The user's decisions about servers, and the questions about them."""

    def __init__(
        self,
        approvals: Approvals,
        pins: Approvals,
        requests: ServerRequests,
        channel: Channel,
    ) -> None:
        """`pins` are the tools of the user's own servers as first seen."""
        self.approvals, self.pins = approvals, pins
        self._requests, self._channel = requests, channel

    async def ask_for_tools(self, entry: ServerEntry) -> None:
        tools = entry.withheld()
        digests = frozenset(digests_of(tools).values())
        if digests <= entry.postponed:
            return
        kept = self.approvals_for(entry).of(entry.name, entry.declared.digest)
        seen = kept.seen if kept is not None else {}
        has_changed = bool(entry.allowed)
        question = tools_question(entry.name, tools, entry.state.notes, seen, has_changed=has_changed)
        answer = await self._answer(question, TOOL_OPTIONS)
        if answer is None:
            named = ", ".join(f"`{tool.original}`" for tool in tools[:5]) + (" and others" if len(tools) > 5 else "")
            what = "have changed" if entry.declared.owner == "user" else "are not approved"
            told = f"the tools {named} of the server `{entry.name}` {what}, so they are left out"
            self.notice_once(entry, f"{told}; {_DECIDE_ON_TOOLS.format(entry.name)}")
        elif answer == APPROVE:
            allowed = {**(entry.allowed or {}), **digests_of(tools)}
            entry.allowed = allowed
            self._keep(lambda: self.approvals_for(entry).allow_tools(entry.declared, allowed, entry.state.approvable))
        else:
            entry.postponed |= digests

    def pin(self, entry: ServerEntry) -> None:
        """Pin the tools of a user's server as first seen, and report new ones."""
        was_known = bool(entry.allowed)
        new, allowed = entry.note_new(), entry.allowed
        if not new or allowed is None:
            return
        self._keep(lambda: self.pins.allow_tools(entry.declared, allowed, entry.state.approvable))
        if was_known:
            names = ", ".join(f"`{tool.original}`" for tool in new[:5]) + (" and others" if len(new) > 5 else "")
            self.notice_once(entry, f"the server `{entry.name}` has new tools: {names}")

    def approvals_for(self, entry: ServerEntry) -> Approvals:
        return self.pins if entry.declared.owner == "user" else self.approvals

    def notice_once(self, entry: ServerEntry, line: str) -> None:
        if line not in entry.reported_lines:
            entry.reported_lines.add(line)
            self.notice(line)

    def notice(self, line: str) -> None:
        if self._requests.env is not None:
            self._channel.notice(line)

    async def _answer(self, question: str, options: tuple[str, ...]) -> str | None:
        """The answer; None if nobody can be asked."""
        return await self._requests.answer(question, options) if self._channel.is_interactive else None

    def _keep(self, write: Callable[[], None]) -> None:
        try:
            write()
        except ConfigError as error:
            self.notice(f"your approval applies to this session only: {error}")
