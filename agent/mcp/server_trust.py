"""The questions about the servers of a session, and what becomes of the answers: may what the project declares be
started, and may the model use the tools that they offer."""

from collections.abc import Callable, Sequence

from agent.channel import Channel
from agent.errors import ConfigError
from agent.mcp.approvals import (
    ALL,
    APPROVE,
    EACH,
    FOLDER_OPTIONS,
    LATER,
    NEVER,
    START_OPTIONS,
    TOOL_OPTIONS,
    Approvals,
    digests_of,
    folder_question,
    start_question,
    tools_question,
)
from agent.mcp.server_requests import ServerRequests
from agent.mcp.status import ServerEntry

_DECIDE = "start `ebb` in a terminal to decide, or give `--trust` to have what this project declares"
_DECIDE_ON_TOOLS = "start `ebb` in a terminal to decide, or run `ebb mcp test {} --approve`"


class ServerTrust:
    """What the user has decided of servers, and is asked about them."""

    def __init__(
        self,
        approvals: Approvals,
        pins: Approvals,
        requests: ServerRequests,
        channel: Channel,
        start: Callable[[ServerEntry], None],
    ) -> None:
        """`pins`: of the user's own servers, as they were first seen. `start`: starts one that may be."""
        self.approvals, self.pins = approvals, pins
        self._requests, self._channel, self._start = requests, channel, start

    async def ask_to_start(self, waiting: Callable[[], list[ServerEntry]]) -> None:
        """Asks about those that wait: once for all, where there are several."""
        if len(found := waiting()) > 1:
            await self._ask_for_folder(found)
        for entry in waiting():
            await self._ask_to_start(entry)

    async def ask_for_tools(self, entry: ServerEntry) -> None:
        tools = entry.withheld()
        digests = frozenset(digests_of(tools).values())
        if digests <= entry.postponed:
            return
        kept = self.kept(entry).of(entry.name, entry.declared.digest)
        seen = kept.seen if kept is not None else {}
        has_changed = bool(entry.allowed)
        question = tools_question(entry.name, tools, entry.state.notes, seen, has_changed=has_changed)
        answer = await self._answer(question, TOOL_OPTIONS)
        if answer is None:
            named = ", ".join(f"`{tool.original}`" for tool in tools[:5]) + (" and others" if len(tools) > 5 else "")
            what = "have changed" if entry.declared.owner == "user" else "are not approved"
            told = f"the tools {named} of the server `{entry.name}` {what}, so they are left out"
            self.tell_once(entry, f"{told}; {_DECIDE_ON_TOOLS.format(entry.name)}")
        elif answer == APPROVE:
            allowed = {**(entry.allowed or {}), **digests_of(tools)}
            entry.allowed = allowed
            self._keep(lambda: self.kept(entry).allow_tools(entry.declared, allowed, entry.state.tools))
        else:
            entry.postponed |= digests

    def pin(self, entry: ServerEntry) -> None:
        """What a server of the user's own offers is kept as it was first seen; what is new later is told."""
        was_known = bool(entry.allowed)
        new, allowed = entry.note_new(), entry.allowed
        if not new or allowed is None:
            return
        self._keep(lambda: self.pins.allow_tools(entry.declared, allowed, entry.state.tools))
        if was_known:
            names = ", ".join(f"`{tool.original}`" for tool in new[:5]) + (" and others" if len(new) > 5 else "")
            self.tell_once(entry, f"the server `{entry.name}` offers what it did not before: {names}")

    def kept(self, entry: ServerEntry) -> Approvals:
        return self.pins if entry.declared.owner == "user" else self.approvals

    def tell_once(self, entry: ServerEntry, line: str) -> None:
        if line not in entry.told:
            entry.told.add(line)
            self.tell(line)

    def tell(self, line: str) -> None:
        if self._requests.env is not None:
            self._channel.notice(line)

    async def _ask_for_folder(self, waiting: Sequence[ServerEntry]) -> None:
        """One question for all that the project wants to start; what is decided of each, is kept of each."""
        asked = [(entry.declared, self.approvals.before(entry.declared)) for entry in waiting]
        answer = await self._answer(folder_question(asked), FOLDER_OPTIONS)
        if answer is None:
            named = ", ".join(f"`{entry.name}`" for entry in waiting)
            source = waiting[0].declared.source
            self.tell_once(
                waiting[0], f"the servers {named} of `{source}` are not approved, so they are left out; {_DECIDE}"
            )
        for entry in waiting if answer != EACH else ():
            await self._decide(entry, APPROVE if answer == ALL else NEVER if answer == NEVER else LATER)

    async def _ask_to_start(self, entry: ServerEntry) -> None:
        declared = entry.declared
        before = self.approvals.before(declared)
        answer = await self._answer(start_question(declared, before), START_OPTIONS)
        if answer is None:
            what = "is not approved" if before is None else "has changed since it was approved"
            self.tell_once(
                entry, f"the server `{entry.name}` of `{declared.source}` {what}, so it is left out; {_DECIDE}"
            )
        await self._decide(entry, answer or LATER)

    async def _decide(self, entry: ServerEntry, answer: str) -> None:
        declared = entry.declared
        if answer == APPROVE:
            self._keep(lambda: self.approvals.decide(declared, "approved"))
            self._start(entry)
            if entry.server is not None:
                await entry.server.ready()
        elif answer == NEVER:
            self._keep(lambda: self.approvals.decide(declared, "refused"))
            entry.is_refused = True
        else:
            entry.postponed |= {declared.digest}

    async def _answer(self, question: str, options: tuple[str, ...]) -> str | None:
        """None when nobody is there to ask."""
        return await self._requests.answer(question, options) if self._channel.is_interactive else None

    def _keep(self, write: Callable[[], None]) -> None:
        try:
            write()
        except ConfigError as error:
            self.tell(f"what you approved holds for this session only: {error}")
