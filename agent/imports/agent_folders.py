"""Where other coding agents keep their files, and those files read: bounded, and never waited for."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.byte_order import in_utf8
from ebbtide.tools.lazy import dataclass, regex

AgentName: TypeAlias = Literal["claude", "codex", "opencode", "gemini", "aider"]
AGENTS: Mapping[AgentName, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "opencode",
    "gemini": "Gemini",
    "aider": "aider",
}
"""The agents by the word for each on the command line, and what people call them."""

MAX_SETTINGS_BYTES = 1 << 26
"""Bytes of a file with settings: Claude Code keeps a history in its own."""

_STRING = r'("(?:[^"\\]++|\\.)*+")'
_COMMENT = regex(rf"{_STRING}|//[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = regex(rf"{_STRING}|,(?=\s*+[}}\]])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The folders of each agent, whether they are there or not."""

    home: Path
    settings: Path
    """Where programs of this machine keep settings."""
    claude: Path
    claude_state: Path
    """Claude Code's file with what it keeps of each project."""
    codex: Path
    opencode: Path
    opencode_data: Path
    gemini: Path


def agent_folders(environment: Mapping[str, str]) -> AgentFolders:
    """The folders that an environment says."""
    home = Path(environment.get("HOME") or Path.home())
    settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    moved = environment.get("CLAUDE_CONFIG_DIR")
    claude = Path(moved).expanduser() if moved else home / ".claude"
    return AgentFolders(
        home=home,
        settings=settings,
        claude=claude,
        claude_state=claude / ".claude.json" if moved else home / ".claude.json",
        codex=Path(environment.get("CODEX_HOME") or home / ".codex").expanduser(),
        opencode=settings / "opencode",
        opencode_data=data / "opencode",
        gemini=home / ".gemini",
    )


def settings_in(path: Path) -> dict[str, object]:
    """What a file of settings says: TOML, YAML or JSON, in which comments and last commas are allowed; nothing when it
    is not there. Raises `ConfigError` with what is wrong with it."""
    try:
        data = beginning_of(path, MAX_SETTINGS_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_SETTINGS_BYTES:
        raise ConfigError(f"`{path}` is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    try:
        text = in_utf8(data).decode()
        content = _parse_settings(text, path.suffix) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"`{path}` cannot be read: {_first_line(error)}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"`{path}` does not hold settings")
    return content


def _parse_settings(text: str, suffix: str) -> object:
    if suffix == ".toml":
        import tomllib  # noqa: PLC0415  # deferred: one of several formats

        return tomllib.loads(text)
    return json.loads(without_comments(text))


def without_comments(text: str) -> str:
    """JSON out of JSON with comments and last commas."""
    bare = _COMMENT.sub(lambda match: match[1] or " ", text)
    return _LAST_COMMA.sub(lambda match: match[1] or "", bare)


def table_in(content: Mapping[str, object], *keys: str) -> dict[str, object]:
    """The table that stands under some keys, or an empty one."""
    found: object = content
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
