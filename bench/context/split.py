"""Which recordings of a folder are for fitting and which only for checking, from its `split.json`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

Part: TypeAlias = Literal["fit", "check"]
PARTS: tuple[Part, ...] = get_args(Part)


class BadSplitError(Exception):
    """`split.json` is missing, invalid, or does not list the recordings in the folder. The message is for people."""


def read_split(folder: Path) -> dict[Part, frozenset[str]]:
    """Return the names of the recordings in each part, without `.jsonl`. Each recording in the folder is in exactly one
    part. Raises `BadSplitError`."""
    path = folder / "split.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadSplitError(f'`{path}` is missing; write `{{"fit": [NAME, …], "check": [NAME, …]}}` to it') from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadSplitError(f"`{path}` cannot be read: {error}") from None
    lists = [content.get(part) if isinstance(content, dict) else None for part in PARTS]
    names = [_valid_names(part, path) for part in lists]
    if both := names[0] & names[1]:
        raise BadSplitError(f"`{path}` lists recordings in both parts: {_listed(both)}")
    found = {file.stem for file in folder.glob("*.jsonl")}
    if absent := (names[0] | names[1]) - found:
        raise BadSplitError(f"`{path}` lists recordings that are not in the folder: {_listed(absent)}")
    if unlisted := found - names[0] - names[1]:
        raise BadSplitError(f"`{path}` does not list recordings of the folder: {_listed(unlisted)}")
    return dict(zip(PARTS, names, strict=True))


def _valid_names(names: object, path: Path) -> frozenset[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadSplitError(f"`{path}` needs a list of file names for each of `fit` and `check`")
    return frozenset(name.removesuffix(".jsonl") for name in names)


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return ", ".join(f"`{name}`" for name in ordered[:5]) + more
