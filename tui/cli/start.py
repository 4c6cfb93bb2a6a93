"""Starts the interactive interface, full-screen or in line mode."""

import argparse
import asyncio
import gc
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
from ebbtide.tui.cli.piped_input import has_piped_input, read_piped_input, reattach_terminal
from ebbtide.tui.plain.capability import is_dumb_terminal
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.terminal.signals import shut_down_on_signals

if TYPE_CHECKING:  # imported for types only: a front end loads what it needs, when it needs it
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.config.settings import Settings
    from ebbtide.agent.config.values import Config

_SWITCH_INTERVAL_S = 0.001
"""Python's thread switch interval, in seconds. Each switch can delay a key press by this much while another thread is
busy. The default is five times as long."""


def run(options: argparse.Namespace) -> int:
    """Run an interactive session; return the exit code. Raises `AgentError` if no session can be opened."""
    is_in_browser = os.environ.get("TEXTUAL_DRIVER", "").endswith(":ServedDriver")
    is_interactive = is_in_browser or (sys.stdin.isatty() and sys.stdout.isatty())
    piped_text = ""
    if not is_interactive and options.plain and not sys.stdin.isatty():
        piped_text = read_piped_input() if has_piped_input() else ""
        is_interactive = reattach_terminal()
    if not is_interactive and not (options.plain and (piped_text.strip() or options.words)):
        raise UsageError("no terminal; use `ebb -p PROMPT` to print the answer")
    # The program may have been started with this signal ignored, for example by `nohup`. It would then keep reading
    # end-of-file forever once its terminal closes.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    root, config = read_settings_with_warnings(options)
    drafts = Drafts(None if options.ephemeral else config.folders.draft_folder)
    if not is_in_browser and (options.plain or is_dumb_terminal(os.environ)):
        session_id, exit_code = asyncio.run(
            _run_line_mode(options, root, config, drafts, piped_text, is_interactive=is_interactive)
        )
    else:
        session_id, exit_code = asyncio.run(_run_full_screen(options, root, config, drafts))
    was_hung_up = exit_code == 128 + signal.SIGHUP
    if session_id and not options.ephemeral and not is_in_browser and not was_hung_up:
        worktree_flag = f"-w {options.worktree} " if options.worktree is not None else ""
        print(f"Resume: ebb {worktree_flag}-r {session_id}")
        if drafts.has_draft(session_id):
            print("Your unsent text will be in the prompt.")
    return exit_code


async def _run_full_screen(
    options: argparse.Namespace, root: Path, config: "Config", drafts: Drafts
) -> tuple[str | None, int]:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.disable()  # until the modules of a session are loaded
    sessions = tui.startup.LazySessions(lambda: _create_project_sessions(options, root, config))

    app = tui.app.EbbApp(
        sessions,
        history_file=config.folders.data / "history",
        project=config.project_folder,
        resume=options.resume if options.pick is None else options.pick or None,
        resume_may_be_word=bool(options.pick and options.words),
        chooses_from_list=options.pick == "",
        first_message=" ".join(options.words),
        theme=config.tui_theme,
        key_style=config.tui_keys,
        drafts=drafts,
        notify=config.tui_notify,
        status_parts=config.tui_status,
        settings=lambda: _session_settings(options, config, lambda: sessions.sessions),
    )

    def exit_app() -> None:
        if app.is_running and app.jobs.is_loaded:
            app.run_worker(app.jobs.exit(), group="aside")
        else:  # nothing is open yet, and importing `leave` would take too long
            app.exit()

    with shut_down_on_signals(exit_app, app.terminal_features.restore_terminal) as shutdown:
        try:
            session_id = await app.run_async()
            if (
                session_id
                and sessions.sessions is not None
                and not await (await sessions.sessions.open_library()).has_session(session_id)
            ):
                session_id = None  # an unused fork is not stored
        finally:
            if sessions.sessions is not None:
                await sessions.sessions.close()
    if app.jobs.opening_error is not None:
        raise app.jobs.opening_error
    if app.crash_error is not None:
        from ebbtide.agent.logs.crash_reports import config_secrets, crash_error  # noqa: PLC0415  # deferred: needed only after a crash

        raise crash_error(app.crash_error, config.folders.logs, tuple(config_secrets(config, os.environ)))
    return session_id, shutdown.exit_code or app.return_code or 0


async def _run_line_mode(
    options: argparse.Namespace, root: Path, config: "Config", drafts: Drafts, piped_text: str, *, is_interactive: bool
) -> tuple[str | None, int]:
    """Run line mode. `piped_text`: piped input. `is_interactive`: whether a user can type."""
    sessions = _create_project_sessions(options, root, config, is_interactive=is_interactive)
    try:
        # If the word after `-r` is not a session id, it is the first word of the prompt.
        is_prompt_word = bool(options.pick and options.words) and not await sessions.is_likely_session_id(options.pick)
        chooses_from_list = is_prompt_word or options.pick == ""
        resume = options.resume if options.pick is None else options.pick
        history = prompt.history.History(config.folders.data / "history", str(config.project_folder or ""))
        app = plain.app.LineModeApp(
            sessions,
            history,
            # Open the session before printing anything, so that a failure prints just one sentence.
            session=None if chooses_from_list else await sessions.open(resume),
            chooses_from_list=chooses_from_list,
            first_message=" ".join([options.pick, *options.words] if is_prompt_word else options.words),
            piped_text=piped_text,
            drafts=drafts,
            settings=_session_settings(options, config, lambda: sessions),
        )
        return await plain.start.run_line_mode(app, history, os.environ, is_interactive=is_interactive)
    finally:
        await sessions.close()


def _create_project_sessions(
    options: argparse.Namespace, root: Path, config: "Config", *, is_interactive: bool = True
) -> "ProjectSessions":
    """Create the sessions of a folder. From here on, only the front end prints."""
    from ebbtide.agent.logs.crash_reports import install_crash_handlers  # noqa: PLC0415  # deferred until after the first paint

    install_crash_handlers(config.folders.logs)
    return create_sessions(root, config, options, is_interactive=is_interactive)


def _session_settings(
    options: argparse.Namespace, config: "Config", get_sessions: "Callable[[], object]"
) -> "Settings":
    """Create the settings of this run. `get_sessions` returns the sessions that use these settings, if there are any
    yet."""
    from ebbtide.agent.compose.sessions import ProjectSessions  # noqa: PLC0415  # deferred until after the first paint

    def apply_config(changed_config: "Config") -> None:
        sessions = get_sessions()
        if isinstance(sessions, ProjectSessions):
            sessions.set_config(changed_config, settings.environment)

    settings = agent_config.settings.Settings(
        config, lambda: read_settings(options)[1], apply_config, environment_with_keys(config)
    )
    return settings
