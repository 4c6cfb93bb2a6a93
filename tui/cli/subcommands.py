"""The table of subcommands and their functions."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias, cast

from ebbtide.tui import integration_registry, session
from ebbtide.tui.cli.arguments import create_subcommand_parser

Subcommand: TypeAlias = Callable[[Sequence[str]], int]
"""Runs a subcommand with the arguments before and after its name; returns the exit code."""

_FUNCTION_PATHS: Mapping[str, str] = {
    "sessions": "stored_sessions:run",
    "context": "context:run",
    "usage": "usage:run",
    "config": "config:run",
    "key": "keys:run",
    "plugin": "plugin:run",
    "hooks": "hooks:run",
    "trust": "trust:run",
    "undo": "undo:run",
    "demo": "subcommands:demo",
    "permissions": "permissions:run",
}


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a subcommand with the arguments before and after its name; return the exit code."""
    if name in integration_registry.SUBCOMMANDS:
        return integration_registry.SUBCOMMANDS[name].load()(arguments)
    return load_subcommand(_FUNCTION_PATHS[name])(arguments)


def load_subcommand(path: str) -> Subcommand:
    """Import the function at `MODULE:NAME` in this package."""
    module_name, _, name = path.partition(":")
    return cast(Subcommand, getattr(import_module(f"{__package__}.{module_name}"), name))


def demo(arguments: Sequence[str]) -> int:
    """Run `ebb demo`; return the exit code."""
    parser = create_subcommand_parser(
        "demo",
        "Watch a scripted model fix a real bug with the real tools, in the interface or as printed text. "
        "Needs no key and no network.",
    )
    parser.add_argument("--print", action="store_true", help="print it, even in a terminal")
    parser.add_argument("--keep", metavar="DIR", help="leave the fixed project in this new folder")
    options = parser.parse_args(arguments)
    is_interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    return (session.demo.show_demo if is_interactive and not options.print else session.demo.print_demo)(options.keep)
