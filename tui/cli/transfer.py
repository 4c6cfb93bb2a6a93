"""`ebb sessions export` and `ebb sessions import`."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, cast

from ebbtide.agent.archive.export import OR_FORCE, default_name, export_session, import_session
from ebbtide.agent.archive.export_file import written_file
from ebbtide.agent.archive.readable_export import READABLE_FORMS, ReadableForm, export_readable
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.providers.keys import with_stored_keys
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.text.sanitise import sanitised, sanitised_line


def export(arguments: Sequence[str]) -> int:
    """Run `ebb sessions export ID [FILE]`; return the exit code."""
    parser = parser_of(
        "sessions export",
        "Writes a session with everything it has kept to one file, which `ebb sessions import` reads, or what was said "
        "in it as a page for people or as JSON. Keys and passwords that can be told are masked in it.",
    )
    parser.add_argument("id", help="the beginning of the session's id")
    unnamed = f"`-` is standard output; without it `{default_name('ID')}`, and standard output for other forms"
    parser.add_argument("file", nargs="?", help=unnamed)
    parser.add_argument("-o", "--output", metavar="FILE", help="the same as FILE behind the id")
    forms = "zip, to be imported; html, json or md, to be read; without it the file's name tells, or it is zip"
    parser.add_argument("--format", choices=("zip", *READABLE_FORMS), help=forms)
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--raw", action="store_true", help="mask nothing: keys that were read or printed stand in it")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    environment = None if options.raw else with_stored_keys(config.folders.config, os.environ)
    if options.file and options.output:
        parser.error("which file? write it behind the id or behind -o, not both")
    options.file = options.output or options.file
    form = options.format or (Path(options.file).suffix[1:].lower() if options.file else "")
    if form in READABLE_FORMS:
        return _export_readable(config, form, options, environment)
    if options.file == "-":
        if sys.stdout.isatty():
            raise UsageError("the file is not for a terminal: name one, or send the output somewhere")
        export_session(config, options.id, cast(BinaryIO, _WriteOnlyStream(sys.stdout.buffer)), environment=environment)
        sys.stdout.buffer.flush()
        return 0
    path = Path(options.file) if options.file else None
    exported = export_session(config, options.id, path, force=options.force, environment=environment)
    path = path or default_name(exported.session)
    for ref in exported.left_out:
        print(f"ebb: the bytes of `{ref}` are gone, so the file does not hold them", file=sys.stderr)
    if options.json:
        print_json(sys.stdout, {**asdict(exported), "file": str(path)})
    else:
        stored = f"{pluralize(exported.messages, 'message')} and {pluralize(exported.outputs, 'stored output')}"
        print(f"exported {exported.session}  {sanitised_line(exported.title)}")
        print(f"{stored} are in {sanitised(str(path))}, {_masking_note(exported.masked)}")
    return 0


def _export_readable(
    config: Config, form: ReadableForm, options: argparse.Namespace, environment: Mapping[str, str] | None
) -> int:
    if options.file in (None, "-"):
        if options.json:
            raise UsageError("`--json` tells what is in a file: name one with -o")
        written = export_readable(config, options.id, form, _to_stdout(), environment)
        sys.stdout.flush()
    else:
        path = Path(options.file)
        with written_file(path, force=options.force, otherwise=OR_FORCE) as file:
            written = export_readable(
                config, options.id, form, lambda text: file.write(text.encode("utf-8", "replace")), environment
            )
    if written.told:
        print(f"ebb: {sanitised_line(written.told)}", file=sys.stderr)
    if options.json:
        print_json(sys.stdout, {**asdict(written), "format": form, "file": options.file})
    elif options.file not in (None, "-"):
        hidden = "as they were" if environment is None else "; keys and passwords that can be told are taken out"
        many = pluralize(written.messages, "message")
        print(
            f"{many} of {written.session} are in {sanitised(options.file)}{' ' if environment is None else ''}{hidden}"
        )
    return 0


def _to_stdout() -> Callable[[str], object]:
    """Return a writer to stdout; on a terminal it strips control sequences."""
    if sys.stdout.isatty():
        return lambda text: sys.stdout.write(sanitised(text))
    sys.stdout.flush()
    return lambda text: sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _masking_note(count: int | None) -> str:
    if count is None:
        return "as they were: a key or password that an output showed is among them"
    masked = f"with {pluralize(count, 'secret')} masked" if count else "in which no secret was found"
    return f"{masked}; a password that looks like any word cannot be told"


def import_archive(arguments: Sequence[str]) -> int:
    """Run `ebb sessions import FILE`; return the exit code."""
    parser = parser_of(
        "sessions import",
        "Brings back a session that `ebb sessions export` wrote. It asks for permission as your "
        "configuration says, whatever it was allowed before.",
    )
    parser.add_argument("file")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    imported = import_session(config, Path(options.file))
    if options.json:
        print_json(sys.stdout, asdict(imported))
    elif not imported.is_new:
        print(f"{imported.session} is here already: nothing has changed")
    else:
        print(f"imported {imported.session}  {sanitised_line(imported.title)}")
        if imported.session != imported.exported_id:
            print(f"{imported.exported_id} is another session here, so it has a new id")
        print(f"Go on with it: ebb -r {imported.session}")
    return 0


class _WriteOnlyStream:
    """A write-only, unseekable stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
