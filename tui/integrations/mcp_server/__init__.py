"""`ebb mcp serve`: an MCP server on stdin and stdout that lets other agents recall sessions and run tasks. It does not
import Textual."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.integrations.mcp_server import definitions as definitions
    from ebbtide.tui.integrations.mcp_server import server as server
else:
    __getattr__ = lazy_submodules(__name__)
