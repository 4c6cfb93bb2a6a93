"""Translates calls that are written for tools of other agents: the names of their arguments, and helpers that convert
values (`ToolTraits.adapt`). Pure."""

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
"""Names that other agents use for arguments with a file, a folder and a background job."""

LISTING_TOOLS = ("ls", "list", "listdirectory", "listdir", "listfiles", "repobrowserprinttree")
"""Tools that list a folder. These names and all those below are in the form that `normalised_name` returns."""
EDITOR_TOOLS = ("strreplaceeditor", "strreplacebasededittool", "texteditor", "developertexteditor", "fileeditor")
"""Tools whose `command` argument selects the action."""
TYPING_TOOLS = ("writestdin", "sendinput", "writetoterminal", "sendkeys", "sendcommandinput", "terminalinput")
"""Tools that type into a running program."""
TYPED_ARGUMENTS = ("chars", "text", "input", "keys", "data", "command")
"""The arguments of these tools that contain the typed text."""
_DURATION = regex(r"\s*(\d{1,9})\s*(ms|s|sec|secs|seconds?|m|min|mins|minutes?)\s*")
MAX_PLAUSIBLE_SECONDS = 1_000
"""Waiting times above this number are assumed to be in milliseconds rather than seconds."""


def normalised_name(name: str) -> str:
    """Return the name in lower case, without separators."""
    return re.sub(r"[^a-z0-9]", "", name[:200].casefold())


def names_by_alias(aliases: Mapping[str, str]) -> Mapping[str, str]:
    """Return a mapping from each name to its key. The values of `aliases` are names separated by blanks."""
    return {normalised_name(theirs): ours for ours, names in aliases.items() for theirs in names.split()}


def is_editor_call(called_name: str, arguments: Mapping[str, object], *commands: str) -> bool:
    """Whether a tool in `EDITOR_TOOLS` is called for one of these actions."""
    return called_name in EDITOR_TOOLS and arguments.get("command") in commands


def is_typing_call(called_name: str, arguments: Mapping[str, object]) -> bool:
    """Whether a tool in `TYPING_TOOLS` is called with text to type; without any text, such a call only looks at the
    output."""
    return called_name in TYPING_TOOLS and any(
        isinstance(value, str) and value
        for name, value in arguments.items()
        if normalised_name(name) in TYPED_ARGUMENTS
    )


def pop_argument(arguments: dict[str, object], *names: str) -> object:
    """Remove all arguments with these names; return the value of the first one, or None."""
    found = [name for name in arguments if normalised_name(name) in names]
    values = [arguments.pop(name) for name in found]
    return values[0] if values else None


def to_whole_number(value: object) -> int | None:
    """Return the integer that a value represents, or None. Accepts strings, and floats without a fraction."""
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
        read = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, list) else None


def convert_to_seconds(arguments: dict[str, object], name: str) -> None:
    """Convert a duration to seconds and store it in the argument `name`."""
    for theirs in [each for each in arguments if normalised_name(each) in (f"{name}ms", f"{name}milliseconds")]:
        milliseconds = to_whole_number(arguments.pop(theirs))
        if milliseconds is not None:
            arguments.setdefault(name, max(-(-milliseconds // 1000), 1))
    for theirs in [
        each for each in arguments if normalised_name(each) in (f"{name}seconds", f"{name}secs", f"{name}sec")
    ]:
        arguments.setdefault(name, arguments.pop(theirs))
    if isinstance(written := arguments.get(name), str) and (found := _DURATION.fullmatch(written)) is not None:
        factor = 0.001 if found[2] == "ms" else 60 if found[2].startswith("m") else 1
        arguments[name] = max(int(int(found[1]) * factor), 1)
        return
    seconds = to_whole_number(arguments.get(name))
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
def _our_names(tool: str) -> Mapping[str, str]:
    return names_by_alias(traits_of(tool).argument_aliases)


def translated_arguments(
    tool: str, called: str, arguments: Arguments, parameters: Collection[str], root: str
) -> ArgumentValues:
    """Return the arguments under the names used here, with values converted where their meaning differs. Unknown
    arguments keep their names. `root`: the working folder, which commands use by default. Raises `ToolError` if no tool
    here can do the same."""
    names = _our_names(tool)
    translated: ArgumentValues = {name: value for name, value in arguments.items() if name in parameters}
    if normalised_name(called) in EDITOR_TOOLS:
        translated.pop("command", None)
        arguments = {name: value for name, value in arguments.items() if name != "command"}
    for name, value in arguments.items():
        key = normalised_name(name)
        ours = names.get(key) or next((each for each in parameters if normalised_name(each) == key), name)
        is_free = ours in parameters and translated.get(ours, value) == value
        translated.setdefault(ours if is_free else name, value)
    if (adapt := traits_of(tool).adapt_arguments) is not None:
        adapt(translated, normalised_name(called), root)
    return translated


def argument_names(tool: str, schema: Mapping[str, object]) -> Iterator[str]:
    """Yield the normalised names of a schema's arguments, and the names that other agents use for them."""
    properties = schema.get("properties")
    yield from map(normalised_name, properties if isinstance(properties, Mapping) else ())
    yield from _our_names(tool)


def split_unknown_arguments(
    arguments: Arguments, parameters: Collection[str]
) -> tuple[ArgumentValues, tuple[str, ...]]:
    """Return the arguments that the tool has, and the names of unknown arguments that may have mattered."""
    known = {name: value for name, value in arguments.items() if name in parameters}
    return known, tuple(
        name for name in arguments if name not in parameters and normalised_name(name) not in _IGNORED_ARGUMENTS
    )
