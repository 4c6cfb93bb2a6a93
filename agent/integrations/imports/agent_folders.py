"""The folders of other coding agents, and a size-limited, non-blocking reader for their settings files."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.byte_order import to_utf8
from ebbtide.tools.lazy import dataclass, regex

AgentName: TypeAlias = Literal["claude", "codex", "opencode", "gemini", "aider"]
AGENT_LABELS: Mapping[AgentName, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "opencode",
    "gemini": "Gemini",
    "aider": "aider",
}
"""Display names of the supported agents, by their names on the command line."""

MAX_SETTINGS_BYTES = 1 << 26
"""Maximum size of a settings file, in bytes. It is large because Claude Code stores a history in its file."""

_STRING = r'("(?:[^"\\]++|\\.)*+")'
_COMMENT = regex(rf"{_STRING}|//[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = regex(rf"{_STRING}|,(?=\s*+[}}\]])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The folders of each agent, whether they exist or not."""

    home: Path
    xdg_config: Path
    """The XDG configuration folder."""
    claude: Path
    claude_state: Path
    """The file in which Claude Code stores its state for each project."""
    codex: Path
    opencode: Path
    opencode_data: Path
    gemini: Path


def find_agent_folders(environment: Mapping[str, str]) -> AgentFolders:
    """Find the agents' folders. Environment variables override the default locations."""
    home = Path(environment.get("HOME") or Path.home())
    config_home = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    data_home = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    custom_folder = environment.get("CLAUDE_CONFIG_DIR")
    claude = Path(custom_folder).expanduser() if custom_folder else home / ".claude"
    return AgentFolders(
        home=home,
        xdg_config=config_home,
        claude=claude,
        claude_state=claude / ".claude.json" if custom_folder else home / ".claude.json",
        codex=Path(environment.get("CODEX_HOME") or home / ".codex").expanduser(),
        opencode=config_home / "opencode",
        opencode_data=data_home / "opencode",
        gemini=home / ".gemini",
    )


def read_settings(path: Path) -> dict[str, object]:
    """Parse a settings file: TOML, or JSON with comments and trailing commas. Return an empty table if the file does
    not exist. Raises `ConfigError`."""
    try:
        data = read_prefix(path, MAX_SETTINGS_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_SETTINGS_BYTES:
        raise ConfigError(f"`{path}` is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    try:
        text = to_utf8(data).decode()
        content = _parse_settings(text, path.suffix) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"`{path}` cannot be read: {_first_line(error)}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"`{path}` does not contain settings")
    return content


def _parse_settings(text: str, suffix: str) -> object:
    if suffix == ".toml":
        import tomllib  # noqa: PLC0415  # deferred: one of several formats

        return tomllib.loads(text)
    return json.loads(without_comments(text))


def without_comments(text: str) -> str:
    """Return the JSON text without comments or trailing commas."""
    uncommented = _COMMENT.sub(lambda match: match[1] or " ", text)
    return _TRAILING_COMMA.sub(lambda match: match[1] or "", uncommented)


def nested_table(content: Mapping[str, object], *keys: str) -> dict[str, object]:
    """Return the table at a path of keys; empty if there is none."""
    table: object = content
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
