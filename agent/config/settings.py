"""The settings of a run: their values and sources, and changes in the user's file."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.config.load import parse_setting, read_toml_text
from ebbtide.agent.config.options import OPTIONS, OPTIONS_BY_KEY, Option
from ebbtide.agent.config.toml_edit import remove_key, set_key
from ebbtide.agent.config.values import EDITOR_SOURCE, Config, config_field
from ebbtide.agent.errors import ConfigError

SettingOrigin: TypeAlias = Literal["default", "yours", "project", "environment", "command line"]
EffectTime: TypeAlias = Literal["now", "in the next session"]


_BOOLEAN_WORDS = {"on": "true", "yes": "true", "off": "false", "no": "false"}


@dataclass(frozen=True, slots=True)
class Setting:
    """The current state of one setting."""

    key: str
    value: object
    origin: SettingOrigin
    source: str
    """Source of the value, including the name of the file, variable or flag."""
    default: object
    description: str
    can_be_tightened: bool
    """Whether a project may make the setting stricter."""

    @property
    def effect_time(self) -> EffectTime:
        """The time when a change to the setting takes effect."""
        return "now" if self.key.startswith(("tui.", "context.")) else "in the next session"


class Settings:
    """The settings of a run, which the user may change while it runs."""

    def __init__(
        self,
        config: Config,
        load_config: Callable[[], Config],
        on_change: Callable[[Config], None],
        environment: Mapping[str, str],
    ) -> None:
        """`load_config`: reads the configuration again from all sources. `on_change`: called with each new
        configuration."""
        self.config = config
        self._load_config = load_config
        self._on_change = on_change
        self.environment = environment

    def all_settings(self) -> tuple[Setting, ...]:
        """Return all settings, in table order."""
        return tuple(current_setting(option, self.config) for option in OPTIONS)

    def set_value(self, key: str, text: str) -> str:
        """Write a value to the user's file, and return a message about the change. Raises `ConfigError`."""
        set_key(self.user_file, key, parse_setting_value(key, text))
        return self._change_message(key, f"`{key}` is now {format_for_display(self._reload_setting(key).value)}")

    def use_environment(self, environment: Mapping[str, str]) -> None:
        """Replace the environment, which contains API keys, for sessions that are opened later."""
        self.environment = environment
        self._on_change(self.config)

    def reload(self) -> None:
        """Read all files again. Raises `ConfigError`."""
        self.config = self._load_config()
        self._on_change(self.config)

    def unset_value(self, key: str) -> str:
        """Remove a key from the user's file, and return a message with the value that now applies. Raises
        `ConfigError`."""
        remove_key(self.user_file, key)
        setting = self._reload_setting(key)
        if setting.origin == "yours":
            raise ConfigError(f"`{key}` is set by another name in {setting.source}; remove it there by hand")
        return self._change_message(key, f"`{key}` is {format_for_display(setting.value)} again")

    def own_value(self, key: str) -> object:
        """Return the value in the user's file, or None. Raises `ConfigError`."""
        value: object = read_toml_text(self.user_file)[1]
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    @property
    def user_file(self) -> Path:
        """The user's configuration file."""
        return self.config.folders.config / "config.toml"

    def _reload_setting(self, key: str) -> Setting:
        self.reload()
        return current_setting(OPTIONS_BY_KEY[key], self.config)

    def _change_message(self, key: str, message: str) -> str:
        setting = current_setting(OPTIONS_BY_KEY[key], self.config)
        if setting.origin in ("environment", "command line", "project"):
            return f"{message}: {setting.source} overrides your file"
        return message if setting.effect_time == "now" else f"{message}; takes effect {setting.effect_time}"


def current_setting(option: Option, config: Config) -> Setting:
    source = config.sources[option.key]
    value = getattr(config, config_field(option.key))
    return Setting(
        option.key,
        value,
        setting_origin(source, config),
        source,
        option.default,
        option.description,
        option.tighten is not None,
    )


def setting_origin(source: str, config: Config) -> SettingOrigin:
    """Return the layer that a source belongs to."""
    if source == "default":
        return "default"
    if source in ("command line", EDITOR_SOURCE) or source.startswith("--config"):
        return "command line"
    if source.startswith("environment"):
        return "environment"
    return "project" if source.startswith(str(config.project_folder / ".ebb")) else "yours"


def parse_setting_value(key: str, text: str) -> object:
    """Parse the text of a value: as TOML if possible, otherwise as a string; `on` and `off` are accepted for booleans.
    Raises `ConfigError`."""
    if isinstance(OPTIONS_BY_KEY[key].default, bool):
        text = _BOOLEAN_WORDS.get(text.strip().lower(), text)
    tables = parse_setting(f"{key}={text.strip()}")
    value: object = tables
    for _ in key.split("."):
        value = next(iter(value.values())) if isinstance(value, Mapping) else value
    try:
        OPTIONS_BY_KEY[key].parse(value)
    except ValueError as error:
        raise ConfigError(f"`{key}` must be {error}") from error
    return value


def format_for_display(value: object) -> str:
    """Format a value for display."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_for_display, value)) or "none"
    return value if isinstance(value, str) and value else format_as_toml_value(value)


def format_as_toml_value(value: object) -> str:
    """Format a value as in the file; None becomes `not set`."""
    return "not set" if value is None else json.dumps(value, ensure_ascii=False, default=asdict)
