"""Sub-agents: the activity lines in the block of the call, and the list of all agents."""

from collections.abc import Mapping, Sequence
from functools import partial

from ebbtide.agent.events.permissions import CallDenied
from ebbtide.agent.events.session import AgentActivity, Noticed, ToolStarted, TurnFailed
from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.text.numbers import tokens as so_many
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.spans import Line, Span
from ebbtide.tui.view.call_titles import title_of
from ebbtide.tui.view.panel import LoadedText, Panel, PanelAction, PanelRow, heading
from ebbtide.tui.view.sessions import session_line, session_words

NAME_PREFIX = "name:"
"""Prefix of the row values of available agents."""
KEYS = "s stops it   Enter opens one that is done   PgUp, PgDn   Esc closes"


def agent_line(activity: AgentActivity, tokens: int) -> str:
    """The activity line with a line break; empty if there is nothing to show."""
    match activity.event:
        case ToolStarted(name=name, arguments=arguments):
            told = title_of(name, arguments)
        case CallDenied(name=name, rule=rule):
            told = f"{name} was not run: {rule}"
        case Noticed(text=text):
            told = text
        case TurnFailed(message=message):
            told = f"failed: {message}"
        case _:
            return ""
    return f"{activity.seconds:.0f} s · {so_many(tokens)} tokens · {sanitised_line(told)}\n"


def agents_panel(
    running: Sequence[RunningAgent], done: Sequence[PanelRow], offered: Mapping[str, str], tails: Mapping[str, str],
    actions: Sequence[PanelAction],
) -> Panel:  # fmt: skip
    """The panel of running, finished and available agents. `tails`: recent activity of each call."""
    rows = [_running_row(agent, tails.get(agent.call_id, "")) for agent in running]
    if done:
        rows += [heading("Done"), *done]
    rows.append(heading("To be sent off by the model"))
    rows += [
        PanelRow(f"{NAME_PREFIX}{name}", ((f"{sanitised_line(name)}  ", "text"), (sanitised_line(purpose), "dim")))
        for name, purpose in offered.items()
    ]
    waiting = sum(not agent.agent for agent in running)
    waits = f", {waiting} waiting" if waiting else ""
    head: Line = (("Agents  ", "strong"), (f"{len(running) - waiting} at work{waits}", "dim"))
    return Panel(
        "agents", (head,), tuple(rows), KEYS, actions=tuple(actions), search="", reads=True, most=12, tail=True,
        plain_head="Agents; `stop 1` ends the first. What one does stands in the block of its call.",
    )  # fmt: skip


def _running_row(agent: RunningAgent, tail: str) -> PanelRow:
    how = f"{agent.seconds:.0f} s · {so_many(agent.tokens)} tokens" if agent.agent else "waits for another one"
    said = sanitised_line(" ".join(agent.prompt.split()))
    mark: Span = ("● ", "good") if agent.agent else ("○ ", "dim")
    line: Line = (mark, (f"{sanitised_line(agent.name)}  ", "text"), (f"{how}  ", "dim"), (said, "text"))
    about: list[Line] = [((text, "text"),) for text in sanitised(agent.prompt).splitlines()]
    about += [(), *(((text, "dim"),) for text in sanitised(tail).splitlines())]
    return PanelRow(agent.call_id, line, f"{agent.name}, {how}: {said}", about=tuple(about))


def done_row(info: SessionInfo, content: LoadedText, now: float) -> PanelRow:
    """The row of a finished agent with a stored session. `now` is in Unix seconds."""
    draw = partial(session_line, info, now=now, current="", doomed=(), projects=False)
    return PanelRow(info.id, draw, session_words(info, now), content=content)
