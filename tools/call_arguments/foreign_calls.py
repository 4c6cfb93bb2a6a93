"""Translates calls written for other agents' tools: argument names, and helpers for `ToolTraits.adapt_arguments` that
convert values."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

from ebbtide.tools.base import Arguments
from ebbtide.tools.lazy import regex
from ebbtide.tools.tool_traits import traits_of

FILE_ARGUMENTS = "file_path file filename absolute_path target_file relative_path notebook_path"
FOLDER_ARGUMENTS = (
    "directory dir folder dir_path directory_path search_path search_directory relative_workspace_path target_directory"
)
JOB_ARGUMENTS = "bash_id job_id id shell_id task_id terminal_id process_id session_id"
"""Other agents' names for arguments that contain a file, a folder or a background job."""

LISTING_TOOLS = ("ls", "list", "listdirectory", "listdir", "listfiles", "repobrowserprinttree")
"""Tools that list a folder. Like the names below, these are in the form that `normalise_name` returns."""
EDITOR_TOOLS = ("strreplaceeditor", "strreplacebasededittool", "texteditor", "developertexteditor", "fileeditor")
"""Tools whose `command` argument selects the action."""
TERMINAL_INPUT_TOOLS = ("writestdin", "sendinput", "writetoterminal", "sendkeys", "sendcommandinput", "terminalinput")
"""Tools that type into a running program."""
TERMINAL_INPUT_ARGUMENTS = ("chars", "text", "input", "keys", "data", "command")
"""Arguments of `TERMINAL_INPUT_TOOLS` that contain the text to type."""
_DURATION = regex(r"\s*(\d{1,9})\s*(ms|s|sec|secs|seconds?|m|min|mins|minutes?)\s*")
MAX_PLAUSIBLE_SECONDS = 1_000
"""Maximum plausible duration, in seconds. A larger number is assumed to be in milliseconds."""


def normalise_name(name: str) -> str:
    """Return the name in lower case, without separators."""
    return re.sub(r"[^a-z0-9]", "", name[:200].casefold())


def index_by_alias(aliases: Mapping[str, str]) -> Mapping[str, str]:
    """Map each normalised alias to its key. The values of `aliases` are names separated by spaces."""
    return {normalise_name(alias): name for name, alias_list in aliases.items() for alias in alias_list.split()}


def is_editor_call(called_name: str, arguments: Mapping[str, object], *commands: str) -> bool:
    """Whether this is a call to a tool in `EDITOR_TOOLS` for one of these commands."""
    return called_name in EDITOR_TOOLS and arguments.get("command") in commands


def is_terminal_input_call(called_name: str, arguments: Mapping[str, object]) -> bool:
    """Whether this is a call to a tool in `TERMINAL_INPUT_TOOLS` with text to type. A call without text only reads the
    program's output."""
    return called_name in TERMINAL_INPUT_TOOLS and any(
        isinstance(value, str) and value
        for name, value in arguments.items()
        if normalise_name(name) in TERMINAL_INPUT_ARGUMENTS
    )


def pop_argument(arguments: dict[str, object], *names: str) -> object:
    """Remove all arguments with these names; return the value of the first one, or None."""
    matching = [name for name in arguments if normalise_name(name) in names]
    values = [arguments.pop(name) for name in matching]
    return values[0] if values else None


def to_integer(value: object) -> int | None:
    """Convert a value to an integer. None if it does not represent one. Accepts strings, and floats without a
    fraction."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e15 < value < 1e15:
        return None
    return int(value) if value == int(value) else None


def parse_json_list(text: str) -> Sequence[object] | None:
    try:
        parsed = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list) else None


def convert_to_seconds(arguments: dict[str, object], name: str) -> None:
    """Convert a duration to seconds and store it in the argument `name`. It may have been given under a name such as
    `NAME_ms`."""
    for alias in [key for key in arguments if normalise_name(key) in (f"{name}ms", f"{name}milliseconds")]:
        milliseconds = to_integer(arguments.pop(alias))
        if milliseconds is not None:
            arguments.setdefault(name, max(-(-milliseconds // 1000), 1))
    for alias in [key for key in arguments if normalise_name(key) in (f"{name}seconds", f"{name}secs", f"{name}sec")]:
        arguments.setdefault(name, arguments.pop(alias))
    if isinstance(duration := arguments.get(name), str) and (match := _DURATION.fullmatch(duration)) is not None:
        factor = 0.001 if match[2] == "ms" else 60 if match[2].startswith("m") else 1
        arguments[name] = max(int(int(match[1]) * factor), 1)
        return
    seconds = to_integer(arguments.get(name))
    if seconds is not None and seconds > MAX_PLAUSIBLE_SECONDS:
        arguments[name] = -(-seconds // 1000)
    elif seconds is not None and seconds < 1 and name == "timeout":
        arguments.pop(name)  # a value below 1 means no timeout


ArgumentValues: TypeAlias = dict[str, object]

_IGNORED_ARGUMENTS = frozenset(
    {
        "description", "explanation", "summary", "thought", "thinking", "reason", "justification", "requiresapproval",
        "safetoautorun", "withescalatedpermissions", "sandboxpermissions", "securityrisk", "isinput", "merge", "n",
        "shouldreadentirefile", "expectedreplacements", "expectedcount", "ignore", "multiselect", "header", "block",
        "yieldtimems", "maxoutputtokens", "login", "tty", "isregexp", "recursive", "respectgitignore", "instruction",
        "goal", "displaydescription",
    }
)  # fmt: skip
"""Arguments of other agents' tools that have no effect here. They are dropped silently."""


@cache
def _names_by_argument_alias(tool: str) -> Mapping[str, str]:
    return index_by_alias(traits_of(tool).argument_aliases)


def translate_arguments(
    tool: str, called_name: str, arguments: Arguments, parameters: Collection[str], root: str
) -> ArgumentValues:
    """Rename the arguments to Ebbtide's names, and convert values whose meaning differs here. Unknown arguments keep
    their names. `called_name`: the tool name in the call. `root`: the working folder, in which commands run by default.
    Raises `ToolError` if Ebbtide has no equivalent tool."""
    names = _names_by_argument_alias(tool)
    translated: ArgumentValues = {name: value for name, value in arguments.items() if name in parameters}
    if normalise_name(called_name) in EDITOR_TOOLS:
        translated.pop("command", None)
        arguments = {name: value for name, value in arguments.items() if name != "command"}
    for name, value in arguments.items():
        key = normalise_name(name)
        target_name = names.get(key) or next(
            (parameter for parameter in parameters if normalise_name(parameter) == key), name
        )
        is_free = target_name in parameters and translated.get(target_name, value) == value
        translated.setdefault(target_name if is_free else name, value)
    if (adapt := traits_of(tool).adapt_arguments) is not None:
        adapt(translated, normalise_name(called_name), root)
    return translated


def argument_names(tool: str, schema: Mapping[str, object]) -> Iterator[str]:
    """Yield the normalised names of a schema's arguments, and other agents' names for them."""
    properties = schema.get("properties")
    yield from map(normalise_name, properties if isinstance(properties, Mapping) else ())
    yield from _names_by_argument_alias(tool)


def split_unknown_arguments(
    arguments: Arguments, parameters: Collection[str]
) -> tuple[ArgumentValues, tuple[str, ...]]:
    """Return the arguments that the tool supports, and the names of unknown ones that might have mattered."""
    known_arguments = {name: value for name, value in arguments.items() if name in parameters}
    return known_arguments, tuple(
        name for name in arguments if name not in parameters and normalise_name(name) not in _IGNORED_ARGUMENTS
    )
