"""Web access: allowed addresses, and pages fetched within limits."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.web import addresses as addresses
    from ebbtide.tools.web import charset as charset
    from ebbtide.tools.web import fetch as fetch
else:
    __getattr__ = lazy_submodules(__name__)
