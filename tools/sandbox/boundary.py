"""What a command may write, see and reach: the value that each kind of sandbox is made from."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.registry_settings import SettingsCopy

Access: TypeAlias = Literal["write", "read", "hidden folder", "hidden file"]
"""A hidden place is empty in the sandbox, and nothing can be written there; it may be one that does not exist."""

SandboxKind: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt"]
SandboxState: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "none", "off"]
"""What holds commands: nothing where there is no sandbox, or where the user wants none."""

Network: TypeAlias = Literal["open", "proxy", "none"]
"""Every address can be reached; or the proxy of the session, and what its other commands serve; or nothing."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Everything else of the file system can be read."""

    places: Mapping[str, Access]
    """Absolute resolved paths. The deepest that a path lies in decides."""
    scratch: str
    """The folder that stands for /tmp."""
    network: Network
    kind: SandboxKind = "bubblewrap"
    """What holds it."""
    copies: Mapping[str, SettingsCopy] = field(default_factory=dict)
    """What commands see in the place of some of the hidden files: their settings without secrets."""

    def access_to(self, path: str) -> Access:
        """What may be done at an absolute resolved path."""
        while path not in self.places and path != "/":
            path = path.rpartition("/")[0] or "/"
        return self.places.get(path, "read")


def without_writing(places: Mapping[str, Access]) -> dict[str, Access]:
    """The same places where a command may only look."""
    return {path: "read" if access == "write" else access for path, access in places.items()}
