"""The command that runs one of our own modules in a separate interpreter, which can be killed at any time."""

import json
import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[__name__.count(".")])
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); name = sys.argv[2]; __import__(name); "
    "sys.exit(sys.modules[name].main(*sys.argv[3:]))"
)


def search_path() -> list[str]:
    """Return this process's module search path, without the folder it was started in, which is the user's."""
    places = [place for place in sys.path if place]
    return places if _ROOT in places else [_ROOT, *places]


def own_module(module: str, *arguments: str, first: str = "") -> list[str]:
    """Return the command that calls `main` of a module with these arguments. `module`: its full name, derived from the
    caller's `__name__` or `__package__`, since it differs between an installation and a checkout. `first`: a statement
    to run before any import."""
    start = f"{first}\n{_START}" if first else _START
    return [sys.executable, "-I", "-S", "-c", start, json.dumps(search_path()), module, *arguments]
