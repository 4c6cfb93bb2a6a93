"""Optional parts of the command line, one folder each, with rows in `ebbtide.tui.integration_registry`. No other code
imports them, so each folder can be deleted. `line_transport` is shared by the folders that serve other programs; it
exchanges messages as lines."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.integrations import line_transport as line_transport
else:
    __getattr__ = lazy_submodules(__name__)
