"""Installed as `ebbtide/__init__.py`: the one name this project puts in site-packages.

The wheel keeps agent, tui, tools and store in `ebbtide/_app`, so that no other distribution and no PYTHONPATH can stand
in for them. In a checkout there is no `_app`, and they are found at the repository root."""

import _signal  # type: ignore[import-not-found]  # nobody has types for it; `signal` would take 3 ms to load
import sys

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Until a front end has something to put in order, Ctrl-C ends the program without a word: Python's own handler
    # would show what was being imported.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from pathlib import Path  # what takes time comes behind the lines above

sys.path.insert(0, str(Path(__file__).parent / "_app"))


def main() -> int:
    """Runs the command line and returns its exit code."""
    from tui.cli.main import main as run  # noqa: PLC0415  # deferred: the path above must come first

    return run()
