"""Changes of files, worked out first and then made: all of them or none."""

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
"""Files whose content is remembered after a call that showed them, and bytes of each."""


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    before: bytes | None
    """The content that the change was worked out from; None when there was no file."""
    after: bytes | None
    """The new content; None deletes the file."""
    mode: int | None = None
    """Permission bits of a new file, when they are not the usual ones."""
    encoding: str = ""
    """The codec of its text, where the model named one."""


def make(changes: Sequence[Change], seen: SeenFiles) -> None:
    """Makes every change. When one cannot be made, those before it are taken back. Raises `ToolError`."""
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
            with suppress(ToolError):  # the first error is the one to tell
                _put(back)
        raise
    for change in changes:
        if change.after is None:
            seen.forget(change.path)
        else:
            seen.note(change.path, change.after)


def applied_changes(changes: Sequence[Change]) -> tuple[AppliedChange, ...]:
    """The changes, for whoever keeps what they replaced."""
    return tuple(AppliedChange(change.path, change.before, change.after) for change in changes)


def require_read(path: Path, content: bytes, workspace: Workspace) -> None:
    """Returns when the model knows this content of the file. Raises `ToolError`."""
    require_text(path, content, workspace)
    name = display(path, workspace.root)
    if not workspace.seen.knows(path):
        raise ToolError(f"`{name}` was not read in this session: first {read_call(name)}")
    if not workspace.seen.is_current(path, content):
        raise ToolError(f"`{name}` changed since you read it: {read_call(name)} again, then decide anew")


def _require_writable(path: Path, name: str) -> None:
    """Raises `ToolError` for a file that nobody may write: the system itself stops neither root nor who puts another
    file in its place."""
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
    """The text of a file, in the encoding that the model names for it or has named before. Raises `ToolError` when it
    cannot be in that."""
    codec, name = codec_named(encoding), display(path, workspace.root)
    file = decode(raw, codec or workspace.seen.encodings.get(path, ""))
    if codec and file.codec != codec:
        known = "" if file.is_guess else f" but in {file.codec}"
        raise ToolError(f"`{name}` is not in {encoding}{known}: name another `encoding`, or leave it out")
    if codec:
        workspace.seen.encodings[path] = codec
    return file


def codec_named(encoding: str) -> str:
    """The codec of an encoding; empty where none is named. Raises `ToolError` for one that cannot be used."""
    codec = usable(encoding)
    if encoding and not codec:
        raise ToolError(f"`encoding`: {printable(encoding)!r} cannot be used: give a name such as gbk, cp932 or cp1251")
    return codec


def encoding_refusal(error: EncodingError, name: str, file: TextFile) -> ToolError:
    """What the model is told when a change cannot be written in the encoding of a file."""
    if isinstance(error, UnsureEncodingError):
        known = f"`{name}` is not in UTF-8, and {file.codec} is only a guess"
        how = f'{read_call(name)} and encoding="{file.codec}", or whatever it is in'
        return ToolError(f"{known}: {error}, first {how}")
    return ToolError(f"`{name}` cannot be changed so: {error}; use other characters, or convert it with iconv first")


def look_at(path: Path, content: bytes, workspace: Workspace) -> Look:
    """What the model knows of the file, as far as a change of a part of it needs that: nothing, where the change names
    exactly what it replaces. Raises `ToolError` when the file is no text, or no longer what the model last saw."""
    require_text(path, content, workspace)
    look = workspace.seen.last_look(path, content)
    if look == "outdated":
        name = display(path, workspace.root)
        raise ToolError(f"`{name}` changed since you read it: {read_call(name)} again, then decide anew")
    return look


def note_looks(paths: Iterable[Path], workspace: Workspace) -> None:
    """Remembers of the first few of the files, where they are files and not large, that something of them was shown."""
    for path in islice(paths, MAX_NOTED_FILES):
        with suppress(OSError, ValueError):
            real = path.resolve()
            if (content := look_content(real)) is not None:
                workspace.seen.look(real, content)


def look_content(path: Path) -> bytes | None:
    """What a file that is not large holds, to be compared with what it holds later; None of any other."""
    with suppress(ToolError, OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MAX_NOTED_BYTES:
            return read_bytes(path)
    return None


def preview_of(changes: Sequence[Change], root: Path) -> str:
    """All changes as one unified diff. A file that is made right before another one goes is that one, moved."""
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
    r"""The lines of a unified diff of two contents; None stands for no file. Line ends other than `\n` show where they
    are not the same on both sides; what is no text is only said to have changed."""
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
    """Whether all lines end in the same way."""
    rest = file.text.replace("\r\n", "") if file.newline == "\r\n" else file.text
    return not any(end in rest for end in ("\r", "\n") if end != file.newline)
