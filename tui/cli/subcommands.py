"""The functions of all subcommands."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias, cast

from ebbtide.tui.cli.arguments import parser_of

Subcommand: TypeAlias = Callable[[Sequence[str]], int]
"""Takes the arguments before and after its name and returns the exit code."""

_PLACES: Mapping[str, str] = {
    "sessions": "stored_sessions:run",
    "context": "context:run",
    "usage": "usage:run",
    "config": "config:run",
    "import": "imports:run",
    "batch": "batch:run",
    "review": "review:run",
    "claude-code": "claude_code:run",
    "mcp": "mcp:run",
    "doctor": "doctor:run",
    "key": "keys:run",
    "plugin": "plugin:run",
    "hooks": "hooks:run",
    "trust": "trust:run",
    "undo": "undo:run",
    "demo": "subcommands:demo",
    "permissions": "permissions:run",
}


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a subcommand with the arguments around its name; return the exit code."""
    return subcommand_at(_PLACES[name])(arguments)


def subcommand_at(place: str) -> Subcommand:
    """Import and return the function at `MODULE:NAME` of this package."""
    module, _, name = place.partition(":")
    return cast(Subcommand, getattr(import_module(f"{__package__}.{module}"), name))


def demo(arguments: Sequence[str]) -> int:
    """Run `ebb demo`; return the exit code."""
    parser = parser_of(
        "demo",
        "A scripted model repairs a real bug with the real tools: in the terminal, or printed where there is none. No "
        "key and no network are needed.",
    )
    parser.add_argument("--print", action="store_true", help="print it, also in a terminal")
    parser.add_argument("--keep", metavar="DIR", help="leave the repaired project in this new folder")
    options = parser.parse_args(arguments)
    from ebbtide.tui.session.demo import print_demo, show_demo  # noqa: PLC0415  # deferred: `--help` needs none of it

    is_seen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    return (show_demo if is_seen and not options.print else print_demo)(options.keep)
