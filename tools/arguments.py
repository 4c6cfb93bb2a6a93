"""A call's arguments as Python values. They were checked against the schema; this is where they get their types."""

from typing import TypeVar

from tools.base import Arguments, ToolError

T = TypeVar("T", str, int, bool)


def text(arguments: Arguments, name: str, default: str | None = None) -> str:
    return _value(arguments, name, str, default)


def number(arguments: Arguments, name: str, default: int) -> int:
    return _value(arguments, name, int, default)


def flag(arguments: Arguments, name: str) -> bool:
    return _value(arguments, name, bool, False)


def items(arguments: Arguments, name: str) -> tuple[object, ...]:
    """The items of a list, or none when it was left out."""
    value = arguments.get(name) or ()
    if not isinstance(value, list | tuple):
        raise ToolError(f"`{name}` must be a list")
    return tuple(value)


def _value(arguments: Arguments, name: str, kind: type[T], default: T | None) -> T:
    value = arguments.get(name)
    if value is None:
        value = default
    if not isinstance(value, kind):
        raise ToolError(f"`{name}` is missing" if value is None else f"`{name}` must be of type {kind.__name__}")
    return value
