"""Explains why some commands that look read-only still need approval."""

from collections.abc import Mapping, Sequence

from ebbtide.tools.commands.nested import program_name
from ebbtide.tools.commands.programs import split_words

_DRY_RUN_OPTIONS = split_words("-n --just-print --dry-run --recon -q --question -p --print-data-base")
_SIDE_EFFECTS_BY_ARGUMENT: Mapping[str, tuple[frozenset[str], str]] = {
    "npm": (
        split_words("view info show outdated search audit ping whoami explain why query"),
        "contacts a registry, or follows the project's settings",
    ),
    "git": (split_words("fsck"), "can show lines of a file that the repository's settings name"),
    "go": (split_words("version env list"), "can fetch or run the toolchain that a project file names"),
    "cargo": (
        split_words("--version -V tree metadata"),
        "can fetch or run the toolchain that a project file names",
    ),
    "rustc": (split_words("--version -V"), "can fetch or run the toolchain that a project file names"),
    "yarn": (split_words("--version -v list why info"), "can run the copy of itself that a project file names"),
    "pnpm": (split_words("--version -v list ls why"), "can run the copy of itself that a project file names"),
    "python": (split_words("-m"), "can run a module of that name in the working folder"),
    "python3": (split_words("-m"), "can run a module of that name in the working folder"),
}
_SIDE_EFFECTS_BY_PROGRAM: Mapping[str, str] = {
    "env": "can print secrets from the environment",
    "printenv": "can print secrets from the environment",
}


def possible_side_effect(words: Sequence[str]) -> str:
    """Say what a seemingly read-only command might do besides reading, worded to follow the command's name. Empty if
    nothing is known."""
    name = program_name(words)
    if name in ("make", "gmake") and not _DRY_RUN_OPTIONS.isdisjoint(words[1:]):
        return "still runs parts of the Makefile: `$(shell …)`, lines with `+` and rules for included files"
    first, reason = _SIDE_EFFECTS_BY_ARGUMENT.get(name, (frozenset[str](), ""))
    if first and words[1:2] and words[1] in first:
        return reason
    return _SIDE_EFFECTS_BY_PROGRAM.get(name, "") if len(words) == 1 or name == "printenv" else ""
