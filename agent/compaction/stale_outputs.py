"""Finds the outputs that show files as they were before a later change, judging by the calls. No I/O.

A change that no call names, such as one by `make format`, is not found.
"""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ebbtide.agent.messages import Conversation, ToolCall
from ebbtide.agent.view.recalls import content_kind
from ebbtide.agent.view.stubs import call_paths
from ebbtide.agent.view.visible import NumberedOutput, numbered_outputs
from ebbtide.tools.commands.named_files import find_named_files
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.tool_traits import role_of, text_argument

_CHANGING_ROLES = ("write_file", "edit_file", "edit_cells", "patch_files")
_COMMAND_WORD = regex(r"[^\s'\"`|;&<>(){}$=,]+")
_LISTED_PATH = regex(r"^([^\s:][^:\n]{0,300}?)(?=[:-]\d+[:-]|:|$)", re.MULTILINE)
"""Matches the path at the start of a line of search results."""
_GIT_DIFF = regex(r"\bgit\b[^|;&\n]*\bdiff\b")
_CHANGES_ANY_FILE = regex(
    r"\bgit\s+(?:-[cC]\s+\S+\s+|-\S+\s+)*"
    r"(?:am|apply|checkout|cherry-pick|merge|pull|rebase|reset|restore|revert|stash|switch)\b(?!\s+(?:list|show|-b|-c)\b)"
)
"""Matches git commands that may change any file of the working tree."""
_INLINE_SCRIPT = regex(r"\b(?:python[\d.]*|node|perl|ruby)\b[^|;&\n]*(?:<<|\s-[ce]\b)")
"""Matches a program that runs code from the command line. The code may change each file that it names."""


@dataclass(slots=True)
class _FileView:
    """The files that an output shows, as far as known."""

    numbered: NumberedOutput
    names: frozenset[str]
    """The paths and patterns in the call."""
    listed_paths: frozenset[str] | None = None
    """The paths at the start of the output's lines; None until they are needed."""

    @property
    def is_git_diff(self) -> bool:
        return _GIT_DIFF.search(text_argument(self.numbered.call.arguments, "command")) is not None

    def includes(self, path: str) -> bool:
        """Whether the output may show text of this file."""
        return any(_matches_name(path, name) for name in self.names) or self._lists(path)

    def _lists(self, path: str) -> bool:
        if posixpath.basename(path) not in self.numbered.output.text:
            return False
        if self.listed_paths is None:
            self.listed_paths = frozenset(map(_clean_path, _LISTED_PATH.findall(self.numbered.output.text)))
        return any(_is_same_path(path, listed_path) for listed_path in self.listed_paths)


def find_stale_outputs(conversation: Conversation) -> frozenset[str]:
    """Return the references of the outputs that show files that were changed later. A file also counts as changed for
    earlier reads once it is read again with the same tool."""
    stale_refs, fresh = set[str](), list[_FileView]()
    for numbered in numbered_outputs(conversation):
        outdated = [view for view in fresh if _is_outdated_by(view, numbered)]
        stale_refs.update(view.numbered.ref for view in outdated)
        fresh = [view for view in fresh if view.numbered.ref not in stale_refs]
        if numbered.output.status == "done":
            fresh += _find_views(numbered)
    return frozenset(stale_refs)


def _find_views(numbered: NumberedOutput) -> Iterator[_FileView]:
    """Yield what the output shows of files, if it shows any."""
    match content_kind(numbered.call):
        case "file":
            yield _FileView(numbered, frozenset(map(_clean_path, call_paths(numbered.call))))
        case "view":
            words = _COMMAND_WORD.findall(text_argument(numbered.call.arguments, "command"))
            yield _FileView(numbered, frozenset(map(_clean_path, words)))
        case "search":
            yield _FileView(numbered, frozenset())
        case _:
            pass


def _is_outdated_by(view: _FileView, later: NumberedOutput) -> bool:
    """Whether a later call has changed what an output shows, or has shown it again."""
    call, role = later.call, role_of(later.call.name)
    command = text_argument(call.arguments, "command") if role == "run_command" else ""
    if role in _CHANGING_ROLES and later.output.status == "done":
        return view.is_git_diff or any(view.includes(_clean_path(path)) for path in call_paths(call))
    if role == "read_file" and later.output.status == "done":
        return _is_read_again(view, call)
    if not command or later.output.status == "denied":
        return False
    if _CHANGES_ANY_FILE.search(command):
        return True
    if _INLINE_SCRIPT.search(command) and any(
        view.includes(_clean_path(word)) for word in _COMMAND_WORD.findall(command) if "." in word.strip(".")
    ):
        return True
    changed_paths = {_clean_path(file.path) for file in find_named_files(command) if file.is_changed} - {"/dev/null"}
    return any(view.includes(path) for path in changed_paths) or (bool(changed_paths) and view.is_git_diff)


def _is_read_again(view: _FileView, call: ToolCall) -> bool:
    """Whether a call reads the file of an earlier read again, or reads all of a file that a command has shown."""
    reads_all = not call.arguments.keys() & {"offset", "limit"}
    is_read = role_of(view.numbered.call.name) == "read_file"
    return (is_read or reads_all) and any(
        _is_same_path(_clean_path(path), name) for path in call_paths(call) for name in view.names
    )


def _clean_path(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/"))


def _matches_name(path: str, name: str) -> bool:
    """Whether a name in a call, which may be a pattern, means the file."""
    return _is_same_path(path, name) or (any(character in name for character in "*?[") and fnmatchcase(path, name))


def _is_same_path(path: str, other: str) -> bool:
    """Whether two paths may be of the same file. They may be relative to different folders, so that one of them only
    has to end with the other."""
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")
