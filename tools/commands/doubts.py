"""Explains why some commands that seem read-only still need approval."""

from collections.abc import Mapping, Sequence

from ebbtide.tools.commands.nested import program_of
from ebbtide.tools.commands.programs import set_of

_DRY_RUNS = set_of("-n --just-print --dry-run --recon -q --question -p --print-data-base")
_BY_FIRST_WORD: Mapping[str, tuple[frozenset[str], str]] = {
    "npm": (
        set_of("view info show outdated search audit ping whoami explain why query"),
        "contacts a registry, or obeys the project's settings",
    ),
    "git": (set_of("fsck"), "can show lines of a file that the repository's settings name"),
    "go": (set_of("version env list"), "can fetch or run the toolchain that a file of the project names"),
    "cargo": (set_of("--version -V tree metadata"), "can fetch or run the toolchain that a file of the project names"),
    "rustc": (set_of("--version -V"), "can fetch or run the toolchain that a file of the project names"),
    "yarn": (set_of("--version -v list why info"), "can run the copy of itself that a file of the project names"),
    "pnpm": (set_of("--version -v list ls why"), "can run the copy of itself that a file of the project names"),
    "python": (set_of("-m"), "can run a module of that name in the working folder"),
    "python3": (set_of("-m"), "can run a module of that name in the working folder"),
}
_ALWAYS: Mapping[str, str] = {
    "env": "can print secrets of the environment",
    "printenv": "can print secrets of the environment",
}


def doubt_about_look(words: Sequence[str]) -> str:
    """Return what a command that seems read-only may do beyond reading, as the part of a sentence after its name. Empty
    if nothing is known."""
    name = program_of(words)
    if name in ("make", "gmake") and not _DRY_RUNS.isdisjoint(words[1:]):
        return "still runs parts of the Makefile: `$(shell …)`, lines with `+` and rules for included files"
    first, why = _BY_FIRST_WORD.get(name, (frozenset[str](), ""))
    if first and words[1:2] and words[1] in first:
        return why
    return _ALWAYS.get(name, "") if len(words) == 1 or name == "printenv" else ""
