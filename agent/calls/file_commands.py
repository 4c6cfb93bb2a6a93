"""Converts calls of file tools that other agents have, or that small models invent, into equivalent commands. Pure."""

import posixpath
import shlex
from collections.abc import Mapping

from ebbtide.agent.calls.tool_aliases import PREFIXES, plain_name
from ebbtide.tools.base import Arguments

_NAMES: Mapping[str, str] = {
    "rm": "delete_file remove_file delete remove rm unlink file_delete",
    "mv": "rename_file move_file rename move mv file_rename file_move",
    "cp": "copy_file copy cp file_copy",
    "mkdir": "create_directory create_folder make_directory create_dir mkdir make_dir make_folder",
    "touch": "touch touch_file create_empty_file",
    "append": "append append_file append_to_file append_text append_line append_lines file_append add_line add_lines "
    "add_text add_content add_code add_function add_class",
    "read": "read_many_files read_files read_multiple_files view_files",
    "python": "python run_python execute_python python_exec run_python_code execute_python_code python_interpreter",
}
_COMMAND_KINDS = {plain_name(name): does for does, names in _NAMES.items() for name in names.split()}

_PATH = (
    "path file filename filepath file_path file_name name target target_file target_path directory dir folder "
    "folder_path dir_path directory_path dirname folder_name absolute_path relative_path"
)
_FROM = "source src from source_path src_path old old_path old_name from_path path file file_path filename source_file"
_TO = (
    "destination dest dst to target destination_path dest_path dst_path new new_path new_name to_path target_path "
    "destination_file newname"
)
_TEXT = "content text line data string contents lines value input code function_code class_code body"
_NAMES_OF_CODE = ("functionname", "classname")
_CODE = "code script source input content"
_IDLE = ("recursive", "parents", "existok", "overwrite", "force", "createparents", "description", "explanation")
MOST_LINES = 2_000
"""Lines shown of each file."""
MAKES = {"rm": "rm", "mv": "mv", "cp": "cp", "mkdir": "mkdir -p", "touch": "touch", "python": "python3 -c"}


def command_kind(name: str) -> str:
    """What a tool with such a name does, in one word; empty if unknown."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return _COMMAND_KINDS.get(plain_name(name), "")


def command_for(name: str, arguments: Arguments) -> str | None:
    """The command equivalent to such a call; None if the tool is unknown, or its arguments are not the expected
    ones."""
    match command_kind(name):
        case "rm" | "mkdir" | "touch" as kind:
            path = _only(arguments, _PATH)
            is_tree = kind == "rm" and _flag(arguments, "recursive")
            return f"{MAKES[kind]}{' -r' if is_tree else ''} {_word(path)}" if path else None
        case "mv" | "cp" as kind:
            ends = _two(arguments)
            if ends is None:
                return None
            source, to = ends
            if plain_name(name).startswith("rename") and "/" not in to:
                to = posixpath.join(posixpath.dirname(source), to)  # it is renamed in its folder
            return f"{'mv -n' if kind == 'mv' else 'cp -r'} {_word(source)} {_word(to)}"
        case "append":
            return _append_command(arguments)
        case "read":
            return _show_command(arguments)
        case "python":
            code = _only(arguments, _CODE)
            return f"python3 -c {shlex.quote(code)}" if code else None
    return None


def _append_command(arguments: Arguments) -> str | None:
    given = {name: value for name, value in _without_idle(arguments).items() if plain_name(name) not in _NAMES_OF_CODE}
    path, text = _first(given, _PATH), _first(given, _TEXT)
    if path is None or text is None or len(given) != 2:
        return None
    file, said = _word(path[1]), shlex.quote(text[1].removesuffix("\n"))
    ended = f'test -z "$(tail -c 1 {file} 2>/dev/null)" || echo >> {file}'
    return f"{ended}; printf '%s\\n' {said} >> {file}"


def _show_command(arguments: Arguments) -> str | None:
    """Show all named files, each under its name."""
    given = {plain_name(name): value for name, value in _without_idle(arguments).items()}
    paths = next((given[name] for name in ("paths", "files", "filepaths", "include", "path") if name in given), None)
    paths = [paths] if isinstance(paths, str) else paths
    if len(given) != 1 or not isinstance(paths, list) or not paths:
        return None
    if any(not isinstance(path, str) or not path or set("*?[\0") & set(path) for path in paths):
        return None
    return f"head -n {MOST_LINES} {' '.join(map(_word, paths))}"


def _two(arguments: Arguments) -> tuple[str, str] | None:
    """The source and the target, if there are no other arguments."""
    given = _without_idle(arguments)
    to = _first(given, _TO)
    source = _first({name: value for name, value in given.items() if to is None or name != to[0]}, _FROM)
    return (source[1], to[1]) if source is not None and to is not None and len(given) == 2 else None


def _only(arguments: Arguments, names: str) -> str | None:
    given = _without_idle(arguments)
    found = _first(given, names)
    return found[1] if found is not None and len(given) == 1 else None


def _first(arguments: Arguments, names: str) -> tuple[str, str] | None:
    """The first text argument with one of these names, and its name."""
    plain = {plain_name(name): name for name in arguments}
    for each in map(plain_name, names.split()):
        if each in plain and isinstance(value := arguments[plain[each]], str) and value.strip() and "\0" not in value:
            return plain[each], value
    return None


def _without_idle(arguments: Arguments) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if plain_name(name) not in _IDLE}


def _flag(arguments: Arguments, name: str) -> bool:
    return any(plain_name(each) == name and value in (True, "true") for each, value in arguments.items())


def _word(path: str) -> str:
    """A path as a shell word that cannot be taken for an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
