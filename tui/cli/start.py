"""Starts the interactive interface: full-screen, or line mode without a screen."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli.arguments import environment_of, read_settings, read_settings_with_warnings, sessions_of
from ebbtide.tui.cli.piped_input import has_piped_input, piped_input, take_terminal
from ebbtide.tui.plain.capability import is_unable
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.terminal.signals import shut_down_on_signals

if TYPE_CHECKING:  # types only: a front end loads what it needs, when it needs it
    from ebbtide.agent.config.settings import Settings
    from ebbtide.agent.config.values import Config
    from ebbtide.agent.sessions import Sessions

_SWITCH_INTERVAL_S = 0.001
"""Seconds that a key waits for a computing thread. Python's default is five times as long, and may apply several
times."""


def run(options: argparse.Namespace) -> int:
    """Run an interactive session; return the exit code. Raises `AgentError` if none can be opened."""
    is_served = os.environ.get("TEXTUAL_DRIVER", "").endswith(":ServedDriver")
    is_there = is_served or (sys.stdin.isatty() and sys.stdout.isatty())
    piped = ""
    if not is_there and options.plain and not sys.stdin.isatty():
        piped = piped_input() if has_piped_input() else ""
        is_there = take_terminal()
    if not is_there and not (options.plain and (piped.strip() or options.words)):
        raise UsageError("there is no terminal to draw in; write `ebb -p PROMPT` to get an answer without one")
    # Whoever started us may ignore it (`nohup`), and a program without its terminal would read its end for ever.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    root, config = read_settings_with_warnings(options)
    drafts = Drafts(None if options.ephemeral else config.folders.drafts)
    if not is_served and (options.plain or is_unable(os.environ)):
        left, code = asyncio.run(_lines(options, root, config, drafts, piped, is_there=is_there))
    else:
        left, code = asyncio.run(_screen(options, root, config, drafts))
    is_gone = code == 128 + signal.SIGHUP
    if left and not options.ephemeral and not is_served and not is_gone:
        where = f"-w {options.worktree} " if options.worktree is not None else ""
        print(f"Go on with this session: ebb {where}-r {left}")
        if drafts.has_draft(left):
            print("What you had not sent will be in its prompt.")
    return code


async def _screen(options: argparse.Namespace, root: Path, config: "Config", drafts: Drafts) -> tuple[str | None, int]:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    from ebbtide.tui.app import EbbApp  # noqa: PLC0415  # deferred: lines need no Textual
    from ebbtide.tui.startup import LazySessions  # noqa: PLC0415  # deferred: as above

    sessions = LazySessions(lambda: _sessions(options, root, config))

    app = EbbApp(
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
        settings=lambda: _settings(options, config, lambda: sessions.made),
    )

    def leave() -> None:
        if app.is_running and app.jobs.is_loaded:
            app.run_worker(app.jobs.leave(), group="aside")
        else:  # nothing is to be closed, and it would take long to load what does that
            app.exit()

    with shut_down_on_signals(leave, app.outside.abandon) as ending:
        try:
            left = await app.run_async()
            if left and sessions.made is not None and not await (await sessions.made.library()).holds(left):
                left = None  # it was a fork in which nothing was said
        finally:
            if sessions.made is not None:
                await sessions.made.close()
    if app.jobs.refused is not None:
        raise app.jobs.refused
    if app.fault is not None:
        from ebbtide.agent.crash import crash_error, secrets_of  # noqa: PLC0415  # deferred: this is not to happen

        raise crash_error(app.fault, config.folders.logs, tuple(secrets_of(config, os.environ)))
    return left, ending.code or app.return_code or 0


async def _lines(
    options: argparse.Namespace, root: Path, config: "Config", drafts: Drafts, piped: str, *, is_there: bool
) -> tuple[str | None, int]:
    """Run line mode. `piped`: piped input; `is_there`: a user can type."""
    from ebbtide.tui.plain.app import PlainFront  # noqa: PLC0415  # deferred: few runs are in lines
    from ebbtide.tui.plain.start import run_plain  # noqa: PLC0415  # deferred: see above
    from ebbtide.tui.prompt.history import History  # noqa: PLC0415  # deferred: see below

    sessions = _sessions(options, root, config, is_there=is_there)
    try:
        # A word after `-r` that is no session's id belongs to the prompt that follows it.
        is_word = bool(options.pick and options.words) and not await sessions.knows(options.pick)
        choose = is_word or options.pick == ""
        resume = options.resume if options.pick is None else options.pick
        history = History(config.folders.data / "history", str(config.project or ""))
        front = PlainFront(
            sessions,
            history,
            # Opened before anything is said: what cannot be opened is one sentence and an exit code.
            session=None if choose else await sessions.open(resume),
            choose=choose,
            first_message=" ".join([options.pick, *options.words] if is_word else options.words),
            piped=piped,
            drafts=drafts,
            settings=_settings(options, config, lambda: sessions),
        )
        return await run_plain(front, history, os.environ, is_there=is_there)
    finally:
        await sessions.close()


def _sessions(options: argparse.Namespace, root: Path, config: "Config", *, is_there: bool = True) -> "Sessions":
    """The sessions of a folder. From here on only the front end prints."""
    from ebbtide.agent.crash import log_stray_errors  # noqa: PLC0415  # deferred: behind the first paint

    log_stray_errors(config.folders.logs)
    return sessions_of(root, config, options, interactive=is_there)


def _settings(options: argparse.Namespace, config: "Config", made: "Callable[[], object]") -> "Settings":
    """The settings of this run. `made`: the sessions that then use them, if there are any yet."""
    from ebbtide.agent.config.settings import Settings  # noqa: PLC0415  # deferred: as above
    from ebbtide.agent.sessions import Sessions  # noqa: PLC0415  # deferred: behind the first paint

    def use(changed: "Config") -> None:
        sessions = made()
        if isinstance(sessions, Sessions):
            sessions.use(changed, settings.environment)

    settings = Settings(config, lambda: read_settings(options)[1], use, environment_of(config))
    return settings
