"""`ebb acp`: sessions for editors, using the Agent Client Protocol over stdin and stdout. Only this folder imports the
protocol's library."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.integrations.acp import server as server
else:
    __getattr__ = lazy_submodules(__name__)
