"""Keeps Git from running the diff program that a repository configures (`diff.external`).

No setting disables such a program: with an empty one, Git fails. So if a repository configures one, Git gets a
replacement that shows the change as Git itself would. The user's own diff program is used everywhere else.
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
"""Git appends path, old file, its hash and mode, and the same for the new file, as shell words. After a rename, the new
path and details of it follow."""


def own_diff_variables(folders: Iterable[Path]) -> dict[str, str]:
    """Return the variables for commands if the repository of one of these folders configures a diff program."""
    return {"GIT_EXTERNAL_DIFF": _SHOWS_AS_GIT} if any(map(_names_diff_program, dict.fromkeys(folders))) else {}


def _names_diff_program(folder: Path) -> bool:
    return any((section, name) == ("diff", "external") for name, section in all_settings(folder))
