"""Merges files, environment and flags into one frozen `Config` that records the source of each value.

Layers, from lowest to highest precedence: defaults, the user's `config.toml`, the project's `.ebb/config.toml`,
environment, flags. Since a repository might come from someone else, the project's file can only tighten permissions:
set a stricter permission mode, or add deny rules. Independent of providers and tools.
"""

import os.path
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ebbtide.agent import config
from ebbtide.agent.config.aliases import AliasedSetting, snake_case, table_entries, translate_settings
from ebbtide.agent.config.options import OPTIONS, OPTIONS_BY_KEY, PROVIDER_NAMES, Option, permission_rules
from ebbtide.agent.config.table_keys import LANGUAGE_SERVER_KEYS, MCP_SERVER_KEYS, MODEL_KEYS, PROVIDER_KEYS
from ebbtide.agent.config.values import Config, Folders, ProviderConfig, config_field
from ebbtide.agent.errors import ConfigError
from ebbtide.tools import files, secrets
from ebbtide.tools.files.bounded import read_prefix

if TYPE_CHECKING:  # see `values`
    from ebbtide.agent.config.hook_tables import HookEntry

OTHER_VARIABLES = ("EBB_HOME", "EBB_PASS_ENV")
"""EBB_* environment variables that are not settings."""

_SERVER_TABLE_KEYS = {"mcp": MCP_SERVER_KEYS, "lsp": LANGUAGE_SERVER_KEYS}
"""Tables that contain one table per server, and the keys allowed for each server."""
_TIGHTEN_ONLY = ": a project may only tighten permissions"

MAX_CONFIG_BYTES = 1_000_000
"""Maximum size of a configuration file. Project files are untrusted."""
_MAX_CHEAP_DOTS, _MAX_PARSE_WORK = 200, 10_000_000
"""Limits that keep the time to parse a file's keys below 150 ms, since parsing a key takes time that grows with the
square of its parts. A TOML line with more dots than the first number might be one long key. The second number limits
the sum of the squared dot counts of all such lines in a file."""


def find_folders(environment: Mapping[str, str]) -> Folders:
    """Return the program's folders: below EBB_HOME if set, otherwise in the platform's standard locations."""
    ebb_home, home = environment.get("EBB_HOME"), environment.get("HOME", "")
    user_home = Path(home) if os.path.isabs(home) else None
    if ebb_home:
        root = Path(ebb_home).expanduser().absolute()
        return Folders(root / "config", root / "data", root / "logs", user_home)
    import platformdirs  # noqa: PLC0415  # deferred: not needed if EBB_HOME is set

    dirs = platformdirs.PlatformDirs("ebbtide", appauthor=False)
    return Folders(Path(dirs.user_config_dir), Path(dirs.user_data_dir), Path(dirs.user_log_dir), user_home)


def find_project_folder(folder: Path) -> Path:
    """Return the top folder of the Git worktree that contains `folder`, or else `folder`, as a real path."""
    real = folder.resolve()
    for candidate in (real, *real.parents):
        if (candidate / ".git").exists():
            return candidate
    return real


def load_config(
    folder: Path,
    environment: Mapping[str, str],
    flags: Mapping[str, object],
    config_flag_texts: tuple[str, ...] = (),
    settings_by_key: Mapping[str, object] | None = None,
) -> Config:
    """Load the configuration for a run in `folder`. `flags`: command-line flags by key. `config_flag_texts`: the
    KEY=VALUE texts of `--config`. `settings_by_key`: other settings with parsed values, by key. Raises
    `ConfigError`."""
    folders, project = find_folders(environment), find_project_folder(folder)
    values = {option.key: option.default for option in OPTIONS}
    sources = {option.key: "default" for option in OPTIONS}
    providers: dict[str, dict[str, object]] = {}
    servers: dict[str, dict[str, dict[str, object]]] = {table: {} for table in _SERVER_TABLE_KEYS}
    hooks: list[HookEntry] = []
    notices: list[str] = []

    user_file = folders.config / "config.toml"
    _merge(read_toml(user_file), str(user_file), values, sources, providers, servers, hooks, notices)
    project_file = project / ".ebb" / "config.toml"
    _merge_project(read_toml(project_file), str(project_file), values, sources, notices)
    for option in OPTIONS:
        if option.environment_variable and option.environment_variable in environment:
            source = f"environment {option.environment_variable}"
            values[option.key] = _parse_value(
                option.parse, environment[option.environment_variable], source, option.key
            )
            sources[option.key] = source
    for name, key in _read_setting_variables(environment, notices).items():
        text = f"{key}={environment[name]}"
        _merge(parse_setting(text), f"environment {name}", values, sources, providers, servers, hooks, notices)
    for text in config_flag_texts:
        _merge(
            parse_setting(text),
            f"--config {_redacted_setting(text)}",
            values,
            sources,
            providers,
            servers,
            hooks,
            notices,
        )
    for key, value in (settings_by_key or {}).items():
        _merge(nested_tables(key, value), f"--config {key}", values, sources, providers, servers, hooks, notices)
    for key, value in flags.items():
        if key.startswith("permissions."):
            value = (*permission_rules(values[key]), *permission_rules(value))
        values[key] = _parse_value(OPTIONS_BY_KEY[key].parse, value, "the command line", key)
        sources[key] = "command line"

    return Config(
        folders=folders,
        project_folder=project,
        working_folder=folder.resolve(),
        providers={name: ProviderConfig(**cast(dict[str, Any], table)) for name, table in providers.items()},
        mcp_servers=servers["mcp"],
        language_servers=servers["lsp"],
        hooks=tuple(hooks),
        sources=sources,
        notices=tuple(notices),
        **cast(dict[str, Any], {config_field(key): value for key, value in values.items()}),
    )


def read_toml(path: Path) -> dict[str, object]:
    """Parse a TOML file; empty if it does not exist. Raises `ConfigError`."""
    return read_toml_text(path)[1]


def read_toml_text(path: Path) -> tuple[str, dict[str, object]]:
    """Return the text of a TOML file and its parsed content; both are empty if it does not exist. Raises
    `ConfigError`."""
    try:
        data = read_prefix(path, MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror or error}") from error
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"cannot read `{path}`: it is larger than {MAX_CONFIG_BYTES:,} bytes")
    try:
        text = files.byte_order.to_utf8(data).decode()
        return text, parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read `{path}`: {error}") from error


def parse_toml(text: str) -> dict[str, object]:
    """Parse untrusted TOML in bounded time. Raises `ValueError` or `RecursionError`."""
    import tomllib  # noqa: PLC0415  # deferred: most runs have no file to read

    work = 0
    for line_number, line in enumerate(text.split("\n"), 1):
        work += dots**2 if (dots := line.count(".")) > _MAX_CHEAP_DOTS else 0
        if work > _MAX_PARSE_WORK:
            raise ValueError(f"line {line_number}: too many lines with hundreds of dots; split them into shorter ones")
    return tomllib.loads(text)


def parse_setting(text: str) -> dict[str, object]:
    """Parse `a.b=V` as given to `--config`. V is parsed as TOML if possible, otherwise it is a string. `null` unsets
    the key."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"`--config {text}` is not KEY=VALUE; write for example `--config agent.max_turns=20`")
    import tomllib  # noqa: PLC0415  # deferred: most runs have no setting to parse

    try:
        parsed: object = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = None if value.strip() == "null" else value
    return nested_tables(key, parsed)


def nested_tables(key: str, value: object) -> dict[str, object]:
    """Wrap a value in the nested tables of its key, as a parsed file would contain it. Raises `ConfigError`."""
    import tomllib  # noqa: PLC0415  # deferred: as above

    try:
        return _with_leaf(tomllib.loads(f"{key} = 0"), value)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{key}` is not a key of the configuration: {error}") from error


def _read_setting_variables(environment: Mapping[str, str], notices: list[str]) -> dict[str, str]:
    """Map environment variables that are named after a key, or after an alias of a key, to that key. Variables
    dedicated to a key are not included. Adds a notice for each variable that has no effect."""
    key_by_variable: dict[str, str] = {}
    variable_by_key = {
        single_option.key: single_option.environment_variable
        for single_option in OPTIONS
        if single_option.environment_variable and single_option.environment_variable in environment
    }
    known_variables = {f"EBB_{key.replace('.', '_').upper()}": key for key in OPTIONS_BY_KEY}
    known_variables = {
        **known_variables,
        **{name.replace("EBB_AGENT_", "EBB_", 1): key for name, key in known_variables.items()},
    }
    reserved = {*OTHER_VARIABLES, *(single_option.environment_variable for single_option in OPTIONS)}
    variables = [name for name in environment if name.startswith("EBB_") and name not in reserved and environment[name]]
    for name in sorted(
        variables, key=lambda name: (name not in known_variables, name)
    ):  # a key takes precedence over its aliases
        written_key = known_variables.get(name) or name.removeprefix("EBB_").lower().removeprefix("agent_")
        setting = next(iter(translate_settings([(written_key, True)])), None)
        if setting is not None and setting.ineffective_reason and setting.key not in OPTIONS_BY_KEY:
            notices.append(f"the variable `{name}` has no effect: {setting.ineffective_reason}")
        elif setting is None or setting.key not in OPTIONS_BY_KEY:
            notices.append(f"the variable `{name}` has no effect: it is not a setting; `ebb config` lists all of them")
        elif setting.key in variable_by_key:
            notices.append(
                f"the variable `{name}` has no effect: `{variable_by_key[setting.key]}` sets the same and takes "
                "precedence"
            )
        else:
            variable_by_key[setting.key], key_by_variable[name] = name, written_key
    return key_by_variable


def _redacted_setting(text: str) -> str:
    """Hide the secrets in KEY=VALUE: server settings, values of secret keys, and passwords in URLs."""
    key, _, value = text.partition("=")
    name = key.strip().rpartition(".")[2]
    is_secret = key.strip().startswith(("mcp.servers.", "lsp.servers.")) or (
        secrets.key_formats.SECRET_VARIABLE_NAME.search(name) and name not in PROVIDER_KEYS
    )
    return (
        f"{key}=…" if is_secret else f"{key}={secrets.redaction.redact_text(secrets.redaction.redact_url(value), {})}"
    )


def _with_leaf(tables: dict[str, object], value: object) -> dict[str, object]:
    ((name, table),) = tables.items()
    return {name: _with_leaf(table, value) if isinstance(table, dict) else value}


def _parse_value(parse: Callable[[object], object], value: object, source: str, key: str) -> object:
    try:
        return parse(value)
    except ValueError as error:
        is_secret = key.endswith((".api_key_env", ".key_command"))  # the value may contain an API key
        value_text = "" if is_secret else f"is {value!r}, but "
        raise ConfigError(f"{source}: `{key}` {value_text}must be {error}") from error


def _merge(
    tables: Mapping[str, object],
    source: str,
    values: dict[str, object],
    sources: dict[str, str],
    providers: dict[str, dict[str, object]],
    servers: dict[str, dict[str, dict[str, object]]],
    hooks: "list[HookEntry]",
    notices: list[str],
) -> None:
    remaining = dict(tables)
    if "providers" in remaining:
        _merge_providers(remaining.pop("providers"), source, sources, providers, notices)
    for table_name in _SERVER_TABLE_KEYS:
        if isinstance(server_table := remaining.get(table_name), dict) and "servers" in server_table:
            _merge_servers(table_name, server_table["servers"], source, sources, servers[table_name])
            remaining[table_name] = {name: value for name, value in server_table.items() if name != "servers"}
    if isinstance(hook_table := remaining.get("hooks"), dict) and hook_table.keys() - {"after_tool"}:
        hooks += config.hook_tables.parse_configured_hooks(
            {event: hook_table[event] for event in hook_table if event != "after_tool"}, source
        )
        remaining["hooks"] = {name: value for name, value in hook_table.items() if name == "after_tool"}
    name_by_key: dict[str, str] = {}
    for setting in translate_settings(_flatten_tables(remaining)):
        named_source = f"{source} ({setting.written_name})" if setting.written_name else source
        if setting.ineffective_reason:
            notices.append(f"{named_source}: {setting.ineffective_reason}")
            continue
        option = _find_option(setting.key, source)
        written_key = setting.written_name or setting.key
        real_key = "agent.compact_trigger" if setting.key == "agent.threshold_ratio" else setting.key
        if real_key in name_by_key:
            notices.append(
                f"{source}: `{name_by_key[real_key]}` has no effect: `{written_key}` sets the same and takes precedence"
            )
        name_by_key[real_key] = written_key
        values[setting.key] = _parse_value(option.parse, setting.value, source, setting.written_name or setting.key)
        sources[setting.key] = named_source
        if setting.key == "agent.compact_trigger":
            values["agent.threshold_ratio"], sources["agent.threshold_ratio"] = None, "default"
        if setting.key == "agent.threshold_ratio":
            sources["agent.compact_trigger"] = f"{source} ({setting.written_name or 'threshold_ratio'})"


def _flatten_tables(tables: Mapping[str, object]) -> list[tuple[str, object]]:
    """Flatten tables. Return each key, prefixed with its table, and its value."""
    flat: list[tuple[str, object]] = []
    for section, table in tables.items():
        if isinstance(table, dict):
            flat += [(f"{section}.{key}", value) for key, value in table.items()]
        else:
            flat.append((section, table))
    return flat


def _find_option(key: str, source: str) -> Option:
    if key in OPTIONS_BY_KEY:
        return OPTIONS_BY_KEY[key]
    if any(known_key.startswith(f"{key}.") for known_key in OPTIONS_BY_KEY):
        raise ConfigError(f"{source}: `{key}` is a table; write `{key}.KEY = VALUE`, `ebb config` lists all keys")
    import difflib  # noqa: PLC0415  # deferred: only needed after a mistake

    close_matches = difflib.get_close_matches(key, OPTIONS_BY_KEY, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(f'`{name}`' for name in close_matches)}?"
        if close_matches
        else "`ebb config` lists all keys"
    )
    raise ConfigError(f"{source}: unknown key `{key}`; {hint}")


def _merge_providers(
    tables: object,
    source: str,
    sources: dict[str, str],
    providers: dict[str, dict[str, object]],
    notices: list[str],
) -> None:
    if not isinstance(tables, dict):
        raise ConfigError(f"{source}: `providers` must contain one table per provider")
    for name, table in tables.items():
        if name not in PROVIDER_NAMES:
            raise ConfigError(f"{source}: unknown provider `{name}`; the providers are {', '.join(PROVIDER_NAMES)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: `providers.{name}` must be a table")
        merged = providers.setdefault(name, {})
        for key, setting in _entries_by_key(table, PROVIDER_KEYS, f"providers.{name}", source, notices).items():
            full_key, value = f"providers.{name}.{key}", setting.value
            if key == "models":
                models = cast(dict[str, Mapping[str, object]], merged.setdefault("models", {}))
                for model, facts in _parse_models(value, source, full_key, notices).items():
                    models[model] = {**models.get(model, {}), **facts}
                    sources.update({f"{full_key}.{model}.{fact}": source for fact in facts})
                continue
            if key in PROVIDER_KEYS:
                merged[key] = _parse_value(PROVIDER_KEYS[key], value, source, full_key)
            else:
                allowed_keys = ", ".join([*PROVIDER_KEYS, "models"])
                raise ConfigError(f"{source}: unknown key `{full_key}`; use one of {allowed_keys}")
            sources[full_key] = f"{source} ({setting.written_name})" if setting.written_name else source


def _merge_servers(
    table_name: str, tables: object, source: str, sources: dict[str, str], servers: dict[str, dict[str, object]]
) -> None:
    keys = _SERVER_TABLE_KEYS[table_name]
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError(f"{source}: `{table_name}.servers` must contain one table per server")
    for name, table in tables.items():
        if not name.strip() or not name.isprintable():
            raise ConfigError(f"{source}: {name!r} is not a valid server name; use letters, digits, `-` and `_`")
        merged = servers.setdefault(name, {})
        for written_key, value in table.items():
            key, full_key = snake_case(written_key), f"{table_name}.servers.{name}.{written_key}"
            if key not in keys:
                raise ConfigError(f"{source}: unknown key `{full_key}`; use one of {', '.join(keys)}")
            try:
                merged[key] = keys[key](value)
            except ValueError as error:
                is_secret = key in ("env", "headers", "client_secret")
                value_text = "" if is_secret else f"is {value!r}, but "
                raise ConfigError(f"{source}: `{full_key}` {value_text}must be {error}") from error
            sources[f"{table_name}.servers.{name}.{key}"] = source


def _entries_by_key(
    table: Mapping[str, object], allowed_keys: Container[str], prefix: str, source: str, notices: list[str]
) -> dict[str, AliasedSetting]:
    """Return the entries of a provider's or model's table by key. Adds a notice for a key that is set twice."""
    settings: dict[str, AliasedSetting] = {}
    for key, setting in table_entries(table, allowed_keys):
        if key in settings:
            previous_name, new_name = (
                f"{prefix}.{aliased.written_name or key}" for aliased in (settings[key], setting)
            )
            notices.append(
                f"{source}: `{previous_name}` has no effect: `{new_name}` sets the same and takes precedence"
            )
        settings[key] = setting
    return settings


def _parse_models(value: object, source: str, full_key: str, notices: list[str]) -> dict[str, dict[str, object]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ConfigError(f"{source}: `{full_key}` must contain one table per model")
    models = {}
    for model, table in value.items():
        entries = _entries_by_key(table, MODEL_KEYS, f"{full_key}.{model}", source, notices)
        unknown = set(entries) - set(MODEL_KEYS)
        if unknown:
            raise ConfigError(
                f"{source}: unknown key `{full_key}.{model}.{min(unknown)}`; use one of {', '.join(MODEL_KEYS)}"
            )
        models[model] = {
            key: _parse_value(MODEL_KEYS[key], setting.value, source, f"{full_key}.{model}.{key}")
            for key, setting in entries.items()
        }
    return models


def _merge_project(
    tables: Mapping[str, object], source: str, values: dict[str, object], sources: dict[str, str], notices: list[str]
) -> None:
    for key, value in _flatten_tables(tables):
        if key in ("mcp.servers", "lsp.servers"):
            reason = ": a project's servers are declared in its `.mcp.json`" if key == "mcp.servers" else _TIGHTEN_ONLY
            notices.append(f"`{key}` in {source} was ignored{reason}")
            continue
        option = OPTIONS_BY_KEY.get(key)
        if option is None or option.tighten is None:
            notices.append(f"`{key}` in {source} was ignored{_TIGHTEN_ONLY}")
            continue
        tightened = option.tighten(values[key], _parse_value(option.parse, value, source, key))
        if tightened == values[key]:
            notices.append(f"`{key}` in {source} was ignored: it would not tighten anything")
            continue
        values[key], sources[key] = tightened, source
