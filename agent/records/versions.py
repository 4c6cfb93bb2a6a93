"""Versions relevant for bug reports: of the program, its platform and its libraries."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ebbtide.store.migrations import MIGRATIONS, SQLITE_VERSION
from ebbtide.version import VERSION

_LIBRARIES = ("textual", "httpx2", "mcp", "anthropic", "openai", "ollama", "tiktoken")


def collect_versions() -> dict[str, str]:
    """Return versions by name, the program first; `store` is the schema version of the session database."""
    return {
        "ebb": VERSION,
        "store": str(len(MIGRATIONS)),
        "Python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "SQLite": SQLITE_VERSION,
        **{name: _version_of(name) for name in _LIBRARIES},
    }


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
