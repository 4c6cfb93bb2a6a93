"""A session's MCP servers: declarations, approval, running servers and their requests to the user."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.integrations.mcp import running_servers as running_servers
else:
    __getattr__ = lazy_submodules(__name__)
