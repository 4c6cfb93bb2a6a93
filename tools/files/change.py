"""Changes to files, planned first and then applied together or not at all."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ebbtide.tools.base import AppliedChange, ToolError, Workspace
from ebbtide.tools.files.diff import binary_diff, header, truncated_diff, unified_diff
from ebbtide.tools.files.encodings import usable
from ebbtide.tools.files.paths import display, read_call
from ebbtide.tools.files.read_write import content_of, delete, mode_of, read_bytes, write_bytes
from ebbtide.tools.files.text import EncodingError, TextFile, UnsureEncodingError, binary_kind, decode, showable
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.seen_files import Look, SeenFiles

MAX_NOTED_FILES, MAX_NOTED_BYTES = 20, 4_000_000
"""Maximum number of files recorded after a call that showed them, and bytes of each."""


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    before: bytes | None
    """The content that the change is based on, or None if the file does not exist."""
    after: bytes | None
    """The new content, or None to delete the file."""
    mode: int | None = None
    """Permission bits of a new file, if not the default ones."""
    encoding: str = ""
    """The codec of its text, if the model specified one."""


def make(changes: Sequence[Change], seen: SeenFiles) -> None:
    """Apply every change. If one fails, those before it are reverted. Raises `ToolError`."""
    for change in changes:
        _require_writable(change.path, str(change.path))
        if content_of(change.path) != change.before:
            raise ToolError(f"`{change.path}` changed while it was being edited: {read_call(str(change.path))} again")
    backward: list[Change] = []
    try:
        for change in changes:
            back = Change(change.path, change.after, change.before, mode_of(change.path))
            _put(change)
            backward.append(back)
    except ToolError:
        for back in reversed(backward):
            with suppress(ToolError):  # report the first error
                _put(back)
        raise
    for change in changes:
        if change.after is None:
            seen.forget(change.path)
        else:
            seen.note(change.path, change.after)


def applied_changes(changes: Sequence[Change]) -> tuple[AppliedChange, ...]:
    """Return the changes for the caller that stores what they replaced."""
    return tuple(AppliedChange(change.path, change.before, change.after) for change in changes)


def require_read(path: Path, content: bytes, workspace: Workspace) -> None:
    """Check that the model has seen this content of the file. Raises `ToolError`."""
    require_text(path, content, workspace)
    name = display(path, workspace.root)
    if not workspace.seen.knows(path):
        raise ToolError(f"`{name}` was not read in this session: first {read_call(name)}")
    if not workspace.seen.is_current(path, content):
        raise ToolError(f"`{name}` changed since you read it: {read_call(name)} again, then decide anew")


def _require_writable(path: Path, name: str) -> None:
    """Raise `ToolError` for a write-protected file. The system itself would not stop root, or a write that replaces the
    file."""
    mode = mode_of(path)
    if mode is not None and not mode & 0o222:
        how = "ask the user, or make it writable with chmod in bash first"
        raise ToolError(f"`{name}` is write-protected (mode {mode:04o}): {how}")


def require_text(path: Path, content: bytes, workspace: Workspace) -> None:
    _require_writable(path, display(path, workspace.root))
    kind = binary_kind(content)
    if kind is not None:
        name = display(path, workspace.root)
        raise ToolError(f"`{name}` is {kind}, not text: change it in bash with a program made for that")


def text_of(path: Path, raw: bytes, workspace: Workspace, encoding: str = "") -> TextFile:
    """Return the text of a file, in the encoding that the model specifies now or specified before. Raises `ToolError`
    if it cannot be in that encoding."""
    codec, name = codec_named(encoding), display(path, workspace.root)
    file = decode(raw, codec or workspace.seen.encodings.get(path, ""))
    if codec and file.codec != codec:
        known = "" if file.is_guess else f" but in {file.codec}"
        raise ToolError(f"`{name}` is not in {encoding}{known}: name another `encoding`, or leave it out")
    if codec:
        workspace.seen.encodings[path] = codec
    return file


def codec_named(encoding: str) -> str:
    """Return the codec of an encoding, or an empty string if none is given. Raises `ToolError` if it cannot be used."""
    codec = usable(encoding)
    if encoding and not codec:
        raise ToolError(f"`encoding`: {printable(encoding)!r} cannot be used: give a name such as gbk, cp932 or cp1251")
    return codec


def encoding_refusal(error: EncodingError, name: str, file: TextFile) -> ToolError:
    """Return the error for a change that cannot be written in the file's encoding."""
    if isinstance(error, UnsureEncodingError):
        known = f"`{name}` is not in UTF-8, and {file.codec} is only a guess"
        how = f'{read_call(name)} and encoding="{file.codec}", or its actual encoding'
        return ToolError(f"{known}: {error}, first {how}")
    return ToolError(
        f"`{name}` cannot be changed this way: {error}; use other characters, or convert it with iconv first"
    )


def look_at(path: Path, content: bytes, workspace: Workspace) -> Look:
    """Return what the model knows of the file for a partial change. It need not know anything if the change quotes
    exactly what it replaces. Raises `ToolError` if the file is not text, or has changed since the model saw it."""
    require_text(path, content, workspace)
    look = workspace.seen.last_look(path, content)
    if look == "outdated":
        name = display(path, workspace.root)
        raise ToolError(f"`{name}` changed since you read it: {read_call(name)} again, then decide anew")
    return look


def note_looks(paths: Iterable[Path], workspace: Workspace) -> None:
    """Record that the first few of the files were shown in part, if they are regular and not large."""
    for path in islice(paths, MAX_NOTED_FILES):
        with suppress(OSError, ValueError):
            real = path.resolve()
            if (content := look_content(real)) is not None:
                workspace.seen.look(real, content)


def look_content(path: Path) -> bytes | None:
    """Return the content of a file that is not large, for later comparison, or None."""
    with suppress(ToolError, OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MAX_NOTED_BYTES:
            return read_bytes(path)
    return None


def preview_of(changes: Sequence[Change], root: Path) -> str:
    """Return all changes as one unified diff. A creation followed by a deletion is shown as a move."""
    lines: list[str] = []
    left = list(changes)
    while left:
        change = left.pop(0)
        gone = left[0] if left and change.before is None and left[0].after is None else None
        if gone is not None and gone.before and change.after:
            left.pop(0)
            new_name, codec = display(change.path, root), change.encoding
            lines += diff_lines(display(gone.path, root), gone.before, change.after, new_name, codec)
        else:
            lines += diff_lines(display(change.path, root), change.before, change.after, encoding=change.encoding)
    return truncated_diff(lines)


def diff_lines(
    name: str, before: bytes | None, after: bytes | None, new_name: str | None = None, encoding: str = ""
) -> list[str]:
    r"""Return the lines of a unified diff of two contents, where None is no file. Line endings other than `\n` are
    shown if they differ between the sides. Binary files are only reported as changed."""
    kind = next((kind for content in (before, after) if content and (kind := binary_kind(content))), None)
    if kind is not None:
        return binary_diff(name, before, after, kind, new_name) if before != after or new_name is not None else []
    old = None if before is None else decode(before, encoding)
    new = None if after is None else decode(after, encoding or (old.codec if old and old.is_guess else ""))
    files = [file for file in (old, new) if file is not None]
    is_alike = all(map(_is_even, files)) and len({file.newline for file in files}) == 1
    texts = [None if file is None else showable(file.normalised_text if is_alike else file.text) for file in (old, new)]
    lines = unified_diff(name, texts[0], texts[1], new_name)
    if old and new and before != after and texts[0] == texts[1]:
        encodings = (f"{file.codec}{' with a byte order mark' if file.bom else ''}" for file in (old, new))
        lines += [*([] if lines else header(name)), f"encoding: {' -> '.join(encodings)}"]
    return lines


def _put(change: Change) -> None:
    if change.after is None:
        delete(change.path)
    else:
        write_bytes(change.path, change.after, change.mode)


def _is_even(file: TextFile) -> bool:
    """Whether all line endings are the same."""
    rest = file.text.replace("\r\n", "") if file.newline == "\r\n" else file.text
    return not any(end in rest for end in ("\r", "\n") if end != file.newline)
