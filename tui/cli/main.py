"""The entry point of `ebb`: picks a front end and returns an exit code."""

import argparse
import errno
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence

from ebbtide.agent.errors import AgentError, UsageError, is_unwritable
from ebbtide.tui.cli.arguments import SUBCOMMANDS, first_word, make_parser, with_resume

_MIN_SIMILARITY = 0.7
"""Minimum similarity of a word to a subcommand to count as misspelt: `ebb sesions`, but not `ebb search`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ebb` with these arguments; return the exit code. Errors are printed as one sentence on stderr."""
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            # All is said and put in order: what Python does at its end would only tear a traceback into it,
            # and it need not look through all that was loaded for what nobody refers to.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            gc.freeze()
    except KeyboardInterrupt:
        return 130


def _run(arguments: list[str]) -> int:
    # What is made while modules load stays. To look through all of it again and again costs a tenth of the start.
    gc.set_threshold(100_000, 50, 100)
    _prepare_streams()
    try:
        try:
            return _dispatch(arguments)
        finally:
            sys.stdout.flush()  # here a reader that has gone is still noticed
    except AgentError as error:
        if "--debug" in arguments:
            _print_traceback(error)
        _print_error(str(error))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not complain about it when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001  # the outermost place: what nobody expected is told here
        if not is_unwritable(error):
            return _crash(error, arguments)
        why = "standard output is closed" if error.errno == errno.EBADF else error.strerror
        print(f"ebb: the answer could not be written: {why}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _raise_on_interrupt() -> None:
    """From now on raise `KeyboardInterrupt` on Ctrl-C, for cleanup. Before this the process simply ends."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _unraisable


def _unraisable(fault: "sys.UnraisableHookArgs", /) -> None:
    """Exit where Python would print an interrupt and continue, e.g. in a finaliser."""
    if isinstance(fault.exc_value, KeyboardInterrupt):
        os._exit(130)
    sys.__unraisablehook__(fault)


def _crash(error: Exception, arguments: Sequence[str]) -> int:
    """Report a bug in the program without its internals; return the exit code."""
    from ebbtide.agent.config.load import find_folders  # noqa: PLC0415  # deferred: this is not to happen
    from ebbtide.agent.crash import crash_error  # noqa: PLC0415  # deferred: as above

    if "--debug" in arguments:
        _print_traceback(error)
    fault = crash_error(error, find_folders(os.environ).logs)
    _print_error(str(fault))
    return fault.exit_code


def _print_error(sentence: str) -> None:
    from ebbtide.agent.headless.log_commands import log_safe  # noqa: PLC0415  # deferred: `--help` imports next to nothing
    from ebbtide.tui.text.sanitise import sanitised  # noqa: PLC0415  # deferred: as above

    print(log_safe(f"ebb: {sanitised(sentence)}", os.environ), file=sys.stderr)


def _print_traceback(error: BaseException) -> None:
    from ebbtide.tools.secrets.redaction import redact_text  # noqa: PLC0415  # deferred: few want to see it

    print(redact_text("".join(traceback.format_exception(error)), os.environ), file=sys.stderr)


def _prepare_streams() -> None:
    """Keep closed streams and characters that the locale cannot encode from ending the run."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None and name == "stdout":
            # What is written there is lost, and who asked for it is to know: writing to what can only be read fails.
            nowhere = os.open(os.devnull, os.O_RDONLY)
            sys.stdout = open(nowhere, mode, encoding="utf-8")  # noqa: SIM115  # to the end of the process
        elif stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as above
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    first = first_word(arguments)
    if first is not None and arguments[first] in SUBCOMMANDS:
        return _subcommand(arguments[first], arguments[:first], arguments[first + 1 :])
    options = make_parser().parse_args(with_resume(arguments))
    is_headless = options.prompt is not None or options.input_format != "text"
    if options.worktree is not None:
        from ebbtide.tui.cli import worktree  # noqa: PLC0415  # deferred: few runs are in one

        return worktree.run_in_worktree(options, _headless if is_headless else _terminal)
    if is_headless:
        return _headless(options)
    is_new = options.resume is None and options.pick is None
    if is_new and first is not None and options.words == [arguments[first]]:
        _refuse_misspelt(arguments[first])
    return _terminal(options)


def _refuse_misspelt(word: str) -> None:
    """Raises `UsageError` if a one-word message looks like a misspelt subcommand, which would cost money to send."""
    from ebbtide.tui.commands import closest  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    near = closest(word.lower(), [*SUBCOMMANDS], _MIN_SIMILARITY)
    if near and word.split() == [word]:
        meant = " or ".join(f"`ebb {name}`" for name in near)
        raise UsageError(f"there is no command `{word}`; did you mean {meant}? `ebb -- {word}` sends it as a message")


def _headless(options: argparse.Namespace) -> int:
    from ebbtide.tui.cli import headless  # noqa: PLC0415  # deferred: only this front end needs it

    return headless.run(options)


def _terminal(options: argparse.Namespace) -> int:
    from ebbtide.tui.cli import start  # noqa: PLC0415  # deferred: only this front end needs it

    _raise_on_interrupt()
    return start.run(options)


def _subcommand(name: str, before: Sequence[str], after: Sequence[str]) -> int:
    if name == "serve":
        from ebbtide.tui.cli import serve  # noqa: PLC0415  # deferred: only this command needs it

        return serve.run([*before, *after])
    if name == "acp":
        from ebbtide.tui.cli import acp  # noqa: PLC0415  # deferred: as above

        return acp.run([*before, *after])
    if name == "completion":
        from ebbtide.tui.cli import command_tree, completion  # noqa: PLC0415  # deferred: as above

        return completion.run([*before, *after], command_tree.command_parser)
    from ebbtide.tui.cli import subcommands  # noqa: PLC0415  # deferred: only these commands need it

    _raise_on_interrupt()
    return subcommands.run(name, [*before, *after])


if __name__ == "__main__":
    sys.exit(main())
