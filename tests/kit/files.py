"""Write files, programs and folders of a test in one call each; missing folders are made."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_file(path: Path, content: str | bytes | Mapping[str, object] | list[object] = "") -> Path:
    """Write text, bytes or a value as JSON, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def write_files(
    folder: Path, files: Mapping[str, str] | Mapping[str, str | bytes] | Iterable[str], text: str = ""
) -> Path:
    """Write each file with its content, or, if there are only names, with the same `text`. Return the folder."""
    for name, content in files.items() if isinstance(files, Mapping) else ((name, text) for name in files):
        write_file(folder / name, content)
    return folder


def write_program(path: Path, text: str = "") -> Path:
    """Write a script that can be run, of the shell unless its first line names another interpreter."""
    write_file(path, text if text.startswith("#!") else f"#!/bin/sh\n{text}").chmod(0o755)
    return path
