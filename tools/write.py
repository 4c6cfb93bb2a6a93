"""The `write` tool: replaces a whole file, keeping an existing file's mode, encoding, BOM and line endings."""

import json

from ebbtide.tools.base import Arguments, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import FILE_ARGUMENTS, is_editor_call, normalise_name, pop_argument
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.files.change import (
    Change,
    ChangePlanner,
    PlannedChanges,
    decode_seen_file,
    get_codec,
    require_read,
    translate_encoding_errors,
)
from ebbtide.tools.files.paths import display_path, resolve_path
from ebbtide.tools.files.read_write import read_bytes_if_exists
from ebbtide.tools.files.text import TextFile
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, path_argument

UNCHANGED_NOTE = "already has exactly this content"
"""The result if the file already has the requested content."""
FINAL_NEWLINE_NOTE = "; only its final newline differs"
"""Added to the result if only the final newline of the file changes."""


def _accepts_alias_call(called_name: str, arguments: Arguments) -> bool:
    values_by_name = {normalise_name(name): value for name, value in arguments.items()}
    replaces_whole_file = values_by_name.get("mode") in ("create", "overwrite") and isinstance(
        values_by_name.get("content"), str
    )
    return (called_name == "editfile" and replaces_whole_file) or is_editor_call(
        called_name, arguments, "create", "write"
    )


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    mode = pop_argument(arguments, "mode", "append")
    if mode in ("append", "a", True, "true"):
        raise ToolError(
            "`write` replaces the whole file: to append, call `edit` with the last line as `old`, "
            "and that line plus the addition as `new`"
        )
    if isinstance(content := arguments.get("content"), dict | list) and str(arguments.get("path")).endswith(".json"):
        arguments["content"] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"


class Write(ChangePlanner):
    name = "write"
    description = read_description(__file__)
    traits = ToolTraits(
        role="write_file",
        output_content="change",
        stub_template="Edited {path}",
        stub_result="nothing",
        acp_kind="edit",
        get_subject=path_argument,
        rule_noun="new or rewritten files",
        editable_argument="content",
        aliases="write_file write_to_file create_file create save_file write_text_file",
        accepts_alias_call=_accepts_alias_call,
        argument_aliases={"path": FILE_ARGUMENTS, "content": "contents file_text text data input file_content code"},
        adapt_arguments=_adapt_arguments,
        claude_names=("Write",),
        claude_arguments={"path": "file_path"},
        small_window_policy="always",
        short_form=ShortForm("Creates a file, or replaces one that was read.", ("path", "content")),
        small_model_form=ShortForm("Creates a file, or replaces its whole content.", ("path", "content")),
    )
    schema = object_schema(
        {"path": {"type": "string"}, "content": {"type": "string"}, "encoding": {"type": "string"}},
        required=("path", "content"),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve_path(get_text(arguments, "path"), workspace)),)

    def plan_changes(self, arguments: Arguments, workspace: Workspace) -> PlannedChanges:
        path = resolve_path(get_text(arguments, "path"), workspace)
        name, content = display_path(path, workspace.root), get_text(arguments, "content")
        old_bytes, codec = read_bytes_if_exists(path), get_codec(get_text(arguments, "encoding", ""))
        old_file = TextFile("", codec or "utf-8")
        if old_bytes:
            require_read(path, old_bytes, workspace)
            old_file = decode_seen_file(path, old_bytes, workspace)
        note = ""
        if codec and (old_file.is_guess or old_file.codec != codec):
            note = f"; now in {codec}, no longer in {old_file.codec}" if old_bytes and old_file.codec != codec else ""
            old_file = TextFile("", codec, newline=old_file.newline)
        with translate_encoding_errors(name, old_file):
            new_bytes = old_file.with_text(content.removeprefix("\ufeff") if old_bytes else content).encode()
        if codec:
            workspace.seen_files.encodings[path] = codec
        if old_bytes == new_bytes:
            return PlannedChanges((), f"`{name}` {UNCHANGED_NOTE}")
        note += ", with CRLF line endings as before" if old_bytes and old_file.newline == "\r\n" else ""
        note += FINAL_NEWLINE_NOTE if _differ_only_in_final_newlines(old_bytes, new_bytes) else ""
        line_count = content.count("\n") + (not content.endswith("\n") and bool(content))
        message = f"{'created' if old_bytes is None else 'overwrote'} `{name}`: {pluralize(line_count, 'line')}{note}"
        return PlannedChanges((Change(path, old_bytes, new_bytes, encoding=old_file.codec),), message)


def _differ_only_in_final_newlines(old_bytes: bytes | None, new_bytes: bytes) -> bool:
    """Whether the contents differ only in newlines at the end."""
    newline_bytes = b"\r\n\0"  # the zero byte is for UTF-16
    return bool(old_bytes) and (old_bytes or b"").rstrip(newline_bytes) == new_bytes.rstrip(newline_bytes)
