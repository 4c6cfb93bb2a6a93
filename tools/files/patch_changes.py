"""Plans a patch of several files completely, and then applies all changes or none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ebbtide.tools.base import Arguments, Result, ToolError, Workspace
from ebbtide.tools.files.change import Change, applied_changes, encoding_refusal, look_at, make, text_of
from ebbtide.tools.files.hunks import HunkTarget, PlacedHunk, place_hunks
from ebbtide.tools.files.matching import apply, line_number
from ebbtide.tools.files.patch import Add, Delete, FilePatch, PatchError, PatchHunk, Update, parse
from ebbtide.tools.files.paths import display, resolve
from ebbtide.tools.files.read_write import content_of, mode_of
from ebbtide.tools.files.text import EncodingError, showable
from ebbtide.tools.files.text_edit import DIFFERENCE_LABELS, MAX_SHOWN_LINES
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import number_lines
from ebbtide.tools.schema import text
from ebbtide.tools.seen_files import Look

SuggestPath: TypeAlias = Callable[[Path, Path], str]
"""Suggests which file of a folder is meant by a path that does not exist, as the end of a sentence."""


def written_paths(arguments: Arguments) -> list[str]:
    """Return the paths that the patch would write, as given. Raises `ToolError`."""
    return [path for part in _parse_patch(arguments) for path in _paths(part)]


def planned_changes(arguments: Arguments, workspace: Workspace, meant: SuggestPath) -> list[Change]:
    """Return the changes that the patch would make. Raises `ToolError`."""
    return list(_plan(arguments, workspace, meant).changes)


def apply_patch(arguments: Arguments, workspace: Workspace, meant: SuggestPath) -> Result:
    """Apply all changes of the patch. Raises `ToolError` if that fails, and then makes none."""
    plan = _plan(arguments, workspace, meant)
    make(plan.changes, workspace.seen)
    changed = tuple(change.path for change in plan.changes)
    return Result("\n".join(plan.notes), changed=changed, file_changes=applied_changes(plan.changes))


def _parse_patch(arguments: Arguments) -> tuple[FilePatch, ...]:
    try:
        return parse(text(arguments, "patch"))
    except PatchError as error:
        raise ToolError(f"no file was changed: {error}") from error


def _paths(part: FilePatch) -> tuple[str, ...]:
    match part:
        case Update(path=path, move_to=str(target)):
            return (path, target)
        case Update(path=path) | Add(path=path) | Delete(path=path):
            return (path,)


@dataclass(slots=True)
class _FileState:
    """The state of a file after the parts of the patch processed so far."""

    before: bytes | None
    now: bytes | None
    look: Look = "current"
    mode: int | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PatchPlan:
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    """The results of the patch, file by file."""


def _plan(arguments: Arguments, workspace: Workspace, meant: SuggestPath) -> PatchPlan:
    """Plan every change of the patch before making the first one. A file may occur more than once: each part applies to
    the result of those before it."""
    planner = _Planner(workspace, meant)
    try:
        for part in _parse_patch(arguments):
            planner.take(part)
    except PatchError as error:
        raise ToolError(f"no file was changed: {error}") from error
    except ToolError as error:
        said = str(error)
        raise ToolError(said if said.startswith("no file was changed") else f"no file was changed: {said}") from error
    return planner.plan()


class _Planner:
    def __init__(self, workspace: Workspace, meant: SuggestPath) -> None:
        self.workspace, self.meant = workspace, meant
        self.files: dict[Path, _FileState] = {}

    def take(self, part: FilePatch) -> None:
        path = resolve(part.path, self.workspace)
        name, file = self._name(path), self._file(path)
        match part:
            case Add(content=content):
                if file.now is not None:
                    raise ToolError(f"`{name}` exists already: use `*** Update File:`")
                file.now = _encode(content, name)
                file.notes = [f"added `{name}`" if file.before is None else f"replaced `{name}`"]
            case Delete():
                self._require_content(path, file)
                file.now, file.notes = None, [f"deleted `{name}`"]
            case Update(hunks=hunks, move_to=written):
                after, remark = self._update_file(path, file, hunks)
                if written is not None:
                    self._move(path, resolve(written, self.workspace), after, remark)
                elif hunks:
                    file.now, file.notes = after, [*file.notes, f"updated `{name}`{remark}"]

    def plan(self) -> PatchPlan:
        made = [(path, file) for path, file in self.files.items() if file.before != file.now]
        named = self.workspace.seen.encodings
        changes = tuple(Change(path, file.before, file.now, file.mode, named.get(path, "")) for path, file in made)
        if not changes:
            raise ToolError("no file was changed: the files already have this content")
        return PatchPlan(changes, tuple(dict.fromkeys(line for _, file in made for line in file.notes)))

    def _file(self, path: Path) -> _FileState:
        if path not in self.files:
            before = content_of(path)
            self.files[path] = _FileState(before, before)
        return self.files[path]

    def _name(self, path: Path) -> str:
        return display(path, self.workspace.root)

    def _require_content(self, path: Path, file: _FileState) -> bytes:
        name = self._name(path)
        if file.now is None and file.before is None:
            known = self.meant(path, self.workspace.root)
            raise ToolError(f"`{name}` does not exist{known or ': use `*** Add File:`, or correct the path'}")
        if file.now is None:
            gone = "was deleted by an earlier part of this patch"
            raise ToolError(f"`{name}` {gone}: use `*** Add File:`, or correct the path")
        return file.now

    def _update_file(self, path: Path, file: _FileState, hunks: tuple[PatchHunk, ...]) -> tuple[bytes, str]:
        """Return the content after the hunks, and a note on how they matched."""
        name = self._name(path)
        raw = self._require_content(path, file)
        if not hunks:
            return raw, ""
        is_known = file.before is None or look_at(path, file.before, self.workspace) == "current"
        text_file = text_of(path, raw, self.workspace)
        found = place_hunks(HunkTarget(name, text_file.normalised_text, is_known), hunks)
        changes = [hunk.change for hunk in found]
        try:
            return text_file.with_changes(changes).encode(), _placement_note(text_file.normalised_text, found)
        except EncodingError as error:
            raise encoding_refusal(error, name, text_file) from error

    def _move(self, path: Path, target: Path, content: bytes, remark: str) -> None:
        name, new_name = self._name(path), self._name(target)
        file, there = self._file(path), self._file(target)
        if target != path and there.now is not None:
            raise ToolError(f"`{new_name}` exists already, so `{name}` cannot be moved there: choose another path")
        mode = mode_of(path)
        file.now, file.notes = None, []
        there.now, there.mode, there.notes = content, mode, [f"moved `{name}` to `{new_name}`{remark}"]
        if there.before is None and target != path:  # created before the old one is deleted
            self.files = {
                **{at: each for at, each in self.files.items() if at not in (path, target)},
                target: there,
                path: file,
            }


def _placement_note(text_: str, hunks: tuple[PlacedHunk, ...]) -> str:
    """Return how hunks differed from the file, and the resulting lines."""
    loose = [hunk for hunk in hunks if hunk.closeness != "exact" or hunk.note]
    if not loose:
        return ""
    after, shift, shown = apply(text_, [hunk.change for hunk in hunks]), 0, list[str]()
    for hunk in hunks:
        if hunk in loose:
            first = line_number(after, hunk.change.start + shift)
            count = hunk.change.text.removesuffix("\n").count("\n") + 1
            lines = showable(after).split("\n")[first - 1 : first - 1 + min(count, MAX_SHOWN_LINES)]
            shown.append(number_lines(lines, first))
        shift += len(hunk.change.text) - (hunk.change.end - hunk.change.start)
    differing = ((hunk.note, DIFFERENCE_LABELS.get(hunk.closeness, "")) for hunk in loose)
    kinds = " and ".join(dict.fromkeys(kind for pair in differing for kind in pair if kind))
    return f"; {pluralize(len(loose), 'hunk')} differed from the file in {kinds}. It now reads:\n" + "\n…\n".join(shown)


def _encode(content: str, name: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content of `{name}` contains half a surrogate pair: write the whole character") from error
