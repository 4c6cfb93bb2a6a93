"""The boundary of a command: what it may write, see and reach. Every kind of sandbox is built from it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.registry_settings import SettingsCopy

Access: TypeAlias = Literal["write", "read", "hidden folder", "hidden file"]
"""A hidden place appears empty and cannot be written to. It need not exist."""

SandboxKind: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt"]
SandboxState: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "none", "off"]
"""The active kind of sandbox: "none" if there is none, "off" if the user disabled it."""

Network: TypeAlias = Literal["open", "proxy", "none"]
"""Open: every address; proxy: the session's proxy and servers of its other commands; none: nothing."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Places with restricted or extended access. The rest of the file system is readable."""

    places: Mapping[str, Access]
    """Absolute resolved paths. The deepest one that contains a path applies."""
    scratch: str
    """The folder mounted as /tmp."""
    network: Network
    kind: SandboxKind = "bubblewrap"
    """The kind of sandbox that enforces it."""
    copies: Mapping[str, SettingsCopy] = field(default_factory=dict)
    """Replacements for some hidden files: their settings without secrets."""

    def access_to(self, path: str) -> Access:
        """Return the access to an absolute resolved path."""
        while path not in self.places and path != "/":
            path = path.rpartition("/")[0] or "/"
        return self.places.get(path, "read")


def without_writing(places: Mapping[str, Access]) -> dict[str, Access]:
    """Return the same places without write access."""
    return {path: "read" if access == "write" else access for path, access in places.items()}
