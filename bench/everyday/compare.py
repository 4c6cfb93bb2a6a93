"""Compares two runs of a command. Pure."""

import re
from collections.abc import Mapping

from bench.everyday.corpus import CommandRow
from bench.everyday.runs import CommandRun

_VARIABLE_TEXT = re.compile(r"\b[0-9a-f]{7,40}\b| *\d+|(?<=tmp)[\w]{8}\b|(?<=tmp\.)\w{10}\b")
"""Text that varies between runs: hashes, process ids, times."""
_GIT_INDEX = re.compile(r"(^|/)\.git(/worktrees/[^/]+|/modules/.+)?/index$")
"""Git's index, which is not compared because it contains file times."""


_MAX_LISTED_FILES = 3


def run_differences(row: CommandRow, plain: CommandRun, tool: CommandRun, again: CommandRun | None = None) -> list[str]:
    """Return one line per difference between two runs; empty if the row only requires that the command ends. `again`: a
    second run of `bash -c`. Results that differ between the two runs of `bash -c` are ignored or compared less
    strictly."""
    if row.compare == "must end":
        return []
    found = []
    if not _same_code(plain.code, tool.code) and (again is None or _same_code(plain.code, again.code)):
        found.append(f"exit: {tool.code} in place of {plain.code}")
    if row.compare == "exit":
        return found
    if not _same_output(plain.output, tool.output, again.output if again is not None else None):
        found.append(f"output: {_first_difference(plain.output, tool.output)}")
    files = _different_files(plain.files, tool.files, again.files if again is not None else None)
    more = [f"{len(files) - _MAX_LISTED_FILES} more files"] if len(files) > _MAX_LISTED_FILES else []
    return [*found, *files[:_MAX_LISTED_FILES], *more]


def _same_code(one: int | None, other: int | None) -> bool:
    """Whether two exit codes are equal. A signal that ends the inner shell appears as a code above 128 in the outer
    one."""
    return _exit_status(one) == _exit_status(other)


def _exit_status(code: int | None) -> int | None:
    return 128 - code if code is not None and code < 0 else code


def _same_output(plain: str, tool: str, again: str | None) -> bool:
    if plain == tool:
        return True
    if again is None or again == plain:
        return False
    for simplified in (_mask_variable_text, _sort_lines):
        if simplified(plain) == simplified(again):
            return simplified(plain) == simplified(tool)
    return True


def _mask_variable_text(text: str) -> str:
    return _VARIABLE_TEXT.sub("#", text)


def _sort_lines(text: str) -> str:
    return "\n".join(sorted(_mask_variable_text(text).split("\n")))


def _first_difference(plain: str, tool: str) -> str:
    ours, theirs = tool.split("\n"), plain.split("\n")
    for number in range(max(len(ours), len(theirs))):
        one = ours[number] if number < len(ours) else None
        other = theirs[number] if number < len(theirs) else None
        if one != other:
            return f"line {number + 1} is {_short(one)} in place of {_short(other)}"
    return "the same"


def _short(line: str | None) -> str:
    return "not there" if line is None else repr(line if len(line) <= 160 else f"{line[:157]}…")


def _different_files(plain: Mapping[str, str], tool: Mapping[str, str], again: Mapping[str, str] | None) -> list[str]:
    if again is not None:
        plain, tool, again = (_with_stable_names(each, plain, again) for each in (plain, tool, again))
    return [
        f"{path}: {tool.get(path, 'unchanged')} in place of {plain.get(path, 'unchanged')}"
        for path in sorted({*plain, *tool})
        if not _GIT_INDEX.search(path)
        and plain.get(path) != tool.get(path)
        and not (again is not None and _is_unrepeatable(path, plain, again, tool))
    ]


def _with_stable_names(files: Mapping[str, str], plain: Mapping[str, str], again: Mapping[str, str]) -> dict[str, str]:
    """Return the files by name. If a name varies between runs of `bash -c`, replace its variable part."""
    masked = (
        {_mask_variable_text(path) for path in {*plain} ^ {*again}}
        & {*map(_mask_variable_text, plain)}
        & {*map(_mask_variable_text, again)}
    )
    return {
        (_mask_variable_text(path) if _mask_variable_text(path) in masked else path): what
        for path, what in files.items()
    }


def _is_unrepeatable(path: str, plain: Mapping[str, str], again: Mapping[str, str], tool: Mapping[str, str]) -> bool:
    """Whether a path also differs between the two runs of `bash -c`, and the tool's result has a kind and mode that
    occurred there."""
    one, two, three = (each.get(path, "unchanged") for each in (plain, again, tool))
    if one == two:
        return False
    kinds = {" ".join(each.split(" ")[:2]) for each in (one, two)}
    return len(kinds) > 1 or " ".join(three.split(" ")[:2]) in kinds
