"""Decides which Git settings a command may change, and writes them.

`.git/config` is read-only in a sandbox, since many of its settings run programs. When Git renames a newly written file
over it, Git itself is used to find the settings that differ. If all of them are harmless, just those settings are set
in the old file, and the rest of the new file is discarded.
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
"""Maximum number of differing settings. Each takes one call of Git."""
_MAX_NOTED = 8
_GIT_TIMEOUT_S = 10.0
_NEW = ".lock"
"""Suffix of the new file."""
_FAMILIES = ("branch", "remote", "submodule")
"""Families of sections that may be removed or renamed as a whole."""
_CONTROL = regex(r"[\x00-\x1f\x7f]")
_HELPER = regex(r"\w[\w.+-]*::")
"""Address prefix that names a program which Git runs to connect."""
_SCHEME = regex(r"([A-Za-z][\w+.-]*)://")
_SCHEMES = frozenset(("https", "http", "ssh", "git", "git+ssh", "ssh+git", "ftp", "ftps"))
"""Schemes that Git supports itself. For any other it runs a program."""
_AT_HOST = regex(r"[^/]+:")
"""Prefix of an address that Git reaches by SSH."""
_RELATIVE = regex(r"\.\.?/")
"""Prefix of a relative path."""
_WORDS = regex(r"[a-z01]{0,11}")
"""Boolean values and kinds of rebase."""

Settings = Mapping[str, Sequence[str | None]]
"""The values of each setting in order. None is a setting without a value, which means true."""


class GitSettings:
    """The settings of the repositories visible to one command, for as long as any part of it runs."""

    names = frozenset(("config",))
    """Names of the watched files."""

    def __init__(self, git: str) -> None:
        self.noted: list[str] = []
        """Refusals, in words."""
        self._git = git
        self._files = frozenset[str]()

    def watch(self, boundary: Boundary) -> bool:
        """Watch the settings files in the command's boundary, and return whether there are any."""
        self._boundary = boundary
        self._files = frozenset(
            path
            for path, access in boundary.places.items()
            if access == "read" and os.path.basename(path) in self.names and _is_of_a_repository(os.path.dirname(path))
        )
        return bool(self._files)

    def rename(self, old: str, new: str) -> int | None:
        """Handle the renaming of a file. Returns 0, an error number, or None to let it proceed."""
        if new not in self._files or old != new + _NEW:
            return None
        with _WRITES:  # calls of one command are sequential, but two commands may overlap
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
        """Write the changed settings if they are harmless. Returns why they were not written, or an empty string."""
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
            return "Git's settings could not be written"
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
        """Return Git's output, run outside any repository."""
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
    """Return why a setting may not be changed in this way, or an empty string."""
    section, subsection, name = split(key)
    old, new = before.get(key, ()), after.get(key, ())
    if _CONTROL.search(key):
        return "the name of a Git setting contains control characters"
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
    """Return the arguments of each `git config` call that makes the changes."""
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
    """Return section, subsection and name. Only the subsection may contain dots."""
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
    """Whether the values come from a section that was removed or copied."""
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
    """Return what is wrong with a value, or an empty string."""
    if (name != "description" and _CONTROL.search(value)) or "\0" in value or "\ufffd" in value:
        return "its value contains control characters"
    if value.startswith("-"):
        return "its value begins like an option"
    if name in ("active", "rebase"):
        return "" if _WORDS.fullmatch(value.lower()) else "its value is not allowed"
    if name == "url" or ((section, name) == ("branch", "remote") and value != "." and not _has_url(value, after)):
        return unfit_address(value, boundary)
    return "its value names a program" if "ext::" in value.lower() and name != "description" else ""


def unfit_address(value: str, boundary: Boundary) -> str:
    """Return why a remote's address is not allowed, or an empty string. Pushing to a folder runs its hooks, so it must
    not be one that commands can write to."""
    if _HELPER.match(value) or "ext::" in value.lower():
        return "its value names a program"
    if "://-" in value or ":-" in value:
        return "its value contains an option for another program"
    scheme = _SCHEME.match(value)
    if scheme is not None and scheme[1] != "file":
        return "" if scheme[1] in _SCHEMES else "its value names a program"
    if scheme is None and _AT_HOST.match(value):
        return ""
    path = unquote(value[len("file://") :]) if scheme is not None else value
    if not os.path.isabs(path):
        return "a folder is named by its whole path, a remote by the name that it was added with"
    if boundary.access_to(os.path.realpath(path)) == "write":
        return "it leads to a writable folder, whose hooks could run"
    return ""


def with_users_renamed(before: Settings, after: Settings) -> Settings:
    """Return the new settings with branches already updated for a renamed remote, which Git does one at a time."""
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
    """Return the new settings with relative addresses of remotes made absolute, based on the only work tree. In a
    linked work tree added later by a command, a relative path would lead to another place, with hooks of its own."""
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
    """Return an error if a setting still names a removed remote, since Git would read the name as a path."""
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
    """Whether it is a relative path that another remote of the repository already has, and so leads to no new place."""
    if value is None or not _is_url(key) or not _RELATIVE.match(value):
        return False
    return any(value in values for other, values in before.items() if _is_url(other))


def _only_work_tree(config: str) -> str | None:
    """Return the work tree of a settings file's repository, or None if it has several or is bare."""
    metadata = os.path.dirname(config)
    is_usual = os.path.basename(metadata) == ".git" and not os.path.lexists(os.path.join(metadata, "worktrees"))
    return os.path.dirname(metadata) if is_usual else None


def _has_url(remote: str, settings: Settings) -> bool:
    return f"remote.{remote}.url" in settings


def _is_of_a_repository(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects"))


def _bytes_of(path: str) -> bytes:
    """Return the content of a regular file without following links. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_FILE_BYTES:
            raise OSError(errno.EINVAL, "it is not a regular file of normal size")
        return file.read(_MAX_FILE_BYTES)


def _write_in_place(path: str, written: bytes) -> None:
    """Overwrite the file in place: a new file would not be read-only in running sandboxes. Shorter content is padded
    with newlines before the file is truncated, so that concurrent readers see complete content."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, written.ljust(os.fstat(descriptor).st_size, b"\n"), 0)
        os.ftruncate(descriptor, len(written))
    finally:
        os.close(descriptor)
