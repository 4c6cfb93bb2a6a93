"""The `write` tool: puts a whole file in place. An existing one keeps its mode, encoding, BOM and line ends."""

from dataclasses import replace

from tools.base import Arguments, Effect, Result, ToolError, Workspace, description_beside
from tools.files.change import Change, insist_on_read, made_of, make, preview_of
from tools.files.paths import display, resolve
from tools.files.read_write import content_of, undivided
from tools.files.text import decode, with_newline
from tools.lazy import dataclass
from tools.outputs.extent import counted
from tools.schema import object_of, text

SAME = "holds exactly this already"
"""What is said of a file that was to be as it is."""
END_ONLY = "; only the line end at its end is different"
"""What is said of one that is as before but for that."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    change: Change
    note: str = ""
    """What the model should know beside that it worked."""


class Write:
    name = "write"
    description = description_beside(__file__)
    effect: Effect = "write"
    schema = object_of({"path": {"type": "string"}, "content": {"type": "string"}}, required=("path", "content"))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve(text(arguments, "path"), workspace)),)

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        return preview_of([_plan(arguments, workspace).change], workspace.root)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await undivided(lambda: _write(arguments, workspace))


def _write(arguments: Arguments, workspace: Workspace) -> Result:
    plan = _plan(arguments, workspace)
    change = plan.change
    name = display(change.path, workspace.root)
    if change.before == change.after:
        return Result(f"`{name}` {SAME}")
    make([change], workspace.seen)
    content = text(arguments, "content")
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    verb = "created" if change.before is None else "overwrote"
    return Result(
        f"{verb} `{name}`: {counted(lines, 'line')}{plan.note}", changed=(change.path,), file_changes=made_of([change])
    )


def _plan(arguments: Arguments, workspace: Workspace) -> WritePlan:
    path = resolve(text(arguments, "path"), workspace)
    content = text(arguments, "content")
    before = content_of(path)
    if before:
        insist_on_read(path, before, workspace)
        after, note = _in_the_manner_of(before, content)
    else:
        after, note = _utf8(content), ""
    return WritePlan(Change(path, before, after), note + (END_ONLY if _differ_in_end(before, after) else ""))


def _differ_in_end(before: bytes | None, after: bytes) -> bool:
    """Whether a file is to be as it was but for line ends at its end."""
    ends = b"\r\n\0"  # in UTF-16, too
    return bool(before) and before != after and (before or b"").rstrip(ends) == after.rstrip(ends)


def _in_the_manner_of(before: bytes, content: str) -> tuple[bytes, str]:
    """The content with the old file's encoding, byte order mark and line ends, and what is to be said about it."""
    old = decode(before)
    new = replace(old, text=with_newline(content.removeprefix("\ufeff"), old.newline))
    note = ", with CRLF line ends as before" if old.newline == "\r\n" else ""
    try:
        return new.encode(), note
    except UnicodeEncodeError:
        return _utf8(content), f"; now in UTF-8, because {old.codec} lacks some of its characters"


def _utf8(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError("the content holds half a surrogate pair: write the whole character") from error
