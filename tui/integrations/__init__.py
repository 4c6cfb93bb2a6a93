"""Optional features of the command line, one folder each, with rows in `ebbtide.tui.integration_registry`. No other
code imports them, so any folder can be deleted. `line_transport` exchanges messages as lines. It is shared by the
folders that serve other programs."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.integrations import line_transport as line_transport
else:
    __getattr__ = lazy_submodules(__name__)
