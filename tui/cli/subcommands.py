"""The subcommands: who knows what each takes and prints."""

import sys
from collections.abc import Callable, Sequence

from tui.cli.arguments import parser_of


def run(name: str, arguments: Sequence[str]) -> int:
    """Runs a subcommand with the arguments around its name; the exit code."""
    return _COMMANDS[name](arguments)


def _sessions(arguments: Sequence[str]) -> int:
    from tui.cli import stored_sessions  # noqa: PLC0415  # deferred: only this command needs it

    return stored_sessions.run(arguments)


def _context(arguments: Sequence[str]) -> int:
    from tui.cli import context  # noqa: PLC0415  # deferred: only this command needs it

    return context.run(arguments)


def _usage(arguments: Sequence[str]) -> int:
    from tui.cli import usage  # noqa: PLC0415  # deferred: only this command needs it

    return usage.run(arguments)


def _config(arguments: Sequence[str]) -> int:
    from tui.cli import config  # noqa: PLC0415  # deferred: only this command needs it

    return config.run(arguments)


def _mcp(arguments: Sequence[str]) -> int:
    from tui.cli import mcp  # noqa: PLC0415  # deferred: only this command needs it

    return mcp.run(arguments)


def _hooks(arguments: Sequence[str]) -> int:
    from tui.cli import hooks  # noqa: PLC0415  # deferred: only this command needs it

    return hooks.run(arguments)


def _permissions(arguments: Sequence[str]) -> int:
    from tui.cli import permissions  # noqa: PLC0415  # deferred: only this command needs it

    return permissions.run(arguments)


def _demo(arguments: Sequence[str]) -> int:
    parser = parser_of(
        "demo",
        "A scripted model repairs a real bug with the real tools: in the terminal, or printed where there is none. No "
        "key and no network are needed.",
    )
    parser.add_argument("--print", action="store_true", help="print it, also in a terminal")
    parser.add_argument("--keep", metavar="DIR", help="leave the repaired project in this new folder")
    options = parser.parse_args(arguments)
    from tui.session.demo import print_demo, show_demo  # noqa: PLC0415  # deferred: only this command needs it

    is_seen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    return (show_demo if is_seen and not options.print else print_demo)(options.keep)


def _import(arguments: Sequence[str]) -> int:
    from tui.cli import imports  # noqa: PLC0415  # deferred: it reads what other programs have, once

    return imports.run(arguments)


def _review(arguments: Sequence[str]) -> int:
    from tui.cli import review  # noqa: PLC0415  # deferred: only this command needs it

    return review.run(arguments)


def _batch(arguments: Sequence[str]) -> int:
    from tui.cli import batch  # noqa: PLC0415  # deferred: only this command needs it

    return batch.run(arguments)


def _claude_code(arguments: Sequence[str]) -> int:
    from tui.cli import claude_code  # noqa: PLC0415  # deferred: only this command needs it

    return claude_code.run(arguments)


def _trust(arguments: Sequence[str]) -> int:
    from tui.cli import trust  # noqa: PLC0415  # deferred: it looks for all that a project may bring

    return trust.run(arguments)


def _doctor(arguments: Sequence[str]) -> int:
    from tui.cli import doctor  # noqa: PLC0415  # deferred: only this command needs it

    return doctor.doctor(arguments)


def _key(arguments: Sequence[str]) -> int:
    from tui.cli import keys  # noqa: PLC0415  # deferred: only this command needs it

    return keys.run(arguments)


def _plugin(arguments: Sequence[str]) -> int:
    from tui.cli import plugin  # noqa: PLC0415  # deferred: only this command needs it

    return plugin.run(arguments)


def _undo(arguments: Sequence[str]) -> int:
    from tui.cli import undo  # noqa: PLC0415  # deferred: only this command needs it

    return undo.undo(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "sessions": _sessions,
    "context": _context,
    "usage": _usage,
    "config": _config,
    "import": _import,
    "batch": _batch,
    "review": _review,
    "claude-code": _claude_code,
    "mcp": _mcp,
    "doctor": _doctor,
    "key": _key,
    "plugin": _plugin,
    "hooks": _hooks,
    "trust": _trust,
    "undo": _undo,
    "demo": _demo,
    "permissions": _permissions,
}
