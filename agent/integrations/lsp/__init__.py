"""A session's language servers: finding them, checking trust in them, and reporting diagnostics after edits."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.integrations.lsp import server_detection as server_detection
else:
    __getattr__ = lazy_submodules(__name__)
