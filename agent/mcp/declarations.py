"""Collects the MCP servers of a session, from the user's configuration, plugins and the project's `.mcp.json`. Starts
none, and does not check approval."""

import hashlib
import json
import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from ebbtide.agent.config.aliases import snake_case
from ebbtide.agent.config.load import MAX_FILE_BYTES
from ebbtide.agent.config.table_keys import SERVER_KEYS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.byte_order import in_utf8
from ebbtide.tools.mcp.spec import Login, ServerSpec

Owner: TypeAlias = Literal["user", "project"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_FOREIGN_NAMES = {"transport": "type", "http_headers": "headers"}
"""Our keys by the keys of other programs' files."""


@dataclass(frozen=True, slots=True)
class DeclaredServer:
    """A server that can be started."""

    spec: ServerSpec
    owner: Owner
    source: str
    """The file or flag that declares it."""
    digest: str
    """Digest of the declaration, and of its expanded variables where they decide what runs."""
    written: "WrittenServer"
    ignored: tuple[str, ...] = ()
    """Keys that are not supported."""
    required: bool = False
    """Whether requests are blocked until it is ready."""
    scripts: tuple[Path, ...] = ()
    """Files of the project named in the command of a project's server; they are approved together with their
    contents."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class WrittenServer:
    """The declaration as written, before variables are expanded, for people."""

    command: tuple[str, ...] = ()
    url: str = ""
    cwd: str = ""
    env: tuple[str, ...] = ()
    """The variables it sets. For a project's server as `NAME=VALUE`, since values can decide what runs; for the user's
    server only the names, since values may be keys."""
    headers: tuple[str, ...] = ()
    """The headers it sends, in the same form."""
    reads: tuple[str, ...] = ()
    """Names of the user's variables that it reads."""


@dataclass(frozen=True, slots=True)
class UnusableServer:
    """A server that cannot be started, or a file without usable servers."""

    name: str
    """Empty if the problem concerns the whole file."""
    owner: Owner
    source: str
    problem: str
    is_off: bool = False
    """Whether the user has disabled it, rather than it being broken."""
    required: bool = False

    @property
    def line(self) -> str:
        """The notice for the user."""
        if not self.name:
            return f"cannot use `{self.source}`: {self.problem}"
        return f"the server `{self.name}` of `{self.source}` was left out: {self.problem}"


class _InvalidEntry(Exception):
    """Why an entry cannot be used."""


def declared_servers(config: Config, environment: Mapping[str, str]) -> tuple[DeclaredServer | UnusableServer, ...]:
    """Return the user's servers, then those of plugins and of the project. If a name occurs more than once, the first
    wins. Names are compared in the form used in tool names."""
    found = [*_of_user(config, environment), *_of_plugins(config, environment), *_of_project(config, environment)]
    chosen: dict[str, DeclaredServer | UnusableServer] = {}
    for one in found:
        key = ServerSpec(one.name).prefix if one.name else f"\0{one.source}"
        first = chosen.get(key)
        if first is None:
            chosen[key] = one
        elif first.owner == one.owner:
            problem = f"in tool names it would be the same as `{first.name}`; rename it"
            chosen[f"\0{one.source}\0{one.name}"] = UnusableServer(one.name, one.owner, one.source, problem)
    return tuple(chosen.values())


def _of_user(config: Config, environment: Mapping[str, str]) -> list[DeclaredServer | UnusableServer]:
    found: list[DeclaredServer | UnusableServer] = []
    for name, table in config.servers.items():
        source = next((config.sources[f"mcp.servers.{name}.{key}"] for key in table), "configuration")
        found.append(_declare_server(name, table, "user", source, config, environment))
    return found


def _of_plugins(config: Config, environment: Mapping[str, str]) -> list[DeclaredServer | UnusableServer]:
    """Servers of plugins count as the user's own, since they were shown when the plugin was added."""
    if not (config.folders.data / "plugins").is_dir():
        return []
    from ebbtide.agent.extensions.extension_files import UnusableFile  # noqa: PLC0415  # deferred: few users have plugins
    from ebbtide.agent.extensions.plugins import used_plugins  # noqa: PLC0415  # deferred: as above

    found: list[DeclaredServer | UnusableServer] = []
    for plugin in used_plugins(config):
        source, known = f"plugin {plugin.name}", {**environment, "CLAUDE_PLUGIN_ROOT": str(plugin.folder)}
        try:
            entries = tuple(plugin.servers())
        except UnusableFile as error:
            found.append(UnusableServer("", "user", source, str(error)))
            continue
        for name, entry in entries:
            try:
                table, ignored = _table_of(name, entry)
            except _InvalidEntry as error:
                found.append(UnusableServer(_one_line(name), "user", source, str(error)))
                continue
            found.append(_declare_server(name, table, "user", source, config, known, ignored))
    return found


def _of_project(config: Config, environment: Mapping[str, str]) -> list[DeclaredServer | UnusableServer]:
    path = config.servers_file
    try:
        if not Path(os.path.realpath(path)).is_relative_to(config.project):
            raise ConfigError("it leads outside the project")
        entries = read_entries(path)
    except ConfigError as error:
        return [UnusableServer("", "project", str(path), str(error))]
    found: list[DeclaredServer | UnusableServer] = []
    for name, entry in entries.items():
        try:
            table, ignored = _table_of(name, entry)
        except _InvalidEntry as error:
            found.append(UnusableServer(_one_line(name), "project", str(path), str(error)))
            continue
        found.append(_declare_server(name, table, "project", str(path), config, environment, ignored))
    return found


def read_entries(path: Path) -> dict[str, object]:
    """Return the project file's entries by server name; empty if there is no file. Raises `ConfigError`."""
    try:
        data = beginning_of(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(error.strerror or str(error)) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        content = json.loads(in_utf8(data).decode(), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}") from error
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError('it must be an object with one object per server, {"mcpServers": {"NAME": {…}}}')
    return servers


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict[str, object]()
    for name, value in pairs:
        if name in found:
            raise ValueError(f"`{_one_line(name)}` occurs twice")
        found[name] = value
    return found


def _table_of(name: str, entry: object) -> tuple[dict[str, object], tuple[str, ...]]:
    """Convert an entry of a project's file to our keys; return unsupported keys as well."""
    if not isinstance(entry, dict):
        raise _InvalidEntry("it must be an object")
    table, ignored = dict[str, object](), list[str]()
    for written, value in entry.items():
        key = snake_case(written)
        key = _FOREIGN_NAMES.get(key, key)
        if key == "disabled" and isinstance(value, bool):
            key, value = "enabled", not value
        if key not in SERVER_KEYS:
            ignored.append(_one_line(written))
            continue
        try:
            table[key] = SERVER_KEYS[key](value)
        except ValueError as error:
            raise _InvalidEntry(f"`{_one_line(written)}` must be {error}") from error
    return table, tuple(ignored)


def _declare_server(
    name: str,
    table: Mapping[str, object],
    owner: Owner,
    source: str,
    config: Config,
    environment: Mapping[str, str],
    ignored: tuple[str, ...] = (),
) -> DeclaredServer | UnusableServer:
    label = _one_line(name)
    if not name.strip() or label != name:
        return UnusableServer(label, owner, source, "its name must be one line of printable characters")
    if table.get("enabled") is False or name in config.mcp_disabled:
        said = "listed in `mcp.disabled`" if name in config.mcp_disabled else "`enabled` is false"
        return UnusableServer(name, owner, source, said, is_off=True)
    required = table.get("required") is True
    try:
        spec = _spec_of(name, table, config.project, environment)
    except _InvalidEntry as error:
        return UnusableServer(name, owner, source, str(error), required=required)
    scripts: tuple[Path, ...] = ()
    if owner == "project" and spec.cwd is not None:
        from ebbtide.agent.extensions.extension_files import scripts_among  # noqa: PLC0415  # deferred: few projects declare servers

        scripts = scripts_among(spec.command, spec.cwd, config.project)
    return DeclaredServer(
        spec, owner, source, _digest_of(table, spec), _written_server(table, owner), ignored, required, scripts
    )


def problem_of(name: str, table: Mapping[str, object], config: Config) -> str:
    """Why a new server declaration would be unusable in any environment; empty if it is usable."""
    found = _declare_server(name, {**table, "enabled": True}, "user", "", config, _AnythingIsSet())
    return found.problem if isinstance(found, UnusableServer) and not found.is_off else ""


class _AnythingIsSet(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, key: str, default: object = None) -> str:
        return "x"


def _spec_of(name: str, table: Mapping[str, object], folder: Path, environment: Mapping[str, str]) -> ServerSpec:
    command = tuple(_expand_variables(word, environment) for word in _command_of(table))
    url = _expand_variables(cast(str, table.get("url", "")), environment)
    if bool(command) == bool(url):
        raise _InvalidEntry("it needs a `command` or a `url`, and only one of them")
    if command and not command[0]:
        raise _InvalidEntry("its `command` is empty after expanding variables")
    kind = table.get("type")
    if kind is not None and (kind == "stdio") != bool(command):
        raise _InvalidEntry(f'`type` is "{kind}", but it has a `{"command" if command else "url"}`')
    if url and not re.match(r"https?://[^/\s]+", url):
        raise _InvalidEntry("its `url` must begin with `https://` or `http://` and name a host")
    if any("\0" in word for word in (*command, url)):
        raise _InvalidEntry("it contains a NUL character")
    others = ("env", "cwd") if url else ("headers",)
    misplaced = next((key for key in others if table.get(key)), None)
    if misplaced:
        raise _InvalidEntry(f"`{misplaced}` is not supported for a server with a `{'url' if url else 'command'}`")
    login = {
        theirs: table[ours]
        for ours, theirs in (
            *(("client_id", "client_id"), ("client_secret", "client_secret"), ("scopes", "scopes")),
            *(("login_port", "port"), ("login_timeout", "patience")),
        )
        if ours in table
    }
    if "client_secret" in login:
        login["client_secret"] = _expand_variables(cast(str, login["client_secret"]), environment)
    limits = {key: table[key] for key in _AS_THEY_ARE if key in table}
    return ServerSpec(
        name,
        command,
        url,
        is_sse=kind == "sse",
        env=_expanded_values(table.get("env"), environment),
        headers=_expanded_values(table.get("headers"), environment),
        cwd=folder / os.path.expanduser(_expand_variables(cast(str, table.get("cwd", "")), environment))
        if command
        else None,
        login=Login(**login),  # type: ignore[arg-type]  # each was parsed by its key
        **limits,  # type: ignore[arg-type]  # as above
    )


_AS_THEY_ARE = ("enabled_tools", "disabled_tools", "startup_timeout", "call_timeout", "most_bytes")


def _command_of(table: Mapping[str, object]) -> tuple[str, ...]:
    if "command" not in table:
        if "args" in table:
            raise _InvalidEntry("it has `args` but no `command`")
        return ()
    return (*cast(tuple[str, ...], table["command"]), *cast(tuple[str, ...], table.get("args", ())))


def _expanded_values(table: object, environment: Mapping[str, str]) -> dict[str, str]:
    values = cast(Mapping[str, str], table or {})
    return {name: _expand_variables(value, environment) for name, value in values.items()}


def _expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Expand `${NAME}` and `${NAME:-default}`; an empty variable counts as unset."""

    def value(match: re.Match[str]) -> str:
        found = environment.get(match[1])
        if found:
            return found
        if match[2] is None:
            raise _InvalidEntry(f"`{match[1]}` is not set in the environment; set it, or write `${{{match[1]}:-…}}`")
        return match[2]

    return _VARIABLE.sub(value, text)


def _digest_of(table: Mapping[str, object], spec: ServerSpec) -> str:
    """Digest of a declaration. Values that variables contribute only to `env`, `headers` or the login secret are
    excluded, so that renewing a token requires no new approval."""
    decisive = [spec.name, list(spec.command), spec.url, str(spec.cwd), dict(table)]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def _written_server(table: Mapping[str, object], owner: Owner) -> WrittenServer:
    env, headers = (cast(Mapping[str, str], table.get(key, {})) for key in ("env", "headers"))
    command, url, cwd = _command_of(table), cast(str, table.get("url", "")), cast(str, table.get("cwd", ""))
    texts = (*command, url, cwd, *env.values(), *headers.values(), cast(str, table.get("client_secret", "")))
    reads = dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text))
    sets, sends = (
        tuple(f"{name}={value}" for name, value in values.items()) if owner == "project" else tuple(values)
        for values in (env, headers)
    )
    return WrittenServer(command, url, cwd, sets, sends, tuple(reads))


def _one_line(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:80]
