"""Keeps Git from running a diff program that a repository configures (`diff.external`).

No setting disables such a program, and Git fails if the setting is empty. So if a repository configures one, Git gets a
replacement that shows the change as Git itself would. In all other repositories, the user's own diff program is used.
"""

from collections.abc import Iterable
from pathlib import Path

from ebbtide.tools.sandbox.git_metadata import list_git_settings

_PLAIN_DIFF_SCRIPT = r"""f() {
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
"""The replacement. Git appends arguments: the path; file, hash and mode of the old version; file, hash and mode of the
new version; and, for a rename, the new path and details."""


def diff_override_variables(folders: Iterable[Path]) -> dict[str, str]:
    """Return the environment variables that commands need. Empty unless a repository in these folders configures a diff
    program."""
    return (
        {"GIT_EXTERNAL_DIFF": _PLAIN_DIFF_SCRIPT} if any(map(_configures_diff_program, dict.fromkeys(folders))) else {}
    )


def _configures_diff_program(folder: Path) -> bool:
    return any((section, name) == ("diff", "external") for name, section in list_git_settings(folder))
