"""The command that runs one of this program's modules in a separate interpreter, which can be killed at any time."""

import json
import sys
from pathlib import Path

_PACKAGE_PARENT = str(Path(__file__).parents[__name__.count(".")])
_START_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); name = sys.argv[2]; __import__(name); "
    "sys.exit(sys.modules[name].main(*sys.argv[3:]))"
)


def search_path() -> list[str]:
    """Return this process's module search path, without the folder in which the process was started, because its
    content may come from one of the user's projects."""
    folders = [path for path in sys.path if path]
    return folders if _PACKAGE_PARENT in folders else [_PACKAGE_PARENT, *folders]


def own_module_command(module: str, *arguments: str, prelude: str = "") -> list[str]:
    """Return the command that calls a module's `main` with these arguments. `module`: the full name, derived from the
    caller's `__name__` or `__package__`, because an installation and a checkout have different names. `prelude`: a
    statement to run before any import."""
    code = f"{prelude}\n{_START_CODE}" if prelude else _START_CODE
    return [sys.executable, "-I", "-S", "-c", code, json.dumps(search_path()), module, *arguments]
