"""Entry point of `ebb` and of `python -m ebbtide`."""

import _signal  # type: ignore[import-not-found]  # no type stubs; `signal` would take 3 ms to load
import sys

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Until a front end installs its own handler, Ctrl-C ends the program silently. Python's default handler would print
    # a traceback from the middle of the imports.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> int:
    """Run the command line; return the exit code."""
    from ebbtide.tui.cli.main import main as run  # noqa: PLC0415  # deferred: after the signal setup above

    return run()


if __name__ == "__main__":
    sys.exit(main())
