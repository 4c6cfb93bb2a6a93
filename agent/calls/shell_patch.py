"""Patches that a model passes to a shell, as if `apply_patch` were a program: `apply_patch <<'EOF' …`. They become
calls of the tool, approved and shown as file changes. Pure."""

import posixpath
import re
import shlex

from ebbtide.tools.base import Arguments, ToolError
from ebbtide.tools.commands.nested import SHELLS
from ebbtide.tools.lazy import regex

RAN_AS_PATCH_NOTE = "[Done as a call of `apply_patch`, which is a tool and no program.]"
NOT_A_PROGRAM_ERROR = (
    "`apply_patch` is a tool and no program: call it by itself, with the text from `*** Begin Patch` to "
    "`*** End Patch` as `patch`, and run what else the command does in a call of its own"
)
LONGEST_QUOTED = 200_000
"""Longest command whose quotes are parsed, in characters: `shlex` takes quadratic time."""
_BEGIN = "*** Begin Patch"
_ENTERS = regex(r"\s*cd\s+(?P<folder>'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|'\"$`*?~]+)\s*(?:&&|;|\n)")
_PATCH_COMMAND = regex(r"\s*apply_?patch\b", re.IGNORECASE)
_HEREDOC_PATCH = regex(r"\s*apply_?patch\s+(?:-\s+)?<<-?[ \t]*(?P<q>['\"]?)(?P<tag>\w+)(?P=q)[ \t]*\n", re.IGNORECASE)
_PIPED_PATCH = regex(
    r"\s*cat\s+<<-?[ \t]*(?P<q>['\"]?)(?P<tag>\w+)(?P=q)[ \t]*\|\s*apply_?patch[ \t]*\n", re.IGNORECASE
)
_PARTS = regex(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[$`;&|<>()]", re.DOTALL)
"""Quoted parts of a command, and unquoted shell syntax."""
_HEADER = regex(r"([ \t]*\*\*\* ?(?:Update File|Add File|Delete File|Move to): ?)(?=[^\s/])")


def as_patch(arguments: Arguments) -> str | None:
    """The patch that a call of `bash` applies, if it does nothing else. Raises `ToolError` if it does more."""
    command, folder = arguments.get("command"), arguments.get("workdir") or ""
    if not isinstance(command, str) or not isinstance(folder, str) or _BEGIN not in command:
        return None
    return _patch_of(command, folder)


def _patch_of(command: str, folder: str) -> str | None:
    if (inner := _given_to_a_shell(command)) is not None:
        return _patch_of(inner, folder)
    enters = _ENTERS.match(command)
    rest = command[enters.end() :] if enters else command
    fed = _HEREDOC_PATCH.match(rest) or _PIPED_PATCH.match(rest)
    if fed is None and not _PATCH_COMMAND.match(rest):
        return None  # it mentions patches, but applies none
    patch = _quoted_patch(rest) if fed is None else _until(rest[fed.end() :], fed["tag"])
    if patch is None:
        raise ToolError(NOT_A_PROGRAM_ERROR)
    return _within(posixpath.join(folder, shlex.split(enters["folder"])[0] if enters else ""), patch)


def _given_to_a_shell(command: str) -> str | None:
    """The script in `bash -lc '…'`."""
    if command.split(None, 1)[0].rpartition("/")[2] not in SHELLS:
        return None
    words = _words(command)
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else None


def _words(command: str) -> list[str]:
    """The words of a command in which a shell would expand nothing."""
    if len(command) > LONGEST_QUOTED:
        return []
    parts = [found[0] for found in _PARTS.finditer(command)]
    if any(part in "$`;&|<>()" or (part[0] == '"' and re.search(r"[\\$`]", part)) for part in parts):
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _quoted_patch(command: str) -> str | None:
    words = _words(command)
    return words[1] if len(words) == 2 and words[1].lstrip().startswith(_BEGIN) else None


def _until(text: str, tag: str) -> str | None:
    """The lines before the tag, if nothing follows it."""
    lines = text.rstrip().split("\n")
    ends = [index for index, line in enumerate(lines) if line.strip() == tag]
    return "\n".join(lines[:-1]) if ends == [len(lines) - 1] else None


def _within(folder: str, patch: str) -> str:
    """The patch with paths relative to the folder where the command would have run."""
    if not folder:
        return patch
    indent = re.match(r"[ \t]*", patch.lstrip("\n"))
    start = f"{indent[0] if indent else ''}***"
    lines = patch.split("\n")
    place = posixpath.join(folder, "").replace("\\", "\\\\")
    return "\n".join(_HEADER.sub(rf"\g<1>{place}", line) if line.startswith(start) else line for line in lines)
