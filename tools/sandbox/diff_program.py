"""Keeps Git from running the diff program that a repository names (`diff.external`).

No setting turns such a program off: an empty one makes Git fail. So where a repository names one, Git is given another
that shows the change as Git itself would. The user's own diff program is left alone everywhere else.
"""

from collections.abc import Iterable
from pathlib import Path

from ebbtide.tools.sandbox.git_metadata import all_settings

_SHOWS_AS_GIT = r"""f() {
[ $# -ge 7 ] || { printf '* Unmerged path %s\n' "$1"; return; }
git --no-pager diff --no-index --no-ext-diff --no-textconv --no-color -- "$2" "$5" |
name=${8:-$1} was=$1 renamed=$9 awk '
BEGIN { old = "a/" ENVIRON["was"]; new = "b/" ENVIRON["name"]; if ((old new) ~ / /) end = "\t"
  if (renamed = ENVIRON["renamed"]) printf "diff --git %s %s\n%s", old, new, renamed }
body { print; next }
/^@@ / { body = 1 }
renamed && /^(diff|index|old mode|new mode) / { next }
/^diff --git / { $0 = "diff --git " old " " new }
/^--- / && !/^--- \/dev\/null/ { $0 = "--- " old end }
/^\+\+\+ / && !/^\+\+\+ \/dev\/null/ { $0 = "+++ " new end }
/^deleted file/ { deleted = 1 }
/^new file/ { added = 1 }
/^Binary files / { $0 = "Binary files " (added ? "/dev/null" : old) " and " (deleted ? "/dev/null" : new) " differ" }
{ print }'
}; f"""
"""Git appends the path, the old file, its hash and mode, and the same of the new file, as words for a shell; after a
rename also the new path and lines about it."""


def own_diff_variables(folders: Iterable[Path]) -> dict[str, str]:
    """The variables that commands need where the repository of one of these folders names a diff program."""
    return {"GIT_EXTERNAL_DIFF": _SHOWS_AS_GIT} if any(map(_names_diff_program, folders)) else {}


def _names_diff_program(folder: Path) -> bool:
    return any((section, name) == ("diff", "external") for name, section in all_settings(folder))
