"""Imports MCP servers configured in other programs: finds them, converts them to this program's keys, checks them
without starting them, and writes them to its configuration."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ebbtide.agent.config.aliases import snake_case
from ebbtide.agent.config.table_keys import MCP_SERVER_KEYS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError, UsageError
from ebbtide.agent.integrations.imports.agent_folders import AgentFolders, nested_table, read_settings
from ebbtide.agent.integrations.mcp.declarations import declaration_problem, read_entries
from ebbtide.agent.integrations.mcp.manage import write_server
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.read_write import write_bytes
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.key_formats import SECRET_VARIABLE_NAME
from ebbtide.tools.secrets.redaction import (
    REDACTION_MARK,
    find_secrets,
    redact_options,
    redact_text,
    redact_url,
)

Table: TypeAlias = dict[str, object]

_KEY_ALIASES = {
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
"""This program's key names, by the names that other programs use."""
_SPECIAL_KEYS = frozenset(
    {"disabled", "timeout", "env_vars", "env_http_headers", "bearer_token_env_var", "startup_timeout_ms", "oauth"}
)
_TYPE_ALIASES = {"local": "stdio", "remote": "http", "streamable-http": "http", "streamableHttp": "http"}
_ENV_REFERENCE = regex(r"\$\{env:([A-Za-z_]\w*)\}|\{env:([A-Za-z_]\w*)\}")
_INPUT_REFERENCE = regex(r"\$\{input:([^}]+)\}")
_BARE_REFERENCE = regex(r"\$([A-Za-z_]\w*)")
_UNSUPPORTED_REFERENCE = regex(r"\$\{([^}]*[^}\w][^}]*)\}|\{(file:[^}]*)\}")
_VARIABLE = regex(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_PLAIN_USER_NAME = regex(r"://[^/\s:@]{,15}:?@")
"""A user name without a password in a URL. Longer names are not matched, because they may be tokens."""
_SCHEMES = ("bearer", "basic", "token")


@dataclass(frozen=True, slots=True)
class ImportableServer:
    """A server configured in another program, in this program's format."""

    name: str
    agent: str
    """The program in which it is configured, as one word."""
    source: str
    """The file that contains it, and the project if the file covers several projects."""
    table: Mapping[str, object]
    notes: tuple[str, ...] = ()
    """Notes for the user, for example about variables to set and ignored keys."""
    problem: str = ""
    """Why it cannot be used; empty if it can."""

    @property
    def target(self) -> str:
        """Its command or address, with secrets removed."""
        words = (*_string_list(self.table.get("command")), *_string_list(self.table.get("args")))
        url = self.table.get("url")
        return redact_text(" ".join(redact_options(words)) or redact_url(url if isinstance(url, str) else ""), {})

    @property
    def configured_names(self) -> tuple[str, ...]:
        """Names of the variables and headers that it sets."""
        return tuple(name for key in ("env", "headers") for name in _string_values(self.table.get(key)))

    @property
    def referenced_variables(self) -> tuple[str, ...]:
        """Names of the user's environment variables that it refers to."""
        texts = [*_string_list(self.table.get("command")), *_string_list(self.table.get("args"))]
        texts += [*_string_values(self.table.get("env")).values(), *_string_values(self.table.get("headers")).values()]
        texts += [text for key in ("url", "cwd") if isinstance(text := self.table.get(key), str)]
        return tuple(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text)))

    @property
    def may_contain_secrets(self) -> bool:
        """Whether its table may contain API keys or passwords."""
        words = [*_string_list(self.table.get("command")), *_string_list(self.table.get("args"))]
        tables = (self.table, self.table.get("env"), self.table.get("headers"))
        named_values = [pair for table in tables for pair in _string_values(table).items()]
        named_values += [(name, value) for name, _, value in (word.partition("=") for word in words)]
        options = [
            word.removeprefix(redacted.removesuffix(REDACTION_MARK))
            for word, redacted in zip(words, redact_options(words), strict=True)
            if word != redacted
        ]
        return (
            any(_is_secret_name(name) and _has_literal(value) for name, value in named_values)
            or any(map(_has_literal, options))
            or any(map(_has_secret, (*words, *(value for _, value in named_values))))
        )


def _is_secret_name(name: str) -> bool:
    """Whether the name of a variable, header, key or option suggests a secret."""
    if not re.fullmatch(r"[\w.-]+", name):
        return False
    return SECRET_VARIABLE_NAME.search(name.replace("-", "_")) is not None or "authorization" in name.lower()


def _without_variables(text: str) -> str:
    """Replace references to variables with their default values."""
    return _VARIABLE.sub(lambda match: match[2] or "", text)


def _has_literal(value: str) -> bool:
    """Whether a value contains a literal secret, rather than only variable references and an authentication scheme."""
    return any(word.lower() not in _SCHEMES for word in re.findall(r"[^\s:]+", _without_variables(value)))


def _has_secret(text: str) -> bool:
    text = _PLAIN_USER_NAME.sub("://", _without_variables(text))
    address = text.partition("?")[0]
    return bool(find_secrets(text, {})) or redact_url(address) != address


def find_importable_servers(folders: AgentFolders, config: Config) -> tuple[list[ImportableServer], list[str]]:
    """Find servers configured in other programs, including those in the current project's files. Also return an error
    for each unreadable file."""
    offers, problems = list[ImportableServer](), list[str]()
    for agent, path, get_tables in _sources(folders, config.project_folder):
        try:
            content = read_settings(path)
        except ConfigError as error:
            problems.append(str(error))
            continue
        for scope, server_table in get_tables(content):
            source = f"{path} ({scope})" if scope else str(path)
            offers += [
                _create_server(name, agent, source, entry, content, config) for name, entry in server_table.items()
            ]
    return offers, problems


ServerTablesReader: TypeAlias = Callable[[Mapping[str, object]], Iterator[tuple[str, Table]]]


def _sources(folders: AgentFolders, project: Path) -> Iterator[tuple[str, Path, ServerTablesReader]]:
    """Yield each file that may configure servers, with its program and a function that finds the server tables in its
    content."""
    yield "vscode", project / ".vscode" / "mcp.json", _tables_under("servers")
    yield "vscode", folders.xdg_config / "Code" / "User" / "mcp.json", _tables_under("servers")
    yield "cursor", project / ".cursor" / "mcp.json", _tables_under("mcpServers")
    yield "cursor", folders.home / ".cursor" / "mcp.json", _tables_under("mcpServers")
    yield "codex", project / ".codex" / "config.toml", _tables_under("mcp_servers")
    yield "codex", folders.codex / "config.toml", _tables_under("mcp_servers")
    yield "claude", folders.claude_state, lambda content: _claude_tables(content, project)
    for desktop_folder in (folders.xdg_config / "Claude", folders.home / "Library" / "Application Support" / "Claude"):
        yield "claude-desktop", desktop_folder / "claude_desktop_config.json", _tables_under("mcpServers")
    for folder in (project, project / ".opencode", folders.opencode):
        for name in ("opencode.json", "opencode.jsonc"):
            yield "opencode", folder / name, _opencode_tables
    yield "gemini", project / ".gemini" / "settings.json", _tables_under("mcpServers")
    yield "gemini", folders.gemini / "settings.json", _tables_under("mcpServers")


def _tables_under(*keys: str) -> ServerTablesReader:
    return lambda content: iter([("", nested_table(content, *keys))])


def _claude_tables(content: Mapping[str, object], project: Path) -> Iterator[tuple[str, Table]]:
    """Yield the user's servers, and those that the user added for this project only."""
    yield "", nested_table(content, "mcpServers")
    yield str(project), nested_table(content, "projects", str(project), "mcpServers")


def _opencode_tables(content: Mapping[str, object]) -> Iterator[tuple[str, Table]]:
    """Yield the servers; newer versions nest them one table deeper."""
    servers = nested_table(content, "mcp")
    yield (
        "",
        nested_table(servers, "servers")
        if "servers" in servers and "type" not in nested_table(servers, "servers")
        else servers,
    )


class _UnusableEntry(Exception):
    """An entry cannot be used. The message gives the reason."""


def _create_server(
    name: str, agent: str, source: str, entry: object, content: Mapping[str, object], config: Config
) -> ImportableServer:
    notes = list[str]()
    table: Table = {}
    try:
        if not isinstance(entry, dict):
            raise _UnusableEntry("it must be an object")
        if not name.strip() or not name.isprintable():
            raise _UnusableEntry("its name must be one line of printable characters")
        table = _convert_entry(agent, entry, notes)
        table = {
            key: _convert_references(value, agent, _input_variables(content), config.project_folder, notes)
            for key, value in table.items()
        }
        problem = declaration_problem(name, {key: MCP_SERVER_KEYS[key](value) for key, value in table.items()}, config)
    except _UnusableEntry as error:
        problem = str(error)
    display_name = "".join(character if character.isprintable() else "?" for character in name)[:80]
    return ImportableServer(display_name, agent, source, table, tuple(dict.fromkeys(notes)), problem)


def _convert_entry(agent: str, entry: Mapping[str, object], notes: list[str]) -> Table:
    """Convert an entry to this program's keys."""
    table, ignored_keys = Table(), list[str]()
    for original_key, value in entry.items():
        key = snake_case(original_key)
        key = _KEY_ALIASES.get(key, key)
        if key in _SPECIAL_KEYS or value is None:
            continue
        if key not in MCP_SERVER_KEYS:
            ignored_keys.append(original_key)
            continue
        if key == "type":
            value = _TYPE_ALIASES.get(str(value), value)
        if key in ("env", "headers") and isinstance(value, dict):
            value = {name: text if isinstance(text, str) else json.dumps(text) for name, text in value.items()}
        table[key] = value
    _convert_special_keys(agent, entry, table)
    for key, value in table.items():
        try:
            MCP_SERVER_KEYS[key](value)
        except ValueError as error:
            raise _UnusableEntry(f"`{key}` must be {error}") from error
    if ignored_keys:
        notes.append(f"not supported: {', '.join(f'`{text}`' for text in ignored_keys)}")
    return table


def _convert_special_keys(agent: str, entry: Mapping[str, object], table: Table) -> None:
    """Convert the keys that need more than a new name."""
    command = table.get("command")
    if isinstance(command, list) and command:
        table["command"], table["args"] = command[0], [*command[1:], *_string_list(table.get("args"))]
    if agent == "gemini" and "url" in entry and "httpUrl" not in entry:
        table.setdefault("type", "sse")
    if entry.get("disabled") is True:
        table["enabled"] = False
    if isinstance(milliseconds := entry.get("timeout"), int | float) and milliseconds > 0:
        table.setdefault("startup_timeout" if agent == "opencode" else "call_timeout", milliseconds / 1000)
    if isinstance(milliseconds := entry.get("startup_timeout_ms"), int | float) and milliseconds > 0:
        table.setdefault("startup_timeout", milliseconds / 1000)
    oauth = entry.get("oauth")
    for key, new_key in (("clientId", "client_id"), ("clientSecret", "client_secret")):
        if isinstance(oauth, dict) and isinstance(oauth.get(key), str):
            table.setdefault(new_key, oauth[key])
    env_variables = {name: f"${{{name}}}" for name in _string_list(entry.get("env_vars"))}
    if env_variables:
        table["env"] = {**env_variables, **_string_values(table.get("env"))}
    sent_headers = {header: f"${{{name}}}" for header, name in _string_values(entry.get("env_http_headers")).items()}
    if isinstance(token := entry.get("bearer_token_env_var"), str):
        sent_headers["Authorization"] = f"Bearer ${{{token}}}"
    if sent_headers:
        table["headers"] = {**_string_values(table.get("headers")), **sent_headers}


def _input_variables(content: Mapping[str, object]) -> dict[str, str]:
    """Return the environment variables that replace another program's input prompts, by input id."""
    inputs = content.get("inputs")
    input_ids = (
        [str(input_table["id"]) for input_table in inputs if isinstance(input_table, dict) and "id" in input_table]
        if isinstance(inputs, list)
        else []
    )
    return {input_id: re.sub(r"\W", "_", input_id).upper() for input_id in input_ids}


def _convert_references(
    value: object, agent: str, variable_by_input: Mapping[str, str], project: Path, notes: list[str]
) -> object:
    """Convert the variable references in a value to this program's syntax."""
    if isinstance(value, dict):
        return {key: _convert_references(item, agent, variable_by_input, project, notes) for key, item in value.items()}
    if isinstance(value, list):
        return [_convert_references(item, agent, variable_by_input, project, notes) for item in value]
    if not isinstance(value, str):
        return value

    def input_reference(match: re.Match[str]) -> str:
        name = variable_by_input.get(match[1], re.sub(r"\W", "_", match[1]).upper())
        notes.append(f"it prompts for `{match[1]}` there; set `{name}` in your environment instead")
        return f"${{{name}}}"

    text = _ENV_REFERENCE.sub(lambda match: f"${{{match[1] or match[2]}}}", value)
    text = _INPUT_REFERENCE.sub(input_reference, text)
    for name, path in (("workspaceFolder", project), ("workspaceRoot", project), ("userHome", Path.home())):
        text = text.replace(f"${{{name}}}", str(path))
    if agent == "gemini":
        text = _BARE_REFERENCE.sub(r"${\1}", text)
    for reference in _UNSUPPORTED_REFERENCE.finditer(text):
        if ":-" not in (reference[1] or ""):
            raise _UnusableEntry(f"`{reference[0]}` is not supported; use an environment variable, `${{NAME}}`")
    return text


def select_servers(servers: Sequence[ImportableServer], selectors: Sequence[str]) -> list[ImportableServer]:
    """Return the servers selected by NAME, by AGENT:NAME if the name is ambiguous, or by number in the list. Raises
    `UsageError` unless each selector matches exactly one server."""
    selected_servers = list[ImportableServer]()
    for selector in selectors:
        agent, separator, name = selector.partition(":")
        matches = [
            offer
            for offer in servers
            if offer.name == selector or (separator and (offer.agent, offer.name) == (agent, name))
        ]
        if not matches and selector.isdecimal() and 0 < int(selector) <= len(servers):
            matches = [servers[int(selector) - 1]]
        if not matches:
            raise UsageError(f"no server `{selector}` to import; run without a name to list all")
        if len({json.dumps(offer.table, sort_keys=True, default=str) for offer in matches}) > 1:
            choices = ", ".join(dict.fromkeys(f"`{offer.agent}:{offer.name}`" for offer in matches))
            raise UsageError(f"several servers are named `{selector}`: use {choices}, or the number in the list")
        selected_servers += [matches[0]] if matches[0] not in selected_servers else []
    return selected_servers


def import_problem(server: ImportableServer, name_by_prefix: Mapping[str, str], *, into_project: bool) -> str:
    """Return why a server cannot be imported; empty if it can. `name_by_prefix` maps the prefixes of tool names to the
    names of existing servers."""
    if server.problem:
        return server.problem
    if (existing_name := name_by_prefix.get(ServerSpec(server.name).prefix)) is not None:
        return (
            f"the server `{existing_name}` exists"
            if existing_name == server.name
            else f"its name is too similar to `{existing_name}`"
        )
    if into_project and server.may_contain_secrets:
        return "it may contain keys, and other people can read a project's file: replace them with `${NAME}` first"
    return ""


def write_imported_server(server: ImportableServer, config: Config, *, into_project: bool) -> Path:
    """Write a server to the user's configuration or to the project's `.mcp.json`, and return the path. Raises
    `ConfigError`."""
    if not into_project:
        path = config.folders.config / "config.toml"
        write_server(path, server.name, server.table)
        return path
    path = config.servers_file
    content = read_settings(path)
    entries = read_entries(path) if content else {}
    content["mcpServers"] = {**entries, server.name: server.table}
    try:
        write_bytes(path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n", 0o644)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {error.strerror or error}") from error
    except ToolError as error:
        raise ConfigError(str(error)) from error
    return path


def _string_list(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, list | tuple) else []


def _string_values(value: object) -> dict[str, str]:
    return {str(name): text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
