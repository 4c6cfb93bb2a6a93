"""Files, environment and flags, made into one frozen `Config` in which each value knows its source.

Layers, weakest first: defaults, the user's `config.toml`, the project's `.ebb/config.toml`, environment, flags. A
project comes with a repository that somebody else may have written, so its file may only tighten: a stricter permission
mode, more deny rules. It knows no provider and no tool.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from agent.aliases import snake_case, translate
from agent.errors import ConfigError

Mode: TypeAlias = Literal["ask", "accept-edits", "plan", "auto"]
MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan", "auto")
_STRICTNESS = {"plan": 0, "ask": 1, "accept-edits": 2, "auto": 3}

Wire: TypeAlias = Literal["auto", "sdk", "http"]


@dataclass(frozen=True, slots=True)
class Option:
    """One key that may be set."""

    key: str
    default: object
    parse: Callable[[object], object]
    """The value as the program uses it. Raises `ValueError` with what is allowed."""
    help: str
    environment: str | None = None
    tightens: Callable[[object, object], object] | None = None
    """(value so far, the project's value) -> the value that holds. None: a project may not set it at all."""


def _text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("a text in quotes")


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError("a whole number above 0")


def _optional_count(value: object) -> int | None:
    return None if value is None else _count(value)


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise ValueError("a number of seconds above 0")


def _dollars(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError("a number of US dollars above 0")


def _share(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise ValueError("a number above 0 and at most 1")


def _optional_share(value: object) -> float | None:
    return None if value is None else _share(value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(text, str) and text for text in value):
        return tuple(value)
    raise ValueError("a list of texts in quotes")


def tokenizer_name(value: object) -> str:
    """The name of a way to count. Whether its vocabulary is there is found out when it is used."""
    if isinstance(value, str) and re.fullmatch(_TOKENIZERS, value):
        return value
    raise ValueError(
        'one of "tiktoken:NAME" (an encoding or a model of OpenAI), "anthropic", "claude:NAME", "gemini", '
        '"google:gemini", "google-gemini", "approximate", "approximate:2.5" (characters a token) or "bytes"'
    )


def _rules(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(rule, str) and rule for rule in value):
        return tuple(value)
    raise ValueError('a list of rules such as ["bash(git status)", "write(src/)"]')


def one_of(*allowed: str) -> Callable[[object], object]:
    def parse(value: object) -> object:
        if value in allowed:
            return value
        raise ValueError("one of " + ", ".join(f'"{name}"' for name in allowed))

    return parse


def stricter_mode(one: Mode, other: Mode) -> Mode:
    return min(one, other, key=lambda mode: _STRICTNESS[mode])


def _stricter(current: object, project: object) -> object:
    return min(current, project, key=lambda mode: _STRICTNESS[str(mode)])


def _also(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*_rules(current), *_rules(project))))


_TOKENIZERS = (
    r"tiktoken:.+|anthropic(:.*)?|claude:.*|gemini(:.*)?|google:gemini.*|google-gemini.*|"
    r"approximate(:[1-9](\.\d+)?)?|bytes"
)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

OPTIONS: tuple[Option, ...] = (
    Option("agent.model", None, _optional_text, "the model, as PROVIDER/NAME", "EBB_MODEL"),
    Option(
        "agent.permission_mode", "ask", one_of(*MODES), "what runs without a question", "EBB_PERMISSION_MODE", _stricter
    ),
    Option("agent.sandbox", "auto", one_of("require", "auto", "off"), "whether shell needs a sandbox", "EBB_SANDBOX"),
    Option("agent.reasoning_effort", None, lambda v: None if v is None else one_of(*EFFORTS)(v), "how hard to think"),
    Option("agent.context_window", None, _optional_count, "tokens of the model's window, over what is known of it"),
    Option("agent.max_output_tokens", None, _optional_count, "tokens that a reply may take"),
    Option("agent.context_window_buffer_tokens", None, _optional_count, "tokens kept free for errors of the estimate"),
    Option("agent.tokenizer", None, lambda v: None if v is None else tokenizer_name(v), "how texts are counted"),
    Option("agent.compact_trigger", 0.95, _share, "share of the usable window at which older messages are summarised"),
    Option("agent.threshold_ratio", None, _optional_share, "the same as a share of the whole window"),
    Option("agent.hard_block", 0.98, _share, "share of the usable window above which no request is sent"),
    Option("agent.context_note_at", 0.80, _share, "share of the usable window from which the model is told of it"),
    Option(
        "agent.on_full", "compact", one_of("compact", "final"), "when the window is full: make room, or one last turn"
    ),
    Option("agent.protect_tokens", None, _optional_count, "tokens of the newest outputs that are not masked early"),
    Option("agent.keep_last_n", None, _optional_count, "newest messages that are not masked early"),
    Option(
        "agent.result_offload_threshold", 4096, _count, "bytes from which an output is kept apart and shown in part"
    ),
    Option("agent.max_message_bytes", 51_200, _count, "bytes of a file that one read shows"),
    Option("agent.max_line_length", 2000, _count, "characters of a line that a read shows"),
    Option(
        "agent.tool_output_mode",
        "auto",
        one_of("auto", "full-chunked", "read-grep", "truncate"),
        "what is done with large outputs",
    ),
    Option("agent.tool_deferral_threshold", 0.10, _share, "share of the usable window that tool definitions may take"),
    Option("agent.tail_tokens", 8000, _count, "tokens of the newest steps that a compaction leaves as they are"),
    Option("agent.retain_last_turns", 1, _count, "newest turns that a compaction leaves as they are, if they fit"),
    Option("agent.retain_tokens", 1200, _count, "tokens of what is retained for the whole session"),
    Option("agent.summary_tokens", 1800, _count, "tokens of a summary"),
    Option("agent.summary_model", None, _optional_text, "the model that summarises, as PROVIDER/NAME"),
    Option("agent.summary_prompt", None, _optional_text, "what a summary is asked for with"),
    Option("agent.summary_directives", (), _texts, "what is asked of a summary besides"),
    Option("agent.retain_prompt", None, _optional_text, "what the retained document is asked for with"),
    Option("agent.retain_directives", (), _texts, "what is asked of the retained document besides"),
    Option("rewrite.policy", "rent", one_of("rent", "fixed", "off"), "`off`: nothing is compacted unless you ask"),
    Option("agent.max_turns", None, _optional_count, "requests that one turn may make"),
    Option("agent.max_cost", None, _dollars, "US dollars one run may cost"),
    Option("permissions.allow", (), _rules, "calls that run without a question"),
    Option("permissions.deny", (), _rules, "calls that never run", tightens=_also),
)
NO_EFFECT = (
    "agent.keep_last_n",
    "agent.result_offload_threshold",
    "agent.max_message_bytes",
    "agent.max_line_length",
    "agent.tool_output_mode",
    "agent.tool_deferral_threshold",
    "agent.retain_last_turns",
)
"""Keys that other programs know and that a configuration may hold; whoever sets one is told that nothing follows."""

_BY_KEY = {option.key: option for option in OPTIONS}

PROVIDERS = ("anthropic", "openai", "openai-chat", "ollama", "scripted")
_PROVIDER_KEYS: dict[str, Callable[[object], object]] = {
    "base_url": _text,
    "api_key_env": _text,
    "wire": one_of("auto", "sdk", "http"),
    "timeout": _seconds,
    "context_window": _count,
    "max_output_tokens": _count,
    "context_window_buffer_tokens": _count,
    "tokenizer": tokenizer_name,
}
_PRICES = ("input", "output", "cache_read", "cache_write")


def _prices(value: object) -> Mapping[str, float]:
    if (
        isinstance(value, dict)
        and set(value) <= set(_PRICES)
        and all(
            isinstance(price, int | float) and not isinstance(price, bool) and price >= 0 for price in value.values()
        )
    ):
        return {name: float(price) for name, price in value.items()}
    raise ValueError("a table of US dollars per million tokens: input, output, cache_read, cache_write")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


_MODEL_KEYS: dict[str, Callable[[object], object]] = {
    "context_window": _count,
    "max_output_tokens": _count,
    "max_input_tokens": _count,
    "context_window_buffer_tokens": _count,
    "tokenizer": tokenizer_name,
    "prices": _prices,
    "images": _flag,
    "thinking": one_of("none", "adaptive", "budget", "effort"),
}


@dataclass(frozen=True, slots=True)
class Folders:
    """Where this program keeps its files."""

    config: Path
    data: Path
    logs: Path


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    base_url: str | None = None
    api_key_env: str | None = None
    """The environment variable that holds the key, when it is not the provider's usual one."""
    wire: Wire = "auto"
    timeout: float = 300.0
    context_window: int | None = None
    max_output_tokens: int | None = None
    context_window_buffer_tokens: int | None = None
    tokenizer: str | None = None
    models: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """What the user knows better of a model than the registry, by model name."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one run: the fields up to `deny` are the keys of `OPTIONS`, by `field_of`."""

    folders: Folders
    project: Path
    """The top of the git work tree around the working folder, or that folder."""
    model: str | None
    permission_mode: Mode
    sandbox: Literal["require", "auto", "off"]
    reasoning_effort: str | None
    context_window: int | None
    max_output_tokens: int | None
    context_window_buffer_tokens: int | None
    tokenizer: str | None
    compact_trigger: float
    threshold_ratio: float | None
    """The trigger as a share of the whole window. Where it is set, it holds instead of `compact_trigger`."""
    hard_block: float
    context_note_at: float
    on_full: Literal["compact", "final"]
    protect_tokens: int | None
    """None: 24,000, but at most a quarter of the usable window."""
    keep_last_n: int | None
    result_offload_threshold: int
    max_message_bytes: int
    max_line_length: int
    tool_output_mode: Literal["auto", "full-chunked", "read-grep", "truncate"]
    tool_deferral_threshold: float
    tail_tokens: int
    retain_last_turns: int
    retain_tokens: int
    summary_tokens: int
    summary_model: str | None
    summary_prompt: str | None
    summary_directives: tuple[str, ...]
    retain_prompt: str | None
    retain_directives: tuple[str, ...]
    rewrite_policy: Literal["rent", "fixed", "off"]
    max_turns: int | None
    max_cost: float | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    providers: Mapping[str, ProviderConfig]
    sources: Mapping[str, str]
    """Where each value came from, by key (`agent.model`)."""
    notices: tuple[str, ...] = ()
    """What the user should know about the settings: keys of the project's file that were left out."""

    def provider(self, name: str) -> ProviderConfig:
        return self.providers.get(name, ProviderConfig())


def field_of(key: str) -> str:
    """The field of `Config` that holds a key."""
    table, _, name = key.partition(".")
    return name if table in ("agent", "permissions") else f"{table}_{name}"


def find_folders(environment: Mapping[str, str]) -> Folders:
    """The program's folders: under EBB_HOME when that is set, otherwise where the platform keeps such things."""
    home = environment.get("EBB_HOME")
    if home:
        root = Path(home).expanduser().absolute()
        return Folders(root / "config", root / "data", root / "logs")
    import platformdirs  # noqa: PLC0415  # deferred: not needed when EBB_HOME says it

    dirs = platformdirs.PlatformDirs("ebbtide", appauthor=False)
    return Folders(Path(dirs.user_config_dir), Path(dirs.user_data_dir), Path(dirs.user_log_dir))


def find_project(folder: Path) -> Path:
    """The top of the git work tree that the folder is in, or the folder itself; a real path."""
    real = folder.resolve()
    for candidate in (real, *real.parents):
        if (candidate / ".git").exists():
            return candidate
    return real


def load_config(
    folder: Path, environment: Mapping[str, str], flags: Mapping[str, object], settings: tuple[str, ...] = ()
) -> Config:
    """The configuration of a run in a folder. `flags` holds keys and values of command line flags, `settings` the
    KEY=VALUE texts of `--config`. Raises `ConfigError`."""
    folders, project = find_folders(environment), find_project(folder)
    values = {option.key: option.default for option in OPTIONS}
    sources = {option.key: "default" for option in OPTIONS}
    providers: dict[str, dict[str, object]] = {}
    notices: list[str] = []

    user_file = folders.config / "config.toml"
    _merge(read_toml(user_file), str(user_file), values, sources, providers, notices)
    project_file = project / ".ebb" / "config.toml"
    _tighten(read_toml(project_file), str(project_file), values, sources, notices)
    for option in OPTIONS:
        if option.environment and option.environment in environment:
            source = f"environment {option.environment}"
            values[option.key] = _parsed(option.parse, environment[option.environment], source, option.key)
            sources[option.key] = source
    for text in settings:
        _merge(parse_setting(text), f"--config {text}", values, sources, providers, notices)
    for key, value in flags.items():
        if key.startswith("permissions."):
            value = (*_rules(values[key]), *_rules(value))
        values[key] = _parsed(_BY_KEY[key].parse, value, "the command line", key)
        sources[key] = "command line"

    notices += [
        f"`{key}` is accepted, but this version does nothing with it" for key in NO_EFFECT if sources[key] != "default"
    ]
    return Config(
        folders=folders,
        project=project,
        providers={name: ProviderConfig(**cast(dict[str, Any], table)) for name, table in providers.items()},
        sources=sources,
        notices=tuple(notices),
        **cast(dict[str, Any], {field_of(key): value for key, value in values.items()}),
    )


def read_toml(path: Path) -> dict[str, object]:
    """The tables of a TOML file, or nothing when it is not there. Raises `ConfigError`."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror or error}") from error
    import tomllib  # noqa: PLC0415  # deferred: most runs have no file to read

    try:
        return tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read `{path}`: {error}") from error


def parse_setting(text: str) -> dict[str, object]:
    """The tables that a `--config a.b=V` stands for; V is TOML when it parses as that, otherwise a text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"`--config {text}` is not KEY=VALUE; write for example `--config agent.max_turns=20`")
    import tomllib  # noqa: PLC0415  # deferred: most runs have no setting to parse

    try:
        parsed: object = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    try:
        keyed = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{key}` in `--config {text}` is not a key: {error}") from error
    return _with_leaf(keyed, parsed)


def _with_leaf(tables: dict[str, object], value: object) -> dict[str, object]:
    ((name, inner),) = tables.items()
    return {name: _with_leaf(inner, value) if isinstance(inner, dict) else value}


def _parsed(parse: Callable[[object], object], value: object, source: str, key: str) -> object:
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigError(f"{source}: `{key}` is {value!r}, but must be {error}") from error


def _merge(
    tables: Mapping[str, object],
    source: str,
    values: dict[str, object],
    sources: dict[str, str],
    providers: dict[str, dict[str, object]],
    notices: list[str],
) -> None:
    for section, table in tables.items():
        if section == "providers" and isinstance(table, dict):
            _merge_providers(table, source, sources, providers)
    for setting in translate(_flat({name: table for name, table in tables.items() if name != "providers"})):
        named = f"{source} ({setting.written})" if setting.written else source
        if setting.without_effect:
            notices.append(f"{named}: {setting.without_effect}")
            continue
        option = _option(setting.key, source)
        values[setting.key] = _parsed(option.parse, setting.value, source, setting.written or setting.key)
        sources[setting.key] = named
        if setting.key == "agent.compact_trigger":
            values["agent.threshold_ratio"], sources["agent.threshold_ratio"] = None, "default"
        if setting.key == "agent.threshold_ratio":
            sources["agent.compact_trigger"] = f"{source} ({setting.written or 'threshold_ratio'})"


def _flat(tables: Mapping[str, object]) -> list[tuple[str, object]]:
    """Keys with their table, and what they are set to."""
    flat: list[tuple[str, object]] = []
    for section, table in tables.items():
        if isinstance(table, dict):
            flat += [(f"{section}.{key}", value) for key, value in table.items()]
        else:
            flat.append((section, table))
    return flat


def _option(key: str, source: str) -> Option:
    if key in _BY_KEY:
        return _BY_KEY[key]
    import difflib  # noqa: PLC0415  # deferred: only a mistake needs it

    close = difflib.get_close_matches(key, _BY_KEY, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(f'`{name}`' for name in close)}?" if close else "`ebb config` lists all keys"
    raise ConfigError(f"{source}: there is no key `{key}`; {hint}")


def _merge_providers(
    tables: Mapping[str, object], source: str, sources: dict[str, str], providers: dict[str, dict[str, object]]
) -> None:
    for name, table in tables.items():
        if name not in PROVIDERS:
            raise ConfigError(f"{source}: there is no provider `{name}`; the providers are {', '.join(PROVIDERS)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: `providers.{name}` must be a table")
        merged = providers.setdefault(name, {})
        for written, value in table.items():
            key = snake_case(written)
            full = f"providers.{name}.{key}"
            if key == "models":
                models = cast(dict[str, Mapping[str, object]], merged.setdefault("models", {}))
                for model, facts in _models(value, source, full).items():
                    models[model] = {**models.get(model, {}), **facts}
                    sources.update({f"{full}.{model}.{fact}": source for fact in facts})
                continue
            if key in _PROVIDER_KEYS:
                merged[key] = _parsed(_PROVIDER_KEYS[key], value, source, full)
            else:
                allowed = ", ".join([*_PROVIDER_KEYS, "models"])
                raise ConfigError(f"{source}: there is no key `{full}`; allowed are {allowed}")
            sources[full] = source


def _models(value: object, source: str, full: str) -> dict[str, dict[str, object]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ConfigError(f"{source}: `{full}` must hold one table a model")
    models = {}
    for model, table in value.items():
        table = {snake_case(key): value for key, value in table.items()}
        unknown = set(table) - set(_MODEL_KEYS)
        if unknown:
            raise ConfigError(
                f"{source}: there is no key `{full}.{model}.{min(unknown)}`; allowed are {', '.join(_MODEL_KEYS)}"
            )
        models[model] = {key: _parsed(_MODEL_KEYS[key], v, source, f"{full}.{model}.{key}") for key, v in table.items()}
    return models


def _tighten(
    tables: Mapping[str, object], source: str, values: dict[str, object], sources: dict[str, str], notices: list[str]
) -> None:
    for key, value in _flat(tables):
        option = _BY_KEY.get(key)
        if option is None or option.tightens is None:
            notices.append(f"`{key}` in {source} was left out: a project may only tighten permissions")
            continue
        tightened = option.tightens(values[key], _parsed(option.parse, value, source, key))
        if tightened == values[key]:
            notices.append(f"`{key}` in {source} was left out: it would not tighten anything")
            continue
        values[key], sources[key] = tightened, source
