"""The sandbox of a session, in which commands are started. The first command determines what this system supports."""

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.shell import Launch, shell
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, found_sandbox, readable

if TYPE_CHECKING:  # types only: sessions that run no command load nothing of it
    from ebbtide.tools.sandbox.boundary import Boundary
    from ebbtide.tools.sandbox.git_metadata import Repositories
    from ebbtide.tools.sandbox.git_settings import GitSettings
    from ebbtide.tools.sandbox.network import NetworkAccess, SessionNetwork

_OUTSIDE_ONLY = frozenset(
    """
    TMPDIR TMP TEMP SSH_AUTH_SOCK DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR DOCKER_HOST WSL_INTEROP
    """.split()  # noqa: SIM905  # as for the list in `ebbtide.tools.process.shell`
)
"""Variables that refer to places not visible in a sandbox."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of a session's commands."""

    root: Path
    scratch: Path
    """A folder private to the session, mounted as /tmp."""
    roots: list[Path] = field(default_factory=list)
    """Further writable folders. They may change during the session."""
    ours: tuple[Path, ...] = ()
    """Folders with this program's own files, hidden from commands."""
    visible_paths: tuple[Path, ...] = ()
    """Folders inside those that commands may read."""
    has_network: bool = True
    """Whether commands can reach every address, rather than what `network` permits."""
    network: "SessionNetwork | None" = None
    """None if commands without full access have no network access at all."""
    known: "dict[Path, Repositories]" = field(default_factory=dict)
    """The repositories in the folders when first seen."""
    may_go: dict[Path, Path] = field(default_factory=dict)
    """The `.git` files of work trees that a command may remove: of linked work trees with their repository, of
    submodules with their metadata."""
    variables: dict[str, str] = field(default_factory=dict)
    """Further environment variables for commands inside that may write."""

    @property
    def scratch_inside(self) -> Path | None:
        """The private folder as commands see it, or None without a sandbox."""
        found = found_sandbox()
        if isinstance(found, NoSandbox):
            return None
        return Path("/tmp") if found.kind == "bubblewrap" else self.scratch

    def around(
        self,
        launch: Launch,
        folder: Path,
        *,
        may_write: bool = True,
        terminal: bool = False,
        access: "NetworkAccess | None" = None,
        settings: "GitSettings | None" = None,
        removes_work_trees: bool = False,
        removes_submodules: bool = False,
    ) -> Launch:
        """Return the launch inside the sandbox, or unchanged if the system has none. `settings`: handles changes to
        Git's settings, which are otherwise read-only; `removes_work_trees`: whether it may remove linked work trees,
        which must lead to no other repository afterwards; `removes_submodules`: the same for submodules. Raises
        `OSError`."""
        found = found_sandbox()
        if isinstance(found, NoSandbox):
            return launch
        opened = (
            *(self._opened_work_trees() if removes_work_trees else ()),
            *(self._opened_submodules() if removes_submodules else ()),
        )
        boundary = self.boundary(may_write=may_write, access=access, opened=opened)
        environment = inside(launch.environment)
        environment |= self.variables if may_write else {}  # read-only commands use programs at trusted paths
        environment, command = _set_inside(environment, launch.argv, folder)
        match found.kind:
            case "bubblewrap":
                argv = (*_TAKES_TERMINAL, *command) if terminal else command
                environment = environment if access is None else access.environment(environment)
                argv, asks = (argv, ()) if settings is None else _asking_about_renames(argv, settings, boundary)
                held = _in_bubblewrap(found, boundary, folder, argv, environment, asks)
                return held if access is None else access.launch(held)
            case "landlock":
                return _in_landlock(boundary, command, environment | _temporary_folder_variables(boundary))
            case "seatbelt":
                from ebbtide.tools.sandbox.seatbelt import seatbelt  # noqa: PLC0415  # deferred: only on macOS

                line = seatbelt(boundary, command)
                return Launch(line, environment | _temporary_folder_variables(boundary), is_confined=True)

    def remove_unwanted(self) -> str:
        """Remove files that commands may not create, and return which, if any. Raises `OSError`."""
        from ebbtide.tools.sandbox.git_metadata import is_redirection, is_work_tree_of, leads_to  # noqa: PLC0415  # deferred: as above

        removed = [path for each in self.known.values() for path in filter(is_redirection, each.unwanted)]
        for link, metadata in self.may_go.items():
            if os.path.lexists(link) and not (is_work_tree_of(link, metadata) or leads_to(link, metadata)):
                removed.append(link)
        for path in removed:
            _remove(path)
        return ", ".join(f"`{path}`" for path in removed)

    @property
    def has_looked(self) -> bool:
        """Whether the repositories of all folders are known."""
        return self.root in self.known and all(folder in self.known for folder in self.roots)

    def look(self) -> None:
        """Find the repositories of new folders. Large folders take about 50 ms."""
        from ebbtide.tools.sandbox.git_metadata import repositories_of  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.mount_paths import make_caches  # noqa: PLC0415  # deferred: as above

        if not self.known:
            make_caches(Path.home())

        for folder in (self.root, *self.roots):
            if folder not in self.known:
                self.known[folder] = repositories_of(folder)

    @property
    def repositories(self) -> tuple[Path, ...]:
        """The known repositories below its folders."""
        return tuple(
            path for folder in (self.root, *self.roots) if folder in self.known for path in self.known[folder].below
        )

    def _opened_work_trees(self) -> tuple[str, ...]:
        """Return the removable linked work trees in its folders, with their metadata."""
        from ebbtide.tools.sandbox.git_metadata import linked_work_trees  # noqa: PLC0415  # deferred: as above

        inside = self._removable(linked_work_trees)
        self.may_go.update({link: metadata.parent.parent for link, metadata in inside.items()})
        return tuple(str(path) for link, metadata in inside.items() for path in (link.parent, metadata))

    def _opened_submodules(self) -> tuple[str, ...]:
        """Return the removable work trees of submodules in its folders. Their metadata is not touched."""
        from ebbtide.tools.sandbox.git_metadata import submodules  # noqa: PLC0415  # deferred: as above

        inside = self._removable(submodules)
        self.may_go.update(inside)
        return tuple(str(link.parent) for link in inside)

    def _removable(self, found_in: Callable[[Path], dict[Path, Path]]) -> dict[Path, Path]:
        """Return the files found that are in its folders, in a work tree that is not one of these folders itself."""
        from ebbtide.tools.sandbox.git_metadata import is_in  # noqa: PLC0415  # deferred: as above

        folders = (self.root, *self.roots)
        return {
            link: metadata
            for folder in folders
            for link, metadata in found_in(folder).items()
            if is_in(str(link), tuple(map(str, folders)))
            and not any(each.is_relative_to(link.parent) for each in folders)
        }

    def boundary(
        self, *, may_write: bool, access: "NetworkAccess | None" = None, opened: Sequence[str] = ()
    ) -> "Boundary":
        """Return the boundary of a command that starts now. Raises `OSError`."""
        from ebbtide.tools.sandbox.boundary import Boundary, Network, without_writing  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.mount_paths import places_of, settings_copies  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.network import TUNNEL  # noqa: PLC0415  # deferred: as above

        self.look()
        self.remove_unwanted()  # a background command may have created some
        self.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        # If this program is installed in /tmp, which the sandbox replaces, Git's SSH proxy is mounted separately.
        shown = self.visible_paths if access is None else (*self.visible_paths, TUNNEL)
        places = places_of(self.root, self.roots, Path.home(), self.ours, shown, self.repositories, opened)
        found = found_sandbox()
        kind = found.kind if isinstance(found, SandboxProgram) else "bubblewrap"
        held = places if may_write else without_writing(places)
        network: Network = "open" if self.has_network else "none" if access is None else "proxy"
        copies = settings_copies(held, Path.home(), goes_by_proxy=network == "proxy")
        return Boundary(held, str(self.scratch), network, kind, copies)


def _asking_about_renames(
    argv: Sequence[str], settings: "GitSettings", boundary: "Boundary"
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the command wrapped to report renames, with the descriptor to report on; unchanged if there are no
    settings to write."""
    from ebbtide.tools.sandbox import rename_program  # noqa: PLC0415  # deferred: few commands change settings
    from ebbtide.tools.sandbox.renames import answer_renames  # noqa: PLC0415  # deferred: as above
    from ebbtide.tools.sandbox.system_calls import asks_about_renames, renames_of  # noqa: PLC0415  # deferred: as above

    if not settings.watch(boundary):
        return tuple(argv), ()
    machine = os.uname().machine
    asks = answer_renames(settings.rename, settings.names, renames_of(machine))
    source = Path(rename_program.__file__).read_text()  # the file may be in a folder that the sandbox replaces
    program = (os.path.realpath(sys.executable), "-I", "-S", "-c", source)
    return (*program, str(asks), asks_about_renames(machine).hex(), *argv), (asks,)


def _in_bubblewrap(
    found: SandboxProgram,
    boundary: "Boundary",
    folder: Path,
    argv: Sequence[str],
    environment: Mapping[str, str],
    held: tuple[int, ...] = (),
) -> Launch:
    from ebbtide.tools.sandbox.bubblewrap import bubblewrap, takes_in_later_mounts  # noqa: PLC0415  # deferred: as above
    from ebbtide.tools.sandbox.system_calls import system_call_filter  # noqa: PLC0415  # deferred: as above

    mounted = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    system_calls = readable(system_call_filter(os.uname().machine))
    copies = {path: readable(copy.text.encode()) for path, copy in boundary.copies.items()}
    program = found.line if takes_in_later_mounts(mounted) else found.argv
    line = bubblewrap(program, boundary, str(folder), argv, system_calls, mounted, copies)
    descriptors = (system_calls, *copies.values(), *held)
    return Launch(line, environment, descriptors, is_wrapped=True, is_confined=True)


def _in_landlock(boundary: "Boundary", argv: Sequence[str], environment: Mapping[str, str]) -> Launch:
    from ebbtide.tools.sandbox.landlock import command_line, ruleset_of  # noqa: PLC0415  # deferred: rarely needed
    from ebbtide.tools.sandbox.system_calls import system_call_filter  # noqa: PLC0415  # deferred: as above

    calls = system_call_filter(os.uname().machine, "local" if boundary.network == "open" else "none")
    ruleset = ruleset_of(boundary.places, boundary.scratch)
    return Launch(command_line(ruleset, calls, argv), environment, (ruleset,), is_confined=True)


def _temporary_folder_variables(boundary: "Boundary") -> dict[str, str]:
    """Return variables that set the temporary folder, and npm settings stored there, where files cannot be replaced by
    mounts. Raises `OSError`."""
    from ebbtide.tools.secrets.registry_settings import NPM  # noqa: PLC0415  # deferred: only without bubblewrap

    variables = {"TMPDIR": boundary.scratch}
    copy = next((copy for copy in boundary.copies.values() if copy.name == NPM), None)
    if copy is not None:
        made, place = (os.path.join(boundary.scratch, name) for name in (secrets.token_hex(8), NPM))
        Path(made).write_text(copy.text)
        os.replace(made, place)  # a link of that name made by a command is not followed
        variables["npm_config_userconfig"] = place
    return variables


def _remove(path: Path) -> None:
    """Remove a path even if a command made its folder or its content inaccessible. In the latter case it is renamed,
    since opening it would follow links. Raises `OSError`."""
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    path.parent.chmod(mode | stat.S_IRWXU)
    try:
        path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
    except PermissionError:
        path.rename(path.with_name(f"{path.name}-{secrets.token_hex(4)}"))
    finally:
        path.parent.chmod(mode)


def inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that refer to hidden places."""
    return {name: value for name, value in environment.items() if name not in _OUTSIDE_ONLY}


def _set_inside(
    environment: Mapping[str, str], argv: Sequence[str], folder: Path
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Move variables that make programs load code from the environment into the command: the sandbox's setup runs
    outside it, and the folders they name may be writable by commands. `PWD`, which may name the folder through a link,
    would otherwise be lost, and each shell on the way would warn of a missing locale."""
    inner = {
        name: value
        for name, value in environment.items()
        if name.startswith(_LOADING) or (name == "LC_ALL" and value not in _INSTALLED_LOCALES)
    }
    kept = {name: value for name, value in environment.items() if name not in inner}
    named = environment.get("PWD", "")
    if named != str(folder) and os.path.isabs(named) and os.path.realpath(named) == str(folder):
        inner["PWD"] = named
    if not inner:
        return kept, tuple(argv)
    assignments = (f"{name}={value}" for name, value in inner.items())
    if "=" in argv[0]:  # `env` would read it as a variable
        return kept, (shell(), "-c", _SETS, "sh", *assignments, "--", *argv)
    return kept, ("/usr/bin/env", *assignments, *argv)


_LOADING = ("LD_", "DYLD_", "GCONV_PATH", "LOCPATH", "GLIBC_TUNABLES")
"""Prefixes of such variables."""
_INSTALLED_LOCALES = frozenset(("", "C", "POSIX", "C.UTF-8", "C.utf8"))
"""Locales that every system has."""
_SETS = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"'
_TAKES_TERMINAL = (
    os.path.realpath(sys.executable), "-I", "-S", "-c",
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "given = open('/proc/self/environ', 'rb').read().split(bytes(1)); "
    "os.execve(sys.argv[1], sys.argv[1:], dict(line.split(b'=', 1) for line in given if b'=' in line))",
)  # fmt: skip
"""Ctrl-C would end bubblewrap if it were in the terminal's foreground, so the command leads its own session, which owns
the terminal. Uses the real interpreter, since a virtual environment may be in /tmp."""
