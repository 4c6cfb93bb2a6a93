"""Installed as `ebbtide/__init__.py`: the one name this project puts in site-packages.

The wheel keeps agent, tui, tools and store in `ebbtide/_app`, so that no other distribution and no PYTHONPATH can stand
in for them. In a checkout there is no `_app`, and they are found at the repository root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_app"))


def main() -> int:
    """Runs the command line and returns its exit code."""
    from tui.cli import main as run  # noqa: PLC0415  # deferred: the path above must come first

    return run()
