"""Starts `ebb`, as the command of that name and as `python -m ebbtide`."""

import _signal  # type: ignore[import-not-found]  # nobody has types for it; `signal` would take 3 ms to load
import sys

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Until a front end has something to put in order, Ctrl-C ends the program without a word: Python's own handler
    # would show what was being imported.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> int:
    """Runs the command line and returns its exit code."""
    from ebbtide.tui.cli.main import main as run  # noqa: PLC0415  # deferred: behind the lines above

    return run()


if __name__ == "__main__":
    sys.exit(main())
