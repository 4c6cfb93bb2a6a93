"""Starts the interactive interface: full-screen, or line mode."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide import tui
from ebbtide.agent import config as agent_config
from ebbtide.agent.errors import UsageError
from ebbtide.tui import plain, prompt
from ebbtide.tui.cli.arguments import create_sessions, environment_with_keys, read_settings, read_settings_with_warnings
from ebbtide.tui.cli.piped_input import has_piped_input, piped_input, reattach_terminal
from ebbtide.tui.plain.capability import is_print_only
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.terminal.signals import shut_down_on_signals

if TYPE_CHECKING:  # imported for types only: a front end loads what it needs, when it needs it
    from ebbtide.agent.config.settings import Settings
    from ebbtide.agent.config.values import Config
    from ebbtide.agent.sessions import Sessions

_SWITCH_INTERVAL_S = 0.001
"""Seconds that a key press waits for a thread that is computing. Python's default is five times as long, and a key
press may have to wait several times."""


def run(options: argparse.Namespace) -> int:
    """Run an interactive session; return the exit code. Raises `AgentError` if none can be opened."""
    is_served = os.environ.get("TEXTUAL_DRIVER", "").endswith(":ServedDriver")
    has_user = is_served or (sys.stdin.isatty() and sys.stdout.isatty())
    piped = ""
    if not has_user and options.plain and not sys.stdin.isatty():
        piped = piped_input() if has_piped_input() else ""
        has_user = reattach_terminal()
    if not has_user and not (options.plain and (piped.strip() or options.words)):
        raise UsageError("no terminal; use `ebb -p PROMPT` to print the answer")
    # The parent may ignore this signal (`nohup`). When its terminal closes, the program would then read end-of-file
    # again and again.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    root, config = read_settings_with_warnings(options)
    drafts = Drafts(None if options.ephemeral else config.folders.drafts)
    if not is_served and (options.plain or is_print_only(os.environ)):
        session_id, code = asyncio.run(_run_line_mode(options, root, config, drafts, piped, has_user=has_user))
    else:
        session_id, code = asyncio.run(_run_full_screen(options, root, config, drafts))
    was_hung_up = code == 128 + signal.SIGHUP
    if session_id and not options.ephemeral and not is_served and not was_hung_up:
        where = f"-w {options.worktree} " if options.worktree is not None else ""
        print(f"Resume: ebb {where}-r {session_id}")
        if drafts.has_draft(session_id):
            print("Your unsent text will be in the prompt.")
    return code


async def _run_full_screen(
    options: argparse.Namespace, root: Path, config: "Config", drafts: Drafts
) -> tuple[str | None, int]:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    sessions = tui.startup.LazySessions(lambda: _create_sessions(options, root, config))

    app = tui.app.EbbApp(
        sessions,
        history_file=config.folders.data / "history",
        project=config.project,
        resume=options.resume if options.pick is None else options.pick or None,
        may_be_word=bool(options.pick and options.words),
        choose=options.pick == "",
        first_message=" ".join(options.words),
        theme=config.tui_theme,
        keys=config.tui_keys,
        drafts=drafts,
        notify=config.tui_notify,
        status=config.tui_status,
        settings=lambda: _session_settings(options, config, lambda: sessions.sessions),
    )

    def leave() -> None:
        if app.is_running and app.jobs.is_loaded:
            app.run_worker(app.jobs.leave(), group="aside")
        else:  # nothing is open yet, and importing `leave` would take too long
            app.exit()

    with shut_down_on_signals(leave, app.attention.restore_terminal) as shutdown:
        try:
            session_id = await app.run_async()
            if (
                session_id
                and sessions.sessions is not None
                and not await (await sessions.sessions.library()).has_session(session_id)
            ):
                session_id = None  # an unused fork is not stored
        finally:
            if sessions.sessions is not None:
                await sessions.sessions.close()
    if app.jobs.opening_error is not None:
        raise app.jobs.opening_error
    if app.crash_error is not None:
        from ebbtide.agent.crash import crash_error, secrets_of  # noqa: PLC0415  # deferred: needed only after a crash

        raise crash_error(app.crash_error, config.folders.logs, tuple(secrets_of(config, os.environ)))
    return session_id, shutdown.code or app.return_code or 0


async def _run_line_mode(
    options: argparse.Namespace, root: Path, config: "Config", drafts: Drafts, piped: str, *, has_user: bool
) -> tuple[str | None, int]:
    """Run line mode. `piped`: piped input; `has_user`: whether a user can type."""
    sessions = _create_sessions(options, root, config, has_user=has_user)
    try:
        # If the word after `-r` is not a session id, it is the beginning of the prompt.
        is_word = bool(options.pick and options.words) and not await sessions.is_likely_session_id(options.pick)
        choose = is_word or options.pick == ""
        resume = options.resume if options.pick is None else options.pick
        history = prompt.history.History(config.folders.data / "history", str(config.project or ""))
        front = plain.app.LineModeApp(
            sessions,
            history,
            # Opened before anything is printed, so that an error is only one sentence and an exit code.
            session=None if choose else await sessions.open(resume),
            choose=choose,
            first_message=" ".join([options.pick, *options.words] if is_word else options.words),
            piped=piped,
            drafts=drafts,
            settings=_session_settings(options, config, lambda: sessions),
        )
        return await plain.start.run_line_mode(front, history, os.environ, has_user=has_user)
    finally:
        await sessions.close()


def _create_sessions(options: argparse.Namespace, root: Path, config: "Config", *, has_user: bool = True) -> "Sessions":
    """Create the sessions of a folder. From here on, only the front end prints."""
    from ebbtide.agent.crash import log_stray_errors  # noqa: PLC0415  # deferred: behind the first paint

    log_stray_errors(config.folders.logs)
    return create_sessions(root, config, options, interactive=has_user)


def _session_settings(
    options: argparse.Namespace, config: "Config", existing_sessions: "Callable[[], object]"
) -> "Settings":
    """Return the settings of this run. `existing_sessions` returns the sessions that use them, if they exist yet."""
    from ebbtide.agent.sessions import Sessions  # noqa: PLC0415  # deferred: behind the first paint

    def use(changed: "Config") -> None:
        sessions = existing_sessions()
        if isinstance(sessions, Sessions):
            sessions.set_config(changed, settings.environment)

    settings = agent_config.settings.Settings(
        config, lambda: read_settings(options)[1], use, environment_with_keys(config)
    )
    return settings
