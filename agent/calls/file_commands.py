"""Converts calls to other agents' file tools, or to file tools that small models made up, into equivalent commands."""

import posixpath
import shlex
from collections.abc import Mapping

from ebbtide.agent.calls.tool_aliases import NAME_PREFIXES
from ebbtide.tools.base import Arguments
from ebbtide.tools.call_arguments.foreign_calls import normalise_name

_TOOL_NAMES: Mapping[str, str] = {
    "rm": "delete_file remove_file delete remove rm unlink file_delete",
    "mv": "rename_file move_file rename move mv file_rename file_move",
    "cp": "copy_file copy cp file_copy",
    "mkdir": "create_directory create_folder make_directory create_dir mkdir make_dir make_folder",
    "touch": "touch touch_file create_empty_file",
    "append": "append append_file append_to_file append_text append_line append_lines file_append add_line add_lines "
    "add_text add_content add_code add_function add_class",
    "show": "read_many_files read_files read_multiple_files view_files",
    "python": "python run_python execute_python python_exec run_python_code execute_python_code python_interpreter",
}
_COMMAND_KINDS = {normalise_name(name): kind for kind, names in _TOOL_NAMES.items() for name in names.split()}

_PATH_ARGUMENTS = (
    "path file filename filepath file_path file_name name target target_file target_path directory dir folder "
    "folder_path dir_path directory_path dirname folder_name absolute_path relative_path"
)
_SOURCE_ARGUMENTS = (
    "source src from source_path src_path old old_path old_name from_path path file file_path filename source_file"
)
_TARGET_ARGUMENTS = (
    "destination dest dst to target destination_path dest_path dst_path new new_path new_name to_path target_path "
    "destination_file newname"
)
_TEXT_ARGUMENTS = "content text line data string contents lines value input code function_code class_code body"
_CODE_NAME_ARGUMENTS = ("functionname", "classname")
_CODE_ARGUMENTS = "code script source input content"
_IGNORED_ARGUMENTS = (
    "recursive",
    "parents",
    "existok",
    "overwrite",
    "force",
    "createparents",
    "description",
    "explanation",
)
MAX_LINES_PER_FILE = 2_000
"""Maximum number of lines shown per file."""
PROGRAMS_BY_KIND = {"rm": "rm", "mv": "mv", "cp": "cp", "mkdir": "mkdir -p", "touch": "touch", "python": "python3 -c"}


def command_kind(name: str) -> str:
    """Return the kind of command for a tool of this name, such as `rm`; empty if unknown."""
    for prefix in NAME_PREFIXES:
        name = name.removeprefix(prefix)
    return _COMMAND_KINDS.get(normalise_name(name), "")


def find_equivalent_command(name: str, arguments: Arguments) -> str | None:
    """Return the command that does the same as a call to another agent's tool; None if the tool is unknown or its
    arguments are not as expected."""
    match command_kind(name):
        case "rm" | "mkdir" | "touch" as kind:
            path = _sole_text(arguments, _PATH_ARGUMENTS)
            is_recursive = kind == "rm" and _is_flag_set(arguments, "recursive")
            return f"{PROGRAMS_BY_KIND[kind]}{' -r' if is_recursive else ''} {_shell_word(path)}" if path else None
        case "mv" | "cp" as kind:
            source_and_target = _source_and_target(arguments)
            if source_and_target is None:
                return None
            source, target = source_and_target
            if normalise_name(name).startswith("rename") and "/" not in target:
                target = posixpath.join(posixpath.dirname(source), target)  # the file stays in its folder
            return f"{'mv -n' if kind == 'mv' else 'cp -r'} {_shell_word(source)} {_shell_word(target)}"
        case "append":
            return _append_command(arguments)
        case "show":
            return _show_command(arguments)
        case "python":
            code = _sole_text(arguments, _CODE_ARGUMENTS)
            return f"python3 -c {shlex.quote(code)}" if code else None
    return None


def _append_command(arguments: Arguments) -> str | None:
    relevant = {
        name: value
        for name, value in _relevant_arguments(arguments).items()
        if normalise_name(name) not in _CODE_NAME_ARGUMENTS
    }
    path, text = _first_text(relevant, _PATH_ARGUMENTS), _first_text(relevant, _TEXT_ARGUMENTS)
    if path is None or text is None or len(relevant) != 2:
        return None
    quoted_path, quoted_text = _shell_word(path[1]), shlex.quote(text[1].removesuffix("\n"))
    line_end_check = f'test -z "$(tail -c 1 {quoted_path} 2>/dev/null)" || echo >> {quoted_path}'
    return f"{line_end_check}; printf '%s\\n' {quoted_text} >> {quoted_path}"


def _show_command(arguments: Arguments) -> str | None:
    """Return a command that prints the beginning of each file, below its name; None if the arguments are not as
    expected."""
    values_by_name = {normalise_name(name): value for name, value in _relevant_arguments(arguments).items()}
    paths = next(
        (values_by_name[name] for name in ("paths", "files", "filepaths", "include", "path") if name in values_by_name),
        None,
    )
    paths = [paths] if isinstance(paths, str) else paths
    if len(values_by_name) != 1 or not isinstance(paths, list) or not paths:
        return None
    if any(not isinstance(path, str) or not path or set("*?[\0") & set(path) for path in paths):
        return None
    return f"head -n {MAX_LINES_PER_FILE} {' '.join(map(_shell_word, paths))}"


def _source_and_target(arguments: Arguments) -> tuple[str, str] | None:
    """Return the source and the target; None if one is missing or there are other arguments."""
    relevant = _relevant_arguments(arguments)
    target = _first_text(relevant, _TARGET_ARGUMENTS)
    source = _first_text(
        {name: value for name, value in relevant.items() if target is None or name != target[0]}, _SOURCE_ARGUMENTS
    )
    return (source[1], target[1]) if source is not None and target is not None and len(relevant) == 2 else None


def _sole_text(arguments: Arguments, names: str) -> str | None:
    relevant = _relevant_arguments(arguments)
    argument = _first_text(relevant, names)
    return argument[1] if argument is not None and len(relevant) == 1 else None


def _first_text(arguments: Arguments, names: str) -> tuple[str, str] | None:
    """Find the first text argument with one of these names, tried in order. Return its name and value."""
    names_by_plain_name = {normalise_name(name): name for name in arguments}
    for plain_name in map(normalise_name, names.split()):
        if (
            plain_name in names_by_plain_name
            and isinstance(value := arguments[names_by_plain_name[plain_name]], str)
            and value.strip()
            and "\0" not in value
        ):
            return names_by_plain_name[plain_name], value
    return None


def _relevant_arguments(arguments: Arguments) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if normalise_name(name) not in _IGNORED_ARGUMENTS}


def _is_flag_set(arguments: Arguments, name: str) -> bool:
    return any(
        normalise_name(argument_name) == name and value in (True, "true") for argument_name, value in arguments.items()
    )


def _shell_word(path: str) -> str:
    """Quote a path as a shell word that no program can mistake for an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
