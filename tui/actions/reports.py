"""Commands that report the state of the session, of background work and of the installation."""

import asyncio

from ebbtide.agent.doctor.check_result import CheckResult
from ebbtide.agent.doctor.folders import examine_folders
from ebbtide.agent.doctor.settings import examine_settings
from ebbtide.agent.doctor.store import examine_store
from ebbtide.agent.errors import AgentError
from ebbtide.agent.input.instructions import branch_of
from ebbtide.agent.session import Session
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.file_changes import rows_of
from ebbtide.tui.view.panel import report_panel
from ebbtide.tui.view.session_status import SessionFacts, status_panel

_SIGNS: dict[str, tuple[str, TextStyle]] = {"well": ("ok", "good"), "note": ("note", "warn"), "broken": ("BAD", "bad")}


_HOW = {"idle": "is ended ({})", "starting": "is starting", "ready": "runs", "failed": "cannot be used: {}"}
"""State of a language server, in words."""


async def show_status(context: CommandContext, _: str) -> None:
    controller, session = context.controller, context.controller.session
    if session is None:
        return
    overview = await controller.sessions.overview(session.id)
    facts = SessionFacts(
        str(session.root),
        branch_of(session.root),
        session.mode,
        await asyncio.to_thread(lambda: session.boundary.state),
        (context.settings.config.reasoning_effort or "") if context.settings is not None else "",
        await _file_change_totals(session),
        len(session.running_jobs),
        len(controller.queue),
        [(one.name, _HOW[one.phase].format(one.detail)) for one in session.language_servers],
    )
    await context.show(status_panel(overview, facts))


async def _file_change_totals(session: Session) -> tuple[int, int, int]:
    """Number of files changed by tools, and lines added and removed; zeros if unknown."""
    try:
        changes = await session.files.changes("session")
    except AgentError:  # nothing is kept of it
        return 0, 0, 0
    own = [row for row in await asyncio.to_thread(rows_of, changes) if row.by_tool]
    return len(own), sum(row.added for row in own), sum(row.removed for row in own)


async def show_tasks(context: CommandContext, argument: str) -> None:
    session = context.controller.session
    if argument.strip() == "forward" and session is not None:
        if not await session.background_jobs.forward_ports():
            context.controller.notice("no background job listens on a port that you cannot reach")
        return
    jobs = session.running_jobs if session is not None else ()
    if not jobs:
        context.controller.notice(
            "no command runs in the background; `/todos` shows the list that the model works through"
        )
        return
    lines: list[Line] = [((f"  {sanitised_line(job)}", "text"),) for job in jobs]
    await context.show(report_panel("tasks", (("In the background", "strong"),), lines, [*map(sanitised_line, jobs)]))


async def examine(context: CommandContext, _: str) -> None:
    settings = context.settings
    if settings is None:
        return context.controller.notice("`ebb doctor` examines the installation")

    def findings() -> list[CheckResult]:
        folders = settings.config.folders
        return [
            *examine_settings(settings.config, settings.environment),
            *examine_folders(folders),
            *examine_store(folders, lambda what, done, total: None, most_bytes=settings.config.archive_max_bytes),
        ]

    context.hint("looking at settings, keys, folders and the store")
    found = await asyncio.to_thread(findings)
    head: Line = (("Doctor  ", "strong"), *parse_inline_code("`ebb doctor --repair` repairs a damaged store", "dim"))
    await context.show(report_panel("doctor", head, [_line(one) for one in found], [_words(one) for one in found]))
    return None


def _line(finding: CheckResult) -> Line:
    sign, ink = _SIGNS[finding.state]
    advice = f": {finding.advice}" if finding.advice else ""
    return (
        (f"{sign:<5}", ink),
        (f"{finding.subject:<15} ", "dim"),
        *parse_inline_code(sanitised_line(f"{finding.text}{advice}"), "text"),
    )


def _words(finding: CheckResult) -> str:
    return "".join(words for words, _ in _line(finding))
