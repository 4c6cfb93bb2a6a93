"""Validates the values of settings."""

import re
import shlex
import sys
from collections.abc import Callable, Mapping

from ebbtide.tools.lazy import dataclass

MAX_NUMBER = sys.float_info.max


@dataclass(frozen=True, slots=True)
class AfterToolHook:
    """A program that receives the outputs of some calls."""

    match: str
    """A permission rule that selects the calls."""
    command: str | tuple[str, ...]
    """A shell command line, or a program with its arguments."""
    timeout: float = 60.0
    """Timeout in seconds."""

    @property
    def command_line(self) -> str:
        """The command as a shell command line."""
        return self.command if isinstance(self.command, str) else shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """Accepts None as well as the values that `parse` accepts."""

    parse: Callable[[object], object]

    def __call__(self, value: object) -> object:
        return None if value is None else self.parse(value)


@dataclass(frozen=True, slots=True)
class BoundedNumber:
    """Accepts positive numbers up to a maximum."""

    allowed_text: str
    """Description of the allowed values, for the error message."""
    maximum: float = MAX_NUMBER
    allows_zero: bool = False

    def __call__(self, value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= self.maximum:
            raise ValueError(self.allowed_text)
        if not value and not self.allows_zero:
            raise ValueError(self.allowed_text)
        return float(value)


parse_seconds = BoundedNumber("a number of seconds above 0")
parse_optional_seconds = OptionalValue(BoundedNumber("a number of seconds, or 0 to not wait", allows_zero=True))
optional_days = OptionalValue(BoundedNumber("a number of days above 0"))
parse_dollars = OptionalValue(BoundedNumber("a number of US dollars above 0"))
parse_factor = BoundedNumber("a number above 0")
parse_share = BoundedNumber("a number above 0 and at most 1", maximum=1)
optional_share = OptionalValue(parse_share)
temperature = BoundedNumber("a number from 0 to 2", maximum=2, allows_zero=True)


def nonempty_text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("a quoted string")


optional_text = OptionalValue(nonempty_text)


def positive_integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError("a whole number above 0")


optional_count = OptionalValue(positive_integer)

MAX_KEEP_ALIVE_REQUESTS = 3


def parse_keep_alive(value: object) -> int | str:
    if value == "off":
        return "off"
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_KEEP_ALIVE_REQUESTS:
        return value
    raise ValueError(f'"off", or the maximum number of requests in one pause, from 1 to {MAX_KEEP_ALIVE_REQUESTS}')


def parse_nonempty_strings(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(text, str) and text for text in value):
        return tuple(value)
    raise ValueError("a list of texts in quotes")


def after_tool_hooks(value: object) -> tuple[AfterToolHook, ...]:
    try:
        if isinstance(value, list | tuple):
            return tuple(_after_tool_hook(table) for table in value)
    except ValueError:
        pass
    raise ValueError(
        'tables such as {match = "bash(git *)", command = ["notify", "-q"], timeout = 60}: `match` is a permission '
        "rule, `command` a list or a shell command line, `timeout` seconds"
    )


def _after_tool_hook(table: object) -> AfterToolHook:
    if isinstance(table, AfterToolHook):
        return table
    if not isinstance(table, dict) or not {"match", "command"} <= set(table) <= {"match", "command", "timeout"}:
        raise ValueError
    command = table["command"]
    parsed_command = nonempty_text(command) if isinstance(command, str) else parse_nonempty_strings(command)
    if not parsed_command:
        raise ValueError
    return AfterToolHook(nonempty_text(table["match"]), parsed_command, parse_seconds(table.get("timeout", 60.0)))


def tokenizer_name(value: object) -> str:
    """Validate the name of a tokenizer. Whether its vocabulary is available is checked on first use."""
    if isinstance(value, str) and re.fullmatch(TOKENIZER_PATTERN, value):
        return value
    raise ValueError(
        'one of "tiktoken:NAME" (an encoding or a model of OpenAI), "anthropic", "claude:NAME", "gemini", '
        '"google:gemini", "google-gemini", "approximate", "approximate:2.5" (characters per token) or "bytes"'
    )


@dataclass(frozen=True, slots=True)
class OneOf:
    """Accepts one of a fixed set of names."""

    allowed_names: tuple[str, ...]
    former_names: tuple[tuple[str, str], ...] = ()
    """Former names, each with the current name. They are still accepted."""

    def __call__(self, value: object) -> object:
        value = next((current_name for former_name, current_name in self.former_names if value == former_name), value)
        if value in self.allowed_names:
            return value
        raise ValueError("one of " + ", ".join(f'"{name}"' for name in self.allowed_names))


def one_of(*allowed: str, former_names: Mapping[str, str] | None = None) -> OneOf:
    return OneOf(allowed, tuple((former_names or {}).items()))


def offered_values(parse: Callable[[object], object]) -> tuple[str, ...]:
    """Return the names that a setting accepts; empty if it accepts other values."""
    match parse:
        case OptionalValue(inner):
            return offered_values(inner)
        case OneOf(names):
            return names
    return ()


TOKENIZER_PATTERN = (
    r"tiktoken:.+|anthropic(:.*)?|claude:.*|gemini(:.*)?|google:gemini.*|google-gemini.*|"
    r"approximate(:[1-9](\.\d+)?)?|bytes"
)
"""Names of tokenizers, as a regular expression."""

PRICE_KEYS = ("input", "output", "cache_read", "cache_write")


def parse_prices(value: object) -> Mapping[str, float]:
    if (
        isinstance(value, dict)
        and set(value) <= set(PRICE_KEYS)
        and all(
            isinstance(price, int | float) and not isinstance(price, bool) and price >= 0 for price in value.values()
        )
    ):
        return {name: float(price) for name, price in value.items()}
    raise ValueError("a table of US dollars per million tokens: input, output, cache_read, cache_write")


def parse_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


def parse_strings(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return tuple(value)
    raise ValueError("a list of texts in quotes")


def command_words(value: object) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else parse_strings(value)
    if words and words[0]:
        return words
    raise ValueError("a program, or a list of a program and its arguments, in quotes")


def shell_command(value: object) -> str | tuple[str, ...]:
    """Validate a shell command line, or a list of a program and its arguments."""
    if isinstance(value, str):
        return nonempty_text(value)
    try:
        return command_words(value)
    except ValueError as error:
        raise ValueError("a shell command in quotes, or a list of a program and its arguments") from error


WEB_SEARCH_CHOICES = ("auto", "provider", "off")


def web_search(value: object) -> str | tuple[str, ...]:
    """Validate the setting for web search: one of the choices, or a program with arguments. An empty list means
    `off`."""
    if value in ([], ()):
        return "off"
    return str(value) if value in WEB_SEARCH_CHOICES else command_words(value)


def text_table(value: object) -> Mapping[str, str]:
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return dict(value)
    raise ValueError("a table of quoted strings")


def file_extensions(value: object) -> tuple[str, ...]:
    """Validate file name endings, and normalise them to start with a dot."""
    extensions = parse_nonempty_strings(value)
    if extensions and all(re.fullmatch(r"\.?[\w+#-]+", ending) for ending in extensions):
        return tuple(f".{ending.removeprefix('.').lower()}" for ending in extensions)
    raise ValueError('a list of file name endings, such as [".py", ".pyi"]')


def nested_table(value: object) -> Mapping[str, object]:
    if isinstance(value, dict):
        return dict(value)
    raise ValueError("a table")


def parse_port(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65_536:
        return value
    raise ValueError("a port, a whole number from 1 to 65535")
