"""The client for MCP servers, which communicate over standard input and output or HTTP."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.integrations.mcp import connection as connection
else:
    __getattr__ = lazy_submodules(__name__)
