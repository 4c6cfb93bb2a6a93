"""The command that starts this program again."""

import sys
from collections.abc import Sequence

from ebbtide.tools.process.own_module import search_path

_START = "import sys; sys.path[:] = {!r}; from {}.cli.main import main; sys.exit(main())"
_FRONT_ENDS = __name__.removesuffix(".terminal.own_command")


def own_command(arguments: Sequence[str]) -> list[str]:
    """The command with the same interpreter and code."""
    return [sys.executable, "-c", _START.format(search_path(), _FRONT_ENDS), *arguments]
