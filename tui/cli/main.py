"""The entry point of `ebb`: chooses a front end and returns an exit code."""

import argparse
import errno
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence

from ebbtide import tui
from ebbtide.agent import config, headless
from ebbtide.agent.errors import AgentError, UsageError, is_unwritable
from ebbtide.tools import secrets
from ebbtide.tui import cli, integration_registry, text
from ebbtide.tui.cli.arguments import SUBCOMMANDS, first_positional_index, join_resume_id, make_parser

_MIN_SIMILARITY = 0.7
"""How similar a word must be to a subcommand to count as a typo: `ebb sesions` is similar enough, `ebb search` is
not."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ebb` with these arguments; return the exit code. Errors are printed on stderr as one sentence."""
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            # All output has been written and cleanup is done. From here on, Ctrl-C ends the process without a
            # traceback, and the interpreter's final garbage collection has nothing to scan.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            gc.freeze()
    except KeyboardInterrupt:
        return 130


def _run(arguments: list[str]) -> int:
    # Objects created while modules load stay alive. Scanning them again and again takes a tenth of the startup time.
    gc.set_threshold(100_000, 50, 100)
    _prepare_streams()
    try:
        try:
            return _dispatch(arguments)
        finally:
            sys.stdout.flush()  # a closed pipe is still detected here
    except AgentError as error:
        if "--debug" in arguments:
            _print_traceback(error)
        _print_error(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The output has no reader any more, so stop the interpreter from reporting an error when it flushes the output
        # at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001  # unexpected errors are reported here
        if not is_unwritable(error):
            return _report_crash(error, arguments)
        problem = "standard output is closed" if error.errno == errno.EBADF else error.strerror
        print(f"ebb: cannot write the output: {problem}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _raise_on_interrupt() -> None:
    """From now on, raise `KeyboardInterrupt` on Ctrl-C so that cleanup runs. Until now, Ctrl-C simply ended the
    process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _exit_on_ignored_interrupt


def _exit_on_ignored_interrupt(unraisable: "sys.UnraisableHookArgs", /) -> None:
    """Exit on an interrupt that Python would otherwise print and ignore, such as one in a finaliser."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        os._exit(130)
    sys.__unraisablehook__(unraisable)


def _report_crash(error: Exception, arguments: Sequence[str]) -> int:
    """Report a bug in this program without showing its internals; return the exit code."""
    from ebbtide.agent.logs.crash_reports import crash_error  # noqa: PLC0415  # deferred: needed only after a crash

    if "--debug" in arguments:
        _print_traceback(error)
    crash = crash_error(error, config.load.find_folders(os.environ).logs)
    _print_error(str(crash))
    return crash.exit_code


def _print_error(message: str) -> None:
    print(headless.printing.escape_for_log(f"ebb: {text.sanitise.sanitise(message)}", os.environ), file=sys.stderr)


def _print_traceback(error: BaseException) -> None:
    print(secrets.redaction.redact_text("".join(traceback.format_exception(error)), os.environ), file=sys.stderr)


def _prepare_streams() -> None:
    """Keep closed streams, and characters that the locale cannot encode, from aborting the run."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None and name == "stdout":
            # Output to a closed stdout must not be lost silently, so use a read-only descriptor: writing to it fails.
            read_only_descriptor = os.open(os.devnull, os.O_RDONLY)
            sys.stdout = open(read_only_descriptor, mode, encoding="utf-8")  # noqa: SIM115  # open until the process ends
        elif stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as above
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    word_index = first_positional_index(arguments)
    if word_index is not None and arguments[word_index] in SUBCOMMANDS:
        return _run_subcommand(arguments[word_index], arguments[:word_index], arguments[word_index + 1 :])
    options = make_parser().parse_args(join_resume_id(arguments))
    is_headless = options.prompt is not None or options.input_format != "text"
    if options.worktree is not None:
        return cli.worktree.run_in_worktree(options, _run_headless if is_headless else _run_interactive)
    if is_headless:
        return _run_headless(options)
    is_new = options.resume is None and options.pick is None
    if is_new and word_index is not None and options.words == [arguments[word_index]]:
        _refuse_misspelt(arguments[word_index])
    return _run_interactive(options)


def _refuse_misspelt(word: str) -> None:
    """Raise `UsageError` if a one-word message looks like a misspelt subcommand. Sending it would cost money."""
    suggestions = tui.slash_commands.closest_names(word.lower(), [*SUBCOMMANDS], _MIN_SIMILARITY)
    if suggestions and word.split() == [word]:
        suggestions_text = " or ".join(f"`ebb {name}`" for name in suggestions)
        raise UsageError(
            f"unknown command `{word}`; did you mean {suggestions_text}? To send it as a message, use `ebb -- {word}`"
        )


def _run_headless(options: argparse.Namespace) -> int:
    return cli.headless.run(options)


def _run_interactive(options: argparse.Namespace) -> int:
    run = cli.start.run  # imported first, because until then Ctrl-C simply ends the process
    _raise_on_interrupt()
    return run(options)


def _run_subcommand(name: str, preceding_arguments: Sequence[str], following_arguments: Sequence[str]) -> int:
    if name == "completion":
        return cli.completion.run([*preceding_arguments, *following_arguments], cli.command_tree.command_parser)
    run, row = (
        cli.subcommands.run,
        integration_registry.SUBCOMMANDS.get(name),
    )  # imported before Ctrl-C raises an exception
    if row is None or not row.handles_signals:
        _raise_on_interrupt()
    return run(name, [*preceding_arguments, *following_arguments])


if __name__ == "__main__":
    sys.exit(main())
