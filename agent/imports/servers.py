"""Imports MCP servers configured in other programs: finds them, translates them to our keys, checks them, and writes
them to our configuration. Starts none."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ebbtide.agent.config.aliases import snake_case
from ebbtide.agent.config.table_keys import SERVER_KEYS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError, UsageError
from ebbtide.agent.imports.agent_folders import AgentFolders, settings_in, table_in
from ebbtide.agent.mcp.declarations import problem_of, read_entries
from ebbtide.agent.mcp.manage import write_server
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.read_write import write_bytes
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tools.secrets.key_formats import SECRET_NAME, secrets_in
from ebbtide.tools.secrets.redaction import redact_text, without_options, without_password

Table: TypeAlias = dict[str, object]

_NAMES = {
    "environment": "env",
    "http_headers": "headers",
    "transport": "type",
    "http_url": "url",
    "server_url": "url",
    "include_tools": "enabled_tools",
    "exclude_tools": "disabled_tools",
    "startup_timeout_sec": "startup_timeout",
    "tool_timeout_sec": "call_timeout",
    "working_directory": "cwd",
}
"""Our keys by the keys of other programs."""
_READ_APART = frozenset(
    {"disabled", "timeout", "env_vars", "env_http_headers", "bearer_token_env_var", "startup_timeout_ms", "oauth"}
)
_TYPES = {"local": "stdio", "remote": "http", "streamable-http": "http", "streamableHttp": "http"}
_ENVIRONMENT = regex(r"\$\{env:([A-Za-z_]\w*)\}|\{env:([A-Za-z_]\w*)\}")
_INPUT = regex(r"\$\{input:([^}]+)\}")
_BARE = regex(r"\$([A-Za-z_]\w*)")
_OTHER = regex(r"\$\{([^}]*[^}\w][^}]*)\}|\{(file:[^}]*)\}")
_VARIABLE = regex(r"\$\{([A-Za-z_]\w*)(?::-[^}]*)?\}")


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """A server of another program, in our format."""

    name: str
    agent: str
    """The program that it is from, as one word."""
    source: str
    """Its file, with the project if the file contains several."""
    table: Mapping[str, object]
    notes: tuple[str, ...] = ()
    """Notes for the user: variables to set, ignored keys."""
    problem: str = ""
    """Why it cannot be used; empty if it can."""

    @property
    def target(self) -> str:
        """Its command or address, with secrets removed."""
        words = (*_words(self.table.get("command")), *_words(self.table.get("args")))
        url = self.table.get("url")
        return redact_text(
            " ".join(without_options(words)) or without_password(url if isinstance(url, str) else ""), {}
        )

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the variables and headers that it sets."""
        return tuple(name for key in ("env", "headers") for name in _texts(self.table.get(key)))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the user's variables that it reads."""
        texts = [*_words(self.table.get("command")), *_words(self.table.get("args"))]
        texts += [*_texts(self.table.get("env")).values(), *_texts(self.table.get("headers")).values()]
        texts += [text for key in ("url", "cwd") if isinstance(text := self.table.get(key), str)]
        return tuple(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text)))

    @property
    def holds_secrets(self) -> bool:
        """Whether its table may contain keys or passwords."""
        values = {**_texts(self.table.get("env")), **_texts(self.table.get("headers"))}
        named = any(SECRET_NAME.search(name.replace("-", "_")) or name.lower() == "authorization" for name in values
                    if not _VARIABLE.search(values[name]))  # fmt: skip
        words = [*_words(self.table.get("command")), *_words(self.table.get("args")), str(self.table.get("url", ""))]
        return (
            named or without_options(words) != words or any(secrets_in(text, {}) for text in (*values.values(), *words))
        )


def server_offers(folders: AgentFolders, config: Config) -> tuple[list[ServerOffer], list[str]]:
    """Return the servers of other programs in the order of their files, including files of the current project, and an
    error for each unreadable file."""
    offers, problems = list[ServerOffer](), list[str]()
    for agent, path, tables in _sources(folders, config.project):
        try:
            content = settings_in(path)
        except ConfigError as error:
            problems.append(str(error))
            continue
        for place, servers in tables(content):
            source = f"{path} ({place})" if place else str(path)
            offers += [_offer(name, agent, source, entry, content, config) for name, entry in servers.items()]
    return offers, problems


Tables: TypeAlias = Callable[[Mapping[str, object]], Iterator[tuple[str, Table]]]


def _sources(folders: AgentFolders, project: Path) -> Iterator[tuple[str, Path, Tables]]:
    """Yield each program with its file and the tables in it that contain servers."""
    yield "vscode", project / ".vscode" / "mcp.json", _under("servers")
    yield "vscode", folders.settings / "Code" / "User" / "mcp.json", _under("servers")
    yield "cursor", project / ".cursor" / "mcp.json", _under("mcpServers")
    yield "cursor", folders.home / ".cursor" / "mcp.json", _under("mcpServers")
    yield "codex", project / ".codex" / "config.toml", _under("mcp_servers")
    yield "codex", folders.codex / "config.toml", _under("mcp_servers")
    yield "claude", folders.claude_state, lambda content: _of_claude(content, project)
    for place in (folders.settings / "Claude", folders.home / "Library" / "Application Support" / "Claude"):
        yield "claude-desktop", place / "claude_desktop_config.json", _under("mcpServers")
    for folder in (project, project / ".opencode", folders.opencode):
        for name in ("opencode.json", "opencode.jsonc"):
            yield "opencode", folder / name, _of_opencode
    yield "gemini", project / ".gemini" / "settings.json", _under("mcpServers")
    yield "gemini", folders.gemini / "settings.json", _under("mcpServers")


def _under(*keys: str) -> Tables:
    return lambda content: iter([("", table_in(content, *keys))])


def _of_claude(content: Mapping[str, object], project: Path) -> Iterator[tuple[str, Table]]:
    """The user's servers, and those that the user added for this project only."""
    yield "", table_in(content, "mcpServers")
    yield str(project), table_in(content, "projects", str(project), "mcpServers")


def _of_opencode(content: Mapping[str, object]) -> Iterator[tuple[str, Table]]:
    """Newer versions nest them one table deeper."""
    servers = table_in(content, "mcp")
    yield (
        "",
        table_in(servers, "servers")
        if "servers" in servers and "type" not in table_in(servers, "servers")
        else servers,
    )


class _Unfit(Exception):
    """Why an entry cannot be used."""


def _offer(
    name: str, agent: str, source: str, entry: object, content: Mapping[str, object], config: Config
) -> ServerOffer:
    notes = list[str]()
    table: Table = {}
    try:
        if not isinstance(entry, dict):
            raise _Unfit("it must be an object")
        if not name.strip() or not name.isprintable():
            raise _Unfit("its name must be one line of printable characters")
        table = _table_of(agent, entry, notes)
        table = {key: _put_in(value, agent, _inputs(content), config.project, notes) for key, value in table.items()}
        problem = problem_of(name, {key: SERVER_KEYS[key](value) for key, value in table.items()}, config)
    except _Unfit as error:
        problem = str(error)
    shown = "".join(sign if sign.isprintable() else "?" for sign in name)[:80]
    return ServerOffer(shown, agent, source, table, tuple(dict.fromkeys(notes)), problem)


def _table_of(agent: str, entry: Mapping[str, object], notes: list[str]) -> Table:
    """Convert an entry to our keys."""
    table, ignored = Table(), list[str]()
    for written, value in entry.items():
        key = snake_case(written)
        key = _NAMES.get(key, key)
        if key in _READ_APART or value is None:
            continue
        if key not in SERVER_KEYS:
            ignored.append(written)
            continue
        if key == "type":
            value = _TYPES.get(str(value), value)
        if key in ("env", "headers") and isinstance(value, dict):
            value = {name: one if isinstance(one, str) else json.dumps(one) for name, one in value.items()}
        table[key] = value
    _read_apart(agent, entry, table)
    for key, value in table.items():
        try:
            SERVER_KEYS[key](value)
        except ValueError as error:
            raise _Unfit(f"`{key}` must be {error}") from error
    if ignored:
        notes.append(f"not supported: {', '.join(f'`{one}`' for one in ignored)}")
    return table


def _read_apart(agent: str, entry: Mapping[str, object], table: Table) -> None:
    """Convert keys that other programs express differently."""
    command = table.get("command")
    if isinstance(command, list) and command:
        table["command"], table["args"] = command[0], [*command[1:], *_words(table.get("args"))]
    if agent == "gemini" and "url" in entry and "httpUrl" not in entry:
        table.setdefault("type", "sse")
    if entry.get("disabled") is True:
        table["enabled"] = False
    if isinstance(milliseconds := entry.get("timeout"), int | float) and milliseconds > 0:
        table.setdefault("startup_timeout" if agent == "opencode" else "call_timeout", milliseconds / 1000)
    if isinstance(milliseconds := entry.get("startup_timeout_ms"), int | float) and milliseconds > 0:
        table.setdefault("startup_timeout", milliseconds / 1000)
    oauth = entry.get("oauth")
    for key, ours in (("clientId", "client_id"), ("clientSecret", "client_secret")):
        if isinstance(oauth, dict) and isinstance(oauth.get(key), str):
            table.setdefault(ours, oauth[key])
    passed = {name: f"${{{name}}}" for name in _words(entry.get("env_vars"))}
    if passed:
        table["env"] = {**passed, **_texts(table.get("env"))}
    sent = {header: f"${{{name}}}" for header, name in _texts(entry.get("env_http_headers")).items()}
    if isinstance(token := entry.get("bearer_token_env_var"), str):
        sent["Authorization"] = f"Bearer ${{{token}}}"
    if sent:
        table["headers"] = {**_texts(table.get("headers")), **sent}


def _inputs(content: Mapping[str, object]) -> dict[str, str]:
    """Environment variables that replace another program's prompts for input, by input id."""
    asked = content.get("inputs")
    ids = [str(one["id"]) for one in asked if isinstance(one, dict) and "id" in one] if isinstance(asked, list) else []
    return {id: re.sub(r"\W", "_", id).upper() for id in ids}


def _put_in(value: object, agent: str, inputs: Mapping[str, str], project: Path, notes: list[str]) -> object:
    """Convert variable references in a value to our syntax."""
    if isinstance(value, dict):
        return {key: _put_in(one, agent, inputs, project, notes) for key, one in value.items()}
    if isinstance(value, list):
        return [_put_in(one, agent, inputs, project, notes) for one in value]
    if not isinstance(value, str):
        return value

    def asked(match: re.Match[str]) -> str:
        name = inputs.get(match[1], re.sub(r"\W", "_", match[1]).upper())
        notes.append(f"it prompts for `{match[1]}` there; set `{name}` in your environment instead")
        return f"${{{name}}}"

    text = _ENVIRONMENT.sub(lambda match: f"${{{match[1] or match[2]}}}", value)
    text = _INPUT.sub(asked, text)
    for name, path in (("workspaceFolder", project), ("workspaceRoot", project), ("userHome", Path.home())):
        text = text.replace(f"${{{name}}}", str(path))
    if agent == "gemini":
        text = _BARE.sub(r"${\1}", text)
    if (other := _OTHER.search(text)) is not None and ":-" not in (other[1] or ""):
        raise _Unfit(f"`{other[0]}` is not supported; use an environment variable, `${{NAME}}`")
    return text


def chosen_offers(offers: Sequence[ServerOffer], words: Sequence[str]) -> list[ServerOffer]:
    """Select offers by NAME, by AGENT:NAME if the name is ambiguous, or by number in the list. Raises `UsageError` if
    there is no match, or more than one."""
    found = list[ServerOffer]()
    for word in words:
        agent, colon, name = word.partition(":")
        meant = [one for one in offers if one.name == word or (colon and (one.agent, one.name) == (agent, name))]
        if not meant and word.isdecimal() and 0 < int(word) <= len(offers):
            meant = [offers[int(word) - 1]]
        if not meant:
            raise UsageError(f"no server `{word}` to import; run without a name to list all")
        if len({json.dumps(one.table, sort_keys=True, default=str) for one in meant}) > 1:
            several = ", ".join(dict.fromkeys(f"`{one.agent}:{one.name}`" for one in meant))
            raise UsageError(f"several servers are named `{word}`: use {several}, or the number in the list")
        found += [meant[0]] if meant[0] not in found else []
    return found


def why_not(offer: ServerOffer, taken: Mapping[str, str], *, into_project: bool) -> str:
    """Why an offer is not imported; empty if it can be. `taken` maps names as used in tool names to existing
    servers."""
    if offer.problem:
        return offer.problem
    if (other := taken.get(ServerSpec(offer.name).prefix)) is not None:
        return f"the server `{other}` exists" if other == offer.name else f"its name is too similar to `{other}`"
    if into_project and offer.holds_secrets:
        return "it may contain keys, and others read a project's file: replace them by `${NAME}` first"
    return ""


def write_offer(offer: ServerOffer, config: Config, *, into_project: bool) -> Path:
    """Write a server to the user's configuration or to the project's `.mcp.json`, and return the path. Raises
    `ConfigError`."""
    if not into_project:
        path = config.folders.config / "config.toml"
        write_server(path, offer.name, offer.table)
        return path
    path = config.servers_file
    content = settings_in(path)
    entries = read_entries(path) if content else {}
    content["mcpServers"] = {**entries, offer.name: offer.table}
    try:
        write_bytes(path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n", 0o644)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {error.strerror or error}") from error
    except ToolError as error:
        raise ConfigError(str(error)) from error
    return path


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, list | tuple) else []


def _texts(value: object) -> dict[str, str]:
    return {str(name): text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
