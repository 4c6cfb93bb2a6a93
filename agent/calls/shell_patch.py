"""Patches that a model hands to a shell, as if `apply_patch` were a program: `apply_patch <<'EOF' …`. They are calls of
the tool, decided about and shown as changes of files. Pure."""

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
"""Characters of a command whose quotes are read: the time that `shlex` takes grows with their square."""
_BEGIN = "*** Begin Patch"
_ENTERS = regex(r"\s*cd\s+(?P<folder>'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|'\"$`*?~]+)\s*(?:&&|;|\n)")
_PATCH_COMMAND = regex(r"\s*apply_?patch\b", re.IGNORECASE)
_HEREDOC_PATCH = regex(r"\s*apply_?patch\s+(?:-\s+)?<<-?[ \t]*(?P<q>['\"]?)(?P<tag>\w+)(?P=q)[ \t]*\n", re.IGNORECASE)
_PIPED_PATCH = regex(
    r"\s*cat\s+<<-?[ \t]*(?P<q>['\"]?)(?P<tag>\w+)(?P=q)[ \t]*\|\s*apply_?patch[ \t]*\n", re.IGNORECASE
)
_PARTS = regex(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[$`;&|<>()]", re.DOTALL)
"""What is quoted in a command, and what means something to a shell that is not."""
_HEADER = regex(r"([ \t]*\*\*\* ?(?:Update File|Add File|Delete File|Move to): ?)(?=[^\s/])")


def as_patch(arguments: Arguments) -> str | None:
    """The patch that a call of `bash` makes, if it makes one and does nothing else. Raises `ToolError` where it does
    more than that."""
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
        return None  # it speaks of patches, and makes none
    patch = _quoted_patch(rest) if fed is None else _until(rest[fed.end() :], fed["tag"])
    if patch is None:
        raise ToolError(NOT_A_PROGRAM_ERROR)
    return _within(posixpath.join(folder, shlex.split(enters["folder"])[0] if enters else ""), patch)


def _given_to_a_shell(command: str) -> str | None:
    """The text that is run in `bash -lc '…'`."""
    if command.split(None, 1)[0].rpartition("/")[2] not in SHELLS:
        return None
    words = _words(command)
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else None


def _words(command: str) -> list[str]:
    """Those of a command in which a shell would put nothing in place of anything."""
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
    """The lines before the one that is the tag, where nothing comes behind it."""
    lines = text.rstrip().split("\n")
    ends = [index for index, line in enumerate(lines) if line.strip() == tag]
    return "\n".join(lines[:-1]) if ends == [len(lines) - 1] else None


def _within(folder: str, patch: str) -> str:
    """The patch with its files named from the folder in which the command would have run."""
    if not folder:
        return patch
    indent = re.match(r"[ \t]*", patch.lstrip("\n"))
    start = f"{indent[0] if indent else ''}***"
    lines = patch.split("\n")
    place = posixpath.join(folder, "").replace("\\", "\\\\")
    return "\n".join(_HEADER.sub(rf"\g<1>{place}", line) if line.startswith(start) else line for line in lines)
