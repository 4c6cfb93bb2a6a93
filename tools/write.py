"""The `write` tool: replaces a whole file. An existing file keeps its mode, encoding, BOM and line endings."""

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.files.change import (
    Change,
    applied_changes,
    codec_named,
    encoding_refusal,
    make,
    preview_of,
    require_read,
    text_of,
)
from ebbtide.tools.files.paths import display, resolve
from ebbtide.tools.files.read_write import content_of, run_exclusive
from ebbtide.tools.files.text import EncodingError, TextFile
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.schema import object_of, text

SAME = "already has exactly this content"
"""Result for a file that already has this content."""
END_ONLY = "; only its final newline differs"
"""Note for a file of which only the final newline changed."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    change: Change
    note: str = ""
    """What the model should know besides that it worked."""


class Write:
    name = "write"
    description = read_description(__file__)
    effect: Effect = "write"
    schema = object_of(
        {"path": {"type": "string"}, "content": {"type": "string"}, "encoding": {"type": "string"}},
        required=("path", "content"),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve(text(arguments, "path"), workspace)),)

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        return preview_of([_plan(arguments, workspace).change], workspace.root)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await run_exclusive(lambda: _write(arguments, workspace))


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
        f"{verb} `{name}`: {pluralize(lines, 'line')}{plan.note}",
        changed=(change.path,),
        file_changes=applied_changes([change]),
    )


def _plan(arguments: Arguments, workspace: Workspace) -> WritePlan:
    path = resolve(text(arguments, "path"), workspace)
    content = text(arguments, "content")
    before, codec = content_of(path), codec_named(text(arguments, "encoding", ""))
    old = TextFile("", codec or "utf-8")
    if before:
        require_read(path, before, workspace)
        old = text_of(path, before, workspace)
    note = ""
    if codec and (old.is_guess or old.codec != codec):
        note = f"; now in {codec}, no longer in {old.codec}" if before and old.codec != codec else ""
        old = TextFile("", codec, newline=old.newline)
    try:
        after = old.with_text(content.removeprefix("\ufeff") if before else content).encode()
    except EncodingError as error:
        raise encoding_refusal(error, display(path, workspace.root), old) from error
    if codec:
        workspace.seen.encodings[path] = codec
    note += ", with CRLF line ends as before" if before and old.newline == "\r\n" else ""
    note += END_ONLY if _differ_in_end(before, after) else ""
    return WritePlan(Change(path, before, after, encoding=old.codec), note)


def _differ_in_end(before: bytes | None, after: bytes) -> bool:
    """Whether only newlines at the end of the file change."""
    ends = b"\r\n\0"  # also covers UTF-16
    return bool(before) and before != after and (before or b"").rstrip(ends) == after.rstrip(ends)
