"""Decides which Git settings a command may change, and writes them.

`.git/config` is read-only in a sandbox, because many of its settings run programs. When Git tries to rename a new file
over it, the two files are compared, using Git itself. If all settings that differ are harmless, only these settings are
changed in the old file. The new file is discarded.
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
"""Maximum number of changed settings; each takes one Git call."""
_MAX_REFUSALS = 8
_GIT_TIMEOUT_S = 10.0
_LOCK_SUFFIX = ".lock"
"""Suffix of the file that Git writes before it renames it."""
_REMOVABLE_SECTIONS = ("branch", "remote", "submodule")
"""Sections that a command may remove or rename."""
_CONTROL_CHARS = regex(r"[\x00-\x1f\x7f]")
_REMOTE_HELPER = regex(r"\w[\w.+-]*::")
"""Matches the prefix of an address that makes Git run a remote helper program."""
_SCHEME = regex(r"([A-Za-z][\w+.-]*)://")
_SCHEMES = frozenset(("https", "http", "ssh", "git", "git+ssh", "ssh+git", "ftp", "ftps"))
"""Schemes that Git itself supports. For any other scheme, Git runs a helper program."""
_SSH_HOST = regex(r"[^/]+:")
"""Matches the prefix of an address to which Git connects by SSH."""
_RELATIVE_PATH = regex(r"\.\.?/")
"""Matches the prefix of a relative path."""
_KEYWORD_VALUE = regex(r"[a-z01]{0,11}")
"""Matches boolean values and rebase modes."""

ParsedSettings = Mapping[str, Sequence[str | None]]
"""The values of each setting, in order. None is a setting without a value, which means true."""


class GitSettingsWatcher:
    """Watches the settings of the repositories that a command can see, until the command's last process ends."""

    names = frozenset(("config",))
    """Base names of the watched files."""

    def __init__(self, git: str) -> None:
        self.refusals: list[str] = []
        """Messages about the changes refused so far."""
        self._git = git
        self._files = frozenset[str]()

    def watch(self, boundary: Boundary) -> bool:
        """Watch the settings files within the command's boundary; return whether there are any."""
        self._boundary = boundary
        self._files = frozenset(
            path
            for path, access in boundary.access_by_path.items()
            if access == "read" and os.path.basename(path) in self.names and _is_metadata_folder(os.path.dirname(path))
        )
        return bool(self._files)

    def handle_rename(self, old_path: str, new_path: str) -> int | None:
        """Handle a request to rename a file. Return 0 if it was renamed here, an error number to refuse, or None to let
        the rename proceed."""
        if new_path not in self._files or old_path != new_path + _LOCK_SUFFIX:
            return None
        with _WRITE_LOCK:  # two commands may change settings at the same time
            try:
                problem = self._apply_changes(old_path, new_path)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                problem = f"the new settings cannot be read ({error})"
            if not problem:
                os.unlink(old_path)
                return 0
        if len(self.refusals) < _MAX_REFUSALS and problem not in self.refusals:
            self.refusals.append(problem)
        return errno.EPERM

    def _apply_changes(self, old_path: str, new_path: str) -> str:
        """Write the changed settings if all are harmless. If not, return why. Empty on success."""
        content = _read_file(new_path)
        old_settings, new_settings = self._parse_settings(content), self._parse_settings(_read_file(old_path))
        new_settings = with_renamed_remote(old_settings, new_settings)
        if (work_tree := _only_work_tree(new_path)) is not None:
            new_settings = with_absolute_urls(old_settings, new_settings, work_tree)
        changed_keys = [
            key
            for key in dict.fromkeys((*old_settings, *new_settings))
            if old_settings.get(key) != new_settings.get(key)
        ]
        if not changed_keys:
            return ""
        if len(changed_keys) > _MAX_CHANGES:
            return f"more than {_MAX_CHANGES} Git settings at once"
        if problem := dangling_remote_problem(old_settings, new_settings):
            return problem
        for key in changed_keys:
            if problem := refusal_reason(key, old_settings, new_settings, self._boundary):
                return problem
        with tempfile.TemporaryDirectory(prefix="ebb-git-") as folder:
            copy = os.path.join(folder, "config")
            Path(copy).write_bytes(content)
            for arguments in config_arguments(changed_keys, old_settings, new_settings):
                self._run("config", "--file", copy, *arguments)
            content = _read_file(copy)
        if self._parse_settings(content) != new_settings:
            return "Git's settings could not be written"
        _write_in_place(new_path, content)
        return ""

    def _parse_settings(self, content: bytes) -> ParsedSettings:
        settings = dict[str, list[str | None]]()
        listing = self._run("config", "--file", "-", "--list", "--null", "--no-includes", stdin=content)
        for line in os.fsdecode(listing).removesuffix("\0").split("\0") if listing else ():
            key, has_value, value = line.partition("\n")
            settings.setdefault(key, []).append(value if has_value else None)
        return settings

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run Git outside any repository and return its output."""
        environment = {"PATH": os.defpath, "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": os.devnull}
        result = subprocess.run(
            (self._git, *arguments),
            cwd="/",
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
        return result.stdout


_WRITE_LOCK = Lock()


def refusal_reason(key: str, old_settings: ParsedSettings, new_settings: ParsedSettings, boundary: Boundary) -> str:
    """Explain why a setting must not be changed. Empty if the change is allowed."""
    section, subsection, name = split_key(key)
    old_values, new_values = old_settings.get(key, ()), new_settings.get(key, ())
    if _CONTROL_CHARS.search(key):
        return "the name of a Git setting contains control characters"
    if (
        not new_values
        and section in _REMOVABLE_SECTIONS
        and (name in _harmless_names(section) or _is_removed(section, subsection, new_settings))
    ):
        return ""
    if subsection is not None and section in _REMOVABLE_SECTIONS and name not in _harmless_names(section):
        return (
            ""
            if not old_values and _is_renamed(key, old_settings, new_settings)
            else f"Git's setting `{key}` was not written: {_ALLOWED_SETTINGS}"
        )
    if (section, subsection is not None, name) not in _HARMLESS_SETTINGS:
        return f"Git's setting `{key}` was not written: {_ALLOWED_SETTINGS}"
    for value in new_values:
        if (
            value not in old_values
            and not _is_known_path(key, value, old_settings)
            and (problem := _value_problem(section, name, value or "", new_settings, boundary))
        ):
            return f"Git's setting `{key}` was not written: {problem}"
    return ""


def config_arguments(
    changed_keys: Sequence[str], old_settings: ParsedSettings, new_settings: ParsedSettings
) -> list[tuple[str, ...]]:
    """Return the arguments of each `git config` call that makes the changes."""
    arguments = list[tuple[str, ...]]()
    for section in dict.fromkeys(key.rpartition(".")[0] for key in changed_keys):
        if not any(key.rpartition(".")[0] == section for key in new_settings):
            arguments.append(("--remove-section", section))
    for key in changed_keys:
        old_values, new_values = old_settings.get(key, ()), new_settings.get(key, ())
        if len(old_values) == len(new_values) == 1:
            arguments.append(("--replace-all", key, new_values[0] or ""))
        elif new_values:
            arguments += [("--unset-all", key)] if old_values else []
            arguments += [("--add", key, value or "") for value in new_values]
        elif any(new_key.rpartition(".")[0] == key.rpartition(".")[0] for new_key in new_settings):
            arguments.append(("--unset-all", key))
    return arguments


def split_key(key: str) -> tuple[str, str | None, str]:
    """Split a setting's key into section, subsection and name. Only the subsection may contain dots."""
    section, _, remainder = key.partition(".")
    subsection, has_subsection, name = remainder.rpartition(".")
    return section, subsection if has_subsection else None, name


_ALLOWED_SETTINGS = (
    "commands set only `user.name`, `user.email`, a branch's `remote`, `merge`, `rebase` and `description`, a remote's "
    "`url` and `fetch`, a submodule's `url` and `active`"
)
_HARMLESS_SETTINGS = frozenset(
    (
        ("user", False, "name"), ("user", False, "email"),
        ("branch", True, "remote"), ("branch", True, "merge"), ("branch", True, "rebase"),
        ("branch", True, "description"), ("remote", True, "url"), ("remote", True, "fetch"),
        ("submodule", True, "url"), ("submodule", True, "active"),
    )
)  # fmt: skip


def _harmless_names(section: str) -> frozenset[str]:
    return frozenset(name for harmless_section, _, name in _HARMLESS_SETTINGS if harmless_section == section)


def _is_removed(section: str, subsection: str | None, new_settings: ParsedSettings) -> bool:
    return all(split_key(key)[:2] != (section, subsection) for key in new_settings)


def _is_renamed(key: str, old_settings: ParsedSettings, new_settings: ParsedSettings) -> bool:
    """Whether the values were taken from another section that was renamed or, for branches, copied."""
    section, subsection, name = split_key(key)
    if any(split_key(old_key)[:2] == (section, subsection) for old_key in old_settings):
        return False
    other_subsections = {split_key(old_key)[1] for old_key in old_settings if split_key(old_key)[0] == section}
    return any(
        old_settings.get(f"{section}.{other_subsection}.{name}") == new_settings[key]
        and (section == "branch" or _is_removed(section, other_subsection, new_settings))
        for other_subsection in other_subsections
    )


def _value_problem(section: str, name: str, value: str, new_settings: ParsedSettings, boundary: Boundary) -> str:
    """Explain what is wrong with a value, if anything."""
    if (name != "description" and _CONTROL_CHARS.search(value)) or "\0" in value or "\ufffd" in value:
        return "its value contains control characters"
    if value.startswith("-"):
        return "its value begins like an option"
    if name in ("active", "rebase"):
        return "" if _KEYWORD_VALUE.fullmatch(value.lower()) else "its value is not allowed"
    if name == "url" or (
        (section, name) == ("branch", "remote") and value != "." and not _has_url(value, new_settings)
    ):
        return address_problem(value, boundary)
    return "its value names a program" if "ext::" in value.lower() and name != "description" else ""


def address_problem(value: str, boundary: Boundary) -> str:
    """Explain why a remote's address is not allowed. Empty if it is allowed. The address must not be a folder that
    commands can write to, because pushing to a folder runs its hooks."""
    if _REMOTE_HELPER.match(value) or "ext::" in value.lower():
        return "its value names a program"
    if "://-" in value or ":-" in value:
        return "its value contains an option for another program"
    scheme = _SCHEME.match(value)
    if scheme is not None and scheme[1] != "file":
        return "" if scheme[1] in _SCHEMES else "its value names a program"
    if scheme is None and _SSH_HOST.match(value):
        return ""
    path = unquote(value[len("file://") :]) if scheme is not None else value
    if not os.path.isabs(path):
        return "use an absolute path for a folder, or the configured name of a remote"
    if boundary.access_to(os.path.realpath(path)) == "write":
        return "it leads to a writable folder, whose hooks could run"
    return ""


def with_renamed_remote(old_settings: ParsedSettings, new_settings: ParsedSettings) -> ParsedSettings:
    """If a remote was renamed, update all its branches in the new settings. Git itself updates them one at a time."""
    removed_urls = [key for key in old_settings if _is_url(key) and key not in new_settings]
    added_urls = [key for key in new_settings if _is_url(key) and key not in old_settings]
    new_names = {
        split_key(removed)[1]: split_key(added)[1]
        for removed in removed_urls
        for added in added_urls
        if old_settings[removed] == new_settings[added] and len(removed_urls) == len(added_urls) == 1
    }
    return {
        key: [new_names.get(value, value) for value in values] if _names_remote(key) else values
        for key, values in new_settings.items()
    }


def with_absolute_urls(old_settings: ParsedSettings, new_settings: ParsedSettings, work_tree: str) -> ParsedSettings:
    """Make relative addresses of remotes absolute in the new settings, based on the repository's only work tree. In a
    linked work tree added later, a relative path would point to a different folder, which may have its own hooks."""
    return {
        key: [
            os.path.normpath(os.path.join(work_tree, value))
            if value and _RELATIVE_PATH.match(value) and not _is_known_path(key, value, old_settings)
            else value
            for value in values
        ]
        if _is_url(key) and values != old_settings.get(key)
        else values
        for key, values in new_settings.items()
    }


def dangling_remote_problem(old_settings: ParsedSettings, new_settings: ParsedSettings) -> str:
    """If a setting still names a removed remote, explain the problem: Git would take the name for a path. Empty
    otherwise."""
    for key, values in new_settings.items():
        for value in values if _names_remote(key) else ():
            if value and _has_url(value, old_settings) and not _has_url(value, new_settings):
                return f"the remote `{value}` was not removed: Git's setting `{key}` names it"
    return ""


def _names_remote(key: str) -> bool:
    section, _, name = split_key(key)
    return (section, name) in (("branch", "remote"), ("branch", "pushremote")) or key == "remote.pushdefault"


def _is_url(key: str) -> bool:
    section, subsection, name = split_key(key)
    return (section, name) == ("remote", "url") and subsection is not None


def _is_known_path(key: str, value: str | None, old_settings: ParsedSettings) -> bool:
    """Whether the value is a relative path that one of the repository's remotes already has. Such a value does not give
    access to any new folder."""
    if value is None or not _is_url(key) or not _RELATIVE_PATH.match(value):
        return False
    return any(value in values for old_key, values in old_settings.items() if _is_url(old_key))


def _only_work_tree(config: str) -> str | None:
    """Return the only work tree of a settings file's repository. None if the repository has several or is bare."""
    metadata = os.path.dirname(config)
    is_only_work_tree = os.path.basename(metadata) == ".git" and not os.path.lexists(
        os.path.join(metadata, "worktrees")
    )
    return os.path.dirname(metadata) if is_only_work_tree else None


def _has_url(remote: str, settings: ParsedSettings) -> bool:
    return f"remote.{remote}.url" in settings


def _is_metadata_folder(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects"))


def _read_file(path: str) -> bytes:
    """Read a regular file without following links. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_FILE_BYTES:
            raise OSError(errno.EINVAL, "it is not a regular file of normal size")
        return file.read(_MAX_FILE_BYTES)


def _write_in_place(path: str, content: bytes) -> None:
    """Overwrite the file in place, because a new file would not be read-only in running sandboxes. Shorter content is
    padded with newlines before the file is truncated, so that anyone reading at the same time sees complete content."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, content.ljust(os.fstat(descriptor).st_size, b"\n"), 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)
