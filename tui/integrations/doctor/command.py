"""The `/doctor` command."""

import asyncio

from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.doctor.folders import check_folders
from ebbtide.agent.integrations.doctor.settings import check_settings
from ebbtide.agent.integrations.doctor.store import check_store
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.panel import build_report_panel

_STATE_LABELS: dict[str, tuple[str, TextStyle]] = {
    "well": ("ok", "good"),
    "note": ("note", "warn"),
    "broken": ("BAD", "bad"),
}


async def show_checks(context: CommandContext, _: str) -> None:
    settings = context.settings
    if settings is None:
        return context.controller.show_notice("run `ebb doctor` to check the installation")

    def run_checks() -> list[CheckResult]:
        folders = settings.config.folders
        return [
            *check_settings(settings.config, settings.environment),
            *check_folders(folders),
            *check_store(folders, lambda check, done, total: None, max_stored_bytes=settings.config.archive_max_bytes),
        ]

    context.show_hint("checking settings, keys, folders and the store")
    results = await asyncio.to_thread(run_checks)
    title: Line = (("Doctor  ", "strong"), *parse_inline_code("`ebb doctor --repair` repairs a damaged store", "dim"))
    await context.show(build_report_panel("doctor", title, [_result_line(result) for result in results]))
    return None


def _result_line(result: CheckResult) -> Line:
    label, style = _STATE_LABELS[result.state]
    advice = f": {result.advice}" if result.advice else ""
    return (
        (f"{label:<5}", style),
        (f"{result.subject:<15} ", "dim"),
        *parse_inline_code(sanitise_line(f"{result.text}{advice}"), "text"),
    )
