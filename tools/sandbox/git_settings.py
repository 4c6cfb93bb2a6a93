"""Which of Git's settings a command may change, and how they are written.

`.git/config` is read-only in a sandbox, since many of its settings run programs. Where Git has written a new one and
renames it over the old one, which settings differ is read by Git itself. If each of them is harmless, those settings
alone are set in the old file; what else the new one holds goes nowhere.
"""

import errno
import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

from ebbtide.tools.lazy import regex
from ebbtide.tools.sandbox.boundary import Boundary

_MAX_FILE_BYTES = 1 << 20
_MAX_CHANGES = 200
"""Settings that differ: each is one call of Git."""
_MAX_NOTED = 8
_GIT_TIMEOUT_S = 10.0
_NEW = ".lock"
"""How the name of the new file ends."""
_FAMILIES = ("branch", "remote", "submodule")
"""Whole sections of these may go, or get another name."""
_CONTROL = regex(r"[\x00-\x1f\x7f]")
_HELPER = regex(r"\w[\w.+-]*::")
"""Before an address: a program that Git runs to reach it."""
_SCHEME = regex(r"([A-Za-z][\w+.-]*)://")
_SCHEMES = frozenset(("https", "http", "ssh", "git", "git+ssh", "ssh+git", "ftp", "ftps"))
"""Those that Git itself speaks; for any other it runs a program."""
_AT_HOST = regex(r"[^/]+:")
"""How an address begins that SSH takes."""
_RELATIVE = regex(r"\.\.?/")
"""How the relative path of a folder begins."""
_WORDS = regex(r"[a-z01]{0,11}")
"""Values that stand for yes and no, and ways to rebase."""

Settings = Mapping[str, Sequence[str | None]]
"""The values of each setting, in their order; None where it stands alone in its line, which means true."""


class GitSettings:
    """The settings of the repositories that one command sees, for as long as anything of it runs."""

    names = frozenset(("config",))
    """Of the files that are watched."""

    def __init__(self, git: str) -> None:
        self.noted: list[str] = []
        """What was refused, in words."""
        self._git = git
        self._files = frozenset[str]()

    def watch(self, boundary: Boundary) -> bool:
        """Whether there are any in the boundary that the command starts in."""
        self._boundary = boundary
        self._files = frozenset(
            path
            for path, access in boundary.places.items()
            if access == "read" and os.path.basename(path) in self.names and _is_of_a_repository(os.path.dirname(path))
        )
        return bool(self._files)

    def rename(self, old: str, new: str) -> int | None:
        """Answers the renaming of one file to another."""
        if new not in self._files or old != new + _NEW:
            return None
        with _WRITES:  # calls of one command come one after the other, those of two need not
            try:
                refused = self._take(old, new)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                refused = f"the new settings cannot be read ({error})"
            if not refused:
                os.unlink(old)
                return 0
        if len(self.noted) < _MAX_NOTED and refused not in self.noted:
            self.noted.append(refused)
        return errno.EPERM

    def _take(self, old: str, new: str) -> str:
        """Writes what is new and harmless; why it is not written, if so."""
        written = _bytes_of(new)
        before, after = self._parse_settings(written), self._parse_settings(_bytes_of(old))
        after = with_users_renamed(before, after)
        if (top := _only_work_tree(new)) is not None:
            after = with_whole_paths(before, after, top)
        changed = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
        if not changed:
            return ""
        if len(changed) > _MAX_CHANGES:
            return f"more than {_MAX_CHANGES} settings of Git at once"
        if why := left_without_remote(before, after):
            return why
        for key in changed:
            if why := refusal(key, before, after, self._boundary):
                return why
        with tempfile.TemporaryDirectory(prefix="ebb-git-") as folder:
            copy = os.path.join(folder, "config")
            Path(copy).write_bytes(written)
            for arguments in changes(changed, before, after):
                self._run("config", "--file", copy, *arguments)
            written = _bytes_of(copy)
        if self._parse_settings(written) != after:
            return "the settings of Git could not be set one by one"
        _write_in_place(new, written)
        return ""

    def _parse_settings(self, written: bytes) -> Settings:
        found = dict[str, list[str | None]]()
        listed = self._run("config", "--file", "-", "--list", "--null", "--no-includes", given=written)
        for line in os.fsdecode(listed).removesuffix("\0").split("\0") if listed else ():
            key, has_value, value = line.partition("\n")
            found.setdefault(key, []).append(value if has_value else None)
        return found

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        """What Git says outside of any repository."""
        environment = {"PATH": os.defpath, "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": os.devnull}
        ran = subprocess.run(
            (self._git, *arguments),
            cwd="/",
            env=environment,
            input=given,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
        return ran.stdout


_WRITES = Lock()


def refusal(key: str, before: Settings, after: Settings, boundary: Boundary) -> str:
    """Why a setting may not change in this way; nothing where it may."""
    section, subsection, name = split(key)
    old, new = before.get(key, ()), after.get(key, ())
    if _CONTROL.search(key):
        return "a name of Git's settings has control characters"
    if not new and section in _FAMILIES and (name in _known_of(section) or _is_removed(section, subsection, after)):
        return ""
    if subsection is not None and section in _FAMILIES and name not in _known_of(section):
        return "" if not old and _is_renamed(key, before, after) else f"Git's setting `{key}` was not written: {_WHICH}"
    if (section, subsection is not None, name) not in _HARMLESS:
        return f"Git's setting `{key}` was not written: {_WHICH}"
    for value in new:
        if (
            value not in old
            and not _is_known_path(key, value, before)
            and (why := _unfit(section, name, value or "", after, boundary))
        ):
            return f"Git's setting `{key}` was not written: {why}"
    return ""


def changes(changed: Sequence[str], before: Settings, after: Settings) -> list[tuple[str, ...]]:
    """The arguments of `git config`, call by call, that lead from one to the other."""
    made = list[tuple[str, ...]]()
    for section in dict.fromkeys(key.rpartition(".")[0] for key in changed):
        if not any(key.rpartition(".")[0] == section for key in after):
            made.append(("--remove-section", section))
    for key in changed:
        old, new = before.get(key, ()), after.get(key, ())
        if len(old) == len(new) == 1:
            made.append(("--replace-all", key, new[0] or ""))
        elif new:
            made += [("--unset-all", key)] if old else []
            made += [("--add", key, value or "") for value in new]
        elif any(other.rpartition(".")[0] == key.rpartition(".")[0] for other in after):
            made.append(("--unset-all", key))
    return made


def split(key: str) -> tuple[str, str | None, str]:
    """Section, subsection and name. Only the subsection may have dots in it."""
    section, _, rest = key.partition(".")
    subsection, has_subsection, name = rest.rpartition(".")
    return section, subsection if has_subsection else None, name


_WHICH = (
    "commands set only `user.name`, `user.email`, a branch's `remote`, `merge`, `rebase` and `description`, a remote's "
    "`url` and `fetch`, a submodule's `url` and `active`"
)
_HARMLESS = frozenset(
    (
        ("user", False, "name"), ("user", False, "email"),
        ("branch", True, "remote"), ("branch", True, "merge"), ("branch", True, "rebase"),
        ("branch", True, "description"), ("remote", True, "url"), ("remote", True, "fetch"),
        ("submodule", True, "url"), ("submodule", True, "active"),
    )
)  # fmt: skip


def _known_of(section: str) -> frozenset[str]:
    return frozenset(name for family, _, name in _HARMLESS if family == section)


def _is_removed(section: str, subsection: str | None, after: Settings) -> bool:
    return all(split(key)[:2] != (section, subsection) for key in after)


def _is_renamed(key: str, before: Settings, after: Settings) -> bool:
    """Whether it stood with the same values in a section that is not there any more, or that Git has copied."""
    section, subsection, name = split(key)
    if any(split(other)[:2] == (section, subsection) for other in before):
        return False
    others = {split(other)[1] for other in before if split(other)[0] == section}
    return any(
        before.get(f"{section}.{other}.{name}") == after[key]
        and (section == "branch" or _is_removed(section, other, after))
        for other in others
    )


def _unfit(section: str, name: str, value: str, after: Settings, boundary: Boundary) -> str:
    """What is wrong with a value."""
    if (name != "description" and _CONTROL.search(value)) or "\0" in value or "\ufffd" in value:
        return "its value has control characters"
    if value.startswith("-"):
        return "its value begins like an option"
    if name in ("active", "rebase"):
        return "" if _WORDS.fullmatch(value.lower()) else "its value is none that it may have"
    if name == "url" or ((section, name) == ("branch", "remote") and value != "." and not _has_url(value, after)):
        return unfit_address(value, boundary)
    return "its value names a program" if "ext::" in value.lower() and name != "description" else ""


def unfit_address(value: str, boundary: Boundary) -> str:
    """Why a remote repository may not be there. When the user pushes to a folder, hooks in it run: so it must be none
    that commands write."""
    if _HELPER.match(value) or "ext::" in value.lower():
        return "its value names a program"
    if "://-" in value or ":-" in value:
        return "its value has an option for another program"
    scheme = _SCHEME.match(value)
    if scheme is not None and scheme[1] != "file":
        return "" if scheme[1] in _SCHEMES else "its value names a program"
    if scheme is None and _AT_HOST.match(value):
        return ""
    path = unquote(value[len("file://") :]) if scheme is not None else value
    if not os.path.isabs(path):
        return "a folder is named by its whole path, a remote by the name that it was added with"
    if boundary.access_to(os.path.realpath(path)) == "write":
        return "it leads to a folder that commands write, whose hooks could run"
    return ""


def with_users_renamed(before: Settings, after: Settings) -> Settings:
    """The new settings, where branches follow at once if Git renames a remote, which Git writes one by one."""
    gone, new = (
        [key for key in one if _is_url(key) and key not in other] for one, other in ((before, after), (after, before))
    )
    names = {
        split(old)[1]: split(key)[1]
        for old in gone
        for key in new
        if before[old] == after[key] and len(gone) == len(new) == 1
    }
    return {
        key: [names.get(value, value) for value in values] if _names_remote(key) else values
        for key, values in after.items()
    }


def with_whole_paths(before: Settings, after: Settings, top: str) -> Settings:
    """The new settings with the whole path where a remote's address is a relative one, seen from the only work tree.
    A linked work tree that a command adds later would read a relative path as another one, with hooks of its own."""
    return {
        key: [
            os.path.normpath(os.path.join(top, value))
            if value and _RELATIVE.match(value) and not _is_known_path(key, value, before)
            else value
            for value in values
        ]
        if _is_url(key) and values != before.get(key)
        else values
        for key, values in after.items()
    }


def left_without_remote(before: Settings, after: Settings) -> str:
    """What would take the name of a remote that is gone for the path of a folder."""
    for key, values in after.items():
        for value in values if _names_remote(key) else ():
            if value and _has_url(value, before) and not _has_url(value, after):
                return f"the remote `{value}` was not removed: Git's setting `{key}` names it"
    return ""


def _names_remote(key: str) -> bool:
    section, _, name = split(key)
    return (section, name) in (("branch", "remote"), ("branch", "pushremote")) or key == "remote.pushdefault"


def _is_url(key: str) -> bool:
    section, subsection, name = split(key)
    return (section, name) == ("remote", "url") and subsection is not None


def _is_known_path(key: str, value: str | None, before: Settings) -> bool:
    """Whether it is a relative path that a remote of the repository has already: one more leads nowhere else."""
    if value is None or not _is_url(key) or not _RELATIVE.match(value):
        return False
    return any(value in values for other, values in before.items() if _is_url(other))


def _only_work_tree(config: str) -> str | None:
    """The work tree of the repository that a file with settings belongs to; None where it has others or is bare."""
    metadata = os.path.dirname(config)
    is_usual = os.path.basename(metadata) == ".git" and not os.path.lexists(os.path.join(metadata, "worktrees"))
    return os.path.dirname(metadata) if is_usual else None


def _has_url(remote: str, settings: Settings) -> bool:
    return f"remote.{remote}.url" in settings


def _is_of_a_repository(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects"))


def _bytes_of(path: str) -> bytes:
    """What is in a regular file that is no link. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_FILE_BYTES:
            raise OSError(errno.EINVAL, "it is no file of the usual size")
        return file.read(_MAX_FILE_BYTES)


def _write_in_place(path: str, written: bytes) -> None:
    """In the same file, not in a new one in its place: that would not be read-only in the sandboxes that run. A shorter
    one is filled up with line ends before it is cut, so that whoever reads meanwhile finds the whole of it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, written.ljust(os.fstat(descriptor).st_size, b"\n"), 0)
        os.ftruncate(descriptor, len(written))
    finally:
        os.close(descriptor)
