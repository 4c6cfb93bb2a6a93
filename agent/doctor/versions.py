"""The versions that matter where something does not work: of the program, what it runs on and what it is made with."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ebbtide.store.migrations import MIGRATIONS, SQLITE
from ebbtide.tools.version import VERSION

_LIBRARIES = ("textual", "httpx2", "mcp", "anthropic", "openai", "ollama", "tiktoken")


def versions() -> dict[str, str]:
    """By name, the program first; `store` is that of the database that sessions are kept in."""
    return {
        "ebb": VERSION,
        "store": str(len(MIGRATIONS)),
        "Python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "SQLite": SQLITE,
        **{name: _version_of(name) for name in _LIBRARIES},
    }


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
