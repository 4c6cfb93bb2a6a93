"""Compares two runs of a command. Pure."""

import re
from collections.abc import Mapping

from bench.everyday.corpus import Row
from bench.everyday.runs import CommandRun

_CHANGING = re.compile(r"\b[0-9a-f]{7,40}\b| *\d+|(?<=tmp)[\w]{8}\b|(?<=tmp\.)\w{10}\b")
"""Text that changes between runs: hashes, process ids, times."""
_BY_STAT = re.compile(r"(^|/)\.git(/worktrees/[^/]+|/modules/.+)?/index$")
"""Git's index contains file times."""


_MAX_FILES = 3


def differences(row: Row, plain: CommandRun, tool: CommandRun, again: CommandRun | None = None) -> list[str]:
    """Return one line per difference; empty if the row only requires that the command ends. `again` is a second run of
    `bash -c`; what differs between its runs is ignored or compared less strictly."""
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
    more = [f"{len(files) - _MAX_FILES} more files"] if len(files) > _MAX_FILES else []
    return [*found, *files[:_MAX_FILES], *more]


def _same_code(one: int | None, other: int | None) -> bool:
    """Compare exit codes; a signal that ends a shell appears as a code above 128 to its grandparent."""
    return _as_number(one) == _as_number(other)


def _as_number(code: int | None) -> int | None:
    return 128 - code if code is not None and code < 0 else code


def _same_output(plain: str, tool: str, again: str | None) -> bool:
    if plain == tool:
        return True
    if again is None or again == plain:
        return False
    for simplified in (_mask_changing, _sort_lines):
        if simplified(plain) == simplified(again):
            return simplified(plain) == simplified(tool)
    return True


def _mask_changing(text: str) -> str:
    return _CHANGING.sub("#", text)


def _sort_lines(text: str) -> str:
    return "\n".join(sorted(_mask_changing(text).split("\n")))


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
        plain, tool, again = (_by_stable_names(each, plain, again) for each in (plain, tool, again))
    return [
        f"{path}: {tool.get(path, 'unchanged')} in place of {plain.get(path, 'unchanged')}"
        for path in sorted({*plain, *tool})
        if not _BY_STAT.search(path)
        and plain.get(path) != tool.get(path)
        and not (again is not None and _as_far_as_repeatable(path, plain, again, tool))
    ]


def _by_stable_names(files: Mapping[str, str], plain: Mapping[str, str], again: Mapping[str, str]) -> dict[str, str]:
    """Files whose name changes between bash runs, by the constant part of their name; others unchanged."""
    masked = (
        {_mask_changing(path) for path in {*plain} ^ {*again}}
        & {*map(_mask_changing, plain)}
        & {*map(_mask_changing, again)}
    )
    return {(_mask_changing(path) if _mask_changing(path) in masked else path): what for path, what in files.items()}


def _as_far_as_repeatable(
    path: str, plain: Mapping[str, str], again: Mapping[str, str], tool: Mapping[str, str]
) -> bool:
    """Whether the path also differs in the second run, and the tool's result has the same kind and mode."""
    one, two, three = (each.get(path, "unchanged") for each in (plain, again, tool))
    if one == two:
        return False
    kinds = {" ".join(each.split(" ")[:2]) for each in (one, two)}
    return len(kinds) > 1 or " ".join(three.split(" ")[:2]) in kinds
