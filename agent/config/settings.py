"""The settings of a run: their values and sources, and changes in the user's file."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.config.load import parse_setting
from ebbtide.agent.config.options import BY_KEY, OPTIONS, Option
from ebbtide.agent.config.toml_file import put_value, take_value
from ebbtide.agent.config.values import Config, field_of
from ebbtide.agent.errors import ConfigError

SettingOrigin: TypeAlias = Literal["default", "yours", "project", "environment", "command line"]
Begins: TypeAlias = Literal["now", "from the next session on"]


_BOOLEAN_WORDS = {"on": "true", "yes": "true", "off": "false", "no": "false"}


@dataclass(frozen=True, slots=True)
class Setting:
    """The current state of one setting."""

    key: str
    value: object
    origin: SettingOrigin
    source: str
    """The origin, including the file, variable or flag."""
    default: object
    help: str
    tightens: bool
    """Whether a project may make it stricter."""

    @property
    def begins(self) -> Begins:
        """When a change takes effect."""
        return "now" if self.key.startswith("tui.") else "from the next session on"


class Settings:
    """The settings of a run; the user may change them while it runs."""

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        changed: Callable[[Config], None],
        environment: Mapping[str, str],
    ) -> None:
        """`load` reads the configuration again from all sources. `changed` is called with each new one."""
        self.config = config
        self._load = load
        self._changed = changed
        self.environment = environment

    def rows(self) -> tuple[Setting, ...]:
        """All settings, in table order."""
        return tuple(setting_of(option, self.config) for option in OPTIONS)

    def set_value(self, key: str, text: str) -> str:
        """Write a value to the user's file and return a message. Raises `ConfigError`."""
        put_value(self.file, key, value_of(key, text))
        return self._change_message(key, f"`{key}` is now {display_value(self._read_again(key).value)}")

    def use_environment(self, environment: Mapping[str, str]) -> None:
        """Replace the environment, which contains API keys, for sessions opened from now on."""
        self.environment = environment
        self._changed(self.config)

    def reload(self) -> None:
        """Read all files again. Raises `ConfigError`."""
        self.config = self._load()
        self._changed(self.config)

    def unset_value(self, key: str) -> str:
        """Remove a key from the user's file and return a message with the new value. Raises `ConfigError`."""
        take_value(self.file, key)
        setting = self._read_again(key)
        if setting.origin == "yours":
            raise ConfigError(f"`{key}` is set by another name in {setting.source}; remove it there by hand")
        return self._change_message(key, f"`{key}` is {display_value(setting.value)} again")

    @property
    def file(self) -> Path:
        """The user's configuration file."""
        return self.config.folders.config / "config.toml"

    def _read_again(self, key: str) -> Setting:
        self.reload()
        return setting_of(BY_KEY[key], self.config)

    def _change_message(self, key: str, what: str) -> str:
        setting = setting_of(BY_KEY[key], self.config)
        if setting.origin in ("environment", "command line", "project"):
            return f"{what}: {setting.source} wins over your file"
        return what if setting.begins == "now" else f"{what}, {setting.begins}"


def setting_of(option: Option, config: Config) -> Setting:
    source = config.sources[option.key]
    value = getattr(config, field_of(option.key))
    return Setting(
        option.key, value, origin_of(source, config), source, option.default, option.help, option.tightens is not None
    )


def origin_of(source: str, config: Config) -> SettingOrigin:
    """The layer that a source belongs to."""
    if source == "default":
        return "default"
    if source == "command line" or source.startswith("--config"):
        return "command line"
    if source.startswith("environment"):
        return "environment"
    return "project" if source.startswith(str(config.project / ".ebb")) else "yours"


def value_of(key: str, text: str) -> object:
    """Parse the text of a value: as TOML if possible, otherwise as a string; `on` and `off` are accepted for booleans.
    Raises `ConfigError`."""
    if isinstance(BY_KEY[key].default, bool):
        text = _BOOLEAN_WORDS.get(text.strip().lower(), text)
    tables = parse_setting(f"{key}={text.strip()}")
    value: object = tables
    for _ in key.split("."):
        value = next(iter(value.values())) if isinstance(value, Mapping) else value
    try:
        BY_KEY[key].parse(value)
    except ValueError as error:
        raise ConfigError(f"`{key}` must be {error}") from error
    return value


def display_value(value: object) -> str:
    """Format a value for people."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(display_value, value)) or "none"
    return value if isinstance(value, str) and value else text_of(value)


def text_of(value: object) -> str:
    """Format a value as in the file; `not set` for None."""
    return "not set" if value is None else json.dumps(value, ensure_ascii=False, default=asdict)
