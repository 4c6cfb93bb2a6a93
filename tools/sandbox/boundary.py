"""The boundary of a command: what it can write, see and reach. All kinds of sandbox are built from it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.registry_settings import SettingsCopy

PathAccess: TypeAlias = Literal["write", "read", "hidden folder", "hidden file", "locked file"]
"""A hidden path appears empty and cannot be written to; it need not exist. A locked file is visible but cannot be
opened."""

SandboxKind: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt"]
SandboxState: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "none", "off"]
"""The active kind of sandbox. `none`: the system has none. `off`: the user has disabled it."""

NetworkMode: TypeAlias = Literal["open", "proxy", "none"]
"""What a command can reach. `open`: every address. `proxy`: the session's proxy, and servers that the session's other
commands started. `none`: nothing."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The paths to which access is restricted or extended, and the network access. All other files are readable."""

    access_by_path: Mapping[str, PathAccess]
    """Access by absolute resolved path. For a file, the deepest of the paths that contain it applies."""
    temp_folder: str
    """The folder that is mounted as /tmp."""
    network: NetworkMode
    kind: SandboxKind = "bubblewrap"
    """The kind of sandbox that enforces the boundary."""
    settings_copies: Mapping[str, SettingsCopy] = field(default_factory=dict)
    """Replacements for some hidden files. They contain the settings, but no secrets."""

    @property
    def is_read_only(self) -> bool:
        """Whether the command is only allowed to read. It then sees only the listed paths, cannot write anywhere (not
        even to /tmp), and cannot open a socket."""
        return self.access_by_path.get("/") == "hidden folder"

    def access_to(self, path: str) -> PathAccess:
        """Return the access that the command has to an absolute resolved path."""
        while path not in self.access_by_path and path != "/":
            path = path.rpartition("/")[0] or "/"
        return self.access_by_path.get(path, "read")


def without_write_access(access_by_path: Mapping[str, PathAccess]) -> dict[str, PathAccess]:
    """Return the same paths, with write access reduced to read access."""
    return {path: "read" if access == "write" else access for path, access in access_by_path.items()}
