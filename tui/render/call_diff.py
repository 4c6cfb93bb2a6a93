"""What a tool call changes, as a unified diff."""

from functools import lru_cache

from tools.files.diff import unified
from tui.view.blocks import Call


def diff_of(call: Call) -> str:
    """The diff that the user was asked about, or else one made from the call's arguments; empty if it edits nothing."""
    if call.preview:
        return call.preview
    match call.name, call.arguments:
        case "edit", {"old": str(old), "new": str(new)}:
            return _compare(old, new)
        case "write", {"content": str(content)}:
            return _compare("", content)
        case "apply_patch", {"patch": str(patch)}:
            return patch
        case _:
            return ""


def file_of(call: Call) -> str:
    """The file that a fragment is of; empty where the diff itself names its files."""
    path = call.arguments.get("path")
    return path if isinstance(path, str) else ""


@lru_cache(maxsize=64)
def _compare(old: str, new: str) -> str:
    """A fragment: its lines have no numbers, and it names no file."""
    return "\n".join(unified("", old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))[2:])
