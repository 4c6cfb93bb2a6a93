"""The sandbox in which a session's commands run. The first command detects what this system supports."""

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools import sandbox
from ebbtide.tools import secrets as tools_secrets
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.shell import Launch, shell_path
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, create_readable_descriptor, detect_sandbox

if TYPE_CHECKING:  # imported for types only, so that sessions without commands load none of it
    from ebbtide.tools.sandbox.boundary import Boundary
    from ebbtide.tools.sandbox.git_metadata import Repositories
    from ebbtide.tools.sandbox.git_settings import GitSettingsWatcher
    from ebbtide.tools.sandbox.look_only import FolderListing
    from ebbtide.tools.sandbox.network import NetworkAccess, SessionNetwork
    from ebbtide.tools.sandbox.system_calls import Sockets

_OUTSIDE_VARIABLES = frozenset(
    """
    TMPDIR TMP TEMP SSH_AUTH_SOCK DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR DOCKER_HOST WSL_INTEROP
    """.split()  # noqa: SIM905  # as in `ebbtide.tools.process.shell`
)
"""Variables that refer to paths or services that are out of reach inside a sandbox."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of a session's commands."""

    root: Path
    temp_folder: Path
    """A folder private to the session, which is mounted as /tmp."""
    added_roots: list[Path] = field(default_factory=list)
    """Further writable folders. They may change during the session."""
    own_folders: tuple[Path, ...] = ()
    """Folders with this program's own files, which are hidden from commands."""
    visible_paths: tuple[Path, ...] = ()
    """Folders inside `own_folders` that commands can read nevertheless."""
    has_network: bool = True
    """Whether commands can reach every address, not just what `network` permits."""
    network: "SessionNetwork | None" = None
    """Network access for commands that cannot reach every address. None if they have no access at all."""
    repositories_by_folder: "dict[Path, Repositories]" = field(default_factory=dict)
    """The repositories in each folder, as found when it was first examined."""
    removable_git_files: dict[Path, Path] = field(default_factory=dict)
    """The `.git` files that a command may remove. Linked work trees map to their repository, submodules to their
    metadata."""
    folder_listings: "dict[str, FolderListing]" = field(default_factory=dict)
    """Cached listings of the folders that were searched for files with secrets."""
    variables: dict[str, str] = field(default_factory=dict)
    """Further environment variables for sandboxed commands that are allowed to write."""

    @property
    def visible_temp_folder(self) -> Path | None:
        """The private folder as commands see it; None without a sandbox."""
        detected = detect_sandbox()
        if isinstance(detected, NoSandbox):
            return None
        return Path("/tmp") if detected.kind == "bubblewrap" else self.temp_folder

    def wrap(
        self,
        launch: Launch,
        folder: Path,
        *,
        may_write: bool = True,
        has_terminal: bool = False,
        access: "NetworkAccess | None" = None,
        settings: "GitSettingsWatcher | None" = None,
        removes_work_trees: bool = False,
        removes_submodules: bool = False,
    ) -> Launch:
        """Wrap a command so that it runs in the sandbox, if the system has one. `settings`: handles changes to Git's
        settings, which are read-only otherwise. `removes_work_trees`: whether the command may remove linked work trees.
        `removes_submodules`: whether it may remove submodules. Raises `OSError`."""
        detected = detect_sandbox()
        if isinstance(detected, NoSandbox):
            return launch
        unprotected = (
            *(self._unprotect_work_trees() if removes_work_trees else ()),
            *(self._unprotect_submodules() if removes_submodules else ()),
        )
        boundary = self.boundary(may_write=may_write, access=access, unprotected=unprotected)
        environment = without_outside_variables(launch.environment)
        environment |= self.variables if may_write else {}  # read-only commands must use trusted paths
        environment, command = _move_variables_inside(environment, launch.argv, folder)
        match detected.kind:
            case "bubblewrap":
                argv = (*_TAKE_TERMINAL_COMMAND, *command) if has_terminal else command
                environment = environment if access is None else access.add_proxy_variables(environment)
                argv, rename_descriptors = (
                    (argv, ()) if settings is None else _with_rename_server(argv, settings, boundary)
                )
                wrapped = _bubblewrap_launch(detected, boundary, folder, argv, environment, rename_descriptors)
                return wrapped if access is None else access.wrap_launch(wrapped)
            case "landlock":
                return _landlock_launch(boundary, command, environment | _temporary_folder_variables(boundary))
            case "seatbelt":
                sandboxed_argv = sandbox.seatbelt.build_seatbelt_command(boundary, command)
                return Launch(sandboxed_argv, environment | _temporary_folder_variables(boundary), is_sandboxed=True)

    def wrap_read_only(
        self, launch: Launch, folder: Path, readable: Sequence[str], *, runs_git: bool
    ) -> "tuple[Launch, Boundary]":
        """Wrap a command that is only allowed to read. Also return its boundary. `readable`: further paths that it
        sees. `runs_git`: whether it runs Git. Raises `OSError`, also if the system has no bubblewrap."""
        detected = detect_sandbox()
        if isinstance(detected, NoSandbox) or detected.kind != "bubblewrap":
            raise OSError("it needs bubblewrap")
        roots = (self.root, *(root for root in self.added_roots if root.is_dir()))
        folders = sandbox.look_only.folders_to_search(roots, readable)
        secrets_in_files = sandbox.look_only.find_secret_files(folders, self.folder_listings, runs_git=runs_git)
        key_paths = sandbox.mount_paths.secret_path_access(Path.home().resolve(), roots)
        other_secrets = (
            path for path in (*map(str, self.own_folders), *key_paths) if sandbox.git_metadata.is_in(path, folders)
        )
        hidden = [path for path in (*secrets_in_files, *other_secrets) if path not in readable and os.path.exists(path)]
        self.temp_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        boundary = sandbox.look_only.read_only_boundary(roots, readable, hidden, self.temp_folder)
        environment, command = _move_variables_inside(
            without_outside_variables(launch.environment) | {"TMPDIR": "/dev/shm"}, launch.argv, folder
        )
        return _bubblewrap_launch(detected, boundary, folder, command, environment), boundary

    def remove_forbidden_files(self) -> str:
        """Remove files that commands are not allowed to create; return their paths, as text. Raises `OSError`."""
        removed = [
            path
            for repositories in self.repositories_by_folder.values()
            for path in filter(sandbox.git_metadata.is_active_redirection, repositories.forbidden_files)
        ]
        for link, metadata in self.removable_git_files.items():
            if os.path.lexists(link) and not (
                sandbox.git_metadata.is_work_tree_of(link, metadata)
                or sandbox.git_metadata.is_git_link_to(link, metadata)
            ):
                removed.append(link)
        for path in removed:
            _force_remove(path)
        return ", ".join(f"`{path}`" for path in removed)

    @property
    def has_found_repositories(self) -> bool:
        """Whether the repositories in all folders have been found."""
        return self.root in self.repositories_by_folder and all(
            folder in self.repositories_by_folder for folder in self.added_roots
        )

    def find_repositories(self) -> None:
        """Find the repositories in folders that have not been examined yet. A large folder takes about 50 ms."""
        if not self.repositories_by_folder:
            sandbox.mount_paths.create_caches(Path.home())

        for folder in (self.root, *self.added_roots):
            if folder not in self.repositories_by_folder:
                self.repositories_by_folder[folder] = sandbox.git_metadata.find_repositories(folder)

    @property
    def repositories(self) -> tuple[Path, ...]:
        """The repositories found below the sandbox's folders."""
        return tuple(
            path
            for folder in (self.root, *self.added_roots)
            if folder in self.repositories_by_folder
            for path in self.repositories_by_folder[folder].nested
        )

    def _unprotect_work_trees(self) -> tuple[str, ...]:
        """Mark the linked work trees in the sandbox's folders as removable; return their paths and those of their
        metadata."""
        git_files = self._git_files_to_unprotect(sandbox.git_metadata.linked_work_tree_git_files)
        self.removable_git_files.update({link: metadata.parent.parent for link, metadata in git_files.items()})
        return tuple(str(path) for link, metadata in git_files.items() for path in (link.parent, metadata))

    def _unprotect_submodules(self) -> tuple[str, ...]:
        """Mark the submodules in the sandbox's folders as removable; return the paths of their work trees. Their
        metadata stays protected."""
        git_files = self._git_files_to_unprotect(sandbox.git_metadata.submodule_git_files)
        self.removable_git_files.update(git_files)
        return tuple(str(link.parent) for link in git_files)

    def _git_files_to_unprotect(self, find_git_files: Callable[[Path], dict[Path, Path]]) -> dict[Path, Path]:
        """Return the `.git` files that `find_git_files` finds in the sandbox's folders. Files outside these folders are
        left out, and so are files whose work tree contains one of the folders."""
        folders = (self.root, *self.added_roots)
        return {
            link: metadata
            for folder in folders
            for link, metadata in find_git_files(folder).items()
            if sandbox.git_metadata.is_in(str(link), tuple(map(str, folders)))
            and not any(root.is_relative_to(link.parent) for root in folders)
        }

    def boundary(
        self, *, may_write: bool, access: "NetworkAccess | None" = None, unprotected: Sequence[str] = ()
    ) -> "Boundary":
        """Return the boundary of a command that is about to start. Raises `OSError`."""
        self.find_repositories()
        self.remove_forbidden_files()  # a background command may have created forbidden files
        self.temp_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # If this program is installed in /tmp, which the sandbox replaces, its SSH proxy must be mounted separately.
        visible = self.visible_paths if access is None else (*self.visible_paths, sandbox.network.TUNNEL_PROGRAM)
        access_by_path = sandbox.mount_paths.compute_path_access(
            self.root, self.added_roots, Path.home(), self.own_folders, visible, self.repositories, unprotected
        )
        detected = detect_sandbox()
        kind = detected.kind if isinstance(detected, SandboxProgram) else "bubblewrap"
        effective_access = access_by_path if may_write else sandbox.boundary.without_write_access(access_by_path)
        network: sandbox.boundary.NetworkMode = "open" if self.has_network else "none" if access is None else "proxy"
        copies = sandbox.mount_paths.settings_copies(effective_access, Path.home(), uses_proxy=network == "proxy")
        return sandbox.boundary.Boundary(effective_access, str(self.temp_folder), network, kind, copies)


def _with_rename_server(
    argv: Sequence[str], settings: "GitSettingsWatcher", boundary: "Boundary"
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Wrap the command so that it reports renames, and return the descriptor to which it reports. If there are no
    settings files to watch, the command stays unchanged."""
    if not settings.watch(boundary):
        return tuple(argv), ()
    machine = os.uname().machine
    descriptor = sandbox.renames.start_rename_server(
        settings.handle_rename, settings.names, sandbox.system_calls.rename_calls(machine)
    )
    source = Path(sandbox.rename_program.__file__).read_text()  # read here, because the sandbox may replace its folder
    program = (os.path.realpath(sys.executable), "-I", "-S", "-c", source)
    return (*program, str(descriptor), sandbox.system_calls.rename_listener_filter(machine).hex(), *argv), (descriptor,)


def _bubblewrap_launch(
    detected: SandboxProgram,
    boundary: "Boundary",
    folder: Path,
    argv: Sequence[str],
    environment: Mapping[str, str],
    extra_descriptors: tuple[int, ...] = (),
) -> Launch:
    mount_table = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    sockets: Sockets = "none" if boundary.is_read_only else "network"
    filter_descriptor = create_readable_descriptor(
        sandbox.system_calls.build_seccomp_filter(os.uname().machine, sockets)
    )
    copies = {path: create_readable_descriptor(copy.text.encode()) for path, copy in boundary.settings_copies.items()}
    program = detected.full_argv if sandbox.bubblewrap.has_shared_mounts(mount_table) else detected.argv
    sandboxed_argv = sandbox.bubblewrap.build_bubblewrap_command(
        program, boundary, str(folder), argv, filter_descriptor, mount_table, copies
    )
    descriptors = (filter_descriptor, *copies.values(), *extra_descriptors)
    return Launch(sandboxed_argv, environment, descriptors, is_wrapped=True, is_sandboxed=True)


def _landlock_launch(boundary: "Boundary", argv: Sequence[str], environment: Mapping[str, str]) -> Launch:
    filter_bytes = sandbox.system_calls.build_seccomp_filter(
        os.uname().machine, "local" if boundary.network == "open" else "none"
    )
    ruleset = sandbox.landlock.create_ruleset(boundary.access_by_path, boundary.temp_folder)
    return Launch(
        sandbox.landlock.landlock_command(ruleset, filter_bytes, argv), environment, (ruleset,), is_sandboxed=True
    )


def _temporary_folder_variables(boundary: "Boundary") -> dict[str, str]:
    """Return variables for the temporary folder and for npm settings stored there, for sandboxes that cannot replace
    files by mounts. Raises `OSError`."""
    variables = {"TMPDIR": boundary.temp_folder}
    copy = next(
        (
            copy
            for copy in boundary.settings_copies.values()
            if copy.name == tools_secrets.registry_settings.NPM_SETTINGS_FILE
        ),
        None,
    )
    if copy is not None:
        new_file, npm_settings_path = (
            os.path.join(boundary.temp_folder, name)
            for name in (secrets.token_hex(8), tools_secrets.registry_settings.NPM_SETTINGS_FILE)
        )
        Path(new_file).write_text(copy.text)
        os.replace(new_file, npm_settings_path)  # replaces a link that a command may have put there
        variables["npm_config_userconfig"] = npm_settings_path
    return variables


def _force_remove(path: Path) -> None:
    """Remove a path even if a command has made its folder or its content inaccessible. If the content is inaccessible,
    the path is only renamed, because changing the content's permissions would follow links. Raises `OSError`."""
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    path.parent.chmod(mode | stat.S_IRWXU)
    try:
        path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
    except PermissionError:
        path.rename(path.with_name(f"{path.name}-{secrets.token_hex(4)}"))
    finally:
        path.parent.chmod(mode)


def without_outside_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove variables that refer to something that cannot be reached in the sandbox."""
    return {name: value for name, value in environment.items() if name not in _OUTSIDE_VARIABLES}


def _move_variables_inside(
    environment: Mapping[str, str], argv: Sequence[str], folder: Path
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Remove variables that make programs load code, and set them in the command instead. The sandbox program itself
    must not load code from folders that commands can write to.

    `PWD` is moved because it may name the folder by a link and would be lost. `LC_ALL` is moved because every shell
    started on the way would warn about a missing locale.
    """
    command_variables = {
        name: value
        for name, value in environment.items()
        if name.startswith(_CODE_LOADING_PREFIXES) or (name == "LC_ALL" and value not in _INSTALLED_LOCALES)
    }
    sandbox_variables = {name: value for name, value in environment.items() if name not in command_variables}
    logical_folder = environment.get("PWD", "")
    if (
        logical_folder != str(folder)
        and os.path.isabs(logical_folder)
        and os.path.realpath(logical_folder) == str(folder)
    ):
        command_variables["PWD"] = logical_folder
    if not command_variables:
        return sandbox_variables, tuple(argv)
    assignments = (f"{name}={value}" for name, value in command_variables.items())
    if "=" in argv[0]:  # `env` would take the program for a variable
        return sandbox_variables, (shell_path(), "-c", _SET_VARIABLES_SCRIPT, "sh", *assignments, "--", *argv)
    return sandbox_variables, ("/usr/bin/env", *assignments, *argv)


_CODE_LOADING_PREFIXES = ("LD_", "DYLD_", "GCONV_PATH", "LOCPATH", "GLIBC_TUNABLES")
"""Prefixes of variables that make programs load code."""
_INSTALLED_LOCALES = frozenset(("", "C", "POSIX", "C.UTF-8", "C.utf8"))
"""Locales that every system has."""
_SET_VARIABLES_SCRIPT = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"'
_TAKE_TERMINAL_COMMAND = (
    os.path.realpath(sys.executable), "-I", "-S", "-c",
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "given = open('/proc/self/environ', 'rb').read().split(bytes(1)); "
    "os.execve(sys.argv[1], sys.argv[1:], dict(line.split(b'=', 1) for line in given if b'=' in line))",
)  # fmt: skip
"""Starts a command as the leader of a new session that owns the terminal. If bubblewrap were in the foreground of the
terminal, Ctrl-C would end it. Uses the base interpreter, because a virtual environment may be in /tmp."""
