"""Changes to files. They are planned first, and then either all applied or none."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from ebbtide.tools import files
from ebbtide.tools.base import AppliedChange, Arguments, Effect, Result, ToolError, Workspace
from ebbtide.tools.files.diff import binary_diff, diff_header, join_diff_lines, unified_diff
from ebbtide.tools.files.paths import display_path, read_hint
from ebbtide.tools.files.read_write import (
    delete_file,
    mode_if_exists,
    read_bytes,
    read_bytes_if_exists,
    run_exclusive,
    write_bytes,
)
from ebbtide.tools.files.text import (
    EncodingError,
    GuessedEncodingError,
    TextFile,
    binary_kind,
    decode_file,
    usable_codec,
    without_surrogates,
)
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.outputs.seen_files import SeenFiles, ViewState

MAX_RECORDED_FILES, MAX_COMPARED_BYTES = 20, 4_000_000
"""Maximum number of files to record after a call that showed them, and maximum size of a recorded file in bytes."""


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    old_content: bytes | None
    """The content that the change is based on; None if the file does not exist."""
    new_content: bytes | None
    """The new content; None to delete the file."""
    mode: int | None = None
    """Permission bits of a new file; None for the default."""
    encoding: str = ""
    """The codec of the file's text, if the model specified one."""


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """The changes of a call, checked but not yet made."""

    changes: tuple[Change, ...]
    message: str
    """The message for the model after the changes have been made."""

    def preview(self, root: Path) -> str:
        return diff_changes(self.changes, root)

    def apply(self, seen_files: SeenFiles) -> Result:
        """Make all changes or none. Raises `ToolError`."""
        apply_changes(self.changes, seen_files)
        changed_paths = tuple(change.path for change in self.changes)
        applied_changes = tuple(
            AppliedChange(change.path, change.old_content, change.new_content) for change in self.changes
        )
        return Result(self.message, changed_files=changed_paths, file_changes=applied_changes)


class ChangePlanner(ABC):
    """A tool whose calls change files: a call is planned in the same way for its preview and its run."""

    effect: Effect = "write"

    @abstractmethod
    def plan_changes(self, arguments: Arguments, workspace: Workspace) -> PlannedChanges:
        """Return the changes that the call makes. Raises `ToolError`."""

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        return self.plan_changes(arguments, workspace).preview(workspace.root)

    def count_selectable_changes(self, arguments: Arguments, workspace: Workspace) -> int:
        return files.change_selection.count_selectable_changes(self.plan_changes(arguments, workspace).changes)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await run_exclusive(lambda: self._plan_accepted(arguments, workspace).apply(workspace.seen_files))

    def _plan_accepted(self, arguments: Arguments, workspace: Workspace) -> PlannedChanges:
        """Plan the changes without those that the user refused."""
        planned, selection = self.plan_changes(arguments, workspace), workspace.change_selection
        if selection is None:
            return planned
        return files.change_selection.select_changes(planned, selection, workspace.root)


def apply_changes(changes: Sequence[Change], seen_files: SeenFiles) -> None:
    """Apply all changes. If one fails, those made before it are reverted. Raises `ToolError`."""
    for change in changes:
        _require_writable(change.path, str(change.path))
        if read_bytes_if_exists(change.path) != change.old_content:
            raise ToolError(f"`{change.path}` changed while it was being edited: {read_hint(str(change.path))} again")
    reverse_changes: list[Change] = []
    try:
        for change in changes:
            reverse_change = Change(change.path, change.new_content, change.old_content, mode_if_exists(change.path))
            _write_change(change)
            reverse_changes.append(reverse_change)
    except ToolError:
        for reverse_change in reversed(reverse_changes):
            with suppress(ToolError):  # report the first error
                _write_change(reverse_change)
        raise
    for change in changes:
        if change.new_content is None:
            seen_files.forget(change.path)
        else:
            seen_files.record_content(change.path, change.new_content)


def require_read(path: Path, content: bytes, workspace: Workspace) -> None:
    """Check that the model has seen the file's current content. Raises `ToolError`."""
    require_text(path, content, workspace)
    name = display_path(path, workspace.root)
    if not workspace.seen_files.has_seen(path):
        raise ToolError(f"`{name}` was not read in this session: first {read_hint(name)}")
    if not workspace.seen_files.is_current(path, content):
        raise _outdated_view_error(name)


def _require_writable(path: Path, name: str) -> None:
    """Raise `ToolError` for a write-protected file. Without this check the write could succeed: root can write to any
    file, and a user with write access to the folder can replace the file."""
    mode = mode_if_exists(path)
    if mode is not None and not mode & 0o222:
        advice = "ask the user, or make it writable with chmod in bash first"
        raise ToolError(f"`{name}` is write-protected (mode {mode:04o}): {advice}")


def require_text(path: Path, content: bytes, workspace: Workspace) -> None:
    _require_writable(path, display_path(path, workspace.root))
    kind = binary_kind(content)
    if kind is not None:
        name = display_path(path, workspace.root)
        raise ToolError(f"`{name}` is {kind}, not text: change it in bash with a program made for that")


def decode_seen_file(path: Path, raw: bytes, workspace: Workspace, encoding: str = "") -> TextFile:
    """Decode a file in the encoding that this call or an earlier one specifies. Raises `ToolError` if the file cannot
    be in that encoding."""
    codec, name = get_codec(encoding), display_path(path, workspace.root)
    file = decode_file(raw, codec or workspace.seen_files.encodings.get(path, ""))
    if codec and file.codec != codec:
        detected = "" if file.is_guess else f" but in {file.codec}"
        raise ToolError(f"`{name}` is not in {encoding}{detected}: name another `encoding`, or leave it out")
    if codec:
        workspace.seen_files.encodings[path] = codec
    return file


def get_codec(encoding: str) -> str:
    """Return the codec for an encoding name, or an empty string if the name is empty. Raises `ToolError` if the
    encoding cannot be used."""
    codec = usable_codec(encoding)
    if encoding and not codec:
        raise ToolError(
            f"`encoding`: {printable_name(encoding)!r} cannot be used: give a name such as gbk, cp932 or cp1251"
        )
    return codec


@contextmanager
def translate_encoding_errors(name: str, file: TextFile) -> Iterator[None]:
    """Turn encoding errors into a `ToolError`, for changes that the file's encoding cannot represent."""
    try:
        yield
    except GuessedEncodingError as error:
        problem = f"`{name}` is not in UTF-8, and {file.codec} is only a guess"
        advice = f'{read_hint(name)} and encoding="{file.codec}", or its actual encoding'
        raise ToolError(f"{problem}: {error}, first {advice}") from error
    except EncodingError as error:
        raise ToolError(
            f"`{name}` cannot be changed this way: {error}; use other characters, or convert it with iconv first"
        ) from error


def require_current_view(path: Path, content: bytes, workspace: Workspace) -> ViewState:
    """Check that a partial change is allowed, and return how much of the file the model has seen. The model need not
    have seen the file if it quotes exactly the text to replace. Raises `ToolError` if the file is not text, or has
    changed since the model saw it."""
    require_text(path, content, workspace)
    state = workspace.seen_files.view_state(path, content)
    if state == "outdated":
        raise _outdated_view_error(display_path(path, workspace.root))
    return state


def _outdated_view_error(name: str) -> ToolError:
    return ToolError(f"`{name}` changed since you read it: {read_hint(name)} again before you change it")


def record_partial_views(paths: Iterable[Path], workspace: Workspace) -> None:
    """Record that the first few of these files were shown in part. Large and irregular files are skipped."""
    for path in islice(paths, MAX_RECORDED_FILES):
        with suppress(OSError, ValueError):
            resolved_path = path.resolve()
            if (content := comparable_content(resolved_path)) is not None:
                workspace.seen_files.record_partial_view(resolved_path, content)


def comparable_content(path: Path) -> bytes | None:
    """Return a file's content for later comparison. None if it is large or cannot be read."""
    with suppress(ToolError, OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MAX_COMPARED_BYTES:
            return read_bytes(path)
    return None


def diff_changes(changes: Sequence[Change], root: Path) -> str:
    """Format all changes as one unified diff. A creation followed by a deletion is shown as a move."""
    lines: list[str] = []
    remaining = list(changes)
    while remaining:
        change = remaining.pop(0)
        deletion = (
            remaining[0] if remaining and change.old_content is None and remaining[0].new_content is None else None
        )
        if deletion is not None and deletion.old_content and change.new_content:
            remaining.pop(0)
            new_name, codec = display_path(change.path, root), change.encoding
            lines += diff_lines(
                display_path(deletion.path, root), deletion.old_content, change.new_content, new_name, codec
            )
        else:
            lines += diff_lines(
                display_path(change.path, root), change.old_content, change.new_content, encoding=change.encoding
            )
    return join_diff_lines(lines)


def diff_lines(
    name: str, old_content: bytes | None, new_content: bytes | None, new_name: str | None = None, encoding: str = ""
) -> list[str]:
    r"""Format a unified diff, as lines. A content of None means that the file does not exist. Line endings other than
    `\n` are shown if they differ between the old and the new content. A binary file is only reported as changed."""
    kind = next((kind for content in (old_content, new_content) if content and (kind := binary_kind(content))), None)
    if kind is not None:
        return (
            binary_diff(name, old_content, new_content, kind, new_name)
            if old_content != new_content or new_name is not None
            else []
        )
    old, new = _decode_pair(old_content, new_content, encoding)
    has_same_newlines = _has_same_newlines(old, new)
    old_text, new_text = (
        None if file is None else without_surrogates(file.normalised_text if has_same_newlines else file.text)
        for file in (old, new)
    )
    lines = unified_diff(name, old_text, new_text, new_name)
    if old and new and old_content != new_content and old_text == new_text:
        encodings = (f"{file.codec}{' with a byte order mark' if file.bom else ''}" for file in (old, new))
        lines += [*([] if lines else diff_header(name)), f"encoding: {' -> '.join(encodings)}"]
    return lines


def comparable_text_files(
    old_content: bytes | None, new_content: bytes | None, encoding: str = ""
) -> tuple[TextFile, TextFile] | None:
    """Decode the old and the new content of a file; None if one is missing, or if their line endings or encodings
    differ."""
    old, new = _decode_pair(old_content, new_content, encoding)
    if old is None or new is None or (old.codec, old.bom) != (new.codec, new.bom):
        return None
    return (old, new) if _has_same_newlines(old, new) else None


def _decode_pair(
    old_content: bytes | None, new_content: bytes | None, encoding: str
) -> tuple[TextFile | None, TextFile | None]:
    old = None if old_content is None else decode_file(old_content, encoding)
    new_encoding = encoding or (old.codec if old and old.is_guess else "")
    return old, None if new_content is None else decode_file(new_content, new_encoding)


def _has_same_newlines(*contents: TextFile | None) -> bool:
    """Whether all line endings are the same, in both files."""
    existing = [file for file in contents if file is not None]
    return all(map(_has_uniform_newlines, existing)) and len({file.newline for file in existing}) == 1


def _write_change(change: Change) -> None:
    if change.new_content is None:
        delete_file(change.path)
    else:
        write_bytes(change.path, change.new_content, change.mode)


def _has_uniform_newlines(file: TextFile) -> bool:
    """Whether all line endings are the same."""
    other_text = file.text.replace("\r\n", "") if file.newline == "\r\n" else file.text
    return not any(newline in other_text for newline in ("\r", "\n") if newline != file.newline)
