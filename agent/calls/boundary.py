"""What a session's commands and file tools may reach. The user can change it during the session by adding folders
that count as working folders, for the policy and the sandbox alike."""

from dataclasses import replace
from pathlib import Path

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.boundary import Boundary, SandboxState
from ebbtide.tools.sandbox.system import NoSandbox, found_sandbox, sandbox_kind


@dataclass(frozen=True, slots=True)
class SessionBoundary:
    """The boundary of one session."""

    approval: Approver
    workspace: Workspace

    @property
    def state(self) -> SandboxState:
        """The kind of sandbox for the model's commands. The first check takes about 10 ms."""
        return "off" if self.workspace.sandbox is None else sandbox_kind()

    @property
    def note(self) -> str:
        """A note about the sandbox, or why there is none."""
        if self.workspace.sandbox is None:
            return ""
        found = found_sandbox()
        return found.why if isinstance(found, NoSandbox) else found.note

    def limits(self) -> Boundary | None:
        """The limits of a command started now in the current mode; None if there is no sandbox. Raises `OSError`."""
        sandbox = self.workspace.sandbox
        if sandbox is None or isinstance(found_sandbox(), NoSandbox):
            return None
        limits = sandbox.boundary(may_write=self.approval.policy.mode != "plan")
        return limits if sandbox.network is None or sandbox.has_network else replace(limits, network="proxy")

    @property
    def folders(self) -> tuple[str, ...]:
        """The additional folders."""
        return self.approval.policy.roots

    def add(self, written: str) -> Path:
        """Add a folder, as written in a prompt, for the rest of this run. Raises `ConfigError`."""
        folder = self._resolve_folder(written)
        sandbox = self.workspace.sandbox
        if not folder.is_dir():
            raise ConfigError(f"there is no folder `{folder}`")
        if any(folder.is_relative_to(each) for each in (self.workspace.root, *map(Path, self.folders))):
            raise ConfigError(f"`{folder}` is already part of this session")
        ours = sandbox.ours if sandbox is not None else ()
        if any(folder.is_relative_to(each.resolve()) or each.resolve().is_relative_to(folder) for each in ours):
            raise ConfigError(f"`{folder}` contains this program's own files, which no session may change")
        self.approval.roots.append(folder)
        self._apply()
        if sandbox is not None:
            sandbox.look()
        return folder

    def remove(self, written: str) -> Path:
        """Remove an additional folder. Raises `ConfigError`."""
        folder = self._resolve_folder(written)
        if str(folder) not in self.folders:
            raise ConfigError(f"`{folder}` is not one of the added folders; `/add-dir` lists them")
        self.approval.roots.remove(folder)
        self._apply()
        return folder

    def _resolve_folder(self, written: str) -> Path:
        try:
            return (self.workspace.root / Path(written.strip()).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(f"`{written.strip()}` is not a folder: {error}") from error

    def _apply(self) -> None:
        self.approval.policy = replace(self.approval.policy, roots=tuple(map(str, self.approval.roots)))
