"""One-line titles of tool calls, built from their names and arguments."""

from collections.abc import Iterator, Mapping

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import first_line, traits_of
from ebbtide.tui.text.sanitise import sanitise_line

_MAX_TITLE_CHARS = 400
"""Maximum length of a title in characters. Rendering cuts it to the width of the screen."""


_PATH_ARGUMENTS = ("path", "file_path", "notebook_path", "workdir")
"""Arguments that are paths."""


def with_relative_arguments(arguments: Mapping[str, object], folder: str) -> Mapping[str, object]:
    """Make paths in the arguments relative if they are inside the working folder. Models often use absolute paths,
    which would repeat the folder on every line."""
    folder_prefix = f"{folder}/"
    paths = {name: path for name in _PATH_ARGUMENTS if isinstance(path := arguments.get(name), str)}
    relative_paths = {
        name: path.removeprefix(folder_prefix).rstrip("/") or "."
        for name, path in paths.items()
        if _is_inside(path, folder_prefix)
    }
    return {**arguments, **relative_paths} if relative_paths else arguments


def _is_inside(path: str, folder_prefix: str) -> bool:
    """Whether the path starts with the folder's path. The file system is not checked. The root folder `/` never
    matches."""
    return folder_prefix.strip("/") != "" and path.startswith(folder_prefix) and "/../" not in f"{path}/"


def call_title(name: str, arguments: Mapping[str, object]) -> str:
    """Build a title from the tool's name and its main argument: `bash pytest -q`, `read a.py:10-40`."""
    subject = (traits_of(name).get_subject or _all_arguments_text)(arguments)
    title = f"{name}  {subject}" if subject else name
    return sanitise_line(title[:_MAX_TITLE_CHARS])


def _all_arguments_text(arguments: Mapping[str, object]) -> str:
    """Format the arguments with their names. If there is only one and it is text, its name is left out."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return first_line(values[0])
    return ", ".join(f"{name}: {_value_summary(value)}" for name, value in arguments.items())


def _value_summary(value: object) -> str:
    match value:
        case str():
            return first_line(value[:_MAX_TITLE_CHARS])
        case list() | tuple():
            return pluralize(len(value), "item")
        case Mapping():
            return pluralize(len(value), "field")
        case _:
            return _scalar_text(value)


def _scalar_text(value: object) -> str:
    """Express a scalar value in plain words."""
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def argument_lines(arguments: Mapping[str, object]) -> Iterator[str]:
    """Format all arguments as `name: value` lines, indenting nested values."""
    for name, value in arguments.items():
        yield from _value_lines(f"{name}: ", value, "")


def _value_lines(label: str, value: object, indent: str) -> Iterator[str]:
    child_indent = f"{indent}  "
    match value:
        case Mapping() if value:
            yield f"{indent}{label}".rstrip()
            for name, item in value.items():
                yield from _value_lines(f"{name}: ", item, child_indent)
        case list() | tuple() if value:
            yield f"{indent}{label}".rstrip()
            for item in value:
                yield from _value_lines("- ", item, child_indent)
        case Mapping() | list() | tuple():
            yield f"{indent}{label}(empty)"
        case str() if "\n" in value:
            yield f"{indent}{label}".rstrip()
            yield from (f"{child_indent}{line}" for line in value.split("\n"))
        case str():
            yield f"{indent}{label}{value}"
        case _:
            yield f"{indent}{label}{_scalar_text(value)}"
