"""The sandbox of a session: commands are started through it. What works on this system is found out by the first."""

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
    """.split()  # noqa: SIM905  # as the list of names in `ebbtide.tools.process.shell`
)
"""What leads to places that are not seen in a sandbox."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The boundary of one session's commands."""

    root: Path
    scratch: Path
    """A folder of the session's own, which commands see as /tmp."""
    roots: list[Path] = field(default_factory=list)
    """Further folders that commands may write. They may change while the session lasts."""
    ours: tuple[Path, ...] = ()
    """Where this program keeps its own files: commands do not see them."""
    visible_paths: tuple[Path, ...] = ()
    """Folders among those that commands may read."""
    has_network: bool = True
    """Whether commands reach every address, or what `network` lets them reach."""
    network: "SessionNetwork | None" = None
    """None where commands that do not reach every address reach none."""
    known: "dict[Path, Repositories]" = field(default_factory=dict)
    """What the folders held when they were first seen."""
    may_go: dict[Path, Path] = field(default_factory=dict)
    """Files that lead from work trees that a command was to remove: of linked ones each with its repository, of
    submodules each with its metadata."""
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment of commands in it that may write, besides those of commands outside."""

    @property
    def scratch_inside(self) -> Path | None:
        """Its folder as commands see it; None where the system has no sandbox."""
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
        """The command inside the boundary; as it is where the system has no sandbox. `settings`: takes what it sets in
        Git's settings, which are read-only otherwise; `removes_work_trees`: whether it may remove linked ones, which
        lead to no other repository after it; `removes_submodules`: the same for work trees of submodules. Raises
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
        environment |= self.variables if may_write else {}  # what is held to looking starts programs by trusted names
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
                from ebbtide.tools.sandbox.seatbelt import seatbelt  # noqa: PLC0415  # deferred: few machines have it

                line = seatbelt(boundary, command)
                return Launch(line, environment | _temporary_folder_variables(boundary), is_confined=True)

    def remove_unwanted(self) -> str:
        """Removes what no command may make; which that was, if any. Raises `OSError`."""
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
        """Whether the repositories of its folders are known."""
        return self.root in self.known and all(folder in self.known for folder in self.roots)

    def look(self) -> None:
        """Finds the repositories of folders that are new. Large ones take some 50 ms."""
        from ebbtide.tools.sandbox.git_metadata import repositories_of  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.mount_paths import make_caches  # noqa: PLC0415  # deferred: as above

        if not self.known:
            make_caches(Path.home())

        for folder in (self.root, *self.roots):
            if folder not in self.known:
                self.known[folder] = repositories_of(folder)

    @property
    def repositories(self) -> tuple[Path, ...]:
        """Those below its folders, as far as they are known."""
        return tuple(
            path for folder in (self.root, *self.roots) if folder in self.known for path in self.known[folder].below
        )

    def _opened_work_trees(self) -> tuple[str, ...]:
        """The linked work trees in its folders that can go, and their metadata."""
        from ebbtide.tools.sandbox.git_metadata import linked_work_trees  # noqa: PLC0415  # deferred: as above

        inside = self._removable(linked_work_trees)
        self.may_go.update({link: metadata.parent.parent for link, metadata in inside.items()})
        return tuple(str(path) for link, metadata in inside.items() for path in (link.parent, metadata))

    def _opened_submodules(self) -> tuple[str, ...]:
        """The work trees of submodules in its folders. Their metadata stay as they are."""
        from ebbtide.tools.sandbox.git_metadata import submodules  # noqa: PLC0415  # deferred: as above

        inside = self._removable(submodules)
        self.may_go.update(inside)
        return tuple(str(link.parent) for link in inside)

    def _removable(self, found_in: Callable[[Path], dict[Path, Path]]) -> dict[Path, Path]:
        """Those of the files found that lie in its folders, and in a work tree that is none of these folders."""
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
        """What a command that is started now may do. Raises `OSError`."""
        from ebbtide.tools.sandbox.boundary import Boundary, Network, without_writing  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.mount_paths import places_of, settings_copies  # noqa: PLC0415  # deferred: as above
        from ebbtide.tools.sandbox.network import TUNNEL  # noqa: PLC0415  # deferred: as above

        self.look()
        self.remove_unwanted()  # a command in the background may have made it
        self.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Where this program lies in /tmp, the sandbox has its own there: Git's way to a host is shown on its own.
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
    """The command with what has it ask about renamed files, and the descriptor that it asks by; the same command where
    there are no settings to be written."""
    from ebbtide.tools.sandbox import rename_program  # noqa: PLC0415  # deferred: few commands change settings
    from ebbtide.tools.sandbox.renames import answer_renames  # noqa: PLC0415  # deferred: as above
    from ebbtide.tools.sandbox.system_calls import asks_about_renames, renames_of  # noqa: PLC0415  # deferred: as above

    if not settings.watch(boundary):
        return tuple(argv), ()
    machine = os.uname().machine
    asks = answer_renames(settings.rename, settings.names, renames_of(machine))
    source = Path(rename_program.__file__).read_text()  # the file may lie where the sandbox has another folder
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
    from ebbtide.tools.sandbox.landlock import command_line, ruleset_of  # noqa: PLC0415  # deferred: where bubblewrap is missing
    from ebbtide.tools.sandbox.system_calls import system_call_filter  # noqa: PLC0415  # deferred: as above

    calls = system_call_filter(os.uname().machine, "local" if boundary.network == "open" else "none")
    ruleset = ruleset_of(boundary.places, boundary.scratch)
    return Launch(command_line(ruleset, calls, argv), environment, (ruleset,), is_confined=True)


def _temporary_folder_variables(boundary: "Boundary") -> dict[str, str]:
    """Variables by which commands find the folder for temporary files, and in it npm its settings, where no file can
    be shown in the place of another one. Raises `OSError`."""
    from ebbtide.tools.secrets.registry_settings import NPM  # noqa: PLC0415  # deferred: where bubblewrap is missing

    variables = {"TMPDIR": boundary.scratch}
    copy = next((copy for copy in boundary.copies.values() if copy.name == NPM), None)
    if copy is not None:
        made, place = (os.path.join(boundary.scratch, name) for name in (secrets.token_hex(8), NPM))
        Path(made).write_text(copy.text)
        os.replace(made, place)  # commands can make a link of that name, which is not followed
        variables["npm_config_userconfig"] = place
    return variables


def _remove(path: Path) -> None:
    """Also out of a folder that a command has closed, and where it has closed what is in there: that gets another name
    then, for to open it would follow links. Raises `OSError`."""
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    path.parent.chmod(mode | stat.S_IRWXU)
    try:
        path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
    except PermissionError:
        path.rename(path.with_name(f"{path.name}-{secrets.token_hex(4)}"))
    finally:
        path.parent.chmod(mode)


def inside(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command without what leads to places that it does not see."""
    return {name: value for name, value in environment.items() if name not in _OUTSIDE_ONLY}


def _set_inside(
    environment: Mapping[str, str], argv: Sequence[str], folder: Path
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment without what has programs load something before they begin, and the command with that: what puts
    up the sandbox runs outside of it, and the folders that are named may be ones that commands write. The name that
    the user has for the folder, over a link, would be lost on the way, too. Of a locale that is not installed each
    shell on the way would warn as well."""
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
    if "=" in argv[0]:  # `env` would take it for a variable
        return kept, (shell(), "-c", _SETS, "sh", *assignments, "--", *argv)
    return kept, ("/usr/bin/env", *assignments, *argv)


_LOADING = ("LD_", "DYLD_", "GCONV_PATH", "LOCPATH", "GLIBC_TUNABLES")
"""How names of such variables begin."""
_INSTALLED_LOCALES = frozenset(("", "C", "POSIX", "C.UTF-8", "C.utf8"))
"""Those that every system has."""
_SETS = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"'
_TAKES_TERMINAL = (
    os.path.realpath(sys.executable), "-I", "-S", "-c",
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "given = open('/proc/self/environ', 'rb').read().split(bytes(1)); "
    "os.execve(sys.argv[1], sys.argv[1:], dict(line.split(b'=', 1) for line in given if b'=' in line))",
)  # fmt: skip
"""Its keys would end bubblewrap, were that in the foreground of the terminal. So the command leads a session of its
own, and the terminal belongs to that. The interpreter itself, since an environment for it may lie in /tmp."""
