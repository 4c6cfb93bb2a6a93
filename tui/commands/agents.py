"""The command that lists sub-agents, stops running ones, and opens the sessions of finished ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import time
from typing import TYPE_CHECKING

from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.session.session_list import MAX_PREVIEW_MESSAGES
from ebbtide.tui.slash_commands import Invocation, command_by_name
from ebbtide.tui.text.numbers import format_tokens
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.spans import Line, Span
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.panel import LoadedText, Panel, PanelAction, PanelRow, ShowMessage, heading_row
from ebbtide.tui.view.sessions import session_details, session_line

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.archive.library import Library
    from ebbtide.agent.records.session_lookup import SessionInfo
    from ebbtide.agent.window.session_context import SubAgents


NAME_PREFIX = "name:"
"""Prefix of row values for agents that could be started."""
AGENTS_KEY_HINTS = "s stop   Enter open a finished one   PgUp, PgDn scroll   Esc close"


def build_agents_panel(
    running_agents: Sequence[RunningAgent], finished_rows: Sequence[PanelRow], descriptions_by_name: Mapping[str, str],
    activity_by_call: Mapping[str, str],
    actions: Sequence[PanelAction],
) -> Panel:  # fmt: skip
    """Build the panel of running, finished and available agents. `activity_by_call`: what each running agent did last,
    by call id."""
    rows = [_running_row(agent, activity_by_call.get(agent.call_id, "")) for agent in running_agents]
    if finished_rows:
        rows += [heading_row("Finished"), *finished_rows]
    rows.append(heading_row("Available to the model"))
    rows += [
        PanelRow(f"{NAME_PREFIX}{name}", ((f"{sanitise_line(name)}  ", "text"), (sanitise_line(description), "dim")))
        for name, description in descriptions_by_name.items()
    ]
    waiting_count = sum(not agent.agent for agent in running_agents)
    waiting_text = f", {waiting_count} waiting" if waiting_count else ""
    title: Line = (("Agents  ", "strong"), (f"{len(running_agents) - waiting_count} running{waiting_text}", "dim"))
    return Panel(
        "agents",
        (title,),
        tuple(rows),
        AGENTS_KEY_HINTS,
        actions=tuple(actions),
        search_placeholder="",
        page_keys_scroll_details=True,
        max_list_lines=12,
        starts_at_end=True,
    )


def _running_row(agent: RunningAgent, activity: str) -> PanelRow:
    status = (
        f"{agent.seconds:.0f} s · {format_tokens(agent.tokens)} tokens" if agent.agent else "waiting for another agent"
    )
    prompt = sanitise_line(" ".join(agent.prompt.split()))
    mark: Span = ("● ", "good") if agent.agent else ("○ ", "dim")
    line: Line = (mark, (f"{sanitise_line(agent.name)}  ", "text"), (f"{status}  ", "dim"), (prompt, "text"))
    details: list[Line] = [((text, "text"),) for text in sanitise(agent.prompt).splitlines()]
    details += [(), *(((text, "dim"),) for text in sanitise(activity).splitlines())]
    return PanelRow(agent.call_id, line, details=tuple(details))


def finished_agent_row(info: SessionInfo, content: LoadedText, now: float) -> PanelRow:
    """Build the row of a finished agent whose session is stored. `now` is in Unix seconds."""
    draw = partial(session_line, info, now=now, current_id="", ids_to_delete=(), shows_projects=False)
    return PanelRow(info.id, draw, content=content)


async def show_agents(context: CommandContext, argument: str) -> None:
    """List the agents. If the argument is `stop` followed by a name, session id or call id, stop that agent."""
    session = context.controller.session
    if session is None or session.agents is None:
        return
    subcommand, _, name_or_id = argument.partition(" ")
    if subcommand == "stop":
        _stop(context, session.agents, name_or_id.strip())
    elif subcommand:
        context.controller.show_notice("type `/agents` to list agents, or `/agents stop NAME` to stop one")
    else:
        library = await context.controller.sessions.open_library()
        agent_list = AgentList(context, session.agents, library, await library.session_agents(session.id))
        if (choice := await context.show(agent_list.build_panel())) is not None:
            context.invoke(Invocation(command_by_name("resume"), choice.value))


def _stop(context: CommandContext, agents: "SubAgents", name_or_id: str) -> None:
    matches = [
        agent for agent in agents.running
        if name_or_id in ("", agent.call_id, agent.name) or (agent.agent and agent.agent.startswith(name_or_id))
    ]  # fmt: skip
    match matches:
        case []:
            context.controller.show_notice(
                f"no agent `{sanitise_line(name_or_id)}` is running" if name_or_id else "no agent is running"
            )
        case [agent]:
            agents.stop(agent.call_id)
            context.show_hint(f"stopping {sanitise_line(agent.name)}")
        case _:
            context.controller.show_notice(f"{len(matches)} agents match; pick one with `/agents`")


class AgentList:
    """The list of agents and its actions."""

    def __init__(
        self, context: CommandContext, agents: "SubAgents", library: "Library", agent_sessions: "Sequence[SessionInfo]"
    ) -> None:
        """`agent_sessions`: the sub-agent sessions that existed when the list was opened, including running ones."""
        self._context = context
        self._agents = agents
        self._library = library
        self._sessions = agent_sessions

    def build_panel(self) -> Panel:
        running_agents = self._agents.running
        running_ids, now = {agent.agent for agent in running_agents}, time()
        finished_rows = [
            finished_agent_row(info, LoadedText(self._load_details, (info,)), now)
            for info in self._sessions
            if info.id not in running_ids
        ]
        activity_by_call = {
            call.call_id: call.output_tail
            for call in self._context.controller.view.turn_blocks
            if isinstance(call, Call)
        }
        running_call_ids = {agent.call_id for agent in running_agents}
        finished_ids = {row.value for row in finished_rows}

        def is_running(row: PanelRow) -> bool:
            return row.value in running_call_ids

        def is_finished(row: PanelRow) -> bool:
            return row.value in finished_ids

        actions = (
            PanelAction(("s",), "stop", self._stop, is_running),
            PanelAction(("enter",), "open", is_available=is_finished),
        )
        panel = build_agents_panel(running_agents, finished_rows, self._agents.descriptions, activity_by_call, actions)
        return replace(panel, set_watcher=self._agents.set_watcher, rebuild=self.build_panel)

    async def _load_details(self, info: "SessionInfo") -> Sequence[Line]:
        return session_details(info, "", await self._library.last_messages(info.id, MAX_PREVIEW_MESSAGES))

    async def _stop(self, row: PanelRow, _: str) -> Panel:
        self._agents.stop(row.value)
        return replace(self.build_panel(), message=ShowMessage("stopping; it returns what it has so far"))
