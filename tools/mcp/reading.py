"""A tool for the resources of one server: it lists them, and reads one. It knows no protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tools.base import Arguments, Result, Workspace
from tools.extent import counted
from tools.mcp.spec import ServerSpec
from tools.mcp.state import Resource, ServerState
from tools.mcp.texts import one_line
from tools.mcp.tool import ServerTool
from tools.schema import object_of, text


class ResourceServer(Protocol):
    """A server, as far as it has resources."""

    @property
    def spec(self) -> ServerSpec: ...

    @property
    def state(self) -> ServerState: ...

    async def read_resource(self, uri: str) -> Result:
        """What is in a resource. Raises `ToolError`."""
        ...


@dataclass(frozen=True, slots=True)
class ReadResource(ServerTool):
    """Two are equal when the model would see no difference."""

    name: str
    """`mcp__SERVER__read_resource`."""
    description: str
    library: ResourceServer = field(compare=False, repr=False)

    @property
    def original(self) -> str:
        return "read_resource"

    @property
    def schema(self) -> Mapping[str, object]:
        return object_of({"uri": {"type": "string"}}, required=())

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        uri = text(arguments, "uri", "")
        return await self.library.read_resource(uri) if uri else Result(listed(self.library.state))


def reader_of(library: ResourceServer) -> ReadResource:
    """The tool for a server's resources. Its text does not say which there are: they change, and it must not."""
    label = library.spec.label
    description = (
        f"Reads a resource of the server `{label}` by its URI. Without a URI it lists the resources there are."
    )
    return ReadResource(f"mcp__{library.spec.prefix}__read_resource", description, library)


def listed(state: ServerState) -> str:
    """The resources of a server and the patterns of their addresses, a line each."""
    lines = [_line(each) for each in (*state.resources, *state.listing.templates)]
    return "\n".join(lines) or "there are no resources"


def _line(resource: Resource) -> str:
    size = counted(resource.size, "byte") if resource.size is not None else ""
    about = ", ".join(filter(None, (resource.name, resource.media_type, size)))
    said = f": {one_line(resource.description)}" if resource.description else ""
    return f"{resource.uri}  ({about}){said}"
