"""`ebb sessions export` and `ebb sessions import`."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, cast

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.integrations.export.atomic_file import atomic_file
from ebbtide.agent.integrations.export.readable_export import READABLE_FORMATS, ReadableFormat, export_readable
from ebbtide.agent.integrations.export.session_export import (
    FORCE_HINT,
    default_export_path,
    export_session,
    import_session,
)
from ebbtide.agent.providers.keys import add_stored_keys
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.text.sanitise import sanitise, sanitise_line


def export(arguments: Sequence[str]) -> int:
    """Run `ebb sessions export ID [FILE]`; return the exit code."""
    parser = create_subcommand_parser(
        "sessions export",
        "Export a session: as a zip with all its data, for `ebb sessions import`, or as HTML, Markdown or JSON to "
        "read. Recognised keys and passwords are masked.",
    )
    parser.add_argument("id", help="beginning of the session id")
    file_help = (
        f"file to write; `-` is stdout (default: `{default_export_path('ID')}`, or stdout for html, json and md)"
    )
    parser.add_argument("file", nargs="?", help=file_help)
    parser.add_argument("-o", "--output", metavar="FILE", help="same as the argument `file`")
    format_help = "zip to import; html, json or md to read (default: by the file's extension, else zip)"
    parser.add_argument("--format", choices=("zip", *READABLE_FORMATS), help=format_help)
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--raw", action="store_true", help="mask nothing; the file may then contain keys")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    environment = None if options.raw else add_stored_keys(config.folders.config, os.environ)
    if options.file and options.output:
        parser.error("give the file once, as an argument or with -o")
    options.file = options.output or options.file
    export_format = options.format or (Path(options.file).suffix[1:].lower() if options.file else "")
    if export_format in READABLE_FORMATS:
        return _export_readable(config, export_format, options, environment)
    if options.file == "-":
        if sys.stdout.isatty():
            raise UsageError("a zip cannot be printed to a terminal; name a file, or redirect the output")
        export_session(config, options.id, cast(BinaryIO, _WriteOnlyStream(sys.stdout.buffer)), environment=environment)
        sys.stdout.buffer.flush()
        return 0
    path = Path(options.file) if options.file else None
    export_result = export_session(config, options.id, path, force=options.force, environment=environment)
    path = path or default_export_path(export_result.session)
    for ref in export_result.left_out:
        print(f"ebb: the stored content of `{ref}` is missing, so it is not exported", file=sys.stderr)
    if options.json:
        print_json(sys.stdout, {**asdict(export_result), "file": str(path)})
    else:
        contents_text = (
            f"{pluralize(export_result.messages, 'message')} and {pluralize(export_result.outputs, 'stored output')}"
        )
        print(f"exported {export_result.session}  {sanitise_line(export_result.title)}")
        print(f"wrote {contents_text} to {sanitise(str(path))}; {_masking_note(export_result.masked)}")
    return 0


def _export_readable(
    config: Config, export_format: ReadableFormat, options: argparse.Namespace, environment: Mapping[str, str] | None
) -> int:
    if options.file in (None, "-"):
        if options.json:
            raise UsageError("`--json` describes the written file; name one with -o")
        result = export_readable(config, options.id, export_format, _stdout_writer(), environment)
        sys.stdout.flush()
    else:
        path = Path(options.file)
        with atomic_file(path, should_replace=options.force, alternative=FORCE_HINT) as file:
            result = export_readable(
                config, options.id, export_format, lambda text: file.write(text.encode("utf-8", "replace")), environment
            )
    if result.problems:
        print(f"ebb: {sanitise_line(result.problems)}", file=sys.stderr)
    if options.json:
        print_json(sys.stdout, {**asdict(result), "format": export_format, "file": options.file})
    elif options.file not in (None, "-"):
        masking_text = "unchanged" if environment is None else "; recognised keys and passwords are masked"
        count_text = pluralize(result.messages, "message")
        print(
            f"wrote {count_text} of {result.session} to "
            f"{sanitise(options.file)}{', ' if environment is None else ''}{masking_text}"
        )
    return 0


def _stdout_writer() -> Callable[[str], object]:
    """Get a function that writes to stdout. On a terminal, it strips control sequences."""
    if sys.stdout.isatty():
        return lambda text: sys.stdout.write(sanitise(text))
    sys.stdout.flush()
    return lambda text: sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _masking_note(masked_count: int | None) -> str:
    if masked_count is None:
        return "nothing was masked, so it may contain keys or passwords"
    masked_text = f"{pluralize(masked_count, 'secret')} masked" if masked_count else "no secrets found"
    return f"{masked_text} (a password that looks like an ordinary word is not recognised)"


def import_archive(arguments: Sequence[str]) -> int:
    """Run `ebb sessions import FILE`; return the exit code."""
    parser = create_subcommand_parser(
        "sessions import",
        "Import a session that `ebb sessions export` wrote. Permissions that it was given are not imported; your "
        "configuration applies.",
    )
    parser.add_argument("file")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    import_result = import_session(config, Path(options.file))
    if options.json:
        print_json(sys.stdout, asdict(import_result))
    elif not import_result.is_new:
        print(f"{import_result.session} already exists; nothing imported")
    else:
        print(f"imported {import_result.session}  {sanitise_line(import_result.title)}")
        if import_result.session != import_result.exported_id:
            print(f"the id {import_result.exported_id} is already used here, so the session got a new one")
        print(f"Resume: ebb -r {import_result.session}")
    return 0


class _WriteOnlyStream:
    """A write-only, unseekable stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
