"""What the user has allowed of a project's servers: a file that only its owner can read. It knows digests, not what
they are of; what cannot be read was not allowed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from agent.config.per_project import alone_with
from agent.errors import ConfigError
from tools.base import ToolError
from tools.bounded_files import LARGEST, beginning_of
from tools.files import write_bytes

Verdict: TypeAlias = Literal["approved", "refused"]


@dataclass(frozen=True, slots=True)
class ServerApproval:
    """What the user said of one server."""

    digest: str
    """Of the declaration that the user saw."""
    verdict: Verdict
    tools: Mapping[str, str] = field(default_factory=dict)
    """Of the tools that the model may be offered: the digest of each by the server's own name."""


class Approvals:
    """Those of one project."""

    def __init__(self, path: Path, project: Path) -> None:
        self._path = path
        self._project = str(project)

    def of(self, server: str, digest: str) -> ServerApproval | None:
        """What the user said of this declaration; of another one of the same name nothing is known."""
        found = _decoded(self._read().get(self._project, {}).get(server))
        return found if found is not None and found.digest == digest else None

    def is_known(self, server: str) -> bool:
        """Whether the user has approved another declaration of that name."""
        found = _decoded(self._read().get(self._project, {}).get(server))
        return found is not None and found.verdict == "approved"

    def decide(self, server: str, digest: str, verdict: Verdict) -> None:
        """Keeps what the user says of a declaration. Raises `ConfigError` when that cannot be written."""
        kept = self.of(server, digest) or ServerApproval(digest, verdict)
        self._keep(server, replace(kept, verdict=verdict))

    def allow_tools(self, server: str, digest: str, tools: Mapping[str, str]) -> None:
        """Keeps that the model may be offered these tools, and no others of the server. Raises `ConfigError`."""
        self._keep(server, ServerApproval(digest, "approved", tools))

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            content = json.loads(beginning_of(self._path, LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        projects = content.get("projects") if isinstance(content, dict) else None
        if not isinstance(projects, dict):
            return {}
        return {str(name): servers for name, servers in projects.items() if isinstance(servers, dict)}

    def _keep(self, server: str, approval: ServerApproval) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone_with(self._path):
                content = self._read()
                content.setdefault(self._project, {})[server] = asdict(approval)
                write_bytes(self._path.resolve(), json.dumps({"projects": content}, indent=1).encode(), 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write `{self._path}`: {error.strerror or error}") from error
        except ToolError as error:
            raise ConfigError(str(error)) from error


def _decoded(entry: object) -> ServerApproval | None:
    match entry:
        case {"digest": str(digest), "verdict": "approved" | "refused" as verdict, "tools": dict(tools)} if all(
            isinstance(tool, str) for tool in tools.values()
        ):
            return ServerApproval(digest, verdict, tools)
        case _:
            return None
