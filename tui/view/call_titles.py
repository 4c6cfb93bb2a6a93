"""One-line titles of tool calls, from their names and arguments."""

import shlex
from collections.abc import Iterator, Mapping

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.sanitise import sanitised_line

_MAX_TITLE_CHARS = 400
"""Maximum characters of a title; drawing cuts it to the screen."""


_PATHS = ("path", "file_path", "notebook_path", "workdir")
"""Arguments that are paths."""


def within(arguments: Mapping[str, object], folder: str) -> Mapping[str, object]:
    """The arguments with paths relative to the working folder. Models often use absolute paths, which repeat it on
    each line."""
    inside = f"{folder}/"
    found = {name: path for name in _PATHS if isinstance(path := arguments.get(name), str)}
    near = {name: path.removeprefix(inside).rstrip("/") or "." for name, path in found.items() if _is_in(path, inside)}
    return {**arguments, **near} if near else arguments


def _is_in(path: str, inside: str) -> bool:
    """Whether `path` is inside `inside`, by name; false for `/`, which contains everything."""
    return inside.strip("/") != "" and path.startswith(inside) and "/../" not in f"{path}/"


def title_of(name: str, arguments: Mapping[str, object]) -> str:
    """The tool's name and its main argument: `bash pytest -q`, `read a.py:10-40`."""
    subject = _subject(name, arguments)
    title = f"{name}  {subject}" if subject else name
    return sanitised_line(title[:_MAX_TITLE_CHARS])


def command_of(arguments: Mapping[str, object]) -> str:
    """The command line, relative to the working folder; empty if the call runs none."""
    command, folder = _text(arguments, "command"), _text(arguments, "workdir")
    if job := _text(arguments, "job"):
        return f"{job} <<< {command}" if command else ""
    return f"cd {shlex.quote(folder)} && {command}" if command and folder not in ("", ".") else command


def path_of(arguments: Mapping[str, object]) -> str:
    return _text(arguments, "path") or _text(arguments, "file_path")


def _subject(name: str, arguments: Mapping[str, object]) -> str:
    match name:
        case "bash":
            return _first_line(command_of(arguments))
        case "read":
            return path_of(arguments) + _line_range(arguments)
        case "write" | "edit":
            return path_of(arguments)
        case "edit_notebook":
            return f"{path_of(arguments)}  {arguments.get('action')} cell {arguments.get('cell')}"
        case "apply_patch":
            return ", ".join(_patched_files(_text(arguments, "patch") or _text(arguments, "input")))
        case "web_fetch":
            return _text(arguments, "url")
        case "web_search":
            return _text(arguments, "query")
        case "glob":
            return _text(arguments, "pattern")
        case "grep":
            return _within(_text(arguments, "pattern"), path_of(arguments))
        case "ask_user":
            return _first_line(_text(arguments, "question"))
        case "task":
            return f"{_text(arguments, 'agent')}  {_first_line(_text(arguments, 'prompt'))}"
        case "submit_plan":
            return _first_line(_text(arguments, "plan").lstrip("# \n"))
        case "memory":
            return f"{_text(arguments, 'action')} {_text(arguments, 'name')}".rstrip()
        case "symbols":
            line = _number(arguments, "line")
            where = path_of(arguments) + (f":{line}" if line is not None else "")
            asked = f"{_text(arguments, 'find').replace('_', ' ')} {_text(arguments, 'name')}".strip()
            return f"{asked}  in {where}"
        case "repo_map":
            focus = arguments.get("focus")
            return ", ".join(map(str, focus)) if isinstance(focus, list | tuple) else path_of(arguments)
        case "todo":
            return ""
        case "read_result":
            wanted = _text(arguments, "pattern") or _text(arguments, "lines")
            return f"{_text(arguments, 'ref_id')}  {wanted}".rstrip()
        case "recall":
            wanted = _text(arguments, "search") or _text(arguments, "lines")
            return f"{_text(arguments, 'ref_id')}  {wanted}".strip() or _sought(arguments)
        case "bash_output" | "bash_kill":
            return _text(arguments, "job") or _text(arguments, "id")
        case _:
            return _plain(arguments)


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _sought(arguments: Mapping[str, object]) -> str:
    """What a search looks for, or else its filter."""
    filters = (f"{name} {value}" for name, value in arguments.items() if name != "query")
    return _first_line(_text(arguments, "query")) or ", ".join(filters)


def _number(arguments: Mapping[str, object], name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _first_line(text: str) -> str:
    first, *rest = text.strip().split("\n", 1)
    return f"{first} …" if rest else first


def _line_range(arguments: Mapping[str, object]) -> str:
    start, count = _number(arguments, "offset"), _number(arguments, "limit")
    if start is None and count is None:
        return ""
    first = start or 1
    return f":{first}-" if count is None else f":{first}-{first + count - 1}"


def _within(pattern: str, path: str) -> str:
    return f"{pattern}  in {path}" if path else pattern


def _patched_files(patch: str) -> tuple[str, ...]:
    marks = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")
    named = tuple(line.split(": ", 1)[1] for line in patch.split("\n") if line.lstrip().startswith(marks))
    return named or tuple(line[4:].removeprefix("b/") for line in patch.split("\n") if line.startswith("+++ "))


def _plain(arguments: Mapping[str, object]) -> str:
    """The only text argument, or several with their names."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return _first_line(values[0])
    return ", ".join(f"{name}: {_brief(value)}" for name, value in arguments.items())


def _brief(value: object) -> str:
    match value:
        case str():
            return _first_line(value[:_MAX_TITLE_CHARS])
        case list() | tuple():
            return pluralize(len(value), "item")
        case Mapping():
            return pluralize(len(value), "field")
        case _:
            return _word(value)


def _word(value: object) -> str:
    """A scalar value in plain words."""
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def argument_lines(arguments: Mapping[str, object]) -> Iterator[str]:
    """All arguments as `name: value` lines, nested values indented."""
    for name, value in arguments.items():
        yield from _lines_of(f"{name}: ", value, "")


def _lines_of(start: str, value: object, indent: str) -> Iterator[str]:
    deeper = f"{indent}  "
    match value:
        case Mapping() if value:
            yield f"{indent}{start}".rstrip()
            for name, inner in value.items():
                yield from _lines_of(f"{name}: ", inner, deeper)
        case list() | tuple() if value:
            yield f"{indent}{start}".rstrip()
            for inner in value:
                yield from _lines_of("- ", inner, deeper)
        case Mapping() | list() | tuple():
            yield f"{indent}{start}nothing"
        case str() if "\n" in value:
            yield f"{indent}{start}".rstrip()
            yield from (f"{deeper}{line}" for line in value.split("\n"))
        case str():
            yield f"{indent}{start}{value}"
        case _:
            yield f"{indent}{start}{_word(value)}"
