"""The limits on what a session's commands and file tools may access. The user can add folders during the session; both
policy and sandbox treat them like the working folder."""

from dataclasses import replace
from pathlib import Path

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.boundary import Boundary, SandboxState
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox, sandbox_kind


@dataclass(frozen=True, slots=True)
class SessionBoundary:
    """The limits of one session, which depend on its sandbox, mode and added folders."""

    approver: Approver
    workspace: Workspace

    @property
    def sandbox_state(self) -> SandboxState:
        """The state of the sandbox for the model's commands. The first check takes about 10 ms."""
        return "off" if self.workspace.sandbox is None else sandbox_kind()

    @property
    def sandbox_note(self) -> str:
        """A note about the sandbox, or the reason why it is unavailable; empty if it is off."""
        if self.workspace.sandbox is None:
            return ""
        sandbox = detect_sandbox()
        return sandbox.problem if isinstance(sandbox, NoSandbox) else sandbox.note

    def current_boundary(self) -> Boundary | None:
        """Return the limits for a command started now, in the current mode; None if there is no sandbox. Raises
        `OSError`."""
        sandbox = self.workspace.sandbox
        if sandbox is None or isinstance(detect_sandbox(), NoSandbox):
            return None
        limits = sandbox.boundary(may_write=self.approver.policy.mode != "plan")
        return limits if sandbox.network is None or sandbox.has_network else replace(limits, network="proxy")

    @property
    def added_folders(self) -> tuple[str, ...]:
        """The folders that the user added, as absolute paths."""
        return self.approver.policy.added_folders

    def add_folder(self, typed_path: str) -> Path:
        """Add a folder for the rest of this run. `typed_path`: the path as the user typed it. Raises `ConfigError`."""
        folder = self._resolve_folder(typed_path)
        sandbox = self.workspace.sandbox
        if not folder.is_dir():
            raise ConfigError(f"there is no folder `{folder}`")
        session_folders = (self.workspace.root, *map(Path, self.added_folders))
        if any(folder.is_relative_to(session_folder) for session_folder in session_folders):
            raise ConfigError(f"`{folder}` is already part of this session")
        program_folders = sandbox.own_folders if sandbox is not None else ()
        if any(
            folder.is_relative_to(program_folder.resolve()) or program_folder.resolve().is_relative_to(folder)
            for program_folder in program_folders
        ):
            raise ConfigError(f"`{folder}` contains this program's own files, which no session may change")
        self.approver.added_folders.append(folder)
        self._update_policy()
        if sandbox is not None:
            sandbox.find_repositories()
        return folder

    def remove_folder(self, typed_path: str) -> Path:
        """Remove an additional folder. Raises `ConfigError`."""
        folder = self._resolve_folder(typed_path)
        if str(folder) not in self.added_folders:
            raise ConfigError(f"`{folder}` is not one of the added folders; `/add-dir` lists them")
        self.approver.added_folders.remove(folder)
        self._update_policy()
        return folder

    def _resolve_folder(self, typed_path: str) -> Path:
        try:
            return (self.workspace.root / Path(typed_path.strip()).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(f"`{typed_path.strip()}` is not a folder: {error}") from error

    def _update_policy(self) -> None:
        self.approver.policy = replace(self.approver.policy, added_folders=tuple(map(str, self.approver.added_folders)))
