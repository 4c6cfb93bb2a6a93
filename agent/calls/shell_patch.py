"""Converts shell commands that run `apply_patch` as if it were a program (`apply_patch <<'EOF' …`) into calls to the
tool `apply_patch`, so that they are approved and shown as file changes."""

import posixpath
import re
import shlex

from ebbtide.tools.base import Arguments, ToolError
from ebbtide.tools.commands.nested import SHELLS
from ebbtide.tools.lazy import regex

RUN_AS_PATCH_NOTE = "[Run as a call to the tool `apply_patch`, which is not a program.]"
NOT_A_PROGRAM_ERROR = (
    "`apply_patch` is a tool, not a program: call it directly, with the text from `*** Begin Patch` to "
    "`*** End Patch` as `patch`, and run the rest of the command in a separate call"
)
MAX_PARSED_COMMAND_CHARS = 200_000
"""Maximum length of a command whose quotes are parsed, in characters. `shlex` takes quadratic time."""
_PATCH_START = "*** Begin Patch"
_CD_COMMAND = regex(r"\s*cd\s+(?P<folder>'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|'\"$`*?~]+)\s*(?:&&|;|\n)")
_PATCH_COMMAND = regex(r"\s*apply_?patch\b", re.IGNORECASE)
_HEREDOC_PATCH = regex(r"\s*apply_?patch\s+(?:-\s+)?<<-?[ \t]*(?P<q>['\"]?)(?P<tag>\w+)(?P=q)[ \t]*\n", re.IGNORECASE)
_PIPED_PATCH = regex(
    r"\s*cat\s+<<-?[ \t]*(?P<q>['\"]?)(?P<tag>\w+)(?P=q)[ \t]*\|\s*apply_?patch[ \t]*\n", re.IGNORECASE
)
_SHELL_SYNTAX = regex(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[$`;&|<>()]", re.DOTALL)
"""Quoted parts of a command, and unquoted shell syntax."""
_PATH_HEADER = regex(r"([ \t]*\*\*\* ?(?:Update File|Add File|Delete File|Move to): ?)(?=[^\s/])")


def patch_in_command(arguments: Arguments) -> str | None:
    """Return the patch that a call to `bash` applies; None if there is none. Raises `ToolError` if the command does
    anything else as well."""
    command, folder = arguments.get("command"), arguments.get("workdir") or ""
    if not isinstance(command, str) or not isinstance(folder, str) or _PATCH_START not in command:
        return None
    return _patch_in_script(command, folder)


def _patch_in_script(command: str, folder: str) -> str | None:
    if (nested_script := _shell_script(command)) is not None:
        return _patch_in_script(nested_script, folder)
    cd_command = _CD_COMMAND.match(command)
    script = command[cd_command.end() :] if cd_command else command
    heredoc = _HEREDOC_PATCH.match(script) or _PIPED_PATCH.match(script)
    if heredoc is None and not _PATCH_COMMAND.match(script):
        return None  # the command contains the text of a patch, but does not apply it
    patch = _quoted_patch(script) if heredoc is None else _heredoc_body(script[heredoc.end() :], heredoc["tag"])
    folder_words = _literal_words(cd_command["folder"]) if cd_command else [""]
    if patch is None or len(folder_words) != 1 or folder_words[0].startswith("-"):  # `cd -`, or an option of `cd`
        raise ToolError(NOT_A_PROGRAM_ERROR)
    return _patch_from_folder(posixpath.join(folder, folder_words[0]), patch)


def _shell_script(command: str) -> str | None:
    """Return the script in `bash -lc '…'`; None if the command is not of this form."""
    if command.split(None, 1)[0].rpartition("/")[2] not in SHELLS:
        return None
    words = _literal_words(command)
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else None


def _literal_words(command: str) -> list[str]:
    """Return the words of a command; empty if a shell would expand something in them."""
    if len(command) > MAX_PARSED_COMMAND_CHARS:
        return []
    tokens = [match[0] for match in _SHELL_SYNTAX.finditer(command)]
    if any(token in "$`;&|<>()" or (token[0] == '"' and re.search(r"[\\$`]", token)) for token in tokens):
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _quoted_patch(command: str) -> str | None:
    words = _literal_words(command)
    return words[1] if len(words) == 2 and words[1].lstrip().startswith(_PATCH_START) else None


def _heredoc_body(text: str, tag: str) -> str | None:
    """Return the lines before the tag; None if the tag is missing or something follows it."""
    lines = text.rstrip().split("\n")
    tag_indices = [index for index, line in enumerate(lines) if line.strip() == tag]
    return "\n".join(lines[:-1]) if tag_indices == [len(lines) - 1] else None


def _patch_from_folder(folder: str, patch: str) -> str:
    """Prefix the paths in a patch with the folder in which the command would have run."""
    if not folder:
        return patch
    indent = re.match(r"[ \t]*", patch.lstrip("\n"))
    header_start = f"{indent[0] if indent else ''}***"
    lines = patch.split("\n")
    folder_prefix = posixpath.join(folder, "").replace("\\", "\\\\")
    return "\n".join(
        _PATH_HEADER.sub(rf"\g<1>{folder_prefix}", line) if line.startswith(header_start) else line for line in lines
    )
