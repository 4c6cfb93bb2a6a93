"""The command that starts another instance of this program."""

import sys
from collections.abc import Sequence

from ebbtide.tools.process.own_module import search_path

_START_SCRIPT = "import sys; sys.path[:] = {!r}; from {}.cli.main import main; sys.exit(main())"
_TUI_PACKAGE = __name__.removesuffix(".terminal.own_command")


def own_command(arguments: Sequence[str]) -> list[str]:
    """Build the command line for another instance, with the same interpreter and code."""
    return [sys.executable, "-c", _START_SCRIPT.format(search_path(), _TUI_PACKAGE), *arguments]
