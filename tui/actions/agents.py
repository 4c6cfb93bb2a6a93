"""The command that lists sub-agents: running ones can be stopped, and the sessions of finished ones opened."""

from collections.abc import Sequence
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING

from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.commands import Invocation, command_named
from ebbtide.tui.session.session_list import MAX_PREVIEW_MESSAGES
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.agents import agents_panel, done_row
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.panel import LoadedText, Panel, PanelAction, PanelRow, ShowMessage
from ebbtide.tui.view.sessions import about_lines

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.archive.library import Library
    from ebbtide.agent.records.session_lookup import SessionInfo
    from ebbtide.agent.window.session_context import Agents


async def show_agents(context: CommandContext, said: str) -> None:
    """List the agents, or stop one: `stop` and its name, session id or call id."""
    session = context.controller.session
    if session is None or session.agents is None:
        return
    word, _, which = said.partition(" ")
    if word == "stop":
        _stop(context, session.agents, which.strip())
    elif word:
        context.controller.notice("`/agents` shows the agents of this session, `/agents stop NAME` ends one")
    else:
        library = await context.controller.sessions.library()
        listed = AgentList(context, session.agents, library, await library.agents(session.id))
        if (taken := await context.show(listed.panel())) is not None:
            context.invoke(Invocation(command_named("resume"), taken.value))


def _stop(context: CommandContext, agents: "Agents", which: str) -> None:
    found = [
        one for one in agents.running
        if which in ("", one.call_id, one.name) or (one.agent and one.agent.startswith(which))
    ]  # fmt: skip
    match found:
        case []:
            context.controller.notice(
                f"no agent `{sanitised_line(which)}` is at work" if which else "no agent is at work"
            )
        case [one]:
            agents.stop(one.call_id)
            context.hint(f"stopping {sanitised_line(one.name)}")
        case _:
            context.controller.notice(f"{len(found)} agents match; `/agents` lists them and stops one")


class AgentList:
    """The list of agents and its actions."""

    def __init__(
        self, context: CommandContext, agents: "Agents", library: "Library", done: "Sequence[SessionInfo]"
    ) -> None:
        """`done`: the agent sessions that exist when the list is opened, including running ones."""
        self._context, self._agents, self._library, self._done = context, agents, library, done

    def panel(self) -> Panel:
        running = self._agents.running
        at_work, now = {one.agent for one in running}, time()
        done = [done_row(info, LoadedText(self._about, (info,)), now) for info in self._done if info.id not in at_work]
        tails = {call.call_id: call.tail for call in self._context.controller.view.turn if isinstance(call, Call)}
        calls, sessions = {one.call_id for one in running}, {row.value for row in done}

        def is_at_work(row: PanelRow) -> bool:
            return row.value in calls

        def is_done(row: PanelRow) -> bool:
            return row.value in sessions

        actions = (PanelAction(("s",), "stop", self._stop, is_at_work), PanelAction(("enter",), "open", can=is_done))
        panel = agents_panel(running, done, self._agents.descriptions, tails, actions)
        return replace(panel, watch=self._agents.watch, now=self.panel)

    async def _about(self, info: "SessionInfo") -> Sequence[Line]:
        return about_lines(info, "", await self._library.last_messages(info.id, MAX_PREVIEW_MESSAGES))

    async def _stop(self, row: PanelRow, _: str) -> Panel:
        self._agents.stop(row.value)
        return replace(self.panel(), message=ShowMessage("it stops, and hands back what it has"))
