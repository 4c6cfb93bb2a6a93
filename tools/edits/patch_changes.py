"""Plans all of a patch's changes to several files, then applies all of them or none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ebbtide.tools.base import Arguments, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import get_text
from ebbtide.tools.edits.hunks import PlacedHunk, place_hunks
from ebbtide.tools.edits.matching import apply_replacements, line_number
from ebbtide.tools.edits.patch import AddFile, DeleteFile, FilePatch, PatchError, PatchHunk, UpdateFile, parse_patch
from ebbtide.tools.edits.text_edit import DIFFERENCE_LABELS, EditTarget, numbered_snippet
from ebbtide.tools.files.change import (
    Change,
    PlannedChanges,
    decode_seen_file,
    require_current_view,
    translate_encoding_errors,
)
from ebbtide.tools.files.paths import display_path, resolve_path
from ebbtide.tools.files.read_write import mode_if_exists, read_bytes_if_exists
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.seen_files import ViewState

SuggestPath: TypeAlias = Callable[[Path, Path], str]
"""Suggests which file in a folder was meant by a path that does not exist. The suggestion is worded as the end of a
sentence."""


def patched_paths(arguments: Arguments) -> list[str]:
    """Return the paths that the patch would write, as the model wrote them. Raises `ToolError`."""
    return [path for file_patch in _parse_patch_or_explain(arguments) for path in _paths_in_file_patch(file_patch)]


def plan_patch(arguments: Arguments, workspace: Workspace, suggest_path: SuggestPath) -> PlannedChanges:
    """Plan all changes of the patch before any is made. If a file occurs several times, each part of the patch applies
    to the result of the parts before it. Raises `ToolError`."""
    planner = _Planner(workspace, suggest_path)
    try:
        for file_patch in _parse_patch_or_explain(arguments):
            planner.add_file_patch(file_patch)
    except (PatchError, ToolError) as error:
        message = str(error)
        raise ToolError(
            message if message.startswith("no file was changed") else f"no file was changed: {message}"
        ) from error
    return planner.plan()


def _parse_patch_or_explain(arguments: Arguments) -> tuple[FilePatch, ...]:
    try:
        return parse_patch(get_text(arguments, "patch"))
    except PatchError as error:
        raise ToolError(f"no file was changed: {error}") from error


def _paths_in_file_patch(file_patch: FilePatch) -> tuple[str, ...]:
    match file_patch:
        case UpdateFile(path=path, move_to=str(target)):
            return (path, target)
        case UpdateFile(path=path) | AddFile(path=path) | DeleteFile(path=path):
            return (path,)


@dataclass(slots=True)
class _FileState:
    """The state of a file after the parts of the patch processed so far."""

    old_content: bytes | None
    content: bytes | None
    view_state: ViewState = "current"
    mode: int | None = None
    notes: list[str] = field(default_factory=list)


class _Planner:
    def __init__(self, workspace: Workspace, suggest_path: SuggestPath) -> None:
        self.workspace, self.suggest_path = workspace, suggest_path
        self.files: dict[Path, _FileState] = {}

    def add_file_patch(self, file_patch: FilePatch) -> None:
        path = resolve_path(file_patch.path, self.workspace)
        name, file = self._name(path), self._file_state(path)
        match file_patch:
            case AddFile(content=content):
                if file.content is not None:
                    raise ToolError(f"`{name}` exists already: use `*** Update File:`")
                file.content = _encode(content, name)
                file.notes = [f"added `{name}`" if file.old_content is None else f"replaced `{name}`"]
            case DeleteFile():
                self._get_content(path, file)
                file.content, file.notes = None, [f"deleted `{name}`"]
            case UpdateFile(hunks=hunks, move_to=new_path):
                new_content, remark = self._update_file(path, file, hunks)
                if new_path is not None:
                    self._move(path, resolve_path(new_path, self.workspace), new_content, remark)
                elif hunks:
                    file.content, file.notes = new_content, [*file.notes, f"updated `{name}`{remark}"]

    def plan(self) -> PlannedChanges:
        changed_files = [(path, file) for path, file in self.files.items() if file.old_content != file.content]
        encodings = self.workspace.seen_files.encodings
        changes = tuple(
            Change(path, file.old_content, file.content, file.mode, encodings.get(path, ""))
            for path, file in changed_files
        )
        if not changes:
            raise ToolError("no file was changed: the files already have this content")
        return PlannedChanges(
            changes, "\n".join(dict.fromkeys(line for _, file in changed_files for line in file.notes))
        )

    def _file_state(self, path: Path) -> _FileState:
        if path not in self.files:
            old_content = read_bytes_if_exists(path)
            self.files[path] = _FileState(old_content, old_content)
        return self.files[path]

    def _name(self, path: Path) -> str:
        return display_path(path, self.workspace.root)

    def _get_content(self, path: Path, file: _FileState) -> bytes:
        name = self._name(path)
        if file.content is None and file.old_content is None:
            suggestion = self.suggest_path(path, self.workspace.root)
            raise ToolError(f"`{name}` does not exist{suggestion or ': use `*** Add File:`, or correct the path'}")
        if file.content is None:
            problem = "was deleted by an earlier part of this patch"
            raise ToolError(f"`{name}` {problem}: use `*** Add File:`, or correct the path")
        return file.content

    def _update_file(self, path: Path, file: _FileState, hunks: tuple[PatchHunk, ...]) -> tuple[bytes, str]:
        """Apply the hunks. Return the new content, and a note on how they differed from the file."""
        name = self._name(path)
        raw = self._get_content(path, file)
        if not hunks:
            return raw, ""
        is_known = file.old_content is None or require_current_view(path, file.old_content, self.workspace) == "current"
        text_file = decode_seen_file(path, raw, self.workspace)
        placed_hunks = place_hunks(EditTarget(name, text_file.normalised_text, is_known), hunks)
        changes = [hunk.change for hunk in placed_hunks]
        with translate_encoding_errors(name, text_file):
            return text_file.with_changes(changes).encode(), _placement_note(text_file.normalised_text, placed_hunks)

    def _move(self, path: Path, target: Path, content: bytes, remark: str) -> None:
        name, new_name = self._name(path), self._name(target)
        file, target_file = self._file_state(path), self._file_state(target)
        if target != path and target_file.content is not None:
            raise ToolError(f"`{new_name}` exists already, so `{name}` cannot be moved there: choose another path")
        mode = mode_if_exists(path)
        file.content, file.notes = None, []
        target_file.content = content
        target_file.mode = mode
        target_file.notes = [f"moved `{name}` to `{new_name}`{remark}"]
        if target_file.old_content is None and target != path:  # create the new file before deleting the old one
            self.files = {
                **{file_path: state for file_path, state in self.files.items() if file_path not in (path, target)},
                target: target_file,
                path: file,
            }


def _placement_note(file_text: str, hunks: tuple[PlacedHunk, ...]) -> str:
    """Describe how hunks differed from the file, and show the resulting lines. Empty if all hunks matched exactly."""
    inexact_hunks = [hunk for hunk in hunks if hunk.closeness != "exact" or hunk.note]
    if not inexact_hunks:
        return ""
    new_text, offset_change, snippets = apply_replacements(file_text, [hunk.change for hunk in hunks]), 0, list[str]()
    for hunk in hunks:
        if hunk in inexact_hunks:
            first_line = line_number(new_text, hunk.change.start + offset_change)
            last_line = first_line + hunk.change.text.removesuffix("\n").count("\n")
            snippets.append(numbered_snippet(new_text, first_line, last_line))
        offset_change += len(hunk.change.text) - (hunk.change.end - hunk.change.start)
    labels_by_hunk = ((hunk.note, DIFFERENCE_LABELS.get(hunk.closeness, "")) for hunk in inexact_hunks)
    differences = " and ".join(dict.fromkeys(label for labels in labels_by_hunk for label in labels if label))
    return (
        f"; {pluralize(len(inexact_hunks), 'hunk')} differed from the file in {differences}. It now reads:\n"
        + "\n…\n".join(snippets)
    )


def _encode(content: str, name: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content of `{name}` contains half a surrogate pair: write the whole character") from error
