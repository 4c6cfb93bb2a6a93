"""What a patch of several files comes to: every change worked out in full, then all of them made or none."""

from dataclasses import dataclass
from pathlib import Path

from tools.base import Arguments, Result, ToolError, Workspace
from tools.files.change import Change, made_of, make
from tools.files.patch import Add, Delete, FilePatch, PatchError, PatchHunk, Update, changes_of, parse
from tools.files.paths import display, resolve
from tools.files.read_write import content_of, mode_of
from tools.files.text import binary_kind, decode
from tools.schema import text


@dataclass(frozen=True, slots=True)
class PatchStep:
    """What one file's part of the patch comes to."""

    changes: tuple[Change, ...]
    said: str


def written(arguments: Arguments) -> list[str]:
    """The paths that the patch would write, as it names them. Raises `ToolError`."""
    return [path for part in _parsed(arguments) for path in _paths(part)]


def planned(arguments: Arguments, workspace: Workspace) -> list[Change]:
    """The changes that the patch would make. Raises `ToolError`."""
    return [change for step in _plan(arguments, workspace) for change in step.changes]


def applied(arguments: Arguments, workspace: Workspace) -> Result:
    """Makes all changes of the patch. Raises `ToolError`, and then none is made."""
    steps = _plan(arguments, workspace)
    changes = [change for step in steps for change in step.changes]
    make(changes, workspace.seen)
    said = "\n".join(step.said for step in steps)
    return Result(said, changed=tuple(change.path for change in changes), file_changes=made_of(changes))


def _parsed(arguments: Arguments) -> tuple[FilePatch, ...]:
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


def _plan(arguments: Arguments, workspace: Workspace) -> list[PatchStep]:
    """Every change of the patch, worked out in full before the first one is made."""
    steps = []
    taken: set[Path] = set()
    for part in _parsed(arguments):
        try:
            step = _step(part, workspace)
        except (PatchError, ToolError) as error:
            raise ToolError(f"no file was changed: {error}") from error
        for change in step.changes:
            if change.path in taken:
                name = display(change.path, workspace.root)
                raise ToolError(f"no file was changed: `{name}` comes twice: put its hunks under one header")
            taken.add(change.path)
        steps.append(step)
    return steps


def _step(part: FilePatch, workspace: Workspace) -> PatchStep:
    path = resolve(part.path, workspace)
    name = display(path, workspace.root)
    before = content_of(path)
    match part:
        case Add(content=content):
            if before is not None:
                raise ToolError(f"`{name}` exists already: use `*** Update File:`")
            return PatchStep((Change(path, None, _encoded(content, name)),), f"added `{name}`")
        case Delete():
            return PatchStep((Change(path, _existing(before, name), None),), f"deleted `{name}`")
        case Update(hunks=hunks, move_to=written):
            after = _updated(_existing(before, name), hunks, name)
            if written is None:
                return PatchStep((Change(path, before, after),), f"updated `{name}`")
            target = resolve(written, workspace)
            new_name = display(target, workspace.root)
            if content_of(target) is not None:
                raise ToolError(f"`{new_name}` exists already, so `{name}` cannot be moved there: choose another path")
            added = Change(target, None, after, mode_of(path))
            return PatchStep((added, Change(path, before, None)), f"moved `{name}` to `{new_name}`")


def _existing(content: bytes | None, name: str) -> bytes:
    if content is None:
        raise ToolError(f"`{name}` does not exist: use `*** Add File:`, or correct the path")
    return content


def _updated(raw: bytes, hunks: tuple[PatchHunk, ...], name: str) -> bytes:
    kind = binary_kind(raw)
    if kind is not None and hunks:
        raise ToolError(f"`{name}` is {kind}, not text: change it in bash with a program made for that")
    file = decode(raw)
    try:
        return file.replaced(changes_of(name, file.unified, hunks)).encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"`{name}` is in {file.codec}, which lacks characters of the patch: use others") from error


def _encoded(content: str, name: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content of `{name}` holds half a surrogate pair: write the whole character") from error
