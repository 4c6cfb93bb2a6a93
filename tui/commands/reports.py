"""Commands that report the state of the session and of background work."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.agent.errors import AgentError
from ebbtide.agent.input.instructions import branch_or_commit
from ebbtide.agent.messages import Usage
from ebbtide.agent.records.usage import RequestUsage
from ebbtide.agent.session import Session
from ebbtide.agent.window.overview import Overview
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.numbers import format_dollars, format_duration, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.file_changes import change_rows
from ebbtide.tui.view.panel import Panel, build_report_panel

_NAME_WIDTH = 10
_COUNTED_PURPOSES = ("step", "summary", "keep-alive")
"""Purposes of requests that are counted separately. All others are counted as `other`."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts about a session that the context overview does not include."""

    folder: str
    branch: str
    mode: str
    sandbox: str
    """The state of the sandbox, a `SandboxState`."""
    effort: str
    """The configured reasoning effort; empty if not set."""
    file_change_totals: tuple[int, int, int]
    """Number of files changed by tools, lines added and lines removed."""
    job_count: int
    unsent_message_count: int
    """Number of unsent messages."""
    language_servers: Sequence[tuple[str, str]] = ()
    """The language servers used so far and their states."""


def build_status_panel(overview: Overview, facts: SessionFacts) -> Panel:
    """Build the status panel. If a command shows more about a row, the row names that command."""
    title: Line = (("Session  ", "strong"), (sanitise_line(overview.title) or "(no messages yet)", "text"))
    return build_report_panel("status", title, [_status_line(*row) for row in _status_rows(overview, facts)])


def _status_line(name: str, value: str, command: str) -> Line:
    line: Line = ((f"  {name:<{_NAME_WIDTH}}", "dim"), (value, "text"))
    return (*line, (f"  {command}", "dim")) if command else line


def _status_rows(overview: Overview, facts: SessionFacts) -> Iterator[tuple[str, str, str]]:
    requests = overview.requests
    usage = sum((request.usage for request in requests), Usage())
    yield "id", overview.session, ""
    effort = f", effort {facts.effort}" if facts.effort else ""
    yield "model", sanitise_line(overview.model) + effort, "/model"
    sandbox_text = (
        f"commands sandboxed ({facts.sandbox})" if facts.sandbox not in ("none", "off") else "commands not sandboxed"
    )
    yield "mode", f"{facts.mode}, {sandbox_text}", "/mode"
    yield "folder", sanitise_line(facts.folder) + (f"   {sanitise_line(facts.branch)}" if facts.branch else ""), ""
    share = 100 * overview.used_tokens / max(overview.effective, 1)
    yield (
        "window",
        f"{format_tokens(overview.used_tokens)} of {format_tokens(overview.effective)} ({share:.0f}%)",
        "/context",
    )
    yield "cost", _cost_text(requests), ""
    cached_text = f" ({100 * usage.cache_read / usage.prompt:.0f}% cached)" if usage.prompt else ""
    yield "tokens", f"{format_tokens(usage.prompt)} sent{cached_text}, {format_tokens(usage.output)} received", ""
    if requests:
        elapsed = round(requests[-1].at - requests[0].at)
        yield "requests", _requests_text(requests) + (f" in {format_duration(elapsed)}" if elapsed else ""), ""
    file_count, added, removed = facts.file_change_totals
    yield (
        "files",
        f"{pluralize(file_count, 'file')} changed  +{added} −{removed}" if file_count else "no changes",
        "/files",
    )
    if facts.job_count:
        yield "running", f"{pluralize(facts.job_count, 'command')} in the background", "/tasks"
    if facts.language_servers:
        yield "languages", ", ".join(sanitise_line(f"{name} {state}") for name, state in facts.language_servers), ""
    if facts.unsent_message_count:
        yield "queued", pluralize(facts.unsent_message_count, "message"), ""


def _cost_text(requests: Sequence[RequestUsage]) -> str:
    """Format the cost of all requests, broken down by model if there were several."""
    models = dict.fromkeys(request.model for request in requests)
    cost_by_model = {
        model: _total_cost(request.cost for request in requests if request.model == model) for model in models
    }
    total = format_dollars(_total_cost(cost_by_model.values()))
    if None in cost_by_model.values():
        unpriced_models = ", ".join(sanitise_line(model) for model, cost in cost_by_model.items() if cost is None)
        return f"unknown (no price for {unpriced_models})"
    if len(cost_by_model) < 2:
        return total
    cost_texts = (f"{sanitise_line(model)} {format_dollars(cost)}" for model, cost in cost_by_model.items())
    return f"{total}: {', '.join(cost_texts)}"


def _total_cost(costs: Iterable[float | None]) -> float | None:
    """Sum the costs; None if any is unknown."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def _requests_text(requests: Sequence[RequestUsage]) -> str:
    purposes = Counter(request.purpose if request.purpose in _COUNTED_PURPOSES else "other" for request in requests)
    if len(purposes) == 1:
        return pluralize(len(requests), "request")
    return f"{pluralize(len(requests), 'request')} ({', '.join(f'{count} {name}' for name, count in purposes.items())})"


async def show_status(context: CommandContext, _: str) -> None:
    controller, session = context.controller, context.controller.session
    if session is None:
        return
    overview = await controller.sessions.overview(session.id)
    facts = SessionFacts(
        str(session.working_folder),
        branch_or_commit(session.working_folder),
        session.mode,
        await asyncio.to_thread(lambda: session.boundary.sandbox_state),
        (context.settings.config.reasoning_effort or "") if context.settings is not None else "",
        await _file_change_totals(session),
        len(session.running_jobs),
        len(controller.queue),
        session.language_servers,
    )
    await context.show(build_status_panel(overview, facts))


async def _file_change_totals(session: Session) -> tuple[int, int, int]:
    """Count files changed by tools, lines added and lines removed; zeros if unknown."""
    try:
        changes = await session.file_history.changes("session")
    except AgentError:  # the session records no file changes
        return 0, 0, 0
    tool_changes = [row for row in await asyncio.to_thread(change_rows, changes) if row.is_by_tool]
    return (
        len(tool_changes),
        sum(row.added_count for row in tool_changes),
        sum(row.removed_count for row in tool_changes),
    )


async def show_tasks(context: CommandContext, argument: str) -> None:
    session = context.controller.session
    if argument.strip() == "forward" and session is not None:
        if not await session.background_jobs.forward_ports():
            context.controller.show_notice("no background job listens on an unreachable port")
        return
    jobs = session.running_jobs if session is not None else ()
    if not jobs:
        context.controller.show_notice("no background commands; `/todos` shows the model's to-do list")
        return
    lines: list[Line] = [((f"  {sanitise_line(job)}", "text"),) for job in jobs]
    await context.show(build_report_panel("tasks", (("In the background", "strong"),), lines))
