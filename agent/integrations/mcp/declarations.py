"""Collects the declared MCP servers of a session from the user's configuration, plugins and the project's `.mcp.json`,
without starting them or checking their approval."""

import hashlib
import json
import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from ebbtide.agent import extensions
from ebbtide.agent.config.aliases import snake_case
from ebbtide.agent.config.load import MAX_CONFIG_BYTES
from ebbtide.agent.config.table_keys import MCP_SERVER_KEYS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.byte_order import to_utf8
from ebbtide.tools.integrations.mcp.spec import LoginSettings, ServerSpec

ServerOwner: TypeAlias = Literal["user", "project"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KEY_ALIASES = {"transport": "type", "http_headers": "headers"}
"""This program's key names, by the names that other programs' files use."""


@dataclass(frozen=True, slots=True)
class DeclaredServer:
    """A server that can be started."""

    spec: ServerSpec
    owner: ServerOwner
    source: str
    """The file or flag that declares it."""
    digest: str
    """Digest of the declaration, with variables expanded where they determine what runs."""
    declaration: "ServerDeclaration"
    ignored_keys: tuple[str, ...] = ()
    """Keys that are not supported."""
    is_required: bool = False
    """Whether requests must wait until it is ready."""
    scripts: tuple[Path, ...] = ()
    """The project files that a project's server runs. The user approves their contents with the server."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class ServerDeclaration:
    """A declaration as written, before variables are expanded, for display."""

    command: tuple[str, ...] = ()
    url: str = ""
    cwd: str = ""
    env: tuple[str, ...] = ()
    """The environment variables that it sets. For a project's server each is `NAME=VALUE`, because values can determine
    what runs; for a user's server only the name, because values may be secret keys."""
    headers: tuple[str, ...] = ()
    """The headers that it sends, in the same form as `env`."""
    referenced_variables: tuple[str, ...] = ()
    """Names of the user's environment variables that the declaration refers to."""


@dataclass(frozen=True, slots=True)
class UnusableServer:
    """A server that cannot be started, or a file without usable servers."""

    name: str
    """Name of the server; empty if the problem concerns the entire file."""
    owner: ServerOwner
    source: str
    problem: str
    is_disabled: bool = False
    """Whether the server is unusable only because the user disabled it."""
    is_required: bool = False

    @property
    def notice(self) -> str:
        """The notice for the user."""
        if not self.name:
            return f"cannot use `{self.source}`: {self.problem}"
        return f"the server `{self.name}` of `{self.source}` was skipped: {self.problem}"


class _InvalidEntryError(Exception):
    """An entry cannot be used. The message gives the reason."""


def load_declared_servers(
    config: Config, environment: Mapping[str, str]
) -> tuple[DeclaredServer | UnusableServer, ...]:
    """Load the user's servers, then those of plugins, then the project's. If a name occurs more than once, the first
    declaration is used. Names are compared in the form used in tool names."""
    declared_servers = [
        *_user_servers(config, environment),
        *_plugin_servers(config, environment),
        *_project_servers(config, environment),
    ]
    chosen_servers: dict[str, DeclaredServer | UnusableServer] = {}
    for server in declared_servers:
        key = ServerSpec(server.name).prefix if server.name else f"\0{server.source}"
        first_server = chosen_servers.get(key)
        if first_server is None:
            chosen_servers[key] = server
        elif first_server.owner == server.owner:
            problem = f"in tool names it would be the same as `{first_server.name}`; rename it"
            chosen_servers[f"\0{server.source}\0{server.name}"] = UnusableServer(
                server.name, server.owner, server.source, problem
            )
    return tuple(chosen_servers.values())


def _user_servers(config: Config, environment: Mapping[str, str]) -> list[DeclaredServer | UnusableServer]:
    servers: list[DeclaredServer | UnusableServer] = []
    for name, table in config.mcp_servers.items():
        source = next((config.sources[f"mcp.servers.{name}.{key}"] for key in table), "configuration")
        servers.append(_declare_server(name, table, "user", source, config, environment))
    return servers


def _plugin_servers(config: Config, environment: Mapping[str, str]) -> list[DeclaredServer | UnusableServer]:
    """Return the servers of plugins. They count as the user's own, because the user saw them when adding the plugin."""
    if not (config.folders.data / "plugins").is_dir():
        return []
    servers: list[DeclaredServer | UnusableServer] = []
    for plugin in extensions.plugins.load_usable_plugins(config):
        source, plugin_environment = f"plugin {plugin.name}", {**environment, "CLAUDE_PLUGIN_ROOT": str(plugin.folder)}
        try:
            entries = tuple(plugin.read_servers())
        except extensions.extension_files.UnusableFileError as error:
            servers.append(UnusableServer("", "user", source, str(error)))
            continue
        for name, entry in entries:
            try:
                table, ignored_keys = _parse_entry(name, entry)
            except _InvalidEntryError as error:
                servers.append(UnusableServer(_one_line(name), "user", source, str(error)))
                continue
            servers.append(_declare_server(name, table, "user", source, config, plugin_environment, ignored_keys))
    return servers


def _project_servers(config: Config, environment: Mapping[str, str]) -> list[DeclaredServer | UnusableServer]:
    path = config.servers_file
    try:
        if not Path(os.path.realpath(path)).is_relative_to(config.project_folder):
            raise ConfigError("it leads outside the project")
        entries = read_entries(path)
    except ConfigError as error:
        return [UnusableServer("", "project", str(path), str(error))]
    servers: list[DeclaredServer | UnusableServer] = []
    for name, entry in entries.items():
        try:
            table, ignored_keys = _parse_entry(name, entry)
        except _InvalidEntryError as error:
            servers.append(UnusableServer(_one_line(name), "project", str(path), str(error)))
            continue
        servers.append(_declare_server(name, table, "project", str(path), config, environment, ignored_keys))
    return servers


def read_entries(path: Path) -> dict[str, object]:
    """Return the project file's entries by server name; empty if there is no file. Raises `ConfigError`."""
    try:
        data = read_prefix(path, MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(error.strerror or str(error)) from error
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"it is larger than {MAX_CONFIG_BYTES:,} bytes")
    try:
        content = json.loads(to_utf8(data).decode(), object_pairs_hook=_reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}") from error
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError('it must be an object with one object per server, {"mcpServers": {"NAME": {…}}}')
    return servers


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict[str, object]()
    for name, value in pairs:
        if name in values:
            raise ValueError(f"`{_one_line(name)}` occurs twice")
        values[name] = value
    return values


def _parse_entry(name: str, entry: object) -> tuple[dict[str, object], tuple[str, ...]]:
    """Convert an entry of a server file to this program's keys. Also return its unsupported keys."""
    if not isinstance(entry, dict):
        raise _InvalidEntryError("it must be an object")
    table, ignored_keys = dict[str, object](), list[str]()
    for written_key, value in entry.items():
        key = snake_case(written_key)
        key = _KEY_ALIASES.get(key, key)
        if key == "disabled" and isinstance(value, bool):
            key, value = "enabled", not value
        if key not in MCP_SERVER_KEYS:
            ignored_keys.append(_one_line(written_key))
            continue
        try:
            table[key] = MCP_SERVER_KEYS[key](value)
        except ValueError as error:
            raise _InvalidEntryError(f"`{_one_line(written_key)}` must be {error}") from error
    return table, tuple(ignored_keys)


def _declare_server(
    name: str,
    table: Mapping[str, object],
    owner: ServerOwner,
    source: str,
    config: Config,
    environment: Mapping[str, str],
    ignored_keys: tuple[str, ...] = (),
) -> DeclaredServer | UnusableServer:
    display_name = _one_line(name)
    if not name.strip() or display_name != name:
        return UnusableServer(display_name, owner, source, "its name must be one line of printable characters")
    if table.get("enabled") is False or name in config.mcp_disabled:
        reason = "listed in `mcp.disabled`" if name in config.mcp_disabled else "`enabled` is false"
        return UnusableServer(name, owner, source, reason, is_disabled=True)
    is_required = table.get("required") is True
    try:
        spec = _create_spec(name, table, config.project_folder, environment)
    except _InvalidEntryError as error:
        return UnusableServer(name, owner, source, str(error), is_required=is_required)
    scripts: tuple[Path, ...] = ()
    if owner == "project" and spec.cwd is not None:
        scripts = extensions.extension_files.scripts_in_words(spec.command, spec.cwd, config.project_folder)
    return DeclaredServer(
        spec,
        owner,
        source,
        _declaration_digest(table, spec),
        _create_declaration(table, owner),
        ignored_keys,
        is_required,
        scripts,
    )


def declaration_problem(name: str, table: Mapping[str, object], config: Config) -> str:
    """Return why a new server declaration would be unusable in any environment; empty if it is usable."""
    server = _declare_server(name, {**table, "enabled": True}, "user", "", config, _AllVariablesSet())
    return server.problem if isinstance(server, UnusableServer) and not server.is_disabled else ""


class _AllVariablesSet(dict[str, str]):
    """An environment in which all variables are set."""

    def get(self, key: str, default: object = None) -> str:
        return "x"


def _create_spec(name: str, table: Mapping[str, object], folder: Path, environment: Mapping[str, str]) -> ServerSpec:
    command = tuple(_expand_variables(word, environment) for word in _command_words(table))
    url = _expand_variables(cast(str, table.get("url", "")), environment)
    if bool(command) == bool(url):
        raise _InvalidEntryError("it needs a `command` or a `url`, and only one of them")
    if command and not command[0]:
        raise _InvalidEntryError("its `command` is empty after expanding variables")
    kind = table.get("type")
    if kind is not None and (kind == "stdio") != bool(command):
        raise _InvalidEntryError(f'`type` is "{kind}", but it has a `{"command" if command else "url"}`')
    if url and not re.match(r"https?://[^/\s]+", url):
        raise _InvalidEntryError("its `url` must begin with `https://` or `http://` and name a host")
    if any("\0" in word for word in (*command, url)):
        raise _InvalidEntryError("it contains a NUL character")
    unsupported_keys = ("env", "cwd") if url else ("headers",)
    misplaced_key = next((key for key in unsupported_keys if table.get(key)), None)
    if misplaced_key:
        raise _InvalidEntryError(
            f"`{misplaced_key}` is not supported for a server with a `{'url' if url else 'command'}`"
        )
    login = {
        login_key: table[table_key]
        for table_key, login_key in (
            *(("client_id", "client_id"), ("client_secret", "client_secret"), ("scopes", "scopes")),
            *(("login_port", "port"), ("login_timeout", "timeout")),
        )
        if table_key in table
    }
    if "client_secret" in login:
        login["client_secret"] = _expand_variables(cast(str, login["client_secret"]), environment)
    limits = {name: table[key] for key, name in _SPEC_FIELD_BY_KEY.items() if key in table}
    return ServerSpec(
        name,
        command,
        url,
        is_sse=kind == "sse",
        env=_expand_values(table.get("env"), environment),
        headers=_expand_values(table.get("headers"), environment),
        cwd=folder / os.path.expanduser(_expand_variables(cast(str, table.get("cwd", "")), environment))
        if command
        else None,
        login=LoginSettings(**login),  # type: ignore[arg-type]  # each was parsed by its key
        **limits,  # type: ignore[arg-type]  # as above
    )


_SPEC_FIELD_BY_KEY = {
    "enabled_tools": "enabled_tools",
    "disabled_tools": "disabled_tools",
    "startup_timeout": "startup_timeout",
    "call_timeout": "call_timeout",
    "most_bytes": "max_result_bytes",
}
"""Fields of `ServerSpec` that are copied from a table, by the table's keys."""


def _command_words(table: Mapping[str, object]) -> tuple[str, ...]:
    if "command" not in table:
        if "args" in table:
            raise _InvalidEntryError("it has `args` but no `command`")
        return ()
    return (*cast(tuple[str, ...], table["command"]), *cast(tuple[str, ...], table.get("args", ())))


def _expand_values(table: object, environment: Mapping[str, str]) -> dict[str, str]:
    values = cast(Mapping[str, str], table or {})
    return {name: _expand_variables(value, environment) for name, value in values.items()}


def _expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Expand `${NAME}` and `${NAME:-default}`. A variable that is set to an empty string counts as unset."""

    def expand(match: re.Match[str]) -> str:
        set_value = environment.get(match[1])
        if set_value:
            return set_value
        if match[2] is None:
            raise _InvalidEntryError(
                f"`{match[1]}` is not set in the environment; set it, or write `${{{match[1]}:-…}}`"
            )
        return match[2]

    return _VARIABLE.sub(expand, text)


def _declaration_digest(table: Mapping[str, object], spec: ServerSpec) -> str:
    """Return the digest of a declaration. It covers variables in `env`, `headers` and the login secret by name only, so
    that renewing a token requires no new approval."""
    digested_fields = [spec.name, list(spec.command), spec.url, str(spec.cwd), dict(table)]
    return hashlib.sha256(json.dumps(digested_fields, sort_keys=True).encode()).hexdigest()


def _create_declaration(table: Mapping[str, object], owner: ServerOwner) -> ServerDeclaration:
    env, headers = (cast(Mapping[str, str], table.get(key, {})) for key in ("env", "headers"))
    command, url, cwd = _command_words(table), cast(str, table.get("url", "")), cast(str, table.get("cwd", ""))
    texts = (*command, url, cwd, *env.values(), *headers.values(), cast(str, table.get("client_secret", "")))
    read_names = dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text))
    env_entries, header_entries = (
        tuple(f"{name}={value}" for name, value in values.items()) if owner == "project" else tuple(values)
        for values in (env, headers)
    )
    return ServerDeclaration(command, url, cwd, env_entries, header_entries, tuple(read_names))


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:80]
